"""One plot of the stack: a pyqtgraph PlotItem whose items are kept from frame to frame."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF

from clew_gui.plotting.pyramid import FloatArray
from clew_gui.plotting.scene import Drawn, PlotScene
from clew_gui.views.plots import marks
from clew_gui.views.plots.artist import Artist
from clew_gui.views.plots.axes import StepAxis, ValueAxis
from clew_gui.views.plots.geometry import AXIS_HEIGHT, Frame, Medium
from clew_gui.views.plots.lines import Level, Line, Stroke, main_stroke, raw_stroke, stands_out
from clew_gui.views.plots.marks import Brushes, Look, Spot
from clew_gui.views.plots.mouse import RangeBox
from clew_gui.views.theme import Theme

_MARKED: Final = 90  # sparse curves with at most this many points in sight show each of them
_GHOST_Z, _REST_Z, _GOAL_Z, _EVENT_Z, _LIVE_Z, _POINT_Z, _MARK_Z = 1000, 2000, 3000, 3001, 4000, 5000, 6000


@dataclass(frozen=True, eq=False)
class Points:
    """The points of a sparse curve that are shown."""

    x: FloatArray
    y: FloatArray
    look: Look

    def same(self, other: Points) -> bool:
        """Whether both are at the same places and look the same."""
        return self.look == other.look and np.array_equal(self.x, other.x) and np.array_equal(self.y, other.y)


def evaluations(item: Drawn, artist: Artist, frame: Frame) -> Points | None:
    """Each point in sight of a sparse curve, None of one with so many that they would touch."""
    x, y = item.curve.x, item.curve.y
    if not item.curve.sparse or not x.size:
        return None
    inside = (x >= frame.x.low) & (x <= frame.x.high) & (y >= frame.y.low) & (y <= frame.y.high)
    if np.count_nonzero(inside) > min(_MARKED, frame.rect.width() / 9):
        return None
    size = 5.6 if item.headline and not artist.scene.many else 4.0
    return Points(x[inside], y[inside], Look("dot", artist.colour(item.run), "", size))


class Plot:
    """Axes, ranges, curves and marks of one plot."""

    def __init__(self, medium: Medium) -> None:
        self.box = RangeBox()
        self._values, self._steps = ValueAxis(), StepAxis()
        axes = {"left": self._values, "bottom": self._steps}
        self.item = pg.PlotItem(viewBox=self.box, axisItems=axes, enableMenu=False)
        self.item.hideButtons()
        self.item.layout.setContentsMargins(0, 0, 0, 0)
        for axis in axes.values():
            axis.setZValue(-1000)  # pyqtgraph draws the grid over the curves
        self._medium = medium
        self._lines: dict[Hashable, Line] = {}
        self._levels: dict[tuple[Hashable, Theme, float], Level] = {}
        self._points: dict[Hashable, tuple[pg.ScatterPlotItem, Points]] = {}
        self._marks = self._scatter(_MARK_Z)
        self._marked_as: tuple[object, ...] = ()
        self._brushes = Brushes()
        self._ratio = 0.0

    def _scatter(self, z: float) -> pg.ScatterPlotItem:
        item = pg.ScatterPlotItem(pxMode=True, useCache=self._medium is Medium.SCREEN, antialias=True)
        item.setZValue(z)
        self.box.addItem(item, ignoreBounds=True)
        return item

    def show_plot(self, artist: Artist, index: int, ratio: float) -> None:
        """Show plot number ``index`` of a scene; a logical pixel has ``ratio`` device pixels."""
        plot, frame = artist.scene.plots[index], artist.frames[index]
        self._lay_out(artist, plot, frame, last=index == len(artist.frames) - 1)
        self._show_lines(artist, plot, frame, ratio)
        self._show_levels(artist, plot, ratio)
        self._show_points(artist, plot, frame, ratio)
        self._show_marks(self._marked(artist, plot, frame), ratio)

    def _lay_out(self, artist: Artist, plot: PlotScene, frame: Frame, last: bool) -> None:
        rect, title = frame.rect, artist.unit_label
        foot = AXIS_HEIGHT + (18.0 if title else 0.0) if last else 0.0
        self._values.show_ticks(plot.ticks, artist.theme, rect.left())
        self._steps.show_ticks(artist.scene.ticks if last else (), artist.theme, foot, title if last else "")
        self._steps.setVisible(last)
        self.item.setGeometry(QRectF(0, rect.top(), rect.right(), rect.height() + foot))
        self.item.layout.activate()
        self.box.show_range(frame.x, frame.y)

    # ------------------------------------------------------------ curves
    def _show_lines(self, artist: Artist, plot: PlotScene, frame: Frame, ratio: float) -> None:
        wanted: dict[Hashable, tuple[FloatArray, FloatArray, Stroke, float]] = {}
        if plot.ghost is not None:
            wanted["ghost"] = (*plot.ghost, Stroke(artist.theme.border, 1.6, (5, 5)), _GHOST_Z)
        for order, item in enumerate(plot.curves):
            curve, key = item.curve, (item.run.run_id, item.curve.metric)
            if curve.raw_x.size:
                stroke = raw_stroke(item, artist.scene, artist.theme, artist.lifted)
                wanted["raw", *key] = (*curve.raw_line, stroke, order)
            stroke = main_stroke(item, artist.scene, artist.theme, artist.lifted)
            wanted["main", *key] = (*curve.line, stroke, (_LIVE_Z if item.run.live else _REST_Z) + order)
        for gone in self._lines.keys() - wanted.keys():
            self.box.removeItem(self._lines.pop(gone))
        for name, (x, y, stroke, z) in wanted.items():
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = Line(self._medium)
                self.box.addItem(line, ignoreBounds=True)
            line.setZValue(z)
            line.show_line(x, y, frame, stroke, ratio)

    # ------------------------------------------------------------ goals and events
    def _show_levels(self, artist: Artist, plot: PlotScene, ratio: float) -> None:
        wanted: dict[Hashable, tuple[float, bool, Stroke]] = {}
        for _, at in artist.goals(plot):
            wanted["goal", at] = (at, False, Stroke(artist.theme.ok, 1.4, (5, 4)))
        for event, x in artist.scene.events:
            ink = artist.theme.bad if event.bad else artist.theme.text3
            wanted["event", x, event.bad] = (x, True, Stroke(ink, 1.0, (2, 3), smooth=False))
        for gone in [key for key in self._levels if key[1:] != (artist.theme, ratio) or key[0] not in wanted]:
            self.box.removeItem(self._levels.pop(gone))
        for name, (at, upright, stroke) in wanted.items():
            key = (name, artist.theme, ratio)
            if key not in self._levels:
                line = self._levels[key] = Level(at, upright, stroke, ratio)
                line.setZValue(_EVENT_Z if upright else _GOAL_Z)
                self.box.addItem(line, ignoreBounds=True)

    # ------------------------------------------------------------ marks
    def _show_points(self, artist: Artist, plot: PlotScene, frame: Frame, ratio: float) -> None:
        wanted = {}
        for order, item in enumerate(plot.curves):
            points = evaluations(item, artist, frame)
            if points is not None:
                wanted[item.run.run_id, item.curve.metric] = points, order
        for gone in self._points.keys() - wanted.keys():
            self.box.removeItem(self._points.pop(gone)[0])
        for name, (points, order) in wanted.items():
            scatter, shown = self._points.get(name, (None, None))
            if scatter is None:
                scatter = self._scatter(_POINT_Z)
            scatter.setZValue(_POINT_Z + order)
            if shown is None or not points.same(shown) or ratio != self._ratio:
                scatter.setData(x=points.x, y=points.y, **self._brushes.style(points.look, ratio))
            self._points[name] = scatter, points
        self._ratio = ratio

    def _show_marks(self, spots: list[Spot], ratio: float) -> None:
        if (*spots, ratio) != self._marked_as:
            self._marked_as = (*spots, ratio)
            data = [{"pos": (spot.x, spot.y), **self._brushes.style(spot.look, ratio)} for spot in spots]
            self._marks.setData(spots=data)

    def _marked(self, artist: Artist, plot: PlotScene, frame: Frame) -> list[Spot]:
        spots = [spot for item in plot.curves if item.headline for spot in self._at_end(artist, item, frame)]
        for event, x in artist.scene.events:
            curve = plot.headline(event.run_id)
            point = curve.at(x) if curve is not None else None
            if point is not None and frame.holds(x, point[1]):
                style = next(d.run for d in plot.curves if d.run.run_id == event.run_id)
                spots.append(marks.event_spot((x, point[1]), artist.colour(style), artist.theme))
        broken = [at for item in plot.curves if (at := artist.broken(item, frame)) is not None]
        return spots + [marks.broken_spot((x, frame.value_at(row)), artist.theme) for x, row in broken]

    @staticmethod
    def _at_end(artist: Artist, item: Drawn, frame: Frame) -> list[Spot]:
        end, best, spots = item.curve.end, item.curve.best, []
        if end is None:
            return []
        above, colour = stands_out(item, artist.lifted), artist.colour(item.run)
        if artist.has_dot(item, frame):
            spots.append(marks.last_spot(end, colour, artist.theme, hollow=item.run.stale))
        if best is not None and above and frame.holds(*best):
            apart: QPointF = frame.at(*best) - frame.at(*end)
            if apart.manhattanLength() > 12:
                spots.append(marks.best_spot(best, colour, artist.theme))
        return spots
