"""A curve in a terminal: braille dots, two across and four down in each character, min and max of each column kept."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

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


def plot(steps: Floats, values: Floats, width: int, height: int, last_step: float, log: bool = False) -> BraillePlot:
    """Draw ``values`` over ``steps`` (0 to ``last_step``) in ``width`` × ``height`` characters.

    ``log`` draws the logarithm and leaves out what is not positive. Values that are not finite, and steps that are
    missing where most are there, leave a gap. Neighbouring columns are joined, so the curve has no other holes.
    """
    known = np.isfinite(values) & (values > 0 if log else True)
    if not known.any():
        return BraillePlot((" " * width,) * height, math.nan, math.nan)
    x = np.asarray(steps, np.float64)[known]
    y = np.asarray(values, np.float64)[known]
    drawn = np.log10(y) if log else y
    low, high = float(drawn.min()), float(drawn.max())
    span = (high - low) or 1.0
    columns = np.clip(x / max(last_step, 1.0) * (2 * width - 1), 0, 2 * width - 1).astype(np.int64)
    pieces = _pieces(np.asarray(steps, np.float64), np.asarray(values, np.float64))[known]
    rows = np.rint((high - drawn) / span * (4 * height - 1)).astype(np.int64)
    lines = _characters(_dots(columns, rows, pieces, 2 * width, 4 * height))
    return BraillePlot(lines, float(y.max()), float(y.min()))


def _pieces(steps: Floats, values: Floats) -> npt.NDArray[np.int64]:
    """The number of the unbroken piece to which each value belongs."""
    breaks = ~np.isfinite(values)
    if len(steps) > 1 and steps[-1] - steps[0] < 2 * len(steps):  # not of evaluations, which stand apart
        breaks[1:] |= np.diff(steps) > 1
    return np.cumsum(breaks)


def _dots(
    columns: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    pieces: npt.NDArray[np.int64],
    width: int,
    height: int,
) -> npt.NDArray[np.bool_]:
    dots = np.zeros((height, width), np.bool_)
    before: tuple[int, int] | None = None
    piece = -1
    for column in np.unique(columns):
        here = columns == column
        inside, numbers = rows[here], pieces[here]
        top, bottom, middle = int(inside.min()), int(inside.max()), round(float(inside.mean()))
        dense = len(inside) > _DENSE
        if before is not None and numbers[0] == piece:
            _join(dots, before, (int(column), middle if dense else int(inside[0])))
        if dense:
            dots[[top, middle, bottom], column] = True
        else:
            dots[top : bottom + 1, column] = True
        before, piece = (int(column), middle if dense else int(inside[-1])), int(numbers[-1])
    return dots


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
