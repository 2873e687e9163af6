"""Says through the system what became of runs while the window is in the background: the end, a divergence, a job's
start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QSystemTrayIcon

from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.presentation import words
from clew_shared.journal.lifecycle import TERMINAL, RunState

_SHOWN_MS = 10_000
_STARTED = (RunState.STARTING, RunState.PREPARING, RunState.RUNNING)


class Notice(NamedTuple):
    """A message of the system, and the run that a click on it shows."""

    title: str
    text: str
    run: str


class _Known(NamedTuple):
    state: RunState
    diverged: bool


class BackgroundNotices(QObject):
    """Watches the runs of ``controller``. ``wanted`` says whether a person wants messages, ``show`` shows one (default:
    the system's own, where it has any; the entry of the window in the system's bar is marked in any case).

    The runs of a study are many: the last one to end speaks for all.
    """

    def __init__(
        self,
        controller: WindowController,
        wanted: Callable[[], bool],
        show: Callable[[Notice], None] | None = None,
    ) -> None:
        super().__init__(controller.window)
        self._controller, self._wanted = controller, wanted
        self._show = show or self._show_by_system
        self._tray: QSystemTrayIcon | None = None
        self._clicked = ""
        self._known: dict[str, _Known] = {}
        self._look(self._runs.values(), silent=True)
        controller.bridge.arrived.connect(lambda ids: self._changed(ids, silent=True))
        controller.bridge.states.connect(self._changed)
        controller.bridge.points.connect(self._changed)
        QApplication.instance().applicationStateChanged.connect(self._app_changed)  # type: ignore[union-attr]

    @property
    def _runs(self) -> Mapping[str, RunModel]:
        return self._controller.scope.session.runs

    def _changed(self, ids: Iterable[str], silent: bool = False) -> None:
        self._look((self._runs[one] for one in ids if one in self._runs), silent)

    def _look(self, runs: Iterable[RunModel], silent: bool) -> None:
        for run in runs:
            if run.reading is not None or run.unread:
                continue  # what is read of an earlier run is no news
            now = _Known(run.state, bool(run.history.first_nonfinite))
            before = self._known.get(run.id)
            self._known[run.id] = now
            if before is None or silent or before == now or self._in_front():
                continue
            notice = self._notice(run, before, now)
            if notice is not None and self._wanted():
                self._show(notice)

    @staticmethod
    def _in_front() -> bool:
        """Whether a person looks at the window or a dialog of it."""
        return QGuiApplication.applicationState() is Qt.ApplicationState.ApplicationActive

    def _notice(self, run: RunModel, before: _Known, now: _Known) -> Notice | None:
        name = words.join([f"Run {run.number}", words.name_of(run)])
        if now.state in TERMINAL and before.state not in TERMINAL:
            if run.spec.study:
                return self._study_notice(run)
            return Notice(f"{name}: {words.state_word(run)}", words.state_detail(run), run.id)
        if now.diverged and not before.diverged and now.state not in TERMINAL:
            return Notice(f"{name} diverged", words.divergence(run), run.id)
        waited = before.state in (RunState.SUBMITTED, RunState.QUEUED)
        if run.job is not None and waited and now.state in _STARTED:
            return Notice(f"{name}: its job has started", f"On {words.where(run)}", run.id)
        return None

    def _study_notice(self, run: RunModel) -> Notice | None:
        members = [one for one in self._runs.values() if one.spec.study == run.spec.study]
        if any(one.state not in TERMINAL for one in members):
            return None
        finished = sum(one.state is RunState.FINISHED for one in members)
        return Notice(f"All {len(members)} runs have ended", f"{finished} of {len(members)} finished.", run.id)

    # --- The system ---------------------------------------------------------------------------------------------------

    def _show_by_system(self, notice: Notice) -> None:
        QApplication.alert(self._controller.window)
        if not QSystemTrayIcon.isSystemTrayAvailable():
            return
        if self._tray is None:
            self._tray = QSystemTrayIcon(self._controller.window.windowIcon(), self)
            self._tray.setToolTip("Clew")
            self._tray.messageClicked.connect(self._open)
            self._tray.activated.connect(lambda _reason: self._open())
        self._clicked = notice.run
        self._tray.show()  # a message needs it; it goes when the window comes to the front
        self._tray.showMessage(notice.title, notice.text, QSystemTrayIcon.MessageIcon.Information, _SHOWN_MS)

    def _open(self) -> None:
        self._controller.window.come_forward()
        run = self._runs.get(self._clicked)
        if run is not None:
            self._controller.open_exercise(run.spec.exercise)
            self._controller.select(run.id)

    def _app_changed(self, state: Qt.ApplicationState) -> None:
        if state is Qt.ApplicationState.ApplicationActive and self._tray is not None:
            self._tray.hide()
