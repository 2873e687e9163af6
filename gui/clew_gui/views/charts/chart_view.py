"""The widget that paints charts: it keeps what does not move as pixels, is moved by mouse and keys, and speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QElapsedTimer, QEvent, QLineF, QPointF, QRect, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QColor,
    QFocusEvent,
    QHelpEvent,
    QHideEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QRubberBand, QSizePolicy, QToolTip, QWidget

from clew_gui.charts.kit.drawing import Chart, Drawing, Layout
from clew_gui.charts.kit.layout import Box
from clew_gui.views.charts.painter import SIZES, paint, paint_ring
from clew_gui.views.theme.parts import Appearance

REFRESH_MS: Final = 40
"""Shortest time between two frames while points arrive: 25 a second."""
_WHEEL: Final = 1.25
"""How many times as much a click of the wheel or a key shows."""
_FAR: Final = 10
"""How many places Shift and an arrow key go."""
_ARROW, _PAGE = 0.2, 0.5
"""The part of the width that the keys move a chart by."""


class ChartView(QWidget):
    """Shows one chart in all the room there is. ``keys``: it takes the keyboard; ``control``: the wheel zooms with Ctrl
    only, because it scrolls the page; ``grip``: the pointer's shape over what can be dragged in the chart."""

    picked = Signal(str)
    """What is under the pointer was clicked, by the name that the chart has for it."""
    pointed = Signal(str)
    """The pointer is over another thing that can be clicked; empty for none."""
    zoomed = Signal(object)
    """Asks to show this Frame; None: everything."""
    double_clicked = Signal(str)
    """With the tile that is there; empty for none."""
    stepped = Signal(int)
    """Left or Right was pressed where the chart has no places of its own to go to."""
    boxed = Signal(QPointF, QPointF)
    """A box was drawn from one pixel to another."""
    gripped = Signal(str, float, float)
    """A grip was dragged to these coordinates."""

    def __init__(
        self,
        appearance: Appearance,
        name: str,
        *,
        keys: bool = False,
        control: bool = False,
        grip: Qt.CursorShape = Qt.CursorShape.SizeHorCursor,
        least: int = 0,
    ) -> None:
        super().__init__()
        self._appearance, self._control, self._grip_shape = appearance, control, grip
        self._layout: Layout | None = None
        self._chart: Chart | None = None
        self._box = Box(0, 0, 0, 0)
        self._stale = False
        self._ground: tuple[object, QPixmap] = (None, QPixmap())
        self.reading: QPointF | None = None
        """The pixel that is read out: where the arrow keys went to, or where the pointer is."""
        self._by_key = False
        self._pressed: tuple[QPointF, Chart] | None = None
        self._band = QRubberBand(QRubberBand.Shape.Rectangle, self)
        self._grip = self._lifted = ""
        self._ring = self._draws_box = False
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.redraw)
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(least)
        self.setMouseTracking(True)
        if keys:
            self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # --- What is shown ------------------------------------------------------------------------------------------------

    def show_chart(self, layout: Layout | None) -> None:
        """Show another chart, or none."""
        self._layout = layout
        self.redraw()

    def redraw(self) -> None:
        """Lay the chart out again, and show it at once if it can be seen."""
        self._timer.stop()
        self._stale = True
        self._since.start()
        if self.isVisible() and not self.window().isMinimized():
            self._describe(self.chart.description() if self.chart is not None else "")
            self.update()

    def touch(self) -> None:
        """Lay the chart out again with the next frame, because it shows something that changes all the time."""
        self._stale = True
        if self.isVisible() and not self._timer.isActive():
            since = self._since.elapsed() if self._since.isValid() else REFRESH_MS
            self._timer.start(max(0, REFRESH_MS - since))  # the first change after a quiet time is shown at once

    @property
    def settled(self) -> bool:
        """Whether nothing waits for the next frame."""
        return not self._timer.isActive()

    @property
    def chart(self) -> Chart | None:
        """The chart as it is laid out for the widget's size; None if there is nothing to show."""
        box = Box(0, 0, self.width(), self.height())
        if self._stale or self._box != box:
            self._stale, self._box = False, box
            self._chart = self._layout(box, SIZES) if self._layout is not None else None
        return self._chart

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """Add the chart in another size for a file; where it is made of pixels, ``scale`` of them for a logical one."""
        del scale
        if self._layout is not None:
            self._layout(Box(0, 0, width, height), SIZES).draw(drawing)

    def retheme(self) -> None:
        """Paint again."""
        self.redraw()

    def lift(self, name: str) -> None:
        """Let a thing that can be clicked stand out; none for an empty name."""
        if name != self._lifted:
            self._lifted = name
            self.update()

    def _describe(self, text: str) -> None:
        """Say this to people who cannot see the picture, at once if it has the keyboard."""
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)
            if self.hasFocus():
                QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))

    # --- Painting -----------------------------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Lays the kept ground down, and paints over it what moves, what stands out, and the read-out."""
        theme, chart = self._appearance.theme, self.chart
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.surface))
        if chart is not None:
            painter.drawPixmap(0, 0, self._ground_of(chart))
            drawing = Drawing(theme, SIZES)
            chart.draw_top(drawing)
            if self._lifted:
                chart.draw_lifted(drawing, self._lifted)
            if (at := self.reading) is not None:
                chart.draw_reading(drawing, at.x(), at.y())
            paint(painter, drawing.items)
        if self._ring:
            paint_ring(painter, self.rect(), theme.accent)
        painter.end()

    def _ground_of(self, chart: Chart) -> QPixmap:
        """The ground as pixels: it is not painted again while only the pointer moves."""
        ratio = self.devicePixelRatioF()
        key = chart.ground_key, self._box, self._appearance.theme, ratio
        if fresh := self._ground[0] != key:
            self._ground = key, QPixmap(self.size() * ratio)
            self._ground[1].setDevicePixelRatio(ratio)
            self._ground[1].fill(Qt.GlobalColor.transparent)
        painter = QPainter(self._ground[1])
        if fresh:
            self._paint_ground(painter, chart)
        else:
            self._paint_shapes(painter, chart.draw_growth)
        painter.end()
        return self._ground[1]

    def _paint_ground(self, painter: QPainter, chart: Chart) -> None:
        self._paint_shapes(painter, chart.draw_ground)

    def _paint_shapes(self, painter: QPainter, draw: Callable[[Drawing], None]) -> None:
        drawing = Drawing(self._appearance.theme, SIZES)
        draw(drawing)
        paint(painter, drawing.items)

    # --- Mouse --------------------------------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer; a sideways wheel moves along."""
        chart, turn, at = self.chart, event.angleDelta(), event.position()
        frame = None
        if chart is not None and (not self._control or event.modifiers() & Qt.KeyboardModifier.ControlModifier):
            zooms = not turn.x()
            frame = chart.zoomed(_WHEEL ** (-turn.y() / 120), (at.x(), at.y())) if zooms else chart.moved(turn.x(), 0)
        event.setAccepted(frame is not None)
        if frame is not None:
            self.zoomed.emit(frame)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of a grip or of the whole chart, or choose what is there."""
        chart, at = self.chart, event.position()
        if event.button() is not Qt.MouseButton.LeftButton or chart is None:
            super().mousePressEvent(event)
        elif grip := chart.grip_at(at.x(), at.y()):
            self._grip = grip
            self._drag(at)
        elif name := chart.pick(at.x(), at.y()):
            self.picked.emit(name)
        elif chart.moved(0, 0) is not None:
            self._pressed = at, chart
            self._read_at(None)
            shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._draws_box = chart.drags_box is not None and (chart.drags_box or shift)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the grip or the chart; else read out what is under the pointer."""
        at = event.position()
        if self._grip:
            self._drag(at)
        elif self._pressed is not None and self._draws_box:
            self._band.setGeometry(QRect(self._pressed[0].toPoint(), at.toPoint()).normalized())
            self._band.show()
        elif self._pressed is not None:
            start, chart = self._pressed
            self.setCursor(Qt.CursorShape.ClosedHandCursor)
            self.zoomed.emit(chart.moved(at.x() - start.x(), at.y() - start.y()))
        else:
            self._read_at(at)

    def _drag(self, at: QPointF) -> None:
        value = self.chart.value_at(self._grip, at.x(), at.y()) if self.chart is not None else None
        if value is not None:
            self.gripped.emit(self._grip, *value)

    def _read_at(self, at: QPointF | None) -> None:
        chart, self.reading, self._by_key = self.chart, at, False
        name = chart.pick(at.x(), at.y()) if chart is not None and at is not None else ""
        if at is not None and chart is not None and chart.grip_at(at.x(), at.y()):
            self.setCursor(self._grip_shape)
        elif name:
            self.setCursor(Qt.CursorShape.PointingHandCursor)
        else:
            self.unsetCursor()
        if name != self._lifted:
            self.lift(name)
            self.pointed.emit(name)
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End what was dragged."""
        super().mouseReleaseEvent(event)
        if self._pressed is not None and self._band.isVisible():
            self.boxed.emit(self._pressed[0], event.position())
        self._pressed, self._grip = None, ""
        self._band.hide()
        self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Report it."""
        chart, at = self.chart, event.position()
        if event.button() is Qt.MouseButton.LeftButton and chart is not None:
            self._pressed = None
            self.double_clicked.emit(chart.tile_at(at.x(), at.y()))

    def leaveEvent(self, event: QEvent) -> None:
        """Take the read-out away."""
        super().leaveEvent(event)
        self._read_at(None)

    # --- Keyboard -----------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows read out (Shift: farther), or move the chart where there is nothing to read; + and - zoom, Page keys
        move, Home shows all, Escape takes the read-out away."""
        chart, key = self.chart, Qt.Key(event.key())
        way = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_PageUp: -1, Qt.Key.Key_PageDown: 1}.get(key, 0)
        moves = chart is not None and chart.moved(0, 0) is not None
        if chart is None:
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and (chart.places() or not moves):
            self._step(chart, way * (_FAR if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1))
        elif key == Qt.Key.Key_Escape and self.reading is not None:
            self._read_at(None)
        elif moves and way:
            part = _ARROW if key in (Qt.Key.Key_Left, Qt.Key.Key_Right) else _PAGE
            self.zoomed.emit(chart.moved(-way * part * self.width(), 0))
        elif moves and key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal, Qt.Key.Key_Minus):
            around = (self.reading.x(), self.reading.y()) if self.reading is not None else None
            self.zoomed.emit(chart.zoomed(_WHEEL if key == Qt.Key.Key_Minus else 1 / _WHEEL, around))
        elif moves and key == Qt.Key.Key_Home:
            self.zoomed.emit(chart.whole)
        else:
            super().keyPressEvent(event)

    def _step(self, chart: Chart, by: int) -> None:
        """Read out the next place, from what is read out; at first the first place, or going left the last."""
        places = chart.places()
        at = self.reading if self.reading is not None and chart.read(self.reading.x(), self.reading.y()) else None
        if not places:
            self.stepped.emit(by)
            return
        near = min(range(len(places)), key=lambda k: QLineF(at, QPointF(*places[k])).length()) if at is not None else -1
        number = min(max(near + by, 0), len(places) - 1) if at is not None else 0 if by > 0 else -1
        self.reading, self._by_key = QPointF(*places[number]), True
        self._describe(chart.read(*places[number]))
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Shows a ring when reached by keyboard."""
        self._ring = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Takes the ring away, and what the keyboard read out."""
        self._ring = False
        super().focusOutEvent(event)
        if self._by_key:
            self._read_at(None)
        self.update()

    # --- Qt's own -----------------------------------------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Catches up with what arrived while the widget was hidden."""
        super().showEvent(event)
        self.redraw()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops drawing."""
        self._timer.stop()
        super().hideEvent(event)

    def event(self, event: QEvent) -> bool:
        """Says what is under the pointer if the chart does not draw it; draws again in another font or resolution."""
        if isinstance(event, QHelpEvent) and self.chart is not None:
            text = "" if self.chart.draws_reading else self.chart.read(event.pos().x(), event.pos().y())
            QToolTip.showText(event.globalPos(), text, self)
            return True
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.DevicePixelRatioChange):
            self.redraw()
        return super().event(event)
