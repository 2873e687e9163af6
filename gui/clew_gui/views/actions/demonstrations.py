"""Recordings: runs that have ended, shown for a lesson without a cluster. The slider over their steps plays them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject

from clew_gui.session.runs import demonstrations, read_recording
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.theme.parts import Button, label, row
from clew_gui.views.window.window import MainWindow
from clew_shared.base.problem import ProblemError

_SENTENCE = (
    "A recording is a run that has ended, with its curves, its workers and servers; the slider below them plays it. It "
    "is listed among your runs until the window closes, reaches no goal, and cannot be handed in."
)


class Demonstrations(QObject):
    """Opens recordings. There is one object for each window."""

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller

    def ask(self) -> Dialog:
        """Let a person choose one of those that come with Clew."""
        dialog = Dialog(self._window, "Show a recording", _SENTENCE)
        for name, folder in demonstrations().items():
            show = Button(self._window.appearance, "Show", "", "play", f"Show the recording {name}")
            show.setAccessibleName(f"Show the recording {name}")
            show.clicked.connect(dialog.accept)
            show.clicked.connect(partial(self.show_recording, folder))
            dialog.add(row(label(read_recording(folder)[0].name, "strong"), None, show))
        close = Button(self._window.appearance, "Close")
        close.clicked.connect(dialog.reject)
        dialog.finish(None, close)
        dialog.open()
        return dialog

    def show_recording(self, folder: Path) -> None:
        """Open its exercise, select it, and play it from the beginning."""
        session, replay = self._controller.scope.session, self._window.run_view.plots.replay
        try:
            run = session.open_recording(folder)
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            return
        self._controller.open_exercise(session.runs[run].spec.exercise)
        self._controller.begin(lambda _session: run)
        replay.go_to(None)
        replay.play.click()
