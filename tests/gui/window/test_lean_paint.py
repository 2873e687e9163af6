"""What is painted without asking Qt's style looks as if the style had been asked."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QFrame, QWidget
from pytestqt.qtbot import QtBot

from clew_gui.base.tokens import LIGHT
from clew_gui.views.form import fields
from clew_gui.views.form.fields import Combo
from clew_gui.views.theme.parts import set_role
from clew_gui.views.theme.theme import apply


def painted(widget: QWidget) -> QImage:
    """What the widget looks like now."""
    return widget.grab().toImage()


@pytest.fixture
def box(qtbot: QtBot, qapp: QApplication) -> Combo:
    """A choice with one short and one long text, in our style."""
    apply(qapp, LIGHT)
    result = Combo()
    qtbot.addWidget(result)
    result.addItem("Adam")
    result.addItem("Stochastic gradient descent with Nesterov's momentum")
    result.resize(162, 30)
    return result


def test_a_text_that_fits_looks_as_if_it_was_shortened(box: Combo, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = painted(box)
    monkeypatch.setattr(fields, "_AROUND", 10_000)
    assert painted(box) == plain


@pytest.mark.parametrize(("index", "width", "cut"), [(0, 162, False), (1, 162, True), (1, 600, False), (0, 60, True)])
def test_only_a_text_that_may_not_fit_needs_the_style(
    index: int, width: int, cut: bool, box: Combo, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Combo, "_paint_shortened", lambda self: asked.append(self.currentText()))
    box.setCurrentIndex(index)
    box.resize(width, 30)
    painted(box)
    assert bool(asked) == cut


@pytest.mark.parametrize("shown_before", [False, True])
def test_a_role_is_looked_at_again_only_by_a_widget_that_was_dressed(
    shown_before: bool, qtbot: QtBot, qapp: QApplication
) -> None:
    apply(qapp, LIGHT)
    first, second = QFrame(), QFrame()
    for widget in (first, second):
        qtbot.addWidget(widget)
        widget.resize(40, 40)
    second.setProperty("role", "okNote")
    if shown_before:
        painted(first)
    set_role(first, "okNote")
    assert painted(first) == painted(second)
    set_role(first, "sunken")
    assert painted(first) != painted(second)
