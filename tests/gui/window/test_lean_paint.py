"""What is painted without asking Qt's style looks as if the style had been asked."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFrame, QTreeWidgetItem, QWidget
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.views.form import fields
from clew_gui.views.form.fields import Combo
from clew_gui.views.theme.parts import set_role
from clew_gui.views.theme.theme import LIGHT, apply


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


def _rows(program: Program) -> list[QTreeWidgetItem]:
    """The exercises of the first chapter that are not open."""
    tree = program.window.lab.tree
    head = tree.topLevelItem(0)
    assert head is not None
    found = [head.child(number) for number in range(head.childCount())]
    return [item for item in found if item is not None and item is not tree.currentItem()]


def test_the_row_under_the_pointer_is_marked(softmax: Program, qtbot: QtBot) -> None:
    theme, tree = softmax.window.appearance.theme, softmax.window.lab.tree
    area = tree.visualItemRect(_rows(softmax)[0])

    def ground() -> QColor:
        return painted(tree.viewport()).pixelColor(area.right() - 12, area.top() + 4)

    def moved_on(widget: QWidget, at: QPoint, colour: str) -> None:
        """Moves the pointer about until the row has the colour: an earlier test may have left it just there, and Qt
        sends no event to a window that opens under a pointer that rests."""

        def looks() -> bool:
            for beside in (0, 1):
                QTest.mouseMove(widget, at + QPoint(beside, 0))
            return ground() == QColor(colour)

        qtbot.waitUntil(looks, timeout=5000)

    away = softmax.window.next_run.run
    moved_on(tree.viewport(), area.center(), theme.hover)
    moved_on(away, QPoint(5, 5), theme.surface)
    moved_on(tree.viewport(), area.center(), theme.hover)
