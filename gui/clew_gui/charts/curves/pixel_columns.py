"""Turns recorded values into lines, decimated to pixel columns: unit of x, logarithms, smoothing. NumPy only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from clew_gui.charts.curves.model import from_steps, knows, state_of, to_steps
from clew_gui.charts.kit.layout import FloatArray, IntArray
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_shared.journal.curves import Floats
from clew_shared.journal.history import History, nonfinite_word
from clew_shared.journal.pyramid import Columns, Pyramid, Sample, index_of

_STRONGEST = 0.9  # at 1 the window is total ** 0.9 samples
_WARM_UP = 32  # columns before the left edge that start the moving average


def window_for(amount: float, total: float) -> float:
    """Returns how many samples the slider's ``amount`` (0 to 1) averages over in a curve of ``total`` samples.

    It grows as a power, so that the same place of the slider suits a run of 500 steps (29 at 0.6) and one of 25,000
    (237). ``total`` is rounded up to a power of two, so that the smoothing does not creep while a run grows. 1 is none.
    """
    if amount <= 0 or total < 2:
        return 1.0
    return float((2.0 ** np.ceil(np.log2(total))) ** (_STRONGEST * min(amount, 1.0)))


def ema(mean: FloatArray, count: IntArray, window: float) -> FloatArray:
    """Exponential moving average, free of the pull of its start, over columns of ``count`` samples each.

    A sample has the weight ``a = 2 / (window + 1)``, so a column of n samples keeps ``(1 - a) ** n`` of what was
    before. The result equals the average over single samples where a column's samples equal its mean. The recurrence
    is solved as a prefix scan of affine maps (Hillis and Steele 1986): log2(columns) vector operations.
    """
    if window <= 1 or mean.size < 2:
        return mean
    keep = (1.0 - 2.0 / (window + 1.0)) ** count.astype(np.float64)
    value = (1.0 - keep) * mean
    stride = 1
    while stride < mean.size:
        value = value.copy()
        keep = keep.copy()
        value[stride:] += keep[stride:] * value[:-stride].copy()
        keep[stride:] *= keep[:-stride].copy()
        stride *= 2
    return value / (1.0 - keep)


def is_noisy(y: FloatArray) -> bool:
    """Whether a curve jumps from sample to sample, so that smoothing shows more than it hides.

    Judged by how often the curve turns: noise turns at two of three samples, a smooth descent hardly ever. ``y`` are
    its first samples; smoothing a curve without noise would only draw it late.
    """
    finite = y[np.isfinite(y)]
    signs = (finite[1:] > finite[:-1]).astype(np.int64) - (finite[1:] < finite[:-1])
    if signs.size < 6:
        return False
    return bool(np.count_nonzero(signs[1:] * signs[:-1] < 0) > 0.15 * (signs.size - 1))


def smoothed(curve: Pyramid, columns: Columns, edges: FloatArray, window: float, log: bool = False) -> FloatArray:
    """The moving average over ``window`` samples at ``columns``, which are those of ``curve`` between ``edges``.

    What lies left of the first edge is taken into account, so that the average does not depend on the zoom. For a
    ``log`` axis the average is that of the logarithms (the geometric mean): the arithmetic one of a loss that falls
    by powers of ten would hang far above what the axis shows. Columns that are not positive count as the smallest
    positive one.
    """
    mean, samples, first = columns.mean, columns.samples, 0
    begin = float(curve.steps[0]) if len(curve) else 0.0
    if len(curve) and window > 1 and float(edges[0]) > begin:
        start = max(float(edges[0]) - 6 * window, begin)
        before = curve.view(np.append(np.linspace(start, edges[0], _WARM_UP, endpoint=False), edges[0]))
        mean, samples = np.concatenate((before.mean, mean)), np.concatenate((before.samples, samples))
        first = before.mean.size
    positive = mean[mean > 0] if log else mean
    if not log or not positive.size:
        return ema(mean, samples, window)[first:]
    smooth: FloatArray = np.exp(ema(np.log(np.maximum(mean, positive.min())), samples, window))
    return smooth[first:]


_NOTHING: Final = np.empty(0)
_HUGE: Final = 1e150
_JUDGED: Final = 512  # first samples that decide whether a curve is noisy


@dataclass(frozen=True, eq=False)
class Grid:
    """The pixel columns of the shared x axis. ``span`` is in axis coordinates: the unit's values, or log10 of them."""

    unit: XUnit
    log: bool
    span: Span
    columns: int
    edges: FloatArray = field(init=False)
    """Borders of the columns in the unit's values."""

    def __post_init__(self) -> None:
        borders = np.linspace(self.span.low, self.span.high, self.columns + 1)
        object.__setattr__(self, "edges", 10.0**borders if self.log else borders)

    def same(self, other: Grid) -> bool:
        """Whether both show the same."""
        return (self.unit, self.log, self.span, self.columns) == (other.unit, other.log, other.span, other.columns)


@dataclass(frozen=True, eq=False)
class Curve:
    """One metric of one run, in axis coordinates (log10 where an axis is logarithmic).

    ``x``, ``y`` is the main line: the means of the columns, smoothed or not. ``raw_x``, ``raw_y`` runs through least
    and greatest value of each column, empty where the main line shows everything.
    """

    metric: str
    x: FloatArray
    y: FloatArray
    raw_x: FloatArray
    raw_y: FloatArray
    gaps: FloatArray
    """Stretches without samples, because a part of the journal is damaged: [n, 2], the x before and the x after."""
    exact: bool
    """The main line goes through recorded values or their means in a column, without smoothing."""
    sparse: bool
    noisy: bool
    ends: bool
    """The last recorded value is in sight."""
    skipped: bool
    """Whether values of 0 or less could not be drawn on the logarithmic axis."""
    bad_x: float | None
    """The first x at which the values were not finite."""
    bad_word: str
    """The word for these values: NaN or infinite."""
    last: float | None
    """The last recorded value itself, not in axis coordinates; the same at every zoom and smoothing."""
    best: tuple[float, float] | None
    """Best recorded value, in axis coordinates; only of curves drawn as they are."""

    @cached_property
    def line(self) -> tuple[FloatArray, FloatArray]:
        """The main line as it is to be drawn: a NaN interrupts it where samples are missing."""
        return _interrupted(self.x, self.y, self.gaps)

    @cached_property
    def raw_line(self) -> tuple[FloatArray, FloatArray]:
        """The raw line, with NaN where the curve is interrupted."""
        return _interrupted(self.raw_x, self.raw_y, self.gaps)

    @property
    def end(self) -> tuple[float, float] | None:
        """The last point of the main line."""
        return (float(self.x[-1]), float(self.y[-1])) if self.x.size else None

    def at(self, x: float) -> tuple[float, float] | None:
        """The point of the main line at ``x``, on a sparse curve the last one before; None outside the curve."""
        if not self.x.size or not self.x[0] <= x:
            return None
        if self.sparse:
            k = int(np.searchsorted(self.x, x, side="right")) - 1
            return float(self.x[k]), float(self.y[k])
        column = float(self.x[-1] - self.x[-2]) if self.x.size > 1 else 0.0
        if x > self.x[-1] + column:  # the last point is the mean of its column, the last step may be right of it
            return None
        return min(x, float(self.x[-1])), float(np.interp(x, self.x, self.y))


@dataclass(frozen=True)
class CurveRequest:
    """Says how a curve is to be drawn."""

    run: str
    metric: str
    log_y: bool
    window: float
    better: str = "none"
    raw: bool = True


class KeptColumns:
    """The columns of one curve for a grid of edges, which counts as the same when it is the same array object."""

    def __init__(self, curve: Pyramid) -> None:
        self.curve = curve
        self._edges: FloatArray | None = None
        self._columns: Columns | None = None
        self._size = 0
        self._cuts = 0

    def get(self, edges: FloatArray) -> Columns:
        """Returns the same as ``Pyramid.view(edges)``, except for which of two neighbouring columns a block on their
        border counts: after an append only the last columns are read again."""
        curve, columns = self.curve, self._columns
        if columns is None or self._edges is not edges or self._cuts != curve.cuts or not self._size:
            columns = curve.view(edges)
        elif self._size != len(curve):
            last = float(curve.steps[self._size - 1])
            # From the column before the last one: blocks that were incomplete may lie across their border.
            column = max(int(np.searchsorted(edges, last, side="right")) - 2, 0)
            keep = int(np.searchsorted(columns.x, edges[column]))
            columns = columns.join(keep, curve.view(edges[column:]))
        self._columns, self._edges, self._size, self._cuts = columns, edges, len(curve), curve.cuts
        return columns


@dataclass(eq=False)
class _Kept:
    """What is known of a curve that was drawn: ``drawn`` is right for these edges and this state of its samples."""

    columns: KeptColumns
    request: CurveRequest | None = None
    edges: FloatArray | None = None
    size: int = 0
    cuts: int = 0
    noisy: bool | None = None
    drawn: Curve | None = None


class CurveMaker:
    """Makes the curves of runs and keeps each until its data, the grid or the request changes."""

    def __init__(self) -> None:
        self._edges: dict[str, tuple[Grid, tuple[float, float], FloatArray]] = {}
        self._kept: dict[tuple[str, str], _Kept] = {}

    def make(self, history: History, request: CurveRequest, grid: Grid) -> Curve | None:
        """The curve, or None when there is nothing recorded or the run has no such unit."""
        samples = history.pyramid(request.metric)
        if samples is None or not knows(history, grid.unit):
            return None
        edges = self._step_edges(request.run, history, grid)
        kept = self._kept.get((request.run, request.metric))
        if kept is None or kept.columns.curve is not samples:
            kept = self._kept[request.run, request.metric] = _Kept(KeptColumns(samples))
        state = (kept.request, kept.edges is edges, kept.size, kept.cuts)
        if kept.drawn is None or state != (request, True, len(samples), samples.cuts):
            if kept.noisy is None or len(samples) < 2 * _JUDGED or kept.cuts != samples.cuts:
                kept.noisy = not samples.sparse and is_noisy(samples.values[:_JUDGED].astype(np.float64))
            kept.request, kept.edges, kept.size, kept.cuts = request, edges, len(samples), samples.cuts
            kept.drawn = _Making(history, request, grid, kept.noisy).curve(kept.columns, edges)
        return kept.drawn

    def cut(self, history: History, curve: Curve, request: CurveRequest, grid: Grid, until: int) -> Curve | None:
        """A curve that was made, as it was at step ``until``; None before its first value."""
        samples = history.pyramid(request.metric)
        return None if samples is None else _Making(history, request, grid, curve.noisy).until(curve, samples, until)

    def keep_only(self, runs: Collection[str]) -> None:
        """Drop what is kept of other runs."""
        self._edges = {run: known for run, known in self._edges.items() if run in runs}
        self._kept = {key: known for key, known in self._kept.items() if key[0] in runs}

    def _step_edges(self, run: str, history: History, grid: Grid) -> FloatArray:
        if grid.unit is XUnit.STEP:
            return grid.edges
        state, kept = state_of(history, grid.unit), self._edges.get(run)
        if kept is None or kept[0] is not grid or kept[1] != state:
            kept = self._edges[run] = (grid, state, to_steps(history, grid.edges, grid.unit))
        return kept[2]


@dataclass(frozen=True)
class _Making:
    """Makes one curve."""

    history: History
    request: CurveRequest
    grid: Grid
    noisy: bool

    def curve(self, kept: KeptColumns, edges: FloatArray) -> Curve:
        """The curve of ``kept`` between ``edges``, which are steps."""
        request, grid, samples = self.request, self.grid, kept.curve
        columns = kept.get(edges)
        if not request.log_y:
            columns = _bounded(columns)
        window = request.window if self.noisy else 1.0
        exact = window <= 1
        mean = columns.mean
        if not exact:
            mean = np.clip(smoothed(samples, columns, edges, window, request.log_y), -_HUGE, _HUGE)
        dense = bool(np.any(columns.samples > 1))
        x = self._axis_x(columns.x)
        line_x, line_y = self._with_neighbours(samples, edges, x, mean) if exact else (x, mean)
        raw_x, raw_y = _NOTHING, _NOTHING
        if request.raw and (dense or not exact):
            raw_x, raw_y = _raw_line(x, columns)
        skipped = False
        if request.log_y:
            line_x, line_y, skipped = _logarithm(line_x, line_y)
            raw_x, raw_y, raw_skipped = _logarithm(raw_x, raw_y)
            skipped = skipped or raw_skipped
        bad, last = broken(self.history, request.metric), samples.last
        return Curve(
            metric=request.metric, x=line_x, y=line_y, raw_x=raw_x, raw_y=raw_y,
            gaps=self._gaps(samples), exact=exact, sparse=samples.sparse, noisy=self.noisy,
            ends=float(samples.steps[-1]) <= float(edges[-1]), skipped=skipped,
            bad_x=None if bad is None or (grid.log and bad.step <= 0) else self._place(bad.step),
            bad_word=nonfinite_word(bad.value) if bad is not None else "NaN",
            last=None if last is None else last.value, best=self._best(samples) if exact else None,
        )  # fmt: skip

    def until(self, curve: Curve, samples: Pyramid, step: int) -> Curve | None:
        """The beginning of ``curve``. Smoothing looks back only, so what is left of a place never changes later."""
        last = last_until(samples, step)
        if last is None or (self.grid.log and last.step <= 0):
            return None
        end = self._place(last.step)
        x, y = curve.x[curve.x <= end], curve.y[curve.x <= end]
        if not curve.sparse and curve.x.size and curve.x[0] <= end and not (x.size and x[-1] == end):
            at = float(np.interp(end, curve.x, curve.y))
            x, y = np.append(x, end), np.append(y, at)
        raw = curve.raw_x <= end
        return replace(
            curve, x=x, y=y, raw_x=curve.raw_x[raw], raw_y=curve.raw_y[raw], ends=end <= self.grid.span.high,
            bad_x=curve.bad_x if curve.bad_x is not None and curve.bad_x <= self._place(step) else None,
            last=last.value, best=self._best(samples, step) if curve.exact else None,
        )  # fmt: skip

    def _axis_x(self, steps: FloatArray) -> FloatArray:
        x = from_steps(self.history, steps, self.grid.unit)
        return np.log10(x) if self.grid.log else x

    def _place(self, step: float) -> float:
        return float(self._axis_x(np.array([step]))[0])

    def _with_neighbours(
        self, samples: Pyramid, edges: FloatArray, x: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Lead the line over the borders of the view, to the samples just outside."""
        for step, after in ((float(edges[0]), False), (float(edges[-1]), True)):
            sample = samples.neighbour(step, after)
            if sample is None or (self.grid.log and sample.step <= 0):
                continue
            at = np.array([self._place(sample.step)])
            pieces = ((x, at), (y, np.array([sample.value]))) if after else ((at, x), (np.array([sample.value]), y))
            x, y = np.concatenate(pieces[0]), np.clip(np.concatenate(pieces[1]), -_HUGE, _HUGE)
        return x, y

    def _gaps(self, samples: Pyramid) -> FloatArray:
        gaps = samples.gaps()
        gaps = gaps[gaps[:, 0] > 0] if self.grid.log else gaps
        return self._axis_x(gaps.ravel()).reshape(-1, 2) if gaps.size else gaps

    def _best(self, samples: Pyramid, until: int | None = None) -> tuple[float, float] | None:
        best = best_until(samples, self.request.better, until)
        if best is None or (self.request.log_y and best.value <= 0) or (self.grid.log and best.step <= 0):
            return None
        return self._place(best.step), float(np.log10(best.value)) if self.request.log_y else best.value


def best_until(samples: Pyramid, better: str, until: int | None) -> Sample | None:
    """The best finite value up to step ``until`` (None: of all); None without one, or where neither way is better."""
    if better == "none":
        return None
    if until is None:
        return samples.highest if better == "higher" else samples.lowest
    values = _values_until(samples, until)
    worst = -np.inf if better == "higher" else np.inf
    judged = np.where(np.isfinite(values), values, worst)
    place = int((np.argmax if better == "higher" else np.argmin)(judged)) if judged.size else -1
    found = place >= 0 and np.isfinite(judged[place])
    return Sample(float(samples.steps[place]), float(values[place])) if found else None


def last_until(samples: Pyramid, until: int | None) -> Sample | None:
    """The last finite value up to step ``until`` (None: of all)."""
    if until is None:
        return samples.last
    good = np.flatnonzero(np.isfinite(_values_until(samples, until)))
    return Sample(float(samples.steps[good[-1]]), float(samples.values[good[-1]])) if good.size else None


def _values_until(samples: Pyramid, until: int) -> Floats:
    return samples.values[: int(index_of(samples.steps, np.array([until + 1.0]))[0])]


def broken(history: History, metric: str) -> Sample | None:
    """The first value of a curve that is not a finite number; None where it has none."""
    step, samples = history.first_nonfinite.get(metric), history.pyramid(metric)
    if step is None or samples is None:
        return None
    found = int(index_of(samples.steps, np.array([float(step)]))[0])
    if found == len(samples) or int(samples.steps[found]) != step:
        return None
    value = float(samples.values[found])
    return None if np.isfinite(value) else Sample(float(step), value)


def _interrupted(x: FloatArray, y: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    if not gaps.size or not x.size:
        return x, y
    places = np.searchsorted(x, gaps[:, 1])
    inside = (places > 0) & (places < x.size)
    middle = 0.5 * (gaps[inside, 0] + gaps[inside, 1])
    return np.insert(x, places[inside], middle), np.insert(y, places[inside], np.nan)


def _bounded(columns: Columns) -> Columns:
    """The columns without values so huge that differences of them overflow."""
    if not columns.high.size or max(-float(columns.low.min()), float(columns.high.max())) < _HUGE:
        return columns
    low, high, mean = (np.clip(part, -_HUGE, _HUGE) for part in (columns.low, columns.high, columns.mean))
    return Columns(columns.x, low, high, mean, columns.samples)


def _raw_line(x: FloatArray, columns: Columns) -> tuple[FloatArray, FloatArray]:
    """A line through least and greatest value of each column, turning at each so that it never jumps back."""
    y = np.empty(2 * x.size)
    y[0::4], y[1::4] = columns.low[0::2], columns.high[0::2]
    y[2::4], y[3::4] = columns.high[1::2], columns.low[1::2]
    return np.repeat(x, 2), y


def _logarithm(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, bool]:
    good = y > 0
    if good.all():
        return x, np.log10(y), False
    return x[good], np.log10(y[good]), True
