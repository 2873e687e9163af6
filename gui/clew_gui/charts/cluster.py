"""The charts of a run with parameter servers: updates of each worker, staleness of the gradients, images/s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from clew_gui.base.tokens import Theme
from clew_gui.charts.cluster_rows import ClusterEvent, ClusterScene, Staleness, Timeline, WorkerLane
from clew_gui.charts.kit.axes import FOOT, draw_foot, draw_grid, draw_level, value_room
from clew_gui.charts.kit.chart import Chart, ChartPage
from clew_gui.charts.kit.drawing import Drawing, Stroke, TextSizes, widest
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.lines import LinesChart
from clew_gui.charts.kit.ticks import Span, Tick
from clew_shared.base.number_words import counted
from clew_shared.study.scaling import figures

_TOP: Final = 18.0
"""The space above the rows of the timeline, for what happened."""
LANE: Final = 22
"""Height of a worker's row."""
_NAMED_BARS: Final = 14
_WIDTH: Final = 1000
_EDGE: Final = 16.0


# --- Timeline ---------------------------------------------------------------------------------------------------------


def timeline_height(timeline: Timeline) -> int:
    """Returns the height that the rows of a timeline need."""
    return round(_TOP + LANE * max(len(timeline.lanes), 1) + FOOT)


class TimelineChart(Chart):
    """A row for each worker: bars while it computes, dots where an update reaches the servers."""

    def __init__(self, timeline: Timeline, box: Box, sizes: TextSizes) -> None:
        self._timeline = timeline
        left = widest(sizes, [f"Worker {lane.worker}" for lane in timeline.lanes]) + 12
        rows = Span(0.0, max(len(timeline.lanes), 1))
        self.frame = Frame(box.inset(left, _TOP, 14, FOOT), timeline.x, rows)
        self.along, self.whole = (self.frame, timeline.whole), replace(self.frame, x=timeline.whole)

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        draw_foot(drawing, self.frame, self._timeline.ticks)
        area = self.frame.box
        for place, lane in enumerate(self._timeline.lanes):
            middle = area.y + LANE * (place + 0.5)
            drawing.text(area.x - 8, middle, f"Worker {lane.worker}", drawing.theme.text2, across="right")
            with drawing.clipped(area):
                self._draw_lane(drawing, lane, middle)
        self._draw_events(drawing, self._timeline.events)

    def _draw_lane(self, drawing: Drawing, lane: WorkerLane, middle: float) -> None:
        theme = drawing.theme
        gap = 1.5 if len(lane.arrived) or len(lane.dropped) else 0.0
        for left, right in zip(self.frame.px(lane.starts).tolist(), self.frame.px(lane.ends).tolist(), strict=True):
            wide = max(right - left - (gap if right - left > 5 else 0), 0.5)
            drawing.rect(Box(left, middle - 6, wide, 12), theme.accent, 0.42 if theme.dark else 0.34)
        if len(lane.starts) < self.frame.box.width / 7:
            at = self.frame.px(lane.arrived) - 1
            drawing.marks(at, np.full(at.size, middle), theme.accent, 6.4, edge=Stroke(theme.surface, 1.4))
        at = self.frame.px(lane.dropped) - 1
        drawing.marks(at, np.full(at.size, middle), theme.surface, 6.4, edge=Stroke(theme.bad, 1.4))
        for begin, until, text in lane.pauses:
            left, right = self.frame.column(begin), self.frame.column(until)
            if right - left > drawing.width(text) + 8:
                drawing.text(0.5 * (left + right), middle, text, across="middle")

    def _draw_events(self, drawing: Drawing, events: Sequence[ClusterEvent]) -> None:
        """A dotted line where something happened, with words as far as there is room."""
        area = self.frame.box
        free = area.x
        for event in events:
            x, colour = self.frame.column(event.clock), drawing.theme.colour(event.tone)
            drawing.line(x, area.y - 4, x, area.bottom, Stroke(colour, 1.2, (2.4, 3.6)))
            wide = drawing.width(event.text)
            start = min(x + 4, area.right - wide)
            if start >= free:
                drawing.text(start, area.y - 10, event.text, colour)
                free = start + wide + 10

    def read(self, x: float, y: float) -> str:
        """Says what the worker at a pixel did then."""
        area = self.frame.box
        number = int((y - area.y) // LANE)
        if not (area.holds(x, y) and 0 <= number < len(self._timeline.lanes)):
            return ""
        lane, time = self._timeline.lanes[number], self.frame.x_at(x)
        inside = [(s, e) for s, e in zip(lane.starts.tolist(), lane.ends.tolist(), strict=True) if s <= time <= e]
        if not inside:
            return f"Worker {lane.worker}: nothing at {figures(time, 4)} s"
        start, end = inside[-1]
        if not (len(lane.arrived) or len(lane.dropped)):
            return f"Worker {lane.worker}: updates from {figures(start, 4)} to {figures(end, 4)} s"
        how = "dropped" if end in lane.dropped else "applied"
        return f"Worker {lane.worker}: {figures(1000 * (end - start))} ms, {how} at {figures(end, 4)} s"

    def words(self) -> str:
        """The number of bars of each worker, and what happened."""
        bars = [f"{counted(len(lane.starts), 'bar')} of worker {lane.worker}" for lane in self._timeline.lanes]
        return "; ".join([*bars, *(event.text for event in self._timeline.events)])


# --- Staleness --------------------------------------------------------------------------------------------------------


class StalenessChart(Chart):
    """Bars of all gradients, dropped ones on top; a line over them for the latest."""

    title = "Staleness (updates by others)"

    def __init__(self, plot: Staleness, box: Box, sizes: TextSizes, *, titled: bool = False) -> None:
        self._plot, self._titled = plot, titled
        below = FOOT + (sizes.height("captionStrong") if titled else 0)
        area = box.inset(value_room(sizes, plot.ticks), 16, 6, below)
        self.frame = Frame(area, Span(0.0, float(max(len(plot.bars), 4))), plot.y)

    def draw(self, drawing: Drawing) -> None:
        """Add the chart's shapes."""
        plot, frame, theme = self._plot, self.frame, drawing.theme
        draw_grid(drawing, frame, plot.ticks)
        draw_foot(drawing, frame, self._names(), self.title if self._titled else "")
        for place, bar in enumerate(plot.bars):
            left, right = frame.column(place + 0.12), frame.column(place + 0.88)
            rows = [frame.row(share) for share in (0.0, bar.applied, bar.applied + bar.dropped)]
            drawing.rect(Box(left, rows[1], right - left, rows[0] - rows[1]), theme.accent, 0.75)
            if bar.dropped:
                drawing.rect(Box(left, rows[2], right - left, rows[1] - rows[2]), theme.bad, 0.75)
        self._draw_lately(drawing)
        top = frame.box.y - 14
        draw_level(drawing, frame, plot.place(plot.median), f"median {plot.median:,}", theme.text2, top)
        if plot.bound is not None:
            draw_level(drawing, frame, plot.place(plot.bound + 0.5), f"bound {plot.bound:,}", theme.ok, top + 14)

    def _names(self) -> list[Tick]:
        """The numbers below the bars; for a bar of several values the first and the last, for the last "and more"."""
        bars, every = self._plot.bars, -(-len(self._plot.bars) // _NAMED_BARS)
        names = [
            Tick(place + 0.5, f"{bar.low}" if bar.low == bar.high else f"{bar.low}–{bar.high}")
            for place, bar in enumerate(bars[:-1])
            if place % every == 0
        ]
        last, text = bars[-1], f"{bars[-1].low}"
        if last.high >= last.low + self._plot.width:
            text += "+"
        elif last.high > last.low:
            text = f"{last.low}–{last.high}"
        return [Tick(len(bars) - 0.5, text), *names] if text.endswith("+") or every == 1 else names

    def _draw_lately(self, drawing: Drawing) -> None:
        """Heights of the latest gradients as steps."""
        heights = np.array([bar.lately for bar in self._plot.bars])
        edges = np.arange(len(heights) + 1, dtype=np.float64)
        x = np.repeat(edges, 2)
        y = np.concatenate([[0.0], np.repeat(heights, 2), [0.0]])
        drawing.path(self.frame.px(x), self.frame.py(y), Stroke(drawing.theme.curve(1).colour, 1.6))

    def read(self, x: float, y: float) -> str:
        """Describes the bar at a pixel."""
        number = int(self.frame.x_at(x)) if self.frame.box.holds(x, y) else -1
        return self._plot.bars[number].words if 0 <= number < len(self._plot.bars) else ""

    def words(self) -> str:
        """All bars."""
        return "; ".join(bar.words for bar in self._plot.bars)


# --- The whole tab ----------------------------------------------------------------------------------------------------


def cluster_page(scene: ClusterScene, title: str, theme: Theme, sizes: TextSizes) -> ChartPage:
    """The sentence, the timeline, and below it staleness and images/s beside each other."""
    drawing, wide, half = Drawing(theme, sizes), _WIDTH - 2 * _EDGE, _WIDTH * 0.42
    drawing.paragraph(Box(_EDGE, 10, wide, 26), title, theme.text, "subtitle")
    drawing.paragraph(Box(_EDGE, 34, wide, 20), f"{scene.caption}.", theme.text2)
    drawing.paragraph(Box(_EDGE, 54, wide, 36), scene.sentence, theme.text2)
    high = timeline_height(scene.timeline)
    TimelineChart(scene.timeline, Box(_EDGE, 92, wide, high), sizes).draw(drawing)
    top = 92 + high + 10
    if scene.staleness is not None:
        head = f"Staleness, line: latest {scene.staleness.latest}"
        drawing.text(_EDGE, top, head, theme.text, "strong", down="top")
        StalenessChart(scene.staleness, Box(_EDGE, top + 24, half - _EDGE, 240), sizes).draw(drawing)
    if scene.rates is not None:
        head = f"{scene.rates.title} of each worker"
        drawing.text(half + 24, top, head, theme.text, "strong", down="top")
        LinesChart(scene.rates, Box(half + 24, top + 24, _WIDTH - half - 40, 240), sizes).draw(drawing)
    return ChartPage(_WIDTH, top + 280, drawing.items, title, scene.sentence, theme.surface)
