"""What may be changed while a run goes on: the dialog for it, which ends with the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from clew_gui.views.desk import Desk
from clew_gui.views.window import MainWindow
from clew_shared.lifecycle import TERMINAL

if TYPE_CHECKING:
    from clew_gui.views.dialogs import LiveDialog


class LiveChange(QObject):
    """Asks for new values of the selected run."""

    def __init__(self, window: MainWindow, desk: Desk) -> None:
        super().__init__(window)
        self._window, self._desk = window, desk
        self._open: tuple[str, LiveDialog] | None = None
        desk.points.connect(self._look)

    def ask(self) -> None:
        """Open the dialog, where the selected run has something to change."""
        from clew_gui.views.dialogs import LiveDialog

        run, live = self._desk.scope.run(), self._desk.scope.live_params()
        if run is not None and live:
            dialog = LiveDialog(self._window, self._window.look, run.number, live)
            dialog.changed.connect(lambda name, value: self._desk.set_live(name, value, run.id))
            dialog.finished.connect(self._closed)
            self._open = run.id, dialog
            dialog.open()

    def _closed(self) -> None:
        self._open = None

    def _look(self, changed: frozenset[str]) -> None:
        """There is nothing to change in a run that has ended."""
        session = self._desk.scope.session
        if self._open is None or self._open[0] not in changed or session is None:
            return
        run = session.runs.get(self._open[0])
        if run is not None and run.state in TERMINAL:
            self._open[1].reject()
            self._window.messages.show_note(f"Run {run.number} has ended: nothing of it can be changed any more.")
