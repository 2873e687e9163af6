"""A label of several lines that breaks long words, and copies them whole."""

from __future__ import annotations

import re

from PySide6.QtCore import Qt
from PySide6.QtGui import QClipboard, QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QLabel, QMenu

_BREAK = "\u200b"
_LONGEST = 20
"""Characters of a word that are not broken: what is longer, mostly a path, would be wider than its place."""
_JOINTS = re.escape("/\\.-_=:,;@")


def breakable(text: str) -> str:
    """``text`` with invisible places where a long word may break, after a sign such as ``/`` where it has some."""
    return re.sub(rf"\S{{{_LONGEST + 1},}}", lambda word: _broken(word[0]), text)


def _broken(word: str) -> str:
    return _BREAK.join(re.findall(rf"[^{_JOINTS}]{{1,{_LONGEST}}}[{_JOINTS}]*|[{_JOINTS}]+", word))


class Wrapped(QLabel):
    """A text of several lines that is never wider than its place. ``text`` and what is copied are as it was set."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = ""
        self.setWordWrap(True)

    def setText(self, text: str) -> None:
        """Show another text."""
        self._whole = text
        super().setText(breakable(text) if self.textFormat() is Qt.TextFormat.PlainText else text)

    def text(self) -> str:
        """The text as it was set."""
        return self._whole

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copies the text without the places to break."""
        super().keyPressEvent(event)
        if event.matches(QKeySequence.StandardKey.Copy):
            _clean(QClipboard.Mode.Clipboard)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Cleans the selection too, because selecting copies on some systems."""
        super().mouseReleaseEvent(event)
        if self.hasSelectedText() and QGuiApplication.clipboard().supportsSelection():
            _clean(QClipboard.Mode.Selection)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """A menu whose *Copy* leaves them out as well."""
        if self.hasSelectedText():
            menu = QMenu(self)
            menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            selected = self.selectedText().replace(_BREAK, "")
            menu.addAction("Copy").triggered.connect(lambda: QGuiApplication.clipboard().setText(selected))
            menu.popup(event.globalPos())


def _clean(mode: QClipboard.Mode) -> None:
    board = QGuiApplication.clipboard()
    text = board.text(mode)
    if _BREAK in text:
        board.setText(text.replace(_BREAK, ""), mode)
