"""The data to draw: the runs with their styles, the events, the view, the plots of the stack, and the units of x."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from clew_gui.charts.kit.layout import FloatArray, IntArray
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_gui.study.rate_range import rate_test
from clew_shared.cards import Goal, MetricSpec, PlotSpec
from clew_shared.journal.history import History
from clew_shared.journal.pyramid import index_of

Better = Literal["lower", "higher", "none"]


@dataclass(frozen=True)
class RunStyle:
    """A run that is shown, with its ``params`` and the ``history`` that has its values. ``index`` fixes its colour and
    dash; ``steps`` is how many it is planned to do (0: unknown).

    A ``pinned`` run (the baseline) keeps its place in the gutter and the read-out however many runs are shown. Of one
    that is ``coming`` not all of the journal has been read yet.
    """

    run_id: str
    label: str
    index: int
    selected: bool = False
    live: bool = False
    pinned: bool = False
    stale: bool = False
    steps: int = 0
    coming: bool = False
    history: History = field(default_factory=History)
    params: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class RunEvent:
    """Something that happened to a run at a step, as one short sentence; ``bad`` when it is a failure."""

    run_id: str
    step: float
    text: str
    bad: bool = False


@dataclass(frozen=True)
class Ghost:
    """The curve to be expected: (step, value) pairs and what they are. RunCurve while nothing has run; a prediction is
    drawn beside the result as well (``stays``)."""

    points: tuple[tuple[float, float], ...]
    text: str
    stays: bool = False


@dataclass(frozen=True)
class View:
    """The settings of the view. ``zoom`` is the visible part of x in axis coordinates, None for all of it; ``y_zoom``
    the visible part of the values by plot, if a person chose one; ``whole`` shows all values of the others instead of
    the part worth seeing. ``until`` is the step up to which curves are shown, as they were then; None: as they are
    now."""

    unit: XUnit = XUnit.STEP
    log_x: bool = False
    log_y: bool = True
    smoothing: float = 0.6
    zoom: Span | None = None
    y_zoom: tuple[tuple[str, Span], ...] = ()
    whole: bool = False
    until: int | None = None

    @property
    def is_zoomed(self) -> bool:
        """Whether a part is shown that a person chose."""
        return self.zoom is not None or bool(self.y_zoom)


@dataclass(frozen=True)
class PlotSetup:
    """One plot of the stack, resolved: which metric is labelled, which others accompany it, its goals."""

    id: str
    title: str
    headline: str
    others: tuple[str, ...]
    log: bool
    format: Literal["number", "percent"]
    better: Better
    goals: tuple[Goal, ...]
    labels: tuple[tuple[str, str], ...] = ()
    ghost: Ghost | None = None

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics of the plot, the headline first."""
        return (self.headline, *self.others)

    def label(self, metric: str) -> str:
        """The metric's name for people."""
        return dict(self.labels).get(metric, metric.replace("_", " "))


EXPECTED = "What the slides show"
PREDICTED = "Your prediction"


def resolve_plots(
    plots: Sequence[PlotSpec], goals: Sequence[Goal] = (), metrics: Sequence[MetricSpec] = ()
) -> tuple[PlotSetup, ...]:
    """The plots of an exercise's card, ready to be drawn.

    A plot's labels and marks belong to its headline: the metric that a goal is about, else the plot's first.
    """
    known = {metric.name: metric for metric in metrics}
    return tuple(_resolve(plot, goals, known) for plot in plots)


def _resolve(plot: PlotSpec, goals: Sequence[Goal], known: dict[str, MetricSpec]) -> PlotSetup:
    wanted = [goal.metric for goal in goals if goal.metric in plot.metrics]
    headline = (wanted or list(plot.metrics))[0]
    own = tuple(goal for goal in goals if goal.metric in plot.metrics)
    return PlotSetup(
        id=plot.id,
        title=plot.title,
        headline=headline,
        others=tuple(name for name in plot.metrics if name != headline),
        log=plot.log,
        format=plot.format,
        better=_better(plot, known.get(headline), own),
        goals=own,
        labels=tuple((name, known[name].label) for name in plot.metrics if name in known),
        ghost=Ghost(plot.expected, EXPECTED) if plot.expected else None,
    )


def _better(plot: PlotSpec, metric: MetricSpec | None, goals: Sequence[Goal]) -> Better:
    if metric is not None and metric.better != "none":
        return metric.better
    for goal in goals:
        if goal.op in (">=", "<="):
            return "higher" if goal.op == ">=" else "lower"
    return "lower" if plot.log else "none"


# --- Units of x -------------------------------------------------------------------------------------------------------


def knows(history: History, unit: XUnit) -> bool:
    """Whether a run can be shown against ``unit``."""
    if unit is XUnit.RATE:
        return rate_test(history) is not None and history.fold.steps > 0
    return bool(history.timeline()[0].size) if unit is XUnit.SECONDS else _factor(history, unit) > 0


def from_steps(history: History, steps: FloatArray, unit: XUnit) -> FloatArray:
    """Ascending steps of a run in another unit, which the run must know."""
    if unit is XUnit.RATE and (test := rate_test(history)) is not None:
        return np.asarray(test.low * (test.high / test.low) ** (steps / history.fold.steps), np.float64)
    return _seconds(history, steps) if unit is XUnit.SECONDS else steps * _factor(history, unit)


def to_steps(history: History, x: FloatArray, unit: XUnit) -> FloatArray:
    """The inverse of ``from_steps``."""
    if unit is XUnit.RATE and (test := rate_test(history)) is not None:
        return np.asarray(history.fold.steps * np.log(x / test.low) / math.log(test.high / test.low), np.float64)
    return _steps(history, x) if unit is XUnit.SECONDS else x / _factor(history, unit)


def state_of(history: History, unit: XUnit) -> tuple[float, float]:
    """Returns something that changes when steps of a run are elsewhere in another unit than before."""
    if unit is not XUnit.SECONDS:
        return _factor(history, unit), 0.0
    _, clock = history.timeline()
    return float(clock.size), float(clock[-1]) if clock.size else 0.0


def _factor(history: History, unit: XUnit) -> float:
    schema = history.schema
    if unit is XUnit.STEP or schema is None:
        return float(unit is XUnit.STEP)
    if unit is XUnit.IMAGES:
        return float(schema.batch_size)
    return schema.batch_size / schema.samples_per_epoch if schema.samples_per_epoch else 0.0


# --- Training time ----------------------------------------------------------------------------------------------------
# A point of the timeline is the clock at the end of a step, where the next one begins. There are millions of them, so a
# call looks for the few that it needs: ``np.interp`` would convert them all.


def _seconds(history: History, steps: FloatArray) -> FloatArray:
    """Training seconds at the beginning of ``steps``; after the last known step at the run's mean speed."""
    known, clock = history.timeline()
    ended = steps - 1.0
    after = index_of(known, np.nextafter(ended, np.inf))
    seconds = _between(ended, after, (known[0] - 1.0, known), (_begin(clock), clock))
    seconds += np.maximum(ended - known[-1], 0.0) / _speed(known, clock)
    return np.maximum.accumulate(seconds)  # the clocks of a block and of the next one may disagree by a little


def _steps(history: History, seconds: FloatArray) -> FloatArray:
    known, clock = history.timeline()
    after = np.searchsorted(clock, seconds, side="right")
    steps = _between(seconds, after, (_begin(clock), clock), (known[0] - 1.0, known))
    return np.asarray(steps + np.maximum(seconds - clock[-1], 0.0) * _speed(known, clock) + 1.0, np.float64)


_Beginning = tuple[float, FloatArray | IntArray]
"""A value before the first point of the timeline, and those of its points."""


def _between(at: FloatArray, after: IntArray, x: _Beginning, y: _Beginning) -> FloatArray:
    """The y at each place of x, of which point number ``after`` is the first one behind it."""
    inner, right = np.maximum(after - 1, 0), np.minimum(after, len(x[1]) - 1)
    low_x, low_y = (np.where(after == 0, first, points[inner]) for first, points in (x, y))
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip(np.nan_to_num((at - low_x) / (x[1][right] - low_x)), 0.0, 1.0)
    return np.asarray(low_y + part * (y[1][right] - low_y), np.float64)


def _begin(clock: FloatArray) -> float:
    """The clock at the beginning of the first step: it took as long as the second one."""
    return max(0.0, float(2 * clock[0] - clock[min(1, clock.size - 1)]))


def _speed(known: IntArray, clock: FloatArray) -> float:
    """Steps a second, over the whole run."""
    seconds = float(clock[-1]) - _begin(clock)
    return (float(known[-1] - known[0]) + 1.0) / seconds if seconds > 0 else 1.0
