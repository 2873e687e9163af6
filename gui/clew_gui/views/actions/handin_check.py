"""Checks a hand-in that someone opens with Clew: ``clew verify-handin`` does, in a process that nobody waits for."""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QObject, QProcess

from clew_gui.views.actions.dialogs import TextDialog
from clew_gui.views.window.processes import end_unheard
from clew_gui.views.window.window import MainWindow

_CHECK = ("-P", "-m", "clew_gui", "verify-handin", "--")
_VERDICTS = {0: "As it was recorded.", 1: "Not as it was recorded: something was altered."}
_HEADS = ("Altered", "Note")
_UNCHECKED = "It could not be checked."


class HandinCheck(QObject):
    """Checks one file at a time and shows the result in a dialog; a new check ends the one before."""

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
