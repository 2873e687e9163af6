"""Follows a run of a session: one that this computer's agent has queued, or one of a job on a site."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from clew_gui.base.state_words import queue_place
from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import CommandContext
from clew_gui.commands.output import words
from clew_gui.commands.output.result import exit_status, result_lines, title, word_for
from clew_gui.commands.run.follow import FollowedRun
from clew_gui.session.links.other_version import CODES
from clew_gui.session.links.status import LinkState
from clew_gui.session.session import Session
from clew_gui.targets.target import Target
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.history import History
from clew_shared.reading import summary
from clew_shared.spec import RunSpec

_LOOK_S = 0.05


class SessionRun(FollowedRun):
    """A run of ``session`` in the queue of this computer's agent."""

    notes: tuple[str, ...] = (
        "",
        "Stopping after this block, with a checkpoint. Ctrl+C again stops at once.",
        "Stopping at once.",
    )

    def __init__(
        self,
        context: CommandContext,
        session: Session,
        run: str,
        as_json: bool,
        stops: Callable[[], int] = lambda: 0,
        after_attempt: int = 0,
    ) -> None:
        super().__init__(context, as_json, stops, after_attempt)
        self.model = session.runs[run]
        self.set_folder(context.places.runs / run)
        self._session = session
        self._problems: list[Problem] = []

    def set_folder(self, folder: Path) -> None:
        """Set the ``folder`` that people are told of, and the ``word`` by which other commands call it."""
        self.folder, self.word = folder, word_for(self.context.places, folder)

    @property
    def note(self) -> str:
        """See ``FollowedRun``; one that still waits in the queue only leaves it."""
        return "" if self.model.queue or self.model.withdrawn else super().note

    @property
    def history(self) -> History:
        """The contents of its journal so far."""
        return self.model.history

    def take_in(self) -> None:
        """Lets the session take in what came."""
        changes = self._session.tick(_LOOK_S)
        self._problems += [found for found in changes.problems if found.code not in CODES]
        self.aside += [found for found in changes.problems if found.code in CODES]
        if not changes.points:
            time.sleep(_LOOK_S)

    def stop(self, request: int) -> None:
        """Ends the run after this block, or at once if it was asked before."""
        try:
            self._end(again=request > 1)
        except ProblemError as error:  # it has ended meanwhile
            self._problems += error.problems

    def _end(self, again: bool) -> None:
        self._session.stop(self.model.id, now=again)

    def complete(self) -> bool:
        """Whether it has ended and all of its journal is here, or there is none to come."""
        model = self.model
        if model.withdrawn or self.refused() is not None:
            return True
        return model.complete and model.history.fold.attempt > self._after_attempt

    def refused(self) -> list[Problem] | None:
        """Returns why it was never taken: the agent refused it, or there is none; None if it was."""
        model = self.model
        unheard = model.status is None and self._session.link.state is not LinkState.LIVE
        if model.refused or (unheard and not model.history.fold.attempt and self._problems):
            return list(self._problems)
        return None

    def raise_refusal(self, new: bool = True) -> None:
        """Raises ``ProblemError`` if it was never taken; of a ``new`` run nothing is left behind then."""
        refused = self.refused()
        if refused is not None:
            self._forget(new)
            raise ProblemError(*refused)

    def _forget(self, new: bool) -> None:
        if new:
            self._session.forget(self.model.id)

    # --- Output -------------------------------------------------------------------------------------------------------

    def waiting(self) -> str:
        """Says what it waits for; empty if there is nothing to say."""
        if self.model.queue:
            return f"Waiting: {queue_place(self.model.queue)}."
        return "Its turn has come." if self.model.status is not None and not self.model.withdrawn else ""

    def hint(self) -> str:
        """Returns what can be done while it waits in the queue."""
        return " Ctrl+C takes the run out of it." if self.model.queue else ""

    def conclude(self, card: ExerciseCard | None) -> int:
        """Shows how it ended; returns the exit status."""
        self.report_aside()
        for found in dict.fromkeys(self._problems):
            if not self._is_known(found):
                self.say(found.command_text())
        for line in self._ending(card):
            self.say(line)
        if self.as_json:
            self.context.say_json(self.about())
        return exit_status(self.model.state)

    def _is_known(self, found: Problem) -> bool:
        """Whether the end of the output says it anyway."""
        return False

    def _ending(self, card: ExerciseCard | None) -> Iterator[str]:
        history = self.history
        if history.fold.done and self.model.state is history.fold.state:
            yield from result_lines(history, card, self.folder, self.context.places, self.word, self.model.reason)
        else:
            yield f"{words.state_word(self.model.state)}. {self.model.reason}".strip()

    def about(self) -> dict[str, object]:
        """The line of JSON at the end."""
        model = self.model
        if model.history.fold.attempt:
            return summary(model.history, self.folder)
        return {"run": model.id, "exercise": model.spec.exercise, "state": model.state, "reason": model.reason}


def run_queued(
    context: CommandContext,
    target: Target,
    spec: RunSpec,
    card: ExerciseCard,
    known: Catalogue,
    as_json: bool = False,
) -> int:
    """Queue ``spec``, say its place while it waits, follow it, and print how it ended; returns the exit status.

    Raises ``ProblemError`` when the agent refuses it; then nothing is left behind.
    """
    with closing(Session(context.places, known, target, only=())) as session, stop_requests() as stops:
        run = SessionRun(context, session, session.start_run(spec), as_json, stops)
        run.to_the_end(card, title(spec, card))
        run.raise_refusal()
        return run.conclude(card)
