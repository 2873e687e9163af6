"""What runs are compared by, and the ranking of the lanes of a race, from the runs' histories alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from clew_shared.cards import ExerciseCard, MetricSpec
from clew_shared.journal.history import History

Better = Literal["lower", "higher"]


def headline_metric(card: ExerciseCard) -> MetricSpec | None:
    """The metric by which runs are compared first: the first goal's if it has a better side, else the last such metric.

    Evaluations come after per-step metrics on a card, and are the fairer measure.
    """
    sided = {spec.name: spec for spec in card.metrics if spec.better != "none"}
    names = (*(goal.metric for goal in card.goals), *reversed(sided))
    return next((sided[name] for name in names if name in sided), None)


def best_of(metric: MetricSpec | None) -> Callable[..., Any]:
    """What finds the best of several values of a metric: ``min`` or ``max``."""
    return min if metric is not None and metric.better == "lower" else max


class Standing(NamedTuple):
    """The state of a lane: the first step at which the target was met (None: not yet), the best value so far, its steps
    done."""

    run: str
    reached: int | None
    best: float | None
    step: int


def stand(run: str, history: History, metric: str, better: Better, target: float | None) -> Standing:
    """Judges the run with this history in ``metric``; values that are no numbers do not count."""
    column = history.column(metric)
    good = np.isfinite(column.values)
    values, steps = column.values[good], column.steps[good]
    if not values.size:
        return Standing(run, None, None, history.fold.step)
    best = float(values.min() if better == "lower" else values.max())
    reached = None
    if target is not None:
        met = values <= target if better == "lower" else values >= target
        reached = int(steps[int(np.argmax(met))]) if met.any() else None
    return Standing(run, reached, best, history.fold.step)


def rank(standings: Iterable[Standing], better: Better) -> tuple[Standing, ...]:
    """The lanes from first to last: fewest steps to the target, then the best value, then those without any value."""
    sign = 1.0 if better == "lower" else -1.0

    def order(one: Standing) -> tuple[float, float]:
        reached = float(one.reached) if one.reached is not None else float("inf")
        return reached, sign * one.best if one.best is not None else float("inf")

    return tuple(sorted(standings, key=order))
