"""Curves, laid out and drawn, with the crosshair: one line through all plots, and a box with the values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.base.tokens import Theme
from clew_gui.charts.curves.captions import captions
from clew_gui.charts.curves.layout import (
    AXIS_HEIGHT,
    TITLE,
    CurvesLayout,
    Stack,
    empty_sentence,
    heading,
    in_sight,
    key,
    stack,
)
from clew_gui.charts.curves.model import PlotSetup, RunStyle, View
from clew_gui.charts.curves.readout import Readout, summary
from clew_gui.charts.curves.readout import read as read_out
from clew_gui.charts.curves.scene import PlotScene, Room, RunCurve, Scene, SceneBuilder, has_values
from clew_gui.charts.kit.axes import LEFT, draw_grid, value_room
from clew_gui.charts.kit.clip import drawable, stretches
from clew_gui.charts.kit.drawing import OTHER_WIDTH, RUN_WIDTH, SELECTED_WIDTH, Chart, Drawing, Shape, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.gutter import gutter_for
from clew_gui.charts.kit.layout import Box, FloatArray, emptiest
from clew_gui.charts.kit.readbox import ReadBox, ReadRow
from clew_gui.charts.kit.ticks import XUnit

_AWAY: Final = 12.0
_FEW: Final = 2
"""A box beside the line may cover so many points of curves before it goes farther away."""
_DOT: Final = 8.0


def snapped(scene: Scene, x: float) -> float:
    """Moves ``x`` to a whole step, as far as it is in sight. In axis coordinates."""
    grid = scene.grid
    value = scene.x_value(x)
    if grid.unit.value != "step" or value < 0.5:
        return x
    whole = math.log10(round(value)) if grid.log else float(round(value))
    return min(max(whole, grid.span.low), grid.span.high)


class Crosshair:
    """Draws a read-out over a finished picture; remembers where the box was, so that it does not flicker."""

    def __init__(self) -> None:
        self._previous = -1

    def draw(self, drawing: Drawing, readout: Readout, layout: CurvesLayout) -> None:
        """Add line, dots and box."""
        theme = drawing.theme
        column = round(layout.frames[0].column(readout.x)) if layout.frames else 0
        for frame in layout.frames:
            drawing.line(column, frame.box.y, column, frame.box.bottom, Stroke(theme.text3, crisp=True))
        for row in reversed(readout.rows):
            for frame, point in zip(layout.frames, row.points, strict=True):
                if point is not None and in_sight(frame, *point):
                    (x, y), edge = frame.at(*point), Stroke(theme.surface, 1.6)
                    drawing.marks([x], [y], layout.colour(row.run), _DOT, edge=edge)
        if readout.rows:
            rows = [ReadRow(row.run.index, row.run.label, row.values, row.run.selected) for row in readout.rows]
            box = ReadBox(readout.heading, rows, readout.columns, readout.omitted)
            spot = self.place(layout, column, *box.size(drawing.sizes))
            box.draw(drawing, spot.x, spot.y)

    def place(self, layout: CurvesLayout, column: float, width: float, height: float) -> Box:
        """Finds the place beside the column where a box of this size covers least."""
        area = layout.stack.area
        beside = (column + _AWAY, column - _AWAY - width)
        candidates = _boxes(layout, beside, width, height)
        near = len(candidates)
        candidates += _boxes(layout, (area.x + 8, area.right - width - 8), width, height, column)
        right = area.width + (layout.stack.gutter if width > 0.5 * area.width else 0)
        room = Box(area.x, area.y - 2, right, max(area.height, height) + 8)
        points = np.concatenate([layout.points_of(i) for i in range(len(layout.frames))])
        chosen = emptiest(candidates[:near], points, room, self._previous if self._previous < near else -1)
        if chosen < 0 or candidates[chosen].covers(points) > _FEW:  # beside the line it would lie on curves
            chosen = emptiest(candidates, points, room, self._previous)
        self._previous = chosen
        if chosen >= 0:
            return candidates[chosen]
        x = min(max(column + _AWAY, room.x), max(layout.stack.width - width - 2, 0.0))
        return Box(x, area.y + 4, width, height)


def _boxes(
    layout: CurvesLayout, lefts: Sequence[float], width: float, height: float, line: float | None = None
) -> list[Box]:
    """Boxes at these columns, from the top of each plot to its foot; none over the upright ``line``."""
    found = []
    for frame in layout.frames:
        top, foot = frame.box.y + 4, frame.box.bottom - height - 6
        found += [Box(x, top + part * (foot - top), width, height) for x in lefts for part in (0.0, 1.0, 0.5)]
    if line is None:
        return found
    return [box if not box.x <= line <= box.right else Box(box.x, -2 * height, width, height) for box in found]


DOT: Final = 10.0
"""Width of the dot at the last point."""
_UPRIGHT: Final = 1000
"""The number of points above which raw lines are one upright stroke beside the other. Nobody sees antialiasing there,
and it takes five times as long."""
_CROWDED: Final = 8.0
"""The pixels between strokes for spikes out of sight; if they are closer, one line along the border says the same."""
_MARKED: Final = 90
"""The largest number of points of a sparse curve that are each shown."""
_STEP: Final = 4.0
"""Pixels that an arrow key goes, at least."""
_APART: Final = 12.0
"""The pixels from which on the best value has a mark beside that of the last one."""


@dataclass(frozen=True, eq=False)
class CurveLine:
    """A line in axis coordinates, with NaN where it is interrupted. A ``raw`` one lies below all others, translucent;
    that of a ``live`` run over them."""

    key: tuple[str, ...]
    x: FloatArray
    y: FloatArray
    stroke: Stroke
    raw: bool = False
    live: bool = False


class CurvesChart(CurvesLayout, Chart):
    """Curves in stacked plots, with axes, goals, events, marks, captions and the names of the runs. ``unit_label`` is
    written below the x axis. ``crosshair`` draws the read-out."""

    draws_reading = True

    def __init__(
        self,
        scene: Scene,
        boxes: Stack,
        theme: Theme,
        sizes: TextSizes,
        lifted: str = "",
        unit_label: str = "",
        crosshair: Crosshair | None = None,
    ) -> None:
        super().__init__(scene, boxes, theme, sizes, lifted)
        self._unit_label, self._for_file, self._crosshair = unit_label, crosshair is None, crosshair or Crosshair()
        if self.frames:
            self.along = self.frames[0], scene.full
            self.drags_box = scene.grid.span == scene.full

    def draw(self, drawing: Drawing) -> None:
        """Add everything, for a file."""
        self.draw_ground(drawing)
        for index, frame in enumerate(self.frames):
            with drawing.clipped(frame.box.inset(-1, -1, -1, -1)):
                for line in sorted(self.lines(index), key=lambda line: (not line.raw, line.live)):
                    x, y = drawable(line.x, line.y, frame.x, frame.y, 0.0)
                    drawing.path(frame.px(x), frame.py(y), line.stroke)
        self.draw_words(drawing)

    def read(self, x: float, y: float) -> str:
        """The values of all runs at a pixel's column."""
        found = self.readout(x, y)
        return found.sentence() if found is not None else ""

    def readout(self, x: float, y: float) -> Readout | None:
        """The values of all runs at a pixel's column; None beside the plots, or where there are no values."""
        if not self.frames or self.scene.empty or not self.stack.area.inset(-2, -8, -2, -30).holds(x, y):
            return None
        return read_out(self.scene, snapped(self.scene, self.frames[0].x_at(x)))

    def draw_reading(self, drawing: Drawing, x: float, y: float) -> None:
        """Add the crosshair."""
        found = self.readout(x, y)
        if found is not None:
            self._crosshair.draw(drawing, found, self)

    def places(self) -> list[tuple[float, float]]:
        """Columns a few pixels apart, at whole steps, as far as the curves go."""
        if not self.frames or self.scene.empty:
            return []
        frame, span = self.frames[0], self.scene.grid.span
        ends = [item.curve.end[0] for plot in self.scene.plots for item in plot.curves if item.curve.end is not None]
        last = min(max(ends, default=span.high), span.high)
        columns = np.arange(frame.box.x, frame.column(last), _STEP)
        found = {snapped(self.scene, x) for x in (*(frame.x_at(column) for column in columns.tolist()), last)}
        return [(frame.column(x), self.stack.area.middle) for x in sorted(found)]

    def pick(self, x: float, y: float) -> str:
        """The run whose label is at a pixel."""
        return next((run for gutter in self.gutters if (run := gutter.run_at(x, y))), "")

    def description(self) -> str:
        """The picture in words: where each run is, and how it develops."""
        return summary(self.scene)

    # ------------------------------------------------------------ below the lines
    def draw_ground(self, drawing: Drawing) -> None:
        """Add axes, goals and events."""
        theme = drawing.theme
        for index, (plot, frame) in enumerate(zip(self.scene.plots, self.frames, strict=True)):
            box = frame.box
            draw_grid(drawing, frame, plot.ticks)
            drawing.line(box.x, box.bottom, box.right, box.bottom, Stroke(theme.line, crisp=True))
            for _, at in self.goals(plot):
                row = frame.row(at)
                drawing.line(box.x, row, box.right, row, Stroke(theme.ok, 1.4, (5, 4), crisp=True))
            for event, x in self.scene.events:
                column = frame.column(x)
                if box.x <= column <= box.right:
                    ink = theme.bad if event.bad else theme.text3
                    drawing.line(column, box.y, column, box.bottom, Stroke(ink, 1.0, (2, 3), crisp=True))
            if index == len(self.frames) - 1:
                self._draw_steps(drawing, frame)

    def _draw_steps(self, drawing: Drawing, frame: Frame) -> None:
        """The numbers of the x axis, as far as they do not touch, inside of its right end."""
        box, occupied = frame.box, -1e9
        for tick in self.scene.ticks:
            width = drawing.width(tick.text)
            left = min(frame.column(tick.at) - width / 2, box.right - width)
            if left >= occupied + 10:
                occupied = left + width
                drawing.text(left, box.bottom + 14, tick.text)
        if self._unit_label:
            at = box.across, box.bottom + AXIS_HEIGHT + 8
            drawing.text(*at, self._unit_label, drawing.theme.text2, across="middle")

    # ------------------------------------------------------------ lines
    def lines(self, index: int) -> Iterator[CurveLine]:
        """All lines of a plot."""
        plot = self.scene.plots[index]
        if plot.ghost is not None:
            yield CurveLine(("ghost",), *plot.ghost, Stroke(self.theme.border, 1.6, (5, 5)))
        for item in plot.curves:
            name = item.run.run_id, item.curve.metric
            if item.curve.raw_x.size:
                yield CurveLine(("raw", *name), *item.curve.raw_line, self._raw_stroke(item), raw=True)
            yield CurveLine(("main", *name), *item.curve.line, self._main_stroke(item), live=item.run.live)

    def _main_stroke(self, item: RunCurve) -> Stroke:
        """The main line of a curve: heavier if its run stands out, thin if many are shown or nothing is smoothed."""
        curve, style, many = item.curve, self.theme.curve(item.run.index), self.scene.many
        above = self.stands_out(item.run)
        width = SELECTED_WIDTH if above else RUN_WIDTH
        if not item.headline or (curve.noisy and curve.exact):
            width = OTHER_WIDTH
        if many and not above:
            width = 1.0
        return Stroke(style.colour, width, style.dash, 1.0 if item.headline else 0.6, crisp=width == 1.0 and many)

    def _raw_stroke(self, item: RunCurve) -> Stroke:
        """The raw values behind the line: plainer where nothing is smoothed, never so that they hide what lies under
        them. Of several, only that of a run that stands out is plain to see."""
        alone = item.headline and (self.stands_out(item.run) or len(self.scene.runs) == 1)
        opacity = (0.26 if self.theme.dark else 0.20) * (1.0 if alone else 0.6) * (2.0 if item.curve.exact else 1.0)
        return Stroke(self.colour(item.run), 1.0, (), opacity, crisp=item.curve.raw_x.size > _UPRIGHT)

    # ------------------------------------------------------------ over the lines
    def draw_words(self, drawing: Drawing) -> None:
        """Add marks, captions, the gutter and notes."""
        for index, (plot, frame) in enumerate(zip(self.scene.plots, self.frames, strict=True)):
            if not self.stack.gutter:
                drawing.text(0, frame.box.y - 0.5 * TITLE - 3, heading(plot))
            for item in plot.curves:
                self._draw_beyond(drawing, plot, frame, item)
                self._draw_leader(drawing, frame, item)
                self._draw_evaluations(drawing, plot, frame, item)
            self._draw_marks(drawing, plot, frame)
            for caption in captions(self, index):
                if caption.ground:
                    drawing.rect(caption.box, drawing.theme.surface, 0.85)
                drawing.text(*caption.box.centre, caption.text, caption.ink, across="middle")
        for plot, gutter in zip(self.scene.plots, self.gutters, strict=False):
            gutter.draw(drawing, heading(plot), key(plot))
        self._draw_notes(drawing)
        if self.scene.empty and not any(plot.ghost is not None for plot in self.scene.plots):
            drawing.text(*self.stack.area.centre, empty_sentence(self.scene.runs), across="middle")

    def _draw_beyond(self, drawing: Drawing, plot: PlotScene, frame: Frame, item: RunCurve) -> None:
        """Marks spikes outside the plot: a stroke at the border where raw values lie far outside although the line is
        in sight, and a quiet line along it where they do so all the time."""
        curve, far, box = item.curve, 0.5 * plot.span.size, frame.box
        if not curve.raw_x.size or not curve.x.size:
            return
        main = np.interp(curve.raw_x, curve.x, curve.y)
        seen = (main >= plot.span.low) & (main <= plot.span.high)
        stroke = Stroke(self.colour(item.run), opacity=0.6, crisp=True)
        for outside, y, out in (
            (curve.raw_y > plot.span.high + far, box.y, -1.0),
            (curve.raw_y < plot.span.low - far, box.bottom, 1.0),
        ):
            columns = np.unique(np.round(frame.px(curve.raw_x[seen & outside])))
            for first, last in stretches(columns[(columns >= box.x) & (columns <= box.right)], _CROWDED):
                if last - first < _CROWDED:
                    drawing.line(first, y, first, y + 4 * out, stroke)
                else:
                    drawing.line(first, y + 2 * out, last, y + 2 * out, stroke)

    def _draw_leader(self, drawing: Drawing, frame: Frame, item: RunCurve) -> None:
        """Draws a line from a curve's end to the gutter: dotted if the run goes on, a hairline if it ended before."""
        end = item.curve.end
        if end is None or not item.headline or not self.end_in_sight(item, frame):
            return
        column, row = frame.at(*end)
        if column < frame.box.right - 8:
            live = item.run.live and not item.run.stale
            start = column + (0.5 * DOT + 1 if self.has_dot(item, frame) else 0)
            dash, opacity = ((1.0, 3.0), 0.8) if live else ((), 0.3)
            stroke = Stroke(self.colour(item.run), 1.0, dash, opacity, crisp=True)
            drawing.line(round(start), round(row), frame.box.right, round(row), stroke)

    def _draw_evaluations(self, drawing: Drawing, plot: PlotScene, frame: Frame, item: RunCurve) -> None:
        """Marks the visible points of a sparse curve, unless there are so many that they would touch."""
        x, y = item.curve.x, item.curve.y
        if not item.curve.sparse or not x.size:
            return
        inside = (x >= frame.x.low) & (x <= frame.x.high) & (y >= frame.y.low) & (y <= frame.y.high)
        if np.count_nonzero(inside) > min(_MARKED, frame.box.width / 9):
            return
        mark, colour = plot.mark_of(item.curve.metric), self.colour(item.run)
        size = 5.6 if not self.scene.many and (item.headline or mark != "dot") else 4.0
        shape: Shape = "dot" if mark == "ring" else mark
        fill, edge = (self.theme.surface, Stroke(colour, 1.6)) if mark == "ring" else (colour, None)
        drawing.marks(frame.px(x[inside]), frame.py(y[inside]), fill, size, shape=shape, edge=edge)

    def _draw_marks(self, drawing: Drawing, plot: PlotScene, frame: Frame) -> None:
        """Marks the last and the best value of each run, its events, and where values became NaN or infinite."""
        theme, ground = self.theme, Stroke(self.theme.surface, 1.6)
        for item in plot.curves:
            if item.headline:
                self._draw_ends(drawing, frame, item)
        for event, x in self.scene.events:
            curve = plot.headline(event.run_id)
            point = curve.at(x) if curve is not None else None
            if point is not None and in_sight(frame, x, point[1]):
                run = next(item.run for item in plot.curves if item.run.run_id == event.run_id)
                column, row = frame.at(x, point[1])
                edge = Stroke(self.colour(run), 1.6)
                drawing.marks([column], [row], theme.surface, 13.0, shape="diamond", edge=edge)
        for item in plot.curves:
            at = self.broken(item, frame)
            if at is not None:
                drawing.marks([frame.column(at[0])], [at[1]], theme.bad, 14.0, shape="cross", edge=ground)

    def _draw_ends(self, drawing: Drawing, frame: Frame, item: RunCurve) -> None:
        end, best, colour = item.curve.end, item.curve.best, self.colour(item.run)
        if end is None:
            return
        ground, (x, y) = self.theme.surface, frame.at(*end)
        if self.has_dot(item, frame):  # hollow where the link is silent and the run may be further
            fill, edge = (ground, colour) if item.run.stale else (colour, ground)
            drawing.marks([x], [y], fill, DOT, edge=Stroke(edge, 1.6))
        if best is not None and self.stands_out(item.run) and in_sight(frame, *best):
            column, row = frame.at(*best)
            if abs(column - x) + abs(row - y) > _APART:
                drawing.marks([column], [row], colour, 12.4, shape="star", edge=Stroke(ground, 1.6))

    def _draw_notes(self, drawing: Drawing) -> None:
        """Writes at the foot what cannot be seen, or else in a file what the lines are: the window has tooltips."""
        legend = self.scene.legend if self._for_file else ""
        valued = any(gutter.has_values for gutter in self.gutters)
        text = " ".join(self.scene.notes) or (f"{legend} {self.scene.number_words}" if legend and valued else legend)
        if text and self.frames:
            left = self.frames[-1].box.x
            ink = self.theme.warn if self.scene.notes else self.theme.text3
            drawing.text(left, self.stack.height - 10, text, ink, room=self.stack.width - left - 8)


_FOOT: Final = 24.0
_NOTED: Final = 42.0
"""Pixels below the x axis for its title, and for a note below that."""
_NO_FOOT: Final = 2.0
_NOTE: Final = 18.0
"""The same without a title."""


def curves_chart(
    builder: SceneBuilder,
    setups: Sequence[PlotSetup],
    runs: Sequence[RunStyle],
    view: View,
    size: tuple[float, float],
    theme: Theme,
    sizes: TextSizes,
    *,
    lifted: str = "",
    crosshair: Crosshair | None = None,
) -> CurvesChart:
    """The curves of ``runs`` in a picture of ``size``: one in the window has a ``crosshair``, one in a file says what
    its x axis is."""
    empty = not has_values(setups, runs)
    gutter = 0.0 if empty else gutter_for(runs, size[0], sizes)
    feet = (_FOOT, _NOTED) if crosshair is None else (_NO_FOOT, _NOTE)
    for _ in range(2):  # the width of the value axis is known once its numbers are
        left, foot = builder.sides or (LEFT, feet[0])
        boxes = stack(*size, len(setups), left, gutter, empty, foot)
        room = Room(round(boxes.area.width), tuple(round(box.height) for box in boxes.plots))
        scene = builder.build(setups, runs, view, room, lifted)
        wide = value_room(sizes, [tick for plot in scene.plots for tick in plot.ticks], LEFT)
        needed = 8.0 * math.ceil(wide / 8), feet[bool(scene.notes or (scene.legend and crosshair is None))]
        if needed == builder.sides:
            break
        builder.sides = needed
    unit = "Training time" if view.unit is XUnit.SECONDS else view.unit.capitalize()
    label = unit + (", log scale" if view.log_x else "") if crosshair is None else ""
    return CurvesChart(scene, boxes, theme, sizes, lifted, label, crosshair)
