"""The thread from the window: password and one-time code are typed into its dialogs, a run comes back from a node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.app import Program, build_app
from clew_gui.remote.prompts import Kind, Prompt
from clew_gui.remote.site_file import read_site
from clew_gui.remote.site_store import site_store
from clew_gui.views.sites import asker
from clew_gui.views.sites.prompt_dialogs import HostKeyDialog, PromptDialog, SecretDialog
from clew_gui.views.window_state import NoMemory, WindowState
from clew_shared.places import Places
from tests.cluster.mini import FOLDER, LIMIT_S, MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(400)]
RUN_S = 240.0
"""The agent is installed, and TensorFlow is imported for the first time, on a busy machine."""
PASSWORD = "learning-rate-0.1"  # the mini cluster's, known to everybody


class Student:
    """Answers what the window asks, each question once."""

    def __init__(self, qtbot: QtBot, places: Places, cluster: MiniCluster) -> None:
        self._qtbot, self._cluster = qtbot, cluster
        self.asked: list[str] = []
        self._seen: list[PromptDialog] = []
        memory = NoMemory(WindowState(told_runs_go_on=True))
        self.program: Program = build_app(places, memory=memory, theme="light", exercise="linear-regression")
        self.window = self.program.window
        with qtbot.waitExposed(self.window):
            self.window.show()
        self.until(lambda: self.program.sites is not None, LIMIT_S)

    def until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Let the window live, and answer, until something is so."""
        deadline = time.monotonic() + limit_s
        while not condition():
            told = [str(problem) for problem in self.window.messages.problems()]
            assert time.monotonic() < deadline, f"{told}, {self.window.status.text('link')}, asked {self.asked}"
            self._answer()
            self._qtbot.wait(30)

    def _answer(self) -> None:
        prompter = self.program.asker
        dialog = prompter.dialog if prompter is not None else None
        if not isinstance(dialog, PromptDialog) or dialog in self._seen or not dialog.isVisible():
            return
        self._seen.append(dialog)
        if isinstance(dialog, HostKeyDialog):
            dialog.trust.click()
        elif isinstance(dialog, SecretDialog):
            name = dialog.field.accessibleName()
            QTest.keyClicks(dialog.field, PASSWORD if name == "Password" else self._cluster("code"))
            dialog.go.click()

    def word(self) -> str:
        """What the run's card says."""
        return self.window.run_view.card.pill.accessibleName().removeprefix("State: ")


@pytest.fixture
def student(cluster: MiniCluster, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Student]:
    """Sits at the laptop, with a site that wants a password and a code. No agent of this computer comes up."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("clew_gui.remote.target.agent_command", lambda _places: ["sleep", "1000"])
    places = Places(tmp_path / "home", tmp_path / "private")
    site = read_site(FOLDER / "sites/minicluster-otp.toml")
    site_store(places).save("otp", msgspec.structs.replace(site, host="10.77.0.1"))
    with cluster.network("laptop"):
        one = Student(qtbot, places, cluster)
        yield one
        one.window.close()
        one.program.close()
    one.window.deleteLater()
    one.program.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    for sleeper in psutil.Process().children():
        if sleeper.name() == "sleep":
            sleeper.kill()
            sleeper.wait(LIMIT_S)


def test_a_run_on_a_node_asks_for_the_key_the_password_and_a_code_once_each(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Kind] = []
    show = asker.WindowPrompter.ask

    def ask(self: asker.WindowPrompter, prompt: Prompt) -> str | None:
        asked.append(prompt.kind)
        return show(self, prompt)

    monkeypatch.setattr(asker.WindowPrompter, "ask", ask)
    form = student.window.next_run
    form.where.choose("site:otp")
    form.form.row("steps").editor.set_value(200)
    form.run.click()
    student.until(lambda: student.word() in ("Finished", "Failed", "Lost", "Stopped", "Timed out"), RUN_S)
    run = student.program.desk.scope.run()
    assert run is not None
    assert (student.word(), run.history.fold.step) == ("Finished", 200), run.reason
    assert asked == [Kind.CONFIRM, Kind.PASSWORD, Kind.CODE]
    assert len(student._seen) == 3, "one dialog for each"
