"""The pyqtgraph view with the plots and the words over them. It shows what it is given, and reports the mouse."""

from __future__ import annotations

from collections.abc import Callable

import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QGraphicsScene, QRubberBand, QWidget

from clew_gui.views.plots.curves.label_painter import LabelPainter
from clew_gui.views.plots.curves.plot import Plot
from clew_gui.views.plots.drawing.pixels import Medium


class PlotsView(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph has no types
    """Shows frames, or paints one into a file; ``before_paint`` may bring a frame just in time."""

    zoom_asked = Signal(float, float)
    """Asks to show so many times as much of x, with this x kept in place."""
    pan_asked = Signal(float)
    """Asks to move by this part of what is visible."""
    dragged = Signal(object, float)
    """Emitted while dragging from a ``Span`` by this part of its extent."""
    drag_ended = Signal()
    boxed = Signal(QPointF, QPointF)
    """A box was drawn, from one pixel to another."""
    pointed = Signal(QPointF)
    """The pointer moved here, in pixels."""
    left = Signal()
    """The pointer left."""
    clicked = Signal(QPointF)
    double_clicked = Signal()

    def __init__(
        self,
        parent: QWidget | None = None,
        medium: Medium = Medium.SCREEN,
        before_paint: Callable[[], None] | None = None,
    ) -> None:
        self._plots: list[Plot] = []
        self._label_painter: LabelPainter | None = None
        self._medium = medium
        self._before_paint = before_paint
        self._band: QRubberBand | None = None
        self._pans = False
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.setCacheMode(self.CacheModeFlag.CacheNone)
        self.setViewportUpdateMode(self.ViewportUpdateMode.FullViewportUpdate)
        # An index of places would keep pointers to removed items, since pyqtgraph's change bounds without a word; few
        # items need none.
        self.scene().setItemIndexMethod(QGraphicsScene.ItemIndexMethod.NoIndex)
        self.scene().sigMouseClicked.connect(self._clicked)

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The plots that are shown, from top to bottom."""
        count = len(self._label_painter.frames) if self._label_painter is not None else 0
        return tuple(self._plots[:count])

    def show_frame(self, label_painter: LabelPainter, ratio: float) -> None:
        """Show this frame; a logical pixel has ``ratio`` device pixels."""
        self._label_painter = label_painter
        self.setBackground(QColor(label_painter.theme.surface))
        while len(self._plots) < len(label_painter.frames):
            self._add_plot()
        for index, plot in enumerate(self._plots):
            plot.item.setVisible(index < len(label_painter.frames))
            if index < len(label_painter.frames):
                plot.show_plot(label_painter, index, ratio)
        self.viewport().update()

    def _add_plot(self) -> None:
        plot = Plot(self._medium)
        self.addItem(plot.item)
        self._plots.append(plot)
        plot.box.setXLink(self._plots[0].box if len(self._plots) > 1 else None)
        plot.box.zoom_asked.connect(self.zoom_asked)
        plot.box.pan_asked.connect(self.pan_asked)
        plot.box.dragged.connect(self.dragged)
        plot.box.drag_ended.connect(self.drag_ended)
        plot.box.boxed.connect(self._draw_box)
        plot.box.pans = self._pans

    def set_pans(self, pans: bool) -> None:
        """Whether dragging moves what is visible; else it draws a box."""
        self._pans = pans
        for plot in self._plots:
            plot.box.pans = pans

    def _draw_box(self, start: QPointF, end: QPointF, done: bool) -> None:
        if self._band is None:
            self._band = QRubberBand(QRubberBand.Shape.Rectangle, self.viewport())
        corners = [self.mapFromScene(at) for at in (start, end)]
        self._band.setGeometry(QRect(*corners).normalized())
        self._band.setVisible(not done)
        if done:
            self.boxed.emit(QPointF(corners[0]), QPointF(corners[1]))

    def drawForeground(self, painter: QPainter, rect: QRectF) -> None:
        """Draws words, leaders and labels over the curves."""
        del rect
        if self._label_painter is not None:
            self._label_painter.paint(painter)

    def render_to(self, painter: QPainter, size: QSize, label_painter: LabelPainter, ratio: float) -> None:
        """Paint a frame of this size without being shown."""
        self.resize(size)
        self.viewport().resize(size)
        self.resizeEvent(None)
        self.show_frame(label_painter, ratio)
        self.render(painter, QRectF(QPointF(0, 0), size), QRect(0, 0, size.width(), size.height()))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint, with the latest frame."""
        if self._before_paint is not None:
            self._before_paint()
        super().paintEvent(event)

    # ------------------------------------------------------------ mouse
    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Report each move: pyqtgraph leaves out those that follow fast, and with them where the pointer stopped."""
        super().mouseMoveEvent(event)
        self.pointed.emit(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Report it."""
        super().mouseDoubleClickEvent(event)
        if event.button() is Qt.MouseButton.LeftButton:
            self.double_clicked.emit()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The wheel zooms beside the plots too."""
        super().wheelEvent(event)
        if not event.isAccepted() and self.plots and event.angleDelta().y():
            at = self.plots[0].box.mapSceneToView(event.position())
            self.zoom_asked.emit(1.25 ** (-event.angleDelta().y() / 120), at.x())
            event.accept()

    def leaveEvent(self, event: QEvent) -> None:
        """Report it."""
        super().leaveEvent(event)
        self.left.emit()

    def _clicked(self, event: MouseClickEvent) -> None:
        if event.button() is Qt.MouseButton.LeftButton and not event.double():
            self.clicked.emit(QPointF(event.scenePos()))
