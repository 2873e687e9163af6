"""The base of all plot widgets: they draw only what can be seen, and describe it in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleEvent, QFocusEvent, QHideEvent, QPainter, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from clew_gui.plotting.curves.model import RunStyle
from clew_gui.views.charts.painter import paint_ring
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import Theme

REFRESH_MS: Final = 40
"""Shortest time between two frames while points arrive: 25 a second."""


class DrawnWidget(QWidget):
    """Takes all the room there is and shows runs. A subclass draws in ``_advance``: when it comes into sight, when
    pixels become finer or coarser, and with the next frame after ``touch``."""

    def __init__(self, name: str, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(name)
        self._appearance = appearance
        self._ring = False
        self._runs: tuple[RunStyle, ...] = ()
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._advance)

    def _advance(self) -> None:
        """Draw what is new."""
        raise NotImplementedError

    @property
    def settled(self) -> bool:
        """Whether nothing waits for the next frame."""
        return not self._timer.isActive()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs."""
        if tuple(runs) != self._runs:
            self._runs = tuple(runs)
            self.touch()

    @property
    def _theme(self) -> Theme:
        return self._appearance.theme

    def retheme(self) -> None:
        """Change the colours."""
        self._redraw()

    def touch(self) -> None:
        """Asks for a new frame; it is drawn when the widget can be seen."""
        if self.isVisible() and not self._timer.isActive():
            self._timer.start(REFRESH_MS)

    def _redraw(self) -> None:
        if self.isVisible():
            self._advance()

    def showEvent(self, event: QShowEvent) -> None:
        """Catches up with what arrived while the widget was hidden."""
        super().showEvent(event)
        self._redraw()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops drawing."""
        self._timer.stop()
        super().hideEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Shows a ring when reached by keyboard."""
        self._ring = event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason)
        super().focusInEvent(event)
        self._focus_changed()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Takes the ring away, and what the keyboard had marked."""
        self._ring = False
        self._leave_keyboard()
        super().focusOutEvent(event)
        self._focus_changed()

    def _leave_keyboard(self) -> None:
        """Called when the keyboard goes to another widget."""

    def _focus_changed(self) -> None:
        """Called after the keyboard came or went."""
        self.update()

    def _paint_ring(self, painter: QPainter) -> None:
        if self._ring:
            paint_ring(painter, self.rect(), self._theme.accent)

    def event(self, event: QEvent) -> bool:
        """Redraw where pixels are finer or coarser than before."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self._redraw()
        return super().event(event)

    def _describe(self, text: str) -> None:
        """Say this to people who cannot see the picture, at once if it has the keyboard."""
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)
            if self.hasFocus():
                QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))
