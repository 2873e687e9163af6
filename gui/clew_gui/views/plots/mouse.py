"""The mouse over a plot. It changes no range by itself: it asks, and the ranges follow from the view."""

from __future__ import annotations

import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseDragEvent
from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGraphicsSceneWheelEvent

from clew_gui.plotting.ticks import Span


class RangeBox(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph has no types
    """pyqtgraph's view box, which tells what wheel and drag ask for."""

    zoom_asked = Signal(float, float)
    """Show so many times as much of x, with this x kept in place."""
    pan_asked = Signal(float)
    """Move by this part of what is visible."""
    dragged = Signal(object, float)
    """Dragged from the ``Span`` that was visible at the press, by this part of its extent."""
    drag_ended = Signal()

    def __init__(self) -> None:
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
        """Drag what is visible along x."""
        del axis
        if event.button() is not Qt.MouseButton.LeftButton:
            event.ignore()
            return
        event.accept()
        if event.isStart():
            self._pressed = Span(*self.viewRange()[0])
        moved = event.buttonDownScenePos().x() - event.scenePos().x()
        self.dragged.emit(self._pressed, moved / max(self.width(), 1.0))
        if event.isFinish():
            self.drag_ended.emit()
