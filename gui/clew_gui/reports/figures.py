"""The figures of a report as SVG, drawn without Qt, so that commands make the same report as the window."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.axes.numbers import Format
from clew_gui.plotting.axes.ticks import Span, XUnit, linear_ticks, log_ticks, settled_span, x_ticks
from clew_gui.plotting.measured import MeasuredPlot, axis_ticks, measured_plots, span_of
from clew_gui.plotting.pictures import (
    answered,
    class_labels,
    class_name,
    distribution,
    pixels,
    points,
    table,
    table_names,
)
from clew_gui.reports.facts import goals_for
from clew_gui.reports.parallel_figures import speedup_figures, staleness_figure, timeline_figure
from clew_gui.reports.svg import (
    COLOURS,
    HEIGHT,
    INK,
    LEFT,
    LETTER,
    RIGHT,
    WIDTH,
    Floats,
    ReportFigure,
    SvgAxes,
    draw_text,
    fitted,
    whole_svg,
)
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PictureSpec, PlotSpec
from clew_shared.exporters.tensorboard import in_rows, png
from clew_shared.journal.events import Histogram, Image, Matrix
from clew_shared.journal.history import History
from clew_shared.spec import RunSpec

_COLUMNS: Final = 340
"""A curve is drawn in so many pieces of x: about one for two pixels."""


class LabelledRun(NamedTuple):
    """A run as figures name it; with the metric, steps and values that its student expected, if any."""

    label: str
    history: History
    spec: RunSpec
    expected: tuple[str, Floats, Floats] | None = None


def figures_of(card: ExerciseCard, runs: Sequence[LabelledRun]) -> list[ReportFigure]:
    """Returns all figures of an exercise: curves with all runs in one plot, the speed-up of studies, and of each run
    what was measured, the staleness of its updates and its last pictures. A plot without a point is left out."""
    found = [_curves(plot, card, runs) for plot in card.plots]
    found += speedup_figures(card, [(run.spec, run.history) for run in runs])
    for run in runs:
        alone = "" if len(runs) == 1 else f", {run.label}"
        found += [_measured(plot, alone) for plot in measured_plots(card.measured, run.history.series)]
        found.append(staleness_figure(card, run.history, run.spec, alone))
        found += _pictures(card.pictures, run, alone)
    return [figure for figure in found if figure is not None]


# --- Curves -----------------------------------------------------------------------------------------------------------


class _Drawn(NamedTuple):
    """A curve in at most ``_COLUMNS`` pieces: mean, least and greatest of each."""

    number: int
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    evaluated: bool


def _curves(plot: PlotSpec, card: ExerciseCard, runs: Sequence[LabelledRun]) -> ReportFigure | None:
    metrics = {spec.name: spec for spec in card.metrics}
    drawn = [
        _thinned(run.history, metrics.get(name), name, number)
        for number, run in enumerate(runs)
        for name in plot.metrics
        if len(run.history.column(name).steps)
    ]
    heights = [_placed(values, plot.log) for one in drawn for values in (one.mean, one.low, one.high)]
    better = metrics[plot.metrics[0]].better if plot.metrics[0] in metrics else "none"
    shown = settled_span(np.concatenate(heights), better, plot.log) if heights else None
    if shown is None:
        return None
    goals = [goal for goal in goals_for(card, [run.spec for run in runs]) if goal.metric in plot.metrics]
    goals = [goal for goal in goals if not plot.log or goal.value > 0]
    for goal in goals:
        at = math.log10(goal.value) if plot.log else goal.value
        shown = shown.union(Span(at, at)) if abs(at - shown.low) < 2 * shown.size else shown
    y, x = shown.padded(0.06), Span(0.0, max(float(one.x[-1]) for one in drawn) or 1.0)
    axes = SvgAxes(x, y, log_y=plot.log)
    form: Format = plot.format
    marks = log_ticks(y, 5, form, 0.1) if plot.log else linear_ticks(y, 5, form)
    axes.ticks(x_ticks(x, 8, XUnit.STEP, log=False), marks, "Step")
    _draw(axes, drawn)
    expected = [run.expected for run in runs if run.expected is not None and run.expected[0] in plot.metrics]
    for _, steps, values in expected:
        axes.expectation(steps, values)
    for goal in goals:
        axes.level(goal.value, _goal_words(goal, form))
    svg, height = axes.svg(plot.title, [run.label for run in runs])
    outside = any(bool(((found < y.low) | (found > y.high)).any()) for found in heights)
    caption = _curves_caption(plot, metrics, drawn, outside)
    caption += " The thin dashed curve is what was expected before the run." if expected else ""
    return ReportFigure(plot.title, caption, svg, height)


def _draw(axes: SvgAxes, drawn: Sequence[_Drawn]) -> None:
    """Draws the curves; those of single batches are below and pale if there are evaluated ones, which say more."""
    pale = any(one.evaluated for one in drawn)
    for one in drawn:
        if not one.evaluated and not pale:
            axes.band(one.x, one.low, one.high, one.number)
    for one in sorted(drawn, key=lambda one: one.evaluated):
        axes.curve(one.x, one.mean, one.number, marks=one.evaluated, pale=pale and not one.evaluated)


def _placed(values: Floats, log: bool) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.log10(values) if log else values
    return found[np.isfinite(found)]


def _thinned(history: History, metric: MetricSpec | None, name: str, number: int) -> _Drawn:
    column = history.column(name)
    x, y = column.steps.astype(np.float64), column.values.astype(np.float64)
    known = history.metrics.get(name, metric)
    evaluated = known is not None and not known.per_step
    if len(x) <= _COLUMNS:
        return _Drawn(number, x, y, y, y, evaluated)
    edges = np.linspace(0, len(x), _COLUMNS + 1).astype(np.intp)[:-1]
    counts = np.diff(np.append(edges, len(x)))
    mean, middle = np.add.reduceat(y, edges) / counts, np.add.reduceat(x, edges) / counts
    return _Drawn(number, middle, mean, np.minimum.reduceat(y, edges), np.maximum.reduceat(y, edges), evaluated)


def _goal_words(goal: Goal, form: Format) -> str:
    value = f"{100 * goal.value:.4g} %" if form == "percent" else f"{goal.value:.4g}"
    return f"goal {value}"


def _curves_caption(plot: PlotSpec, metrics: Mapping[str, MetricSpec], drawn: Sequence[_Drawn], outside: bool) -> str:
    names = ", ".join(metrics[name].label if name in metrics else name for name in plot.metrics)
    dots = any(one.evaluated for one in drawn) and any(not one.evaluated for one in drawn)
    thin = any(one.low is not one.mean for one in drawn) and not dots
    parts = [f"{names} over steps{', logarithmic' if plot.log else ''}."]
    parts += ["Lines are means of neighbouring steps, the pale bands their range."] if thin else []
    parts += ["Dots are values measured on held-out data; pale lines are the training batches."] if dots else []
    parts += ["What is outside of the axis is drawn at its end."] if outside else []
    return " ".join(parts)


# --- What was measured ------------------------------------------------------------------------------------------------


def _measured(plot: MeasuredPlot, alone: str) -> ReportFigure | None:
    if plot.spec.form == "timeline":
        return timeline_figure(plot, alone)
    lines = [line for line in plot.lines if line.x.size]
    if not lines:
        return None
    log_x, log_y = plot.spec.log_x, plot.spec.log_y
    x, y = (span_of([getattr(line, name) for line in lines], log) for name, log in (("x", log_x), ("y", log_y)))
    x, y = x.padded(0.03), y.padded(0.06)
    axes = SvgAxes(x, y, log_x=log_x, log_y=log_y)
    marks = axis_ticks(x, 8, log_x, plot.x.unit), axis_ticks(y, 5, log_y, plot.y.unit, plot.spec.format)
    axes.ticks(*marks, plot.x.title, plot.y.title)
    for number, line in enumerate(lines):
        axes.curve(line.x, line.y, number, marks=True)
    svg, height = axes.svg(plot.spec.title, [line.name for line in lines])
    return ReportFigure(f"{plot.spec.title}{alone}", "Measured by the run.", svg, height)


# --- Pictures ---------------------------------------------------------------------------------------------------------


_TILE: Final = WIDTH // 2 - 10
"""The width of a picture that is beside another one."""
_CELLS: Final = 12
"""A table of more columns has no room beside another picture."""


class _Tile(NamedTuple):
    """A picture that is beside another one."""

    title: str
    step: int
    body: str
    height: int


def _pictures(specs: Sequence[PictureSpec], run: LabelledRun, alone: str) -> Iterator[ReportFigure]:
    """The last picture of each kind that a run took: images and small tables beside each other, plots one by one."""
    taken = [(spec, found[-1]) for spec in specs if (found := run.history.figures.get(spec.id, ()))]
    tiles: list[_Tile] = []
    plots: list[ReportFigure] = []
    for spec, last in taken:
        if isinstance(last, Image):
            tiles.append(_Tile(spec.title, last.step, *_image(last, spec)))
        elif isinstance(last, Matrix) and spec.form not in ("scatter", "bars") and last.columns <= _CELLS:
            tiles.append(_Tile(spec.title, last.step, *_matrix(last, spec, _TILE)))
        else:
            caption = f"As it was after {last.step:,} steps."
            plots.append(ReportFigure(f"{spec.title}{alone}", caption, *_picture(last, spec)))
    if tiles:
        yield _in_columns(tiles, alone)
    yield from plots


def _in_columns(tiles: Sequence[_Tile], alone: str) -> ReportFigure:
    """Puts the pictures into two columns, each into the one that is shorter so far."""
    parts, filled = [], [0, 0]
    for tile in tiles:
        column = int(filled[1] < filled[0])
        left, top = column * WIDTH // 2, filled[column]
        filled[column] += tile.height + 26
        parts.append(draw_text(left + 10, top + 14, tile.title, "start", INK))
        parts.append(f'<g transform="translate({left} {top + 20})">{tile.body}</g>')
    title = ", ".join([tiles[0].title, *(f"{one.title[:1].lower()}{one.title[1:]}" for one in tiles[1:])])
    steps = " and ".join(f"{step:,}" for step in sorted({tile.step for tile in tiles}))
    svg = whole_svg("".join(parts), max(filled), title)
    return ReportFigure(f"{title}{alone}", f"After {steps} steps.", svg, max(filled))


def _picture(last: Histogram | Matrix, spec: PictureSpec) -> tuple[str, int]:
    if isinstance(last, Histogram):
        return _histogram(last, spec)
    if spec.form == "scatter":
        return _scatter(last, spec)
    if spec.form == "bars":
        return _bars(last, spec)
    body, height = _matrix(last, spec, WIDTH)
    return whole_svg(body, height, spec.title), height


def _image(image: Image, spec: PictureSpec) -> tuple[str, int]:
    if names := answered(spec, image):
        return _gallery(image, [f"{one} → {other}" for one, other in names])
    grid = in_rows(pixels(image), image.columns)
    rows, columns, _ = grid.shape
    scale = min((_TILE - 20) / columns, 420 / rows, 8.0)
    return _pixels(grid, 10, 10, scale), round(rows * scale) + 20


def _gallery(image: Image, texts: Sequence[str]) -> tuple[str, int]:
    """Draws each image above its class and the model's answer."""
    across = max(1, int((_TILE - 20) // max(44.0, LETTER * max(map(len, texts), default=1))))
    wide, scale = (_TILE - 20) / across, 38 / max(image.width, image.height)
    parts = []
    for number, (one, words) in enumerate(zip(pixels(image), texts, strict=True)):
        left, top = 10 + number % across * wide, 8 + number // across * 60
        parts.append(_pixels(one, left + (wide - image.width * scale) / 2, top, scale))
        parts.append(draw_text(left + wide / 2, top + 51, words, "middle"))
    return "".join(parts), 60 * -(-image.count // across) + 8


def _pixels(grid: npt.NDArray[np.uint8], left: float, top: float, scale: float) -> str:
    rows, columns, _ = grid.shape
    data = base64.b64encode(png(grid)).decode()
    size = f'x="{left:.1f}" y="{top:.1f}" width="{columns * scale:.1f}" height="{rows * scale:.1f}"'
    return f'<image {size} image-rendering="pixelated" xlink:href="data:image/png;base64,{data}"/>'


def _histogram(histogram: Histogram, spec: PictureSpec) -> tuple[str, int]:
    found = distribution(histogram)
    middles = (found.edges[:-1] + found.edges[1:]) / 2
    x, y = Span(float(found.edges[0]), float(found.edges[-1])), Span(0.0, max(1.0, float(found.counts.max()) * 1.06))
    axes = SvgAxes(x, y)
    axes.ticks(linear_ticks(x, 8), linear_ticks(y, 5), "Value", "Count")
    for number, counts in enumerate(found.counts):
        axes.band(middles, np.zeros(len(counts)), counts, number)
        axes.curve(middles, counts, number)
    names = [spec.labels[one] if 0 <= one < len(spec.labels) else f"class {one}" for one in found.classes]
    return axes.svg(spec.title, names)


def _scatter(matrix: Matrix, spec: PictureSpec) -> tuple[str, int]:
    places, classes = points(matrix)
    x, y = (span_of([places[:, axis]], log=False).padded(0.04) for axis in (0, 1))
    axes = SvgAxes(x, y, 420)
    axes.ticks(linear_ticks(x, 8), linear_ticks(y, 6), "")
    across, down = axes.across(places[:, 0]), axes.down(places[:, 1])
    for a, b, one in zip(across.tolist(), down.tolist(), classes.tolist(), strict=True):
        axes.parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{COLOURS[one % len(COLOURS)]}"/>')
    labels = class_labels(spec, matrix)
    known = [(class_name(labels, one), COLOURS[one % len(COLOURS)], "") for one in np.unique(classes).tolist()]
    return axes.svg_with(spec.title, known)


def _bars(matrix: Matrix, spec: PictureSpec) -> tuple[str, int]:
    values = np.nan_to_num(table(matrix)[0], posinf=0.0, neginf=0.0)
    names = [*(matrix.column_labels or spec.labels), *(str(number) for number in range(len(values)))][: len(values)]
    span = span_of([np.append(values, 0.0)], log=False)
    axes = SvgAxes(Span(0.0, float(len(values))), span.padded(0.06))
    axes.ticks([], linear_ticks(span, 5), "")
    zero, tops = float(axes.down(np.zeros(1))[0]), axes.down(values).tolist()
    width = (WIDTH - LEFT - RIGHT) / max(len(values), 1)
    every = -(-len(values) // 14)
    for number, (top, name) in enumerate(zip(tops, names, strict=True)):
        left, high = LEFT + (number + 0.12) * width, min(top, zero)
        size = f'x="{left:.1f}" y="{high:.1f}" width="{0.76 * width:.1f}" height="{abs(zero - top):.1f}"'
        axes.parts.append(f'<rect {size} fill="{COLOURS[0]}"/>')
        if number % every == 0:
            axes.parts.append(draw_text(left + 0.38 * width, HEIGHT - 22, name, "middle"))
    return axes.svg(spec.title)


def _matrix(matrix: Matrix, spec: PictureSpec, room: int) -> tuple[str, int]:
    """A table ``room`` wide, each cell darker the larger its value is."""
    values = table(matrix)
    side = min(44.0, (room - 110) / max(matrix.columns, 1))
    height, most = round(side * matrix.rows) + 56, float(np.nanmax(np.abs(values), initial=1e-300))
    columns, rows = table_names(spec, matrix)
    parts = [draw_text(90 + (n + 0.5) * side, 20, fitted(name, side), "middle") for n, name in enumerate(columns)]
    for row, line in enumerate(values.tolist()):
        parts.append(draw_text(82, 28 + (row + 0.62) * side, fitted(rows[row], 80), "end"))
        for column, value in enumerate(line):
            x, y = 90 + column * side, 28 + row * side
            shade = abs(value) / most if math.isfinite(value) else 0.0
            size = f'x="{x:.1f}" y="{y:.1f}" width="{side:.1f}" height="{side:.1f}"'
            parts.append(f'<rect {size} fill="#2F5BD7" fill-opacity="{0.9 * shade:.2f}" stroke="#FFFFFF"/>')
            ink = "#FFFFFF" if shade > 0.55 else INK
            parts.append(draw_text(x + side / 2, y + 0.62 * side, f"{value:.3g}", "middle", ink))
    return "".join(parts), height
