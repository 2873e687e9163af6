"""Maps axis coordinates to pixels (``Frame.px``, ``Frame.py``) and lays out the parts of the stacked plots."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from PySide6.QtCore import QPointF, QRectF

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import Span

AXIS_HEIGHT: Final = 24
GAP: Final = 16
TOP: Final = 8
TITLE: Final = 22
_FAR: Final = 4000.0  # pixels; beyond this a coordinate is cut off, because the rasteriser overflows


class Medium(Enum):
    """The medium on which a frame is painted."""

    SCREEN = "screen"
    PICTURE = "picture"
    """Pixels of a file."""
    DRAWING = "drawing"
    """A vector file."""


@dataclass(frozen=True)
class Frame:
    """One plot's rectangle and the axis coordinates it shows."""

    rect: QRectF
    x: Span
    y: Span

    def seen(self, above: float = 0.0) -> QRectF:
        """The ranges as a rectangle of axis coordinates, larger by ``above`` pixels at top and bottom."""
        more = above * self.y.size / max(self.rect.height(), 1.0)
        return QRectF(self.x.low, self.y.low - more, self.x.size, self.y.size + 2 * more)

    def px(self, x: FloatArray) -> FloatArray:
        """Pixel columns of axis coordinates."""
        pixels = self.rect.left() + (x - self.x.low) * (self.rect.width() / self.x.size)
        return np.clip(pixels, self.rect.left() - _FAR, self.rect.right() + _FAR)

    def py(self, y: FloatArray) -> FloatArray:
        """Pixel rows of axis coordinates."""
        pixels = self.rect.bottom() - (y - self.y.low) * (self.rect.height() / self.y.size)
        return np.clip(pixels, self.rect.top() - _FAR, self.rect.bottom() + _FAR)

    def at(self, x: float, y: float) -> QPointF:
        """The pixel of one point."""
        return QPointF(self.column(x), self.row(y))

    def column(self, x: float) -> float:
        """The pixel column of one x."""
        return float(self.px(np.array([x]))[0])

    def row(self, y: float) -> float:
        """The pixel row of one y."""
        return float(self.py(np.array([y]))[0])

    def holds(self, x: float, y: float) -> bool:
        """Whether a point lies in the rectangle."""
        return self.rect.adjusted(-1, -1, 1, 1).contains(self.at(x, y))

    def value_at(self, row: float) -> float:
        """The axis coordinate of a pixel row."""
        return self.y.low + (self.rect.bottom() - row) / max(self.rect.height(), 1.0) * self.y.size

    def x_at(self, pixel: float) -> float:
        """The axis coordinate of a pixel column."""
        return self.x.low + (pixel - self.rect.left()) / max(self.rect.width(), 1.0) * self.x.size


@dataclass(frozen=True)
class Stack:
    """Rectangles of the plots from top to bottom, the gutter right of them, and the whole picture."""

    width: float
    height: float
    plots: tuple[QRectF, ...]
    gutter: float

    @property
    def area(self) -> QRectF:
        """The rectangle from the first plot's top to the last one's bottom."""
        if not self.plots:
            return QRectF()
        return self.plots[0].united(self.plots[-1])


def stack(width: float, height: float, plots: int, left: float, gutter: float, titles: bool, footer: float) -> Stack:
    """Divide a picture: plots of equal height, ``left`` for the value axes, the x axis once at the foot.

    ``titles`` leaves a line above each plot for its title; ``footer`` is extra room below the x axis.
    """
    top = TITLE if titles else TOP
    between = GAP + (TITLE - 6 if titles else 0)
    inner = height - top - AXIS_HEIGHT - footer - between * max(plots - 1, 0)
    each = max(inner // max(plots, 1), 24.0)
    wide = max(width - left - (gutter or 14.0), 32.0)
    rects = tuple(QRectF(left, top + i * (each + between), wide, each) for i in range(plots))
    return Stack(width, height, rects, gutter)
