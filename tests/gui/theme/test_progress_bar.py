"""The bar of progress."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from pytestqt.qtbot import QtBot

from clew_gui.views.theme.parts import ProgressBar


class Paints(QObject):
    """Counts how often what it watches is painted."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's name
        self.count += event.type() is QEvent.Type.Paint
        return super().eventFilter(watched, event)


def test_it_is_painted_later_and_once_whatever_it_is_told(qtbot: QtBot) -> None:
    bar = ProgressBar("Progress of the run")
    qtbot.addWidget(bar)
    with qtbot.waitExposed(bar):
        bar.show()
    qtbot.wait(50)
    paints = Paints()
    bar.installEventFilter(paints)
    for done in range(100):
        bar.show_share(done, 100)
    assert paints.count == 0
    qtbot.waitUntil(lambda: paints.count == 1)
    qtbot.wait(50)
    assert paints.count == 1


def test_a_share_of_nothing_is_an_empty_bar_and_more_than_all_is_full(qtbot: QtBot) -> None:
    bar = ProgressBar("Progress of the run")
    qtbot.addWidget(bar)
    bar.show_share(0, 0)
    assert (bar.value(), bar.maximum()) == (0, 1)
    bar.show_share(7, 5)
    assert (bar.value(), bar.maximum()) == (5, 5)
