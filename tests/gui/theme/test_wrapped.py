"""Texts of several lines are never wider than their place, and are copied as they were written."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from clew_gui.views.sites.doctor_dialog import DoctorDialog, Step
from clew_gui.views.theme.parts import Appearance, breakable, label

PATH = "/gpfs/projects/course/datasets/handwritten-digits/mnist-original.npz"


@pytest.mark.parametrize("word", [PATH, "x" * 300, "tensorflow-2.19.0-cuda-12.4-python-3.11.7-gcc-13.2.0", "a/" * 90])
def test_a_long_word_is_not_wider_than_its_place(qtbot: QtBot, word: str) -> None:
    text = label(f"Cannot be read: {word}.", wrap=True)
    qtbot.addWidget(text)
    assert text.minimumSizeHint().width() < 240
    assert text.text() == f"Cannot be read: {word}.", "as it was set"


def test_short_words_are_left_alone() -> None:
    assert breakable("Runs on student@login, 2 h.") == "Runs on student@login, 2 h."


def test_what_is_copied_is_what_was_written(qtbot: QtBot) -> None:
    text = label(PATH, wrap=True)
    text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    qtbot.addWidget(text)
    text.resize(200, 120)
    text.show()
    text.setFocus()
    text.setSelection(0, len(breakable(PATH)))
    QTest.keyClick(text, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == PATH


def test_findings_of_the_doctor_wrap_to_its_width(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    steps = (Step("Data", "wrong", f"{PATH}: not found.", f"Copy it to {PATH * 3}.", where="student@login:2222"),)
    dialog = DoctorDialog(parent, Appearance(), "The Cave", lambda _stop, _node: iter(steps))
    dialog.open()
    qtbot.waitUntil(lambda: bool(dialog.steps) and not dialog.busy)
    assert dialog._list.minimumSizeHint().width() <= dialog._area.viewport().width()
    assert dialog._area.horizontalScrollBar().maximum() == 0
