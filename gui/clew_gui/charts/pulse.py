"""The charts of what a run's machines do: rows below its curves, on their x axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from clew_gui.base.tokens import Theme
from clew_gui.charts.axes import FOOT, draw_foot, draw_grid
from clew_gui.charts.chart import Chart
from clew_gui.charts.drawing import Drawing, Stroke, TextSizes
from clew_gui.charts.gutter import draw_swatch
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.pulse import PulseLine, PulseRow

ROW: Final = 46.0
"""The height of a row."""
GAP: Final = 14.0
_LEAST: Final = 24.0
"""The least height of a row in which its curve says anything."""
_FOOT: Final = FOOT + 16
_VALUES: Final = 2
"""Values of several lines that have room beside their title."""
_LINE: Final = 15.0
"""The height of a name."""
_MERGED: Final = 1.0
"""Pixels: of samples that are nearer to each other the least and the greatest are drawn."""


def height_of(rows: int, foot: bool) -> float:
    """Pixels that so many rows take; with a ``foot`` they have an x axis of their own."""
    return rows * (ROW + GAP) + (_FOOT if foot else 0)


class PulseChart(Chart):
    """Rows below each other, as many as have room. ``sides``: the columns where they begin and end, and where the names
    and last values right of them end.

    ``x_of`` places moments on the axis, of which ``span`` is shown; ``ticks`` and ``title`` of an x axis of their own.
    """

    def __init__(
        self,
        rows: Sequence[PulseRow],
        x_of: Callable[[FloatArray], FloatArray],
        span: Span,
        sides: tuple[float, float, float],
        box: Box,
        sizes: TextSizes,
        *,
        index: int = 0,
        ticks: Sequence[Tick] = (),
        title: str = "",
    ) -> None:
        room = box.height - (_FOOT if ticks else 0)
        self._rows = tuple(rows)[: max(int(room // (_LEAST + GAP)), 1)]  # the first ones say most
        self._span, self._index, self._sizes = span, index, sizes
        self._ticks, self._title = ticks, title
        left, right, self._right = sides
        each = max(room / max(len(self._rows), 1) - GAP, 16.0)
        tops = [box.y + 8 + k * (each + GAP) for k in range(len(self._rows))]
        boxes = [Box(left, top, max(right - left, 32.0), each) for top in tops]
        self.frames = [Frame(one, span, Span(0.0, row.top)) for one, row in zip(boxes, self._rows, strict=True)]
        self._places = [[x_of(line.times) for line in row.lines] for row in self._rows]

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        for row, frame, places in zip(self._rows, self.frames, self._places, strict=True):
            most = 2 if frame.box.height < 60 else 4
            draw_grid(drawing, frame, row.ticks(frame.y, most))
            with drawing.clipped(frame.box.inset(-1, -2, -1, -1)):
                for number, (line, x) in enumerate(zip(row.lines, places, strict=True)):
                    _draw_line(drawing, frame, x, line.values, self._stroke(drawing.theme, row, number))
            self._draw_names(drawing, row, frame, places)
        if self._ticks and self.frames:
            draw_foot(drawing, self.frames[-1], self._ticks, self._title)

    def _stroke(self, theme: Theme, row: PulseRow, number: int) -> Stroke:
        """A single line has the run's colour; several have one each."""
        style = theme.curve(self._index if len(row.lines) == 1 else number)
        return Stroke(style.colour, 1.4, style.dash if len(row.lines) > 1 else ())

    def _draw_names(self, drawing: Drawing, row: PulseRow, frame: Frame, places: Sequence[FloatArray]) -> None:
        """The title and the last value; several lines have their names below it, as far as all of them have room."""
        left, y = frame.box.right + 16, frame.box.y
        ends = [self._end(row, line, x) for line, x in zip(row.lines, places, strict=True)]
        fits = len(row.lines) > 1 and len(row.lines) * _LINE <= frame.box.height + GAP - 20
        last = "" if fits else ", ".join(ends[:_VALUES]) + (", …" if len(ends) > _VALUES else "")
        drawing.text(left - 12, y, row.title, drawing.theme.text, "captionStrong")
        drawing.text(self._right - 2, y, last, drawing.theme.text2, across="right")
        for number, (line, end) in enumerate(zip(row.lines, ends, strict=True) if fits else ()):
            y += _LINE
            draw_swatch(drawing, left, y, number)
            drawing.text(left + 18, y, line.name, room=self._right - left - 24 - drawing.width(end))
            drawing.text(self._right - 2, y, end, drawing.theme.text2, across="right")

    def _end(self, row: PulseRow, line: PulseLine, x: FloatArray) -> str:
        """The last value in sight."""
        seen = np.flatnonzero(np.isfinite(x) & (x <= self._span.high) & (x >= self._span.low))
        return row.words(float(line.values[seen[-1]])) if len(seen) else ""

    def read(self, x: float, y: float) -> str:
        """The values nearest to a pixel."""
        for row, frame, places in zip(self._rows, self.frames, self._places, strict=True):
            if frame.box.inset(-2, -GAP / 2, -2, -GAP / 2).holds(x, y):
                found = [_at(frame, line, place, x) for line, place in zip(row.lines, places, strict=True)]
                values = [
                    f"{line.name} {row.words(value)}".strip() if len(row.lines) > 1 else row.words(value)
                    for line, value in zip(row.lines, found, strict=True)
                    if value is not None
                ]
                return f"{row.title}: {', '.join(values)}" if values else ""
        return ""

    def words(self) -> str:
        """Each row's last value."""
        told = []
        for row, places in zip(self._rows, self._places, strict=True):
            ends = [
                f"{line.name} {end}".strip()
                for line, x in zip(row.lines, places, strict=True)
                if (end := self._end(row, line, x))
            ]
            told += [f"{row.title} {', '.join(ends)}"] if ends else []
        return ". ".join(told)


def _draw_line(drawing: Drawing, frame: Frame, x: FloatArray, values: FloatArray, stroke: Stroke) -> None:
    """A line through the samples. Where several fall on one pixel column it goes from the least to the greatest."""
    known = np.isfinite(x)
    columns, rows = frame.px(x[known]), frame.py(values[known])
    if len(columns) == 1:
        drawing.marks(columns, rows, stroke.colour, 4.0)
        return
    if len(columns) > 2 * frame.box.width:
        columns, rows = _thinned(columns, rows)
    drawing.path(columns, rows, stroke)


def _thinned(columns: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    starts = np.flatnonzero(np.diff(np.floor(columns / _MERGED), prepend=-np.inf))
    pairs = np.column_stack((np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)))
    return np.repeat(columns[starts], 2), pairs.ravel()


def _at(frame: Frame, line: PulseLine, x: FloatArray, column: float) -> float | None:
    known = np.flatnonzero(np.isfinite(x))
    if not len(known):
        return None
    return float(line.values[known[np.argmin(np.abs(frame.px(x[known]) - column))]])
