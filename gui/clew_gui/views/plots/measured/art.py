"""Paints measured relations: axes, lines with a dot at each point, names at their ends, and the read-out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.layout import Box, emptiest
from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.measured import MeasuredLine, MeasuredPlot, axis_ticks, span_of
from clew_gui.plotting.timeline import bar_at, busy_share, last_end
from clew_gui.views.charts.painter import polygon
from clew_gui.views.plots.curves.gutter import Gutter, Label
from clew_gui.views.plots.drawing import marks
from clew_gui.views.plots.drawing.lines import LIFTED_WIDTH, OTHER_WIDTH, RUN_WIDTH, dashed, swatch
from clew_gui.views.plots.drawing.pixels import AXIS_HEIGHT, GAP, TOP, Frame, gutter_width
from clew_gui.views.plots.measured import bars
from clew_gui.views.theme.theme import Theme, font

EMPTY: Final = "Points appear here as they are measured."
_LEFT: Final = 46.0
_ROW: Final = 17.0
_FOOT: Final = 16
"""The space below the numbers of the x axis, for its name."""
_DOT: Final = 3.5
_FAINT: Final = 0.4
_SIZES: Final = 12
"""The largest number of measured sizes that are the ticks of a logarithmic axis; with more, round numbers are."""
_AWAY: Final = 12.0
_CENTRE = Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignVCenter
_TO_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_TO_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    """A run that is shown, with what it measured: one entry for each plot."""

    style: RunStyle
    plots: tuple[MeasuredPlot, ...]


@dataclass(frozen=True, eq=False)
class DrawnLine:
    """A line as it is drawn. ``index`` gives colour and dash; ``main`` ones have dots, a name and a read-out."""

    line: MeasuredLine
    index: int
    name: str
    run: RunStyle
    main: bool


def drawn_lines_of(runs: Sequence[MeasuredRun], number: int) -> list[DrawnLine]:
    """The lines of plot ``number``, those that stand out last.

    Where each run has one line, runs have their own colours, as in all plots. Where a run has several, each series has
    one: the selected run's are plain to see, those of other runs faint. A timeline is the selected run's alone.
    """
    runs = [run for run in runs if number < len(run.plots)]  # where a card says nothing, a run that began has fewer
    several = any(len(run.plots[number].lines) > 1 for run in runs)
    chosen = chosen_run(runs)
    if chosen is not None and is_timeline(chosen.plots[number]):
        runs = [chosen]
    found = []
    for run in sorted(runs, key=lambda one: one is chosen):
        for k, line in enumerate(run.plots[number].lines):
            if line.x.size:
                name = line.name if several else run.style.label
                main = run is chosen if several else True
                found.append(DrawnLine(line, k if several else run.style.index, name, run.style, main))
    return found


def chosen_run(runs: Sequence[MeasuredRun]) -> MeasuredRun | None:
    """The selected run if it has points, else the last one that has."""
    there = [run for run in runs if any(line.x.size for plot in run.plots for line in plot.lines)]
    selected = [run for run in there if run.style.selected]
    return next(iter(selected or there[-1:]), None)


def is_timeline(plot: MeasuredPlot) -> bool:
    """Whether its lines are rows of bars."""
    return plot.spec.form == "timeline"


def shown_plots(run: MeasuredRun) -> list[int]:
    """The numbers of the plots of ``run``; a timeline gets no room before it has bars."""
    return [k for k, plot in enumerate(run.plots) if not is_timeline(plot) or any(line.x.size for line in plot.lines)]


class MeasuredArt:
    """One picture: made for a size, painted on any device."""

    def __init__(
        self, runs: Sequence[MeasuredRun], width: float, height: float, theme: Theme, log: bool = True
    ) -> None:
        self.theme, self._log = theme, log
        self.runs = runs
        self.chosen = chosen_run(runs)
        numbers = shown_plots(self.chosen) if self.chosen is not None else []
        self.plots = tuple(self.chosen.plots[k] for k in numbers) if self.chosen is not None else ()
        self.drawn_lines = [drawn_lines_of(runs, k) for k in numbers]
        self._size = width, height
        self.frames: list[Frame] = []
        self._ticks: list[tuple[Tick, ...]] = []
        self.gutters: list[Gutter] = []
        if self.plots:
            self._lay_out(self.plots)

    # ------------------------------------------------------------ layout
    def _logs(self, plot: MeasuredPlot) -> tuple[bool, bool]:
        return plot.spec.log_x and self._log, plot.spec.log_y and self._log

    def _lay_out(self, plots: Sequence[MeasuredPlot]) -> None:
        """Lays out the plots: value axes are as wide as their longest number, which is known once there are ticks."""
        gutter = gutter_width(self._size[0])
        spans = [self._spans(k, plot) for k, plot in enumerate(plots)]
        high = self._rects(_LEFT, gutter)[0].height()
        self._ticks = [
            bars.row_ticks(plot.lines, high)
            if is_timeline(plot)
            else axis_ticks(y, max(int(high // 28), 2), self._logs(plot)[1], plot.y.unit, plot.spec.format)
            for plot, (_, y) in zip(plots, spans, strict=True)
        ]
        metrics = QFontMetricsF(font("caption"))
        texts = [tick.text for ticks in self._ticks for tick in ticks]
        left = max([_LEFT, *(math.ceil(metrics.horizontalAdvance(text) + 14) for text in texts)])
        rects = self._rects(left, gutter)
        self.frames = [Frame(rect, x, y) for rect, (x, y) in zip(rects, spans, strict=True)]
        for rect, frame, drawn_lines, plot in zip(rects, self.frames, self.drawn_lines, plots, strict=True):
            self.gutters.append(Gutter(QRectF(rect.right(), rect.top(), gutter, rect.height())))
            named = [drawn for drawn in drawn_lines if drawn.main and not is_timeline(plot)]
            self.gutters[-1].place(
                [self._label(frame, drawn, plot) for drawn in named], self._key(len(self.gutters) - 1)
            )

    def _rects(self, left: float, gutter: float) -> list[QRectF]:
        """Returns the rectangles of plots of equal height, with room below those that have an x axis of their own."""
        width, height = self._size
        feet = [AXIS_HEIGHT + _FOOT if self._has_x_axis(k) else 0 for k in range(len(self.plots))]
        each = max((height - TOP - sum(feet) - GAP * (len(feet) - 1)) // len(feet), 24.0)
        tops = [TOP + k * (each + GAP) + sum(feet[:k]) for k in range(len(feet))]
        return [QRectF(left, top, max(width - left - gutter, 32.0), each) for top in tops]

    def _has_x_axis(self, number: int) -> bool:
        """Whether a plot has an x axis of its own: the last one does, and each above one with another x."""
        return number == len(self.plots) - 1 or self.plots[number + 1].x != self.plots[number].x

    def _spans(self, number: int, plot: MeasuredPlot) -> tuple[Span, Span]:
        """Returns the spans of x and y. Plots whose x has the same name show the same range of it."""
        if is_timeline(plot):
            return bars.spans(plot.lines)
        log_x, log_y = self._logs(plot)
        same = [k for k, other in enumerate(self.plots) if other.x == plot.x]
        x = span_of([drawn.line.x for k in same for drawn in self.drawn_lines[k]], log_x)
        return x, span_of([drawn.line.y for drawn in self.drawn_lines[number]], log_y)

    def _label(self, frame: Frame, drawn: DrawnLine, plot: MeasuredPlot) -> Label:
        _, y = self.coordinates(drawn.line, plot)
        style = RunStyle(drawn.run.run_id, drawn.name, drawn.index, drawn.run.selected)
        value, colour = plot.y_text(float(drawn.line.y[-1])), QColor(self.theme.curve(drawn.index).colour)
        return Label(style, frame.row(float(y[-1])), value, colour, drawn.run.selected and len(self.runs) > 1)

    def coordinates(self, line: MeasuredLine, plot: MeasuredPlot) -> tuple[FloatArray, FloatArray]:
        """Returns the line's points in axis coordinates."""
        log_x, log_y = self._logs(plot)
        return np.log10(line.x) if log_x else line.x, np.log10(line.y) if log_y else line.y

    # ------------------------------------------------------------ painting
    def paint(self, painter: QPainter) -> None:
        """Paints everything but the read-out."""
        painter.fillRect(QRectF(0, 0, *self._size), QColor(self.theme.surface))
        if self.chosen is None:
            self._text(painter, QRectF(0, 0, *self._size), EMPTY, self.theme.text3, _CENTRE)
            return
        for k, (frame, plot) in enumerate(zip(self.frames, self.plots, strict=True)):
            self._value_axis(painter, frame, self._ticks[k], lines=not is_timeline(plot))
            if self._has_x_axis(k):
                self._x_axis(painter, frame, k, plot)
            if is_timeline(plot):
                bars.paint_bars(painter, frame, plot.lines, self.theme)
                bars.paint_key(painter, self.gutters[k].rect, plot.lines, self.theme)
            else:
                for drawn in self.drawn_lines[k]:
                    self._paint_line(painter, frame, drawn, plot)
            log = ", log scale" if self._logs(plot)[1] else ""
            self.gutters[k].paint(painter, self.theme, plot.spec.title + log, self._key(k))

    def _key(self, number: int) -> str:
        faint = any(not drawn.main for drawn in self.drawn_lines[number])
        return f"{self.chosen.style.label}\nfaint: other runs" if faint and self.chosen is not None else ""

    def _value_axis(self, painter: QPainter, frame: Frame, ticks: Sequence[Tick], lines: bool) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for tick in ticks:
            row = round(frame.row(tick.at))
            if lines:
                painter.setPen(QPen(QColor(self.theme.line), 1))
                painter.drawLine(QLineF(frame.rect.left(), row, frame.rect.right(), row))
            box = QRectF(0, row - 9, frame.rect.left() - 8, 18)
            self._text(painter, box, tick.text, self.theme.text3, _TO_RIGHT)

    def _x_axis(self, painter: QPainter, frame: Frame, number: int, plot: MeasuredPlot) -> None:
        """A line with the measured sizes as ticks, as far as they have room; the axis' name at its right end."""
        r, metrics = frame.rect, QFontMetricsF(font("caption"))
        painter.setPen(QPen(QColor(self.theme.border), 1))
        painter.drawLine(QLineF(r.left(), r.bottom(), r.right(), r.bottom()))
        box = QRectF(r.left(), r.bottom() + 21, r.width(), 18)
        self._text(painter, box, plot.x.title, self.theme.text2, _TO_RIGHT, strong=True)
        taken: list[tuple[float, float]] = []
        for tick in self._x_ticks(number, plot, frame):
            at, half = frame.column(tick.at), 0.5 * metrics.horizontalAdvance(tick.text) + 5
            if all(at + half < low or at - half > high for low, high in taken):
                taken.append((at - half, at + half))
                painter.drawLine(QLineF(at, r.bottom(), at, r.bottom() + 4))
                self._text(painter, QRectF(at - 60, r.bottom() + 5, 120, 18), tick.text, self.theme.text3, _CENTRE)
                painter.setPen(QPen(QColor(self.theme.border), 1))

    def _x_ticks(self, number: int, plot: MeasuredPlot, frame: Frame) -> Sequence[Tick]:
        """The measured sizes; those of faint runs alone come last, and get what room is left."""
        log_x, _ = self._logs(plot)
        places = self.places(number)
        if not log_x or len(places) > _SIZES:
            return axis_ticks(frame.x, max(int(frame.rect.width() // 80), 2), log_x, plot.x.unit)
        places += sorted({float(x) for drawn in self.drawn_lines[number] for x in drawn.line.x} - set(places))
        return [Tick(math.log10(place), plot.x_text(place)) for place in places]

    def _paint_line(self, painter: QPainter, frame: Frame, drawn: DrawnLine, plot: MeasuredPlot) -> None:
        style = self.theme.curve(drawn.index)
        colour = QColor(style.colour)
        width = LIFTED_WIDTH if drawn.run.selected else RUN_WIDTH
        if not drawn.main:
            colour.setAlphaF(_FAINT)
            width = OTHER_WIDTH
        pen = dashed(colour, width, style.dash)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        x, y = self.coordinates(drawn.line, plot)
        columns, rows = frame.px(x), frame.py(y)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(pen)
        painter.drawPolyline(polygon(columns, rows))
        if drawn.main:
            for column, row in zip(columns.tolist(), rows.tolist(), strict=True):
                marks.dot(painter, QPointF(column, row), QColor(style.colour), self.theme, _DOT)

    def _text(
        self,
        painter: QPainter,
        box: QRectF,
        text: str,
        ink: str,
        align: Qt.AlignmentFlag,
        strong: bool = False,
    ) -> None:
        painter.setFont(font("captionStrong" if strong else "caption"))
        painter.setPen(QColor(ink))
        painter.drawText(box, align, text)

    # ------------------------------------------------------------ read-out
    def places(self, number: int) -> list[float]:
        """Returns all x of the lines that are read out in plot ``number``, in ascending order."""
        return sorted({float(x) for drawn in self.drawn_lines[number] if drawn.main for x in drawn.line.x})

    def plot_at(self, row: float) -> int:
        """The plot nearest to a pixel row."""
        return min(range(len(self.frames)), key=lambda k: abs(self.frames[k].rect.center().y() - row), default=0)

    def column(self, number: int, place: float) -> float:
        """The pixel column of an x in plot ``number``."""
        log_x, _ = self._logs(self.plots[number])
        return self.frames[number].column(math.log10(place) if log_x else place)

    def nearest(self, number: int, column: float) -> float | None:
        """The x of a point nearest to a pixel column; None without points."""
        return min(self.places(number), key=lambda place: abs(self.column(number, place) - column), default=None)

    def reading(self, number: int, place: float) -> tuple[str, list[tuple[DrawnLine, str]]]:
        """Returns the read-out at an x: a heading, and each line's value. Over several plots it has only the chosen
        run's values: those of all runs would hide the plots."""
        plots = self.plots
        found: list[tuple[DrawnLine, str]] = []
        for k, plot in enumerate(plots):
            if plot.x != plots[number].x:
                continue
            if is_timeline(plot):
                found += [_doing(drawn, place) for drawn in self.drawn_lines[k]]
            else:
                values = [(one, one.line.at(place)) for one in self.drawn_lines[k] if one.main and self._is_read(one)]
                found += [(drawn, plot.y_text(value)) for drawn, value in values if value is not None]
        label = plots[number].x.label
        return f"{label} {plots[number].x_text(place)}".strip(), found

    def _is_read(self, drawn: DrawnLine) -> bool:
        return len(self.plots) == 1 or self.chosen is None or drawn.run.run_id == self.chosen.style.run_id

    def read_out(self, painter: QPainter, number: int, place: float) -> None:
        """An upright line at an x, and a box with the values there."""
        heading, rows = self.reading(number, place)
        column = round(self.column(number, place))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(self.theme.text3), 1))
        for frame, plot in zip(self.frames, self.plots, strict=True):
            if plot.x == self.plots[number].x:
                painter.drawLine(QLineF(column, frame.rect.top(), column, frame.rect.bottom()))
        plain, strong = QFontMetricsF(font("caption")), QFontMetricsF(font("captionStrong"))
        names = [self._name(drawn) for drawn, _ in rows]
        wide = max(
            (
                plain.horizontalAdvance(name) + strong.horizontalAdvance(value)
                for name, (_, value) in zip(names, rows, strict=True)
            ),
            default=0.0,
        )
        width = max(wide + 18 + 14, strong.horizontalAdvance(heading)) + 20
        spot = self._place(column, width, 10 + _ROW * (len(rows) + 1))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(QColor(self.theme.border if self.theme.dark else self.theme.line), 1))
        painter.setBrush(QColor(self.theme.surface))
        painter.drawRoundedRect(QRectF(spot.x + 0.5, spot.y + 0.5, spot.width, spot.height), 7, 7)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        y = spot.y + 5
        self._text(painter, QRectF(spot.x + 10, y, width, _ROW), heading, self.theme.text, _TO_LEFT, strong=True)
        for name, (drawn, value) in zip(names, rows, strict=True):
            y += _ROW
            if drawn.index >= 0:
                swatch(painter, QRectF(spot.x + 10, y, 12, _ROW), self.theme, drawn.index)
            self._text(painter, QRectF(spot.x + 28, y, width, _ROW), name, self.theme.text2, _TO_LEFT)
            self._text(painter, QRectF(spot.x, y, width - 10, _ROW), value, self.theme.text, _TO_RIGHT, strong=True)

    def _name(self, drawn: DrawnLine) -> str:
        """Returns a line's name in the read-out; over several plots it says what the line shows."""
        return drawn.name if len(self.plots) == 1 else drawn.line.name

    def _place(self, column: float, width: float, height: float) -> Box:
        top, bottom = self.frames[0].rect.top(), self.frames[-1].rect.bottom()
        candidates = [
            Box(x, y, width, height)
            for x in (column + _AWAY, column - _AWAY - width)
            for y in (top + 4, 0.5 * (top + bottom - height), bottom - height - 6)
        ]
        points = [
            np.column_stack((frame.px(x), frame.py(y)))
            for frame, plot, drawn_lines in zip(self.frames, self.plots, self.drawn_lines, strict=True)
            for x, y in (self.coordinates(drawn.line, plot) for drawn in drawn_lines if drawn.main)
        ]
        room = Box(0, 0, self._size[0], max(self._size[1], height))
        found = emptiest(candidates, np.concatenate(points), room)
        return (
            candidates[found] if found >= 0 else Box(max(min(column, self._size[0] - width - 2), 0), 2, width, height)
        )

    def summary(self) -> str:
        """The picture in words: each line's last value."""
        if self.chosen is None:
            return EMPTY
        words = []
        for k, plot in enumerate(self.plots):
            end = last_end(plot.lines)
            ends = [
                f"{drawn.name} works {busy_share(drawn.line, end):.0%}"
                if is_timeline(plot)
                else f"{drawn.name} {plot.y_text(float(drawn.line.y[-1]))} at {plot.x_text(float(drawn.line.x[-1]))}"
                for drawn in self.drawn_lines[k]
                if drawn.main
            ]
            words.append(f"{plot.spec.title} against {plot.x.label or 'x'}: {', '.join(ends) or 'no points yet'}")
        return ". ".join(words)


def _doing(drawn: DrawnLine, place: float) -> tuple[DrawnLine, str]:
    """A row of a timeline as it is read out: in the colour of what it does, in none while it waits."""
    bar = bar_at(drawn.line, place)
    return replace(drawn, index=-1 if bar is None else bars.index_of(bar)), "waits" if bar is None else bar.text
