"""Measured relations (time against size) and timelines of devices: as charts, and as text for terminals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from clew_gui.base.tokens import ink_on
from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.kit.axes import FOOT, LEFT, draw_foot, draw_grid, value_room
from clew_gui.charts.kit.drawing import OTHER_WIDTH, RUN_WIDTH, SELECTED_WIDTH, Chart, Drawing, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.gutter import Gutter, Label, gutter_width
from clew_gui.charts.kit.layout import Box, FloatArray, emptiest
from clew_gui.charts.kit.readbox import ReadBox, ReadRow
from clew_gui.charts.kit.ticks import Format, Span, Tick, count_text, linear_ticks, log_ticks, span_of, value_text
from clew_shared.cards import SeriesPlot
from clew_shared.journal.history import Measured
from clew_shared.run_settings import inside

_PREFIXES: Final = {"s": ("n", "µ", "m", ""), "B": ("", "k", "M", "G", "T")}
_LEAST: Final = {"s": -9, "B": 0}
"""The power of ten of a unit's first prefix."""


@dataclass(frozen=True)
class AxisName:
    """The name of an axis: its label and unit."""

    label: str
    unit: str

    @property
    def title(self) -> str:
        """Label and unit, without a unit whose prefix is at each number."""
        return f"{self.label} ({self.unit})" if self.unit and self.unit not in _PREFIXES else self.label


@dataclass(frozen=True, eq=False)
class MeasuredLine:
    """The points of one series, in the order of x; none that is not a finite number."""

    name: str
    x: FloatArray
    y: FloatArray

    def at(self, x: float) -> float | None:
        """The latest y that was measured for ``x``; None when there is none."""
        found = np.flatnonzero(self.x == x)
        return float(self.y[found[-1]]) if found.size else None

    def bars(self) -> list[Bar]:
        """The row's bars in their order. The last point only ends the one before."""
        found = zip(self.x[:-1].tolist(), self.x[1:].tolist(), self.y[:-1].tolist(), strict=True)
        return [Bar(start, end, abs(round(y)), y < 0) for start, end, y in found if round(y)]

    def bar_at(self, x: float) -> Bar | None:
        """Returns what the row does from ``x`` on; None if it waits."""
        return next((bar for bar in self.bars() if bar.start <= x < bar.end), None)

    def busy_share(self, end: float) -> float:
        """The share of the time from 0 to ``end`` in which the row works."""
        return sum(bar.end - bar.start for bar in self.bars()) / end if end > 0 else 0.0


@dataclass(frozen=True, eq=False)
class MeasuredPlot:
    """One plot of a run: its lines, and the names of the axes. Without points it has neither."""

    spec: SeriesPlot
    lines: tuple[MeasuredLine, ...] = ()
    x: AxisName = AxisName("", "")
    y: AxisName = AxisName("", "")

    @property
    def is_timeline(self) -> bool:
        """Whether its lines are rows of bars."""
        return self.spec.form == "timeline"

    @property
    def end(self) -> float:
        """When the last row ends."""
        return max((float(line.x[-1]) for line in self.lines if line.x.size), default=0.0)

    def x_text(self, value: float) -> str:
        """A number of the x axis."""
        return quantity_text(value, self.x.unit)

    def y_text(self, value: float) -> str:
        """A number of the y axis."""
        return quantity_text(value, self.y.unit, self.spec.format)


def measured_plots(specs: Sequence[SeriesPlot], series: Mapping[str, Measured]) -> tuple[MeasuredPlot, ...]:
    """Returns what was measured so far as the card's plots; for a card without any, a plot for each quantity on the y
    axis."""
    return tuple(_plot(spec, series) for spec in specs or _guessed(series))


def _plot(spec: SeriesPlot, series: Mapping[str, Measured]) -> MeasuredPlot:
    chosen = {name: series[name] for name in spec.series or series if name in series}
    lines = tuple(_line(name, one, spec) for name, one in chosen.items())
    last = next((one.last for one in chosen.values()), None)
    if last is None:
        return MeasuredPlot(spec)
    y = AxisName(last.y_label or spec.title, last.y_unit)
    return MeasuredPlot(spec, lines, AxisName(last.x_label, last.x_unit), y)


def _line(name: str, measured: Measured, spec: SeriesPlot) -> MeasuredLine:
    order = np.argsort(measured.x, kind="stable")
    x, y = measured.x[order], measured.y[order]
    good = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not spec.log_x)) & ((y > 0) | (not spec.log_y))
    return MeasuredLine(name, x[good], y[good])


def _guessed(series: Mapping[str, Measured]) -> list[SeriesPlot]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, one in series.items():
        groups.setdefault((one.last.x_label, one.last.y_label, one.last.y_unit), []).append(name)
    return [
        SeriesPlot(
            id=names[0],
            title=label or names[0],
            series=tuple(names),
            log_x=_wide([series[name].x for name in names]),
            log_y=_wide([series[name].y for name in names]),
        )
        for (_, label, _), names in groups.items()
    ]


def _wide(values: Sequence[FloatArray]) -> bool:
    """Whether numbers are positive and so far apart that only a logarithmic axis shows all of them."""
    found = np.concatenate(values)
    return bool(found.size and found.min() > 0 and found.max() > 100 * found.min())


# --- Axes -------------------------------------------------------------------------------------------------------------


def axis_ticks(span: Span, at_most: int, log: bool, unit: str, form: Format = "number") -> tuple[Tick, ...]:
    """Ticks with the unit's prefix at each number (10 µs, 1 ms) if it has prefixes."""
    ticks = log_ticks(span, at_most, form) if log else linear_ticks(span, at_most, form)
    if unit not in _PREFIXES:
        return ticks
    if log:
        return tuple(Tick(tick.at, quantity_text(10.0**tick.at, unit, short=True)) for tick in ticks)
    power, prefix = _prefix(max(abs(span.low), abs(span.high)), unit)
    scaled = linear_ticks(Span(span.low / 10.0**power, span.high / 10.0**power), at_most)
    return tuple(Tick(tick.at * 10.0**power, f"{tick.text} {prefix}{unit}") for tick in scaled)


def quantity_text(value: float, unit: str, form: Format = "number", short: bool = False) -> str:
    """``12.3 µs``, ``17.7 MB``, ``94.27 %``, ``1,000``; ``short`` drops zeros after the point."""
    if unit in _PREFIXES and math.isfinite(value):
        power, prefix = _prefix(abs(value), unit)
        number = value_text(float(f"{value:.3g}") / 10.0**power)
        return f"{_plain(number) if short else number} {prefix}{unit}"
    whole = form == "number" and math.isfinite(value) and value == int(value) and abs(value) < 1e12
    text = count_text(value) if whole else value_text(value, form)
    return f"{text} {unit}" if unit else text


def _plain(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _prefix(size: float, unit: str) -> tuple[int, str]:
    """The power of ten and the prefix for a number of this size, rounded to three digits."""
    letters, first = _PREFIXES[unit], _LEAST[unit]
    power = math.floor(math.log10(float(f"{size:.3g}"))) if size > 0 else 0
    place = min(max((power - first) // 3, 0), len(letters) - 1)
    return first + 3 * place, letters[place]


# --- Table ------------------------------------------------------------------------------------------------------------


def text_tables(plots: Sequence[MeasuredPlot]) -> list[str]:
    """Lines of text: a table for each set of plots with the same x, a row for each x and a column for each line. No
    timelines: ``timeline_text`` writes those."""
    groups: dict[AxisName, list[MeasuredPlot]] = {}
    for plot in plots:
        if any(line.x.size for line in plot.lines) and plot.spec.form == "lines":
            groups.setdefault(plot.x, []).append(plot)
    return [text for x, group in groups.items() for text in _table(x, group)]


def _table(x: AxisName, plots: Sequence[MeasuredPlot]) -> list[str]:
    every = [(plot, line) for plot in plots for line in plot.lines]
    lone = [(plot, line) for plot, line in every if _is_lone(line, [other for _, other in every])]
    columns = [one for one in every if one not in lone]
    places = sorted({float(value) for _, line in columns for value in line.x})
    rows = [[x.title, *(line.name for _, line in columns)]]
    for place in places:
        found = [(plot, line.at(place)) for plot, line in columns]
        cells = [plot.y_text(value) if value is not None else "–" for plot, value in found]
        rows.append([plots[0].x_text(place), *cells])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    told = (
        f"{line.name}: {plot.y_text(float(line.y[0]))} ({inside(x.title)} {plot.x_text(float(line.x[0]))})"
        for plot, line in lone
    )
    shown = rows if columns else []
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    return [*lines, *told]


def _is_lone(line: MeasuredLine, lines: Sequence[MeasuredLine]) -> bool:
    """Whether a line is one point where no other one has any: its column would be of dashes."""
    if line.x.size != 1 or len(lines) < 2:
        return False
    return not any(other is not line and other.at(float(line.x[0])) is not None for other in lines)


_WIDTH: Final = 64
"""Characters of a row in a terminal."""


@dataclass(frozen=True)
class Bar:
    """Work on one piece, forward or backward, from ``start`` to ``end``."""

    start: float
    end: float
    piece: int
    backward: bool

    def text(self, names: Sequence[str] = ()) -> str:
        """Says what is done: which piece, or one of ``names``."""
        return _named(self, names) if names else f"{'backward' if self.backward else 'forward'} {self.piece}"


def _named(bar: Bar, names: Sequence[str]) -> str:
    return names[min(int(bar.backward), len(names) - 1)]


def timeline_text(plot: MeasuredPlot) -> list[str]:
    """A heading, and for each row its name, what it does at equal distances, and how much of the time it works."""
    lines = [line for line in plot.lines if line.x.size]
    end = plot.end
    if not end:
        return []
    wide = max(len(line.name) for line in lines)
    moments = (np.arange(_WIDTH) + 0.5) * (end / _WIDTH)
    names, rows = plot.spec.bars, []
    for line in lines:
        found = (line.bar_at(float(moment)) for moment in moments)
        marks = "".join("·" if bar is None else _named(bar, names or ("F", "B"))[0].upper() for bar in found)
        rows.append(f"{line.name.rjust(wide)}  {marks}  {row_text(plot, line)}")
    key = ", ".join(f"{name[0].upper()} {name[0].lower()}{name[1:]}" for name in names)
    return [f"{plot.spec.title}, {plot.x_text(end)}: {key or 'F forward, B backward, · waits'}", *rows]


def row_text(plot: MeasuredPlot, line: MeasuredLine) -> str:
    """How much of the time a row works; when it ends, where its bars have names."""
    if plot.spec.bars:
        return plot.x_text(float(line.x[-1]))
    return f"works {line.busy_share(plot.end):.0%}"


_SHARE: Final = 0.78
"""The part of a row's height that its bar takes."""
_KEY_ROW: Final = 15.0
_NAME: Final = 12.0
"""The pixels that a row's name needs."""
_WAIT: Final = 0.5
_PIECES: Final = ("Forward", "Backward")


def row_ticks(lines: Sequence[MeasuredLine], height: float) -> tuple[Tick, ...]:
    """The name of each row, or of every second or third one if there is no room for all."""
    every = max(-int(-_NAME * len(lines) // max(height, 1.0)), 1)
    named = zip(_rows(len(lines)), lines, strict=True)
    return tuple(Tick(float(y), line.name) for k, (y, line) in enumerate(named) if k % every == 0)


def draw_tasks(drawing: Drawing, frame: Frame, lines: Sequence[MeasuredLine], names: Sequence[str] = ()) -> None:
    """Draws all rows; while a device waits, its row shows only a faint ground. Bars that have ``names`` are no pieces
    with a number."""
    theme, high = drawing.theme, frame.box.height / max(len(lines), 1)
    numbered = set() if names else _numbered(drawing, frame, lines)
    for y, line in zip(_rows(len(lines)), lines, strict=True):
        top, bottom = (round(frame.row(y) + side * 0.5 * _SHARE * high) for side in (-1, 1))
        ground = Box(frame.box.x, top, frame.box.width, bottom - top)
        drawing.rect(ground, theme.line, _WAIT, smooth=False)
        for bar in line.bars():
            left, right = round(frame.column(bar.start)), round(frame.column(bar.end))
            gap = 1 if right - left > 3 else 0
            colour = theme.curve(int(bar.backward)).colour
            box = Box(left, top, max(right - left - gap, 1), bottom - top)
            drawing.rect(box, colour, smooth=False)
            if bar.backward in numbered:
                drawing.text(box.across, box.middle, str(bar.piece), ink_on(colour, theme), across="middle")


def _rows(count: int) -> list[int]:
    """The y of each row."""
    return list(reversed(range(count)))


def _numbered(drawing: Drawing, frame: Frame, lines: Sequence[MeasuredLine]) -> set[bool]:
    """The directions (backward or not) in which each bar has room for its number."""
    if 0.73 * drawing.sizes.size() + 4 > _SHARE * frame.box.height / max(len(lines), 1):
        return set()
    narrow = {
        bar.backward
        for line in lines
        for bar in line.bars()
        if drawing.width(str(bar.piece)) + 4 > frame.column(bar.end) - frame.column(bar.start)
    }
    return {False, True} - narrow


def draw_task_key(drawing: Drawing, room: Box, plot: MeasuredPlot) -> None:
    """Draws the key below the title in the gutter: what the colours mean, and how much of the time all rows wait."""
    theme, names = drawing.theme, plot.spec.bars
    wait = 1 - sum(line.busy_share(plot.end) for line in plot.lines) / max(len(plot.lines), 1)
    colours = (theme.curve(backward).colour for backward in (False, True))
    entries = [(colour, 1.0, name, "") for colour, name in zip(colours, names or _PIECES, strict=False)]
    entries += [] if names else [(theme.line, _WAIT, "Bubble", f"{wait:.1%}".replace("%", " %"))]
    y = room.y + 14
    for colour, opacity, name, value in entries:
        if y + _KEY_ROW > room.bottom:
            return
        middle = y + 0.5 * _KEY_ROW
        drawing.rect(Box(room.x + 16, y + 2.5, 10, 10), colour, opacity, smooth=False)
        drawing.text(room.x + 32, middle, name, theme.text2)
        drawing.text(room.right - 2, middle, value, theme.text2, across="right")
        y += _KEY_ROW


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
class ShownLine:
    """A line as it is drawn. ``index`` gives colour and dash; ``main`` ones have dots, a name and a read-out."""

    line: MeasuredLine
    index: int
    name: str
    run: RunStyle
    main: bool


def shown_lines_of(runs: Sequence[MeasuredRun], number: int) -> list[ShownLine]:
    """The lines of plot ``number``, those that stand out last.

    Where each run has one line, runs have their own colours, as in all plots. Where a run has several, each series has
    one: the selected run's are plain to see, those of other runs faint. A timeline is the selected run's alone.
    """
    runs = [run for run in runs if number < len(run.plots)]  # where a card says nothing, a run that began has fewer
    several = any(len(run.plots[number].lines) > 1 for run in runs)
    chosen = chosen_run(runs)
    if chosen is not None and chosen.plots[number].is_timeline:
        runs = [chosen]
    found = []
    for run in sorted(runs, key=lambda one: one is chosen):
        for k, line in enumerate(run.plots[number].lines):
            if line.x.size:
                name = line.name if several else run.style.label
                main = run is chosen if several else True
                found.append(ShownLine(line, k if several else run.style.index, name, run.style, main))
    return found


def chosen_run(runs: Sequence[MeasuredRun]) -> MeasuredRun | None:
    """The selected run if it has points, else the last one that has."""
    there = [run for run in runs if any(line.x.size for plot in run.plots for line in plot.lines)]
    selected = [run for run in there if run.style.selected]
    return next(iter(selected or there[-1:]), None)


class MeasuredChart(Chart):
    """The plots of what runs measured, one below the other."""

    draws_reading = True

    def __init__(self, runs: Sequence[MeasuredRun], box: Box, sizes: TextSizes, log: bool = True) -> None:
        self._sizes, self._log, self._box = sizes, log, box
        self.runs = runs
        self.chosen = chosen_run(runs)
        plots = enumerate(self.chosen.plots if self.chosen is not None else ())
        shown = {k: one for k, one in plots if not one.is_timeline or any(line.x.size for line in one.lines)}
        self.plots = tuple(shown.values())
        """Those of the chosen run; a timeline gets no room before it has bars."""
        self.drawn_lines = [shown_lines_of(runs, k) for k in shown]
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
            row_ticks(plot.lines, high)
            if plot.is_timeline
            else axis_ticks(y, max(int(high // 28), 2), self._logs(plot)[1], plot.y.unit, plot.spec.format)
            for plot, (_, y) in zip(plots, spans, strict=True)
        ]
        left = math.ceil(value_room(self._sizes, [tick for ticks in self._ticks for tick in ticks], LEFT))
        for box, (x, y) in zip(self._boxes(left, gutter), spans, strict=True):
            self.frames.append(Frame(box, x, y))
            self.gutters.append(Gutter(Box(box.right, box.y, gutter, box.height)))
        for number, (frame, plot) in enumerate(zip(self.frames, plots, strict=True)):
            named = [drawn for drawn in self.drawn_lines[number] if drawn.main and not plot.is_timeline]
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
        if plot.is_timeline:  # a row at each whole number
            return Span(0.0, plot.end or 1.0), Span(-0.5, max(len(plot.lines), 1) - 0.5)
        log_x, log_y = self._logs(plot)
        same = [k for k, other in enumerate(self.plots) if other.x == plot.x]
        x = span_of([drawn.line.x for k in same for drawn in self.drawn_lines[k]], log_x)
        return x, span_of([drawn.line.y for drawn in self.drawn_lines[number]], log_y)

    def _label(self, frame: Frame, drawn: ShownLine, plot: MeasuredPlot) -> Label:
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
            draw_grid(drawing, frame, self._ticks[k], lines=not plot.is_timeline)
            if self._has_x_axis(k):
                draw_foot(drawing, frame, self._x_ticks(k, plot, frame), plot.x.title)
            if plot.is_timeline:
                draw_tasks(drawing, frame, plot.lines, plot.spec.bars)
                draw_task_key(drawing, self.gutters[k].box, plot)
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

    def _draw_line(self, drawing: Drawing, frame: Frame, drawn: ShownLine, plot: MeasuredPlot) -> None:
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

    def reading(self, number: int, place: float) -> tuple[str, list[tuple[ShownLine, str]]]:
        """Returns the read-out at an x: a heading, and each line's value. Over several plots it has only the chosen
        run's values: those of all runs would hide the plots."""
        plots = self.plots
        found: list[tuple[ShownLine, str]] = []
        for k, plot in enumerate(plots):
            if plot.x != plots[number].x:
                continue
            if plot.is_timeline:
                found += [_doing(drawn, place, plot.spec.bars) for drawn in self.drawn_lines[k]]
            else:
                values = [(one, one.line.at(place)) for one in self.drawn_lines[k] if one.main and self._is_read(one)]
                found += [(drawn, plot.y_text(value)) for drawn, value in values if value is not None]
        label = plots[number].x.label
        return f"{label} {plots[number].x_text(place)}".strip(), found

    def _is_read(self, drawn: ShownLine) -> bool:
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

    def _name(self, drawn: ShownLine) -> str:
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

    def description(self) -> str:
        """The picture in words: each line's last value."""
        if self.chosen is None:
            return EMPTY
        words = []
        for k, plot in enumerate(self.plots):
            ends = [
                f"{drawn.name} {row_text(plot, drawn.line)}"
                if plot.is_timeline
                else f"{drawn.name} {plot.y_text(float(drawn.line.y[-1]))} at {plot.x_text(float(drawn.line.x[-1]))}"
                for drawn in self.drawn_lines[k]
                if drawn.main
            ]
            words.append(f"{plot.spec.title} against {plot.x.label or 'x'}: {', '.join(ends) or 'no points yet'}")
        return ". ".join(words)


def _doing(drawn: ShownLine, place: float, names: Sequence[str]) -> tuple[ShownLine, str]:
    """A row of a timeline as it is read out: in the colour of what it does, in none while it waits."""
    bar = drawn.line.bar_at(place)
    idle = "–" if names else "waits"
    return replace(drawn, index=-1 if bar is None else int(bar.backward)), idle if bar is None else bar.text(names)
