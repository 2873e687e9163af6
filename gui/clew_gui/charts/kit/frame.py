"""The one mapping from axis coordinates to pixels. Rows count downwards, values upwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span

FAR: Final = 4000.0
"""Pixels beside a chart at which coordinates are cut off, because Qt's rasteriser overflows farther out."""


@dataclass(frozen=True)
class Frame:
    """A rectangle of pixels and the range of axis coordinates that it shows."""

    box: Box
    x: Span
    y: Span

    def px(self, x: FloatArray, far: float = FAR) -> FloatArray:
        """Pixel columns of axis coordinates, at most ``far`` pixels beside the rectangle."""
        pixels = self.box.x + (x - self.x.low) * (self.box.width / self.x.size)
        return np.clip(pixels, self.box.x - far, self.box.right + far)

    def py(self, y: FloatArray, far: float = FAR) -> FloatArray:
        """Pixel rows of axis coordinates, at most ``far`` pixels above or below the rectangle."""
        pixels = self.box.bottom - (y - self.y.low) * (self.box.height / self.y.size)
        return np.clip(pixels, self.box.y - far, self.box.bottom + far)

    def column(self, x: float) -> float:
        """The pixel column of one x."""
        pixel = self.box.x + (x - self.x.low) * (self.box.width / self.x.size)
        return min(max(pixel, self.box.x - FAR), self.box.right + FAR)

    def row(self, y: float) -> float:
        """The pixel row of one y."""
        pixel = self.box.bottom - (y - self.y.low) * (self.box.height / self.y.size)
        return min(max(pixel, self.box.y - FAR), self.box.bottom + FAR)

    def x_at(self, column: float) -> float:
        """The axis coordinate of a pixel column."""
        return self.x.low + (column - self.box.x) / max(self.box.width, 1.0) * self.x.size

    def y_at(self, row: float) -> float:
        """The axis coordinate of a pixel row."""
        return self.y.low + (self.box.bottom - row) / max(self.box.height, 1.0) * self.y.size

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of one point."""
        return self.column(x), self.row(y)

    def place(self, column: float, row: float) -> tuple[float, float]:
        """x and y at a pixel."""
        return self.x_at(column), self.y_at(row)

    def zoomed(self, factor: float, around: tuple[float, float]) -> Frame:
        """Shows ``factor`` times as much; the place ``around`` stays where it is."""
        x, y = around
        return Frame(
            self.box,
            Span(x + (self.x.low - x) * factor, x + (self.x.high - x) * factor),
            Span(y + (self.y.low - y) * factor, y + (self.y.high - y) * factor),
        )

    def moved(self, columns: float, rows: float) -> Frame:
        """Moves what is shown by so many pixels."""
        dx, dy = -columns / self.box.width * self.x.size, rows / self.box.height * self.y.size
        return Frame(self.box, Span(self.x.low + dx, self.x.high + dx), Span(self.y.low + dy, self.y.high + dy))
