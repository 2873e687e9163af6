"""A loss surface that can be read anywhere, its contour levels, and its picture as plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import Span, Tick, linear_ticks, log_ticks
from clew_shared.cards import SurfaceSpec
from clew_shared.surface import heights_of

Colour = tuple[int, int, int]
LEVELS: Final = 14
"""The approximate largest number of contours."""
_DECADES: Final = 5.0
"""A logarithmic scale reaches so far below the highest place; what lies deeper has the lowest colour."""
_FLAT: Final = 1e-6
_SHADES: Final = 16
"""The number of shades between ground and contour that makes an edge smooth."""


@dataclass(frozen=True)
class Inks:
    """The colours of a map, red, green and blue from 0 to 255: lowest and highest ground, contours, beyond the grid."""

    low: Colour
    high: Colour
    line: Colour
    beyond: Colour


class Heights:
    """The surface of a card. Between the grid's points it is cubic (Catmull and Rom 1974), exact for a parabola."""

    def __init__(self, spec: SurfaceSpec) -> None:
        self.spec = spec
        self.x, self.y = Span(*spec.x), Span(*spec.y)
        grid = heights_of(spec)
        finite = grid[np.isfinite(grid)]
        top = float(finite.max()) if finite.size else 1.0
        self._grid = _padded(_padded(np.where(np.isfinite(grid), grid, top)).T).T
        positive = finite[finite > 0]
        self.log = bool(positive.size) and bool(finite.min() >= 0)
        low = float(positive.min()) if self.log else float(finite.min()) if finite.size else 0.0
        self.scale = self._scale(low, top)
        ticks = log_ticks(self.scale, LEVELS) if self.log else linear_ticks(self.scale, LEVELS)
        self.levels: tuple[Tick, ...] = (
            ticks if len(ticks) > 1 else (Tick(self.scale.low, ""), Tick(self.scale.high, ""))
        )

    def _scale(self, low: float, top: float) -> Span:
        """Returns the range of the colours, in log10 of the loss with ``log``."""
        if self.log:
            high = math.log10(top)
            return Span(min(max(math.log10(low), high - _DECADES), high - 0.1), high)
        return Span(low, top if top > low else low + 1.0)

    def sample(self, x: FloatArray, y: FloatArray) -> FloatArray:
        """The loss [len(y), len(x)] at each pair; NaN beyond the grid."""
        rows = _weights(y, self.y, self.spec.rows)
        columns = _weights(x, self.x, self.spec.columns)
        found: FloatArray = rows @ self._grid @ columns.T
        return found

    def at(self, x: float, y: float) -> float | None:
        """The loss at one place; None beyond the grid."""
        value = float(self.sample(np.array([x]), np.array([y]))[0, 0])
        return None if math.isnan(value) else max(value, 0.0) if self.log else value

    def picture(self, x: FloatArray, y: FloatArray, inks: Inks) -> npt.NDArray[np.uint32]:
        """The map at these places, 0xffRRGGBB [len(y), len(x)]: even ground between contours that are a pixel wide."""
        heights = self.sample(x, y).astype(np.float32)
        beyond = np.isnan(heights)
        if self.log:
            heights = np.log10(np.maximum(heights, np.float32(10.0 ** (self.scale.low - 1))))
        marks = np.array([tick.at for tick in self.levels])
        steps = np.concatenate(([-0.5], np.arange(marks.size), [marks.size - 0.5]))  # below the first, above the last
        ends = np.concatenate(([marks[0] - 1e-9], marks, [marks[-1] + 1e-9]))
        place = np.interp(heights, ends, steps).astype(np.float32)
        place[beyond] = -0.5
        ground = np.ceil(place).astype(np.int32)
        index = ground * (_SHADES + 1) + np.round(_line(place) * _SHADES).astype(np.int32)
        index[beyond] = (marks.size + 1) * (_SHADES + 1)
        return _table(inks, marks.size + 1)[index]


def _line(place: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Returns how much of a contour covers each pixel: its distance from the nearest whole number, by the slope
    there."""
    if min(place.shape) < 2:
        return np.zeros_like(place)
    down, right = np.gradient(place)
    slope = np.hypot(down, right)
    away = np.abs(place - np.round(place)) / np.maximum(slope, np.float32(_FLAT))
    cover: npt.NDArray[np.float32] = np.clip(1 - away, 0, 1)
    return cover


def _table(inks: Inks, grounds: int) -> npt.NDArray[np.uint32]:
    """Colours by ground and share of a contour over it; the last one is that beyond the grid."""
    low, high, line = (np.array(ink, np.float64) for ink in (inks.low, inks.high, inks.line))
    ground = low + np.linspace(0.0, 1.0, grounds)[:, None] * (high - low)
    share = np.linspace(0.0, 1.0, _SHADES + 1)[None, :, None]
    colours = np.concatenate([(ground[:, None] * (1 - share) + line * share).reshape(-1, 3), [inks.beyond]])
    red, green, blue = colours.round().astype(np.uint32).T
    table: npt.NDArray[np.uint32] = (0xFF000000 | red << 16 | green << 8 | blue).astype(np.uint32)
    return table


def _padded(grid: FloatArray) -> FloatArray:
    """Adds one row at both ends, on the parabola through the last three."""
    if grid.shape[0] < 3:
        return np.concatenate([grid[:1], grid, grid[-1:]])
    before, behind = 3 * grid[0] - 3 * grid[1] + grid[2], 3 * grid[-1] - 3 * grid[-2] + grid[-3]
    return np.concatenate([before[None], grid, behind[None]])


def _weights(at: FloatArray, span: Span, points: int) -> FloatArray:
    """The share [len(at), points + 2] of each padded grid point in the value at each place; NaN beyond the grid."""
    place = (at - span.low) / span.size * (points - 1)
    inside = (place >= -1e-9) & (place <= points - 1 + 1e-9)
    first = np.clip(np.floor(np.where(inside, place, 0.0)), 0, max(points - 2, 0)).astype(np.intp)
    t = np.where(inside, place, 0.0) - first
    shares = (
        0.5 * (-t + 2 * t**2 - t**3),
        0.5 * (2 - 5 * t**2 + 3 * t**3),
        0.5 * (t + 4 * t**2 - 3 * t**3),
        0.5 * (-(t**2) + t**3),
    )
    weights = np.zeros((at.size, points + 2))
    for offset, share in enumerate(shares):
        weights[np.arange(at.size), np.minimum(first + offset, points + 1)] += share
    weights[~inside] = np.nan
    return weights
