"""Programs that the window runs beside itself: checks of data and hand-ins, and the installation of TensorFlow."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, QProcess, QTimer, Signal

from clew_gui.targets.local_agent import data_command, data_problem
from clew_gui.targets.local_environment import DISK_BYTES, DOWNLOAD_BYTES, Progress
from clew_gui.views.actions.dialogs import TextDialog
from clew_gui.views.form.data_choice import Answer
from clew_gui.views.theme.dialog import FittedDialog
from clew_gui.views.theme.parts import Appearance, Button, ProgressBar, label
from clew_gui.views.window.side_process import SideProcess
from clew_gui.views.window.window import MainWindow
from clew_shared.base import operating_system
from clew_shared.base.foreign import from_json
from clew_shared.base.number_words import in_bytes
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError

_WITHIN_MS = 30_000
"""A large file on a network disk. What cannot be looked into in this time is left to the run."""
_CHECK = ("-P", "-m", "clew_gui", "verify-handin", "--")
_VERDICTS: dict[int | None, str] = {0: "As it was recorded.", 1: "Not as it was recorded: something was altered."}
_HEADS = ("Altered", "Note")
_UNCHECKED = "It could not be checked."


class DataChecker:
    """Looks into a file of data, by the agent's own reader; a new check ends the one before."""

    def __init__(self, parent: QObject, places: Places) -> None:
        self._places, self._process = places, SideProcess(parent, "data check", _WITHIN_MS)
        self.stop = self._process.stop

    def check(self, path: Path, answer: Answer) -> None:
        """Call ``answer`` with what is wrong with the file, None when a run can use it or nobody could find out."""
        self.stop()
        try:
            command = data_command(self._places, path)
        except ProblemError:  # there is no agent either, which is said elsewhere
            QTimer.singleShot(0, self._process, lambda: answer(None))
            return
        self._process.run(command, lambda _code, output: answer(data_problem(output.encode())), errors=False)


class HandinCheck:
    """Checks a hand-in as ``clew verify-handin`` does and shows the result; a new check ends the one before."""

    def __init__(self, window: MainWindow) -> None:
        self._window, self._process = window, SideProcess(window, "hand-in check")
        self.stop = self._process.stop

    def open(self, path: Path) -> None:
        """Check the file, and show what was found."""
        self._process.run([sys.executable, *_CHECK, str(path)], partial(self._show, path))
        self._window.messages.show_note(f"Checking {path.name} …")

    def _show(self, path: Path, code: int | None, output: str) -> None:
        pairs = [_pair(line) for line in output.splitlines() if line]
        verdict = _VERDICTS.get(code, _UNCHECKED)
        TextDialog(self._window, self._window.appearance, path.name, verdict, [("", pairs)]).open()


def _pair(line: str) -> tuple[str, str]:
    head, _, rest = line.partition(": ")
    return (head, rest) if head in _HEADS else ("", line)


# --- TensorFlow -------------------------------------------------------------------------------------------------------

_SETUP = ("-P", "-m", "clew_gui", "setup-tensorflow", "--json")
_SENTENCE = (
    f"Runs on this computer need TensorFlow; runs on a site do not. About {in_bytes(DOWNLOAD_BYTES)} are downloaded, "
    f"and {in_bytes(DISK_BYTES)} are used on the disk, in Clew's own folder. You can go on working meanwhile."
)
_END_MS = 60_000
"""Bound on the removal of what was begun."""


class TensorFlowSetup(QObject):
    """One installation at a time, with its dialog. ``installed`` says that the agent can start."""

    installed = Signal()

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._process: QProcess | None = None
        self._dialog: _SetupDialog | None = None
        self._said = ""

    def ask(self) -> None:
        """Shows the dialog; an installation that goes on is shown where it is."""
        if self._dialog is None:
            self._dialog = _SetupDialog(self._window, self._window.appearance)
            self._dialog.install.clicked.connect(self._begin)
            self._dialog.stop.clicked.connect(self._cancel)
            self._dialog.finished.connect(self._forget_dialog)
        self._dialog.open()

    def stop(self) -> None:
        """The window closes: an installation ends, and what was begun is removed."""
        process = self._process
        if process is not None:
            process.blockSignals(True)
            self._ask_to_stop(process)
            process.waitForFinished(_END_MS)
            self._process = None

    def _begin(self) -> None:
        if self._process is not None or self._dialog is None:
            return
        self._said = ""
        process = self._process = QProcess(self)
        process.setProcessChannelMode(QProcess.ProcessChannelMode.MergedChannels)
        process.readyReadStandardOutput.connect(self._read)
        process.finished.connect(self._end)
        process.errorOccurred.connect(lambda _: self._end(-1))
        process.start(sys.executable, [*_SETUP])
        self._dialog.show_begun()

    def _cancel(self) -> None:
        if self._process is None:
            if self._dialog is not None:
                self._dialog.reject()
        else:
            self._ask_to_stop(self._process)
            self._show(Progress("Stopping", 0))

    def _ask_to_stop(self, process: QProcess) -> None:
        operating_system.ask_to_stop(process.processId())

    def _read(self) -> None:
        while self._process is not None and self._process.canReadLine():
            line = bytes(self._process.readLine().data())
            try:
                self._show(from_json(line, Progress))
            except msgspec.DecodeError:
                self._said = line.decode("utf-8", "replace").strip()

    def _show(self, progress: Progress) -> None:
        if self._dialog is not None:
            self._dialog.show_progress(progress)

    def _end(self, code: int) -> None:
        self._read()
        process, self._process = self._process, None
        if process is None:
            return
        process.deleteLater()
        if code == 0:
            self._window.messages.show_note("TensorFlow is installed. Runs can train on this computer now.")
            self.installed.emit()
            if self._dialog is not None:
                self._dialog.accept()
        elif self._dialog is not None:
            self._dialog.show_failed(self._said or "TensorFlow could not be installed.")

    def _forget_dialog(self) -> None:
        """A dialog that is closed while the installation goes on can be opened again."""
        self._dialog = None


class _SetupDialog(FittedDialog):
    def __init__(self, window: MainWindow, appearance: Appearance) -> None:
        super().__init__(window, "Install TensorFlow", _SENTENCE)
        self._bar = ProgressBar("Installation of TensorFlow")
        self._step = label("", "caption", "2", wrap=True)
        self.add(self._bar)
        self.add(self._step)
        self._bar.hide()
        self.stop = Button(appearance, "Cancel")
        self.install = Button(appearance, "Install", "primarySmall")
        self.install.setDefault(True)
        self.finish(None, self.stop, self.install)

    def show_begun(self) -> None:
        """It goes on; it can only be stopped now."""
        self.install.allow(False, "It is being installed")
        self._bar.show()

    def show_progress(self, progress: Progress) -> None:
        """Shows how far it is."""
        self._bar.show()
        self._bar.show_share(progress.done, progress.total)
        self._step.setText(f"{progress.text} …")

    def show_failed(self, sentence: str) -> None:
        """Says why it ended; it can be tried again."""
        self._bar.hide()
        self._step.setText(sentence)
        self.fit_height()
        self.install.allow(True)
