"""Taking a run out of the list: undone for some seconds, then for good."""

from __future__ import annotations

from clew_gui.views import words
from clew_gui.views.desk import Desk
from clew_shared.lifecycle import TERMINAL, RunState
from clew_shared.problem import Problem, ProblemError


class Removal:
    """Acts on the selected run of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def remove(self) -> None:
        """Take the selected run out of the list; for some seconds it can be taken back."""
        run = self._desk.scope.run()
        if run is None:
            return
        if run.state not in TERMINAL:
            text = f"Run {run.number} is still {words.state_word(run).lower()}."
            first = "Take it out of the queue" if run.state is RunState.QUEUED else "Stop it"
            self._desk.window.messages.show_problems((Problem("window.busy", text, f"{first} first, then remove it."),))
            return
        self._desk.scope.board.remove(run.id)
        self._desk.runs_changed()
        self._desk.window.messages.show_note(
            f"Run {run.number} was removed from the list.",
            undo=lambda: self._take_back(run.id),
            lapse=lambda: self._forget(run.id),
        )

    def _forget(self, run: str) -> None:
        session = self._desk.scope.session
        if session is None:
            return
        try:
            session.forget(run)
        except ProblemError as error:
            self._take_back(run)
            self._desk.refused(error)

    def _take_back(self, run: str) -> None:
        self._desk.scope.board.restore(run)
        self._desk.runs_changed()
