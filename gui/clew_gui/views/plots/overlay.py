"""The crosshair's own widget: it covers the plots with their finished picture, so that moving it draws no curve."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from clew_gui.plotting.readout import Readout
from clew_gui.views.plots.artist import Artist
from clew_gui.views.plots.readbox import ReadBox


class Overlay(QWidget):
    """Shows crosshair and read-out, and the ring of the keyboard focus. Opaque: what it covers is not painted again."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._picture = QPixmap()
        self._artist: Artist | None = None
        self._readout: Readout | None = None
        self._ring = False
        self._box = ReadBox()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.hide()

    def set_picture(self, picture: QPixmap, artist: Artist) -> None:
        """What it covers."""
        self._picture, self._artist = picture, artist
        self.update()

    def show_readout(self, readout: Readout | None, ring: bool) -> None:
        """Show this over the picture."""
        self._readout, self._ring = readout, ring
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint picture, crosshair and ring."""
        del event
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        if self._artist is not None and self._readout is not None:
            self._box.paint(painter, self._readout, self._artist)
        if self._ring and self._artist is not None:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
            painter.setPen(QPen(QColor(self._artist.theme.accent), 2))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 6, 6)
        painter.end()
