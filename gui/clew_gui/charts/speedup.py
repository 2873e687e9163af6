"""The charts of a scaling study: speed-up and efficiency against the number of devices."""

from __future__ import annotations

from typing import Final

import numpy as np

from clew_gui.base.tokens import Theme
from clew_gui.charts.axes import FOOT, EndName, draw_end_names, draw_foot, draw_grid, value_room
from clew_gui.charts.chart import Chart, ChartPage
from clew_gui.charts.drawing import Drawing, Shape, Stroke, TextSizes, widest
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.speedup import Mark, PlotLine, ScalingPlot, SpeedupScene

_DOT: Final = 10.0
_WHISKER: Final = 4.0
_NEAR: Final = 12.0
"""A point answers to the pointer within so many pixels."""
_SIZE: Final = (1000.0, 460.0)
_EDGE: Final = 16.0
_LEFT_SHARE: Final = 0.57
"""The part of a page that the left plot has, whose lines are named."""


def _stroke(line: PlotLine, theme: Theme) -> Stroke:
    """Each kind of line differs by its dash as well as by its colour."""
    colour = {"ideal": theme.text3, "measured": theme.curve(0).colour, "reference": theme.curve(1).colour}
    dash = {"ideal": (3.0, 3.0), "reference": (9.0, 5.4), "forecast": (2.7, 4.5)}.get(line.kind, ())
    return Stroke(colour.get(line.kind, theme.curve(3).colour), 1.2 if line.kind == "ideal" else 1.8, dash)


class ScalingChart(Chart):
    """Lines of a study with a dot and its range at each point; with ``names`` they are named at the right."""

    def __init__(self, plot: ScalingPlot, box: Box, sizes: TextSizes, *, names: bool, title: str = "") -> None:
        self._plot, self._names, self._right, self._title = plot, names, box.right, title
        texts = [line.name for line in plot.lines], [line.value for line in plot.lines]
        gutter = sum(widest(sizes, found, "captionStrong") for found in texts) + 46 if names else 8.0
        below = FOOT + (sizes.height("captionStrong") if title else 2.0)
        area = box.inset(value_room(sizes, plot.y_ticks), 8, gutter, below)
        self._frame = Frame(area, plot.x, plot.y)

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        plot, frame = self._plot, self._frame
        draw_grid(drawing, frame, plot.y_ticks)
        draw_foot(drawing, frame, plot.x_ticks, self._title)
        for line in plot.lines:
            x, y = np.array(line.path).T
            drawing.path(frame.px(x), frame.py(y), _stroke(line, drawing.theme))
        for line in plot.lines:
            for mark in line.marks:
                self._draw_mark(drawing, line, mark)
        if self._names:
            draw_end_names(drawing, frame.box, self._right, [self._end(line, drawing.theme) for line in plot.lines])

    def _draw_mark(self, drawing: Drawing, line: PlotLine, mark: Mark) -> None:
        colour, column = _stroke(line, drawing.theme).colour, self._frame.column(mark.x)
        if mark.high > mark.low:
            low, high = self._frame.row(mark.low), self._frame.row(mark.high)
            drawing.line(column, low, column, high, Stroke(colour, 1.8))
            for end in (low, high):
                drawing.line(column - _WHISKER, end, column + _WHISKER, end, Stroke(colour, 1.8))
        shape: Shape = "square" if line.kind == "reference" else "dot"
        edge = Stroke(drawing.theme.surface, 1.5)
        drawing.marks([column], [self._frame.row(mark.y)], colour, _DOT, shape=shape, edge=edge)

    def _end(self, line: PlotLine, theme: Theme) -> EndName:
        x, y = line.path[-1]
        at = self._frame.column(x) + 6, self._frame.row(y)
        return EndName(at, line.name, _stroke(line, theme), line.value, line.kind == "measured")

    def read(self, x: float, y: float) -> str:
        """Describes the nearest point; empty if none is near."""
        points = [
            (abs(self._frame.column(mark.x) - x) + abs(self._frame.row(mark.y) - y), f"{line.name}: {text}")
            for line in reversed(self._plot.lines)
            for mark, text in zip(line.marks, line.words, strict=True)
        ]
        near = min(points, default=(_NEAR + 1, ""), key=lambda point: point[0])
        return near[1] if near[0] <= _NEAR else ""

    def words(self) -> str:
        """All measured points."""
        measured = [line for line in self._plot.lines if line.kind == "measured"]
        return "; ".join(text for line in measured for text in line.words)


def speedup_page(scene: SpeedupScene, title: str, theme: Theme, sizes: TextSizes) -> ChartPage:
    """The sentence above both plots, side by side as in the window."""
    drawing, (width, height) = Drawing(theme, sizes), _SIZE
    wide = width - 2 * _EDGE
    drawing.paragraph(Box(_EDGE, 10, wide, 26), title, theme.text, "subtitle")
    drawing.paragraph(Box(_EDGE, 36, wide, 22), scene.conclusion.sentence, theme.text, "strong")
    drawing.paragraph(Box(_EDGE, 58, wide, 38), scene.conclusion.detail, theme.text2)
    middle = width * _LEFT_SHARE
    for plot, left, right in zip(scene.plots, (_EDGE, middle + _EDGE), (middle, width - _EDGE), strict=True):
        box = Box(left, 104, right - left, 22)
        drawing.paragraph(box, f"{plot.title}, {plot.caption}", theme.text, "strong")
        chart = Box(left, 130, right - left, height - 142)
        ScalingChart(plot, chart, sizes, names=left < middle).draw(drawing)
    return ChartPage(width, height, drawing.items, title, scene.conclusion.sentence, theme.surface)
