"""A run on a site, from the terminal: sent, waited for, followed to its last byte, or left to itself."""

from __future__ import annotations

import argparse
import io
import os
import shlex
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
from clew_gui.commands.output.progress import Display, choose_display, values_line
from clew_gui.commands.output.result import exit_status, result_lines, resume_line
from clew_gui.commands.output.result import title as run_title
from clew_gui.commands.output.standstill import Watched, no_agent, why_unasked
from clew_gui.commands.output.terminal_lock import TerminalLock
from clew_gui.commands.run.arguments import count
from clew_gui.commands.run.fetch import fetch_runs
from clew_gui.commands.sites.flags import given_allocation
from clew_gui.jobs.job import JobStage
from clew_gui.schedulers.allocation import build_allocation
from clew_gui.session.job_managers import ASK_S, JobManagers, open_managers
from clew_gui.session.job_model import JobModel, Place
from clew_gui.session.mirror import stray_attempts
from clew_gui.session.other_version import CODES
from clew_gui.session.run_record import run_record
from clew_gui.session.run_state import not_begun
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.sites.site_connection import open_line
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all
from clew_shared.base.remedies import typed_sentence
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, read_spec

_LOOK_S = 0.05
_KNOWN_S = 20.0
"""A job that waited at the last news may be over by now: its scheduler is asked within this time."""
_END_S = 15.0
"""The seconds to wait for the end of a job whose run has ended; its agent is asked to give back the node."""
_END_SAID_S = 3.0
"""A wait for it that takes longer than this is said."""
_STOP_NOTES = (
    "",
    "Stopping after this block, with a checkpoint. Ctrl+C again cancels the job.",
    "Cancelling the job.",
)


class SiteTerminal(NamedTuple):
    """The objects that a command on a site's jobs works with."""

    context: CommandContext
    managers: JobManagers
    lock: TerminalLock


def open_terminal(context: CommandContext) -> SiteTerminal:
    """Logins ask on the terminal, or through the program that ``SSH_ASKPASS`` names."""
    lock = TerminalLock(headless_prompter(os.environ))
    return SiteTerminal(context, open_managers(context.places, lock), lock)


@contextmanager
def open_session(terminal: SiteTerminal, known: Catalogue, jobs: Collection[str] = ()) -> Iterator[Session]:
    """A session with nothing but ``jobs`` and what is sent within."""
    session = Session(terminal.context.places, known, managers=terminal.managers, only=jobs)
    try:
        session.start()
        yield session
    finally:
        session.close()


def show_script(context: CommandContext, place: Place, specs: Sequence[RunSpec], as_json: bool) -> int:
    """Print the script of a job for these runs, exactly as it would be sent."""
    managers = open_terminal(context).managers
    try:
        script = managers.preview(place.order(*specs))
    finally:
        managers.close()
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
        run = session.start_run(spec, place)
        following = FollowedSiteRun(terminal, session, run, as_json, stops)
        following.begin()
        if detach:
            following.until_sent()
        else:
            following.to_the_end(card, heading)
        refused = following.refused()
        if refused is not None:
            session.forget(run)
            terminal.managers.book.forget(following.job.id)
            raise ProblemError(*refused)
        return following.report_detached() if detach else following.conclude(card)


def with_living_node(terminal: SiteTerminal, place: Place, as_json: bool) -> Place:
    """The place without its held allocation if that is over: its scheduler is asked, the book may be old."""
    say = terminal.context.note if as_json else terminal.context.say
    if place.held_unused:
        say(f"{place.held_unused} The run gets its own job.")
    if not place.job:
        return place
    terminal.managers.ask_now((place.job,), ASK_S)
    news = terminal.managers.book.news(place.job)
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
    _fetch_from_elsewhere(terminal, folder)
    raise_all(_not_resumable(terminal, folder, options))
    order = terminal.managers.book.order(terminal.managers.book.job_of(run))
    changes, given = _spread_changes(folder, options, known), given_allocation(options)
    given = {name: value for name, value in given.items() if name not in changes}
    allocation = build_allocation(order.allocation, given) if given else None
    with open_session(terminal, known, (order.job,)) as session, stop_requests() as stops:
        session.recall(run)
        spec = session.runs[run].spec
        card = next((card for card in known.exercises if card.id == spec.exercise), None)
        following = FollowedSiteRun(terminal, session, run, options.json, stops, max(attempts(folder), default=0))
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
        following.begin()
        if options.detach:
            following.until_sent()
        else:
            following.to_the_end(card, f"{run_title(spec, card)}, on {following.job.title}")
        refused = following.refused()
        if refused is not None:
            terminal.managers.book.forget(following.job.id)
            raise ProblemError(*refused)
        return following.report_detached() if options.detach else following.conclude(card)


def _fetch_from_elsewhere(terminal: SiteTerminal, folder: Path) -> None:
    """Bring what is new of a run that another computer sent, and learn how its job ended: this one takes it over then.
    Raises ``ProblemError``."""
    context, book = terminal.context, terminal.managers.book
    record, job = run_record(context.places), book.job_of(folder.name)
    where, known = record.where.get(folder.name, ""), site_store(context.places).known()
    found = next(((name, one) for name, one in known.items() if one is not None and where in (name, one.title)), None)
    if not where or found is None or not attempts(folder) or (job and record.settled.get(folder.name) != job):
        return
    line = open_line(*found, context.places, AskOnce(terminal.lock))
    try:
        quiet = CommandContext(context.places, io.StringIO(), context.err)
        fetch_runs(quiet, line, folder.name, as_json=False)
    finally:
        line.close()
    book.refresh()
    fold = read_run(folder).fold
    if fold.job and fold.job not in book.jobs() and fold.state is not RunState.FINISHED:
        text = f"Another computer sent the job in which the run trained on {where}, and that job may not be over."
        hint = "Cancel it from there or on the site, or wait until it is over. Then continue the run here."
        raise problem("run.elsewhere", text, hint, folder.name)


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
    record, book = run_record(places), terminal.managers.book
    name = f"Run {record.numbers[run]}" if run in record.numbers else f"The run {run[:8]}"
    if not book.job_of(run):
        where = record.where.get(run, "another computer")
        hint = "Continue it there, in a job script: clew-agent run --resume FOLDER"
        return [Problem("run.elsewhere", f"{name} was made on {where} without this computer.", hint, run)]
    history = read_run(folder) if attempts(folder) else History()
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


class FollowedSiteRun:
    """A run of ``session`` whose job is not over, or was not when this began. Each message of the job is printed once.

    Attempts up to ``after_attempt`` belong to an earlier job and are not shown. ``others`` wait in the same job for
    this run's devices: stopping this one stops them as well.
    """

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
        self._terminal, self._session, self._stops = terminal, session, stops
        self._others = others
        self._as_json = as_json
        self._say = terminal.context.note if as_json else terminal.context.say
        self.model: RunModel = session.runs[run]
        self._after_attempt = after_attempt
        self._watched = Watched(time.time())
        self._asked = 0
        self._shown = ""
        self._problems: list[Problem] = []
        self._versions: list[Problem] = []

    @property
    def job(self) -> JobModel:
        """The run's latest job."""
        return self._session.jobs[self.model.job.job if self.model.job is not None else ""]

    @property
    def asked(self) -> bool:
        """Whether a person asked for its end."""
        return self._asked > 0

    def begin(self) -> None:
        """Say where the run goes."""
        self._say(f"Run {self.model.number} goes to {self.job.title} as job j{self.job.number}.")

    # --- Waiting ------------------------------------------------------------------------------------------------------

    def until_known(self) -> bool:
        """Waits until it is known whether the run's job is over, by its scheduler or its agent; False after Ctrl+C.
        What the book says may be old. A job that still waits has no news after a while."""
        until = time.monotonic() + _KNOWN_S
        while not (self.job.news.over or self.model.status is not None):
            if self._stops():
                return False
            if not_begun(self.job.news) and time.monotonic() >= until:
                return True
            self._turn()
            self._say_wait()
        return True

    def until_settled(self) -> bool:
        """Waits until everything is here that its job, which is over, has left of it; False after Ctrl+C."""
        while not self.model.settled and not self._stops():
            self._turn()
            self._say_wait()
        return self.model.settled

    def until_sent(self) -> None:
        """Waits until the scheduler has the job, or it is over."""
        while not (self.job.news.over or self.job.news.stage in (JobStage.QUEUED, JobStage.RUNNING)):
            self._turn()
            self._report_versions()
            self._say_wait()

    def to_the_end(self, card: ExerciseCard | None, heading: str) -> None:
        """Follows the run until it has ended and all of its journal is here."""
        display: Display | None = None
        kept = max(attempts(self.model.folder), default=0)
        # Of the attempts that are here the latest is shown, and only its end counts: an earlier one may be read first.
        self._after_attempt = max(self._after_attempt, kept - 1)
        after_attempt, asked = max(self._after_attempt, self._earlier()), 0
        try:
            while not self._complete():
                self._turn()
                if display is not None and (self._terminal.lock.asked > asked or self._versions):
                    display.close()
                    display = None  # what is said or asked is below the picture: begin a new one below that
                self._report_versions()
                if self.model.history.fold.attempt <= after_attempt:
                    self._say_wait()
                    continue
                with self._terminal.lock.drawing() as free:
                    if free:
                        asked = self._terminal.lock.asked
                        display = display or self._display(card, heading, after_attempt)
                        last = self._complete()
                        still = None if last else self._watched.look(self.model, self.job, time.time())
                        display.show(self.model.history, self._note(), last, still)
        finally:
            if display is not None:
                display.close()

    def _display(self, card: ExerciseCard | None, heading: str, after_attempt: int) -> Display:
        return choose_display(self._terminal.context.console(err=self._as_json), card, heading, after_attempt)

    def _earlier(self) -> int:
        """Returns the latest attempt of earlier jobs: those up to it are not shown while the next one is waited for."""
        return self.model.history.fold.attempt if self.model.follows_on else 0

    def _turn(self) -> None:
        changes = self._session.tick(_LOOK_S)
        self._problems += [found for found in changes.problems if found.code not in CODES]
        self._versions += [found for found in changes.problems if found.code in CODES]
        if not changes.points:
            time.sleep(_LOOK_S)
        if self._asked < self._stops():
            self._asked += 1
            self._stop(again=self._asked > 1)

    def _stop(self, again: bool) -> None:
        """Ends the run at the first request, and the job at the second; in the queue the first one ends the job
        already."""
        hold = self.job.order.hold  # the allocation is others' as well
        try:
            if not hold and (again or not_begun(self.job.news)):
                self._session.cancel(self.job.id)
                return
            for run in self.job.runs:
                if run in self._others:  # before this one, so that none of them begins meanwhile
                    self._session.stop(run, now=hold and again)
            self._session.stop(self.model.id, now=hold and again)
        except ProblemError as error:  # it has ended meanwhile
            self._problems += error.problems

    def _complete(self) -> bool:
        model, job = self.model, self.job
        if model.settled or model.withdrawn or (job.news.over and job.news.phase is None and not job.news.id):
            return True
        return model.complete and model.history.fold.attempt > self._after_attempt

    def wait_for_the_job(self) -> None:
        """Wait until the job ends, so that nobody has to log in again only to learn that; say what takes so long."""
        begun, asked, said = time.monotonic(), self._asked, False
        while not self.job.order.hold and self._asked == asked:
            news, waited = self.job.news, time.monotonic() - begun
            if news.over and (self.model.settled or not news.id or waited >= _END_S):
                break
            if self.job.kept:
                self._say(f"The job stays: {self.job.kept}")
                break
            if (cause := why_unasked(self.job)) is not None:
                self._say(f"The request to end the job failed: {cause.text} `clew jobs` asks again.")
                break
            if waited >= _END_S:
                self._say("The job has not ended yet; `clew jobs` asks again.")
                break
            if waited >= _END_SAID_S and not said:
                self._say(f"Waiting until the job has ended, for at most {_END_S:.0f} s.")
                said = True
            self._turn()

    # --- Output -------------------------------------------------------------------------------------------------------

    def _note(self) -> str:
        return _STOP_NOTES[min(self._asked, 2)]

    def _say_wait(self) -> None:
        """Says what the job waits for; while it runs and nobody serves there yet, what the link says."""
        job = self.job
        text = job.news.text
        if job.news.stage is JobStage.RUNNING and (missing := no_agent(job)):
            text = missing
        elif job.news.stage is JobStage.RUNNING and self.model.queue:
            text = f"Waiting: {queue_place(self.model.queue)} of {job.news.nodes or job.title}."
        if not text or text == self._shown or job.news.refused:  # a refusal is the last word of the command
            return
        with self._terminal.lock.drawing() as free:
            if free:
                self._shown = text
                self._say(text)

    def _report_versions(self) -> None:
        """Reports at once that the agent is of another version: it explains what comes."""
        if self._versions:
            with self._terminal.lock.drawing() as free:
                if free:
                    for found in self._versions:
                        self._terminal.context.report(found)
                    self._versions.clear()

    def refused(self) -> list[Problem] | None:
        """Returns why the job was never sent; None if it was."""
        news = self.job.news
        if news.over and not news.id and news.problem is not None:
            return [news.problem]
        return None

    def report_detached(self) -> int:
        """Says how to come back; returns the exit status."""
        context, model, job = self._terminal.context, self.model, self.job
        if self._as_json:
            context.say_json(about_run(model, job))
        else:
            context.say(f"It goes on by itself. Come back with: clew attach {model.number}")
        return OK if not job.news.over else exit_status(model.state)

    def conclude(self, card: ExerciseCard | None) -> int:
        """Say how the run ended, at once, and then see its job end; returns the exit status."""
        status = self.show_result(card)
        self.wait_for_the_job()
        return status

    def show_result(self, card: ExerciseCard | None) -> int:
        """Shows how it ended; returns the exit status."""
        model, context = self.model, self._terminal.context
        self._report_versions()
        for found in dict.fromkeys(self._problems):
            if found != self.job.news.problem:
                self._say(found.command_text())
        for line in self._ending(card):
            self._say(line)
        if self._as_json:
            context.say_json(about_run(model, self.job))
        return INTERRUPTED if self._added_nothing() and self._asked else exit_status(model.state)

    def _added_nothing(self) -> bool:
        """Whether the job ended before it went on with the run."""
        return 0 < self.model.history.fold.attempt <= self._after_attempt

    def _ending(self, card: ExerciseCard | None) -> Iterator[str]:
        model = self.model
        if self._added_nothing():
            yield f"{model.reason} Run {model.number} is as it was before:"
        if model.history.fold.done and model.state is model.history.fold.state:
            places = self._terminal.context.places
            yield from result_lines(model.history, card, model.folder, places, str(model.number), model.reason)
        else:
            yield f"{words.state_word(model.state)}. {model.reason}".strip()
            found = self.job.news.problem
            if found is not None and found.text == model.reason:
                yield from filter(None, (found.hint, typed_sentence(found.remedies)))
            values = values_line(model.history, card)
            yield from [f"Last values: {values}."] if values else []
            yield from [f"Kept in {model.folder}"] if model.history.fold.attempt else []
            yield from resume_line(model.history, str(model.number))
        if model.history.fold.attempt:
            yield f"That is the copy of its journal; its other files are on {self.job.title}."


def about_run(model: RunModel, job: JobModel) -> dict[str, object]:
    """The line of JSON: what ``clew run --json`` says, and where it ran."""
    found: dict[str, object] = {"run": model.id, "exercise": model.spec.exercise}
    if model.history.fold.attempt:
        found = summary(model.history, model.folder)
    found |= {"state": model.state, "reason": model.reason, "number": model.number}
    return found | {"site": job.order.site, "job": job.id, "job_number": job.number, "job_id": job.news.id}
