"""What the window says of runs that ended while nobody looked at it."""

from __future__ import annotations

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication

from clew_gui.app import Program
from clew_gui.base.settings import local_settings
from clew_gui.views.actions.dialogs import SettingsDialog
from clew_shared.journal.events import Diverged, RunState
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession


class Watched:
    """A window in the background with its messages."""

    def __init__(self, program: Program, session: FakeSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program, self.session = program, session
        self.active = False
        monkeypatch.setattr(QGuiApplication, "applicationState", self._application)

    def _application(self) -> Qt.ApplicationState:
        state = Qt.ApplicationState
        return state.ApplicationActive if self.active else state.ApplicationInactive

    def tick(self, **changes: object) -> list[str]:
        """What the window says when it comes to the front now."""
        self.session.tell(**changes)
        self.program.controller.bridge.tick()
        messages = self.program.window.messages
        messages.hide()
        QGuiApplication.instance().applicationStateChanged.emit(Qt.ApplicationState.ApplicationActive)  # type: ignore[union-attr]
        return messages.line.text.text().split("\n") if messages.isVisible() else []

    def end(self, run: FakeRun, state: RunState = RunState.FINISHED) -> list[str]:
        run.end(state)
        return self.tick(states=frozenset({run.id}))


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def watched(session: FakeSession, open_window: Opener, monkeypatch: pytest.MonkeyPatch) -> Watched:
    old = session.add()
    old.begin(500)
    old.end(RunState.FINISHED)
    return Watched(open_window(session), session, monkeypatch)


def begun(watched: Watched, study: str = "") -> FakeRun:
    run = watched.session.add()
    if study:
        run.spec = msgspec.structs.replace(run.spec, study=study)
    run.begin(500)
    run.train(10)
    watched.tick(new=frozenset({run.id}), states=frozenset({run.id}))
    return run


def test_the_end_of_a_run_is_said_once_and_not_to_who_looks_at_the_window(watched: Watched) -> None:
    first, second = begun(watched), begun(watched)
    assert watched.end(first) == ["Run 2: Finished, all 500 steps"]
    assert watched.tick(states=frozenset({first.id})) == []
    watched.active = True  # the window itself, or a dialog of it
    assert watched.end(second, RunState.FAILED) == []


def test_a_divergence_is_said_while_the_run_goes_on(watched: Watched) -> None:
    run = begun(watched)
    run.history.feed(1, Diverged(metric="loss", value="NaN", step=7))
    assert watched.tick(points=frozenset({run.id})) == ["Run 2 diverged at step 7"]
    assert watched.tick(points=frozenset({run.id})) == []


def test_of_a_study_the_last_end_speaks_for_all(watched: Watched) -> None:
    runs = [begun(watched, "sweep-1") for _ in range(3)]
    assert watched.end(runs[0]) == watched.end(runs[1], RunState.FAILED) == []
    assert watched.end(runs[2]) == ["All 3 runs have ended, 2 of them finished"]


def test_whoever_wants_no_messages_gets_none(watched: Watched) -> None:
    watched.program.actions.show_settings()
    (dialog,) = watched.program.window.findChildren(SettingsDialog)
    assert dialog.switches["notices"].isChecked()
    dialog.switches["notices"].setChecked(False)
    dialog.accept()
    assert watched.end(begun(watched)) == []
    assert local_settings(watched.program.places).load().advice, "the other settings stay"
