"""A loss surface that a person can move: zoom, pan, read-out by mouse and by keyboard."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from clew_gui.plotting.axes.frame import Frame
from clew_gui.views.plots.surface.canvas import SurfaceCanvas
from clew_gui.views.theme.parts import Appearance

_CLOSEST: Final = 1e-5  # of the grid's extent: closer, float32 heights would show their steps
_FARTHEST: Final = 12.0


class SurfaceView(SurfaceCanvas):
    """The surface with what mouse and keyboard do to it."""

    run_clicked = Signal(str)

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(appearance, parent)
        self._pressed: tuple[QPointF, Frame] | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def set_until(self, step: int | None) -> None:
        """Draw all paths up to this step; None: as far as they go."""
        if step != self.paths.until:
            self.paths.until = step
            self._redraw()

    # ------------------------------------------------------------ zoom and pan
    def zoom_by(self, factor: float, around: tuple[float, float] | None = None) -> None:
        """Show ``factor`` times as much; ``around`` stays in place, by default the middle."""
        frame = self.frame
        if frame is None or self._heights is None:
            return
        middle = (0.5 * (frame.x.low + frame.x.high), 0.5 * (frame.y.low + frame.y.high))
        wanted = frame.zoomed(factor, around or middle)
        if _CLOSEST <= wanted.x.size / self._heights.x.size <= _FARTHEST:
            self.show_frame(wanted)

    def pan_by(self, columns: float, rows: float) -> None:
        """Move the map by so many pixels."""
        frame = self.frame
        if frame is not None:
            self.show_frame(frame.moved(columns, rows))

    # ------------------------------------------------------------ events
    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer."""
        frame = self.frame
        if frame is not None and event.angleDelta().y():
            around = frame.place(event.position().x(), event.position().y())
            self.zoom_by(1.25 ** (-event.angleDelta().y() / 120), around)
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the map, or choose a run in the list."""
        frame = self.frame
        if event.button() is not Qt.MouseButton.LeftButton or frame is None:
            super().mousePressEvent(event)
        elif self.drawn is not None and (run := self.drawn.run_at(event.position().x(), event.position().y())):
            self.run_clicked.emit(run)
        elif _inside(frame, event.position()):
            self._pressed = (event.position(), frame)
            self._hover = None
            self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Move the map, or read it out."""
        self.walked = None
        if self._pressed is not None:
            start, frame = self._pressed
            self.show_frame(frame.moved(event.position().x() - start.x(), event.position().y() - start.y()))
            return
        self._hover = event.position()
        over = self.drawn is not None and bool(self.drawn.run_at(event.position().x(), event.position().y()))
        self.setCursor(Qt.CursorShape.PointingHandCursor) if over else self.unsetCursor()
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End the drag."""
        super().mouseReleaseEvent(event)
        self._pressed = None
        self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Fit the whole map."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._pressed = None
            self.reset_zoom()

    def leaveEvent(self, event: QEvent) -> None:
        """Take the read-out away."""
        super().leaveEvent(event)
        self._hover = None
        self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Goes along the selected path with Left and Right (Shift: farther); Page keys and + - Home act as with the
        curves."""
        far = 10.0 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 1.0
        actions = {
            Qt.Key.Key_Left: lambda: self.walk(-far),
            Qt.Key.Key_Right: lambda: self.walk(far),
            Qt.Key.Key_PageUp: lambda: self.pan_by(0.25 * self.width(), 0),
            Qt.Key.Key_PageDown: lambda: self.pan_by(-0.25 * self.width(), 0),
            Qt.Key.Key_Plus: lambda: self.zoom_by(0.8),
            Qt.Key.Key_Equal: lambda: self.zoom_by(0.8),
            Qt.Key.Key_Minus: lambda: self.zoom_by(1.25),
            Qt.Key.Key_Home: self.reset_zoom,
        }
        action = actions.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape and self.walked is not None:
            self.walked = None
            self.update()
        elif action is not None and self._heights is not None:
            action()
        else:
            super().keyPressEvent(event)

    def walk(self, by: float) -> None:
        """Read out the selected run ``by`` steps farther along its path; it begins at the start."""
        run = next((run for run in self._runs if run.selected), None)
        walk, frame = self.paths.walk(run.run_id) if run is not None else None, self.frame
        if run is None or walk is None or frame is None or not walk.trail.taken:
            return
        at = 0 if self.walked is None else self.walked + round(by)
        self.walked = min(max(at, 0), walk.trail.taken - 1)
        reader = self.reader
        found = reader.read_run(run, self.walked, frame) if reader is not None else None
        if found is not None:
            self._describe(". ".join(found.lines))
        self.update()

    def _leave_keyboard(self) -> None:
        """Takes the walk along a path away."""
        self.walked = None


def _inside(frame: Frame, at: QPointF) -> bool:
    box = frame.box
    return box.x <= at.x() <= box.right and box.y <= at.y() <= box.bottom
