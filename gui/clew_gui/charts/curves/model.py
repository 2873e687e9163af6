"""The data to draw: the runs with their styles, the events, the view, and the plots of the stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from clew_gui.charts.kit.ticks import Span, XUnit
from clew_shared.cards import Goal, MetricSpec, PlotSpec
from clew_shared.journal.history import History

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
