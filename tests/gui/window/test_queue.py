"""Runs that wait: their place in words, and what can be done about it with mouse and keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from clew_gui.app import Program
from clew_gui.views.presentation.menu_entries import QUEUE_ACTIONS
from clew_gui.views.runs.runs_model import RunRow
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.window.test_window import session_of, tell, tick


@pytest.fixture
def queue(open_window: Opener) -> Program:
    """Run 1 is at work; runs 2, 3 and 5 of this exercise wait, and run 4 of another one between them."""
    session = fakes.FakeSession()
    session.add("softmax").begin()
    for place, exercise in enumerate(("softmax", "softmax", "linear-regression", "softmax"), 1):
        session.add(exercise).queue = place
    return open_window(session)


def rows(program: Program) -> dict[int, RunRow]:
    return {row.number: row for row in program.window.bottom.model.rows()}


def select(program: Program, number: int) -> None:
    program.window.bottom.table.select(rows(program)[number].id)


def places(program: Program) -> dict[int, int]:
    return {run.number: run.queue for run in session_of(program).runs.values() if run.queue}


def allowed(program: Program) -> set[str]:
    return {name for name in QUEUE_ACTIONS if program.window.actions_[name].isEnabled()}


def test_a_waiting_run_says_its_place_in_words(queue: Program) -> None:
    told = {number: row.text("state") for number, row in rows(queue).items() if number > 1}
    assert told == {2: "Queued next in the queue", 3: "Queued 2nd in the queue", 5: "Queued 4th in the queue"}
    select(queue, 5)
    sentence = queue.window.run_view.card.sentence
    queue.window.resize(1280, 800)
    queue.app.processEvents()
    assert sentence.whole() == sentence.text() == "4th in the queue", "it is not cut"
    index = queue.window.bottom.model.index(queue.window.bottom.model.place(rows(queue)[5].id) or 0, 1)
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Queued 4th in the queue"


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (1, set()),
        (2, {"queue_down", "unqueue"}),
        (3, set(QUEUE_ACTIONS)),
        (5, {"queue_next", "queue_up", "unqueue"}),
    ],
)
def test_what_can_be_done_depends_on_the_place(number: int, wanted: set[str], queue: Program) -> None:
    select(queue, number)
    assert allowed(queue) == wanted


def test_a_silent_link_moves_nothing(queue: Program) -> None:
    select(queue, 3)
    run = session_of(queue).runs[rows(queue)[3].id]
    run.link_stale = True
    tell(queue, states=run.id)
    assert allowed(queue) == set()


def test_the_keyboard_moves_a_waiting_run(queue: Program) -> None:
    table = queue.window.bottom.table
    queue.window.fold("runs", False)
    select(queue, 5)
    table.setFocus()
    shift = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    for key, wanted in (
        (Qt.Key.Key_Up, {2: 1, 3: 2, 5: 3, 4: 4}),
        (Qt.Key.Key_N, {5: 1, 2: 2, 3: 3, 4: 4}),
        (Qt.Key.Key_Down, {2: 1, 5: 2, 3: 3, 4: 4}),
    ):
        QTest.keyClick(table, key, shift)
        tick(queue)
        assert places(queue) == wanted
    assert rows(queue)[5].text("state") == "Queued 2nd in the queue"
    assert table.current() == rows(queue)[5].id, "the cursor stays on its run"

    QTest.keyClick(table, Qt.Key.Key_X, shift)
    tick(queue)
    assert session_of(queue).asked[-1] == ("stop", rows(queue)[5].id, False)
    assert rows(queue)[5].state == RunState.STOPPED.value


def test_taking_out_can_be_undone_and_the_run_is_where_it_was(queue: Program) -> None:
    select(queue, 3)
    run = rows(queue)[3].id
    queue.window.actions_["unqueue"].trigger()
    assert queue.window.messages.isVisible()
    queue.window.actions_["undo"].trigger()
    assert [what[:2] for what in session_of(queue).asked] == [("stop", run), ("continue", run), ("move", run)]
    assert session_of(queue).asked[-1] == ("move", run, 2)


def open_menu(program: Program) -> QMenu:
    program.window.bottom.table.menu_asked.emit(QPointF(0, 0))
    (menu,) = (menu for menu in program.window.bottom.findChildren(QMenu) if menu.isVisible())
    return menu


def test_the_menu_of_a_waiting_run_offers_the_queue_with_words_and_keys(queue: Program) -> None:
    select(queue, 3)
    menu = open_menu(queue)
    first = menu.actions()[: len(QUEUE_ACTIONS)]
    words = [action.text().replace("&", "") for action in first]
    assert words == ["Run next", "Move up in the queue", "Move down in the queue", "Take out of the queue"]
    assert menu.toolTipsVisible()
    for action in first:
        assert action.shortcut().toString(action.shortcut().SequenceFormat.NativeText) in action.toolTip()
    first[0].trigger()
    assert session_of(queue).asked == [("move", rows(queue)[3].id, 1)]
    menu.close()


def test_the_menu_of_a_run_at_work_does_not_mention_the_queue(queue: Program) -> None:
    select(queue, 1)
    menu = open_menu(queue)
    assert not {queue.window.actions_[name] for name in QUEUE_ACTIONS} & set(menu.actions())
    menu.close()


def test_a_waiting_run_is_taken_out_before_it_is_removed(queue: Program) -> None:
    select(queue, 2)
    queue.window.actions_["remove"].setEnabled(True)
    queue.actions.runs.remove()
    assert "Take it out of the queue first" in queue.window.messages.problems()[0].hint


def test_the_gpus_of_a_run_stand_beside_the_machine(queue: Program) -> None:
    run = session_of(queue).runs[rows(queue)[1].id]
    run.devices = ("NVIDIA H100 (0)", "NVIDIA H100 (2)")
    tell(queue, states=run.id)
    assert rows(queue)[1].text("where") == "This computer, NVIDIA H100 (0), NVIDIA H100 (2)"
    run.devices = ("CPU",)
    tell(queue, states=run.id)
    assert rows(queue)[1].text("where") == "This computer"
