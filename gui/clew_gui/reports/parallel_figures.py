"""Figures of runs on several devices: staleness under parameter servers, a pipeline's timeline, and speed-up.

They show what the tabs *Cluster*, *Run* and *Speed-up* show, from the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.cluster import STRATEGY, ClusterScene, Staleness, cluster_scene
from clew_gui.plotting.measured import MeasuredPlot, axis_ticks
from clew_gui.plotting.speedup import PlotLine, ScalingPlot, ScalingRun, SpeedupScene, speedup_scene
from clew_gui.plotting.timeline import Bar, bars, busy_share, last_end
from clew_gui.reports.svg import (
    BOTTOM,
    COLOURS,
    FAINT,
    LEFT,
    LETTER,
    TOP,
    ReportFigure,
    SvgAxes,
    draw_text,
)
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.study.scaling import figures
from clew_shared.study.study import scaling_kind

_ROW: Final = 34
"""Pixels of a device in a timeline."""
_LINES: Final = {"ideal": (FAINT, "4 4"), "reference": (COLOURS[4], "2 3"), "forecast": (COLOURS[1], "7 4")}
"""Colour and dashes of what is not measured, by its kind."""


# --- Parameter servers ------------------------------------------------------------------------------------------------


def staleness_figure(card: ExerciseCard, history: History, spec: RunSpec, alone: str) -> ReportFigure | None:
    """Shows how old the gradients of a run were, with a table of its workers; None for a run without parameter
    servers."""
    if spec.strategy != STRATEGY:
        return None
    scene = cluster_scene(history, spec, card, RunState.FINISHED)
    if scene.staleness is None:
        return None
    found = scene.staleness
    axes = SvgAxes(Span(0.0, float(len(found.bars))), found.y)
    axes.ticks(_bar_ticks(found), found.ticks, "Staleness (updates by others)")
    for place, bar in enumerate(found.bars):
        axes.bar(place + 0.1, place + 0.9, 0.0, bar.applied, COLOURS[0])
        if bar.dropped:
            axes.bar(place + 0.1, place + 0.9, bar.applied, bar.applied + bar.dropped, COLOURS[1])
    both = found.bound == found.median
    axes.upright(found.place(found.median), f"median{' and bound' if both else ''} {found.median:,}", TOP + 12)
    if found.bound is not None and not both:
        axes.upright(found.place(found.bound), f"bound {found.bound:,}", TOP + 28)
    dropped = any(bar.dropped for bar in found.bars)
    svg, height = axes.svg("Staleness", ["Applied", "Dropped"] if dropped else ())
    caption = f"Share of the gradients with each staleness. {_sentence(scene.caption)} {scene.sentence}"
    return ReportFigure(f"Staleness{alone}", caption, svg, height, tuple(_workers(history, scene)))


def _bar_ticks(found: Staleness) -> list[Tick]:
    """Returns the ticks below the bars; for a bar of several values the first and the last. The last bar has all higher
    values."""
    every = -(-len(found.bars) // 14)
    shown = [(place, bar) for place, bar in enumerate(found.bars) if place % every == 0]
    return [Tick(place + 0.5, f"{bar.low}" if bar.low == bar.high else f"{bar.low}–{bar.high}") for place, bar in shown]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."


def _workers(history: History, scene: ClusterScene) -> Iterator[tuple[str, ...]]:
    counts = history.updates.counts
    shares = counts.shares()
    rates = {line.worker: figures(float(line.values.mean())) for line in scene.rates.lines} if scene.rates else {}
    unit = scene.rates.unit.capitalize() if scene.rates else "Images/s"
    yield ("Worker", "Node", "Gradients", "Applied", "Dropped", "Share of updates", unit)
    for role in scene.roles:
        if role.role == "worker" and role.number in shares:
            dropped, applied = counts.workers[:, role.number].tolist()
            numbers = (f"{dropped + applied:,}", f"{applied:,}", f"{dropped:,}", f"{100 * shares[role.number]:.0f} %")
            yield (f"{role.number}", role.host, *numbers, rates.get(role.number, ""))


# --- Timeline ---------------------------------------------------------------------------------------------------------


def timeline_figure(plot: MeasuredPlot, alone: str) -> ReportFigure | None:
    """Shows what each device of a pipeline does in one step; None if nothing was measured."""
    lines = [line for line in plot.lines if line.x.size]
    end = last_end(lines)
    if not end:
        return None
    x, rows = Span(0.0, end), float(len(lines))
    axes = SvgAxes(x, Span(0.0, rows), TOP + BOTTOM + _ROW * len(lines))
    names = [Tick(rows - number - 0.5, line.name) for number, line in enumerate(lines)]
    axes.ticks(axis_ticks(x, 8, False, plot.x.unit), [], plot.x.title)
    for name in names:
        axes.parts.append(draw_text(LEFT - 6, float(axes.down(np.array([name.at]))[0]) + 4, name.text, "end"))
    for number, line in enumerate(lines):
        for bar in bars(line):
            _draw_bar(axes, bar, rows - number)
    svg, height = axes.svg(plot.spec.title, ["Forward", "Backward"])
    waits = 1 - np.mean([busy_share(line, end) for line in lines])
    shares = tuple((line.name, f"{len(bars(line)):,}", f"{100 * busy_share(line, end):.0f} %") for line in lines)
    caption = f"Numbers are micro-batches. On average a device waits {100 * waits:.0f} % of the time."
    return ReportFigure(f"{plot.spec.title}{alone}", caption, svg, height, (("Device", "Tasks", "Works"), *shares))


def _draw_bar(axes: SvgAxes, bar: Bar, top: float) -> None:
    axes.bar(bar.start, bar.end, top - 0.84, top - 0.16, COLOURS[int(bar.backward)])
    left, right = axes.across(np.array([bar.start, bar.end])).tolist()
    if right - left > LETTER * (len(str(bar.piece)) + 1):
        middle = float(axes.down(np.array([top - 0.5]))[0])
        axes.parts.append(draw_text((left + right) / 2, middle + 4, str(bar.piece), "middle", "#FFFFFF"))


# --- Speed-up ---------------------------------------------------------------------------------------------------------


def speedup_figures(card: ExerciseCard, runs: Sequence[tuple[RunSpec, History]]) -> Iterator[ReportFigure]:
    """Speed-up and efficiency of each scaling study among ``runs`` that has two numbers of devices or more."""
    studies: dict[str, list[tuple[RunSpec, History]]] = {}
    for spec, history in runs:
        if spec.study:
            studies.setdefault(spec.study, []).append((spec, history))
    for found in studies.values():
        kind = scaling_kind([spec for spec, _ in found])
        if kind is None:
            continue
        timed = [ScalingRun(spec, history.fold.state or RunState.LOST, history) for spec, history in found]
        scene = speedup_scene(timed, card, weak=kind == "weak")
        if len(scene.scaling.rows) > 1:
            yield from _speedup(scene)


def _speedup(scene: SpeedupScene) -> Iterator[ReportFigure]:
    words = f"{scene.conclusion.sentence} {scene.conclusion.detail}".strip()
    measured = f"{scene.caption[:1].upper()}{scene.caption[1:]}."
    for number, plot in enumerate(scene.plots):
        svg, height = _scaling_plot(plot)
        title = f"{plot.title}. {scene.title}"
        if number == 0:
            yield ReportFigure(title, f"{words} {measured}", svg, height, scene.table)
        else:
            yield ReportFigure(title, _sentence(plot.caption), svg, height)


def _scaling_plot(plot: ScalingPlot) -> tuple[str, int]:
    axes = SvgAxes(plot.x, plot.y)
    axes.ticks(plot.x_ticks, plot.y_ticks, "Devices")
    for line in plot.lines:
        colour, dash = _LINES.get(line.kind, (COLOURS[0], ""))
        axes.path(line.path, colour, dash)
        for mark in line.marks:
            axes.whisker(mark.x, mark.low, mark.y, mark.high, colour)
    return axes.svg_with(plot.title, [(_named(line), *_LINES.get(line.kind, (COLOURS[0], ""))) for line in plot.lines])


def _named(line: PlotLine) -> str:
    return f"{line.name} {line.value}"
