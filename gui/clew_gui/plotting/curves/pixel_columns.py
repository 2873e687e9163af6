"""Turns recorded values into lines, decimated to pixel columns: unit of x, logarithms, smoothing. NumPy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import Span, XUnit
from clew_gui.plotting.curves.pyramid import Columns
from clew_gui.plotting.curves.series import PlottedSeries, SeriesStore

_NOTHING: Final = np.empty(0)
_HUGE: Final = 1e150


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

    run: str
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
        """The raw line, likewise."""
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
        if x > self.x[-1]:
            return None
        return x, float(np.interp(x, self.x, self.y))


@dataclass(frozen=True)
class CurveRequest:
    """Says how a curve is to be drawn."""

    run: str
    metric: str
    log_y: bool
    window: float
    better: str = "none"
    raw: bool = True


class CurveMaker:
    """Makes curves from a store and keeps each until its data, the grid or the request changes."""

    def __init__(self, store: SeriesStore) -> None:
        self._store = store
        self._edges: dict[str, tuple[Grid, int, FloatArray]] = {}
        self._kept: dict[tuple[str, str], tuple[CurveRequest, FloatArray, int, Curve]] = {}

    def make(self, request: CurveRequest, grid: Grid) -> Curve | None:
        """The curve, or None when there is nothing recorded or the run has no such unit."""
        series = self._store.get(request.run, request.metric)
        if series is None or not len(series) or not self._store.knows(request.run, grid.unit):
            return None
        edges = self._step_edges(request.run, grid)
        kept = self._kept.get((request.run, request.metric))
        if kept is not None and kept[0] == request and kept[1] is edges and kept[2] == series.revision:
            return kept[3]
        curve = self._make(request, grid, series, edges)
        self._kept[request.run, request.metric] = (request, edges, series.revision, curve)
        return curve

    def forget(self, run: str) -> None:
        """Drop what is kept of a run."""
        self._edges.pop(run, None)
        for key in [key for key in self._kept if key[0] == run]:
            del self._kept[key]

    def _step_edges(self, run: str, grid: Grid) -> FloatArray:
        if grid.unit is XUnit.STEP:
            return grid.edges
        clock = self._store.clock(run)
        size = len(clock) if grid.unit is XUnit.SECONDS and clock is not None else 0
        kept = self._edges.get(run)
        if kept is None or kept[0] is not grid or kept[1] != size:
            kept = (grid, size, self._store.to_steps(run, grid.edges, grid.unit))
            self._edges[run] = kept
        return kept[2]

    def _make(self, request: CurveRequest, grid: Grid, series: PlottedSeries, edges: FloatArray) -> Curve:
        columns = series.columns(edges)
        if not request.log_y:
            columns = _bounded(columns)
        window = request.window if series.noisy else 1.0
        mean = columns.mean if window <= 1 else np.clip(series.smoothed(edges, window, request.log_y), -_HUGE, _HUGE)
        dense = bool(np.any(columns.samples > 1))
        exact = window <= 1
        x = self._axis_x(request.run, columns.x, grid)
        line_x, line_y = self._with_neighbours(request.run, series, edges, grid, exact, x, mean)
        raw_x, raw_y = _NOTHING, _NOTHING
        if request.raw and (dense or not exact):
            raw_x, raw_y = _raw_line(x, columns)
        skipped = False
        if request.log_y:
            line_x, line_y, skipped = _logarithm(line_x, line_y)
            raw_x, raw_y, raw_skipped = _logarithm(raw_x, raw_y)
            skipped = skipped or raw_skipped
        return Curve(
            run=request.run, metric=request.metric, x=line_x, y=line_y, raw_x=raw_x, raw_y=raw_y,
            gaps=self._gaps(request.run, series, grid), exact=exact,
            sparse=series.sparse, noisy=series.noisy, ends=series.pyramid.x.at(len(series) - 1) <= float(edges[-1]),
            skipped=skipped, bad_x=self._bad_x(request.run, series, grid), bad_word=series.bad_word,
            last=None if series.last is None else series.last.value,
            best=self._best(request, series, grid) if exact else None,
        )  # fmt: skip

    def _axis_x(self, run: str, steps: FloatArray, grid: Grid) -> FloatArray:
        x = self._store.from_steps(run, steps, grid.unit)
        return np.log10(x) if grid.log else x

    def _with_neighbours(
        self, run: str, series: PlottedSeries, edges: FloatArray, grid: Grid, exact: bool, x: FloatArray, y: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Lead the line over the borders of the view, to the samples just outside."""
        if not exact:
            return x, y
        for step, after in ((float(edges[0]), False), (float(edges[-1]), True)):
            sample = series.neighbour(step, after)
            if sample is None or (grid.log and sample.step <= 0):
                continue
            at = self._axis_x(run, np.array([sample.step]), grid)
            pieces = ((x, at), (y, np.array([sample.value]))) if after else ((at, x), (np.array([sample.value]), y))
            x, y = np.concatenate(pieces[0]), np.clip(np.concatenate(pieces[1]), -_HUGE, _HUGE)
        return x, y

    def _gaps(self, run: str, series: PlottedSeries, grid: Grid) -> FloatArray:
        gaps = series.gaps[series.gaps[:, 0] > 0] if grid.log else series.gaps
        return self._axis_x(run, gaps.ravel(), grid).reshape(-1, 2) if gaps.size else gaps

    def _bad_x(self, run: str, series: PlottedSeries, grid: Grid) -> float | None:
        if series.first_bad is None or (grid.log and series.first_bad <= 0):
            return None
        return float(self._axis_x(run, np.array([series.first_bad]), grid)[0])

    def _best(self, request: CurveRequest, series: PlottedSeries, grid: Grid) -> tuple[float, float] | None:
        sample = {"higher": series.highest, "lower": series.lowest}.get(request.better)
        if sample is None or (request.log_y and sample.value <= 0) or (grid.log and sample.step <= 0):
            return None
        x = float(self._axis_x(request.run, np.array([sample.step]), grid)[0])
        return x, float(np.log10(sample.value)) if request.log_y else sample.value


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
