"""A pyramid of minima, maxima and means over a growing curve, so that drawing costs the same for any length.

Level 0 is the curve itself. A block of level k covers ``BLOCK ** k`` samples and keeps their least, greatest, sum and
number of finite values. A view of P pixel columns reads some ten blocks per column, whether the curve has a thousand
samples or ten million.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.journal.buffer import Buffer

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
BLOCK: Final = 16
_CHUNK: Final = 64  # columns that are read from the same level
_FARTHEST: Final = 2.0**62
"""Steps are 64-bit integers: places beyond this one count as this one."""


class Sample(NamedTuple):
    """One value of a curve."""

    step: float
    value: float


class Columns(NamedTuple):
    """The content of pixel columns: position, least, greatest and mean value, and the number of finite samples."""

    x: Floats
    low: Floats
    high: Floats
    mean: Floats
    samples: Integers

    def join(self, keep: int, tail: Columns) -> Columns:
        """The first ``keep`` columns followed by ``tail``."""
        return Columns(*(np.concatenate((mine[:keep], theirs)) for mine, theirs in zip(self, tail, strict=True)))


class _Level:
    """Blocks of one level of the pyramid."""

    __slots__ = ("count", "high", "low", "total")

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.low: Buffer[Any] = Buffer(dtype)
        self.high: Buffer[Any] = Buffer(dtype)
        self.total = Buffer(np.float64)
        self.count = Buffer(np.int64)

    def parts(self) -> tuple[Buffer[Any], ...]:
        return (self.low, self.high, self.total, self.count)

    @property
    def size(self) -> int:
        return self.low.size


def index_of(steps: Integers, x: Floats) -> Integers:
    """Returns for each of ``x`` the index of the first of the ascending ``steps`` at or after it."""
    if not steps.size:
        return np.zeros(x.size, np.int64)
    up = np.ceil(np.clip(x, -_FARTHEST, _FARTHEST))
    if is_gapless(steps):
        return np.clip(up - float(steps[0]), 0, steps.size).astype(np.int64)
    # As whole numbers: NumPy would turn all of the steps into floats to compare them with floats.
    return np.searchsorted(steps, up.astype(np.int64)).astype(np.int64)


def is_gapless(steps: Integers) -> bool:
    """Whether ascending steps are consecutive."""
    return not steps.size or int(steps[-1]) - int(steps[0]) == steps.size - 1


class Pyramid:
    """One curve: the samples of two buffers that grow elsewhere, with the levels above them.

    The levels are brought up to date when something is read, at a cost that is linear in what is new; ``view`` does
    not depend on the number of samples. Values that are not finite are left out of every extreme and mean. The owner
    of the buffers calls ``cut`` after truncating them; ``cuts`` counts these calls, so that caches notice.
    """

    def __init__(self, steps: Buffer[np.int64], values: Buffer[Any], cuts: int = 0) -> None:
        self._steps, self._values = steps, values
        self._levels: list[_Level] = []
        self.cuts = cuts
        self._extremes: dict[float, tuple[tuple[int, int], Sample | None]] = {}

    def __len__(self) -> int:
        return self._values.size

    @property
    def steps(self) -> Integers:
        """The steps of the samples, without a copy; valid until the next change."""
        return self._steps.view

    @property
    def values(self) -> NDArray[np.floating[Any]]:
        """The values of the samples, likewise."""
        return self._values.view

    def cut(self, size: int) -> None:
        """Forget all but the first ``size`` samples, which have been truncated."""
        self.cuts += 1
        for number, level in enumerate(self._levels, 1):
            for part in level.parts():
                part.truncate(size // BLOCK**number)

    # --- Views --------------------------------------------------------------------------------------------------------

    def view(self, edges: Floats) -> Columns:
        """The columns between neighbouring ``edges`` (increasing, any spacing) that hold a finite sample.

        The extremes over all columns are exact. A single column may take up to one block from its neighbour, at most
        half of its width. A column with one sample is placed at that sample, any other at its middle.
        """
        self._follow()
        index = index_of(self.steps, edges)
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
        x[single] = self.steps[start[single]]
        keep = finite > 0
        mean = total[keep] / finite[keep]
        mean = np.where(np.isfinite(mean), mean, high[keep])  # the sum of huge values may overflow
        return Columns(x[keep], low[keep], high[keep], mean, finite[keep])

    def _stretches(self, count: Integers) -> list[tuple[slice, int]]:
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

    def _from_samples(self, start: Integers, stop: Integers, _: int) -> tuple[Floats, ...]:
        y = self.values[start[0] : stop[-1]].astype(np.float64)
        rows = start - start[0]
        good = np.isfinite(y)
        return (
            np.minimum.reduceat(np.where(good, y, np.inf), rows),
            np.maximum.reduceat(np.where(good, y, -np.inf), rows),
            np.add.reduceat(np.where(good, y, 0.0), rows),
            np.add.reduceat(good.astype(np.int64), rows),
        )

    def _from_blocks(self, start: Integers, stop: Integers, level: int) -> tuple[Floats, ...]:
        span, blocks = BLOCK**level, self._levels[level - 1]
        a, b = int(start[0]) // span, min(-(-int(stop[-1]) // span), blocks.size)
        rows = np.minimum(start // span - a, b - a - 1)
        low = np.minimum.reduceat(blocks.low.view[a:b], rows).astype(np.float64)
        high = np.maximum.reduceat(blocks.high.view[a:b], rows).astype(np.float64)
        total = np.add.reduceat(blocks.total.view[a:b], rows)
        count = np.add.reduceat(blocks.count.view[a:b], rows)
        rest = self.values[blocks.size * span : stop[-1]].astype(np.float64)  # not yet in a complete block
        rest = rest[np.isfinite(rest)]
        if rest.size:
            low[-1], high[-1] = min(low[-1], rest.min()), max(high[-1], rest.max())
            total[-1] += rest.sum()
            count[-1] += rest.size
        return low, high, total, count.astype(np.float64)

    # --- Levels -------------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Builds the blocks that have become complete."""
        source, number = len(self), 0
        while source >= BLOCK:
            if number == len(self._levels):
                self._levels.append(_Level(self.values.dtype))
            level = self._levels[number]
            begin, end = level.size * BLOCK, source // BLOCK * BLOCK
            if end > begin:
                with np.errstate(over="ignore", invalid="ignore"):
                    self._build(level, number, begin, end)
            source, number = level.size, number + 1

    def _build(self, level: _Level, number: int, begin: int, end: int) -> None:
        rows = np.arange(0, end - begin, BLOCK)
        if number:
            low, high, total, count = (part.view[begin:end] for part in self._levels[number - 1].parts())
            level.count.extend(np.add.reduceat(count, rows))
        else:
            low = high = total = self.values[begin:end]
            good = np.isfinite(low)
            if good.all():
                level.count.grow(rows.size)[:] = BLOCK
            else:
                low, high, total = np.where(good, low, np.inf), np.where(good, low, -np.inf), np.where(good, low, 0)
                level.count.extend(np.add.reduceat(good.astype(np.int64), rows))
        level.low.extend(np.minimum.reduceat(low, rows))
        level.high.extend(np.maximum.reduceat(high, rows))
        level.total.extend(np.add.reduceat(total, rows, dtype=np.float64))

    # --- Single samples -----------------------------------------------------------------------------------------------

    @property
    def lowest(self) -> Sample | None:
        """The first of the least finite values."""
        return self._known_extreme(np.argmin, lambda level: level.low, np.inf)

    @property
    def highest(self) -> Sample | None:
        """The first of the greatest finite values."""
        return self._known_extreme(np.argmax, lambda level: level.high, -np.inf)

    def _known_extreme(
        self, best: Callable[[Any], np.intp], part: Callable[[_Level], Buffer[Any]], nothing: float
    ) -> Sample | None:
        """Looks for it only where something has changed: tables and charts ask for those of a thousand curves."""
        version = (len(self), self.cuts)
        known = self._extremes.get(nothing)
        if known is None or known[0] != version:
            known = self._extremes[nothing] = (version, self._extreme(best, part, nothing))
        return known[1]

    def _extreme(
        self, best: Callable[[Any], np.intp], part: Callable[[_Level], Buffer[Any]], nothing: float
    ) -> Sample | None:
        """Goes down from the best of the blocks, and of the samples at the end that are in none, to the sample."""
        self._follow()
        rows = [part(level).view for level in self._levels]
        covered, tops, places = 0, [], []
        for number in range(len(rows), -1, -1):
            row = rows[number - 1] if number else self.values
            begin = covered // BLOCK**number
            covered = row.size * BLOCK**number
            if begin < row.size:
                top = row[begin:] if number else np.where(np.isfinite(row[begin:]), row[begin:], nothing)
                at = int(best(top))
                tops.append(float(top[at]))
                places.append((number, begin + at))
        if not tops or not np.isfinite(tops[int(best(tops))]):
            return None
        number, index = places[int(best(tops))]
        while number:
            number, index = number - 1, index * BLOCK
            row = rows[number - 1] if number else self.values
            block = row[index : index + BLOCK]
            index += int(best(block if number else np.where(np.isfinite(block), block, nothing)))
        return self._sample(index)

    @property
    def last(self) -> Sample | None:
        """The last finite value."""
        end = len(self)
        while end:
            start = max(end - BLOCK * BLOCK, 0)
            good = np.flatnonzero(np.isfinite(self.values[start:end]))
            if good.size:
                return self._sample(start + int(good[-1]))
            end = start
        return None

    def neighbour(self, x: float, after: bool) -> Sample | None:
        """The nearest sample before ``x``, or at or after it; None if there is none or it is not finite."""
        index = int(index_of(self.steps, np.array([x]))[0]) - (0 if after else 1)
        sample = self._sample(index) if 0 <= index < len(self) else None
        return sample if sample is not None and np.isfinite(sample.value) else None

    def at(self, x: float) -> Sample | None:
        """The last sample at or before ``x``; None if there is none or it is not finite."""
        return self.neighbour(np.nextafter(x, np.inf), after=False)

    def _sample(self, index: int) -> Sample:
        return Sample(float(self.steps[index]), float(self.values[index]))

    @property
    def sparse(self) -> bool:
        """Whether there are values at some steps only, as evaluations have them, not at every step."""
        steps = self.steps
        return steps.size < 2 or int(steps[-1]) - int(steps[0]) > 1.5 * (steps.size - 1)

    def gaps(self) -> Floats:
        """Stretches of steps that are missing, [n, 2]: the last sample before and the first one after. None if
        sparse."""
        steps = self.steps
        if self.sparse or is_gapless(steps):
            return np.empty((0, 2))
        wide = np.flatnonzero(np.diff(steps) > 1)
        return np.column_stack((steps[wide], steps[wide + 1])).astype(np.float64)


def _chunks(columns: int) -> list[tuple[int, int]]:
    """Ranges of columns that have one level each. The outermost columns are ranges of their own, because they may be
    nearly empty."""
    if columns == 0:
        return []
    inner = list(range(1, columns - 1, _CHUNK))
    bounds = sorted({0, *inner, max(columns - 1, 0), columns})
    return list(pairwise(bounds))
