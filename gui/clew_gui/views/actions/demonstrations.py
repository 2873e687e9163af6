"""Recorded runs of the cluster exercises, shown as if they were training: for a lesson without a cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from clew_gui.reports.facts import read_source
from clew_gui.reports.replay_writer import DEMONSTRATION, demonstrations, find_demonstration
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Button, label, row
from clew_gui.views.window.window import MainWindow
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError

_SENTENCE = (
    "A recording is shown as if it were training now, with its curves, its workers and servers. It is listed among "
    "your runs, called a recording, reaches no goal, and cannot be handed in."
)
Start = Callable[[Sequence[str]], object]


def begin(command: Sequence[str]) -> None:
    """Start a program that goes on without the window. Raises ``OSError`` as it comes."""
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        list(command), stdin=nothing, stdout=nothing, stderr=nothing, **operating_system.own_session()
    )
    process.returncode = 0  # nobody waits for it


class Demonstrations(QObject):
    """Opens recorded demonstrations. There is one object for each window."""

    def __init__(self, window: MainWindow, controller: WindowController, start: Start = begin) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self.start = start

    def ask(self) -> Dialog:
        """Let a person choose a recording."""
        dialog = Dialog(self._window, "Show a recording", _SENTENCE)
        for name, folder in demonstrations().items():
            show = Button(self._window.appearance, "Show", "", "play", f"Show the recording {name}")
            show.setAccessibleName(f"Show the recording {name}")
            show.clicked.connect(partial(self._chosen, dialog, name))
            dialog.add(row(label(self._title(folder), "strong"), None, show))
        close = Button(self._window.appearance, "Close")
        close.clicked.connect(dialog.reject)
        dialog.finish(None, close)
        dialog.open()
        return dialog

    def _chosen(self, dialog: Dialog, name: str) -> None:
        dialog.accept()
        self.show_recording(name)

    def _title(self, folder: Path) -> str:
        try:
            return read_source(folder).spec.name or folder.name
        except ProblemError:
            return folder.name

    def show_recording(self, name: str) -> None:
        """Open its exercise and let it begin; the agent finds it like any run."""
        try:
            exercise = read_source(find_demonstration(name)).spec.exercise
            self.start([sys.executable, "-m", "clew_gui", "replay", f"{DEMONSTRATION}{name}"])
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            return
        except OSError as error:
            text = f"The recording could not be started: {error.strerror or error}."
            self._window.messages.show_problems((Problem("replay.start", text, "Try again."),))
            return
        self._controller.open_exercise(exercise)
        self._window.show_tab(1)
