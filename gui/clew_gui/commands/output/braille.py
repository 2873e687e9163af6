"""A curve in a terminal: braille dots, two across and four down in each character, min and max of each column kept."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating[Any]] | npt.NDArray[np.integer[Any]]

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of the dots of a braille character from the top down: left column, right column (Unicode block U+2800)."""


_DENSE = 8
"""The number of values in a column above which its mean is drawn, and its least and greatest as single dots: a filled
noisy curve would be a solid block."""


class BraillePlot(NamedTuple):
    """Lines of text from the top down, and the values at the upper and lower edge."""

    lines: tuple[str, ...]
    top: float
    bottom: float


def plot(steps: Values, values: Values, width: int, height: int, last_step: float, log: bool = False) -> BraillePlot:
    """Draw ``values`` over ``steps`` (0 to ``last_step``) in ``width`` × ``height`` characters.

    ``log`` draws the logarithm and leaves out what is not positive. Values that are not finite, and steps that are
    missing where most are there, leave a gap. Neighbouring columns are joined, so the curve has no other holes.
    """
    known = _known(values, log)
    if not known.any():
        return BraillePlot((" " * width,) * height, math.nan, math.nan)
    high = float(np.max(values, where=known, initial=-np.inf))
    low = float(np.min(values, where=known, initial=np.inf))
    dots = np.zeros((4 * height, 2 * width), np.bool_)
    starts = np.searchsorted(steps, np.arange(2 * width) * (max(last_step, 1.0) / (2 * width - 1)))
    _draw(dots, steps, values, starts, _Scale(low, high, 4 * height, log))
    return BraillePlot(_characters(dots), high, low)


def _known(values: Values, log: bool) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = np.isfinite(values)
    return found & (values > 0) if log else found


class _Scale(NamedTuple):
    """From values to rows of dots, 0 being the top."""

    low: float
    high: float
    height: int
    log: bool

    def rows(self, values: Values) -> npt.NDArray[np.int64]:
        """The rows of values that can be drawn."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        drawn = np.log10(values, dtype=np.float64) if self.log else values.astype(np.float64)
        found: npt.NDArray[np.int64] = np.rint((high - drawn) / ((high - low) or 1.0) * (self.height - 1)).astype(
            np.int64
        )
        return found


def _draw(
    dots: npt.NDArray[np.bool_], steps: Values, values: Values, starts: npt.NDArray[np.int64], scale: _Scale
) -> None:
    """Draws column by column, so that a run of ten million steps needs no copies of its curve. ``starts``: where each
    column's values begin."""
    apart = len(steps) > 1 and bool(steps[-1] - steps[0] >= 2 * len(steps))  # evaluations are no gaps
    before: tuple[int, int] | None = None
    broken = False
    for column, (start, end) in enumerate(pairwise([*starts.tolist(), len(steps)])):
        part = values[start:end]
        there = np.flatnonzero(_known(part, scale.log))
        breaks = ~np.isfinite(part)
        if not apart and len(part):
            gaps = np.diff(steps[max(start - 1, 0) : end]) > 1
            breaks[len(part) - len(gaps) :] |= gaps
        if not len(there):
            broken |= bool(breaks.any())
            continue
        broken |= bool(breaks[: there[0] + 1].any())
        rows = scale.rows(part[there])
        top, bottom, middle = int(rows.min()), int(rows.max()), round(float(rows.mean()))
        dense = len(rows) > _DENSE
        if before is not None and not broken:
            _join(dots, before, (column, middle if dense else int(rows[0])))
        if dense:
            dots[[top, middle, bottom], column] = True
        else:
            dots[top : bottom + 1, column] = True
        before, broken = (column, middle if dense else int(rows[-1])), bool(breaks[there[-1] + 1 :].any())


def _join(dots: npt.NDArray[np.bool_], start: tuple[int, int], end: tuple[int, int]) -> None:
    """A straight line from the last dot of one column to the first of the next one that has any."""
    (x0, y0), (x1, y1) = start, end
    count = max(abs(x1 - x0), abs(y1 - y0)) + 1
    dots[np.rint(np.linspace(y0, y1, count)).astype(int), np.rint(np.linspace(x0, x1, count)).astype(int)] = True


def _characters(dots: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    bits = np.array(_DOTS, np.int64).T
    height, width = dots.shape
    cells = dots.reshape(height // 4, 4, width // 2, 2).transpose(0, 2, 1, 3)
    codes = (cells * bits).sum(axis=(2, 3))
    return tuple("".join(chr(0x2800 + int(code)) if code else " " for code in line) for line in codes)
