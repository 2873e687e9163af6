"""Looks into a file of data before a run uses it: the agent's own reader does, in a process that nobody waits for."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QTimer

from clew_gui.targets.local_agent import data_command, data_problem
from clew_gui.views.form.data_choice import Answer
from clew_gui.views.window.processes import end_unheard
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError

_WITHIN_MS = 30_000
"""A large file on a network disk. What cannot be looked into in this time is left to the run."""


class DataChecker(QObject):
    """Checks one data file at a time; a new check ends the one before."""

    def __init__(self, parent: QObject, places: Places) -> None:
        super().__init__(parent)
        self._places = places
        self._process: QProcess | None = None
        self._answer: Answer = lambda _found: None
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.setObjectName("data check")
        self._late.setInterval(_WITHIN_MS)
        self._late.timeout.connect(lambda: self._end(None))

    def check(self, path: Path, answer: Answer) -> None:
        """Call ``answer`` with what is wrong with the file, None when a run can use it or nobody could find out."""
        self.stop()
        self._answer = answer
        try:
            command = data_command(self._places, path)
        except ProblemError:  # there is no agent either, which is said elsewhere
            QTimer.singleShot(0, self, lambda: answer(None))
            return
        process = self._process = QProcess(self)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._broken)
        process.start(command[0], command[1:])
        self._late.start()

    def stop(self) -> None:
        """Stop the check; nobody is called."""
        self._late.stop()
        process, self._process = self._process, None
        end_unheard(process)

    def _finished(self) -> None:
        output = bytes(self._process.readAllStandardOutput().data()) if self._process is not None else b""
        self._end(data_problem(output))

    def _broken(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart:
            self._end(None)

    def _end(self, found: Problem | None) -> None:
        self.stop()
        self._answer(found)
