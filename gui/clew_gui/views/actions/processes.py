"""Checks of files in processes that nobody waits for: data before a run uses it, and a hand-in that someone opens."""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QTimer

from clew_gui.targets.local_agent import data_command, data_problem
from clew_gui.views.actions.dialogs import TextDialog
from clew_gui.views.form.data_choice import Answer
from clew_gui.views.window.processes import end_unheard
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError

_WITHIN_MS = 30_000
"""A large file on a network disk. What cannot be looked into in this time is left to the run."""
_CHECK = ("-P", "-m", "clew_gui", "verify-handin", "--")
_VERDICTS = {0: "As it was recorded.", 1: "Not as it was recorded: something was altered."}
_HEADS = ("Altered", "Note")
_UNCHECKED = "It could not be checked."


class DataChecker(QObject):
    """Looks into a file of data, by the agent's own reader; a new check ends the one before."""

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


class HandinCheck(QObject):
    """Checks a hand-in as ``clew verify-handin`` does and shows the result; a new check ends the one before."""

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._process: QProcess | None = None

    def open(self, path: Path) -> None:
        """Check the file, and show what was found."""
        self.stop()
        process = self._process = QProcess(self)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.finished.connect(lambda code: self._show(path, code))
        process.errorOccurred.connect(lambda _: self._show(path, -1))
        process.start(sys.executable, [*_CHECK, str(path)])
        self._window.messages.show_note(f"Checking {path.name} …")

    def stop(self) -> None:
        """Stop the check; nothing is shown."""
        process, self._process = self._process, None
        end_unheard(process)

    def _show(self, path: Path, code: int) -> None:
        output = bytes(self._process.readAll().data()).decode("utf-8", "replace") if self._process is not None else ""
        self.stop()
        pairs = [_pair(line) for line in output.splitlines() if line]
        verdict = _VERDICTS.get(code, _UNCHECKED)
        TextDialog(self._window, self._window.appearance, path.name, verdict, pairs).open()


def _pair(line: str) -> tuple[str, str]:
    head, _, rest = line.partition(": ")
    return (head, rest) if head in _HEADS else ("", line)
