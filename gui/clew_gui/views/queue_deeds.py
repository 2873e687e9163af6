"""What can be done with a run that waits in the agent's queue."""

from __future__ import annotations

from clew_gui.views.desk import Desk
from clew_shared.problem import ProblemError


class QueueDeeds:
    """Acts on the selected run of a desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def move(self, by: int) -> None:
        """Let the selected run, which waits, begin so many places later; earlier when negative."""
        self._desk.ask(lambda session, run: session.move_run(run.id, max(1, run.queue + by)))

    def run_next(self) -> None:
        """Let the selected run begin before all others that wait."""
        self._desk.ask(lambda session, run: session.move_run(run.id, 1))

    def leave_queue(self) -> None:
        """Take the selected run, which waits, out of the queue; for some seconds that can be undone."""
        run = self._desk.scope.run()
        place = run.queue if run is not None else 0
        self._desk.stop()
        if run is not None and place:
            text = f"Run {run.number} was taken out of the queue."
            self._desk.window.messages.show_note(text, undo=lambda: self._queue_again(run.id, place))

    def _queue_again(self, run: str, place: int) -> None:
        """Both requests are carried out in this order, so that it stands where it was."""
        session = self._desk.scope.session
        if session is None:
            return
        try:
            session.continue_run(run)
            session.move_run(run, place)
        except ProblemError as error:
            self._desk.refused(error)
