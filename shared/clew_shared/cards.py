"""An exercise as data: what the window and the command line know of it. Made by the agent's catalogue."""

from __future__ import annotations

from typing import Literal

import msgspec

from clew_shared.base.problem import Problem
from clew_shared.params import ParamSpec, Value


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity that a run records.

    ``per_step`` metrics are in ``Points``, the others in ``Evaluation``. ``dtype`` is how its points are stored
    (little-endian). ``better`` says which way is good, for best-so-far marks.
    """

    name: str
    label: str
    per_step: bool = True
    dtype: Literal["float32", "float64"] = "float32"
    better: Literal["lower", "higher", "none"] = "none"
    format: Literal["number", "percent"] = "number"
    unit: str = ""


class PlotSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One plot of the stack in the *Run* tab: which metrics share it and how its axis reads.

    The first metric is the plot's own; a second (an evaluation of the same quantity) is drawn with point marks.
    """

    id: str
    title: str
    metrics: tuple[str, ...]
    log: bool = False
    format: Literal["number", "percent"] = "number"
    expected: tuple[tuple[float, float], ...] = ()
    """(step, value) pairs of the course's own curve, drawn as a ghost while nothing has run."""


class SeriesPlot(msgspec.Struct, frozen=True, kw_only=True):
    """A plot of measured relations (``Series`` events): one line for each of ``series``, of all when none is named.

    The labels and units of both axes are in the events. ``log_x`` and ``log_y`` choose logarithmic axes.

    In a ``timeline`` each series is a row of bars: from a point's x to the next, the row works on piece number y,
    backward for a negative y, and on nothing for 0.
    """

    id: str
    title: str
    series: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    format: Literal["number", "percent"] = "number"
    form: Literal["lines", "timeline"] = "lines"


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """What the student should reach, checked from the journal.

    ``which`` picks the value that counts: the last, the best of the run, or the one at ``step``.
    """

    id: str
    text: str
    metric: str
    op: Literal[">=", "<=", "near"]
    value: float
    tolerance: float = 0.0
    which: Literal["last", "best", "at"] = "last"
    step: int = 0
    detail: str = ""


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Named values for a run: what differs from the defaults, and the data set and seed when they matter."""

    name: str
    title: str
    values: dict[str, Value] = {}
    data: str = ""
    seed: int | None = None
    help: str = ""


class SurfaceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A loss over two of the recorded metrics, as numbers on a grid: the ground on which the runs' paths are drawn.

    ``metrics`` are the per-step metrics of the two axes, ``x`` and ``y`` the range of each. ``loss`` holds ``rows``
    times ``columns`` float32 (little-endian), the row of the lowest y first and the lowest x first in it. ``metric`` is
    the recorded metric that the heights belong to. ``clew_shared.surface.make_surface`` makes one from a function.
    """

    id: str
    title: str
    metrics: tuple[str, str]
    x: tuple[float, float]
    y: tuple[float, float]
    columns: int
    rows: int
    loss: bytes
    metric: str = "loss"
    minimum: tuple[float, float] | None = None


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One participant of a race: its name, and the values in which it differs from the others."""

    name: str
    values: dict[str, Value]


class RaceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Runs with the same start, data, order of batches and number of ``steps`` that differ in their lane's values only.

    ``metric`` decides. With a ``target`` the lane that gets there in the fewest steps wins; the lanes that do not get
    there, and all without a target, stand by their best value.
    """

    id: str
    title: str
    lanes: tuple[Lane, ...]
    steps: int
    metric: str = "loss"
    target: float | None = None
    help: str = ""


class StrategyCard(msgspec.Struct, frozen=True, kw_only=True):
    """A way to spread an exercise over devices; ``devices`` are the counts that make sense, (1,) for a single one.

    ``params`` are its own hyperparameters (``RunSpec.options``); ``nodes`` says whether it spreads over several nodes.
    """

    id: str
    title: str
    devices: tuple[int, ...] = (1,)
    help: str = ""
    params: tuple[ParamSpec, ...] = ()
    nodes: bool = False


class ExerciseCard(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a viewer needs to offer, explain and draw an exercise without importing it.

    ``guide`` is Markdown; a quoted paragraph that begins with ``> **Hint: title**`` unfolds on request. ``source`` is
    the text of the very file that runs and ``source_hash`` its SHA-256. ``datasets`` are the accepted data sets, the
    default first; empty when the exercise needs none. A file that cannot be imported becomes a card with ``problem``.
    """

    id: str
    title: str
    subtitle: str = ""
    chapter: str = ""
    kind: Literal["training", "measurement", "script"] = "training"
    course: str = ""
    minutes: int = 0
    summary: str = ""
    guide: str = ""
    params: tuple[ParamSpec, ...] = ()
    presets: tuple[Preset, ...] = ()
    baseline: str = ""
    """Name of the preset that is always drawn as baseline; empty for none."""
    metrics: tuple[MetricSpec, ...] = ()
    plots: tuple[PlotSpec, ...] = ()
    goals: tuple[Goal, ...] = ()
    surfaces: tuple[SurfaceSpec, ...] = ()
    measured: tuple[SeriesPlot, ...] = ()
    races: tuple[RaceSpec, ...] = ()
    strategies: tuple[StrategyCard, ...] = ()
    datasets: tuple[str, ...] = ()
    source: str = ""
    source_hash: str = ""
    file: str = ""
    problem: Problem | None = None


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The cards in the order in which they are shown, with the chapters' order."""

    chapters: tuple[str, ...] = ()
    exercises: tuple[ExerciseCard, ...] = ()
    version: str = ""
