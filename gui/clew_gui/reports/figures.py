"""The figures of a report: the window's charts, laid out without Qt, so that commands make the same report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from clew_gui.base.tokens import LIGHT
from clew_gui.charts.cluster import ClusterScene, StalenessChart, cluster_scene
from clew_gui.charts.curves.chart import curves_chart
from clew_gui.charts.curves.model import PREDICTED, Ghost, RunStyle, View, resolve_plots
from clew_gui.charts.curves.scene import SceneBuilder
from clew_gui.charts.kit.drawing import Layout, UsualSizes, drawn
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.lines import LinesChart
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.charts.measured import MeasuredChart, MeasuredPlot, MeasuredRun, measured_plots
from clew_gui.charts.pictures.page import PicturesChart
from clew_gui.charts.pictures.taken import TakenPicture, taken_at
from clew_gui.charts.speedup import ScalingRun, SpeedupScene, speedup_scene
from clew_gui.reports.facts import goals_for
from clew_gui.study.scaling import figures
from clew_shared.cards import ExerciseCard, PictureSpec, PlotSpec
from clew_shared.catalogue import on_servers
from clew_shared.journal.events import Matrix
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.study.study import scaling_kind

WIDTH: Final = 760
_HEIGHT: Final = 270
_TASK_ROW: Final = 34
"""Pixels of a device in a timeline."""
_TILE_ROW: Final = 300
"""Pixels of a row of pictures."""
_CELLS: Final = 12
"""A table of more columns has no room beside another picture."""
_SIZES: Final = UsualSizes()


@dataclass(frozen=True)
class ReportFigure:
    """A picture with its caption. ``table`` belongs to it: heads, then rows."""

    title: str
    caption: str
    page: ChartPage
    table: tuple[tuple[str, ...], ...] = ()

    @property
    def height(self) -> int:
        """Pixels of the picture for a width of ``WIDTH``."""
        return round(self.page.height)

    @property
    def svg(self) -> str:
        """The picture as an SVG document."""
        return self.page.svg(_SIZES)


def _page(title: str, layout: Layout, height: float = _HEIGHT) -> ChartPage:
    chart = layout(Box(4, 8, WIDTH - 8, height - 16), _SIZES)
    return ChartPage(WIDTH, height, drawn(chart, LIGHT, _SIZES), title, chart.description(), LIGHT.surface)


class LabelledRun(NamedTuple):
    """A run as figures name it; with the metric, steps and values that its student expected, if any."""

    label: str
    history: History
    spec: RunSpec
    expected: tuple[str, FloatArray, FloatArray] | None = None


def figures_of(card: ExerciseCard, runs: Sequence[LabelledRun]) -> list[ReportFigure]:
    """Returns all figures of an exercise: curves with all runs in one plot, the speed-up of studies, and of each run
    what was measured, the staleness of its updates, and its last pictures. A plot without a point is left out."""
    found = [_curves(plot, card, runs) for plot in card.plots]
    found += _speedups(card, runs)
    for run in runs:
        alone = "" if len(runs) == 1 else f", {run.label}"
        found += [_measured(plot, run, alone) for plot in measured_plots(card.measured, run.history.series)]
        found.append(_staleness(card, run, alone))
        found += _pictures(card.pictures, run, alone)
    return [figure for figure in found if figure is not None]


# --- Curves -----------------------------------------------------------------------------------------------------------


def _curves(plot: PlotSpec, card: ExerciseCard, runs: Sequence[LabelledRun]) -> ReportFigure | None:
    goals = goals_for(card, [run.spec for run in runs])
    (setup,) = resolve_plots([plot], goals, card.metrics)
    expected = [run.expected[1:] for run in runs if run.expected is not None and run.expected[0] in plot.metrics]
    setup = replace(setup, ghost=Ghost(_points(expected), PREDICTED, stays=True) if expected else None)
    styles = [RunStyle(f"{number}", run.label, number, history=run.history) for number, run in enumerate(runs)]
    chart = curves_chart(SceneBuilder(card.params), [setup], styles, View(), (WIDTH, _HEIGHT), LIGHT, _SIZES)
    if not any(item.curve.x.size for shown in chart.scene.plots for item in shown.curves):
        return None
    caption = f"{', '.join(setup.label(name) for name in plot.metrics)} over steps{', logarithmic' * plot.log}."
    caption += " The dashed curve is what was expected before the run." if expected else ""
    page = ChartPage(WIDTH, _HEIGHT, drawn(chart, LIGHT, _SIZES), plot.title, chart.description(), LIGHT.surface)
    return ReportFigure(plot.title, caption, page)


def _points(curves: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[tuple[float, float], ...]:
    """Steps and values of several drawn curves; a NaN ends each."""
    found: list[tuple[float, float]] = []
    for steps, values in curves:
        found += zip(steps.tolist(), values.tolist(), strict=True)
        found.append((float(steps[-1]), math.nan))
    return tuple(found)


# --- What was measured ------------------------------------------------------------------------------------------------


def _measured(plot: MeasuredPlot, run: LabelledRun, alone: str) -> ReportFigure | None:
    lines = [line for line in plot.lines if line.x.size]
    if not lines:
        return None
    shown = [MeasuredRun(RunStyle("run", run.label, 0), (plot,))]
    layout, title = partial(MeasuredChart, shown), plot.spec.title
    if not plot.is_timeline:
        return ReportFigure(f"{title}{alone}", "Measured by the run.", _page(title, layout))
    page = _page(title, layout, 80 + _TASK_ROW * len(lines))
    if plot.spec.bars:
        return ReportFigure(f"{title}{alone}", "Measured by the run.", page)
    waits = 1 - np.mean([line.busy_share(plot.end) for line in lines])
    shares = tuple((line.name, f"{len(line.bars()):,}", f"{100 * line.busy_share(plot.end):.0f} %") for line in lines)
    caption = f"Numbers are micro-batches. On average a device waits {100 * waits:.0f} % of the time."
    return ReportFigure(f"{title}{alone}", caption, page, (("Device", "Tasks", "Works"), *shares))


# --- Parameter servers ------------------------------------------------------------------------------------------------


def _staleness(card: ExerciseCard, run: LabelledRun, alone: str) -> ReportFigure | None:
    """Shows how old the gradients of a run were, with a table of its workers; None for a run without parameter
    servers."""
    if not on_servers(run.spec.strategy):
        return None
    scene = cluster_scene(run.history, run.spec, card, RunState.FINISHED)
    if scene.staleness is None:
        return None
    bars = f"Share of the gradients with each staleness; the line is of the latest {scene.staleness.latest:,}."
    caption = f"{bars} {_sentence(scene.caption)} {scene.sentence}"
    page = _page("Staleness", partial(StalenessChart, scene.staleness, titled=True))
    return ReportFigure(f"Staleness{alone}", caption, page, tuple(_workers(run.history, scene)))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _workers(history: History, scene: ClusterScene) -> Iterator[tuple[str, ...]]:
    counts = history.updates.counts
    shares = counts.shares()
    rates = {line.index: figures(float(line.y.mean())) for line in scene.rates.lines} if scene.rates else {}
    unit = scene.rates.title if scene.rates else "Images/s"
    yield ("Worker", "Node", "Gradients", "Applied", "Dropped", "Share of updates", unit)
    for role in scene.roles:
        if role.role == "worker" and role.number in shares:
            dropped, applied = counts.workers[:, role.number].tolist()
            numbers = (f"{dropped + applied:,}", f"{applied:,}", f"{dropped:,}", f"{100 * shares[role.number]:.0f} %")
            yield (f"{role.number}", role.host, *numbers, rates.get(role.number, ""))


# --- Speed-up ---------------------------------------------------------------------------------------------------------


def _speedups(card: ExerciseCard, runs: Sequence[LabelledRun]) -> Iterator[ReportFigure]:
    """Speed-up and efficiency of each scaling study among ``runs`` that has two numbers of devices or more."""
    studies: dict[str, list[LabelledRun]] = {}
    for run in runs:
        if run.spec.study:
            studies.setdefault(run.spec.study, []).append(run)
    for found in studies.values():
        kind = scaling_kind([run.spec for run in found])
        if kind is None:
            continue
        timed = [ScalingRun(run.spec, run.history.fold.state or RunState.LOST, run.history) for run in found]
        scene = speedup_scene(timed, card, weak=kind == "weak")
        if len(scene.scaling.rows) > 1:
            yield from _speedup(scene)


def _speedup(scene: SpeedupScene) -> Iterator[ReportFigure]:
    words = f"{scene.conclusion.sentence} {scene.conclusion.detail}".strip()
    for number, plot in enumerate(scene.plots):
        title = f"{plot.title}. {scene.title}"
        page = _page(plot.title, partial(LinesChart, plot, names=True, title="Devices"))
        if number == 0:
            yield ReportFigure(title, f"{words} {_sentence(scene.caption)}", page, scene.table)
        else:
            yield ReportFigure(title, _sentence(plot.caption), page)


# --- Pictures ---------------------------------------------------------------------------------------------------------


def _pictures(specs: Sequence[PictureSpec], run: LabelledRun, alone: str) -> Iterator[ReportFigure]:
    """The last picture of each kind that a run took: images and small tables beside each other, others one by one."""
    taken = [one for one in taken_at(specs, run.history.figures, None) if one.figure is not None]
    tiles = [one for one in taken if _is_tile(one)]
    if tiles:
        first, *others = [one.spec.title for one in tiles]
        title = ", ".join([first, *(f"{one[:1].lower()}{one[1:]}" for one in others)])
        steps = " and ".join(f"{step:,}" for step in sorted({one.figure.step for one in tiles if one.figure}))
        page = _page(title, partial(PicturesChart, tiles), _TILE_ROW * -(-len(tiles) // 2))
        yield ReportFigure(f"{title}{alone}", f"After {steps} steps.", page)
    for one in taken:
        if one not in tiles and one.figure is not None:
            page = _page(one.spec.title, partial(PicturesChart, [one]), _TILE_ROW)
            yield ReportFigure(f"{one.spec.title}{alone}", f"As it was after {one.figure.step:,} steps.", page)


def _is_tile(one: TakenPicture) -> bool:
    return one.spec.form in ("images", "plane", "surface") or (
        one.spec.form == "matrix" and isinstance(one.figure, Matrix) and one.figure.columns <= _CELLS
    )
