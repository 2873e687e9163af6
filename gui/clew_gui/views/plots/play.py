"""The button that moves a slider from its beginning to its end."""

from __future__ import annotations

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QSlider

from clew_gui.views.theme.parts import Appearance, IconButton


class PlayButton(IconButton):
    """Moves ``slider`` by ``stride`` every ``milliseconds``, from where it is, or from its beginning if it is at the
    end. It stops when it is hidden."""

    def __init__(
        self, appearance: Appearance, slider: QSlider, milliseconds: int, stride: int, name: str, tip: str
    ) -> None:
        super().__init__(appearance, "play", name, tip, size=14)
        self._slider, self._stride = slider, stride
        self.setText("Play")
        self.clicked.connect(self._toggle)
        self.timer = QTimer(self)
        self.timer.setInterval(milliseconds)
        self.timer.timeout.connect(self._on)

    def set_pace(self, milliseconds: int, stride: int) -> None:
        """Move on by ``stride`` every ``milliseconds`` from now on."""
        self.timer.setInterval(milliseconds)
        self._stride = stride

    def stop(self) -> None:
        """Do not play on."""
        self.timer.stop()
        self.setText("Play")
        self.set_glyph("play")

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops, so that it does not play unseen."""
        self.stop()
        super().hideEvent(event)

    def _toggle(self) -> None:
        if self.timer.isActive():
            self.stop()
            return
        if self._slider.value() == self._slider.maximum():
            self._slider.setValue(self._slider.minimum())
        self.timer.start()
        self.setText("Pause")
        self.set_glyph("pause")

    def _on(self) -> None:
        self._slider.setValue(self._slider.value() + self._stride)
        if self._slider.value() >= self._slider.maximum():
            self.stop()
