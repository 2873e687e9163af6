"""The recorded curves of all runs by run and metric, and the columns of each that are in sight: after an append only
the last columns are read again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import XUnit
from clew_gui.plotting.curves.pyramid import Columns, Pyramid
from clew_gui.plotting.curves.smoothing import ema, is_noisy
from clew_shared.journal.curves import Buffer
from clew_shared.journal.history import nonfinite_word


class CachedView:
    """Columns of a pyramid for a grid of edges. The grid counts as the same when it is the same array object."""

    __slots__ = ("_columns", "_edges", "_generation", "_pyramid", "_size")

    def __init__(self, pyramid: Pyramid) -> None:
        self._pyramid = pyramid
        self._edges: FloatArray | None = None
        self._columns: Columns | None = None
        self._size = 0
        self._generation = 0

    def get(self, edges: FloatArray) -> Columns:
        """Returns the same as ``Pyramid.view(edges)``, except for which of two neighbouring columns a block on their
        border counts."""
        pyramid = self._pyramid
        columns = self._columns
        if columns is None or self._edges is not edges or self._generation != pyramid.generation or not self._size:
            columns = pyramid.view(edges)
        elif self._size != len(pyramid):
            last = pyramid.x.at(self._size - 1)
            # From the column before the last one: blocks that were incomplete may lie across their border.
            column = max(int(np.searchsorted(edges, last, side="right")) - 2, 0)
            keep = int(np.searchsorted(columns.x, edges[column]))
            columns = columns.join(keep, pyramid.view(edges[column:]))
        self._columns, self._edges, self._size, self._generation = columns, edges, len(pyramid), pyramid.generation
        return columns


# --- Series -----------------------------------------------------------------------------------------------------------
# The recorded curves of all runs, by run and metric, with what is needed to show them against another x.


_JUDGED: Final = 512  # first samples that decide whether a curve is noisy
_WARM_UP: Final = 32  # columns before the left edge that start the moving average
_NO_GAPS: Final = np.empty((0, 2))


@dataclass(frozen=True)
class Sample:
    """One value of a curve."""

    step: float
    value: float


class RunClock:
    """Knows how long a run has trained at each step, from the journal's stretches; also the wall clock."""

    def __init__(self) -> None:
        self._step = Buffer(np.float64)
        self._seconds = Buffer(np.float64)
        self._wall_step = Buffer(np.float64)  # apart, because the wall clock jumps between stretches
        self._wall = Buffer(np.float64)

    def __len__(self) -> int:
        return self._step.size

    def add(self, first: int, count: int, clock: float, seconds: float, wall: float = 0.0) -> None:
        """Note a stretch of ``count`` steps from ``first`` that took ``seconds`` and ended at ``clock`` and ``wall``.

        Stretches that were noted at or after ``first`` are forgotten: a later attempt replaces them.
        """
        self.truncate(first)
        steps, clocks = [float(first), float(first + count)], [clock - seconds, clock]
        if len(self) and self._step.view[-1] == first:
            steps, clocks = steps[1:], clocks[1:]
        earliest = float(self._seconds.view[-1]) if len(self) else 0.0
        self._step.extend(np.array(steps))
        self._seconds.extend(np.maximum(np.array(clocks), earliest))
        self._wall_step.extend(np.array([first, first + count], np.float64))
        self._wall.extend(np.array([wall - seconds, wall]))

    def truncate(self, step: float) -> None:
        """Forget what lies after ``step``."""
        for steps, values in ((self._step, self._seconds), (self._wall_step, self._wall)):
            keep = int(np.searchsorted(steps.view, step, side="right"))
            steps.truncate(keep)
            values.truncate(keep)

    def seconds(self, steps: FloatArray) -> FloatArray:
        """Training seconds at ``steps``; after the last known step at the run's mean speed."""
        return _stretch(steps, self._step.view, self._seconds.view)

    def steps(self, seconds: FloatArray) -> FloatArray:
        """The inverse of ``seconds``."""
        return _stretch(seconds, self._seconds.view, self._step.view)

    def wall(self, steps: FloatArray) -> FloatArray:
        """Wall-clock seconds since 1970 at ``steps``."""
        return _stretch(steps, self._wall_step.view, self._wall.view)


def _stretch(x: FloatArray, known_x: FloatArray, known_y: FloatArray) -> FloatArray:
    result = np.interp(x, known_x, known_y)
    span = known_x[-1] - known_x[0]
    rate = (known_y[-1] - known_y[0]) / span if span > 0 else 1.0
    result += np.maximum(x - known_x[-1], 0.0) * max(rate, 1e-12)
    return np.asarray(result, np.float64)


class PlottedSeries:
    """One metric of one run."""

    def __init__(self, dtype: type[np.floating[Any]] | np.dtype[Any]) -> None:
        self.pyramid = Pyramid(dtype)
        self.revision = 0
        """Grows with every change."""
        self.first_bad: float | None = None
        """Step of the first value that is not finite."""
        self.bad_word = "NaN"
        """The word for that value: NaN or infinite."""
        self.lowest: Sample | None = None
        self.highest: Sample | None = None
        self.last: Sample | None = None
        """The last finite value; the extremes are over finite values as well."""
        self._view = CachedView(self.pyramid)
        self._warm_up_for: FloatArray | None = None
        self._noisy: bool | None = None
        self._gaps: tuple[int, FloatArray] | None = None

    def __len__(self) -> int:
        return len(self.pyramid)

    def append(self, steps: int | npt.ArrayLike, values: npt.ArrayLike) -> None:
        """Append values at ``steps``: an array of positions, or the first of consecutive ones."""
        y = np.atleast_1d(np.asarray(values))
        if not y.size:
            return
        first = float(steps) if isinstance(steps, int) else float(np.atleast_1d(np.asarray(steps, np.float64))[0])
        self.truncate(first)
        start = len(self)
        if isinstance(steps, int):
            self.pyramid.append_run(steps, y)
        else:
            self.pyramid.append(steps, y)
        self._note(start)
        self.revision += 1

    def truncate(self, step: float) -> None:
        """Remove what was recorded at or after ``step``."""
        if not self.pyramid.truncate(step):
            return
        self.lowest = self.highest = self.last = self._noisy = None
        if self.first_bad is not None and self.first_bad >= step:
            self.first_bad = None
        self._note(0)
        self.revision += 1

    def _note(self, start: int) -> None:
        y = self.pyramid.y.view[start:].astype(np.float64)
        good = np.flatnonzero(np.isfinite(y))
        if good.size < y.size and self.first_bad is None:
            place = int(np.argmin(np.isfinite(y)))
            self.first_bad, self.bad_word = self.pyramid.x.at(start + place), nonfinite_word(float(y[place]))
        if not good.size:
            return
        finite = y[good]
        self.lowest = self._better(self.lowest, start, good, finite, int(finite.argmin()), -1.0)
        self.highest = self._better(self.highest, start, good, finite, int(finite.argmax()), 1.0)
        self.last = Sample(self.pyramid.x.at(start + int(good[-1])), float(finite[-1]))

    def _better(
        self, old: Sample | None, start: int, good: npt.NDArray[np.intp], finite: FloatArray, at: int, sign: float
    ) -> Sample:
        value = float(finite[at])
        if old is not None and sign * old.value >= sign * value:
            return old
        return Sample(self.pyramid.x.at(start + int(good[at])), value)

    @property
    def gaps(self) -> FloatArray:
        """Stretches of steps that are missing, [n, 2]: the last sample before and the first one after. None if
        sparse."""
        if self._gaps is None or self._gaps[0] != self.revision:
            self._gaps = (self.revision, _NO_GAPS if self.sparse else self.pyramid.x.gaps())
        return self._gaps[1]

    @property
    def sparse(self) -> bool:
        """Whether there are values at some steps only, as evaluations have them, not at every step."""
        n = len(self)
        return n < 2 or self.pyramid.x.at(n - 1) - self.pyramid.x.at(0) > 1.5 * (n - 1)

    @property
    def noisy(self) -> bool:
        """Whether smoothing this curve makes sense (``is_noisy``), judged by its first 512 values."""
        if self._noisy is None or len(self.pyramid) < 2 * _JUDGED:
            self._noisy = not self.sparse and is_noisy(self.pyramid.y.view[:_JUDGED].astype(np.float64))
        return self._noisy

    def columns(self, edges: FloatArray) -> Columns:
        """The curve in pixel columns; cheap when called again with the same array of edges."""
        return self._view.get(edges)

    def smoothed(self, edges: FloatArray, window: float, log: bool = False) -> FloatArray:
        """The moving average over ``window`` samples at the columns that ``columns(edges)`` returns.

        What lies left of the first edge is taken into account, so that the average does not depend on the zoom. For a
        ``log`` axis the average is that of the logarithms (the geometric mean): the arithmetic one of a loss that falls
        by powers of ten would hang far above what the axis shows. Columns that are not positive count as the smallest
        positive one.
        """
        columns = self.columns(edges)
        mean, samples, first = columns.mean, columns.samples, 0
        if len(self) and window > 1 and float(edges[0]) > self.pyramid.x.at(0):
            start = max(float(edges[0]) - 6 * window, self.pyramid.x.at(0))
            before = self.pyramid.view(np.append(np.linspace(start, edges[0], _WARM_UP, endpoint=False), edges[0]))
            mean, samples = np.concatenate((before.mean, mean)), np.concatenate((before.samples, samples))
            first = before.mean.size
        positive = mean[mean > 0] if log else mean
        if not log or not positive.size:
            return ema(mean, samples, window)[first:]
        smooth: FloatArray = np.exp(ema(np.log(np.maximum(mean, positive.min())), samples, window))
        return smooth[first:]

    def neighbour(self, x: float, after: bool) -> Sample | None:
        """The nearest sample before ``x``, or at or after it; None if there is none or it is not finite."""
        index = int(self.pyramid.x.search(np.array([x]))[0]) - (0 if after else 1)
        if not 0 <= index < len(self):
            return None
        value = float(self.pyramid.y.view[index])
        return Sample(self.pyramid.x.at(index), value) if np.isfinite(value) else None

    def at(self, x: float) -> Sample | None:
        """The last sample at or before ``x``."""
        return self.neighbour(np.nextafter(x, np.inf), after=False)


@dataclass(frozen=True)
class RunScale:
    """Images per step and per epoch of a run; 0 where it has none."""

    batch_size: int = 0
    samples_per_epoch: int = 0


class SeriesStore:
    """Keeps all curves by run and metric. Steps are the x of the record; other units are computed from them per run."""

    def __init__(self) -> None:
        self._series: dict[str, dict[str, PlottedSeries]] = {}
        self._clocks: dict[str, RunClock] = {}
        self._scales: dict[str, RunScale] = {}

    def append(
        self,
        run: str,
        metric: str,
        steps: int | npt.ArrayLike,
        values: npt.ArrayLike,
        dtype: type[np.floating[Any]] | np.dtype[Any] = np.float32,
    ) -> None:
        """Append values of one metric; ``steps`` is an array, or the first of consecutive steps.

        ``dtype`` counts with the first values of a metric. Values already recorded at or after the first step are
        replaced: a later attempt wins.
        """
        metrics = self._series.setdefault(run, {})
        if metric not in metrics:
            metrics[metric] = PlottedSeries(dtype)
        metrics[metric].append(steps, values)

    def add_clock(self, run: str, first: int, count: int, clock: float, seconds: float, wall: float = 0.0) -> None:
        """Note when a stretch of steps happened (``RunClock.add``)."""
        self._clocks.setdefault(run, RunClock()).add(first, count, clock, seconds, wall)

    def set_scale(self, run: str, batch_size: int, samples_per_epoch: int) -> None:
        """Say how many images a step and an epoch of this run have."""
        self._scales[run] = RunScale(batch_size, samples_per_epoch)

    def truncate(self, run: str, metric: str | None, step: float) -> None:
        """Remove what was recorded at or after ``step``, for one metric or for all."""
        for name, series in self._series.get(run, {}).items():
            if metric in (None, name):
                series.truncate(step)
        if metric is None and run in self._clocks:
            self._clocks[run].truncate(step)

    def drop(self, run: str) -> None:
        """Forget a run."""
        for part in (self._series, self._clocks, self._scales):
            part.pop(run, None)

    def get(self, run: str, metric: str) -> PlottedSeries | None:
        """The curve, or None while it has no value."""
        return self._series.get(run, {}).get(metric)

    def runs(self) -> tuple[str, ...]:
        """The runs that have curves."""
        return tuple(self._series)

    def metrics(self, run: str) -> tuple[str, ...]:
        """The metrics of a run that have values."""
        return tuple(self._series.get(run, {}))

    def clock(self, run: str) -> RunClock | None:
        """The run's clock, or None while it is unknown."""
        clock = self._clocks.get(run)
        return clock if clock is not None and len(clock) > 1 else None

    def last_step(self, run: str) -> float:
        """The last step with a value in any metric; 0 when there is none."""
        return max((s.pyramid.x.at(len(s) - 1) for s in self._series.get(run, {}).values() if len(s)), default=0.0)

    def knows(self, run: str, unit: XUnit) -> bool:
        """Whether this run can be shown against ``unit``."""
        if unit is XUnit.SECONDS:
            return self.clock(run) is not None
        return self._factor(run, unit) > 0

    def _factor(self, run: str, unit: XUnit) -> float:
        if unit is XUnit.STEP:
            return 1.0
        scale = self._scales.get(run, RunScale())
        if unit is XUnit.IMAGES:
            return float(scale.batch_size)
        return scale.batch_size / scale.samples_per_epoch if scale.samples_per_epoch else 0.0

    def from_steps(self, run: str, steps: FloatArray, unit: XUnit) -> FloatArray:
        """Steps of a run in another unit. Raises ValueError where ``knows`` says no."""
        clock = self.clock(run)
        if unit is XUnit.SECONDS and clock is not None:
            return clock.seconds(steps)
        factor = self._factor(run, unit) if unit is not XUnit.SECONDS else 0.0
        if factor <= 0:
            raise ValueError(f"run {run} has no {unit.value}")
        return steps * factor

    def to_steps(self, run: str, x: FloatArray, unit: XUnit) -> FloatArray:
        """The inverse of ``from_steps``."""
        clock = self.clock(run)
        if unit is XUnit.SECONDS and clock is not None:
            return clock.steps(x)
        factor = self._factor(run, unit) if unit is not XUnit.SECONDS else 0.0
        if factor <= 0:
            raise ValueError(f"run {run} has no {unit.value}")
        return x / factor
