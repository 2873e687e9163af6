"""Pictures of what a model does, taken between blocks: each function is traced once, and what all of them may cost is
bounded in time and in bytes.
"""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from clew_agent.engine.course import Course
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import QUANTILES, PictureSpec
from clew_shared.journal.events import Event, Histogram, Image, Log, Matrix

Figure = Image | Histogram | Matrix
Array = npt.NDArray[Any]
Function = Callable[[], Any]
Trace = Callable[[str, Function], Function]
"""Makes the function of the picture with this id quick to call, or refuses it with ``ForbiddenWrite``."""

SHARE: Final = 0.02
"""The share of the training time that all pictures may take."""
FREE_S: Final = 0.1
"""Seconds that they may take in any case, unless the exercise says more: a run of a second would have none else."""
APART_S: Final = 0.5
"""Seconds at least between two pictures with a rhythm of their own: each ends a block, whose call costs a millisecond
or two."""
MOST_BYTES: Final = 16 << 20
"""Bytes that all pictures of an attempt may have, spread evenly over its steps: a window keeps them in memory."""
FRAME_BYTES: Final = 900_000
"""Bytes that one picture may have, below the 1 MiB that a frame may have."""
_NAMES_BYTES: Final = 50_000
"""Class names in one picture; with more, classes are numbers."""
BINS: Final = (10, 64)
"""The least and the largest number of bins: few values in many bins are a comb."""

SORTED: Final = 8192
"""Values of a layer, at most, of which quantiles are taken: to sort all of them would cost most of the budget."""


# --- When -------------------------------------------------------------------------------------------------------------


@dataclass
class Budget:
    """The cost of all pictures of a run so far. ``steps`` are those of the whole run; ``free`` seconds are always
    allowed."""

    steps: int
    free: float = FREE_S
    seconds: float = 0.0
    bytes: int = 0

    def clock_for(self, seconds: float) -> float:
        """Returns the training clock from which on another picture of so many ``seconds`` may be taken."""
        wanted = self.seconds + seconds
        return 0.0 if wanted <= self.free else wanted / SHARE

    def step_for(self, size: int) -> int:
        """Returns the step from which on another picture of ``size`` bytes may be taken."""
        return math.ceil(self.steps * (self.bytes + size) / MOST_BYTES)


@dataclass
class Rhythm:
    """The times when one picture is due: at multiples of ``interval``, as far as the budget allows.

    ``apart`` is the least training time between two, in seconds. ``next`` is the step before which none is taken,
    ``seconds`` and ``bytes`` what the latest one cost.
    """

    interval: int
    apart: float = 0.0
    next: int = 0
    taken_at: int = -1
    seconds: float = 0.0
    bytes: int = 0

    def place(self, step: int) -> int:
        """The next step after ``step`` at which the picture is due."""
        return math.ceil(max(self.next, step + 1) / self.interval) * self.interval

    def due(self, step: int) -> bool:
        """Whether it is due at ``step``."""
        return step > 0 and step >= self.next and step % self.interval == 0 and self.taken_at != step

    def took(self, step: int, seconds: float, size: int, budget: Budget) -> None:
        """Count what was just taken."""
        self.taken_at, self.seconds, self.bytes = step, seconds, size
        budget.seconds += seconds
        budget.bytes += size

    def plan(self, step: int, clock: float, pace: float, budget: Budget) -> bool:
        """Set ``next`` after ``step``; ``pace`` is the seconds of a step. Whether one is left out for its cost."""
        wait = budget.clock_for(self.seconds) - clock
        costs = max(step + _steps_in(wait, pace), budget.step_for(self.bytes))
        self.next = max(costs, step + _steps_in(self.apart, pace))
        return costs > step + self.interval

    def allowed(self, step: int, clock: float, budget: Budget) -> bool:
        """Whether the budget has room for one at ``step``. The first one is always taken."""
        return self.taken_at < 0 or (budget.clock_for(self.seconds) <= clock and budget.step_for(self.bytes) <= step)


def _rhythm(spec: PictureSpec, course: Course) -> Rhythm:
    """Returns the rhythm of a picture; where blocks end anyway, because the run evaluates there, it may be as fast as
    it likes."""
    evaluation = course.evaluation_interval
    every = {"evaluation": evaluation, "epoch": course.epoch}[spec.every] if isinstance(spec.every, str) else spec.every
    return Rhythm(max(1, every), apart=0.0 if course.evaluates and every % evaluation == 0 else APART_S)


def _steps_in(seconds: float, pace: float) -> int:
    return math.ceil(max(seconds, 0.0) / max(pace, 1e-9))


class Pictures:
    """Takes all pictures of a run. Raises ``ProblemError`` for a function whose picture the exercise does not declare.

    ``trace`` prepares a function for many calls. ``class_names`` are those of the data set.
    """

    def __init__(
        self,
        course: Course,
        specs: Sequence[PictureSpec],
        functions: Mapping[str, Function],
        *,
        trace: Trace = lambda _, function: function,
        class_names: tuple[str, ...] = (),
        free: float = FREE_S,
    ) -> None:
        unknown = sorted(functions.keys() - {spec.id for spec in specs})
        if specs and unknown:  # an exercise without any may train another one's network, which brings its pictures
            text = f"Model.pictures has {unknown[0]!r}, which the exercise does not declare."
            raise problem("exercise.picture", text, "Add it to the exercise's pictures, or correct its id.")
        self._course, self._trace = course, trace
        self._all = [
            (Picture(_named(spec, class_names), functions[spec.id], trace), _rhythm(spec, course))
            for spec in specs
            if spec.id in functions
        ]
        self._budget = Budget(course.steps, free)
        self._warned: set[str] = set()
        self._faults: list[Log] = []
        """Messages about pictures that were given up, still to be recorded."""

    def replace(self, functions: Mapping[str, Function]) -> None:
        """Takes the functions of a model that was made again, on other devices, instead of the earlier ones."""
        self._all = [(Picture(one.spec, functions[one.spec.id], self._trace), rhythm) for one, rhythm in self._all]

    def compile(self) -> float:
        """Trace each function, and call it once: a first call takes longer than any later one. Returns the seconds it
        took, 0 when there are none. Raises ``ProblemError`` for one that changes variables; any other fault costs the
        picture."""
        start = time.perf_counter()
        for picture, _ in tuple(self._all):
            try:
                picture.compile()
            except ForbiddenWrite:
                raise
            except Exception as error:  # noqa: BLE001  # somebody's own function; the run goes on without it
                self._give_up(picture, error)
        return time.perf_counter() - start if self._all else 0.0

    def _give_up(self, picture: Picture, error: Exception) -> None:
        """Go on without a picture whose function has a fault; its log says why, once."""
        traceback.print_exc()
        self._all = [(one, rhythm) for one, rhythm in self._all if one is not picture]
        first = str(error).strip().splitlines()[:1]
        why = f"{type(error).__name__}: {first[0][:300].rstrip('.')}" if first else type(error).__name__
        said = " ".join(map(str, error.problems)) if isinstance(error, ProblemError) else f"{why}."
        text = f"The picture “{picture.spec.title}” is left out of this run, because its function has a fault. {said}"
        self._faults.append(Log(text=text, level="warning"))

    def _said(self) -> Iterator[Log]:
        said, self._faults = self._faults, []
        return iter(said)

    def places(self) -> Iterator[int]:
        """The next step of each picture: a block must end there."""
        return (rhythm.place(self._course.step) for _, rhythm in self._all)

    def due(self, *, last: bool = False) -> bool:
        """Whether one is to be taken now; ``last``: nothing is trained afterwards."""
        return bool(self._faults) or any(self._is_due(rhythm, last) for _, rhythm in self._all)

    def _is_due(self, rhythm: Rhythm, last: bool) -> bool:
        step = self._course.step
        return (step > 0 and rhythm.taken_at != step) if last else rhythm.due(step)

    def take(self, *, last: bool = False) -> Iterator[Event]:
        """Takes the pictures that are due now; with ``last`` all that were not taken at this step, whatever they cost,
        and none of a run that did no step."""
        step, clock, pace = self._course.step, self._course.clock, self._course.pace
        yield from self._said()
        for picture, rhythm in tuple(self._all):
            if not self._is_due(rhythm, last):
                continue
            allowed = last or rhythm.allowed(step, clock, self._budget)
            if allowed:
                yield from self._take(picture, rhythm, step)
            if not last and (rhythm.plan(step, clock, pace, self._budget) or not allowed):
                yield from self._warn(_RARE)

    def _take(self, picture: Picture, rhythm: Rhythm, step: int) -> Iterator[Event]:
        start = time.perf_counter()
        try:
            figure, left_out = picture.take(step)
        except ForbiddenWrite:
            raise
        except Exception as error:  # noqa: BLE001  # somebody's own function; the run goes on without it
            self._give_up(picture, error)
            yield from self._said()
            return
        rhythm.took(step, time.perf_counter() - start, size_of(figure), self._budget)
        yield figure
        if left_out:
            yield from self._warn(left_out)

    def _warn(self, text: str) -> Iterator[Log]:
        """Yields a message once."""
        if text not in self._warned:
            self._warned.add(text)
            yield Log(text=text)


_RARE: Final = (
    f"Pictures are taken less often than the exercise asks, because they may take {100 * SHARE:.0f} % of the training"
    f" time and {MOST_BYTES >> 20} MiB."
)


# --- What -------------------------------------------------------------------------------------------------------------


class ForbiddenWrite(ProblemError):
    """Raised when a picture's function changes a variable: the run would depend on when pictures are taken."""


class Picture:
    """A picture: its function, and what that returns as an event."""

    def __init__(self, spec: PictureSpec, function: Function, trace: Trace) -> None:
        self.spec = spec
        self._function, self._trace = function, trace
        self._traced: Function | None = None

    def compile(self) -> Function:
        """Trace the function and call it once. Raises ``ForbiddenWrite`` when it changes variables."""
        if self._traced is None:
            traced = self._trace(self.spec.id, self._function)
            traced()
            self._traced = traced
        return self._traced

    def take(self, step: int) -> tuple[Figure, str]:
        """The picture after ``step`` updates, and what was left out of it, as a sentence or empty.

        Raises ``ProblemError`` when it has not the shape that its form asks for.
        """
        return figure_of(self.spec, step, self.compile()())


def figure_of(spec: PictureSpec, step: int, returned: Any) -> tuple[Figure, str]:
    """What a picture's function returned after ``step`` updates, as an event; and what was left out, as a sentence or
    empty. Raises ``ProblemError`` when it has not the shape that its form asks for."""
    if isinstance(returned, Mapping):
        spec, returned = msgspec.structs.replace(spec, labels=tuple(map(str, returned))), [*returned.values()]
    parts = [np.asarray(one) for one in (returned if isinstance(returned, list | tuple) else [returned])]
    if spec.form not in _EXPECTED:
        text = f"The picture {spec.id} has the unknown form {spec.form!r}."
        raise problem("exercise.picture", text, f"Known forms: {', '.join(_EXPECTED)}.")
    expected, shapes = _EXPECTED[spec.form]
    if spec.answers:
        images = expected.partition(", alone")[0]
        expected, shapes = f"({images}, classes [n], answers [n])", {(3, 1, 1), (4, 1, 1)}
    alike = parts[1:] if spec.form in ("plane", "surface") else parts  # no point for each map or row
    wrong = tuple(part.ndim for part in parts) not in shapes or len({len(part) for part in alike if part.ndim}) > 1
    if spec.form == "distributions":  # of layers, as many as there are
        wrong = not parts or any(part.dtype.kind not in "fiu" for part in parts)
    if wrong:
        found = ", ".join(f"{part.dtype} {list(part.shape)}" for part in parts) or "nothing"
        text = f"The picture {spec.id} should return {expected}, and returned {found}."
        raise problem("exercise.picture", text, "Correct its function in Model.pictures.")
    return _MAKERS[spec.form](spec, step, parts)


_EXPECTED: Final[dict[str, tuple[str, set[tuple[int, ...]]]]] = {
    "images": (
        "images [n, height, width] or [n, height, width, 3], alone or as (images, classes [n])",
        {(3,), (4,), (3, 1), (4, 1)},
    ),
    "scatter": ("(points [n, 2], classes [n])", {(2, 1)}),
    "histogram": ("values [n], (values [n], classes [n]) or (values, classes, threshold)", {(1,), (1, 1), (1, 1, 0)}),
    "matrix": ("a matrix [rows, columns]", {(2,)}),
    "bars": ("values [n]", {(1,)}),
    "surface": ("(losses [rows, columns], the two weights [2])", {(2, 1)}),
    "distributions": ("{name: values} or a list of values, of any shape", set()),
    "plane": (
        "values [n, height, width], alone or as (values, points [m, 2], classes [m])",
        {(3,), (3, 2, 1), (4,), (4, 2, 1)},
    ),
}
"""The results that a form's function returns, in words and as numbers of dimensions."""


def size_of(figure: Figure) -> int:
    """Bytes of the arrays of an event."""
    return sum(len(value) for name in figure.__struct_fields__ if isinstance(value := getattr(figure, name), bytes))


def _images(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Image, str]:
    images = parts[0]
    if images.ndim == 3:
        images = images[..., np.newaxis]
    count, height, width, channels = images.shape
    if channels not in (1, 3):
        text = f"The images of {spec.id} have {channels} channels."
        raise problem("exercise.picture", text, "Return 1 channel (grey) or 3 (red, green, blue).")
    fit = FRAME_BYTES // max(1, height * width * channels)
    if not fit:
        text = f"The images of {spec.id} are too large: {width} × {height} pixels."
        raise problem("exercise.picture", text, "Make them smaller, with tf.image.resize for example.")
    kept = np.clip(np.nan_to_num(images[:fit].astype(np.float32)), 0, 1)
    classes, answers = [*(_bytes(part[:fit], "<i4") for part in parts[1:]), b"", b""][:2]
    figure = Image(
        name=spec.id,
        step=step,
        width=width,
        height=height,
        channels=channels,
        data=np.rint(255 * kept).astype(np.uint8).tobytes(),
        count=len(kept),
        columns=spec.columns,
        classes=classes,
        answers=answers,
        class_labels=spec.labels if classes else (),
    )
    return figure, f"Only {fit:,} of the {count:,} images of “{spec.title}” are kept." if fit < count else ""


def _plane(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Image, str]:
    rows = parts[0].shape
    figure, left_out = _images(spec, step, [parts[0].reshape(-1, *rows[-2:])])
    figure = msgspec.structs.replace(figure, columns=rows[1] if len(rows) == 4 else 0)
    if len(parts) == 1:
        return figure, left_out
    table, thinned = _thinned(spec, _points_table(spec, parts[1], parts[2]), 12, FRAME_BYTES - size_of(figure))
    points, classes = _bytes(table[:, :2], "<f4"), _bytes(table[:, 2], "<i4")
    return msgspec.structs.replace(
        figure, points=points, point_classes=classes, class_labels=spec.labels
    ), left_out or thinned


def _scatter(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Matrix, str]:
    kept, left_out = _thinned(spec, _points_table(spec, *parts), 24)
    event = _matrix_event(spec, step, kept, columns=("x", "y", "class"))
    return msgspec.structs.replace(event, class_labels=spec.labels), left_out


def _points_table(spec: PictureSpec, points: Array, classes: Array) -> npt.NDArray[np.float64]:
    """Columns x, y and class. Raises ``ProblemError`` for points in another space."""
    if points.shape[1] != 2:
        text = f"The points of {spec.id} have {points.shape[1]} coordinates."
        raise problem("exercise.picture", text, "Return points [n, 2].")
    return np.column_stack([points.astype(np.float64), classes.astype(np.float64)])


def _histogram(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Histogram, str]:
    values = parts[0].astype(np.float32)
    edges = _edges(values, spec.log_x)
    counts, _ = np.histogram(values[np.isfinite(values)], edges)
    whole = len(parts) > 1 or spec.threshold is not None
    order, left_out = _thinned(spec, np.arange(len(values)), 8) if whole else (np.arange(0), "")
    figure = Histogram(
        name=spec.id,
        step=step,
        edges=_bytes(edges, "<f8"),
        counts=_bytes(counts, "<i8"),
        values=_bytes(values[order], "<f4"),
        classes=_bytes(parts[1][order], "<i4") if len(parts) > 1 else b"",
        threshold=float(parts[2]) if len(parts) > 2 and np.isfinite(parts[2]) else None,
    )
    return figure, left_out


def _edges(values: Array, log: bool) -> npt.NDArray[np.float64]:
    """Returns the edges of bins that hold all finite values; of equal ratio where ``log``, without what is not above
    0."""
    finite = values[np.isfinite(values) & ((values > 0) | (not log))].astype(np.float64)
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 2.0)
    bins = min(max(round(1.5 * math.sqrt(finite.size)), BINS[0]), BINS[1])
    if log:
        edges: npt.NDArray[np.float64] = np.geomspace(low, high if high > low else 2 * low, bins + 1)
    else:
        edges = np.linspace(low, high if high > low else low + max(abs(low), 1.0), bins + 1)
    edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)  # rounding may not lose the outer values
    return edges


def _matrix(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Matrix, str]:
    table = parts[0].astype(np.float64)
    fit = FRAME_BYTES // 8
    if table.size > fit:
        text = f"The matrix of {spec.id} is too large: {table.shape[0]:,} × {table.shape[1]:,}."
        raise problem("exercise.picture", text, f"Return at most {fit:,} values.")
    return _matrix_event(spec, step, table, _labels(spec, len(table)), _labels(spec, table.shape[1])), ""


def _surface(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Matrix, str]:
    figure, left_out = _matrix(spec, step, parts[:1])
    return msgspec.structs.replace(figure, points=_bytes(parts[1], "<f4")), left_out


def _distributions(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Matrix, str]:
    rows = np.array([_quantiles(one.ravel()) for one in parts])
    figure, left_out = _matrix(spec, step, [rows])
    return msgspec.structs.replace(figure, column_labels=tuple(f"{100 * one:g} %" for one in QUANTILES)), left_out


def _quantiles(values: Array) -> npt.NDArray[np.float64]:
    """``QUANTILES`` of the finite values, NaN without any. Of many values those between the ends are from some that are
    drawn, the same ones at each step."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.full(len(QUANTILES), np.nan)
    few = finite
    if finite.size > SORTED:  # not evenly spaced ones: they would be those of some units of the layer only
        few = finite[np.random.default_rng(0).integers(0, finite.size, SORTED)]
    found: npt.NDArray[np.float64] = np.quantile(few.astype(np.float64), QUANTILES)
    found[0], found[-1] = finite.min(), finite.max()
    return found


def _bars(spec: PictureSpec, step: int, parts: Sequence[Array]) -> tuple[Matrix, str]:
    return _matrix_event(spec, step, parts[0][np.newaxis, :].astype(np.float64), (), _labels(spec, len(parts[0]))), ""


def _named(spec: PictureSpec, names: tuple[str, ...]) -> PictureSpec:
    """The picture with the data set's class names, where it shows classes and the exercise has no labels of its own."""
    shows = spec.form in ("images", "scatter", "matrix", "plane")
    if spec.labels or not shows or sum(len(name.encode()) for name in names) > _NAMES_BYTES:
        return spec
    return msgspec.structs.replace(spec, labels=names)


def _labels(spec: PictureSpec, count: int) -> tuple[str, ...]:
    """Returns the labels of the exercise or of the data set, if there are as many as classes; else none."""
    return spec.labels if len(spec.labels) == count else ()


def _matrix_event(
    spec: PictureSpec, step: int, table: Array, rows: tuple[str, ...] = (), columns: tuple[str, ...] = ()
) -> Matrix:
    return Matrix(
        name=spec.id,
        step=step,
        rows=table.shape[0],
        columns=table.shape[1],
        data=_bytes(table, "<f8"),
        row_labels=rows,
        column_labels=columns,
    )


def _thinned(spec: PictureSpec, rows: Array, each: int, room: int = FRAME_BYTES) -> tuple[Array, str]:
    """Returns as many ``rows`` of ``each`` bytes as fit into a frame, evenly spaced; and what was left out."""
    fit = room // each
    if len(rows) <= fit:
        return rows, ""
    kept = rows[np.linspace(0, len(rows) - 1, fit).astype(np.int64)]
    return kept, f"Only {fit:,} of the {len(rows):,} values of “{spec.title}” are kept."


def _bytes(array: Array, dtype: str) -> bytes:
    return np.ascontiguousarray(array, dtype).tobytes()


_MAKERS: Final[dict[str, Callable[[PictureSpec, int, Sequence[Array]], tuple[Figure, str]]]] = {
    "images": _images,
    "scatter": _scatter,
    "histogram": _histogram,
    "matrix": _matrix,
    "bars": _bars,
    "plane": _plane,
    "surface": _surface,
    "distributions": _distributions,
}
