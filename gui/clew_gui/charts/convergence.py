"""The chart of curves over steps in a report: all runs in one plot, with goals and what was expected.

The window draws its curves with pyqtgraph, which zooms and moves them; a report shows the whole of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clew_gui.charts.axes import FOOT, draw_foot, draw_grid, value_room
from clew_gui.charts.drawing import Drawing, Stroke, TextSizes
from clew_gui.charts.gutter import Gutter, Label, gutter_for
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.numbers import Format, value_text
from clew_gui.plotting.axes.ticks import Span, XUnit, linear_ticks, log_ticks, x_ticks
from clew_gui.plotting.curves.model import RunStyle

_PALE = 0.3
_BAND = 0.16


class ConvergenceLine(NamedTuple):
    """A curve in pieces of x: mean, least and greatest value of each. ``last`` is the very last value."""

    run: RunStyle
    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray
    last: float
    evaluated: bool


class ConvergenceChart:
    """Curves over steps between ``y``, in axis coordinates. ``goals`` are values with their words; ``expected`` are
    steps and values that somebody drew before the run."""

    def __init__(
        self,
        title: str,
        lines: Sequence[ConvergenceLine],
        y: Span,
        box: Box,
        sizes: TextSizes,
        *,
        log: bool = False,
        form: Format = "number",
        goals: Sequence[tuple[float, str]] = (),
        expected: Sequence[tuple[FloatArray, FloatArray]] = (),
    ) -> None:
        self._title, self._lines, self._log, self._form = title, lines, log, form
        self._goals, self._expected = goals, expected
        self._ticks = log_ticks(y, 5, form, 0.1) if log else linear_ticks(y, 5, form)
        gutter = gutter_for([line.run for line in lines], box.width, sizes)
        area = box.inset(value_room(sizes, self._ticks), 10, gutter, FOOT + sizes.height("captionStrong"))
        self._frame = Frame(area, Span(0.0, max(float(line.x[-1]) for line in lines) or 1.0), y)
        self._gutter = Gutter(Box(area.right, area.y, gutter, area.height))
        named = {line.run.run_id: line for line in sorted(lines, key=lambda line: line.evaluated)}
        self._gutter.place([self._label(line) for line in named.values()])

    def _label(self, line: ConvergenceLine) -> Label:
        row = float(self._rows(line.mean[-1:])[0])
        box = self._frame.box
        at = min(max(row, box.y), box.bottom) if np.isfinite(row) else box.bottom
        return Label(line.run, at, value_text(line.last, self._form), strong=False)

    def _rows(self, values: FloatArray) -> FloatArray:
        """Pixel rows of values; what is above or below the axis is drawn at its end."""
        with np.errstate(divide="ignore", invalid="ignore"):
            places = np.log10(values) if self._log else values
        return self._frame.py(np.clip(places, self._frame.y.low, self._frame.y.high))

    def draw(self, drawing: Drawing) -> None:
        """Add the curves; those of single batches are below and pale if there are evaluated ones, which say more."""
        frame, theme = self._frame, drawing.theme
        draw_grid(drawing, frame, self._ticks)
        draw_foot(drawing, frame, x_ticks(frame.x, 8, XUnit.STEP, log=False), "Step")
        pale = any(line.evaluated for line in self._lines)
        for line in () if pale else self._lines:
            low, high = self._rows(line.low), self._rows(line.high)
            drawing.band(frame.px(line.x), low, high, theme.curve(line.run.index).colour, _BAND)
        for line in sorted(self._lines, key=lambda line: line.evaluated):
            style, faint = theme.curve(line.run.index), pale and not line.evaluated
            x, y = frame.px(line.x), self._rows(line.mean)
            stroke = Stroke(style.colour, 1.0, style.dash, _PALE) if faint else Stroke(style.colour, 1.6, style.dash)
            drawing.path(x, y, stroke)
            if line.evaluated:
                drawing.marks(x, y, style.colour, 6.0)
        for steps, values in self._expected:
            inside = (steps >= frame.x.low) & (steps <= frame.x.high)
            drawing.path(frame.px(steps[inside]), self._rows(values[inside]), Stroke(theme.text3, 1.0, (4, 4)))
        self._draw_goals(drawing)
        self._gutter.draw(drawing, self._title + (", log scale" if self._log else ""), "")

    def _draw_goals(self, drawing: Drawing) -> None:
        """A dashed line for each goal; its words are left of those of another one that is as high."""
        box, colour = self._frame.box, drawing.theme.ok
        taken: list[tuple[float, float]] = []
        for value, words in self._goals:
            row = self._frame.row(float(np.log10(value)) if self._log else value)
            if not box.y <= row <= box.bottom:
                continue
            drawing.line(box.x, row, box.right, row, Stroke(colour, 1.0, (5, 4)))
            width = drawing.width(words) + 8
            right = min([left for other, left in taken if abs(other - row) < 14], default=box.right)
            taken.append((row, right - width))
            drawing.rect(Box(right - width, row - 16, width, 14), drawing.theme.surface, 0.85)
            drawing.text(right - 4, row - 9, words, colour, across="right")

    def read(self, x: float, y: float) -> str:
        """Returns an empty text: a report is not read out."""
        del x, y
        return ""

    def words(self) -> str:
        """The last value of each run."""
        return "; ".join(f"{label.run.label} {label.value}" for label, _ in self._gutter.placed)
