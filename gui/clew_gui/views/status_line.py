"""The line at the bottom: link, queue, agent and data, in plain words."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QWidget

from clew_gui.views.parts import Elided, Glyph, Look, label, row

STATUS_HEIGHT = 28


class StatusLine(QWidget):
    """Up to four facts with an icon each, and the time of the last news at the right."""

    PLACES = ("link", "queue", "agent", "data")

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.setObjectName("panel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setFixedHeight(max(STATUS_HEIGHT, self.fontMetrics().height() + 10))
        glyphs = {"link": "link", "queue": "clock", "agent": "chip", "data": "data"}
        self._glyphs = {place: Glyph(look, glyphs[place], "text3", 14) for place in self.PLACES}
        self._texts = {place: Elided("", "caption", "2") for place in self.PLACES}
        self._right = label("", "caption", "3")
        box = row(gap=6, margins=(16, 0, 16, 0), parent=self)
        for place in self.PLACES:
            self._texts[place].setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
            box.addWidget(self._glyphs[place])
            box.addWidget(self._texts[place])
            box.addSpacing(12)
            self._glyphs[place].hide()
            self._texts[place].hide()
        box.addStretch(1)
        box.addWidget(self._right)

    def tell(self, place: str, text: str, glyph: str = "", tone: str = "text3") -> None:
        """One fact; empty hides it."""
        self._texts[place].set_text(text)
        self._texts[place].setVisible(bool(text))
        self._glyphs[place].setVisible(bool(text))
        if glyph:
            self._glyphs[place].set_glyph(glyph, tone)

    def text(self, place: str) -> str:
        """What stands there."""
        return self._texts[place].whole()

    def tell_right(self, text: str) -> None:
        """The quiet fact at the right."""
        if self._right.text() != text:
            self._right.setText(text)
