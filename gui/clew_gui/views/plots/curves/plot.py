"""One plot of the stack: pyqtgraph's view box with its lines, which are kept from frame to frame.

The mouse changes no range by itself: it asks, and the ranges follow from the view.
"""

from __future__ import annotations

from typing import Final

import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseDragEvent
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QGraphicsSceneWheelEvent

from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.plotting.axes.ticks import Span
from clew_gui.views.charts.painter import rect_of
from clew_gui.views.plots.curves.curve_item import CurveItem

_REST_Z: Final = 1000
_LIVE_Z: Final = 2000


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


class Plot:
    """View box and lines of one plot."""

    def __init__(self) -> None:
        self.box = RangeBox()
        self._lines: dict[tuple[str, ...], CurveItem] = {}

    def show_plot(self, chart: CurvesChart, index: int, ratio: float) -> None:
        """Show plot number ``index`` of a chart; a logical pixel has ``ratio`` device pixels."""
        frame = chart.frames[index]
        self.box.setGeometry(rect_of(frame.box))
        self.box.show_range(frame.x, frame.y)
        wanted = {line.key: line for line in chart.lines(index)}
        for gone in self._lines.keys() - wanted.keys():
            self.box.removeItem(self._lines.pop(gone))
        for order, (name, line) in enumerate(wanted.items()):
            item = self._lines.get(name)
            if item is None:
                item = self._lines[name] = CurveItem(layered=line.raw)
                self.box.addItem(item, ignoreBounds=True)
            item.setZValue(order + (0 if line.raw else _LIVE_Z if line.live else _REST_Z))
            item.show_line(line.x, line.y, frame, line.stroke, ratio)
