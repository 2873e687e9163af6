"""The mouse on the table of runs: a check is ticked by its own press, and whatever was pressed elsewhere ends."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView

from clew_gui.app import Program
from clew_gui.views.runs.runs_table import RunsTable
from tests.gui import fakes
from tests.gui.conftest import Opener


@pytest.fixture
def program(open_window: Opener) -> Program:
    return open_window(fakes.example_session(), size=(1440, 900))


def at(table: RunsTable, row: int, column: int, left: int) -> QPoint:
    rect = table.visualRect(table.model().index(row, column))
    return QPoint(rect.left() + left, rect.center().y())


def test_a_selection_that_is_dragged_ends_also_over_a_check(program: Program) -> None:
    table = program.window.bottom.table
    shown = program.controller.model.shown()
    port, left = table.viewport(), Qt.MouseButton.LeftButton
    QTest.mousePress(port, left, pos=at(table, 0, 1, 20))
    QTest.mouseMove(port, at(table, 1, 1, 20))
    QTest.mouseRelease(port, left, pos=at(table, 1, 0, 6))
    assert table.state() is QAbstractItemView.State.NoState
    assert program.controller.model.shown() == shown
    QTest.mouseClick(port, left, pos=at(table, 0, 0, 6))
    assert program.controller.model.shown() != shown
