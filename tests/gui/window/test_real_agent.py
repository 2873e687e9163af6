"""The real window against a real agent that trains with TensorFlow, as a student uses it on the first day."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog
from pytestqt.qtbot import QtBot

from clew_gui.app import Program, build_app
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.runs import RunModel, find_demonstration
from clew_gui.targets.local_agent import find_agent
from clew_gui.views.form.fields import LaneEdit
from clew_gui.views.form.form import FormDialog
from clew_gui.views.plots.pages import SurfaceView
from clew_gui.views.tabs.cluster import ClusterTab
from clew_gui.views.tabs.speedup import SpeedupTab
from clew_shared.base.places import Places, find_places
from clew_shared.journal.lifecycle import RunState
from tests.gui.cputime import worst_event
from tests.gui.plots.test_surface import chart_of, taken
from tests.gui.program_end import end_program
from tests.integration.agents import BOUND_S, end_all, give_way

CPU_LIMIT_S = 0.050


class Student:
    """Presses what is on the screen, and waits until it says what was to be expected."""

    def __init__(self, qtbot: QtBot, places: Places) -> None:
        self._qtbot = qtbot
        self.program: Program = build_app(places, theme="light")
        self.window = self.program.window
        with qtbot.waitExposed(self.window):
            self.window.show()

    def until(self, condition: Callable[[], bool], what: str, bound: float = BOUND_S) -> None:
        """Let the window live until something is so."""
        deadline = time.monotonic() + bound
        while not condition():
            told = [problem.text for problem in self.window.messages.problems()]
            assert time.monotonic() < deadline, f"{what} did not happen; {told}, {self.window.top.fact('link')}"
            self._qtbot.wait(20)

    def look_for(self, words: str) -> None:
        """Open the exercise that a search finds first."""
        QTest.keyClick(self.window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClicks(self.window.lab.search, words)
        QTest.keyClick(self.window.lab.search, Qt.Key.Key_Return)

    @property
    def run(self) -> RunModel:
        """The selected run."""
        found = self.program.controller.model.run()
        assert found is not None
        return found

    def says(self, state: str) -> None:
        """Wait until the run's card shows this state."""
        self.until(lambda: self.window.run_view.card.pill.accessibleName() == f"State: {state}", state)

    def drawn(self) -> int:
        """How many values of the loss the plots draw of the selected run."""
        drawn = self.program.window.run_view.plots.canvas.drawn
        shown = [run.history.pyramid("loss") for run in drawn.scene.runs if run.selected] if drawn is not None else []
        return sum(len(curve) for curve in shown if curve is not None)

    def close(self) -> None:
        """Close the window as a person does, and say yes to the note about runs that go on."""
        self.window.close()
        for dialog in self.window.findChildren(QDialog):
            if dialog.isVisible():
                dialog.accept()
        self.until(lambda: not self.window.isVisible(), "the window's end")
        end_program(self.program)


@pytest.fixture
def new_student(qtbot: QtBot, home: object) -> Iterator[Callable[[], Student]]:
    """Opens windows one after the other; at the end they are closed, and the agent and its runs are ended."""
    students: list[Student] = []

    def open_one() -> Student:
        students.append(Student(qtbot, find_places()))
        return students[-1]

    yield open_one
    places = find_places()
    for student in students:
        if student.program.session is not None:
            for run in student.program.session.runs:
                end_all(run)
        end_program(student.program)
    address = find_agent(places)
    if address is not None:
        process = psutil.Process(address.pid)
        process.terminate()
        process.wait(BOUND_S)


@pytest.mark.timeout(600)
def test_a_first_day(new_student: Callable[[], Student]) -> None:
    student = new_student()
    window = student.window

    # Find softmax, take the tiny preset, change the learning rate and the length, press Run.
    student.look_for("softmax")
    assert window.head.title.text() == "Softmax on MNIST"
    form = window.next_run
    form.preset.setCurrentIndex(form.preset.findData("tiny"))
    form.preset.activated.emit(form.preset.currentIndex())
    form.data_choice.use("digits")
    form.form.row("learning_rate").editor.set_value(0.05)
    form.form.row("steps").editor.set_value(2_000_000)
    student.until(form.run.isEnabled, "the agent")
    QTest.keyClick(window, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)

    # Points appear, while no event takes the window more than 50 ms of CPU time.
    student.until(lambda: student.drawn() > 0, "the first points", 4 * BOUND_S)
    assert student.run.spec.params["learning_rate"] == 0.05
    give_way(student.run.id)

    def look_around() -> None:
        seen = student.drawn()
        student.until(lambda: student.drawn() > seen + 2000, "more points")
        window.run_view.controls.units.button("seconds").click()
        window.actions_["log"].trigger()
        student.until(lambda: "compiled" in window.bottom.log.toPlainText().lower(), "the log")
        window.bottom.tabs.setCurrentIndex(0)
        seen = student.drawn()
        student.until(lambda: student.drawn() > seen + 2000, "more points")
        window.run_view.controls.units.button("step").click()

    took, what = worst_event(look_around, CPU_LIMIT_S)
    assert took < CPU_LIMIT_S, f"{what} took {1000 * took:.0f} ms"

    # Pause: nothing comes any more. Resume: it goes on.
    window.run_view.card.pause.click()
    student.says("Paused")
    student.until(lambda: student.drawn() == student.run.history.fold.step, "the last point")
    seen = student.run.history.fold.step
    QTest.qWait(500)
    assert student.run.history.fold.step == seen
    window.run_view.card.pause.click()
    student.says("Running")
    student.until(lambda: student.run.history.fold.step > seen, "points after the pause")

    # Change the learning rate while it runs.
    window.run_view.card.rate.click()
    (dialog,) = [found for found in window.findChildren(FormDialog) if found.isVisible()]
    dialog.form.row("learning_rate").editor.set_value(0.01)
    dialog.go.click()
    student.until(lambda: bool(student.run.history.live), "the change")
    assert student.run.history.live[0].value == 0.01

    # Close the window: the run goes on. Open it again: the run is found, with every step.
    run, step = student.run.id, student.run.history.fold.step
    student.close()
    assert student.program.state.told_runs_go_on
    again = new_student()
    assert again.window.head.title.text() == "Softmax on MNIST"  # as it was left
    again.until(lambda: run in again.program.controller.model.session.runs, "the run")
    again.says("Running")
    assert again.run.id == run
    again.until(lambda: again.drawn() > step + 1000, "steps made meanwhile")
    curve = again.run.history.pyramid("loss")
    assert curve is not None
    assert int(curve.steps[-1]) == len(curve) - 1, "no step is missing"

    # Stop it after the block; it has a checkpoint to go on from.
    again.window.actions_["stop"].trigger()
    again.says("Stopped")
    assert again.run.state is RunState.STOPPED
    again.until(lambda: bool(again.run.history.checkpoints), "the checkpoint")
    again.until(again.window.run_view.card.go_on.isEnabled, "Continue")
    assert again.window.messages.problems() == ()
    again.close()
    QApplication.processEvents()
    assert [folder.name for folder in find_places().runs.iterdir()] == [run]


@pytest.mark.timeout(600)
def test_a_race_draws_its_paths_over_the_loss_surface(new_student: Callable[[], Student]) -> None:
    student = new_student()
    window, plots = student.window, student.program.window.run_view.plots
    student.look_for("linear")
    student.until(window.next_run.run.isEnabled, "the agent")
    window.next_run.race.trigger()
    (dialog,) = [found for found in window.findChildren(FormDialog) if found.isVisible()]
    lanes = len(dialog.findChildren(LaneEdit))
    dialog.go.click()
    window.run_view.controls.pages.button("surface").click()

    # The map stays; while lane after lane trains, paths grow over it, and each ends where its run ended.
    session = student.program.controller.model.session
    student.until(lambda: len(session.runs) == lanes, "all lanes")
    student.until(
        lambda: all(run.state is RunState.FINISHED for run in session.runs.values()), "the end of the race", 4 * BOUND_S
    )
    surface = plots.page_of(SurfaceView)
    for run in session.runs.values():
        student.until(lambda run=run: taken(surface, run.id) == 400, "the whole path")  # type: ignore[misc]
        head = next(head for head in chart_of(surface).heads() if head.run.run_id == run.id)
        assert [head.x, head.y] == [run.history.last("W"), run.history.last("b")]
    student.close()


@pytest.mark.timeout(600)
def test_a_speed_up_is_measured_with_one_click(new_student: Callable[[], Student]) -> None:
    student = new_student()
    window = student.window
    student.look_for("softmax")
    form = window.next_run
    form.preset.setCurrentIndex(form.preset.findData("tiny"))
    form.preset.activated.emit(form.preset.currentIndex())
    student.until(form.run.isEnabled, "the agent")
    window.actions_["speedup"].trigger()
    view = student.program.tab(SpeedupTab)
    view.repeats.setText("1")
    view.measure.click()
    student.until(lambda: view.sentence.text().startswith("Four devices share "), "a study of three runs", 4 * BOUND_S)
    assert [row[0] for row in view.table.texts] == ["Devices", "1", "2", "4"]
    assert view.canvases[0].isVisible()
    assert view.progress.whole() == ""


@pytest.mark.timeout(600)
def test_a_worker_is_slowed_and_one_killed_and_the_histogram_moves(new_student: Callable[[], Student]) -> None:
    student = new_student()
    window = student.window
    student.look_for("ps-lab")
    assert student.program.controller.model.card is not None
    assert student.program.controller.model.card.id == "ps-lab"
    form = window.next_run
    form.preset.setCurrentIndex(form.preset.findData("tiny"))
    form.preset.activated.emit(form.preset.currentIndex())
    form.spread.row("strategy").editor.set_value("parameter-server")
    form.form.row("steps").editor.set_value(1_000_000)
    student.until(form.run.isEnabled, "the agent")
    form.run.click()

    # One coordinator, one server and two workers on this computer, which train.
    student.until(lambda: student.program.tab(ClusterTab).offered(), "the tab")
    window.actions_["cluster"].trigger()
    view = student.program.tab(ClusterTab)
    student.until(lambda: len(student.run.history.peers) == 3, "the processes")
    student.until(lambda: student.run.state is RunState.RUNNING, "training")
    table = student.run.history.updates
    student.until(lambda: table.counts.applied > 100, "updates")
    assert view.caption.whole() == "asynchronous: 1 coordinator, 1 server, 2 workers on 1 node"
    assert [row.pill.accessibleName() for row in view.rows.values()] == ["State: Working"] * 4
    assert set(table.counts.shares()) == {0, 1}

    # One is slowed: while it computes, the other makes several updates.
    assert view.scene is not None
    before = view.scene.staleness
    assert before is not None
    view.rows["worker", 1].speed.button("5").click()
    student.until(lambda: view.rows["worker", 1].pill.accessibleName() == "State: Slowed ×5", "the slow worker")

    def latest() -> float:
        """The staleness of the slow worker's latest gradients."""
        return float(table.columns.staleness[table.columns.workers == 1][-10:].mean())

    student.until(lambda: latest() > 3, "stale gradients")

    def drawn_as_told() -> bool:
        """The outline of the histogram has the part of the latest updates in each bar; meanwhile others may arrive."""
        view.refresh()
        assert view.scene is not None
        plot = view.scene.staleness
        assert plot is not None
        updates = table.columns.take(slice(-plot.latest, None))
        stale = updates.staleness[updates.accepted]
        parts = [float(np.mean((stale >= bar.low) & (stale <= bar.high))) for bar in plot.bars]
        return plot.bars != before.bars and [bar.lately for bar in plot.bars] == pytest.approx(parts)

    student.until(drawn_as_told, "the histogram of the latest updates")

    # The other one is killed: a new process takes its place, and no update is lost or counted twice.
    view.rows["worker", 0].kill.click()
    news = student.run.history.peer_news
    student.until(lambda: ("killed", 0) in [(peer.status, peer.index) for peer in news], "the end of worker 0")
    student.until(lambda: ("replaced", 0) in [(peer.status, peer.index) for peer in news], "a new worker 0")
    ended = float(table.columns.ended[-1])
    student.until(lambda: bool((table.columns.workers[table.columns.ended > ended] == 0).any()), "its updates")
    steps = table.columns.steps[table.columns.accepted]
    assert steps.tolist() == list(range(len(steps)))
    student.until(lambda: view.events.item(0).text().endswith("worker 0 started again"), "the event in the list")
    window.actions_["stop_now"].trigger()
    student.until(lambda: student.run.state is RunState.STOPPED, "the end")
    student.until(lambda: not view.add.isEnabled(), "buttons that rest")


def test_a_recording_beside_an_agent_is_a_run_that_has_ended(new_student: Callable[[], Student]) -> None:
    student, folder = new_student(), find_demonstration("two-nodes")
    session, window = student.program.session, student.window
    student.program.open_file(str(folder))
    replay = window.run_view.plots.replay
    student.until(lambda: session.link.state is LinkState.LIVE, "the agent")
    student.until(lambda: (replay.chosen or 0) > 0, "its steps")
    student.says("Finished")
    assert (student.run.spec.name, student.run.where) == ("Recorded: Two nodes", "Recording")
    enabled = [name for name in ("try", "continue", "stop", "remove") if window.actions_[name].isEnabled()]
    assert enabled == ["remove"]
    window.actions_["remove"].trigger()
    window.messages.lapse()
    assert dict(session.runs) == {}
    assert (folder / "journal.0001").exists()
