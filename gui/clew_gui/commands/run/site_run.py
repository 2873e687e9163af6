"""A run on a site, from the terminal: sent, waited for, followed to its last byte, or left to itself."""

from __future__ import annotations

import argparse
import os
import shlex
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.base.state_words import queue_place
from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import INTERRUPTED, OK, CommandContext
from clew_gui.commands.output import words
from clew_gui.commands.output.progress import values_line
from clew_gui.commands.output.result import exit_status, resume_line
from clew_gui.commands.output.result import title as run_title
from clew_gui.commands.output.standstill import Standstill, Watched, no_agent, why_unasked
from clew_gui.commands.run.arguments import count
from clew_gui.commands.run.session_run import SessionRun
from clew_gui.commands.sites.flags import given_allocation
from clew_gui.jobs.job import JobStage
from clew_gui.jobs.manager import ASK_S, JobManager, open_manager
from clew_gui.schedulers.allocation import build_allocation
from clew_gui.session.job_model import JobModel, Place
from clew_gui.session.links.mirror import stray_attempts
from clew_gui.session.run_record import run_record
from clew_gui.session.run_state import not_begun
from clew_gui.session.session import Session
from clew_gui.ssh.prompts import MessagePrompter, Prompt, Prompter, headless_prompter
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec

_KNOWN_S = 20.0
"""A job that waited at the last news may be over by now: its scheduler is asked within this time."""
_END_S = 15.0
"""The seconds to wait for the end of a job whose run has ended; its agent is asked to give back the node."""
_END_SAID_S = 3.0
"""A wait for it that takes longer than this is said."""


class TerminalLock:
    """A ``Prompter`` that hands questions on to ``prompter``: while one asks, nobody draws on the terminal that all
    share. ``asked`` counts questions and messages."""

    def __init__(self, prompter: Prompter) -> None:
        self.asked = 0
        self._prompter = prompter
        self._stage = threading.Lock()

    def ask(self, prompt: Prompt) -> str | None:
        """Asks as ``Prompter.ask`` does; waits until what is being drawn is there."""
        with self._stage:
            self.asked += 1
            return self._prompter.ask(prompt)

    def show_message(self, text: str) -> None:
        """See ``MessagePrompter``; waits as ``ask``."""
        if isinstance(self._prompter, MessagePrompter):
            with self._stage:
                self.asked += 1
                self._prompter.show_message(text)

    @contextmanager
    def drawing(self) -> Iterator[bool]:
        """Whether the terminal may be written to within."""
        free = self._stage.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self._stage.release()


class SiteTerminal(NamedTuple):
    """The objects that a command on a site's jobs works with."""

    context: CommandContext
    manager: JobManager
    lock: TerminalLock


def open_terminal(context: CommandContext) -> SiteTerminal:
    """Logins ask on the terminal, or through the program that ``SSH_ASKPASS`` names."""
    lock = TerminalLock(headless_prompter(os.environ))
    return SiteTerminal(context, open_manager(context.places, lock), lock)


@contextmanager
def open_session(terminal: SiteTerminal, known: Catalogue, jobs: Collection[str] = ()) -> Iterator[Session]:
    """A session with nothing but ``jobs`` and what is sent within."""
    session = Session(terminal.context.places, known, manager=terminal.manager, only=jobs)
    try:
        session.start()
        yield session
    finally:
        session.close()


def show_script(context: CommandContext, place: Place, specs: Sequence[RunSpec], as_json: bool) -> int:
    """Print the script of a job for these runs, exactly as it would be sent."""
    manager = open_terminal(context).manager
    try:
        script = manager.preview(place.order(*specs))
    finally:
        manager.close()
    if as_json:
        context.say_json({"script": script})
    else:
        context.say(script.rstrip("\n"))
    return OK


def run_there(
    terminal: SiteTerminal,
    place: Place,
    spec: RunSpec,
    card: ExerciseCard,
    known: Catalogue,
    heading: str,
    as_json: bool = False,
    detach: bool = False,
) -> int:
    """Send ``spec`` as a job and follow it; returns the exit status.

    Raises ``ProblemError`` when nothing could be sent; then nothing is left behind.
    """
    place = with_living_node(terminal, place, as_json)
    jobs = (place.job,) if place.job else ()
    with open_session(terminal, known, jobs) as session, stop_requests() as stops:
        run = SiteRun(terminal, session, session.start_run(spec, place), as_json, stops)
        return run.carry_on(card, heading, detach)


def with_living_node(terminal: SiteTerminal, place: Place, as_json: bool) -> Place:
    """The place without its held allocation if that is over: its scheduler is asked, the book may be old."""
    say = terminal.context.note if as_json else terminal.context.say
    if place.held_unused:
        say(f"{place.held_unused} The run gets its own job.")
    if not place.job:
        return place
    terminal.manager.ask_now((place.job,), ASK_S)
    news = terminal.manager.book.news(place.job)
    if not news.over:
        return place
    say(f"The held allocation is over. {news.text} The run gets its own job.".replace("  ", " "))
    return msgspec.structs.replace(place, job="")


# --- A run that goes on -----------------------------------------------------------------------------------------------


def resume_there(terminal: SiteTerminal, folder: Path, known: Catalogue, options: argparse.Namespace) -> int:
    """Go on with the run of a site whose copy is ``folder``, where it trained; returns the exit status. Its agent takes
    it up again if it is still there, else a further job is sent. ``options`` are those of ``clew resume``.

    Raises ``ProblemError`` when it cannot go on; then nothing was sent.
    """
    run = folder.name
    raise_all(_not_resumable(terminal, folder, options))
    order = terminal.manager.book.order(terminal.manager.book.job_of(run))
    changes, given = _spread_changes(folder, options, known), given_allocation(options)
    given = {name: value for name, value in given.items() if name not in changes}
    allocation = build_allocation(order.allocation, given) if given else None
    with open_session(terminal, known, (order.job,)) as session, stop_requests() as stops:
        session.recall(run)
        spec = session.runs[run].spec
        card = next((card for card in known.exercises if card.id == spec.exercise), None)
        following = SiteRun(terminal, session, run, options.json, stops, max(attempts(folder), default=0))
        if not following.until_known():
            return INTERRUPTED
        model = session.runs[run]
        if not following.job.news.over and model.state not in TERMINAL:
            state = words.state_word(model.state).lower()
            text = f"Run {model.number} has not ended: it is {state}."
            raise problem("run.running", text, f"Follow it with: clew attach {model.number}", shlex.quote(run))
        if allocation is not None and not following.job.news.over:
            text = f"Run {model.number} goes on in its present job, which keeps its allocation."
            raise problem("cli.site", text, "Leave the flags of the allocation out.", "allocation")
        session.continue_run(run, allocation, changes)
        heading = f"{run_title(spec, card)}, on {following.job.title}"
        return following.carry_on(card, heading, options.detach, new=False)


def _spread_changes(folder: Path, options: argparse.Namespace, known: Catalogue) -> dict[str, str | int]:
    """Returns how the run in the mirror ``folder`` is to spread otherwise, as far as given. Nodes of an exercise that
    trains on one are those of the allocation alone. Raises ``ProblemError`` for numbers that are none."""
    devices, wrong = count("devices", options.devices)
    nodes, more = count("nodes", options.allocation_nodes)
    raise_all([*wrong, *more])
    exercise = read_spec(RunFolder(folder).spec).exercise
    strategies = (one for card in known.exercises if card.id == exercise for one in card.strategies)
    spreads = any(one.nodes for one in strategies)
    given: dict[str, str | int] = {"strategy": options.strategy or ""}
    given |= {"devices": devices} if options.devices else {}
    given |= {"nodes": nodes} if options.allocation_nodes and spreads else {}
    return {name: value for name, value in given.items() if value}


def _not_resumable(terminal: SiteTerminal, folder: Path, options: argparse.Namespace) -> list[Problem]:
    """Says why the run in the mirror ``folder`` cannot go on, as far as this computer knows."""
    places, run = terminal.context.places, folder.name
    record, book = run_record(places), terminal.manager.book
    name = f"Run {record.numbers[run]}" if run in record.numbers else f"The run {run[:8]}"
    history = read_run(folder) if attempts(folder) else History()
    if not book.job_of(run) or (history.fold.job and history.fold.job not in book.jobs()):
        where = record.where.get(run, "another computer")
        hint = "Continue it there, from the computer that sent it or in a job script: clew-agent run --resume FOLDER"
        return [Problem("run.elsewhere", f"{name} was made on {where} without this computer.", hint, run)]
    if history.fold.state is RunState.FINISHED:
        text = f"{name} has finished after {history.fold.step:,} steps."
        return [Problem("run.finished", text, "Start a new run with more steps.", run)]
    if stray := stray_attempts(folder):
        text = f"The copy of {name.lower()} was damaged: attempt {stray[0]} in it was made on this computer by mistake."
        hint = f"Repair it first: clew fetch --site {shlex.quote(book.order(book.job_of(run)).site)} {run[:8]}"
        return [Problem("mirror.stray", text, hint, run)]
    if options.exercises:
        text = "A run of a site continues with the exercises that it started with."
        return [Problem("cli.site", text, "Leave --exercises out.", "exercises")]
    return []


# --- Following --------------------------------------------------------------------------------------------------------


class SiteRun(SessionRun):
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
        self._answered = 0
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
            self.report_aside()
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

    @contextmanager
    def drawing(self) -> Iterator[bool]:
        """Whether nobody is being asked on the terminal."""
        with self._lock.drawing() as free:
            if free:
                self._answered = self._lock.asked
            yield free

    def is_overwritten(self) -> bool:
        """Whether a login asked something, or another version of the agent will be reported."""
        return super().is_overwritten() or self._lock.asked > self._answered

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
