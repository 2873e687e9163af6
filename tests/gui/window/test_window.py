"""The window as a student uses it, with a session that answers at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QGuiApplication, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QFileDialog, QLabel, QPushButton, QScrollArea, QScrollBar, QWidget
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.settings import SettingsFile
from clew_gui.base.tokens import DARK, LIGHT
from clew_gui.views.actions import verbs
from clew_gui.views.actions.dialogs import CodeDialog, ContinueDialog, TextDialog
from clew_gui.views.form.form import FormDialog
from clew_gui.views.plots.pages import offered
from clew_gui.views.runs.runs_model import COLUMNS
from clew_gui.views.theme.theme import apply, font
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.events import Checkpoint, Peer, State
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from tests.gui import fakes
from tests.gui.conftest import Opener


def tick(program: Program) -> None:
    """Let the session tell now, not in 33 ms, and let the curves follow."""
    program.controller.bridge.tick()
    QApplication.processEvents()
    program.controller.bridge.tick()


def session_of(program: Program) -> fakes.FakeSession:
    """The fake behind the window."""
    assert isinstance(program.session, fakes.FakeSession)
    return program.session


def tell(program: Program, **news: object) -> None:
    """Bring news; an id stands for the set of it."""
    session_of(program).tell(**{what: {found} if isinstance(found, str) else found for what, found in news.items()})
    tick(program)


def dialog_of(program: Program, kind: type[QDialog]) -> QDialog:
    """The dialog that is open."""
    found = [widget for widget in program.window.findChildren(kind) if widget.isVisible()]
    assert len(found) == 1
    return found[0]


# --- The first minute -------------------------------------------------------------------------------------------------


def test_first_start_says_what_to_press_and_shows_the_expected_curve(open_window: Opener) -> None:
    program = open_window(exercise="linear-regression")
    view = program.window.run_view
    assert view.empty_view.isVisible()
    assert not view.card.isVisible()
    assert program.window.next_run.run.isEnabled()
    assert program.window.top.fact("data") == "Needs no data"


def test_run_starts_what_the_form_says(softmax: Program, qtbot: QtBot) -> None:
    form = softmax.window.next_run.form
    form.row("learning_rate").editor.set_value(0.05)
    form.row("optimizer").editor.set_value("adam")
    QTest.keyClick(softmax.window, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    (asked,) = session_of(softmax).asked
    spec = asked[1]
    assert isinstance(spec, RunSpec)
    assert (spec.exercise, spec.data, spec.seed) == ("softmax", "mnist", 1)
    assert spec.params["learning_rate"] == 0.05
    assert spec.params["optimizer"] == "adam"
    assert "momentum" not in spec.params  # shown for two optimizers only
    assert spec.source_hash == "ab" * 32


def test_ctrl_enter_runs_from_inside_a_field_and_selects_that_run_alone(softmax: Program) -> None:
    session, field = session_of(softmax), softmax.window.next_run.form.row("steps").editor
    tell(softmax, new=session.add().id)
    assert softmax.window.bottom.table.chosen_runs() == list(session.runs)
    field.setFocus()
    handle = softmax.window.windowHandle()
    QTest.keyPress(handle, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    tick(softmax)  # while the key is held
    QTest.keyRelease(handle, Qt.Key.Key_Return)
    assert [what[0] for what in session.asked] == ["start"]
    assert softmax.window.bottom.table.chosen_runs() == [list(session.runs)[1]]


def drawn_to(program: Program) -> float:
    """The last step of the selected run's curve."""
    plot = program.window.run_view.plots.canvas.scene.plots[0]
    end = plot.curves[-1].curve.end
    return end[0] if end is not None else -1.0


def test_a_new_run_is_selected_and_its_curve_is_drawn(softmax: Program, qtbot: QtBot) -> None:
    softmax.window.next_run.ask_run()
    tick(softmax)
    (run,) = session_of(softmax).runs.values()
    assert softmax.window.run_view.card.isVisible()
    assert softmax.window.run_view.card.pill.accessibleName() == "State: Queued"
    run.begin(500)
    run.train(100)
    tell(softmax, states=run.id, points=run.id)
    assert softmax.window.run_view.card.progress.text() == "Step 100 of 500"
    assert softmax.window.run_view.card.forecast.text() == "About to finish."
    assert drawn_to(softmax) == pytest.approx(99, abs=1)


def test_the_heads_of_the_runs_stay_captions_whatever_the_theme(softmax: Program) -> None:
    softmax.window.next_run.run.click()
    tick(softmax)
    head = softmax.window.bottom.table.horizontalHeader()
    assert head.isVisible()
    number = [column.key for column in COLUMNS].index("optimizer")
    wide = head.sectionSizeHint(number)
    apply(softmax.app, DARK)
    apply(softmax.app, LIGHT)
    assert head.model().headerData(0, Qt.Orientation.Horizontal, Qt.ItemDataRole.FontRole) == font("caption")
    assert head.sectionSizeHint(number) == wide


def test_points_are_drawn_however_often_they_are_told(softmax: Program) -> None:
    session = session_of(softmax)
    softmax.window.next_run.ask_run()
    tick(softmax)
    (run,) = session.runs.values()
    run.begin(1000)
    for _ in range(5):
        run.train(50)
        tell(softmax, points=run.id, states=run.id)
        tell(softmax, points=run.id)
    assert drawn_to(softmax) == pytest.approx(249, abs=2)


# --- Steering ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def busy(open_window: Opener) -> Program:
    """The window of a student after half an hour; run 6 is at work."""
    return open_window(fakes.example_session())


def test_pause_and_resume(busy: Program) -> None:
    card = busy.window.run_view.card
    card.pause.click()
    tick(busy)
    assert card.pill.accessibleName() == "State: Paused"
    assert card.pause.accessibleName() == "Resume"
    card.pause.click()
    tick(busy)
    assert card.pill.accessibleName() == "State: Running"
    assert [what[0] for what in session_of(busy).asked] == ["pause", "unpause"]


def test_stop_after_the_block_leaves_a_run_that_can_go_on(busy: Program) -> None:
    busy.window.actions_["stop"].trigger()
    tick(busy)
    card = busy.window.run_view.card
    assert card.pill.accessibleName() == "State: Stopped"
    assert card.go_on.isVisible()
    assert card.go_on.isEnabled()
    card.go_on.click()
    assert session_of(busy).asked[-1][0] == "continue"


def test_a_run_that_lost_a_process_goes_on_with_those_that_are_left(busy: Program) -> None:
    run = busy.controller.model.run()
    assert isinstance(run, fakes.FakeRun)
    run.feed(Checkpoint(step=run.history.fold.step, folder="checkpoints/1", files=()))
    for status in ("joined", "lost"):
        run.feed(Peer(role="worker", index=1, host="node2", status=status))
    trouble = Problem("peers.lost", "Worker 1 on node2 was killed (SIGKILL).", "Continue the run.")
    run.feed(State(state=RunState.FAILED, problem=trouble))
    tell(busy, states=run.id)
    go_on = busy.window.actions_["continue"]
    for button, nodes in (("fewer", 1), ("same", 2)):
        go_on.trigger()
        (dialog,) = (one for one in busy.window.findChildren(ContinueDialog) if one.isVisible())
        assert dialog.fewer.text().strip() == "On 1 node"
        getattr(dialog, button).click()
        assert session_of(busy).asked[-1] == ("continue", run.id, {"nodes": nodes})


def test_one_click_stops_and_a_run_that_waits_leaves_the_queue(busy: Program) -> None:
    session, run = session_of(busy), busy.controller.model.run()
    assert run is not None
    busy.window.run_view.card.stop.click()
    assert session.asked[-1] == ("stop", run.id, False)
    waiting = next(one for one in session.runs.values() if one.queue)
    busy.controller.select(waiting.id)
    card = busy.window.run_view.card
    assert not card.stop.isVisible()
    assert card.leave.accessibleName() == "Take out of the queue"
    card.leave.click()
    assert session.asked[-1] == ("stop", waiting.id, False)
    assert "was taken out of the queue" in busy.window.messages.accessibleName()


def test_the_learning_rate_changes_while_it_runs(busy: Program, qtbot: QtBot) -> None:
    busy.window.run_view.card.rate.click()
    dialog = dialog_of(busy, FormDialog)
    assert isinstance(dialog, FormDialog)
    row = dialog.form.row("learning_rate")
    assert row.editor.raw() == "0.005"  # as changed before, not as started
    row.editor.set_value(-1)
    dialog.go.click()
    assert dialog.isVisible()
    assert row.error.text() == "Must be greater than 0, got -1"
    row.editor.set_value(0.001)
    dialog.go.click()
    assert session_of(busy).asked[-1][2:] == ("learning_rate", 0.001)


def test_what_may_be_changed_in_a_run_ends_with_the_run(busy: Program) -> None:
    session, run = session_of(busy), busy.controller.model.run()
    assert run is not None
    busy.window.actions_["rate"].trigger()
    closed: list[int] = []
    dialog_of(busy, FormDialog).finished.connect(closed.append)
    tell(busy, states=next(one for one in session.runs if one != run.id))
    assert not closed, "another run's news"
    session.runs[run.id].end()
    tell(busy, states=run.id)
    assert len(closed) == 1
    assert f"Run {run.number} has ended" in busy.window.messages.accessibleName()
    assert not [what for what in session.asked if what[0] == "live"]


@pytest.mark.parametrize("way", ["slides", "preset", "reuse"])
def test_own_values_that_were_replaced_come_back(busy: Program, way: str) -> None:
    form = busy.window.next_run
    form.form.row("learning_rate").editor.set_value(0.123)
    form.seed.set_values({"seed": 7})
    own = form.spec()
    if way == "preset":
        form.preset.setCurrentIndex(form.preset.findData("adam"))
        form.preset.activated.emit(form.preset.currentIndex())
    else:
        busy.window.actions_[way].trigger()
    assert form.spec().params != own.params
    busy.window.messages.undo()
    assert (form.spec().params, form.spec().seed) == (own.params, 7)


def test_values_of_a_preset_give_way_without_a_word(softmax: Program) -> None:
    form = softmax.window.next_run
    form.preset.setCurrentIndex(form.preset.findData("adam"))
    form.preset.activated.emit(form.preset.currentIndex())
    form.use_slides()
    assert not softmax.window.messages.isVisible()


def test_while_earlier_runs_are_read_nobody_says_that_nothing_has_run(open_window: Opener, places: Places) -> None:
    session = fakes.FakeSession()
    session.set_link("CONNECTING")
    (places.mirrors / "0123").mkdir(parents=True)
    session.set_link("OFFLINE")  # as before anybody has looked
    program = open_window(session, exercise="linear-regression")
    window = program.window
    assert window.run_view.empty_view.title.text() == "Loading earlier runs…"
    assert window.bottom.empty.text() == "Loading earlier runs…"
    assert window.lab.done.text() == "Loading…"
    assert window.top.site.text().strip() == "This computer, starting"
    session.set_link("LIVE")
    tell(program, link=True)
    assert window.run_view.empty_view.title.text() == "Nothing has run yet. Start with this one."
    assert window.bottom.empty.text().startswith("Your runs will be listed here")
    assert window.lab.done.text() == "0 of 4"


def test_a_first_start_reads_nothing(open_window: Opener) -> None:
    session = fakes.FakeSession()
    session.set_link("CONNECTING")
    program = open_window(session, exercise="linear-regression")
    assert "Nothing has run" in program.window.run_view.empty_view.title.text()


def test_what_cannot_be_done_says_why(busy: Program) -> None:
    busy.window.bottom.table.select(next(r.id for r in session_of(busy).runs.values() if r.number == 7))
    card = busy.window.run_view.card
    assert not card.pause.isEnabled()
    assert card.pause.toolTip() == "The run is not training yet"
    assert not busy.window.actions_["pause"].isEnabled()


# --- Runs -------------------------------------------------------------------------------------------------------------


def shown_in_plots(program: Program) -> set[int]:
    """Numbers of the runs whose curves are drawn."""
    QApplication.processEvents()
    runs = session_of(program).runs
    return {runs[style.run_id].number for style in program.window.run_view.plots.canvas.runs}


def test_the_baseline_is_always_in_reach_and_a_tick_adds_a_run(busy: Program) -> None:
    assert shown_in_plots(busy) == {2, 6}  # run 2 has the baseline's values, run 6 is at work
    row = next(row for row in busy.window.bottom.model.rows() if row.number == 3)
    place = busy.window.bottom.model.place(row.id)
    assert place is not None
    index = busy.window.bottom.model.index(place, 0)
    busy.window.bottom.model.setData(index, Qt.CheckState.Checked, Qt.ItemDataRole.CheckStateRole)
    assert shown_in_plots(busy) == {2, 3, 6}
    busy.window.actions_["show"].trigger()  # hides the selected one
    assert shown_in_plots(busy) == {2, 3}


def test_a_click_on_a_check_changes_that_run_alone(busy: Program) -> None:
    table, model = busy.window.bottom.table, busy.window.bottom.model
    before = table.current()

    def click(number: int) -> None:
        place = model.place(next(row.id for row in model.rows() if row.number == number))
        assert place is not None
        cell = table.visualRect(model.index(place, 0))
        QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(cell.left() + 18, cell.center().y()))

    click(3)
    assert shown_in_plots(busy) == {2, 3, 6}
    click(4)
    assert shown_in_plots(busy) == {2, 3, 4, 6}
    click(3)
    assert shown_in_plots(busy) == {2, 4, 6}
    assert table.current() == before


def test_a_new_run_is_drawn_beside_the_ones_before_it(busy: Program) -> None:
    assert shown_in_plots(busy) == {2, 6}
    busy.window.next_run.ask_run()
    tick(busy)
    newest = max(row.number for row in busy.window.bottom.model.rows())
    assert shown_in_plots(busy) == {2, 6, newest}


def test_only_the_latest_runs_of_a_sitting_are_drawn_by_themselves(softmax: Program) -> None:
    for _ in range(11):
        softmax.controller.starter.start((softmax.window.next_run.spec(),))
        tick(softmax)
    assert shown_in_plots(softmax) == set(range(4, 12))


def test_the_newest_run_is_selected_until_a_person_selects_one(softmax: Program) -> None:
    session = session_of(softmax)
    first, second = session.add(), session.add()
    for run in (first, second):  # mirrors are read one after the other
        tell(softmax, new=run.id)
    assert softmax.controller.model.run() is second
    softmax.controller.select(first.id)
    tell(softmax, new=session.add().id)
    assert softmax.controller.model.run() is first


def test_a_run_read_back_from_its_spec_is_the_baseline_and_fills_the_form(softmax: Program) -> None:
    """TOML has no null: an optional value that is not set stands as "none" in a spec file."""
    session = session_of(softmax)
    card = softmax.controller.model.cards["softmax"]
    unset = {spec.name: "none" for spec in card.params if spec.optional}
    assert unset
    run = session.add("softmax", "", **unset)
    run.begin(500)
    run.train(20)
    tell(softmax, new=run.id)
    assert softmax.controller.model.pinned() == run.id
    softmax.actions.runs.reuse()
    assert all(softmax.window.next_run.spec().params[name] is None for name in unset)


def test_another_run_can_be_the_baseline(busy: Program) -> None:
    runs = {run.number: run.id for run in session_of(busy).runs.values()}
    busy.window.bottom.table.select(runs[3])
    busy.window.actions_["pin"].trigger()
    rows = {row.number: row for row in busy.window.bottom.model.rows()}
    assert rows[3].pinned
    assert not rows[2].pinned
    assert shown_in_plots(busy) == {3}


def test_a_removed_run_comes_back_with_undo_and_is_forgotten_without(busy: Program, qtbot: QtBot) -> None:
    runs = {run.number: run.id for run in session_of(busy).runs.values()}
    for undo in (True, False):
        busy.window.bottom.table.select(runs[4])
        busy.window.bottom.table.setFocus()
        QTest.keyClick(busy.window.bottom.table, Qt.Key.Key_Delete)
        assert 4 not in {row.number for row in busy.window.bottom.model.rows()}
        if undo:
            busy.window.messages.undo()
            assert 4 in {row.number for row in busy.window.bottom.model.rows()}
            assert ("forget", runs[4]) not in session_of(busy).asked
    busy.window.messages.lapse()
    assert ("forget", runs[4]) in session_of(busy).asked


def test_a_run_at_work_is_not_removed(busy: Program) -> None:
    busy.actions.runs.remove()
    (found,) = busy.window.messages.problems()
    assert found.text == "Run 6 is still running."


def test_sorting_by_best_keeps_the_cursor_on_its_run(busy: Program) -> None:
    table, model = busy.window.bottom.table, busy.window.bottom.model
    before = table.current()
    table.sortByColumn([column.key for column in COLUMNS].index("best"), Qt.SortOrder.DescendingOrder)
    assert [row.number for row in model.rows()][:3] == [3, 6, 2]
    assert table.current() == before


def test_the_settings_of_a_run_come_back_into_the_form(busy: Program) -> None:
    busy.window.actions_["reuse"].trigger()
    form = busy.window.next_run
    assert form.form.values()["optimizer"] == "adam"
    assert form.preset.currentText() == "Custom"
    busy.window.actions_["slides"].trigger()
    assert form.form.values()["optimizer"] == "sgd"
    assert form.preset.currentText() == "Slides' values"


def test_the_table_leaves_as_csv(busy: Program, tmp_path: Path) -> None:
    busy.actions.write_table(tmp_path / "runs.csv")
    lines = (tmp_path / "runs.csv").read_text().splitlines()
    assert lines[0] == "Run,State,Optimizer,Rate,Best,Batch,Data,To baseline,Time,Where"
    assert len(lines) == 7


# --- Exercises and words ----------------------------------------------------------------------------------------------


def test_every_panel_follows_the_exercise(busy: Program) -> None:
    busy.window.lab.tree.select("linear-regression")
    window = busy.window
    assert window.head.title.text() == "Linear regression"
    assert set(window.next_run.form.values()) == {"optimizer", "learning_rate", "steps", "w_start", "b_start"}
    assert [row.number for row in window.bottom.model.rows()] == [1]
    assert window.run_view.card.title.text() == "Run 1"
    assert window.run_view.card.pill.accessibleName() == "State: Failed"


def test_what_was_typed_for_an_exercise_is_there_when_it_is_opened_again(softmax: Program) -> None:
    softmax.window.next_run.form.row("steps").editor.set_value(1234)
    softmax.controller.open_exercise("cnn")
    softmax.controller.open_exercise("softmax")
    assert softmax.window.next_run.form.values()["steps"] == 1234


def test_the_form_of_another_exercise_begins_at_its_top(open_window: Opener) -> None:
    program = open_window(size=(1200, 640))
    bar = program.window.next_run.findChildren(QScrollArea)[0].verticalScrollBar()
    bar.setValue(bar.maximum())
    assert bar.value() > 0
    program.controller.open_exercise("linear-regression")
    program.controller.open_exercise("softmax")
    assert bar.value() == 0


def test_search_finds_and_enter_opens(softmax: Program, qtbot: QtBot) -> None:
    softmax.window.actions_["find"].trigger()
    QTest.keyClicks(softmax.window.lab.search, "regr")
    QTest.keyClick(softmax.window.lab.search, Qt.Key.Key_Return)
    assert softmax.window.head.title.text() == "Linear regression"


def test_ticks_and_goals_come_from_the_journals(busy: Program) -> None:
    assert busy.window.head.goal.accessibleName() == "1 of 2 goals reached", "as the rows of the table say"
    index = busy.window.lab.tree.currentIndex()
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Softmax on MNIST, started, 91.58 %"


def test_an_exercise_that_cannot_be_loaded_says_so(softmax: Program) -> None:
    softmax.controller.open_exercise("mine")
    said = [one.text() for one in softmax.window.findChildren(QLabel) if one.isVisible() and "line 3" in one.text()]
    assert len(said) == 1, "on the first card, and once"


def test_a_silent_link_is_not_a_failed_run(busy: Program) -> None:
    session = session_of(busy)
    run = next(run for run in session.runs.values() if run.number == 6)
    run.link_stale = True
    session.set_link("STALE")
    tell(busy, link=True)
    assert busy.window.run_view.card.pill.accessibleName() == "State: Stale"
    assert "the run goes on" in busy.window.run_view.card.notice.text()
    assert not busy.window.run_view.card.stop.isEnabled()
    row = next(row for row in busy.window.bottom.model.rows() if row.number == 6)
    assert row.text("state").startswith("Stale")


def test_a_refused_link_keeps_run_from_being_pressed_and_says_why(softmax: Program) -> None:
    session = session_of(softmax)
    session.set_link("REFUSED", "No TensorFlow in this environment.")
    tell(softmax, link=True)
    assert not softmax.window.next_run.run.isEnabled()
    assert softmax.window.next_run.run.toolTip() == "No TensorFlow in this environment."


# --- Problems ---------------------------------------------------------------------------------------------------------


def test_a_problem_says_what_and_what_now_and_can_be_copied(softmax: Program) -> None:
    found = Problem("data.missing", "mnist was not found in 3 places.", "Choose the data set digits.", "mnist")
    session_of(softmax).refusal = ProblemError(found)
    softmax.window.next_run.ask_run()
    messages = softmax.window.messages
    assert messages.isVisible()
    assert "Choose the data set digits." in messages.accessibleName()
    assert messages.line.text.toolTip() == "(clew why data.missing)"
    messages.copy()
    copied = QGuiApplication.clipboard().text().splitlines()
    assert (copied[0], copied[-1]) == ("mnist was not found in 3 places.", "(clew why data.missing)")
    messages.dismiss()
    assert not messages.isVisible()


def test_a_note_covers_a_problem_only_for_a_while(softmax: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = softmax.window.messages
    monkeypatch.setattr(bar, "underMouse", lambda: False)
    bar.show_problems((Problem("a", "First."), Problem("b", "Second.")))
    bar.show_note("Written: plot.png")
    assert bar.accessibleName() == "Message: Written: plot.png"
    fakes.end_note(bar)
    assert bar.accessibleName() == "Message: Second."
    bar.show_note("Written: again.png")
    bar.dismiss()
    assert bar.accessibleName() == "Message: Second.", "only the note was dismissed"
    bar.dismiss()
    assert (bar.accessibleName(), bar.isVisible()) == ("Message: First.", True)
    bar.dismiss()
    assert not bar.isVisible()


def test_a_note_stays_while_somebody_points_at_it(busy: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    bar = busy.window.messages
    pointed = True
    monkeypatch.setattr(bar, "underMouse", lambda: pointed)
    bar.show_note("Taken out.", undo=lambda: None)
    fakes.end_note(bar)
    assert bar.isVisible()
    pointed = False
    fakes.end_note(bar)
    assert not bar.isVisible()


def test_data_that_are_not_here_are_marked_and_others_chosen(softmax: Program) -> None:
    session, form = session_of(softmax), softmax.window.next_run
    assert form.spec().data == "mnist"
    session.set_link("LIVE", datasets=("digits",))
    tell(softmax, link=True)
    assert form.spec().data == "digits"
    assert form.data_choice.combo.itemText(0) == "MNIST, not found"
    assert softmax.window.top.fact("data") == "Data: Digits, built in; MNIST was not found here"
    form.data_choice.combo.setCurrentIndex(0)
    form.data_choice.combo.activated.emit(0)
    assert not form.run.isEnabled()
    assert form.run.toolTip() == "MNIST was not found on this computer."
    assert form.data_choice.choose.isVisible()
    session.set_link("LIVE", datasets=("mnist", "digits"))
    tell(softmax, link=True)
    assert form.data_choice.combo.itemText(0) == "MNIST"
    assert form.run.isEnabled()
    assert not form.data_choice.choose.isVisible()


def test_a_run_that_fails_for_want_of_its_data_says_so_with_the_button_that_helps(softmax: Program) -> None:
    session = session_of(softmax)
    softmax.window.next_run.ask_run()
    tick(softmax)
    (run,) = session.runs.values()
    run.begin(500)
    text = "The data set 'mnist' was not found. Looked in: /home/student/data."
    run.feed(State(state=RunState.FAILED, reason=text, problem=Problem("data.missing", text, "Stage it.")))
    for _ in range(2):  # told twice, shown once
        tell(softmax, states=run.id)
    messages, reason = softmax.window.messages, softmax.window.run_view.card.reason
    assert (reason.text.text(), reason.isVisible(), messages.isVisible()) == (text, True, False), "said once"
    assert softmax.window.next_run.spec().data == "mnist", "a person's choice stays"
    (button,) = (one for one in reason.findChildren(QPushButton) if one.isVisible())
    button.click()
    (dialog,) = softmax.window.findChildren(QFileDialog)
    dialog.reject()


def test_a_failed_run_is_told_by_a_message_only_until_its_card_says_it(softmax: Program) -> None:
    window, messages = softmax.window, softmax.window.messages
    window.next_run.ask_run()
    tick(softmax)
    (run,) = session_of(softmax).runs.values()
    run.begin(500)
    softmax.controller.open_exercise("linear-regression")
    run.feed(State(state=RunState.FAILED, reason="It broke.", problem=Problem("exercise.failed", "It broke.")))
    tell(softmax, states=run.id)
    assert not messages.isVisible(), "it belongs to a run of another exercise"
    window.show_tab(0)
    softmax.controller.open_exercise("softmax")
    assert (messages.isVisible(), messages.line.text.text(), messages.line.help.text()) == (
        True,
        "It broke.",
        "Show log",
    )
    window.show_tab(1)
    assert window.run_view.card.reason.isVisible()
    assert not messages.isVisible()


def test_a_message_goes_with_the_next_run_of_its_exercise(softmax: Program) -> None:
    messages = softmax.window.messages
    messages.show_problems((Problem("exercise.failed", "It broke."),), "an earlier run", "softmax")
    messages.show_problems((Problem("params.value", "Steps: at most 10."),), exercise="softmax")
    messages.show_problems((Problem("exercise.failed", "It broke."),), "another run", "linear-regression")
    messages.show_problems((Problem("window.export", "The disk is full."),))
    softmax.window.next_run.ask_run()
    tick(softmax)
    left = [one.code for one in messages.problems()]
    assert left == ["exercise.failed", "window.export"], "of another exercise, and of no run"


def test_a_problem_of_a_field_stands_under_the_field(softmax: Program) -> None:
    found = Problem("params.value", "Steps (steps): the journal would exceed 2 GiB", where="steps")
    session_of(softmax).refusal = ProblemError(found)
    softmax.window.next_run.ask_run()
    assert softmax.window.next_run.form.row("steps").error.text() == "The journal would exceed 2 GiB"


def test_a_wrong_field_disables_run_with_the_reason(softmax: Program) -> None:
    row = softmax.window.next_run.form.row("learning_rate")
    assert row.editor.property("state") in (None, "")
    row.editor.set_value(0.5)
    row.editor.setText("fast")  # type: ignore[union-attr]
    assert row.error.isVisible()
    assert "expected a number" in row.error.text().lower()
    assert not softmax.window.next_run.run.isEnabled()
    assert "Learning rate" in softmax.window.next_run.run.toolTip()
    row.reset.click()
    assert softmax.window.next_run.run.isEnabled()
    assert not row.reset.isVisible()


# --- The window itself ------------------------------------------------------------------------------------------------


def test_light_and_dark_change_at_run_time_and_panels_stay_scrolled(open_window: Opener, qtbot: QtBot) -> None:
    busy = open_window(fakes.example_session(), size=(1280, 700))
    bar = max(
        (one.verticalScrollBar() for one in busy.window.next_run.findChildren(QScrollArea)), key=QScrollBar.maximum
    )
    bar.setValue(scrolled := bar.maximum())
    assert scrolled > 0
    light = busy.window.grab().toImage().pixelColor(5, 100).lightness()
    busy.window.actions_["theme"].trigger()
    dark = busy.window.grab().toImage().pixelColor(5, 100).lightness()
    assert light > 200 > 60 > dark
    assert busy.controller.model.state.theme == "dark"
    qtbot.waitUntil(lambda: bar.value() == scrolled)
    busy.actions.choose_theme("light")


def test_sizes_folds_exercise_and_theme_are_remembered(open_window: Opener) -> None:
    memory = NoMemory(WindowState(width=1300, height=820, told_runs_go_on=True))
    first = open_window(memory=memory)
    first.controller.open_exercise("cnn")
    first.window.actions_["form_panel"].trigger()
    first.actions.choose_theme("dark")
    first.window.show_tab(0)
    first.window.close()
    assert memory.state.theme == "dark"
    again = open_window(memory=memory, exercise="")
    assert again.window.head.title.text() == "CNN on MNIST"
    assert not again.window.next_run.isVisible()
    assert again.window.head.tabs.currentIndex() == 0
    assert again.window.width() == 1300
    again.window.reset_layout()
    assert again.window.next_run.isVisible()
    again.actions.choose_theme("light")


@pytest.mark.parametrize(
    ("asked", "last", "title"),
    [
        ("", "", "Linear regression"),
        ("", "linear-regression", "Linear regression"),
        ("softmax", "linear-regression", "Softmax on MNIST"),
        ("", "no-longer-there", "Linear regression"),
    ],
)
def test_the_exercise_that_is_open_at_first(open_window: Opener, asked: str, last: str, title: str) -> None:
    program = open_window(exercise=asked, memory=NoMemory(WindowState(exercise=last)))
    assert program.window.head.title.text() == title


def test_the_window_file_is_kept_and_a_broken_one_is_told(tmp_path: Path) -> None:
    memory = SettingsFile(tmp_path / "config" / "window.toml", WindowState)
    assert memory.load() == WindowState()
    state = WindowState(width=1300, height=800, folds={"lab:small": False}, exercise="cnn", theme="dark")
    memory.save(state)
    assert memory.load() == state
    assert memory.problem is None
    (tmp_path / "config" / "window.toml").write_text("width = 'wide'")
    broken = SettingsFile(tmp_path / "config" / "window.toml", WindowState)
    assert broken.load() == WindowState()
    assert broken.problem is not None
    assert "window.toml" in broken.problem.text


@pytest.mark.parametrize(
    ("size", "lab", "runs"), [((1440, 900), True, True), ((1280, 800), True, False), ((1024, 700), False, False)]
)
def test_small_windows_fold_panels_and_nothing_is_cut(
    open_window: Opener, size: tuple[int, int], lab: bool, runs: bool
) -> None:
    window = open_window(fakes.example_session(), size=size).window
    assert (window.width(), window.height()) == size
    assert window.lab.isVisible() is lab
    assert window.bottom.table.isVisible() is runs
    centre = window.centralWidget()
    assert centre is not None
    needed = centre.minimumSizeHint()
    assert needed.width() <= size[0]
    assert needed.height() <= size[1]


def test_the_window_is_no_larger_than_the_screen(open_window: Opener) -> None:
    window = open_window().window
    window.setGeometry(-40, 500, 1440, 900)
    window.fit_into(QRect(0, 24, 1280, 776))
    assert window.frameGeometry() == QRect(0, 24, 1280, 776), "the system's border is inside as well"
    window.resize(1100, 700)
    window.fit_into(QRect(0, 0, 1920, 1080))
    assert QRect(window.pos(), window.size()) == QRect(0, 24, 1100, 700)
    window.resize(4000, 3000)
    window.fit_screen()
    assert window.frameGeometry().bottom() <= window.screen().availableGeometry().bottom(), "the form's foot is seen"


def test_a_panel_folded_by_rule_unfolds_by_hand(open_window: Opener) -> None:
    window = open_window(size=(1024, 700)).window
    window.actions_["lab_panel"].trigger()
    assert window.lab.isVisible()
    window.lab.fold.click()
    assert not window.lab.isVisible()


def test_runs_that_a_person_unfolds_or_folds_stay_so_on_every_page_of_plots(open_window: Opener) -> None:
    window = open_window(fakes.example_session(), exercise="linear-regression", size=(1280, 800)).window
    window.run_view.controls.offer_pages(offered(find_card(load_builtin().exercises, "linear-regression")))
    pages, table = window.run_view.controls.pages, window.bottom.table
    for unfolded in (True, False):
        window.bottom.fold.click()
        for page in ("surface", "curves"):
            pages.chosen.emit(page)
            assert table.isVisible() is unfolded


def test_closing_with_a_run_at_work_is_explained_once(open_window: Opener) -> None:
    memory = NoMemory(WindowState(width=1440, height=900))
    program = open_window(fakes.example_session(), memory=memory)
    program.window.close()
    assert program.window.isVisible()
    dialog = next(d for d in program.window.findChildren(QDialog) if d.isVisible())
    dialog.accept()
    QApplication.processEvents()
    assert not program.window.isVisible()
    assert session_of(program).closed
    assert memory.state.told_runs_go_on


def test_beside_the_file_there_are_scripts_with_the_values_of_the_next_run(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cards = tuple(find_card(load_builtin().exercises, name) for name in ("softmax", "ps-lab"))
    program = open_window(catalogue=Catalogue(chapters=("Convergence", "Many devices"), exercises=cards))
    program.window.next_run.use_rate(0.25)
    program.window.actions_["code"].trigger()
    dialog = dialog_of(program, CodeDialog)
    assert isinstance(dialog, CodeDialog)
    assert dialog.text.shown == cards[0].source
    assert dialog.foot.whole() == f"SHA-256 {cards[0].source_hash}"
    QApplication.processEvents()
    before = dialog.pages.geometry()
    dialog.pages.button("keras").click()
    QApplication.processEvents()
    assert dialog.pages.geometry() == before, "nothing moves under the pointer"
    assert dialog.foot.whole() == "", "that was of the exercise's file"
    assert "LEARNING_RATE = 0.25\n" in dialog.text.shown
    assert "model.fit(" in dialog.text.shown
    assert dialog.sentence.text().startswith(
        "The same model, trained by Keras' own fit, with the values of the next run"
    )
    assert dialog.machine.isHidden()
    dialog.pages.button("job").click()
    assert dialog.machine.currentText() == "MinoTauro (BSC)"
    assert "# @ features = k80" in dialog.text.shown
    dialog.machine.setCurrentIndex(dialog.machine.findData("bluewaters"))
    assert "#PBS -l nodes=1:ppn=16:xk" in dialog.text.shown
    written: list[tuple[str, Callable[[Path], None]]] = []
    monkeypatch.setattr(verbs, "ask_and_write", lambda *words: written.append((words[2], words[4])))
    dialog.save.click()
    written[0][1](tmp_path / "job")
    assert (written[0][0], (tmp_path / "job").read_text()) == ("softmax-job.sh", dialog.text.shown)
    program.controller.open_exercise("ps-lab")
    program.window.actions_["code"].trigger()
    (other,) = (one for one in program.window.findChildren(CodeDialog) if one.isVisible())
    assert other.pages.isHidden()


def test_no_two_menu_entries_share_a_shortcut(softmax: Program) -> None:
    actions = softmax.window.actions_
    keys = [key.toString() for name in actions for key in actions[name].shortcuts()]
    assert len(keys) == len(set(keys))


def test_shortcuts_are_listed(softmax: Program) -> None:
    softmax.window.actions_["shortcuts"].trigger()
    dialog = dialog_of(softmax, TextDialog)
    assert isinstance(dialog, TextDialog)
    dialog.copy()
    text = QGuiApplication.clipboard().text()
    assert f"{QKeySequence('Ctrl+Return').toString(QKeySequence.SequenceFormat.NativeText)}: Run" in text


def test_the_log_of_the_selected_run(busy: Program) -> None:
    busy.window.actions_["log"].trigger()
    assert "compiled the training step" in busy.window.bottom.log.toPlainText()


def test_states_have_words_and_shapes_not_only_colours(busy: Program) -> None:
    rows = {row.number: row for row in busy.window.bottom.model.rows()}
    words = {row.text("state").split()[0] for row in rows.values()}
    assert words == {"Queued", "Running", "Stopped", "Failed", "Finished"}
    assert rows[4].text("state") == "Failed loss is NaN at step 212"
    assert rows[3].text("state") == "Finished 1 of 2 goals reached"


def test_no_widget_is_left_without_a_parent(busy: Program) -> None:
    mine = {id(busy.window), *(id(child) for child in busy.window.findChildren(QWidget))}
    stray = [w for w in QApplication.topLevelWidgets() if id(w) not in mine and w.isVisible()]
    assert stray == []
