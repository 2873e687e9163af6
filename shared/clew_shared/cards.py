"""An exercise as data: what the window and the command line know of it. Made by the agent's catalogue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from clew_shared.base.problem import Problem
from clew_shared.params import ParamSpec, Value


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity that a run records.

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
    """A plot of the stack in the *Run* tab: which metrics share it and how its axis reads.

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
    backward for a negative y, and on nothing for 0. ``bars`` are what to call bars of a positive and of a negative y
    where they are no pieces that go forward and backward.
    """

    id: str
    title: str
    series: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    format: Literal["number", "percent"] = "number"
    form: Literal["lines", "timeline"] = "lines"
    bars: tuple[str, ...] = ()


Every = Literal["evaluation", "epoch"] | int
"""The times at which a picture is due: with each evaluation, after each epoch, or after so many steps."""


class PictureSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that a run takes while it trains. Exercises write one line for each: ``ImageGrid`` and so on, below.

    ``form`` says how it is drawn and what its function returns (``Model.pictures`` in the agent): "images", "scatter",
    "histogram", "matrix", "bars", "plane", "surface" or "distributions"; a window shows the name of one that it does
    not know.
    ``columns`` are the images in a row (0: as many as fit). ``labels`` name classes, rows and columns, or bars; without
    them a gallery, a scatter plot and a confusion matrix take the names that the data set has for its classes. ``x``
    and ``y`` are the range of a plane or a surface. ``answers``: each image
    comes with its class and the model's answer. ``threshold``: values above it are judged to be of class 1; it can be
    moved in the window. Where a run's threshold is the metric ``mean`` and as many standard deviations as the parameter
    ``deviations`` says, the window says how many deviations a moved one is. ``grows``: maps of a plane are drawn as the
    layers of a network; these two parameters are the number of its layers and of the units in each, and a click adds
    or removes one.
    """

    id: str
    title: str
    form: str
    every: Every = "evaluation"
    columns: int = 0
    labels: tuple[str, ...] = ()
    answers: bool = False
    threshold: float | None = None
    log_x: bool = False
    log_y: bool = False
    mean: str = ""
    deviations: str = ""
    x: tuple[float, float] = (-1.0, 1.0)
    y: tuple[float, float] = (-1.0, 1.0)
    grows: tuple[str, ...] = ()


def ImageGrid(id: str, title: str = "", *, columns: int = 0, every: Every = "evaluation") -> PictureSpec:  # noqa: A002, N802
    """Images in rows of ``columns``: float [n, height, width] or [n, height, width, 3], from 0 (black) to 1; with the
    name of a class below each, (images, classes int [n])."""
    return PictureSpec(id=id, title=title or _title(id), form="images", columns=columns, every=every)


def Gallery(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    labels: tuple[str, ...] = (),
    columns: int = 0,
    every: Every = "evaluation",
) -> PictureSpec:
    """Images with the model's answer below each: (images as for ``ImageGrid``, classes int [n], answers int [n])."""
    title = title or _title(id)
    return PictureSpec(id=id, title=title, form="images", columns=columns, labels=labels, answers=True, every=every)


def Scatter(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    labels: tuple[str, ...] = (),
    every: Every = "evaluation",
) -> PictureSpec:
    """Points in the colours of their classes: (points [n, 2], classes int [n])."""
    return PictureSpec(id=id, title=title or _title(id), form="scatter", labels=labels, every=every)


def HistogramPlot(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    threshold: float | None = None,
    labels: tuple[str, ...] = (),
    log_x: bool = False,
    log_y: bool = False,
    mean: str = "",
    deviations: str = "",
    every: Every = "evaluation",
) -> PictureSpec:
    """A histogram of values: values [n], (values [n], classes int [n]), or both and the threshold of that step.

    With a ``threshold``, which can be moved in the window, values above it are judged to be of class 1, and the window
    shows the confusion matrix, precision, recall and F-score, and the ROC and precision-recall curves with their areas.
    It begins at the threshold of the step that is shown. If that is the metric ``mean`` and as many standard deviations
    as the parameter ``deviations`` says, name both.
    """
    return PictureSpec(
        id=id,
        title=title or _title(id),
        form="histogram",
        threshold=threshold,
        labels=labels,
        log_x=log_x,
        log_y=log_y,
        mean=mean,
        deviations=deviations,
        every=every,
    )


def ConfusionMatrix(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    labels: tuple[str, ...] = (),
    every: Every = "evaluation",
) -> PictureSpec:
    """The numbers of samples of each class (row) that got each answer (column): a matrix [classes, classes], or any
    other table."""
    return PictureSpec(id=id, title=title or _title(id), form="matrix", labels=labels, every=every)


def Bars(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    labels: tuple[str, ...] = (),
    log: bool = False,
    every: Every = "evaluation",
) -> PictureSpec:
    """A bar for each label, such as the norm of the gradient of each layer: values [n]."""
    return PictureSpec(id=id, title=title or _title(id), form="bars", labels=labels, log_y=log, every=every)


def Plane(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    x: tuple[float, float] = (-1.0, 1.0),
    y: tuple[float, float] = (-1.0, 1.0),
    labels: tuple[str, ...] = (),
    every: Every = "evaluation",
    grows: tuple[str, ...] = (),
) -> PictureSpec:
    """Functions of two inputs as maps: values [n, height, width], or [rows, columns, height, width] for maps in rows.

    The row of the highest y comes first; values go from 0 (class 0) to 1 (class 1). With (values, points [m, 2],
    classes int [m]) the points are shown over each map. Maps in rows may be the layers of a network: ``grows`` names
    the parameters of how many layers it has, and how many units each of them has.
    """
    _check_ranges(x, y)
    title = title or _title(id)
    return PictureSpec(id=id, title=title, form="plane", x=x, y=y, labels=labels, every=every, grows=grows)


def Surface(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    x: tuple[float, float],
    y: tuple[float, float],
    every: Every = "evaluation",
) -> PictureSpec:
    """A loss over two weights as it is now, with the way that they have come: (losses [rows, columns], the row of the
    lowest y first; where the two weights are [2])."""
    _check_ranges(x, y)
    return PictureSpec(id=id, title=title or _title(id), form="surface", x=x, y=y, every=every)


def Distributions(  # noqa: N802
    id: str,  # noqa: A002
    title: str = "",
    *,
    labels: tuple[str, ...] = (),
    every: Every = "evaluation",
) -> PictureSpec:
    """How values spread over the steps so far, such as the weights of each layer: an array of any shape for each layer,
    as {name: values}, or as a list with ``labels``."""
    return PictureSpec(id=id, title=title or _title(id), form="distributions", labels=labels, every=every)


QUANTILES = (0.0, 0.0228, 0.1587, 0.5, 0.8413, 0.9772, 1.0)
"""What is recorded of a distribution: its ends, its middle, and what is one and two standard deviations from the middle
of a normal one."""

MAX_PREDICTED = 1000
"""Points of a prediction, which a hand draws."""
MAX_PREDICTED_VALUE = 1e300
"""Its largest value: the difference of two, and a hundred times one, are still numbers."""


def is_curve(steps: Sequence[int], values: Sequence[float]) -> bool:
    """Whether these are the points of a prediction: finite values at rising steps."""
    rising = all(before < after for before, after in pairwise(steps)) and min(steps, default=-1) >= 0
    return rising and 2 <= len(steps) == len(values) <= MAX_PREDICTED and all(map(math.isfinite, values))


def has_extent(span: tuple[float, float]) -> bool:
    """Whether an axis can show this range."""
    return 0 < span[1] - span[0] < math.inf


def _check_ranges(*spans: tuple[float, float]) -> None:
    for low, high in spans:
        if not has_extent((low, high)):
            raise ValueError(f"an axis needs a lower end and a higher one, got {low:g} and {high:g}")


def _title(name: str) -> str:
    return name.replace("-", " ").replace("_", " ").capitalize()


class Requirement(msgspec.Struct, frozen=True):
    """A condition of a goal for one setting of a run: one of ``values``, or a number from ``least`` to ``most``, and
    none of ``other_than``.

    ``name`` is a hyperparameter, a setting of the strategy, or ``strategy``, ``devices``, ``nodes`` or ``precision``.
    """

    name: str
    values: tuple[Value, ...] = ()
    least: float | None = None
    most: float | None = None
    other_than: tuple[Value, ...] = ()


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """A result that the student should reach, checked from the journal.

    ``which`` picks the value that counts: the last, the best of the run, or the one at ``step``. ``data`` is the data
    set for which the value was chosen: runs on another one are not judged by it. Empty: it holds for every data set.
    ``requires`` are the settings with which the value must be reached: without them a smaller problem, or a part that
    is switched off, would do (``clew_shared.goal_settings``). ``question`` is one of the guide's, in its words, that
    must have an answer as well: for values that a run reaches without any thought. ``quiet``: the value is made of
    times, so a run beside which other programs used much of the processor reaches nothing.
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
    data: str = ""
    requires: tuple[Requirement, ...] = ()
    question: str = ""
    quiet: bool = False


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


class ByHand(msgspec.Struct, frozen=True, kw_only=True):
    """A network whose training steps can be gone through number by number (``clew_gui.study.by_hand``).

    ``weights`` are nine: of two hidden units and of the one that answers, each those of its two inputs and its offset.
    ``points`` (x, y, class) are used in turn.
    """

    weights: tuple[float, ...]
    points: tuple[tuple[float, float, int], ...]
    rate: float

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for another number of weights, or no point."""
        if len(self.weights) != 9 or not self.points:
            raise ValueError(f"nine weights and a point are needed, not {len(self.weights)} and {len(self.points)}")


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """A participant of a race: its name, and the values in which it differs from the others."""

    name: str
    values: dict[str, Value]


class RaceSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Runs with the same start, data, order of batches and number of ``steps`` that differ in their lane's values only.

    ``metric`` decides. With a ``target`` the lane that gets there in the fewest steps wins; the lanes that do not get
    there, and all without a target, are ranked by their best value.
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
    ``roles`` are those of a run's processes where workers take batches by themselves and others hold the weights; empty
    where all do the same in step.
    """

    id: str
    title: str
    devices: tuple[int, ...] = (1,)
    help: str = ""
    params: tuple[ParamSpec, ...] = ()
    nodes: bool = False
    roles: tuple[str, ...] = ()


class ExerciseCard(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a viewer needs to offer, explain and draw an exercise without importing it.

    ``guide`` is Markdown; a quoted paragraph that begins with ``> **Hint: title**`` unfolds on request. ``source`` is
    the text of the very file that runs and ``source_hash`` its SHA-256. Runs of one ``revision`` go on with any file of
    that revision (``revisions``); 0: with the very same file only. ``datasets`` are the accepted data sets, the default
    first; empty when the exercise needs none. ``tries`` says what a trained run can be asked: "classes", the
    probabilities of an image's classes; "code", what an image is encoded as and what is decoded from a code; empty for
    nothing. ``plays``: it is small enough to be trained again after each change. A file that cannot be imported becomes
    a card with ``problem``.
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
    pictures: tuple[PictureSpec, ...] = ()
    by_hand: ByHand | None = None
    races: tuple[RaceSpec, ...] = ()
    strategies: tuple[StrategyCard, ...] = ()
    datasets: tuple[str, ...] = ()
    order: int = 100
    """The place among exercises of one's own: chapters and exercises with a smaller number come first, then by name."""
    source: str = ""
    source_hash: str = ""
    revision: int = 0
    seedless: tuple[Requirement, ...] = ()
    """Requirements on the settings: when all are met, the seed changes nothing. Empty: the seed matters, as far as is
    known."""
    file: str = ""
    tries: str = ""
    plays: bool = False
    problem: Problem | None = None


class DataSetCard(msgspec.Struct, frozen=True, kw_only=True):
    """A data set that Clew knows by name: what it is called and which files hold it.

    ``files`` are the names to look for in a folder, best first; for a set in several files, one of them is enough.
    ``whole`` are the names of files that hold all of it, ``parts`` those of files that hold some of it and that no
    other set has. A file with one of ``endings`` is taken for this set when no name says otherwise. ``wanted`` says
    which files it needs, and ``published`` where to get them, in words: Clew downloads none. Exercises that take
    the set ``like`` take this one too. A built-in set comes with a Python package: ``packaged`` is its file there,
    ``package`` what pip calls the package.
    """

    name: str
    title: str
    order: int = 100
    """Sets with a smaller number come first, then by name."""
    like: str = ""
    files: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    wanted: str = ""
    published: str = ""
    packaged: str = ""
    package: str = ""

    @property
    def label(self) -> str:
        """The title as a choice: "MNIST", "Digits, built in"."""
        return f"{self.title}, built in" if self.packaged else self.title

    @property
    def in_a_sentence(self) -> str:
        """The title after a verb: "MNIST", "the built-in digits"."""
        return f"the built-in {self.title.lower()}" if self.packaged else self.title

    @property
    def example(self) -> str:
        """Returns an example of a name for a file or folder with this set."""
        return self.whole[0] if self.whole else self.name


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """The cards in the order in which they are shown, with the chapters' order, and the data sets known by name."""

    chapters: tuple[str, ...] = ()
    exercises: tuple[ExerciseCard, ...] = ()
    datasets: tuple[DataSetCard, ...] = ()
    version: str = ""
