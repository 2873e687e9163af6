"""Follows a run of a session to its end, wherever it trains: the one loop between what comes in and what a terminal
shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clew_gui.base.state_words import queue_place
from clew_gui.commands.context import INTERRUPTED, OK, CommandContext
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import Display, choose_display, values_line
from clew_gui.commands.output.result import ending, exit_status, result_lines, resume_line, why, word_for
from clew_gui.commands.output.standstill import Standstill, Watched, no_agent, why_unasked
from clew_gui.jobs.job import JobStage
from clew_gui.session.job_links import JobModel
from clew_gui.session.links.conversation import VERSION_CODES
from clew_gui.session.links.inbox import LinkState
from clew_gui.session.run_state import not_begun
from clew_gui.session.session import Session
from clew_gui.session.study_runner import PlannedRun, StudyResult
from clew_gui.ssh.prompts import Prompt, Prompter
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.reading import summary

if TYPE_CHECKING:
    from clew_gui.jobs.manager import JobManager

_LOOK_S = 0.05
_KNOWN_S = 20.0
"""A job that waited at the last news may be over by now: its scheduler is asked within this time."""
_END_S = 15.0
"""The seconds to wait for the end of a job whose run has ended; its agent is asked to give back the node."""
_END_SAID_S = 3.0
"""A wait for it that takes longer than this is said."""
_NO_ROOM = "mirror.write"
_ASIDE = (*VERSION_CODES, _NO_ROOM)


class FollowedRun:
    """A run of ``session`` in the queue of this computer's agent, or where a subclass has it. ``stops`` counts requests
    to stop, and each is passed on once; attempts up to ``after_attempt`` belong to an earlier command. People are told
    of ``folder``, and other commands call it ``word``. With ``as_json`` standard output is for the summary alone."""

    notes: tuple[str, ...] = (
        "",
        "Stopping after this block, with a checkpoint. Ctrl+C again stops at once.",
        "Stopping at once. Ctrl+C once more kills the trainer.",
        "Killing the trainer.",
    )
    """The sentences after no request to stop, after the first one, and so on."""

    def __init__(
        self,
        context: CommandContext,
        session: Session,
        run: str,
        as_json: bool,
        stops: Callable[[], int] = lambda: 0,
        after_attempt: int = 0,
        folder: Path | None = None,
    ) -> None:
        self.context, self.as_json = context, as_json
        self.say = context.note if as_json else context.say
        self.model = session.runs[run]
        self.folder = folder or context.places.runs / run
        self.word = word_for(context.places, self.folder)
        self.asked = 0
        """How often a person asked for its end."""
        self._aside: list[Problem] = []
        """What is to be reported at once although the run goes on as if nothing had happened."""
        self._no_room: Problem | None = None
        """Why there was no room for the copy of its journal."""
        self._session = session
        self._problems: list[Problem] = []
        self._stops = stops
        self._after_attempt = after_attempt
        self._shown = ""
        self._noted = 0

    # --- Its state ----------------------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """The contents of its journal so far."""
        return self.model.history

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

    # --- The loop -----------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Takes in what came, or waits a moment if nothing did; passes requests to stop on."""
        changes = self._session.tick(_LOOK_S)
        self._problems += [found for found in changes.problems if found.code not in _ASIDE]
        self._aside += [found for found in changes.problems if found.code in _ASIDE]
        self._no_room = next((found for found in changes.problems if found.code == _NO_ROOM), self._no_room)
        if not changes.points:
            time.sleep(_LOOK_S)
        while self.asked < self._stops():
            self.stop()

    def stop(self) -> None:
        """Passes on a request to stop: after this block, or at once if there was one before."""
        self.asked += 1
        try:
            self._end(again=self.asked > 1)
        except ProblemError as error:  # it has ended meanwhile
            self._problems += error.problems

    def _end(self, again: bool) -> None:
        self._session.stop(self.model.id, now=again)

    def to_the_end(self, card: ExerciseCard | None, heading: str) -> None:
        """Shows the run under this heading until it is complete."""
        display: Display | None = None
        after_attempt = self.shown_after()
        try:
            while not self.complete():
                self.turn()
                if display is not None and self.is_overwritten():
                    display.close()
                    display = None
                with self.drawing() as free:
                    if not free:
                        continue
                    if self.history.fold.attempt <= after_attempt:
                        self.say_wait()
                        continue
                    self.report_aside()
                    console = self.context.console(err=self.as_json)
                    display = display or choose_display(console, card, heading, after_attempt)
                    last = self.complete()
                    display.show(self.history, self.note, last, None if last else self.standstill())
        finally:
            if display is not None:
                display.close(discard=self.discard)

    # --- Output meanwhile ---------------------------------------------------------------------------------------------

    @property
    def note(self) -> str:
        """Says what becomes of the latest request to stop; one that still waits in the queue only leaves it."""
        waits = self.model.queue or self.model.withdrawn
        return "" if waits else self.notes[min(self.asked, len(self.notes) - 1)]

    @property
    def discard(self) -> bool:
        """Whether nothing of it is to stay on the screen, because it was refused after all."""
        return False

    def shown_after(self) -> int:
        """Returns the attempt up to which nothing is shown."""
        return self._after_attempt

    def waiting(self) -> str:
        """Says what it waits for while nothing of it can be shown; empty if there is nothing to say."""
        if self.model.queue:
            return f"Waiting: {queue_place(self.model.queue)}."
        return "Its turn has come." if self.model.status is not None and not self.model.withdrawn else ""

    def hint(self) -> str:
        """Returns what is said beside the first sentence about waiting."""
        return " Ctrl+C takes the run out of it." if self.model.queue else ""

    def standstill(self) -> Standstill | None:
        """Says why it does not move."""
        return None

    def is_overwritten(self) -> bool:
        """Whether something was or will be written below the picture, so that another one begins there."""
        return bool(self._aside)

    def drawing(self) -> AbstractContextManager[bool]:
        """Whether the terminal may be written to within."""
        return nullcontext(True)

    def say_wait(self) -> None:
        """Says what is new while nothing of it can be shown: an answer to a request to stop, and what it waits for,
        each sentence once."""
        self.report_aside()
        if self.asked > self._noted and self.note:
            self.say(self.note)
            self._noted = self.asked
        text = self.waiting()
        if text and text != self._shown:
            self.say(f"{text}{self.hint()}" if not self._shown else text)
            self._shown = text

    def report_aside(self) -> None:
        """Reports what is to be reported at once."""
        for found in self._aside:
            self.context.report(found)
        self._aside.clear()

    # --- Output at the end --------------------------------------------------------------------------------------------

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
            yield self._in_words()

    def _in_words(self) -> str:
        return f"{words.state_word(self.model.state)}. {self.model.reason}".strip()

    def result(self, one: PlannedRun) -> StudyResult:
        """Says how a run of a study ended, and returns what became of it."""
        model = self.model
        lines = [self._in_words()]
        if model.history.fold.done:
            lines = [ending(model.history, model.state), *why(model.history, model.reason)]
        self.say(f"{one.run.title}: {lines[0]}")
        for line in lines[1:]:
            self.say(line)
        return one.result(self.folder, model.history, exit_status(model.state), self.asked > 0)

    def about(self) -> dict[str, object]:
        """The line of JSON at the end."""
        model = self.model
        if model.history.fold.attempt:
            return summary(model.history, self.folder)
        return {"run": model.id, "exercise": model.spec.exercise, "state": model.state, "reason": model.reason}


# --- On a site --------------------------------------------------------------------------------------------------------


class TerminalLock(Prompter):
    """Hands questions on to ``prompter``: while one asks, nobody draws on the terminal that all share. ``asked``:
    there was a question or message since somebody drew last."""

    def __init__(self, prompter: Prompter) -> None:
        self.asked = False
        self._prompter = prompter
        self._stage = threading.Lock()

    def ask(self, prompt: Prompt) -> str | None:
        """Asks as ``Prompter.ask`` does; waits until what is being drawn is there."""
        with self._stage:
            self.asked = True
            return self._prompter.ask(prompt)

    def show_message(self, text: str) -> None:
        """See ``Prompter``; waits as ``ask``."""
        with self._stage:
            self.asked = True
            self._prompter.show_message(text)

    @contextmanager
    def drawing(self) -> Iterator[bool]:
        """Whether the terminal may be written to within."""
        free = self._stage.acquire(blocking=False)
        try:
            self.asked = self.asked and not free
            yield free
        finally:
            if free:
                self._stage.release()


class SiteTerminal(NamedTuple):
    """The objects that a command on a site's jobs works with."""

    context: CommandContext
    manager: JobManager
    lock: TerminalLock


class SiteRun(FollowedRun):
    """A run whose job is not over, or was not when this began. Each message of the job is printed once.

    Attempts up to ``after_attempt`` belong to an earlier job and are not shown. ``others`` wait in the same job for
    this run's devices: stopping this one stops them as well.
    """

    notes = (
        "",
        "Stopping after this block, with a checkpoint. Ctrl+C again cancels the job.",
        "Cancelling the job.",
    )

    def __init__(
        self,
        terminal: SiteTerminal,
        session: Session,
        run: str,
        as_json: bool,
        stops: Callable[[], int] = lambda: 0,
        after_attempt: int = 0,
        others: Sequence[str] = (),
    ) -> None:
        super().__init__(terminal.context, session, run, as_json, stops, after_attempt)
        self._lock, self._book = terminal.lock, terminal.manager.book
        self._cancelled = False
        self.folder, self.word = self.model.folder, str(self.model.number)
        self._others = others
        self._watched = Watched(time.time())

    @property
    def note(self) -> str:
        """See ``FollowedRun``; of a job that does not run the news say it."""
        if self.job.news.stage is not JobStage.RUNNING:
            return ""
        return self.notes[-1] if self._cancelled else super().note

    @property
    def job(self) -> JobModel:
        """The run's latest job."""
        return self._session.jobs[self.model.job.job if self.model.job is not None else ""]

    def carry_on(self, card: ExerciseCard | None, heading: str, detach: bool, new: bool = True) -> int:
        """Says where the run goes, and follows it, or waits only until it is sent (``detach``); returns the exit
        status. Raises ``ProblemError`` if the job was never taken; of a ``new`` run nothing is left behind then."""
        self.say(f"Run {self.model.number} goes to {self.job.title} as job j{self.job.number}.")
        if detach:
            self.until_sent()
        else:
            self.to_the_end(card, heading)
        self.raise_refusal(new)
        return self.report_detached() if detach else self.conclude(card)

    # --- Waiting ------------------------------------------------------------------------------------------------------

    def until_known(self) -> bool:
        """Waits until it is known whether the run's job is over, by its scheduler or its agent; False after Ctrl+C.
        What the book says may be old. A job that still waits has no news after a while."""
        until = time.monotonic() + _KNOWN_S

        def known() -> bool:
            late = not_begun(self.job.news) and time.monotonic() >= until
            return self.job.news.over or self.model.status is not None or late

        self._until(known)
        return known()

    def until_settled(self) -> bool:
        """Waits until everything is here that its job, which is over, has left of it; False after Ctrl+C."""
        self._until(lambda: self.model.settled)
        return self.model.settled

    def until_sent(self) -> None:
        """Waits until the scheduler has the job, or it is over; Ctrl+C cancels it."""
        self._until(lambda: self.job.news.over or self.job.news.stage in (JobStage.QUEUED, JobStage.RUNNING), True)

    def _until(self, done: Callable[[], bool], stopped: bool = False) -> None:
        """Waits until ``done``, or somebody asks for the end; if it is to be ``stopped`` then, that is waited for."""
        while not done() and (stopped or not self._stops()):
            self.turn()
            with self.drawing() as free:
                if free:
                    self.say_wait()

    def shown_after(self) -> int:
        """Of the attempts that are here the latest is shown, and only its end counts: an earlier one may be read first.
        While the next job is waited for, no attempt of earlier jobs is shown."""
        kept = max(attempts(self.model.folder), default=0)
        self._after_attempt = max(self._after_attempt, kept - 1)
        return max(self._after_attempt, self.history.fold.attempt if self.model.follows_on else 0)

    def _end(self, again: bool) -> None:
        """Ends the run at the first request, and the job at the second; in the queue, or before its agent serves, the
        first one ends the job already."""
        hold = self.job.order.hold  # the allocation is others' as well
        unheard = self.model.status is None and self.history.fold.attempt <= self._after_attempt
        if not hold and (again or not_begun(self.job.news) or unheard):
            self._cancelled = True
            self._session.cancel(self.job.id)
            return
        for run in self.job.runs:
            if run in self._others:  # before this one, so that none of them begins meanwhile
                self._session.stop(run, now=hold and again)
        self._session.stop(self.model.id, now=hold and again)

    def complete(self) -> bool:
        """Whether it has ended and all of its journal is here, or there is none to come."""
        model, job = self.model, self.job
        if model.settled or model.withdrawn or (job.news.over and job.news.phase is None and not job.news.id):
            return True
        return model.complete and model.history.fold.attempt > self._after_attempt

    def wait_for_the_job(self) -> None:
        """Wait until the job ends, so that nobody has to log in again only to learn that; say what takes so long."""
        begun, asked, said = time.monotonic(), self.asked, False
        while not self.job.order.hold and self.asked == asked:
            news, waited = self.job.news, time.monotonic() - begun
            if news.over and (self.model.settled or not news.id or waited >= _END_S):
                break
            if self.job.kept:
                self.say(f"The job stays: {self.job.kept}")
                break
            if (cause := why_unasked(self.job)) is not None:
                self.say(f"The request to end the job failed: {cause.text} `clew jobs` asks again.")
                break
            if waited >= _END_S:
                self.say("The job has not ended yet; `clew jobs` asks again.")
                break
            if waited >= _END_SAID_S and not said:
                self.say(f"Waiting until the job has ended, for at most {_END_S:.0f} s.")
                said = True
            self.turn()

    def refused(self) -> list[Problem] | None:
        """Returns why the job was never sent; None if it was."""
        news = self.job.news
        if news.over and not news.id and news.problem is not None:
            return [news.problem]
        return None

    def _forget(self, new: bool) -> None:
        """Forgets the job, and all its runs if they are ``new``."""
        job = self.job
        for run in job.runs if new else ():
            self._session.forget(run)
        self._book.forget(job.id)

    # --- Output -------------------------------------------------------------------------------------------------------

    def drawing(self) -> AbstractContextManager[bool]:
        """Whether nobody is being asked on the terminal."""
        return self._lock.drawing()

    def is_overwritten(self) -> bool:
        """Whether a login asked something, or another version of the agent will be reported."""
        return super().is_overwritten() or self._lock.asked

    def standstill(self) -> Standstill | None:
        """Says why it does not move."""
        return self._watched.look(self.model, self.job, time.time())

    def waiting(self) -> str:
        """Says what the job waits for; while it runs and nobody serves there yet, what the link says."""
        job = self.job
        if job.news.refused:  # a refusal is the last word of the command
            return ""
        if job.news.stage is JobStage.RUNNING and (missing := no_agent(job)):
            return missing
        if job.news.stage is JobStage.RUNNING and self.model.queue:
            return f"Waiting: {queue_place(self.model.queue)} of {job.news.nodes or job.title}."
        return job.news.text

    def hint(self) -> str:
        """Returns nothing: what the job waits for is a sentence of its own."""
        return ""

    def report_detached(self) -> int:
        """Says how to come back; returns the exit status."""
        if self.as_json:
            self.context.say_json(self.about())
        else:
            self.context.say(f"It goes on by itself. Come back with: clew attach {self.model.number}")
        return OK if not self.job.news.over else exit_status(self.model.state)

    def conclude(self, card: ExerciseCard | None) -> int:
        """Say how the run ended, at once, and then see its job end; returns the exit status."""
        status = super().conclude(card)
        status = INTERRUPTED if self._added_nothing() and self.asked else status
        self.wait_for_the_job()
        return status

    def _is_known(self, found: Problem) -> bool:
        return found == self.job.news.problem

    def _added_nothing(self) -> bool:
        """Whether the job ended before it went on with the run."""
        return 0 < self.history.fold.attempt <= self._after_attempt

    def _ending(self, card: ExerciseCard | None) -> Iterator[str]:
        model, history = self.model, self.history
        if self._added_nothing():
            yield f"{model.reason} Run {self.word} is as it was before:"
        yield from super()._ending(card)
        if not history.fold.done or self.model.state is not history.fold.state:
            found = self.job.news.problem
            if found is not None and found.text == model.reason:
                yield found.advice()
            values = values_line(history, card)
            yield from [f"Last values: {values}."] if values else []
            yield from [f"Kept in {model.folder}"] if history.fold.attempt else []
            yield from resume_line(history, self.word)
        if history.fold.attempt:
            yield f"That is the copy of its journal; its other files are on {self.job.title}."

    def about(self) -> dict[str, object]:
        """What ``clew run --json`` says, and where it ran."""
        model, job = self.model, self.job
        found = super().about() | {"state": model.state, "reason": model.reason, "number": model.number}
        return found | {"site": job.order.site, "job": job.id, "job_number": job.number, "job_id": job.news.id}
