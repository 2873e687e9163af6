"""Append-only pyramid of minima, maxima and means over a curve, so that drawing costs the same for any length.

Level 0 holds the samples. A block of level k covers ``BLOCK ** k`` samples and keeps their least, greatest, sum and
number of finite values. A view of P pixel columns reads some ten blocks per column, whether the curve has a thousand
samples or ten million.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.arrays import FloatArray, IntArray
from clew_shared.journal.curves import Buffer

BLOCK: Final = 16
_CHUNK: Final = 64  # columns that are read from the same level


class Steps:
    """Increasing positions of the samples. While they are consecutive whole numbers, only the first is stored."""

    __slots__ = ("_explicit", "_first", "_size")

    def __init__(self) -> None:
        self._first = 0.0
        self._size = 0
        self._explicit: Buffer[np.float64] | None = None

    def __len__(self) -> int:
        return self._explicit.size if self._explicit is not None else self._size

    def extend(self, x: FloatArray) -> None:
        """Append increasing positions, all after the present last one."""
        if self._explicit is None:
            start = self._first + self._size if self._size else float(x[0])
            if np.array_equal(x, start + np.arange(x.size)):
                self._first = start - self._size
                self._size += x.size
                return
            known = self.slice(0, self._size)
            self._explicit = Buffer(np.float64)
            self._explicit.extend(known)
        self._explicit.extend(x)

    def extend_run(self, first: float, count: int) -> None:
        """Append ``first``, ``first + 1`` and so on without making an array where that can be avoided."""
        if self._explicit is None and self._size and first == self._first + self._size:
            self._size += count
        else:
            self.extend(first + np.arange(count, dtype=np.float64))

    def search(self, x: FloatArray) -> IntArray:
        """Returns for each of ``x`` the index of the first sample at or after it."""
        if self._explicit is not None:
            return np.searchsorted(self._explicit.view, x).astype(np.int64)
        return np.clip(np.ceil(x - self._first), 0, self._size).astype(np.int64)

    def at(self, index: int) -> float:
        """The position of one sample."""
        return float(self._explicit.view[index]) if self._explicit is not None else self._first + index

    def take(self, indices: IntArray) -> FloatArray:
        """The positions of several samples."""
        if self._explicit is not None:
            return self._explicit.view[indices]
        return self._first + indices.astype(np.float64)

    def slice(self, start: int, stop: int) -> FloatArray:
        """The positions of neighbouring samples; a copy or a view."""
        if self._explicit is not None:
            return self._explicit.view[start:stop]
        return self._first + np.arange(start, stop, dtype=np.float64)

    def gaps(self) -> FloatArray:
        """Returns where neighbours are more than a step apart, [n, 2]: the position before and the one after it."""
        if self._explicit is None:
            return np.empty((0, 2))
        x = self._explicit.view
        wide = np.flatnonzero(np.diff(x) > 1.0)
        return np.column_stack((x[wide], x[wide + 1]))

    def truncate(self, size: int) -> None:
        """Forget all but the first ``size`` positions."""
        if self._explicit is not None:
            self._explicit.truncate(size)
        else:
            self._size = min(self._size, size)

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self._explicit.nbytes if self._explicit is not None else 0


class Columns(NamedTuple):
    """The content of pixel columns: position, least, greatest and mean value, and the number of finite samples."""

    x: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    samples: IntArray

    def join(self, keep: int, tail: Columns) -> Columns:
        """The first ``keep`` columns followed by ``tail``."""
        return Columns(*(np.concatenate((mine[:keep], theirs)) for mine, theirs in zip(self, tail, strict=True)))


class _Level:
    """Blocks of one level of the pyramid."""

    __slots__ = ("count", "high", "low", "total")

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.low: Buffer[np.floating[Any]] = Buffer(dtype, 64)
        self.high: Buffer[np.floating[Any]] = Buffer(dtype, 64)
        self.total = Buffer(np.float64, 64)
        self.count = Buffer(np.int64, 64)

    def parts(self) -> tuple[Buffer[Any], ...]:
        return (self.low, self.high, self.total, self.count)

    @property
    def size(self) -> int:
        return self.low.size


class Pyramid:
    """One curve: samples ``y`` at increasing ``x``, with the levels above them.

    ``dtype`` is how samples are kept, float32 or float64. Values that are not finite are kept as samples and left out
    of every extreme and mean. Appending is amortised linear; ``view`` does not depend on the number of samples.
    """

    def __init__(self, dtype: type[np.floating[Any]] | np.dtype[Any] = np.float64) -> None:
        self._dtype = np.dtype(dtype)
        self.x = Steps()
        self.y: Buffer[np.floating[Any]] = Buffer(self._dtype)
        self._levels: list[_Level] = []
        self.generation = 0
        """Counts how often samples were removed, so that caches notice."""

    def __len__(self) -> int:
        return self.y.size

    def append(self, x: npt.ArrayLike, y: npt.ArrayLike) -> None:
        """Append samples at increasing ``x``. Samples that already lie at or after ``x[0]`` are replaced."""
        positions = np.atleast_1d(np.asarray(x, np.float64))
        values = np.atleast_1d(np.asarray(y, self._dtype))
        if positions.shape != values.shape:
            raise ValueError(f"x has {positions.size} values, y has {values.size}")
        if values.size:
            self.truncate(float(positions[0]))
            self.x.extend(positions)
            self._extend(values)

    def append_run(self, first: int, y: npt.ArrayLike) -> None:
        """Append samples at ``first``, ``first + 1`` and so on, like ``append``."""
        values = np.atleast_1d(np.asarray(y, self._dtype))
        if values.size:
            self.truncate(float(first))
            self.x.extend_run(float(first), values.size)
            self._extend(values)

    def truncate(self, x: float) -> bool:
        """Remove all samples at or after ``x``; says whether there were any."""
        if not len(self) or x > self.x.at(len(self) - 1):
            return False
        size = int(self.x.search(np.array([x]))[0])
        self.x.truncate(size)
        self.y.truncate(size)
        span = 1
        for level in self._levels:
            span *= BLOCK
            for part in level.parts():
                part.truncate(size // span)
        self.generation += 1
        return True

    def view(self, edges: FloatArray) -> Columns:
        """The columns between neighbouring ``edges`` (increasing, any spacing) that hold a finite sample.

        The extremes over all columns are exact. A single column may take up to one block from its neighbour, at most
        half of its width. A column with one sample is placed at that sample, any other at its middle.
        """
        index = self.x.search(edges)
        filled = np.flatnonzero(np.diff(index) > 0)
        start, stop = index[filled], index[filled + 1]
        count = stop - start
        low, high, total = np.empty(filled.size), np.empty(filled.size), np.empty(filled.size)
        finite = np.empty(filled.size, np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            for part, level in self._stretches(count):
                read = self._from_samples if level == 0 else self._from_blocks
                low[part], high[part], total[part], finite[part] = read(start[part], stop[part], level)
        x = 0.5 * (edges[filled] + edges[filled + 1])
        single = count == 1
        x[single] = self.x.take(start[single])
        keep = finite > 0
        mean = total[keep] / finite[keep]
        mean = np.where(np.isfinite(mean), mean, high[keep])  # the sum of huge values may overflow
        return Columns(x[keep], low[keep], high[keep], mean, finite[keep])

    def _stretches(self, count: IntArray) -> list[tuple[slice, int]]:
        """Ranges of columns that have ``count`` samples each, with the level from which a whole range is read."""
        found: list[tuple[slice, int]] = []
        for first, last in _chunks(count.size):
            level = self._level_for(int(count[first:last].min()))
            if found and found[-1][1] == level:
                first = found.pop()[0].start
            found.append((slice(first, last), level))
        return found

    def _level_for(self, samples: int) -> int:
        level = 0
        while level < len(self._levels) and samples >= 2 * BLOCK ** (level + 1):
            level += 1
        return level

    def _from_samples(self, start: IntArray, stop: IntArray, _: int) -> tuple[FloatArray, ...]:
        y = self.y.view[start[0] : stop[-1]].astype(np.float64)
        rows = start - start[0]
        good = np.isfinite(y)
        return (
            np.minimum.reduceat(np.where(good, y, np.inf), rows),
            np.maximum.reduceat(np.where(good, y, -np.inf), rows),
            np.add.reduceat(np.where(good, y, 0.0), rows),
            np.add.reduceat(good.astype(np.int64), rows),
        )

    def _from_blocks(self, start: IntArray, stop: IntArray, level: int) -> tuple[FloatArray, ...]:
        span, blocks = BLOCK**level, self._levels[level - 1]
        a, b = int(start[0]) // span, min(-(-int(stop[-1]) // span), blocks.size)
        rows = np.minimum(start // span - a, b - a - 1)
        low = np.minimum.reduceat(blocks.low.view[a:b], rows).astype(np.float64)
        high = np.maximum.reduceat(blocks.high.view[a:b], rows).astype(np.float64)
        total = np.add.reduceat(blocks.total.view[a:b], rows)
        count = np.add.reduceat(blocks.count.view[a:b], rows)
        rest = self.y.view[blocks.size * span : stop[-1]].astype(np.float64)  # not yet in a complete block
        rest = rest[np.isfinite(rest)]
        if rest.size:
            low[-1], high[-1] = min(low[-1], rest.min()), max(high[-1], rest.max())
            total[-1] += rest.sum()
            count[-1] += rest.size
        return low, high, total, count.astype(np.float64)

    def _extend(self, values: npt.NDArray[np.floating[Any]]) -> None:
        self.y.extend(values)
        source = self.y.size
        for k in range(64):
            if source < BLOCK:
                return
            if k == len(self._levels):
                self._levels.append(_Level(self._dtype))
            level = self._levels[k]
            begin, end = level.size * BLOCK, source // BLOCK * BLOCK
            if end > begin:
                with np.errstate(over="ignore", invalid="ignore"):
                    self._build(level, k, begin, end)
            source = level.size

    def _build(self, level: _Level, k: int, begin: int, end: int) -> None:
        if k == 0:
            y = self.y.view[begin:end].reshape(-1, BLOCK)
            good = np.isfinite(y)
            low, high = np.where(good, y, np.inf), np.where(good, y, -np.inf)
            total, count = np.where(good, y, 0).sum(1, dtype=np.float64), good.sum(1)
        else:
            below = self._levels[k - 1]
            low, high, total, count = (part.view[begin:end].reshape(-1, BLOCK) for part in below.parts())
            total, count = total.sum(1), count.sum(1)
        level.low.extend(low.min(1))
        level.high.extend(high.max(1))
        level.total.extend(total)
        level.count.extend(count)

    @property
    def nbytes(self) -> int:
        """Bytes reserved for samples and levels."""
        return self.x.nbytes + self.y.nbytes + sum(part.nbytes for level in self._levels for part in level.parts())


def _chunks(columns: int) -> list[tuple[int, int]]:
    """Ranges of columns that have one level each. The outermost columns are ranges of their own, because they may be
    nearly empty."""
    if columns == 0:
        return []
    inner = list(range(1, columns - 1, _CHUNK))
    bounds = sorted({0, *inner, max(columns - 1, 0), columns})
    return list(pairwise(bounds))
