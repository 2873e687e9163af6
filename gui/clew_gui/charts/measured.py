"""The chart of measured relations: lines with a dot at each point, names at their ends, and the read-out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from clew_gui.charts import tasks
from clew_gui.charts.axes import FOOT, LEFT, draw_foot, draw_grid, value_room
from clew_gui.charts.chart import Chart
from clew_gui.charts.drawing import OTHER_WIDTH, RUN_WIDTH, SELECTED_WIDTH, Drawing, Stroke, TextSizes
from clew_gui.charts.gutter import Gutter, Label, gutter_width
from clew_gui.charts.readbox import ReadBox, ReadRow
from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.axes.layout import Box, emptiest
from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.measured import MeasuredLine, MeasuredPlot, axis_ticks, span_of
from clew_gui.plotting.timeline import bar_at, row_text

EMPTY: Final = "Points appear here as they are measured."
_TOP: Final = 8.0
_GAP: Final = 16.0
_FOOT: Final = FOOT + 18.0
"""The space below a plot for the numbers of the x axis and its name."""
_DOT: Final = 7.0
_FAINT: Final = 0.4
_SIZES: Final = 12
"""The largest number of measured sizes that are the ticks of a logarithmic axis; with more, round numbers are."""
_AWAY: Final = 12.0


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


class MeasuredChart(Chart):
    """The plots of what runs measured, one below the other."""

    draws_reading = True

    def __init__(self, runs: Sequence[MeasuredRun], box: Box, sizes: TextSizes, log: bool = True) -> None:
        self._sizes, self._log, self._box = sizes, log, box
        self.runs = runs
        self.chosen = chosen_run(runs)
        numbers = shown_plots(self.chosen) if self.chosen is not None else []
        self.plots = tuple(self.chosen.plots[k] for k in numbers) if self.chosen is not None else ()
        self.drawn_lines = [drawn_lines_of(runs, k) for k in numbers]
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
        gutter = gutter_width(self._box.width)
        spans = [self._spans(k, plot) for k, plot in enumerate(plots)]
        high = self._boxes(LEFT, gutter)[0].height
        self._ticks = [
            tasks.row_ticks(plot.lines, high)
            if is_timeline(plot)
            else axis_ticks(y, max(int(high // 28), 2), self._logs(plot)[1], plot.y.unit, plot.spec.format)
            for plot, (_, y) in zip(plots, spans, strict=True)
        ]
        left = math.ceil(value_room(self._sizes, [tick for ticks in self._ticks for tick in ticks], LEFT))
        for box, (x, y) in zip(self._boxes(left, gutter), spans, strict=True):
            self.frames.append(Frame(box, x, y))
            self.gutters.append(Gutter(Box(box.right, box.y, gutter, box.height)))
        for number, (frame, plot) in enumerate(zip(self.frames, plots, strict=True)):
            named = [drawn for drawn in self.drawn_lines[number] if drawn.main and not is_timeline(plot)]
            self.gutters[number].place([self._label(frame, drawn, plot) for drawn in named], self._key(number))

    def _boxes(self, left: float, gutter: float) -> list[Box]:
        """Returns the boxes of plots of equal height, with room below those that have an x axis of their own."""
        feet = [_FOOT if self._has_x_axis(k) else 0 for k in range(len(self.plots))]
        each = max((self._box.height - _TOP - sum(feet) - _GAP * (len(feet) - 1)) // len(feet), 24.0)
        tops = [self._box.y + _TOP + k * (each + _GAP) + sum(feet[:k]) for k in range(len(feet))]
        return [Box(self._box.x + left, top, max(self._box.width - left - gutter, 32.0), each) for top in tops]

    def _has_x_axis(self, number: int) -> bool:
        """Whether a plot has an x axis of its own: the last one does, and each above one with another x."""
        return number == len(self.plots) - 1 or self.plots[number + 1].x != self.plots[number].x

    def _spans(self, number: int, plot: MeasuredPlot) -> tuple[Span, Span]:
        """Returns the spans of x and y. Plots whose x has the same name show the same range of it."""
        if is_timeline(plot):
            return tasks.task_spans(plot.lines)
        log_x, log_y = self._logs(plot)
        same = [k for k, other in enumerate(self.plots) if other.x == plot.x]
        x = span_of([drawn.line.x for k in same for drawn in self.drawn_lines[k]], log_x)
        return x, span_of([drawn.line.y for drawn in self.drawn_lines[number]], log_y)

    def _label(self, frame: Frame, drawn: DrawnLine, plot: MeasuredPlot) -> Label:
        _, y = self.coordinates(drawn.line, plot)
        style = RunStyle(drawn.run.run_id, drawn.name, drawn.index, drawn.run.selected, history=drawn.run.history)
        value, strong = plot.y_text(float(drawn.line.y[-1])), drawn.run.selected and len(self.runs) > 1
        return Label(style, frame.row(float(y[-1])), value, strong)

    def coordinates(self, line: MeasuredLine, plot: MeasuredPlot) -> tuple[FloatArray, FloatArray]:
        """Returns the line's points in axis coordinates."""
        log_x, log_y = self._logs(plot)
        return np.log10(line.x) if log_x else line.x, np.log10(line.y) if log_y else line.y

    # ------------------------------------------------------------ drawing
    def draw(self, drawing: Drawing) -> None:
        """Add everything but the read-out."""
        if self.chosen is None:
            drawing.text(self._box.across, self._box.middle, EMPTY, across="middle")
            return
        for k, (frame, plot) in enumerate(zip(self.frames, self.plots, strict=True)):
            draw_grid(drawing, frame, self._ticks[k], lines=not is_timeline(plot))
            if self._has_x_axis(k):
                draw_foot(drawing, frame, self._x_ticks(k, plot, frame), plot.x.title)
            if is_timeline(plot):
                tasks.draw_tasks(drawing, frame, plot.lines, plot.spec.bars)
                tasks.draw_task_key(drawing, self.gutters[k].box, plot.lines, plot.spec.bars)
            else:
                for drawn in self.drawn_lines[k]:
                    self._draw_line(drawing, frame, drawn, plot)
            log = ", log scale" if self._logs(plot)[1] else ""
            self.gutters[k].draw(drawing, plot.spec.title + log, self._key(k))

    def _key(self, number: int) -> str:
        faint = any(not drawn.main for drawn in self.drawn_lines[number])
        return f"{self.chosen.style.label}\nfaint: other runs" if faint and self.chosen is not None else ""

    def _x_ticks(self, number: int, plot: MeasuredPlot, frame: Frame) -> Sequence[Tick]:
        """The measured sizes; those of faint runs alone come last, and get what room is left."""
        log_x, _ = self._logs(plot)
        places = self._sizes_of(number)
        if not log_x or len(places) > _SIZES:
            return axis_ticks(frame.x, max(int(frame.box.width // 80), 2), log_x, plot.x.unit)
        places += sorted({float(x) for drawn in self.drawn_lines[number] for x in drawn.line.x} - set(places))
        return [Tick(math.log10(place), plot.x_text(place)) for place in places]

    def _draw_line(self, drawing: Drawing, frame: Frame, drawn: DrawnLine, plot: MeasuredPlot) -> None:
        style = drawing.theme.curve(drawn.index)
        width = OTHER_WIDTH if not drawn.main else SELECTED_WIDTH if drawn.run.selected else RUN_WIDTH
        x, y = self.coordinates(drawn.line, plot)
        columns, rows = frame.px(x), frame.py(y)
        drawing.path(columns, rows, Stroke(style.colour, width, style.dash, 1.0 if drawn.main else _FAINT))
        if drawn.main or len(x) == 1:  # a single point is no line
            edge, opacity = Stroke(drawing.theme.surface, 1.6), 1.0 if drawn.main else _FAINT
            drawing.marks(columns, rows, style.colour, _DOT, edge=edge, opacity=opacity)

    # ------------------------------------------------------------ read-out
    def places(self) -> list[tuple[float, float]]:
        """Each x that is read out; of plots with the same x only in the first one."""
        first = [k for k, plot in enumerate(self.plots) if all(plot.x != other.x for other in self.plots[:k])]
        return [(self.column(k, x), self.frames[k].box.middle) for k in first for x in self._sizes_of(k)]

    def _sizes_of(self, number: int) -> list[float]:
        """Returns all x of the lines that are read out in plot ``number``, in ascending order."""
        return sorted({float(x) for drawn in self.drawn_lines[number] if drawn.main for x in drawn.line.x})

    def plot_at(self, row: float) -> int:
        """The plot nearest to a pixel row."""
        return min(range(len(self.frames)), key=lambda k: abs(self.frames[k].box.middle - row), default=0)

    def column(self, number: int, place: float) -> float:
        """The pixel column of an x in plot ``number``."""
        log_x, _ = self._logs(self.plots[number])
        return self.frames[number].column(math.log10(place) if log_x else place)

    def nearest(self, x: float, y: float) -> tuple[int, float] | None:
        """The plot and the x of a point nearest to a pixel; None beside the plots or without points."""
        if not any(frame.box.inset(-20, -20, -20, -24).holds(x, y) for frame in self.frames):
            return None
        number = self.plot_at(y)
        place = min(self._sizes_of(number), key=lambda place: abs(self.column(number, place) - x), default=None)
        return None if place is None else (number, place)

    def reading(self, number: int, place: float) -> tuple[str, list[tuple[DrawnLine, str]]]:
        """Returns the read-out at an x: a heading, and each line's value. Over several plots it has only the chosen
        run's values: those of all runs would hide the plots."""
        plots = self.plots
        found: list[tuple[DrawnLine, str]] = []
        for k, plot in enumerate(plots):
            if plot.x != plots[number].x:
                continue
            if is_timeline(plot):
                found += [_doing(drawn, place, plot.spec.bars) for drawn in self.drawn_lines[k]]
            else:
                values = [(one, one.line.at(place)) for one in self.drawn_lines[k] if one.main and self._is_read(one)]
                found += [(drawn, plot.y_text(value)) for drawn, value in values if value is not None]
        label = plots[number].x.label
        return f"{label} {plots[number].x_text(place)}".strip(), found

    def _is_read(self, drawn: DrawnLine) -> bool:
        return len(self.plots) == 1 or self.chosen is None or drawn.run.run_id == self.chosen.style.run_id

    def draw_reading(self, drawing: Drawing, x: float, y: float) -> None:
        """Add an upright line at the x nearest to a pixel, and a box with the values there."""
        number, place = self.nearest(x, y) or (-1, 0.0)
        if number < 0:
            return
        heading, found = self.reading(number, place)
        column = round(self.column(number, place))
        for frame, plot in zip(self.frames, self.plots, strict=True):
            if plot.x == self.plots[number].x:
                stroke = Stroke(drawing.theme.text3, crisp=True)
                drawing.line(column, frame.box.y, column, frame.box.bottom, stroke)
        rows = [ReadRow(drawn.index, self._name(drawn), (value,)) for drawn, value in found]
        box = ReadBox(heading, rows)
        spot = self._place(column, *box.size(drawing.sizes))
        box.draw(drawing, spot.x, spot.y)

    def _name(self, drawn: DrawnLine) -> str:
        """Returns a line's name in the read-out; over several plots it says what the line shows."""
        return drawn.name if len(self.plots) == 1 else drawn.line.name

    def _place(self, column: float, width: float, height: float) -> Box:
        top, bottom = self.frames[0].box.y, self.frames[-1].box.bottom
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
        room = Box(self._box.x, self._box.y, self._box.width, max(self._box.height, height))
        found = emptiest(candidates, np.concatenate(points), room)
        left = max(min(column, room.right - width - 2), room.x)
        return candidates[found] if found >= 0 else Box(left, room.y + 2, width, height)

    def read(self, x: float, y: float) -> str:
        """The values nearest to a pixel."""
        number, place = self.nearest(x, y) or (-1, 0.0)
        if number < 0:
            return ""
        heading, rows = self.reading(number, place)
        return ". ".join([heading, *(f"{drawn.name} {value}" for drawn, value in rows)])

    def words(self) -> str:
        """The picture in words: each line's last value."""
        if self.chosen is None:
            return EMPTY
        words = []
        for k, plot in enumerate(self.plots):
            ends = [
                f"{drawn.name} {row_text(plot, drawn.line)}"
                if is_timeline(plot)
                else f"{drawn.name} {plot.y_text(float(drawn.line.y[-1]))} at {plot.x_text(float(drawn.line.x[-1]))}"
                for drawn in self.drawn_lines[k]
                if drawn.main
            ]
            words.append(f"{plot.spec.title} against {plot.x.label or 'x'}: {', '.join(ends) or 'no points yet'}")
        return ". ".join(words)


def _doing(drawn: DrawnLine, place: float, names: Sequence[str]) -> tuple[DrawnLine, str]:
    """A row of a timeline as it is read out: in the colour of what it does, in none while it waits."""
    bar = bar_at(drawn.line, place)
    idle = "–" if names else "waits"
    return replace(drawn, index=-1 if bar is None else tasks.index_of(bar)), idle if bar is None else bar.text(names)
