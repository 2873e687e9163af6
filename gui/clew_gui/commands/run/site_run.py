"""A run on a site, from the terminal: sent, waited for, followed to its last byte, or left to itself."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew_gui.commands.agent_program import stop_requests
from clew_gui.commands.context import INTERRUPTED, OK, CommandContext
from clew_gui.commands.output import words
from clew_gui.commands.output.result import title as run_title
from clew_gui.commands.run.arguments import count
from clew_gui.commands.run.session_run import SiteRun, SiteTerminal, TerminalLock
from clew_gui.commands.sites.flags import given_allocation
from clew_gui.jobs.job import Place
from clew_gui.jobs.manager import ASK_S, open_manager
from clew_gui.schedulers.allocation import build_allocation
from clew_gui.session.links.mirror import stray_attempts
from clew_gui.session.run_record import run_record
from clew_gui.session.session import Session
from clew_gui.ssh.prompts import headless_prompter
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec


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
