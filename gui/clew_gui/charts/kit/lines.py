"""A chart of lines: axes, lines with marks and ranges, names at their ends, and what is said at a pixel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.base.tokens import FontKind, Theme
from clew_gui.charts.kit.axes import FOOT, draw_foot, draw_grid, value_room
from clew_gui.charts.kit.drawing import Chart, Drawing, Shape, Stroke, TextSizes, widest
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray, spread
from clew_gui.charts.kit.ticks import Span, Tick

_DOT: Final = 10.0
_SINGLE: Final = 4.0
"""The size of a point that would be no line."""
_WHISKER: Final = 4.0
_MERGED: Final = 1.0
"""Pixels: of points that are nearer to each other the least and the greatest are drawn."""


@dataclass(frozen=True, eq=False)
class PlotLine:
    """A line in axis coordinates. ``index`` gives its colour and dash (-1: a grey that stays back); ``words`` describes
    a point by its number, ``value`` is the last one in short. ``ranges`` [points, 2] are the ends of a range
    at each point, ``path`` is what is drawn instead of the way from point to point."""

    name: str
    x: FloatArray
    y: FloatArray
    value: str = ""
    words: Callable[[int], str] | None = None
    index: int = 0
    width: float = 1.8
    dash: tuple[float, ...] | None = None
    marks: Shape | None = None
    ranges: FloatArray | None = None
    path: tuple[FloatArray, FloatArray] | None = None
    strong: bool = False

    def stroke(self, theme: Theme) -> Stroke:
        """How it is drawn."""
        style = theme.curve(max(self.index, 0))
        colour = theme.text3 if self.index < 0 else style.colour
        return Stroke(colour, self.width, style.dash if self.dash is None else self.dash)

    def point(self, number: int) -> str:
        """Says its name and what is at a point."""
        return f"{self.name}: {self.words(number)}" if self.words is not None else ""


@dataclass(frozen=True, eq=False)
class PlotAxis:
    """The part of an axis that is shown, and its ticks."""

    span: Span
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, eq=False)
class LinesPlot:
    """The lines of one chart with their axes, and what stands above it."""

    title: str
    x: PlotAxis
    y: PlotAxis
    lines: tuple[PlotLine, ...]
    caption: str = ""


class LinesChart(Chart):
    """A plot in a box; with ``names`` the lines are named at the right if all names have room. ``title`` is the name of
    the x axis."""

    def __init__(self, plot: LinesPlot, box: Box, sizes: TextSizes, *, names: bool = True, title: str = "") -> None:
        self._plot, self._right, self._title = plot, box.right, title
        self._names = names = names and len(plot.lines) * sizes.height() < box.height - 2 * FOOT
        texts = [line.name for line in plot.lines], [line.value for line in plot.lines]
        gutter = sum(widest(sizes, found, "captionStrong") for found in texts) + 46 if names else 8.0
        below = FOOT + (sizes.height("captionStrong") if title else 2.0)
        area = box.inset(value_room(sizes, plot.y.ticks), 8, gutter, below)
        self.frame = Frame(area, plot.x.span, plot.y.span)

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        draw_grid(drawing, self.frame, self._plot.y.ticks)
        draw_foot(drawing, self.frame, self._plot.x.ticks, self._title)
        for line in self._plot.lines:
            draw_line(drawing, self.frame, line)
        for line in self._plot.lines:  # no line goes over a mark
            draw_marks(drawing, self.frame, line)
        if self._names:
            self._draw_names(drawing)

    def _draw_names(self, drawing: Drawing) -> None:
        """Names beside the lines' ends, none over another; each is connected with its line."""
        box, theme, high = self.frame.box, drawing.theme, drawing.sizes.height()
        ends = [self.frame.row(float((line.path or (line.x, line.y))[1][-1])) for line in self._plot.lines]
        places = spread(ends, high + 3, box.y + 0.5 * high, box.bottom - 0.5 * high)
        for line, end, y in zip(self._plot.lines, ends, places, strict=True):
            start = box.right + 10
            left = self.frame.column(float((line.path or (line.x, line.y))[0][-1])) + 9
            drawing.line(min(max(left, box.right - 4), start), end, start, y, Stroke(line.stroke(theme).colour))
            ink = theme.text if line.strong else theme.text2
            kind: FontKind = "captionStrong" if line.strong else "caption"
            drawing.text(start + 6, y, line.name, ink, kind)
            drawing.text(self._right - 4, y, line.value, ink, kind, across="right")

    def read(self, x: float, y: float) -> str:
        """Describes the points whose x is nearest to a pixel."""
        if not self.frame.box.inset(-_DOT, -_DOT, -_DOT, -_DOT).holds(x, y):
            return ""
        found = [(line, *nearest(self.frame, line, x)) for line in self._plot.lines if line.words is not None]
        least = min((away for _, _, away in found), default=0.0)
        return "\n".join(line.point(number) for line, number, away in found if away <= least + 1)

    def description(self) -> str:
        """All points that are marked of what stands out; of other lines the last one."""
        told = [line for line in self._plot.lines if line.words is not None]
        lines = [line for line in told if line.strong] or told
        return "; ".join(line.point(k) for line in lines for k in (range(line.x.size) if line.marks else (-1,)))


def nearest(frame: Frame, line: PlotLine, column: float) -> tuple[int, float]:
    """The point of a line that is nearest to a pixel column, and how far it is away."""
    away = np.abs(frame.px(line.x) - column)
    number = int(away.argmin())
    return number, float(away[number])


def draw_line(drawing: Drawing, frame: Frame, line: PlotLine) -> None:
    """Adds a line with its ranges. Where several points fall on one pixel column, it goes from the least to the
    greatest."""
    stroke, columns, rows = line.stroke(drawing.theme), frame.px(line.x), frame.py(line.y)
    if line.path is not None:
        drawing.path(frame.px(line.path[0]), frame.py(line.path[1]), stroke)
    elif columns.size > 2 * frame.box.width:
        drawing.path(*_thinned(columns, rows), stroke)
    elif columns.size > 1:
        drawing.path(columns, rows, stroke)
    if line.ranges is not None:
        solid = Stroke(stroke.colour, stroke.width)
        for x, (low, high) in zip(columns, frame.py(line.ranges), strict=True):
            if low > high:
                drawing.line(x, low, x, high, solid)
                for end in (low, high):
                    drawing.line(x - _WHISKER, end, x + _WHISKER, end, solid)


def draw_marks(drawing: Drawing, frame: Frame, line: PlotLine) -> None:
    """Adds the marks of a line; of one with a single point a dot, which nothing else would show."""
    colour, columns, rows = line.stroke(drawing.theme).colour, frame.px(line.x), frame.py(line.y)
    if line.marks is not None:
        drawing.marks(columns, rows, colour, _DOT, shape=line.marks, edge=Stroke(drawing.theme.surface, 1.5))
    elif columns.size == 1:
        drawing.marks(columns, rows, colour, _SINGLE)


def _thinned(columns: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    starts = np.flatnonzero(np.diff(np.floor(columns / _MERGED), prepend=-np.inf))
    pairs = np.column_stack((np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)))
    return np.repeat(columns[starts], 2), pairs.ravel()
