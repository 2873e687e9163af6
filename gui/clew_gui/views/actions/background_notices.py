"""Says what became of runs while the window was in the background: the end, a divergence, a job's start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from clew_gui.session.intake import Changes
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.presentation import words
from clew_shared.journal.lifecycle import TERMINAL, RunState

_MOST = 6
"""The lines of which the latest are kept."""
_STARTED = (RunState.STARTING, RunState.PREPARING, RunState.RUNNING)


class _Known(NamedTuple):
    state: RunState
    diverged: bool


class BackgroundNotices(QObject):
    """Watches the runs of ``controller``. ``wanted`` says whether a person wants messages. The window's entry in the
    system's bar is marked at once, and the window says it when it comes back to the front.

    The runs of a study are many: the last one to end speaks for all.
    """

    def __init__(self, controller: WindowController, wanted: Callable[[], bool]) -> None:
        super().__init__(controller.window)
        self._controller, self._wanted = controller, wanted
        self._missed: list[str] = []
        self._known: dict[str, _Known] = {}
        self._look(self._runs.values(), silent=True)
        controller.bridge.news.connect(self._take_in)
        QApplication.instance().applicationStateChanged.connect(self._app_changed)  # type: ignore[union-attr]

    @property
    def _runs(self) -> Mapping[str, RunModel]:
        return self._controller.model.session.runs

    def _take_in(self, changes: Changes) -> None:
        for ids in (changes.new, changes.states | changes.points):
            self._look((self._runs[one] for one in ids if one in self._runs), silent=ids is changes.new)

    def _look(self, runs: Iterable[RunModel], silent: bool) -> None:
        for run in runs:
            if run.reading is not None or run.unread:
                continue  # what is read of an earlier run is no news
            now = _Known(run.state, bool(run.history.first_nonfinite))
            before = self._known.get(run.id)
            self._known[run.id] = now
            front = QGuiApplication.applicationState() is Qt.ApplicationState.ApplicationActive
            if before is None or silent or before == now or front:  # a person looks at the window or a dialog of it
                continue
            notice = self._notice(run, before, now)
            if notice and self._wanted():
                self._tell(notice)

    def _notice(self, run: RunModel, before: _Known, now: _Known) -> str:
        name = words.join([f"Run {run.number}", words.name_of(run)])
        if now.state in TERMINAL and before.state not in TERMINAL:
            if run.spec.study:
                return self._study_notice(run)
            return words.join([f"{name}: {words.state_word(run)}", words.state_detail(run)])
        if now.diverged and not before.diverged and now.state not in TERMINAL:
            return f"{name} {words.divergence(run)}"
        waited = before.state in (RunState.SUBMITTED, RunState.QUEUED)
        if run.job is not None and waited and now.state in _STARTED:
            return f"{name}: its job has started on {words.where(run)}"
        return ""

    def _study_notice(self, run: RunModel) -> str:
        members = [one for one in self._runs.values() if one.spec.study == run.spec.study]
        if any(one.state not in TERMINAL for one in members):
            return ""
        finished = sum(one.state is RunState.FINISHED for one in members)
        return f"All {len(members)} runs have ended, {finished} of them finished"

    def _tell(self, text: str) -> None:
        QApplication.alert(self._controller.window)
        self._missed = [*self._missed, text][-_MOST:]

    def _app_changed(self, state: Qt.ApplicationState) -> None:
        if state is Qt.ApplicationState.ApplicationActive and self._missed:
            self._controller.window.messages.show_note("\n".join(self._missed))
            self._missed = []
