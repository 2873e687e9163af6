"""Advice on a run that can be read from its journal: one sentence for each thing that a teacher would point at.

Each rule says nothing rather than something wrong: it wants enough steps, and a difference well above the noise of the
batches. Thresholds name their source, or the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_gui.study.machine import machine_findings
from clew_gui.study.rate_range import rate_test
from clew_shared.cards import MetricSpec
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import spec_of

LOSS = "loss"
_LEAST_STEPS = 40
"""Number of steps below which a mean says little about the noise: four quarters of ten steps."""
_SURE = 4.0
"""Number of standard errors from which a difference of means counts: with the neighbouring steps of a run, which are
not independent, fewer happen by chance."""
_GREW = 4.0
"""The multiple of its lowest value from which Fast.ai's learning-rate finder takes a loss for divergence (Smith
2017)."""
_STUCK = 0.1
"""A flat loss that came down by less than this share of its first value has learned next to nothing."""
_SLOW = 0.3
"""A loss that still falls evenly and came down by less than this share has most of its way before it."""
_FLAT = 0.005
"""A loss that falls by less than this share of its first value in a quarter of the run needs hundreds of runs more."""
_HIGH = 0.1
"""The share of the first loss from which a plateau is worth a word; below, the run has just learned what there is."""
_LOST_QUALITY = 0.2
"""Prechelt (1998) stops early where the validation error is 1 to 5 % above its lowest; small sets vary by more."""
_GAP = 0.1
"""Training accuracy less validation accuracy: beyond it people speak of overfitting; chance gives 1 to 3 points."""
_LARGE_BATCH = 0.1
"""A tenth of the training set is what Keskar et al. (2017) call a large batch, which generalises worse."""
_LARGE_GAP = 0.05
_LEARNED = 0.9
"""Training accuracy below which the two sets are not compared: the run has not learned its own images yet."""
_CHANCE = 0.02
"""A loss that is nearer than this to the logarithm of a number of classes is that of a guess among them."""
_MOST_CLASSES = 1000
_WILD = 0.6
"""The share of the loss by which batches differ so much that no step can be told from chance."""
_FELL = 0.05
"""The difference by which an accuracy on a held-out set must be below its best, twice in a row, to have fallen; chance
moves it by less."""
_SETS = ("validation", "test")

Values = NDArray[np.floating[Any]]


class Advice(NamedTuple):
    """A sentence with what to try, and the step that it is about. ``kind`` names the rule."""

    kind: str
    step: int
    text: str


def advise(history: History) -> tuple[Advice, ...]:
    """Returns the advice on a run, the most serious first; on a run that is still training only that it diverges.

    Of a replay no more is said either; of a learning-rate range test nothing: its loss is to grow in the end.
    """
    if rate_test(history):
        return ()
    found = tuple(_diverged(history))
    if found or not history.fold.done or history.fold.state is RunState.LOST or history.fold.replay_of:
        return found
    return tuple(advice for rule in _RULES for advice in rule(history))


def _diverged(history: History) -> Iterator[Advice]:
    step = history.first_nonfinite.get(LOSS)
    if step is not None:
        text = f"The loss diverged at step {step:,}: try a learning rate ten times smaller."
        yield Advice("divergence", step, text)


class _Quarters(NamedTuple):
    """The loss in four stretches of equal length: the mean of each, the standard error of such a mean, its first value
    (a mean of a few steps), where each begins, and the values of the last."""

    means: tuple[float, ...]
    error: float
    first: float
    steps: tuple[int, ...]
    end: Values


def _quarters(history: History) -> _Quarters | None:
    column = history.column(LOSS)
    spec = history.metrics.get(LOSS)
    if len(column.steps) < _LEAST_STEPS or spec is None or not spec.per_step or not np.isfinite(column.values).all():
        return None
    parts, places = np.array_split(column.values, 4), np.array_split(column.steps, 4)
    end = np.asarray(parts[-1], np.float64)
    # The differences of neighbours hold the noise of the batches and next to nothing of the trend.
    noise = float(np.std(np.diff(end))) / 2**0.5
    first = float(np.mean(column.values[: max(1, len(column.values) // 100)], dtype=np.float64))
    means = tuple(float(np.mean(part, dtype=np.float64)) for part in parts)
    return _Quarters(means, noise / len(end) ** 0.5, first, tuple(int(place[0]) for place in places), end)


def _rate(found: _Quarters) -> Iterator[Advice]:
    """Judges the rate: too large where the loss ends far above its lowest or its first value; too small where it
    creeps."""
    if found.first <= 0:
        return
    lowest, last, sure = min(found.means), found.means[-1], _SURE * found.error
    if last > max(found.first, _GREW * lowest) + sure and last > lowest + sure:
        step = found.steps[found.means.index(lowest)]
        text = f"The loss grew after step {step:,} instead of falling: try a smaller learning rate."
        yield Advice("rate-large", step, text)
        return
    drops = [before - after for before, after in zip(found.means, found.means[1:], strict=False)]
    falls = all(drop > sure for drop in drops) and drops[-1] > 0.5 * drops[0]
    if falls and 1 - last / found.first < _SLOW:
        share = 100 * (1 - last / found.first)
        text = f"The loss fell by {share:.2g} % and still falls evenly: try a larger learning rate, or more steps."
        yield Advice("rate-small", found.steps[-1], text)


def _plateau(found: _Quarters) -> Iterator[Advice]:
    if found.first <= 0:
        return
    *_, third, last = found.means
    flat = max(abs(third - last), found.error) < _FLAT * found.first
    if not flat or last < _HIGH * found.first or last > found.first * (1 + _FLAT):
        return
    if last > (1 - _STUCK) * found.first:
        hint = "try another learning rate, activation or starting point"
        text = f"The loss has hardly come down from where it began: {hint}."
        yield Advice("plateau", found.steps[0], text)
    elif abs(found.means[1] - last) < _FLAT * found.first:
        step = found.steps[1]
        text = f"The loss has hardly moved since step {step:,}: more steps will not help; try another rate or network."
        yield Advice("plateau", step, text)


def _chance(found: _Quarters, history: History) -> Iterator[Advice]:
    """Checks whether loss and accuracy are those of a network that guesses, whatever the loss began with."""
    accuracy = history.column("accuracy").values
    if len(accuracy) < _LEAST_STEPS:
        return
    *_, third, last = found.means
    classes = round(math.exp(min(last, 10.0)))
    right = float(np.mean(accuracy[-len(accuracy) // 4 :]))
    level = math.log(max(classes, 1))
    if 2 <= classes <= _MOST_CLASSES and max(abs(third - level), abs(last - level)) < _CHANCE and right < 1.5 / classes:
        text = (
            f"The loss stays at {last:.3g}, the logarithm of {classes}: the network guesses among {classes} classes; "
            "try another learning rate, activation or size of the initial weights."
        )
        yield Advice("chance", found.steps[2], text)


def _noise(found: _Quarters) -> Iterator[Advice]:
    """Checks whether the mean stays and the batches differ wildly: the steps are then too long for the gradients of
    such batches."""
    if found.first <= 0:
        return
    *_, third, last = found.means
    # The median is blind to single bad steps; 1.48 of it is the deviation of normal noise.
    spread = 1.48 * float(np.median(np.abs(np.diff(found.end)))) / 2**0.5
    flat = abs(third - last) < _SURE * found.error
    if flat and last > _HIGH * found.first and spread > _WILD * last:
        text = (
            f"From batch to batch the loss changes by {spread:.2g}, around a mean of {last:.2g} that no longer falls: "
            "try a smaller learning rate, or a larger batch."
        )
        yield Advice("noise", found.steps[2], text)


def _learning(history: History) -> Iterator[Advice]:
    """Judges the whole loss: whether the network guesses, then its rate, because a loss that creeps is nearly a plateau
    as well, and then noise, which hides one."""
    found = _quarters(history)
    if found is not None:
        yield from tuple(_chance(found, history)) or tuple(_rate(found)) or tuple(_noise(found)) or _plateau(found)


class _Pair(NamedTuple):
    """The accuracy in training at the end, and on a set held out: steps and values of all its evaluations."""

    trained: float
    name: str
    steps: NDArray[np.int64]
    held_out: Values


def _accuracies(history: History) -> _Pair | None:
    trained = history.column("accuracy").values
    for name in _SETS:
        column = history.column(f"{name}_accuracy")
        if len(column.values) and len(trained) >= _LEAST_STEPS:
            return _Pair(float(np.mean(trained[-max(10, len(trained) // 20) :])), name, column.steps, column.values)
    return None


def _overfitting(history: History) -> Iterator[Advice]:
    """Checks whether the error on a held-out set has grown well beyond its lowest, or is far from that in training."""
    for spec in history.metrics.values():
        if not spec.per_step and spec.name in (f"{name}_{LOSS}" for name in _SETS):
            worse = _lost_quality(history, spec)
            if worse is not None:
                yield worse
                return
    pair, batch = _accuracies(history), _batch_share(history)
    fell = _fallen_accuracy(pair) if pair is not None else None
    if fell is not None:
        yield fell
        return
    if pair is None or not pair.trained >= _LEARNED:
        return
    gap, step = pair.trained - float(pair.held_out[-1]), int(pair.steps[-1])
    points = f"{100 * gap:.0f} points below the training accuracy at step {step:,}"
    if batch >= _LARGE_BATCH and gap > _LARGE_GAP:
        text = f"The {pair.name} accuracy is {points}, and a batch is {100 * batch:.0f} % of the training set: "
        yield Advice("batch-large", step, text + "try a smaller batch size.")
    elif gap > _GAP:
        text = f"The {pair.name} accuracy is {points}, so it overfits: try fewer steps, dropout or weight decay."
        yield Advice("overfitting", step, text)


def _fallen_accuracy(pair: _Pair) -> Advice | None:
    values = pair.held_out
    if len(values) < 4 or not np.isfinite(values).all():
        return None
    best = int(np.argmax(values))
    fall, step = float(values[best] - max(values[-2:])), int(pair.steps[best])
    if best >= len(values) - 2 or fall < _FELL:
        return None
    points = f"{100 * fall:.0f} points"
    text = f"The {pair.name} accuracy was highest at step {step:,} and has fallen by {points} since: "
    return Advice("accuracy-fell", step, text + "stop there, or try a smaller learning rate or weight decay.")


def _lost_quality(history: History, spec: MetricSpec) -> Advice | None:
    column = history.column(spec.name)
    values, trained = column.values, _quarters(history)
    if len(values) < 4 or trained is None or not np.isfinite(values).all() or trained.means[-1] > trained.means[-2]:
        return None
    best = int(np.argmin(values))
    lowest, step = float(values[best]), int(column.steps[best])
    # Twice in a row, because one evaluation may be chance.
    if lowest <= 0 or best >= len(values) - 2 or min(values[-2:]) < (1 + _LOST_QUALITY) * lowest:
        return None
    where = f"On the {spec.name.partition('_')[0]} data the loss"
    text = f"{where} was lowest at step {step:,} and has risen since: the run overfits; stop there, or add dropout."
    return Advice("overfitting", step, text)


def _batch_share(history: History) -> float:
    """The share of the training set that one gradient comes from: with local steps, a step has several of them."""
    schema = history.schema
    if schema is None or not schema.samples_per_epoch:
        return 0.0
    spec = spec_of(history)
    local = spec.options.get("local_steps", 1) if spec is not None else 1
    return schema.batch_size / (local if isinstance(local, int) and local > 0 else 1) / schema.samples_per_epoch


def _dead(history: History) -> Iterator[Advice]:
    """Checks for a recorded gradient that is exactly 0 to the end: no batch moves these weights any more."""
    for spec in history.metrics.values():
        values = history.column(spec.name).values if spec.per_step and spec.name.endswith("_gradient") else np.empty(0)
        if len(values) < _LEAST_STEPS or np.any(values[-len(values) // 4 :]):
            continue
        moved = np.flatnonzero(values)
        step = int(history.column(spec.name).steps[moved[-1] + 1]) if len(moved) else 0
        text = (
            f"{spec.label} is 0 from step {step:,} on: these units are dead; try a smaller rate or another activation."
        )
        yield Advice("dead-units", step, text)
        return


def _machine(history: History) -> Iterator[Advice]:
    yield from (Advice(found.kind, history.fold.step, found.text) for found in machine_findings(history))


_RULES: tuple[Callable[[History], Iterator[Advice]], ...] = (_dead, _learning, _overfitting, _machine)
