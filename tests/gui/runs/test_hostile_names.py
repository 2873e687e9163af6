"""What a run is called is shown in the window as it is written, and never as markup."""

from __future__ import annotations

import re

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from clew_gui.views.theme.parts import Elided
from clew_shared.base.harmless import for_tooltip

NAME = "<img src='file:///etc/passwd'><b>bold</b> & 1 < 2"


def shown(tooltip: str) -> str:
    """What Qt shows of it."""
    document = QTextDocument()
    document.setHtml(tooltip) if tooltip.startswith("<qt>") else document.setPlainText(tooltip)
    return document.toPlainText()


@pytest.mark.parametrize("text", [NAME, "plain", "two\nlines", "a < b\nc", "<!-- x -->", "&lt;"])
def test_a_tooltip_shows_a_text_as_it_is(text: str) -> None:
    assert shown(for_tooltip(text)) == text
    assert for_tooltip(text).startswith("<qt>") or "<" not in text, "Qt takes any tag for markup"
    assert not re.search(r"<(img|b)\b", for_tooltip(text))


def test_a_shortened_label_shows_the_whole_name_and_no_markup(qtbot: QtBot) -> None:
    label = Elided(NAME)
    qtbot.addWidget(label)
    label.resize(40, 20)
    label.show()
    assert label.textFormat() is Qt.TextFormat.PlainText
    assert shown(label.toolTip()) == NAME
