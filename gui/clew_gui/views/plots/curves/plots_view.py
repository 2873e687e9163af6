"""The pyqtgraph view with the lines, between what lies below and over them. It reports the mouse."""

from __future__ import annotations

from collections.abc import Callable

import pyqtgraph as pg
from pyqtgraph.GraphicsScene.mouseEvents import MouseClickEvent
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QGraphicsScene, QRubberBand, QWidget

from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.drawing import Drawing
from clew_gui.views.charts.painter import SIZES, paint
from clew_gui.views.plots.curves.plot import Plot


class PlotsView(pg.GraphicsView):  # type: ignore[misc]  # pyqtgraph has no types
    """Shows frames; ``before_paint`` may bring one just in time."""

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
        before_paint: Callable[[], None] | None = None,
    ) -> None:
        self._plots: list[Plot] = []
        self._chart: CurvesChart | None = None
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
        count = len(self._chart.frames) if self._chart is not None else 0
        return tuple(self._plots[:count])

    def show_frame(self, chart: CurvesChart, ratio: float) -> None:
        """Show this frame; a logical pixel has ``ratio`` device pixels."""
        self._chart = chart
        self.setBackground(QColor(chart.theme.surface))
        while len(self._plots) < len(chart.frames):
            self._add_plot()
        for index, plot in enumerate(self._plots):
            plot.box.setVisible(index < len(chart.frames))
            if index < len(chart.frames):
                plot.show_plot(chart, index, ratio)
        self.viewport().update()

    def _add_plot(self) -> None:
        plot = Plot()
        self.addItem(plot.box)
        self._plots.append(plot)
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

    def drawBackground(self, painter: QPainter, rect: QRectF) -> None:
        """Draws axes, goals and events below the lines."""
        super().drawBackground(painter, rect)
        if self._chart is not None:
            drawing = Drawing(self._chart.theme, SIZES)
            self._chart.draw_ground(drawing)
            paint(painter, drawing.items)

    def drawForeground(self, painter: QPainter, rect: QRectF) -> None:
        """Draws marks, captions, leaders and labels over the lines."""
        del rect
        if self._chart is not None:
            drawing = Drawing(self._chart.theme, SIZES)
            self._chart.draw_words(drawing)
            paint(painter, drawing.items)

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
