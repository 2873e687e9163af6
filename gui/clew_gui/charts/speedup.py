"""The Speed-up tab: its sentence and table, made from the runs of one scaling study, and its two charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from clew_gui.base.state_words import NONE
from clew_gui.base.tokens import Theme
from clew_gui.charts.kit.drawing import Drawing, TextSizes
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.lines import LinesChart, LinesPlot, PlotAxis, PlotLine
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.charts.kit.ticks import Span, Tick
from clew_gui.study.device_use import DeviceUse, device_uses, use_columns
from clew_gui.study.scaling import (
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
from clew_shared.base.harmless import csv_text
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import BATCH_SIZE, STEPS
from clew_shared.spec import RunSpec
from clew_shared.study.study import axis_words, usual_warm_up

_SMOOTH = 33
"""Points of a fitted curve."""
_CLOSE = 0.1
"""A law is drawn through the measurements where no speed-up is farther from it than this share."""
_LEAST = 1e-3
"""The least speed-up that has a place on a logarithmic axis."""


class ScalingRun(NamedTuple):
    """A run of a scaling study."""

    spec: RunSpec
    state: RunState
    history: History


class SpeedupScene(NamedTuple):
    """Everything that the tab shows of one study. The first row of the table has its headings."""

    conclusion: Conclusion
    title: str
    caption: str
    plots: tuple[LinesPlot, ...]
    table: tuple[tuple[str, ...], ...]
    scaling: Scaling
    forecast: tuple[Forecast, ...]
    uses: Mapping[int, DeviceUse]
    """What is known of the devices, by their number."""


def speedup_scene(
    runs: Sequence[ScalingRun], card: ExerciseCard, *, weak: bool, warm_up: int | None = None, cores: int = 0
) -> SpeedupScene:
    """The scene of a study's ``runs``, of which those count that finished in one attempt. ``cores`` are those that
    several processes share where they are all on this computer (0: they are not), ``warm_up`` the steps that do not
    count (None: as many as usual)."""
    finished = [run for run in runs if run.state is RunState.FINISHED and run.history.fold.attempt <= 1]
    steps = next((run.spec.params.get(STEPS) for run in runs), None)
    warm_up = usual_warm_up(steps) if warm_up is None else warm_up
    timed = (time_run(run.history, run.spec.devices * run.spec.nodes, warm_up) for run in finished)
    scaling = measure(timed, weak=weak, warm_up=warm_up)
    histories = [run.history for run in finished]
    gpus, processes = on_gpus(histories), any(run.spec.nodes > 1 for run in runs)
    cores = shared_by(histories) or (cores if processes and not gpus else 0)
    unit = unit_of(card)
    found = conclude(scaling, gpus=gpus, cores=cores, reference=JURECA, unit=unit)
    things = "GPUs" if gpus else "devices"
    predicted = forecast_of(scaling) if not cores else ()
    uses = device_uses(((run.spec.devices * run.spec.nodes, run.history) for run in finished), scaling.rows)
    reference = JURECA if gpus else None  # images/s of GPUs say nothing beside those of a laptop's cores
    heads = things if gpus else things.capitalize()
    cells = table(scaling, steps if isinstance(steps, int) else 100, heads, unit, reference)
    kinds = (speedup_plot, efficiency_plot) if scaling.rows else ()
    plots = tuple(kind(scaling, things, JURECA, predicted) for kind in kinds)
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
) -> LinesPlot:
    """Speed-up over the number of devices, both axes logarithmic to base 2."""
    lines, heights = _lines(scaling, reference, predicted, efficiency=False)
    span = Span(min(min(heights), 0.0), max(heights)).padded(0.06)
    y = PlotAxis(span, tuple(Tick(float(k), f"{2.0**k:g}×") for k in _octaves(span)))
    return LinesPlot("Speed-up", _x_axis(scaling, predicted), y, lines, f"by {things}, log scales{_fit_words(scaling)}")


def efficiency_plot(
    scaling: Scaling, things: str = "devices", reference: Reference | None = None, predicted: Sequence[Forecast] = ()
) -> LinesPlot:
    """Speed-up per device: 1 where each of them is as fast as the first."""
    lines, heights = _lines(scaling, reference, predicted, efficiency=True)
    step = 0.1 if min(heights) > 0.45 else 0.2
    low, high = math.floor(min(heights) / step - 0.1) * step, max(max(heights), 1.0)
    span = Span(max(low, 0.0) - 0.02, min(high, 1.6) + 0.06)
    ticks = [k * step for k in range(20) if span.low <= k * step <= span.high + 1e-9]
    y = PlotAxis(span, tuple(Tick(value, f"{100 * value:.0f} %") for value in ticks))
    return LinesPlot("Efficiency", _x_axis(scaling, predicted), y, lines, f"speed-up per {things.removesuffix('s')}")


class _Scale(NamedTuple):
    """Shows speed-ups against ``base`` devices: as they are on a logarithmic axis, or as the share of each device."""

    base: int
    efficiency: bool

    def value(self, count: float, speedup: float) -> float:
        """What is said of a speed-up with so many devices."""
        return speedup * self.base / count if self.efficiency else speedup

    def height(self, count: float, speedup: float) -> float:
        """Where it is on the axis."""
        value = self.value(count, speedup)
        return value if self.efficiency else math.log2(max(value, _LEAST))

    def text(self, count: float, speedup: float) -> str:
        """The value in words, with all its digits."""
        value = self.value(count, speedup)
        return f"{100 * value:.1f} %" if self.efficiency else f"{value:.2f}×"

    def line(self, name: str, points: Sequence[tuple[float, float]], **look: Any) -> PlotLine:
        """A line through speed-ups with their numbers of devices."""
        counts, heights = np.array([count for count, _ in points]), np.array([self.height(*one) for one in points])
        last = self.value(*points[-1])
        short = f"{100 * last:.0f} %" if self.efficiency else f"{last:.2f}×" if last < 2 else f"{figures(last, 2)}×"
        return PlotLine(name, np.log2(counts), heights, short, **look)


def _lines(
    scaling: Scaling, reference: Reference | None, predicted: Sequence[Forecast], efficiency: bool
) -> tuple[tuple[PlotLine, ...], list[float]]:
    """The lines, and all heights that are to be in sight. Each line differs by its dash as well as by its colour."""
    base, most = scaling.rows[0].replicas, _most(scaling, predicted)
    scale = _Scale(base, efficiency)
    lines = [scale.line("Ideal", [(base, 1.0), (most, most / base)], index=-1, width=1.2, dash=(3.0, 3.0))]
    if reference is not None and base == 1:  # the reference was measured against one device as well
        lines += _reference_line(reference, scale, most)
    if predicted and base == 1:
        points = [(1.0, 1.0), *((one.replicas, one.speedup) for one in predicted)]
        lines.append(scale.line("Forecast", points, index=3, dash=(2.7, 4.5)))
    lines.append(_measured_line(scaling, scale))
    drawn = [y for one in lines for y in (one.y, one.ranges, one.path and one.path[1]) if y is not None]
    return tuple(lines), np.concatenate([y.ravel() for y in drawn]).tolist()


def _reference_line(reference: Reference, scale: _Scale, most: int) -> list[PlotLine]:
    known = [(count, reference.speedup(count) or 1.0) for count in sorted(reference.rates) if count <= most]
    if len(known) < 2:
        return []
    words = [f"{reference.title}, {axis_words('devices', one[0])}, {scale.text(*one)}" for one in known]
    return [scale.line("Slides' table", known, words=words.__getitem__, index=1, dash=(9.0, 5.4), marks="square")]


def _measured_line(scaling: Scaling, scale: _Scale) -> PlotLine:
    rows, fit, path = scaling.rows, _drawn_fit(scaling), None
    if fit is not None and len(rows) > 1:
        ratios = [(rows[-1].replicas / scale.base) ** (k / (_SMOOTH - 1)) for k in range(_SMOOTH)]
        curve = scale.line("", [(scale.base * ratio, fit.speedup(ratio)) for ratio in ratios])
        path = curve.x, curve.y
    ends = np.array(
        [[scale.height(row.replicas, end) for end in row.speedup_interval or 2 * (row.speedup,)] for row in rows]
    )
    words = [_row_words(row, scale) for row in rows]
    points = [(row.replicas, row.speedup) for row in rows]
    look = {"words": words.__getitem__, "marks": "dot", "ranges": ends, "path": path, "strong": True}
    return scale.line("Measured", points, **look)


def _row_words(row: ScalingRow, scale: _Scale) -> str:
    """``4 devices, 3.52×, between 3.41× and 3.60×``."""
    count, interval = row.replicas, row.speedup_interval
    text = f"{axis_words('devices', count)}, {scale.text(count, row.speedup)}"
    if interval is None or interval.low == interval.high:
        return f"{text}, too noisy for an interval" if row.noisy else text
    return f"{text}, between {scale.text(count, interval.low)} and {scale.text(count, interval.high)}"


def _most(scaling: Scaling, predicted: Sequence[Forecast]) -> int:
    """The largest number of devices in sight; twice the fewest where only those were measured."""
    counts = [row.replicas for row in scaling.rows] + [one.replicas for one in predicted]
    return max([*counts, 2 * counts[0]])


def _x_axis(scaling: Scaling, predicted: Sequence[Forecast]) -> PlotAxis:
    most = _most(scaling, predicted)
    ticks = tuple(Tick(math.log2(n), f"{n:,}") for n in sorted({row.replicas for row in scaling.rows} | {most}))
    return PlotAxis(Span(math.log2(scaling.rows[0].replicas), math.log2(most)).padded(0.05), ticks)


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


_SIZE: Final = (1000.0, 460.0)
_EDGE: Final = 16.0
_LEFT_SHARE: Final = 0.57
"""The part of a page that the left plot has, whose lines are named."""


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
        LinesChart(plot, chart, sizes, names=left < middle).draw(drawing)
    return ChartPage(width, height, drawing.items, title, scene.conclusion.sentence, theme.surface)
