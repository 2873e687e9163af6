"""What the window remembers when it is closed and opened again, and that nothing in it moves by itself."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PySide6.QtCore import QPoint, QRect, Qt, QTimer
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.settings import SettingsFile
from clew_gui.charts.compare import STEPS_TO
from clew_gui.views.actions import files
from clew_gui.views.actions.controller import SECOND_TICKS
from clew_gui.views.actions.dialogs import CodeDialog
from clew_gui.views.presentation.menu_entries import RemedyButton
from clew_gui.views.tabs.compare import CompareTab
from clew_gui.views.window.window_state import CompareState, NoMemory, WindowState
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue, ExerciseCard, Goal
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.window.test_window import session_of, tell, tick

MORE = {"told_runs_go_on": True, "width": 1280, "height": 800}


def looks(program: Program) -> dict[str, object]:
    """What a person sees of the open exercise."""
    window = program.window
    QApplication.processEvents()
    plots = program.window.run_view.plots
    assert plots is not None
    return {
        "title": window.head.title.text(),
        "tab": window.head.tabs.currentIndex(),
        "goal": window.head.goal.accessibleName(),
        "card": window.run_view.card.title.text(),
        "curves": {(style.run_id, style.label, style.selected) for style in plots.canvas.runs},
        "unit": plots.canvas.view.unit,
        "smoothing": window.run_view.controls.smoothing.value(),
        "rows": [row.number for row in window.bottom.model.rows()],
        "current": window.bottom.table.current(),
        "log": window.bottom.tabs.currentIndex(),
        "form": window.next_run.spec(),
        "preset": window.next_run.preset.currentText(),
        "data": window.next_run.data_choice.combo.currentText(),
        "ticks": [
            window.bottom.model.data(window.bottom.model.index(n, 0), Qt.ItemDataRole.CheckStateRole) for n in (0, 1)
        ],
    }


def test_a_restart_in_the_middle_of_a_sitting_changes_nothing(open_window: Opener, tmp_path: Path) -> None:
    session = fakes.example_session()
    for exercise in ("linear-regression", "cnn", "cnn", "cnn"):
        run = session.add(exercise, learning_rate=0.01)
        run.begin(100)
        run.end()
    mine = tmp_path / "mine.npz"
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 255, (60, 28, 28), dtype=np.uint8), np.arange(60, dtype=np.uint8) % 10
    np.savez(mine, x_train=images, y_train=labels, x_test=images, y_test=labels)
    memory: SettingsFile[WindowState] = SettingsFile(tmp_path / "window.toml", WindowState)
    memory.save(WindowState(**MORE))  # type: ignore[arg-type]
    first = open_window(session, memory=memory)
    controller, window = first.controller, first.window
    numbers = {run.number: run.id for run in session.runs.values()}
    window.next_run.data_choice.use(str(mine))
    window.next_run.form.row("steps").editor.set_value(2000)
    controller.select(numbers[3])
    controller.show_curve(numbers[5], True)
    controller.show_curve(numbers[2], False)
    window.bottom.table.sortByColumn(5, Qt.SortOrder.AscendingOrder)
    window.run_view.controls.units.button("epoch").click()
    window.run_view.controls.smoothing.setValue(20)
    controller.open_exercise("cnn")
    controller.select(numbers[9])
    window.next_run.form.row("optimizer").editor.set_value("nadam")
    controller.open_exercise("linear-regression")
    controller.select(numbers[1])
    before = {}
    for exercise in ("linear-regression", "cnn", "softmax"):
        controller.open_exercise(exercise)
        before[exercise] = looks(first)
    first.window.close()

    again = open_window(session, memory=SettingsFile(tmp_path / "window.toml", WindowState), exercise="")
    assert looks(again) == before["softmax"]
    for exercise in before:
        again.controller.open_exercise(exercise)
        assert looks(again) == before[exercise]


SCALES = {"softmax test_accuracy": True}


def test_a_window_that_is_killed_loses_nothing_of_the_sitting(open_window: Opener, tmp_path: Path) -> None:
    file = tmp_path / "window.toml"
    SettingsFile(file, WindowState).save(WindowState(**MORE))  # type: ignore[arg-type]
    first = open_window(fakes.example_session(), memory=SettingsFile(file, WindowState))
    first.window.next_run.form.row("steps").editor.set_value(2000)
    first.tab(CompareTab).open()
    view = first.tab(CompareTab)
    view.pages.button("scatter").click()
    view.sets.button("listed").click()
    view.colour.setCurrentIndex(view.colour.findData("optimizer"))
    view.across.setCurrentIndex(view.across.findData(STEPS_TO))
    view.target.setText("0.9")
    view.log.click()
    first.window.run_view.controls.smoothing.setValue(20)
    kept = []
    for _ in range(3 * SECOND_TICKS):
        first.controller.bridge.tick()
        kept.append(file.read_bytes())
    left = SettingsFile(file, WindowState).load()
    assert (left.forms["softmax"]["params"]["steps"], left.tab, left.smoothing) == (2000, 2, 0.2)
    assert left.compare == CompareState(
        "scatter", "listed", colour="optimizer", x=STEPS_TO, target="0.9", scales=SCALES
    )
    assert len(set(kept)) <= 2, "what rests is written once"

    again = open_window(fakes.example_session(), memory=SettingsFile(file, WindowState), exercise="")
    second = again.tab(CompareTab)
    assert (second.page(), second.sets.current(), second.options()) == (
        view.page(),
        view.sets.current(),
        view.options(),
    )


def test_a_run_that_is_still_being_read_is_not_taken_for_one_at_work(open_window: Opener) -> None:
    """Journals are read one after the other: half a journal ends while its run trained."""
    session = fakes.FakeSession()
    session.set_link("CONNECTING")
    program = open_window(session)
    runs = [session.add() for _ in range(4)]
    tell(program, new=frozenset(run.id for run in runs))
    for run in (runs[1], runs[3], runs[0], runs[2]):
        run.reading = 0.5
        run.begin()
        tell(program, states=run.id, new=run.id)
        run.reading = None
        run.end()
        tell(program, states=run.id)
    assert program.controller.model.run() is runs[3], "the latest"


def test_runs_have_the_same_colours_in_the_next_window(open_window: Opener) -> None:
    session = fakes.FakeSession()
    runs = [session.add().begin(10).train(10).end() for _ in range(3)]
    program = open_window(session)
    for place, on in ((0, False), (1, False), (2, True), (1, True), (0, True)):
        program.controller.show_curve(runs[place].id, on)
    styles = program.controller.model.styles()
    assert sorted(styles.values()) == [0, 1, 2]
    kept = msgspec.to_builtins(program.saved_state())
    later = fakes.FakeSession()
    later.set_link("CONNECTING")
    again = open_window(later, memory=NoMemory(msgspec.convert(kept, WindowState)))
    for run in runs:  # known one after the other
        later.runs[run.id] = run
        tell(again, new=run.id)
        assert again.controller.model.styles()[run.id] == styles[run.id]
    later.set_link("LIVE")
    assert again.controller.model.styles() == styles


def test_the_run_that_was_selected_is_waited_for_while_runs_are_read(open_window: Opener) -> None:
    session = fakes.FakeSession()
    program = open_window(session, memory=None)
    first, second = session.add(), session.add()
    tell(program, new=frozenset((first.id, second.id)))
    program.controller.select(first.id)
    kept = msgspec.to_builtins(program.saved_state())
    later = fakes.FakeSession()
    later.set_link("CONNECTING")
    next_window = open_window(later, memory=NoMemory(msgspec.convert(kept, WindowState)))
    for run in (second, first):
        later.runs[run.id] = run
        tell(next_window, new=run.id)
        assert next_window.controller.model.run() is (first if run is first else None)

    # One that is gone is waited for until all are known.
    without = fakes.FakeSession()
    without.set_link("CONNECTING")
    third = open_window(without, memory=NoMemory(msgspec.convert(kept, WindowState)))
    without.runs[second.id] = second
    tell(third, new=second.id)
    assert third.controller.model.run() is None
    without.set_link("LIVE")
    tell(third, link=True)
    assert third.controller.model.run() is second


def test_messages_move_nothing_and_stay_until_they_are_read(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_window(fakes.example_session(), size=(1280, 800)).window
    monkeypatch.setattr(window.messages, "underMouse", lambda: False)

    def places() -> list[QRect]:
        widgets: list[QWidget] = [window.next_run.run, window.head, window.bottom, window.lab]
        return [QRect(widget.mapTo(window, QPoint()), widget.size()) for widget in widgets]

    before = places()
    window.messages.show_problems((Problem("run.nan", "Loss became NaN. " * 20, "Take a smaller rate. " * 5),))
    QApplication.processEvents()
    assert places() == before
    bar = window.messages
    assert bar.isVisible()
    assert window.rect().contains(QRect(bar.mapTo(window, QPoint()), bar.size()))
    assert bar.line.text.height() >= bar.line.text.heightForWidth(bar.line.text.width()), "all can be read"
    fakes.end_note(bar)
    assert bar.isVisible()
    bar.show_note("Written.")
    fakes.end_note(bar)
    assert "Loss became NaN" in bar.accessibleName()
    bar.dismiss()
    assert not bar.isVisible()
    assert places() == before


def test_messages_are_as_high_as_their_words_need_and_leave_the_table_free(open_window: Opener) -> None:
    window = open_window(fakes.example_session(), size=(1280, 800)).window
    bar, ways = window.messages, [RemedyButton(text, lambda: None) for text in ("Use Digits", "A path on the site…")]
    bar.remedies = lambda found, _run: ways if found.code == "several" else ways[:1] if found.code == "one" else ()
    words = "The data set 'mnist' was not found on The Cave, and no file of this computer was given for it. " * 2
    heights: dict[str, set[int]] = {}
    for code in ("none", "one", "several", "none", "one"):
        bar.show_problems((Problem(code, "Short." if code == "none" else words, "" if code == "none" else words),))
        QApplication.processEvents()
        for text in (bar.line.text, bar.line.hint):
            assert text.isHidden() or text.height() >= text.heightForWidth(text.width()), "all can be read"
        heights.setdefault(code, set()).add(bar.height())
        lower = bar.mapTo(window, QPoint(0, bar.height())).y()
        assert lower <= window.bottom.mapTo(window, QPoint()).y()
    assert len(heights["none"]) == 1, "what was shown before leaves no room behind"


def test_a_servers_text_stays_until_it_is_dismissed_and_can_be_copied(open_window: Opener) -> None:
    bar, text = open_window(fakes.example_session()).window.messages, "lab says:\nVisit https://login.example.org"
    timer = bar.findChild(QTimer, "message lapse")
    assert timer is not None
    bar.show_note("Written.")
    assert timer.isActive()
    bar.show_note(text)
    assert not timer.isActive()
    bar.line.copy.click()
    assert QGuiApplication.clipboard().text() == text
    bar.dismiss()
    assert not bar.isVisible()


def test_a_written_file_and_its_folder_can_be_opened(
    open_window: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, opened = open_window(fakes.example_session()).window, list[str]()
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile()))
    for button in (0, 1):
        files.write_and_report(window, tmp_path / "a b.csv", lambda path: path.touch())
        line = window.messages.line
        assert [one.accessibleName() for one in (line.help, *line.more)] == ["Open", "Show in folder"]
        (line.help, *line.more)[button].click()
        assert not window.messages.isVisible()
    assert opened == [str(tmp_path / "a b.csv"), str(tmp_path)]


def test_what_is_said_in_one_exercise_does_not_stay_over_another(open_window: Opener) -> None:
    program = open_window(fakes.example_session())
    messages = program.window.messages
    messages.show_note("Written: plot.png")
    program.controller.open_exercise("cnn")
    assert not messages.isVisible()
    messages.show_note("Taken out.", undo=lambda: None)
    program.controller.open_exercise("softmax")
    assert messages.isVisible(), "it can still be taken back"
    program.actions._offer_back(program.window.next_run.spec())
    program.controller.open_exercise("cnn")
    assert not messages.isVisible(), "the values of another exercise"
    program.controller.open_exercise("softmax")
    tell(program, problems=(Problem("data.missing", "Not sent."),))
    assert messages.isVisible()
    program.controller.open_exercise("cnn")
    assert not messages.isVisible()
    tell(program, problems=(Problem("session.disk", "The disk is full."),))
    program.controller.open_exercise("softmax")
    assert "The disk is full" in messages.accessibleName(), "that is about all"


def test_a_message_belongs_to_its_run(open_window: Opener) -> None:
    program = open_window(fakes.example_session())
    session, messages = session_of(program), program.window.messages
    program.window.next_run.ask_run()
    tick(program)
    run = max(session.runs.values(), key=lambda one: one.number)
    program.controller.select(next(iter(one.id for one in session.runs.values() if one.number == 2)))
    run.begin()
    run.end(RunState.FAILED, "Loss became NaN.")
    session.tell(states=frozenset({run.id}))
    program.controller.open_exercise("cnn")
    tick(program)
    assert not messages.isVisible()
    program.controller.open_exercise("softmax")
    assert "Loss became NaN" in messages.accessibleName()
    messages.line.help.click()
    assert program.controller.model.run() is run
    assert program.window.bottom.log.isVisible()
    assert messages.problems() == ()


def test_a_double_click_runs_once(softmax: Program) -> None:
    now = [100.0]
    form = softmax.window.next_run
    form.clock = lambda: now[0]
    QTest.mouseDClick(form.run, Qt.MouseButton.LeftButton)
    form.ask_run()
    now[0] += 0.4
    form.ask_run()
    assert len(session_of(softmax).runs) == 1
    form.form.row("steps").editor.set_value(7)
    form.ask_run()
    assert len(session_of(softmax).runs) == 2, "other values are another run"
    now[0] += 0.6
    form.ask_run()
    assert len(session_of(softmax).runs) == 3


def test_a_double_click_runs_once_however_late_the_window_comes_to_it(softmax: Program) -> None:
    """The window system says when the clicks were made; the window's own clock is an hour further at the second."""
    hours = itertools.count()
    form, window = softmax.window.next_run, softmax.window
    form.clock = lambda: 3600.0 * next(hours)
    at = form.run.mapTo(window, form.run.rect().center())
    QTest.mouseDClick(window.windowHandle(), Qt.MouseButton.LeftButton, pos=at)
    assert len(session_of(softmax).runs) == 1
    QTest.mouseClick(window.windowHandle(), Qt.MouseButton.LeftButton, pos=at)
    assert len(session_of(softmax).runs) == 2


def test_tab_follows_the_eye(open_window: Opener) -> None:
    window = open_window(fakes.example_session()).window
    window.lab.search.setFocus()
    found: list[str] = []
    for _ in range(120):
        focus = QApplication.focusWidget()
        assert focus is not None
        name = focus.accessibleName()
        if name in found and name == found[0]:
            break
        found.append(name)
        QTest.keyClick(focus, Qt.Key.Key_Tab)
    eye = [
        "Exercises", "Views of this exercise", "Pause", "Smoothing", "Runs or log", "Runs of this exercise",
        "Preset", "Where to run", "Data set", "Batch size", "Order", "Steps", "Optimizer", "Learning rate", "Schedule",
        "Seed", "Run",
    ]  # fmt: skip
    assert [name for name in found if name in eye] == eye, found


def test_a_search_without_a_match_says_so_and_escape_shows_all(softmax: Program) -> None:
    lab = softmax.window.lab
    QTest.keyClicks(lab.search, "zebra")
    assert lab.none.text() == "No exercise matches “zebra”. Esc shows all."
    assert lab.none.isVisible()
    QTest.keyClick(lab.search, Qt.Key.Key_Escape)
    assert lab.search.text() == ""
    assert not lab.none.isVisible()
    assert not lab.tree.topLevelItem(0).isHidden()  # type: ignore[union-attr]


# --- Data -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("home")
def test_a_file_that_is_no_data_set_is_found_out_before_a_run(softmax: Program, tmp_path: Path, qtbot: QtBot) -> None:
    form = softmax.window.next_run
    theme = tmp_path / "theme.py"
    theme.write_text('"""Design tokens."""\n')
    form.data_choice.use(str(theme))
    assert not form.run.isEnabled(), "it is being looked into"
    qtbot.waitUntil(lambda: "is not a data set that Clew can read" in form.run.toolTip())
    assert form.data_choice.choose.isVisible()
    assert "mnist.pkl.gz" in form.data_choice.message.text()
    form.data_choice.use("digits")
    assert form.run.isEnabled()
    assert not form.data_choice.choose.isVisible()


def both() -> Catalogue:
    """Softmax with goals for either data set."""

    def goal(name: str, value: float, data: str) -> Goal:
        return Goal(id=name, text=f"{value:.0%}", metric="test_accuracy", op=">=", value=value, which="best", data=data)

    card: ExerciseCard = fakes.card(goals=(goal("large", 0.92, "mnist"), goal("small", 0.9, "digits")))
    return Catalogue(chapters=("Convergence",), exercises=(card,), version="test")


def test_a_goal_belongs_to_its_data_set(open_window: Opener) -> None:
    session = fakes.FakeSession()
    program = open_window(session, catalogue=both())
    window = program.window
    runs = [session.add(), session.add()]
    for run, data, value in zip(runs, ("mnist", "digits"), (0.91, 0.95), strict=True):
        run.spec = RunSpec(exercise="softmax", run=run.id, data=data)
        run.begin()
        run.train(50)
        run.evaluate(value)
        run.end()
    tell(program, new=frozenset(run.id for run in runs))
    assert window.head.goal.accessibleName() == "Goal 92%"
    rows = {row.number: row for row in window.bottom.model.rows()}
    assert (rows[1].reached, rows[1].data, rows[2].reached, rows[2].data) == (False, "MNIST", True, "Digits")
    state = window.bottom.model.index(1, 1)
    assert window.bottom.model.data(state, Qt.ItemDataRole.ToolTipRole).endswith("\nData: MNIST")
    window.next_run.data_choice.use("digits")
    assert window.head.goal.accessibleName() == "Goal 90% reached"
    assert window.head.goal.toolTip().splitlines()[0] == "Needs MNIST: 92%"
    assert window.run_view.card.data.accessibleName() == "Data set: Digits, built in"
    for run in runs:
        program.controller.show_curve(run.id, True)
    QApplication.processEvents()
    labels = [style.label for style in program.window.run_view.plots.canvas.runs]
    assert [label.rpartition(", ")[2] for label in labels] == ["MNIST", "Digits"]


def test_the_form_has_no_combo_that_ends_in_dots(open_window: Opener) -> None:
    window = open_window(size=(1280, 800)).window
    window.next_run.data_choice.use(sys.executable)
    assert isinstance(window.next_run.data_choice.combo, QComboBox)
    assert window.next_run.data_choice.combo.currentText() == Path(sys.executable).name


# --- The teacher's folder ---------------------------------------------------------------------------------------------


def test_a_broken_file_does_not_run_and_is_shown_at_the_line_of_the_error(softmax: Program) -> None:
    window, session = softmax.window, session_of(softmax)
    source = "".join(f"x{number} = {number}\n" for number in range(1, 120))
    text = "own.py, line 67: SyntaxError: invalid syntax."
    broken = Problem("exercise.broken", text, "Fix the file.", "own.py:67")
    before = fakes.catalogue()

    def folder_has(card: ExerciseCard) -> None:
        tell(softmax, catalogue=Catalogue(chapters=before.chapters, exercises=(*before.exercises, card)))

    own = fakes.card(id="own", title="own.py", guide="", source=source, problem=broken)
    folder_has(own)
    softmax.controller.open_exercise("own")
    assert not window.next_run.run.isEnabled()
    assert window.next_run.run.toolTip() == "This exercise cannot run yet."
    said = [one.text() for one in window.findChildren(QLabel) if one.isVisible() and text in one.text()]
    assert len(said) == 1, "one sentence on one screen"
    assert window.run_view.empty_view.title.text() == "This exercise cannot run yet."
    assert not window.run_view.empty_view.guide.isVisible()
    window.run_view.empty_view.code.click()
    (dialog,) = window.findChildren(CodeDialog)
    QApplication.processEvents()
    code, theme = dialog.text, window.appearance.theme
    tops = [code.cursorRect(code.document().find(text)).top() for text in ("67", "x67")]
    assert 0 < tops[0] < code.viewport().height()
    assert tops[0] == tops[1], "the number is beside its line"
    assert theme.bad_soft.lower() in code.toHtml().lower()
    window.run_view.empty_view.reload.click()
    assert session.asked == [("reload",)]
    reading = Problem("exercise.reading", "own.py is being read.", "This takes some seconds.", "own.py")
    folder_has(fakes.card(id="own", title="own.py", guide="", source=source, problem=reading))
    assert window.next_run.run.toolTip() == "own.py is being read."
    assert window.next_run.cost2.property("tone") == "2", "nothing is wrong"
    assert window.run_view.empty_view.title.text() == "This exercise is being read."
    state = softmax.controller.model.results.progress(softmax.controller.model.cards["own"], ())
    assert state.tick == "reading"
    assert window.messages.problems() == ()
    folder_has(fakes.card(id="own", title="My own", source="x = 1\n"))
    assert window.head.title.text() == "My own"
    assert window.next_run.run.isEnabled()


def test_keys_are_listed_by_group_with_those_of_the_plots(softmax: Program) -> None:
    groups = dict(softmax.window.actions_.shortcuts())
    assert list(groups) == ["Lab", "Run", "Cluster", "View", "Help", "Plots", "Panels"]
    assert ("Home", "Show everything again") in groups["Plots"]
    softmax.window.actions_["full_screen"].trigger()
    assert softmax.window.isFullScreen()
    softmax.window.actions_["full_screen"].trigger()
    assert not softmax.window.isFullScreen()
