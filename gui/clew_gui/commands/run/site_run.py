"""A run or a study on a site, from the terminal: sent, waited for, followed to its last byte, or left to itself."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import INTERRUPTED, OK, CommandContext
from clew_gui.commands.output import words
from clew_gui.commands.output.result import title as run_title
from clew_gui.commands.run.arguments import count
from clew_gui.commands.run.follow import SiteRun, SiteTerminal, TerminalLock
from clew_gui.commands.sites.flags import given_allocation
from clew_gui.jobs.job import Place
from clew_gui.jobs.manager import ASK_S, open_manager
from clew_gui.schedulers.allocation import build_allocation
from clew_gui.session.links.mirror import stray_attempts
from clew_gui.session.run_record import run_record
from clew_gui.session.session import Session
from clew_gui.session.study_runner import KnownRun, PlannedRun, StudyResult, StudyRunner
from clew_gui.ssh.prompts import headless_prompter
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec
from clew_shared.study.study import StudySpec


def open_terminal(context: CommandContext) -> SiteTerminal:
    """Logins ask on the terminal, or through the program that ``SSH_ASKPASS`` names."""
    lock = TerminalLock(headless_prompter(os.environ))
    return SiteTerminal(context, open_manager(context.places, lock), lock)


@contextmanager
def open_session(terminal: SiteTerminal, known: Catalogue, jobs: Collection[str] = ()) -> Iterator[Session]:
    """A session with nothing but ``jobs`` and what is sent within."""
    with closing(Session(terminal.context.places, known, manager=terminal.manager, only=jobs)) as session:
        session.start()
        yield session


def show_script(context: CommandContext, place: Place, specs: Sequence[RunSpec], as_json: bool) -> int:
    """Print the script of a job for these runs, exactly as it would be sent."""
    with closing(open_terminal(context).manager) as manager:
        script = manager.preview(place.order(*specs))
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


# --- A study ----------------------------------------------------------------------------------------------------------


class SiteStudy:
    """The runs of ``study`` at ``place``."""

    def __init__(
        self, terminal: SiteTerminal, place: Place, study: StudySpec, card: ExerciseCard, as_json: bool = False
    ) -> None:
        self._terminal, self._card, self._as_json, self._book = terminal, card, as_json, terminal.manager.book
        self._say = terminal.context.note if as_json else terminal.context.say
        self._runner = StudyRunner(study, card, terminal.context.places.mirrors, self._say)
        self._place = with_living_node(terminal, place, as_json)
        self._record = run_record(terminal.context.places)

    def run(self, known: Catalogue, detach: bool = False) -> list[StudyResult]:
        """Do what is left of the study, in the order of its runs as far as there are devices; what became of each, up
        to where a person stopped it. ``detach``: only send it; the list is empty then.

        Raises ``ProblemError`` when nothing could be sent; then nothing is left behind.
        """
        sent = self._sent()
        late = [run for run in sent if self._is_late(run)]
        jobs = {self._book.job_of(run) for run in sent if run in late or not self._is_over(run)}
        jobs |= {self._place.job} - {""}
        self._terminal.manager.ask_now(sorted(jobs), ASK_S)
        with open_session(self._terminal, known, jobs) as session, stop_requests() as stops:
            for run in sent:
                if not self._is_over(run):  # a program that was killed may not have sent it at all
                    self._followed(session, run, stops).until_sent()
            late = [run for run in sent if self._is_late(run)]
            if stops() or not all(self._followed(session, run, stops).until_settled() for run in late):
                return []
            plan = self._send(session, list(self._runner.plan(self._known(sent))))
            self._forget_replaced(session, sent, plan)
            if not detach:
                return self._follow(session, plan, stops)
            for run in self._under_way(plan):
                following = self._followed(session, run)
                following.until_sent()
                following.raise_refusal()
            return []

    # --- What there is ------------------------------------------------------------------------------------------------

    def _sent(self) -> list[str]:
        """The study's runs that this computer has sent to the site, in the order in which they were sent."""
        book, numbers = self._book, self._record.numbers
        jobs = (job for job in book.jobs() if book.order(job).site == self._place.site)
        runs = dict.fromkeys(run for job in jobs for run in book.runs(job))
        mine = (run for run in runs if run not in self._record.forgotten)
        found = [run for run in mine if self._runner.has(run)]
        return sorted(found, key=lambda run: numbers.get(run, 0))

    def _is_late(self, run: str) -> bool:
        """Whether its job is over, and what that left is not all here. One that was never sent has left nothing."""
        settled = self._record.settled.get(run) == self._book.job_of(run)
        return self._is_over(run) and self._book.went_with(run) and not settled

    def _is_over(self, run: str) -> bool:
        """Whether its job is over, or was taken out of the list by another program, which does that with one that was
        not sent."""
        job = self._book.job_of(run)
        return not job or self._book.news(job).over

    def _known(self, sent: Sequence[str]) -> list[KnownRun]:
        """What was sent and need not be sent again. A run without an attempt has not begun: it is on its way as long as
        its job is."""
        found = []
        for run in sent:
            folder, finished = self._runner.folders / run, self._runner.is_finished(run)
            ended = bool(attempts(folder)) and read_run(folder).fold.done
            if finished or not (ended or self._is_over(run)):
                found.append(self._runner.known(run, RunState.FINISHED if finished else RunState.SUBMITTED))
        return found

    # --- Sending ------------------------------------------------------------------------------------------------------

    def _send(self, session: Session, plan: Sequence[PlannedRun]) -> list[PlannedRun]:
        """The plan with every run sent; those that were not go in one job."""
        self._say_where(session, self._under_way(plan), "is on {} already, in", "are on {} already, in")
        missing = [one.run.spec for one in plan if one.known is None]
        names = session.start_runs(missing, self._place) if missing else ()
        self._say_where(session, names, "goes to {} as", "go to {} as")
        fresh = (KnownRun(name, spec, RunState.SUBMITTED) for name, spec in zip(names, missing, strict=True))
        return [one if one.known is not None else one._replace(known=next(fresh)) for one in plan]

    def _say_where(self, session: Session, runs: Sequence[str], one: str, many: str) -> None:
        """Says in which job the runs are, with the verb for ``one`` run or for ``many``."""
        if runs:
            job = session.jobs[self._book.job_of(runs[0])]
            text = f"1 run {one}" if len(runs) == 1 else f"{len(runs)} runs {many}"
            self._say(f"{text.format(job.title)} job j{job.number}: {self._runner.study.study}.")

    # --- Following ----------------------------------------------------------------------------------------------------

    def _followed(
        self, session: Session, run: str, stops: Callable[[], int] = lambda: 0, others: Sequence[str] = ()
    ) -> SiteRun:
        return SiteRun(self._terminal, session, run, self._as_json, stops, others=others)

    def _under_way(self, plan: Sequence[PlannedRun]) -> list[str]:
        """The runs that are under way, in their order."""
        return [one.known.id for one in plan if one.known is not None and not one.finished]

    def _follow(self, session: Session, plan: Sequence[PlannedRun], stops: Callable[[], int]) -> list[StudyResult]:
        """Follows each run to its end. Those that a person stopped before they began leave nothing."""
        following: list[SiteRun] = []
        left = self._under_way(plan)

        def carry_out(one: PlannedRun, heading: str) -> StudyResult:
            run = self._followed(session, left.pop(0), stops, others=tuple(left))
            following.append(run)
            run.to_the_end(self._card, f"{heading}, on {run.job.title}")
            run.raise_refusal()
            return run.result(one)

        results = self._runner.do(plan, carry_out)
        if results and results[-1].asked:
            for run in (following[-1].model.id, *left):
                if run in session.runs and not session.runs[run].history.fold.attempt:
                    session.forget(run)
        if following:
            following[-1].wait_for_the_job()
        return results

    def _forget_replaced(self, session: Session, sent: Sequence[str], plan: Sequence[PlannedRun]) -> None:
        """Take runs out of the list whose job was over before they began: others are sent in their place."""
        kept = {one.known.id for one in plan if one.known is not None}
        for run in sent:
            if run not in kept and not attempts(self._runner.folders / run) and self._is_over(run):
                session.recall(run)
                session.forget(run)
