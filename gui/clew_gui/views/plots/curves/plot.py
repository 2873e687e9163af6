"""One plot of the stack: a pyqtgraph PlotItem with our axes, whose items are kept from frame to frame."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseDragEvent
from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen
from PySide6.QtWidgets import QGraphicsSceneWheelEvent

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.curves.scene import Drawn, PlotScene
from clew_gui.views.plots.curves.label_painter import LabelPainter
from clew_gui.views.plots.drawing import marks
from clew_gui.views.plots.drawing.lines import CurveItem, Level, LineStyle, main_line_style, raw_line_style, stands_out
from clew_gui.views.plots.drawing.marks import Brushes, MarkStyle, Spot
from clew_gui.views.plots.drawing.pixels import AXIS_HEIGHT, Frame, Medium
from clew_gui.views.theme.theme import Theme, font

Lines = list[tuple[QPen, QPointF, QPointF]]
Texts = list[tuple[QRectF, Qt.AlignmentFlag, str]]

_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_ROW = 18.0


class _Axis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis that shows the ticks it is given, in the theme's colours."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation, showValues=False)
        self._state: tuple[object, ...] = ()
        self.ticks: tuple[Tick, ...] = ()

    def _take(self, ticks: Sequence[Tick], theme: Theme, *more: object) -> None:
        state = (tuple(ticks), theme, *more)
        if state != self._state:
            self._state, self.ticks = state, tuple(ticks)
            self.setStyle(tickFont=font("caption"))
            self.setPen(QPen(QColor(theme.line), 1))
            self.setTickPen(QPen(QColor(theme.grid), 1))
            self.setTextPen(QColor(theme.text3))
            self.picture = None
            self.update()

    def _plot(self) -> QRectF:
        """The plot's rectangle in this item's pixels."""
        rect: QRectF = self.mapRectFromItem(self.linkedView(), self.linkedView().rect())
        return rect

    def boundingRect(self) -> QRectF:
        """Returns the area that the axis paints: lines across the plot, and numbers that reach beyond the axis'
        ends."""
        own: QRectF = self.mapRectFromParent(self.geometry())
        return (own.united(self._plot()) if self.linkedView() is not None else own).adjusted(-40, -12, 40, 24)


class ValueAxis(_Axis):
    """The value axis, with a line through the plot for each tick, and the plot's ground line."""

    def __init__(self) -> None:
        super().__init__("left")

    def show_ticks(self, ticks: Sequence[Tick], theme: Theme, width: float) -> None:
        """Show these ticks; the axis is ``width`` pixels wide."""
        self._take(ticks, theme)
        self.setWidth(width)

    def generateDrawSpecs(self, painter: QPainter) -> tuple[tuple[QPen, QPointF, QPointF], Lines, Texts]:
        """Returns where lines and numbers go, as pyqtgraph wants it: the axis' own line, the ticks' lines, the
        texts."""
        del painter
        plot = self._plot()
        low, high = self.range
        lines: Lines = []
        texts: Texts = []
        for tick in self.ticks:
            y = round(plot.bottom() - (tick.at - low) / (high - low) * plot.height())
            lines.append((self.tickPen(), QPointF(plot.left(), y), QPointF(plot.right(), y)))
            texts.append((QRectF(0, y - _ROW / 2, plot.left() - 7, _ROW), _RIGHT, tick.text))
        ground = (self.pen(), plot.bottomLeft(), plot.bottomRight())
        return ground, lines, texts


class StepAxis(_Axis):
    """The x axis. It leaves out numbers that would touch, and may carry a title below."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self._title = ""
        self._title_pen = QPen()

    def show_ticks(self, ticks: Sequence[Tick], theme: Theme, height: float, title: str) -> None:
        """Show these ticks; the axis is ``height`` pixels high."""
        self._title, self._title_pen = title, QPen(QColor(theme.text2))
        self._take(ticks, theme, title)
        self.setHeight(height)

    def generateDrawSpecs(self, painter: QPainter) -> tuple[tuple[QPen, QPointF, QPointF], Lines, Texts]:
        """Returns where the numbers go; the value axis draws the line."""
        plot = self._plot()
        low, high = self.range
        metrics = QFontMetricsF(painter.font())
        texts: Texts = []
        occupied = -1e9
        for tick in self.ticks:
            width = metrics.horizontalAdvance(tick.text)
            x = plot.left() + (tick.at - low) / (high - low) * plot.width()
            left = min(x - width / 2, plot.right() - width)
            if left >= occupied + 10:
                occupied = left + width
                texts.append((QRectF(left, plot.bottom() + 5, width + 1, _ROW), _LEFT, tick.text))
        nothing = (QPen(Qt.PenStyle.NoPen), plot.bottomLeft(), plot.bottomRight())
        return nothing, [], texts

    def drawPicture(self, painter: QPainter, axis: tuple[QPen, QPointF, QPointF], ticks: Lines, texts: Texts) -> None:
        """Draw the numbers and the title."""
        super().drawPicture(painter, axis, ticks, texts)
        if self._title:
            plot = self._plot()
            painter.setPen(self._title_pen)
            box = QRectF(plot.left(), plot.bottom() + 5 + _ROW, plot.width(), _ROW)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self._title)


# --- Mouse ------------------------------------------------------------------------------------------------------------
# The mouse over a plot. It changes no range by itself: it asks, and the ranges follow from the view.


class RangeBox(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph has no types
    """pyqtgraph's view box, with signals for what wheel and drag ask for."""

    zoom_asked = Signal(float, float)
    """Asks to show so many times as much of x, with this x kept in place."""
    pan_asked = Signal(float)
    """Asks to move by this part of what is visible."""
    dragged = Signal(object, float)
    """Emitted while dragging from the ``Span`` that was visible at the press, by this part of its extent."""
    drag_ended = Signal()
    boxed = Signal(QPointF, QPointF, bool)
    """A box from one pixel of the scene to another; whether it is finished."""

    def __init__(self) -> None:
        self.pans = False
        """Dragging moves what is visible; with Shift, or where all is visible, it draws a box to zoom into."""
        self._boxes = False
        super().__init__(enableMenu=False, defaultPadding=0.0)
        self.disableAutoRange()
        # Lines clip themselves: a mark at the border is to be seen whole.
        self.setFlag(self.GraphicsItemFlag.ItemClipsChildrenToShape, False)
        self._pressed = Span(0.0, 1.0)

    def show_range(self, x: Span, y: Span) -> None:
        """Show these ranges exactly."""
        self.setRange(xRange=(x.low, x.high), yRange=(y.low, y.high), padding=0)

    def wheelEvent(self, event: QGraphicsSceneWheelEvent, axis: int | None = None) -> None:
        """Zoom around the pointer; a sideways wheel or touchpad moves along."""
        del axis
        if event.orientation() is Qt.Orientation.Horizontal:
            self.pan_asked.emit(-event.delta() / 1200)
        elif event.delta():
            self.zoom_asked.emit(1.25 ** (-event.delta() / 120), self.mapSceneToView(event.scenePos()).x())
        event.accept()

    def mouseDragEvent(self, event: MouseDragEvent, axis: int | None = None) -> None:
        """Drag what is visible along x, or draw a box."""
        del axis
        if event.button() is not Qt.MouseButton.LeftButton:
            event.ignore()
            return
        event.accept()
        if event.isStart():
            self._pressed = Span(*self.viewRange()[0])
            self._boxes = not self.pans or bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if self._boxes:
            self.boxed.emit(QPointF(event.buttonDownScenePos()), QPointF(event.scenePos()), event.isFinish())
            return
        moved = event.buttonDownScenePos().x() - event.scenePos().x()
        self.dragged.emit(self._pressed, moved / max(self.width(), 1.0))
        if event.isFinish():
            self.drag_ended.emit()


# --- Plot -------------------------------------------------------------------------------------------------------------
# One plot of the stack: a pyqtgraph PlotItem whose items are kept from frame to frame.


_MARKED: Final = 90  # sparse curves with at most this many points in sight show each of them
_GHOST_Z, _REST_Z, _GOAL_Z, _EVENT_Z, _LIVE_Z, _POINT_Z, _MARK_Z = 1000, 2000, 3000, 3001, 4000, 5000, 6000


@dataclass(frozen=True, eq=False)
class ShownPoints:
    """The points of a sparse curve that are shown."""

    x: FloatArray
    y: FloatArray
    style: MarkStyle

    def same(self, other: ShownPoints) -> bool:
        """Whether both are at the same places in the same style."""
        return self.style == other.style and np.array_equal(self.x, other.x) and np.array_equal(self.y, other.y)


def evaluations(item: Drawn, plot: PlotScene, label_painter: LabelPainter, frame: Frame) -> ShownPoints | None:
    """Returns the visible points of a sparse curve; None if there are so many that they would touch."""
    x, y = item.curve.x, item.curve.y
    if not item.curve.sparse or not x.size:
        return None
    inside = (x >= frame.x.low) & (x <= frame.x.high) & (y >= frame.y.low) & (y <= frame.y.high)
    if np.count_nonzero(inside) > min(_MARKED, frame.rect.width() / 9):
        return None
    shape, colour = plot.mark_of(item.curve.metric), label_painter.colour(item.run)
    size = 5.6 if not label_painter.scene.many and (item.headline or shape != "dot") else 4.0
    ring = shape == "ring"
    style = MarkStyle("dot" if ring else shape, label_painter.theme.surface if ring else colour, colour * ring, size)
    return ShownPoints(x[inside], y[inside], style)


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
        self._lines: dict[Hashable, CurveItem] = {}
        self._levels: dict[tuple[Hashable, Theme, float], Level] = {}
        self._points: dict[Hashable, tuple[pg.ScatterPlotItem, ShownPoints]] = {}
        self._marks = self._scatter(_MARK_Z)
        self._marked_as: tuple[object, ...] = ()
        self._brushes = Brushes()
        self._ratio = 0.0

    def _scatter(self, z: float) -> pg.ScatterPlotItem:
        item = pg.ScatterPlotItem(pxMode=True, useCache=self._medium is Medium.SCREEN, antialias=True)
        item.setZValue(z)
        self.box.addItem(item, ignoreBounds=True)
        return item

    def show_plot(self, label_painter: LabelPainter, index: int, ratio: float) -> None:
        """Show plot number ``index`` of a scene; a logical pixel has ``ratio`` device pixels."""
        plot, frame = label_painter.scene.plots[index], label_painter.frames[index]
        self._lay_out(label_painter, plot, frame, last=index == len(label_painter.frames) - 1)
        self._show_lines(label_painter, plot, frame, ratio)
        self._show_levels(label_painter, plot, ratio)
        self._show_points(label_painter, plot, frame, ratio)
        self._show_marks(self._marked(label_painter, plot, frame), ratio)

    def _lay_out(self, label_painter: LabelPainter, plot: PlotScene, frame: Frame, last: bool) -> None:
        rect, title = frame.rect, label_painter.unit_label
        foot = AXIS_HEIGHT + (18.0 if title else 0.0) if last else 0.0
        self._values.show_ticks(plot.ticks, label_painter.theme, rect.left())
        self._steps.show_ticks(
            label_painter.scene.ticks if last else (), label_painter.theme, foot, title if last else ""
        )
        self._steps.setVisible(last)
        self.item.setGeometry(QRectF(0, rect.top(), rect.right(), rect.height() + foot))
        self.item.layout.activate()
        self.box.show_range(frame.x, frame.y)

    # ------------------------------------------------------------ curves
    def _show_lines(self, label_painter: LabelPainter, plot: PlotScene, frame: Frame, ratio: float) -> None:
        wanted: dict[Hashable, tuple[FloatArray, FloatArray, LineStyle, float]] = {}
        if plot.ghost is not None:
            wanted["ghost"] = (*plot.ghost, LineStyle(label_painter.theme.border, 1.6, (5, 5)), _GHOST_Z)
        for order, item in enumerate(plot.curves):
            curve, key = item.curve, (item.run.run_id, item.curve.metric)
            if curve.raw_x.size:
                style = raw_line_style(item, label_painter.scene, label_painter.theme, label_painter.lifted)
                wanted["raw", *key] = (*curve.raw_line, style, order)
            style = main_line_style(item, label_painter.scene, label_painter.theme, label_painter.lifted)
            wanted["main", *key] = (*curve.line, style, (_LIVE_Z if item.run.live else _REST_Z) + order)
        for gone in self._lines.keys() - wanted.keys():
            self.box.removeItem(self._lines.pop(gone))
        for name, (x, y, style, z) in wanted.items():
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = CurveItem(self._medium)
                self.box.addItem(line, ignoreBounds=True)
            line.setZValue(z)
            line.show_line(x, y, frame, style, ratio)

    # ------------------------------------------------------------ goals and events
    def _show_levels(self, label_painter: LabelPainter, plot: PlotScene, ratio: float) -> None:
        wanted: dict[Hashable, tuple[float, bool, LineStyle]] = {}
        for _, at in label_painter.goals(plot):
            wanted["goal", at] = (at, False, LineStyle(label_painter.theme.ok, 1.4, (5, 4)))
        for event, x in label_painter.scene.events:
            ink = label_painter.theme.bad if event.bad else label_painter.theme.text3
            wanted["event", x, event.bad] = (x, True, LineStyle(ink, 1.0, (2, 3), smooth=False))
        for gone in [key for key in self._levels if key[1:] != (label_painter.theme, ratio) or key[0] not in wanted]:
            self.box.removeItem(self._levels.pop(gone))
        for name, (at, upright, style) in wanted.items():
            key = (name, label_painter.theme, ratio)
            if key not in self._levels:
                line = self._levels[key] = Level(at, upright, style, ratio)
                line.setZValue(_EVENT_Z if upright else _GOAL_Z)
                self.box.addItem(line, ignoreBounds=True)

    # ------------------------------------------------------------ marks
    def _show_points(self, label_painter: LabelPainter, plot: PlotScene, frame: Frame, ratio: float) -> None:
        wanted = {}
        for order, item in enumerate(plot.curves):
            points = evaluations(item, plot, label_painter, frame)
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
                scatter.setData(x=points.x, y=points.y, **self._brushes.options(points.style, ratio))
            self._points[name] = scatter, points
        self._ratio = ratio

    def _show_marks(self, spots: list[Spot], ratio: float) -> None:
        if (*spots, ratio) != self._marked_as:
            self._marked_as = (*spots, ratio)
            data = [{"pos": (spot.x, spot.y), **self._brushes.options(spot.style, ratio)} for spot in spots]
            self._marks.setData(spots=data)

    def _marked(self, label_painter: LabelPainter, plot: PlotScene, frame: Frame) -> list[Spot]:
        spots = [spot for item in plot.curves if item.headline for spot in self._at_end(label_painter, item, frame)]
        for event, x in label_painter.scene.events:
            curve = plot.headline(event.run_id)
            point = curve.at(x) if curve is not None else None
            if point is not None and frame.holds(x, point[1]):
                style = next(d.run for d in plot.curves if d.run.run_id == event.run_id)
                spots.append(marks.event_spot((x, point[1]), label_painter.colour(style), label_painter.theme))
        broken = [at for item in plot.curves if (at := label_painter.broken(item, frame)) is not None]
        return spots + [marks.broken_spot((x, frame.value_at(row)), label_painter.theme) for x, row in broken]

    @staticmethod
    def _at_end(label_painter: LabelPainter, item: Drawn, frame: Frame) -> list[Spot]:
        end, best, spots = item.curve.end, item.curve.best, []
        if end is None:
            return []
        above, colour = stands_out(item, label_painter.lifted), label_painter.colour(item.run)
        if label_painter.has_dot(item, frame):
            spots.append(marks.last_spot(end, colour, label_painter.theme, hollow=item.run.stale))
        if best is not None and above and frame.holds(*best):
            apart: QPointF = frame.at(*best) - frame.at(*end)
            if apart.manhattanLength() > 12:
                spots.append(marks.best_spot(best, colour, label_painter.theme))
        return spots
