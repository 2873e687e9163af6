"""What the card of an exercise is made of, each in one call: metrics, plots, choices, goals, presets and races."""

# ruff: noqa: A002 (the names are those of the cards)

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from clew_agent.training.settings import OPTIMIZERS
from clew_shared.cards import Goal, Lane, MetricSpec, PlotSpec, Preset, RaceSpec, Requirement, SeriesPlot
from clew_shared.params import Choice, Knob, Value

Better = Literal["lower", "higher", "none"]

_GROUP: Final = Knob("").group
_NUMBER: Final = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?"
_REACHED: Final = re.compile(
    rf"(?P<best>best )?(?P<metric>\w+) (?P<op>>=|<=|=) (?P<value>{_NUMBER})"
    rf"(?: ± (?P<tolerance>{_NUMBER}))?(?: at step (?P<step>\d+))?(?: on (?P<data>[\w-]+))?"
)


def choices(**labels: str) -> tuple[Choice, ...]:
    """The choices of a ``Knob``: each value with its words for people. A value's hyphens are underscores here."""
    return tuple(Choice(value.replace("_", "-"), label) for value, label in labels.items())


def number(label: str, help: str, least: float, most: float, group: str = _GROUP, **more: Any) -> Knob:
    """A setting from ``least`` to ``most``; ``more`` is what else ``Knob`` can say."""
    return Knob(label, help, group, ge=least, le=most, **more)


def size(label: str, help: str, least: float, most: float, group: str = _GROUP, **more: Any) -> Knob:
    """A setting of which factors matter: the arrow keys multiply it."""
    return number(label, help, least, most, group, log=True, **more)


def share(label: str, help: str, group: str = _GROUP, **more: Any) -> Knob:
    """A setting from 0 to just below 1; ``more`` is what else ``Knob`` can say."""
    return Knob(label, help, group, ge=0, lt=1, **more)


def each_step(name: str, label: str, better: Better = "none", **more: Any) -> MetricSpec:
    """A quantity that is recorded at every step; ``more`` is what else ``MetricSpec`` can say."""
    return MetricSpec(name=name, label=label, better=better, **more)


def at_evaluation(name: str, label: str, better: Better = "none", **more: Any) -> MetricSpec:
    """A quantity that is recorded whenever the model is evaluated, or after each step of a measurement."""
    return MetricSpec(name=name, label=label, per_step=False, better=better, **more)


def plot(id: str, title: str, *metrics: str, **more: Any) -> PlotSpec:
    """A plot of ``metrics`` over the steps; ``more`` is what else ``PlotSpec`` can say."""
    return PlotSpec(id=id, title=title, metrics=metrics, **more)


def lines(id: str, title: str, *series: str, **more: Any) -> SeriesPlot:
    """A plot of measured lines, of all where none is named; ``more`` is what else ``SeriesPlot`` can say."""
    return SeriesPlot(id=id, title=title, series=series, **more)


def at_least(least: float, *values: Value) -> Requirement:
    """A requirement on a number that it is not smaller, or one of ``values``."""
    return Requirement("", values, least=least)


def at_most(most: float) -> Requirement:
    """A requirement on a number that it is not larger."""
    return Requirement("", most=most)


def other_than(*values: Value) -> Requirement:
    """A requirement on a setting that it has none of these values."""
    return Requirement("", other_than=values)


def needs(
    *others: tuple[Requirement, ...], **settings: Value | tuple[Value, ...] | Requirement
) -> tuple[Requirement, ...]:
    """Requirements on settings by name: the value, the values or the bound (``at_least`` and so on) that each must
    have. They follow those of ``others``."""
    return (*(one for other in others for one in other), *(_requirement(*one) for one in settings.items()))


def _requirement(name: str, wanted: Value | tuple[Value, ...] | Requirement) -> Requirement:
    if isinstance(wanted, Requirement):
        return msgspec.structs.replace(wanted, name=name)
    return Requirement(name, wanted if isinstance(wanted, tuple) else (wanted,))


def goal(
    id: str, text: str, reached: str, requires: tuple[Requirement, ...] = (), *, question: int = 0, quiet: bool = False
) -> Goal:
    """A result that the student should reach, with the value that counts in words: ``"loss <= 0.1"``, ``"test_accuracy
    >= 0.9 on mnist"``, ``"accuracy = 0.96 ± 0.007 at step 1000"``, ``"best f_score >= 0.8"``.

    The last value of a run counts, unless its best or that of a step is named, and it holds for all data sets unless
    one is named. ``requires`` are the settings with which it must be reached, ``question`` is the number of the guide's
    question that must have an answer as well. ``quiet``: the value is made of times, so a run beside busy programs does
    not count. Raises ``ValueError`` for words that are none of these.
    """
    found = _REACHED.fullmatch(reached)
    if found is None or (found["op"] == "=") != bool(found["tolerance"]) or (found["best"] and found["step"]):
        example = "'test_accuracy >= 0.9', 'best loss <= 0.1' or 'accuracy = 0.96 ± 0.007 at step 1000'"
        raise ValueError(f"{reached!r} does not say what to reach: write it like {example}")
    which: Literal["last", "best", "at"] = "at" if found["step"] else "best" if found["best"] else "last"
    return Goal(
        id=id,
        text=text,
        metric=found["metric"],
        op="near" if found["op"] == "=" else ">=" if found["op"] == ">=" else "<=",
        value=float(found["value"]),
        tolerance=float(found["tolerance"] or 0),
        which=which,
        step=int(found["step"] or 0),
        data=found["data"] or "",
        requires=requires,
        question=f"{question}" if question else "",
        quiet=quiet,
    )


def preset(
    name: str, title: str, help: str = "", /, *, data: str = "", seed: int | None = None, **values: Value
) -> Preset:
    """Named values for a run: those that differ from the defaults, and the data set and seed where they matter."""
    return Preset(name=name, title=title, values=values, data=data, seed=seed, help=help)


def tiny(**values: Value) -> Preset:
    """The preset that shows in a few seconds that everything works, with the digits that come with Clew."""
    return Preset(name="tiny", title="Tiny", values=values, data="digits", help="The built-in small digits.")


def lane(name: str, /, **values: Value) -> Lane:
    """A participant of a race, with the values in which it differs from the others."""
    return Lane(name=name, values=values)


def race(
    id: str, title: str, metric: str, steps: int, help: str, *lanes: Lane, target: float | None = None
) -> RaceSpec:
    """Runs of ``steps`` steps that differ only in the values of their lanes. ``metric`` decides: the best value, or
    with a ``target`` the fewest steps to it."""
    return RaceSpec(id=id, title=title, lanes=lanes, steps=steps, metric=metric, target=target, help=help)


def optimizer_race(
    steps: int,
    help: str,
    lanes: Sequence[tuple[str, float] | tuple[str, float, str]],
    metric: str = "validation_accuracy",
    target: float | None = None,
) -> RaceSpec:
    """A race of optimizers: each lane is an optimizer, its learning rate and, if the lane has another, its name.

    Raises ``ValueError`` for an optimizer that there is not.
    """
    labels = {one.value: one.label for one in OPTIMIZERS}
    if unknown := [kind for kind, *_ in lanes if kind not in labels]:
        raise ValueError(f"there is no optimizer {unknown[0]!r}; there are {', '.join(labels)}")
    made = (lane(*name or [labels[kind]], optimizer=kind, learning_rate=rate) for kind, rate, *name in lanes)
    return race("optimizers", "Optimizer race", metric, steps, help, *made, target=target)
