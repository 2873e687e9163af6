"""A window of thousands of runs looks again only at what has changed: bounds on work, not on time."""

from __future__ import annotations

from collections import Counter

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QSignalSpy

from clew_gui.views.runs.results import Results
from clew_gui.views.runs.runs_model import COLUMNS, RunRow, RunsModel
from clew_gui.views.theme.parts import Appearance
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.window.test_window import tell

MANY = 300


def test_news_of_one_run_looks_at_its_row_and_its_exercise_alone(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = fakes.FakeSession()
    runs = [session.add("softmax" if number % 2 else "cnn") for number in range(MANY)]
    for run in runs:
        run.begin()
    program = open_window(session)
    rows, exercises = Counter[str](), Counter[str]()

    def count(counter: Counter[str], name: str, key: str) -> None:
        method = getattr(Results, name)

        def counted(results: Results, card: object, *given: object, **more: object) -> object:
            counter[getattr(given[0] if key == "run" else card, "id")] += 1  # noqa: B009
            return method(results, card, *given, **more)

        monkeypatch.setattr(Results, name, counted)

    count(rows, "row", "run")
    count(exercises, "progress", "card")
    tell(program, states=runs[1].id, points=runs[1].id)
    assert set(rows) == {runs[1].id}
    assert set(exercises) == {"softmax"}
    new = session.add("cnn")
    tell(program, new=new.id)
    assert set(exercises) == {"softmax", "cnn"}
    assert set(rows) == {runs[1].id}, "it belongs to no row of the open exercise"


def row(number: int, rate: float = 0.0) -> RunRow:
    return RunRow(str(number), number, -1, "", {"run": ("", float(number)), "rate": ("", rate)})


@pytest.mark.parametrize(("key", "down"), [("run", True), ("run", False), ("rate", True), ("rate", False)])
def test_a_new_row_goes_where_it_sorts_and_many_of_them_come_at_once(key: str, down: bool) -> None:
    model = RunsModel(Appearance())
    place = [column.key for column in COLUMNS].index(key)
    model.sort(place, Qt.SortOrder.DescendingOrder if down else Qt.SortOrder.AscendingOrder)
    rates = {1: 0.5, 2: 0.1, 3: 0.5, 4: 0.3}
    model.set_rows([row(number, rates[number]) for number in (1, 2, 4)])
    inserted, filled = QSignalSpy(model.rowsInserted), QSignalSpy(model.modelReset)
    model.update_rows([row(3, rates[3])])
    wanted = sorted(rates, key=lambda number: (rates[number] if key == "rate" else 0, number), reverse=down)
    assert [one.number for one in model.rows()] == wanted
    assert (inserted.count(), filled.count()) == (1, 0)
    model.update_rows([row(number, number / 1000) for number in range(5, 5 + MANY)])
    assert (inserted.count(), filled.count(), model.rowCount()) == (1, 1, 4 + MANY)
