"""What the widgets of plots and of surfaces have in common: they draw only what can be seen, and say it in words."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent
from PySide6.QtGui import QAccessible, QAccessibleEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

REFRESH_MS: Final = 40
"""Shortest time between two frames while points arrive: 25 a second."""


class DrawnWidget(QWidget):
    """Takes all the room there is. A subclass draws in ``_redraw``, which is called when it comes into sight and when
    pixels become finer or coarser."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(name)

    def _redraw(self) -> None:
        raise NotImplementedError

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what arrived while hidden."""
        super().showEvent(event)
        self._redraw()

    def event(self, event: QEvent) -> bool:
        """Redraw where pixels are finer or coarser than before."""
        if event.type() is QEvent.Type.DevicePixelRatioChange:
            self._redraw()
        return super().event(event)

    def _describe(self, text: str) -> None:
        """Say this to who cannot see the picture, at once where the keyboard is."""
        if text != self.accessibleDescription():
            self.setAccessibleDescription(text)
            if self.hasFocus():
                QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))
