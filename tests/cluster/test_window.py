"""The thread from the window: password and one-time code are typed into its dialogs, runs come back from a node, over
cuts and to a window that was closed and is opened again, which never waits; and the doctor's dialog."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from clew_gui.app import Program, build_app
from clew_gui.session.runs import RunModel
from clew_gui.sites.consent import consents, words_of
from clew_gui.sites.site import Site
from clew_gui.sites.site_file import read_site
from clew_gui.sites.store import site_store
from clew_gui.ssh.dial import PATIENCE_S
from clew_gui.ssh.prompts import NobodyToAsk, Prompt, PromptKind
from clew_gui.targets.local_agent import agent_program
from clew_gui.views.actions.site_actions import the_doctor
from clew_gui.views.form.form import FormDialog
from clew_gui.views.sites import prompts
from clew_gui.views.sites.doctor_dialog import DoctorDialog, Step
from clew_gui.views.sites.prompts import HostKeyDialog, PromptDialog, SecretDialog
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, to_toml
from tests.cluster.journey import ENDLESS, end_logins, judge, stand_in
from tests.cluster.lookout import Lookout, counted_squeue, look_out
from tests.cluster.mini import FOLDER, LIMIT_S, MiniCluster
from tests.gui.program_end import end_program
from tests.integration.agents import give_way
from tests.stand_in import FOLDER as STAND_IN

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]
RUN_S = 240.0
"""The agent is installed, and TensorFlow is imported for the first time, on a busy machine."""
SHORT = 200
"""Steps of a run that ends by itself."""
SIGNS = 6
"""Signs of life of an agent, a second apart at least: one that counts for nothing would have been asked about."""
COMPARED = ("exercise", "state", "steps", "metrics", "best")
"""Of a run's summary, what is the same wherever it trained."""
PASSWORD = "learning-rate-0.1"  # the mini cluster's, known to everybody


def answer(dialog: Dialog, cluster: MiniCluster) -> None:
    """Trust the host key, or type the password or the code of this moment."""
    if isinstance(dialog, HostKeyDialog):
        dialog.trust.click()
    elif isinstance(dialog, SecretDialog):
        name = dialog.field.accessibleName()
        QTest.keyClicks(dialog.field, PASSWORD if name == "Password" else cluster("code"))
        dialog.go.click()


class Here:
    """The next run's values with ``SHORT`` steps, trained on this computer by its own agent meanwhile."""

    def __init__(self, spec: RunSpec, folder: Path) -> None:
        params = {**spec.params, "steps": SHORT}
        file, self._folder = folder / "spec.toml", folder / "here"
        file.write_text(to_toml(msgspec.structs.replace(spec, run=str(uuid.uuid4()), params=params)))
        places = Places(folder / "home", folder / "private")
        words = [*agent_program(places), "run", str(file), "--out", str(self._folder), "--quiet"]
        environment = os.environ | {"PYTHONPATH": str(STAND_IN)}
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment)

    def summary(self) -> dict[str, object]:
        """What it came to."""
        assert self.process.wait(RUN_S) == 0
        return summary(read_run(self._folder), self._folder)


@contextmanager
def trained_here(student: Student, folder: Path) -> Iterator[Here]:
    """The run of the form, with nobody waiting for it."""
    here = Here(student.window.next_run.spec(), folder)
    try:
        yield here
    finally:
        here.process.terminate()  # a trainer of its would outlive a harder end
        here.process.wait(LIMIT_S)


class Student:
    """Answers what the window asks, each question once."""

    def __init__(self, qtbot: QtBot, places: Places, cluster: MiniCluster) -> None:
        self._qtbot, self._cluster, self._places = qtbot, cluster, places
        self.seen: list[PromptDialog] = []
        self.open()

    def open(self) -> None:
        """Begin the program."""
        memory = NoMemory(WindowState(told_runs_go_on=True))
        self.program: Program = build_app(self._places, memory=memory, theme="light", exercise="softmax")
        self.window = self.program.window
        with self._qtbot.waitExposed(self.window):
            self.window.show()

    def close(self) -> None:
        """End it."""
        end_program(self.program)

    def until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Let the window live, and answer, until something is so."""
        deadline = time.monotonic() + limit_s
        while not condition():
            told = [str(problem) for problem in self.window.messages.problems()]
            assert time.monotonic() < deadline, f"{told}, {self.window.top.fact('link')}, asked {len(self.seen)}"
            self._answer()
            self._qtbot.wait(30)

    def _answer(self) -> None:
        dialog = self.program.asker.dialog
        if not isinstance(dialog, PromptDialog) or dialog in self.seen or not dialog.isVisible():
            return
        self.seen.append(dialog)
        answer(dialog, self._cluster)

    def run(self) -> RunModel:
        """The selected run."""
        run = self.program.controller.model.run()
        assert isinstance(run, RunModel)
        return run

    def step(self) -> int:
        """How far the selected run is; 0 without one."""
        return self.run().history.fold.step if self.program.controller.model.run() is not None else 0

    def sent(self) -> bool:
        """Whether the scheduler has the selected run's job."""
        job = self.run().job
        return job is not None and bool(job.id)

    def word(self) -> str:
        """What the run's card says."""
        return self.window.run_view.card.pill.accessibleName().removeprefix("State: ")


@contextmanager
def sit_down(
    cluster: MiniCluster, qtbot: QtBot, folder: Path, monkeypatch: pytest.MonkeyPatch, *modules: str
) -> Iterator[Student]:
    """At the laptop, with a site that wants a password and a code, and loads these modules as well. No agent of this
    computer comes up."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("clew_gui.targets.target.agent_command", lambda _places: ["sleep", "1000"])
    places = Places(folder / "home", folder / "private")
    site = read_site(FOLDER / "sites/minicluster-otp.toml")
    prologue = stand_in(cluster.student_home())
    mine = msgspec.structs.replace(site, host="10.77.0.1", modules=(*site.modules, *modules), prologue=prologue)
    consents(places).give(words_of(mine))
    site_store(places).save("otp", mine)
    with cluster.network("laptop"):
        one = Student(qtbot, places, cluster)
        yield one
        one.close()
    end_logins(places)
    for sleeper in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # what held the login goes just now
            if sleeper.name() == "sleep":
                sleeper.kill()
                sleeper.wait(LIMIT_S)


@pytest.fixture
def student(cluster: MiniCluster, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Student]:
    """A student at the laptop."""
    with sit_down(cluster, qtbot, tmp_path, monkeypatch) as one:
        yield one


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[PromptKind]:
    """What the window was asked to ask, in this order."""
    kinds: list[PromptKind] = []
    show = prompts.WindowPrompter.ask

    def ask(self: prompts.WindowPrompter, prompt: Prompt) -> str | None:
        kinds.append(prompt.kind)
        return show(self, prompt)

    monkeypatch.setattr(prompts.WindowPrompter, "ask", ask)
    return kinds


@pytest.fixture
def lookout(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lookout]:
    """Sees what waits for the network, and the window's loop."""
    with look_out(monkeypatch) as lookout:
        yield lookout


@pytest.fixture
def calls(cluster: MiniCluster) -> Iterator[Callable[[], int]]:
    """How often the scheduler was asked."""
    with counted_squeue(cluster) as count:
        yield count


def test_a_window_asks_once_each_and_its_runs_come_whole_over_a_cut_and_after_it_was_closed(
    cluster: MiniCluster,
    calls: Callable[[], int],
    asked: list[PromptKind],
    lookout: Lookout,
    student: Student,
    tmp_path: Path,
) -> None:
    run = begin(student, ENDLESS)
    student.until(lambda: student.step() > 0, RUN_S)
    give_way(run)
    assert asked == [PromptKind.CONFIRM, PromptKind.PASSWORD, PromptKind.CODE]
    assert len(student.seen) == 3, "one dialog for each"
    leaves_the_scheduler_alone(student, cluster, lookout, calls)
    with trained_here(student, tmp_path) as here:
        short = begin(student, SHORT)
        student.until(student.sent, RUN_S)
        student.program.controller.select(run)
        goes_on_after_a_cut(student, cluster, lookout)
        student.program.controller.select(short)
        comes_to_its_end(student, cluster, here)
    assert len(asked) == len(student.seen) == 3, "a cut and another run ask nothing more"
    assert [one.dials for one in lookout.connections] == [1]
    assert lookout.in_window == []
    assert {"socket.recv", "Channel.recv", "ReconnectingConnection.run"} <= lookout.elsewhere

    student.program.controller.select(run)
    before = student.step()
    student.close()
    student.open()
    student.until(lambda: run in [one.id for one in student.program.controller.model.runs()], LIMIT_S)
    student.program.controller.select(run)
    student.until(lambda: student.step() > before and student.word() == "Running", RUN_S)
    assert len(asked) == len(student.seen) == 3, "a further program finds the login"
    student.window.actions_["stop"].trigger()
    student.until(lambda: student.word() == "Stopped" and student.run().complete, RUN_S)
    assert lookout.in_window == []
    judge(cluster.run_there(run), RunFolder(student.run().folder), student.run().history)


def begin(student: Student, steps: int) -> str:
    """Run on the cluster what the form says, for so many steps; the run, which is selected then."""
    form, before = student.window.next_run, set(student.program.controller.model.runs())
    form.where.choose("site:otp")
    form.data_choice.use("digits")
    form.form.row("steps").editor.set_value(steps)
    form.run.click()
    student.until(lambda: student.program.controller.model.run() not in {None, *before}, LIMIT_S)
    return student.run().id


def leaves_the_scheduler_alone(
    student: Student, cluster: MiniCluster, lookout: Lookout, calls: Callable[[], int]
) -> None:
    """Nobody asks it while the agent speaks, so nobody notices that it hangs."""
    student.until(lambda: lookout.heard > 0 and not lookout.busy, RUN_S)
    before, signs, step = calls(), lookout.heard, student.step()
    assert before > 0, "it was asked until then"
    with cluster.broken("controller-hangs"):
        student.until(lambda: lookout.heard >= signs + SIGNS and student.step() > step, RUN_S)
        assert calls() == before
        assert student.word() == "Running"


def goes_on_after_a_cut(student: Student, cluster: MiniCluster, lookout: Lookout) -> None:
    """A login that cost a code is waited for longer than others, and the window's loop lives meanwhile."""
    fact = student.window.top.fact
    student.until(lambda: "live, through 10.77.0.1" in fact("link"), RUN_S)
    with cluster.broken("cut", "laptop"):
        since = lookout.beats
        student.until(lambda: lookout.silent_s > PATIENCE_S and bool(lookout.in_vain(since)), RUN_S)
        assert min(lookout.in_vain(since)) > 0, "the window's loop goes on while the server does not answer"
        student.until(lambda: "No answer from" in fact("link"), RUN_S)
        step = student.step()
    student.until(lambda: student.step() > step or "log in" in fact("link"), RUN_S)
    assert student.step() > step
    student.until(lambda: "live, through 10.77.0.1" in fact("link"), RUN_S)


def comes_to_its_end(student: Student, cluster: MiniCluster, here: Here) -> None:
    """Another run, sent before the cut, ends by itself and has the numbers that it has on this computer."""
    student.until(lambda: student.word() == "Finished" and student.run().complete, RUN_S)
    found = student.run()
    judge(cluster.run_there(found.id), RunFolder(found.folder), found.history)
    mine, local = summary(found.history, found.folder), here.summary()
    assert [mine[name] for name in COMPARED] == [local[name] for name in COMPARED]
    assert (mine["state"], mine["steps"]) == ("FINISHED", SHORT)


def test_a_sweep_of_12_runs_that_was_killed_half_way_goes_on_and_does_nothing_twice(
    cluster: MiniCluster, student: Student
) -> None:
    """Two optimizers, three rates and two seeds in one allocation; what is left of it in a second one."""
    form, scope = student.window.next_run, student.program.controller.model
    form.where.choose("site:otp")
    form.data_choice.use("digits")
    form.form.row("steps").editor.set_value(20)
    dialog = sweep_dialog(student)
    dialog.form.row("optimizer").editor.set_value("sgd, adam")
    dialog.form.row("learning_rate").editor.set_value("0.01, 0.1, 0.5")
    dialog.form.row(".seeds").editor.set_value("1, 2")
    assert (dialog.go.text().strip(), dialog.go.isEnabled()) == ("Start 12 runs", True)
    dialog.go.click()

    def finished() -> set[str]:
        return {run.id for run in scope.runs() if run.state is RunState.FINISHED}

    student.until(lambda: len(finished()) >= 4, RUN_S)
    asked = {run.id for run in scope.runs()}
    (first,) = {run.job.id for run in scope.runs() if run.job is not None}
    assert len(asked) == 12, "one job for all"
    cluster.call("on", "login", "scancel", first, limit_s=LIMIT_S)
    student.until(
        lambda: all(run.state in TERMINAL and run.job is not None and run.job.over for run in scope.runs()), RUN_S
    )
    before = finished()
    assert 4 <= len(before) < 12, "it was killed half-way"

    student.window.run_view.study.go_on.click()
    student.until(lambda: len(finished()) == 12, RUN_S)
    student.until(lambda: all(run.complete for run in scope.runs()), RUN_S)
    runs = scope.runs()
    assert {run.id for run in runs} == asked, "no run was made again under another name"
    points = {(run.spec.params["optimizer"], run.spec.params["learning_rate"], run.spec.seed) for run in runs}
    assert len(points) == 12
    assert {run.history.fold.attempt for run in runs if run.id in before} == {1}, "what was finished stayed as it was"
    jobs = {run.job.id for run in runs if run.job is not None and run.id not in before}
    assert len(jobs) == 1, "one further job for what was left"
    assert first not in jobs
    for run in runs:
        folder = RunFolder(run.folder)
        judge(cluster.run_there(run.id), folder, run.history, len(folder.attempts()))


def sweep_dialog(student: Student) -> FormDialog:
    """The dialog behind the form's button."""
    student.window.next_run.sweep.trigger()
    return [one for one in student.window.findChildren(FormDialog) if one.isVisible()][-1]


def test_the_doctors_dialog_shows_what_the_doctor_finds(cluster: MiniCluster, qtbot: QtBot, tmp_path: Path) -> None:
    home = Path(cluster.info()["laptop_home"]) / ".ssh"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/known_hosts").write_bytes((home / "known_hosts").read_bytes())
    site = Site(host="10.77.0.1", user="student", key=str(home / "id_ed25519"), scheduler="slurm", modules=("nosuch",))
    places, parent = Places(tmp_path, tmp_path / "private"), QWidget()
    qtbot.addWidget(parent)

    def steps(stop: threading.Event, node: bool) -> Iterator[Step]:
        return the_doctor("ill", site, places, NobodyToAsk(), node, stop)

    with cluster.network("laptop"):
        dialog = DoctorDialog(parent, Appearance(), "The lab", steps)
        qtbot.waitUntil(lambda: not dialog.busy, timeout=round(LIMIT_S * 1000))
    found = {step.title: step.state for step in dialog.steps}
    assert (found["Login"], found["Scheduler"], found["Modules"], found["Node"]) == ("right", "right", "wrong", "open")
    assert "[x] Modules: The module nosuch cannot be loaded" in dialog.report()
