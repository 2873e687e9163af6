"""The Speed-up tab: its sentence and table, made from the runs of one scaling study, and its two charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np

from clew_gui.base.state_words import NONE
from clew_gui.base.tokens import Theme
from clew_gui.charts.kit.axes import FOOT, EndName, draw_end_names, draw_foot, draw_grid, value_room
from clew_gui.charts.kit.chart import Chart, ChartPage
from clew_gui.charts.kit.drawing import Drawing, Shape, Stroke, TextSizes, widest
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, Tick
from clew_shared.base.harmless import csv_text
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import BATCH_SIZE, STEPS
from clew_shared.spec import RunSpec
from clew_shared.study.device_use import DeviceUse, device_uses, use_columns
from clew_shared.study.scaling import (
    JURECA,
    Conclusion,
    Fit,
    Forecast,
    Reference,
    Scaling,
    ScalingRow,
    conclude,
    figures,
    forecast_of,
    interval_words,
    measure,
    on_gpus,
    shared_by,
    time_run,
    unit_of,
)
from clew_shared.study.study import axis_words, usual_warm_up

LineKind = Literal["ideal", "measured", "reference", "forecast"]
_SMOOTH = 33
"""Points of a fitted curve."""
_CLOSE = 0.1
"""A law is drawn through the measurements where no speed-up is farther from it than this share."""


class ScalingRun(NamedTuple):
    """A run of a scaling study."""

    spec: RunSpec
    state: RunState
    history: History


class Mark(NamedTuple):
    """A measured point with its interval, in axis coordinates; ``low`` and ``high`` are equal where there is none."""

    x: float
    y: float
    low: float
    high: float


class PlotLine(NamedTuple):
    """A line of a plot in axis coordinates, with its ``name`` and its last value in words."""

    kind: LineKind
    name: str
    value: str
    path: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...] = ()
    words: tuple[str, ...] = ()
    """The description of each mark."""


class ScalingPlot(NamedTuple):
    """The contents of one of the two plots. x is log2 of the number of devices."""

    title: str
    caption: str
    x: Span
    y: Span
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[PlotLine, ...]


class SpeedupScene(NamedTuple):
    """Everything that the tab shows of one study. The first row of the table has its headings."""

    conclusion: Conclusion
    title: str
    caption: str
    plots: tuple[ScalingPlot, ...]
    table: tuple[tuple[str, ...], ...]
    scaling: Scaling
    forecast: tuple[Forecast, ...]
    uses: Mapping[int, DeviceUse]
    """What is known of the devices, by their number."""


def speedup_scene(
    runs: Sequence[ScalingRun],
    card: ExerciseCard,
    *,
    weak: bool,
    warm_up: int | None = None,
    cores: int = 0,
    reference: Reference = JURECA,
) -> SpeedupScene:
    """The scene of a study's ``runs``, of which those count that finished in one attempt. ``cores`` are those that
    several processes share where they are all on this computer (0: they are not), ``warm_up`` the steps that do not
    count (None: as many as usual)."""
    finished = [run for run in runs if run.state is RunState.FINISHED and run.history.fold.attempt <= 1]
    steps = next((run.spec.params.get(STEPS) for run in runs), None)
    warm_up = usual_warm_up(steps) if warm_up is None else warm_up
    scaling = measure(
        (time_run(run.history, run.spec.devices * run.spec.nodes, warm_up) for run in finished),
        weak=weak,
        warm_up=warm_up,
    )
    histories = [run.history for run in finished]
    gpus, processes = on_gpus(histories), any(run.spec.nodes > 1 for run in runs)
    cores = shared_by(histories) or (cores if processes and not gpus else 0)
    unit = unit_of(card)
    found = conclude(scaling, gpus=gpus, cores=cores, reference=reference, unit=unit)
    things = "GPUs" if gpus else "devices"
    predicted = forecast_of(scaling) if not cores else ()
    uses = device_uses(((run.spec.devices * run.spec.nodes, run.history) for run in finished), scaling.rows)
    cells = table(
        scaling,
        steps if isinstance(steps, int) else 100,
        things.capitalize() if not gpus else things,
        unit,
        reference if gpus else None,  # images/s of GPUs say nothing beside those of a laptop's cores
    )
    plots = (
        (speedup_plot(scaling, things, reference, predicted), efficiency_plot(scaling, things, reference, predicted))
        if scaling.rows
        else ()
    )
    return SpeedupScene(
        found,
        f"{'Weak' if weak else 'Strong'} scaling, {_batch(scaling)}",
        _how_measured(scaling),
        plots,
        tuple(zip(*zip(*cells, strict=True), *use_columns(scaling.rows, uses, gpus, NONE), strict=True)),
        scaling,
        predicted,
        uses,
    )


def _batch(scaling: Scaling) -> str:
    if not scaling.rows:
        return "nothing measured yet"
    first = scaling.rows[0]
    if not scaling.weak:
        return f"batch {first.batch_size:,}"
    return f"batch {f'{first.batch_size / first.replicas:,.1f}'.removesuffix('.0')} on each device"


def _how_measured(scaling: Scaling) -> str:
    """Says how the intervals were computed."""
    counts = sorted({row.repeats for row in scaling.rows})
    parts = []
    if counts and counts[-1] > 1:
        parts.append(f"{counts[0]} repeats each" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} repeats")
    elif counts:
        parts.append("one run each, intervals from its blocks of steps")
    if counts and scaling.warm_up:
        parts.append(f"first {scaling.warm_up:,} steps dropped as warm-up")
    return ", ".join(parts)


# --- Plots ------------------------------------------------------------------------------------------------------------


def speedup_plot(
    scaling: Scaling, things: str = "devices", reference: Reference | None = None, predicted: Sequence[Forecast] = ()
) -> ScalingPlot:
    """Speed-up over the number of devices, both axes logarithmic to base 2."""
    base, most = scaling.rows[0].replicas, _most(scaling, predicted)
    lines = [PlotLine("ideal", "Ideal", f"{figures(most / base, 2)}×", ((_x(base), 0.0), (_x(most), _x(most / base))))]
    lines += _reference_line(reference, base, most, efficiency=False)
    lines += _forecast_line(predicted, base, efficiency=False)
    lines.append(_measured_line(scaling, efficiency=False))
    heights = [y for line in lines for _, y in line.path] + [mark.low for mark in lines[-1].marks]
    y = Span(min(min(heights), 0.0), max(heights)).padded(0.06)
    y_ticks = tuple(Tick(float(k), f"{2.0**k:g}×") for k in _octaves(y))
    caption = f"by {things}, log scales{_fit_words(scaling)}"
    return ScalingPlot("Speed-up", caption, *_x_axis(scaling, most, base), y_ticks, tuple(lines))._replace(y=y)


def efficiency_plot(
    scaling: Scaling, things: str = "devices", reference: Reference | None = None, predicted: Sequence[Forecast] = ()
) -> ScalingPlot:
    """Speed-up per device: 1 where each of them is as fast as the first."""
    base, most = scaling.rows[0].replicas, _most(scaling, predicted)
    lines = [PlotLine("ideal", "Ideal", "100 %", ((_x(base), 1.0), (_x(most), 1.0)))]
    lines += _reference_line(reference, base, most, efficiency=True)
    lines += _forecast_line(predicted, base, efficiency=True)
    lines.append(_measured_line(scaling, efficiency=True))
    heights = [y for line in lines for _, y in line.path] + [y for m in lines[-1].marks for y in (m.low, m.high)]
    step = 0.1 if min(heights) > 0.45 else 0.2
    low, high = math.floor(min(heights) / step - 0.1) * step, max(max(heights), 1.0)
    y = Span(max(low, 0.0) - 0.02, min(high, 1.6) + 0.06)
    ticks = [k * step for k in range(20) if y.low <= k * step <= y.high + 1e-9]
    y_ticks = tuple(Tick(value, f"{100 * value:.0f} %") for value in ticks)
    caption = f"speed-up per {things.removesuffix('s')}"
    return ScalingPlot("Efficiency", caption, *_x_axis(scaling, most, base), y_ticks, tuple(lines))._replace(y=y)


def _x(count: float) -> float:
    return math.log2(count)


def _most(scaling: Scaling, predicted: Sequence[Forecast]) -> int:
    """The largest number of devices in sight; twice the fewest where only those were measured."""
    counts = [row.replicas for row in scaling.rows] + [one.replicas for one in predicted]
    return max([*counts, 2 * counts[0]])


def _x_axis(scaling: Scaling, most: int, base: int) -> tuple[Span, Span, tuple[Tick, ...]]:
    counts = sorted({row.replicas for row in scaling.rows} | {most})
    x = Span(_x(base), _x(most)).padded(0.05)
    return x, x, tuple(Tick(_x(count), f"{count:,}") for count in counts)


def _octaves(y: Span) -> range:
    """Whole powers of two in sight, at most eight of them."""
    low, high = math.ceil(y.low), math.floor(y.high)
    return range(low, high + 1, max(1, math.ceil((high - low + 1) / 8)))


def _fit_words(scaling: Scaling) -> str:
    fit = _drawn_fit(scaling)
    return f", line: {fit.law.capitalize()} fit" if fit is not None else ""


def _drawn_fit(scaling: Scaling) -> Fit | None:
    """The law that is drawn; None where the measurements do not follow it."""
    fit = scaling.fit
    return fit if fit is not None and fit.error <= _CLOSE else None


def _measured_line(scaling: Scaling, efficiency: bool) -> PlotLine:
    rows, base = scaling.rows, scaling.rows[0].replicas
    marks = tuple(_mark(row, efficiency) for row in rows)
    fit = _drawn_fit(scaling)
    path = tuple((mark.x, mark.y) for mark in marks)
    if fit is not None and len(rows) > 1:
        ratios = [(rows[-1].replicas / base) ** (k / (_SMOOTH - 1)) for k in range(_SMOOTH)]
        path = tuple((_x(base * r), fit.speedup(r) / r if efficiency else _x(fit.speedup(r))) for r in ratios)
    last = rows[-1]
    words = tuple(_row_words(row, efficiency) for row in rows)
    return PlotLine(
        "measured", "Measured", _value(last.efficiency if efficiency else last.speedup, efficiency), path, marks, words
    )


def _value(value: float, efficiency: bool) -> str:
    return f"{100 * value:.0f} %" if efficiency else f"{value:.2f}×" if value < 2 else f"{figures(value, 2)}×"


def _row_words(row: ScalingRow, efficiency: bool) -> str:
    """``4 devices, 3.52×, between 3.41× and 3.60×``."""
    interval = row.efficiency_interval if efficiency else row.speedup_interval
    text = f"{axis_words('devices', row.replicas)}, {_exact(row.efficiency if efficiency else row.speedup, efficiency)}"
    if interval is None or interval.low == interval.high:
        return f"{text}, too noisy for an interval" if row.noisy else text
    return f"{text}, between {_exact(interval.low, efficiency)} and {_exact(interval.high, efficiency)}"


def _exact(value: float, efficiency: bool) -> str:
    return f"{100 * value:.1f} %" if efficiency else f"{value:.2f}×"


def _mark(row: ScalingRow, efficiency: bool) -> Mark:
    value, interval = row.speedup, row.speedup_interval
    if efficiency:
        value, interval = row.efficiency, row.efficiency_interval
    low, high = interval if interval is not None else (value, value)
    floor = 1e-3
    if efficiency:
        return Mark(_x(row.replicas), value, low, high)
    return Mark(_x(row.replicas), _x(max(value, floor)), _x(max(low, floor)), _x(max(high, floor)))


def _reference_line(reference: Reference | None, base: int, most: int, efficiency: bool) -> list[PlotLine]:
    """Returns the reference's line; only against one device, with which the reference was measured as well."""
    if reference is None or base != 1:
        return []
    known = [(count, reference.speedup(count) or 1.0) for count in sorted(reference.rates) if count <= most]
    if len(known) < 2:
        return []
    shown = [(count, value / count if efficiency else value) for count, value in known]
    words = tuple(f"{reference.title}, {axis_words('devices', n)}, {_exact(one, efficiency)}" for n, one in shown)
    points = tuple((_x(count), value if efficiency else _x(value)) for count, value in shown)
    marks = tuple(Mark(x, y, y, y) for x, y in points)
    return [PlotLine("reference", "Slides' table", _value(shown[-1][1], efficiency), points, marks, words)]


def _forecast_line(predicted: Sequence[Forecast], base: int, efficiency: bool) -> list[PlotLine]:
    if not predicted or base != 1:
        return []
    points = [(0.0, 1.0 if efficiency else 0.0)]
    points += [(_x(one.replicas), one.efficiency if efficiency else _x(one.speedup)) for one in predicted]
    last = predicted[-1]
    end = _value(last.efficiency if efficiency else last.speedup, efficiency)
    return [PlotLine("forecast", "Forecast", end, tuple(points))]


# --- Table ------------------------------------------------------------------------------------------------------------


def table(
    scaling: Scaling, steps: int, things: str, unit: str, reference: Reference | None = None
) -> tuple[tuple[str, ...], ...]:
    """The headings, then a row for each number of devices."""
    heads = (things, f"{steps:,} steps", f"{unit.capitalize()}/s", "95 % interval", "Speed-up", "Efficiency")
    slides = ("Slides",) if reference is not None else ()
    return (heads + slides, *(_cells(row, steps, reference) for row in scaling.rows))


def _cells(row: ScalingRow, steps: int, reference: Reference | None) -> tuple[str, ...]:
    theirs = reference.rates.get(row.replicas) if reference is not None else None
    slides = (f"{theirs:,.0f}" if theirs is not None else NONE,) if reference is not None else ()
    return (
        f"{row.replicas:,}",
        f"{figures(row.step_seconds * steps)} s",
        figures(row.rate.value, 4),
        interval_words(row.rate, NONE),
        f"{row.speedup:.2f}×",
        f"{100 * row.efficiency:.0f} %",
        *slides,
    )


CSV_HEADS = (
    "devices",
    BATCH_SIZE,
    "repeats",
    "step_seconds",
    "images_per_second",
    "images_per_second_low",
    "images_per_second_high",
    "speedup",
    "speedup_low",
    "speedup_high",
    "efficiency",
    "input_seconds",
    "reduce_seconds",
)


def as_csv(rows: Iterable[ScalingRow]) -> str:
    """The table with all its digits; an interval that is not known stays empty."""
    return csv_text([CSV_HEADS, *map(_csv_row, rows)])


def _csv_row(row: ScalingRow) -> tuple[object, ...]:
    rate, ratio = row.rate.interval or ("", ""), row.speedup_interval or ("", "")
    head = (row.replicas, row.batch_size, row.repeats, row.step_seconds, row.rate.value)
    return (*head, *rate, row.speedup, *ratio, row.efficiency, row.input_seconds, row.reduce_seconds)


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
