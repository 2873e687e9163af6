"""``clew fetch``: brings home the journals of runs that were made on a site without this computer, as by a job script
with ``clew-agent run SPEC.toml``."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.find import KeptJobs, called_there
from clew_gui.commands.output.result import ending
from clew_gui.commands.output.words import state_word
from clew_gui.jobs.adopted import adopt_job
from clew_gui.jobs.job_book import job_book
from clew_gui.jobs.job_files import MOST_ATTEMPTS, read_spec_text
from clew_gui.session.links.mirror import Mirror, stray_attempts
from clew_gui.session.run_record import RunRecord, run_record
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.files import journal_path
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, from_toml
from clew_shared.wire.messages import MAX_FETCH_BYTES

_EMPTY = "fetch.empty"
_LIST = 'cd -- "$1" 2>/dev/null && ls -1 || true'
_ABSOLUTE = 'case "$1" in "~"|"~/"*) set -- "$HOME${1#\\~}";; esac; cd -- "$1" && pwd -P'


class There(NamedTuple):
    """A run folder on the site."""

    path: str
    spec: RunSpec


def fetch(context: CommandContext, argv: Sequence[str]) -> int:
    """``clew fetch --site NAME [RUN|PATH|JOB]``: 0 when everything that was asked for is here."""
    parser = Parser(
        "clew fetch",
        "Copy the journal of a run that was made on a site without this computer; it is then among the runs here.\n"
        "If the run still goes on, this copies what there is so far; fetch it again for the rest.",
    )
    parser.add_argument("--site", metavar="NAME", required=True, help="where it was made")
    about = "its number here, `last`, its id or its folder there, or the scheduler's id of its job (default: all runs)"
    parser.add_argument("run", metavar="RUN|PATH|JOB", nargs="?", help=about)
    parser.add_argument("--json", action="store_true", help="one line of JSON: a list of runs")
    options = parser.parse_args(list(argv))
    site = site_store(context.places).load(options.site)
    if not site.host:
        raise problem("cli.site", "The runs of this computer are here already.", "See: clew runs", options.site)
    connection = open_connection(options.site, site, context.places, AskOnce(headless_prompter(os.environ)))
    try:
        return fetch_runs(context, connection, options.run or "", options.json)
    finally:
        connection.close()


def fetch_runs(context: CommandContext, connection: SiteConnection, word: str, as_json: bool) -> int:
    """Bring the runs that ``word`` names, without one all that are not here yet or have grown; returns the exit status.

    Raises ``ProblemError`` when there are none.
    """
    record = run_record(context.places)
    word = _numbered(context.places, record, connection, word)
    found, problems, unbegun = _bring_all(context, connection, record, word)
    problems += _adopt_jobs(context, connection, record, found)
    if not found and problems:
        raise ProblemError(*problems)
    for one in problems:
        context.note(one.command_text())
    if unbegun:
        many = "1 run there has" if unbegun == 1 else f"{unbegun} runs there have"
        context.note(f"{many} not begun: nothing to fetch.")
    if as_json:
        context.say_json([summary(read_run(mirror.folder), mirror.folder) for mirror in found])
    elif not found:
        context.say(f"All your runs on {connection.title} are here already.")
    kept = KeptJobs(context.places)
    for mirror in found if not as_json else ():
        number, history = record.numbers[mirror.folder.name], read_run(mirror.folder)
        state, reason = kept.state(mirror.folder, history.fold)
        shown = ending(history) if state is history.fold.state else f"{state_word(state)}. {reason}"
        context.say(f"Run {number}: {shown} Kept in {mirror.folder}")
    return OK if not problems else FAILED


def _bring_all(
    context: CommandContext, connection: SiteConnection, record: RunRecord, word: str
) -> tuple[list[Mirror], list[Problem], int]:
    """The copies of the runs that ``word`` names, or of those that were not here or have grown; what was wrong with
    others, and how many have not begun, where just those that have were wanted."""
    found: list[Mirror] = []
    problems: list[Problem] = []
    unbegun = 0
    for path in find_folders(connection, word, runs_of_job(context.places, connection.name, word)):
        try:
            there = _look(connection, path)
            if not _is_from_here(context, record, there.spec.run, asked_for=bool(word)):
                before = _bytes_here(context, there)
                mirror = _bring(context, connection, record, there, check=bool(word))
                if word or _bytes_here(context, there) != before:
                    found.append(mirror)
        except ProblemError as error:
            if not word and error.problems[0].code == _EMPTY:
                unbegun += 1
            else:
                problems += error.problems
    return found, problems, unbegun


def _adopt_jobs(
    context: CommandContext, connection: SiteConnection, record: RunRecord, found: Sequence[Mirror]
) -> list[Problem]:
    """Note of runs of another computer's jobs how these ended, so that the runs can be continued from here; returns
    what was wrong. The runs themselves are here already."""
    book, problems = job_book(context.places), list[Problem]()
    for mirror in found:
        fold, spec = read_run(mirror.folder).fold, mirror.spec()
        if not fold.job or spec is None:
            continue
        try:
            if adopt_job(connection, book, fold.job, spec) and record.settled.get(spec.run) != fold.job:
                record.settle_run(spec.run, fold.job, time.time())
        except ProblemError as error:
            problems += error.problems
        except OSError as error:
            raise problem("book.write", f"The job of a run cannot be recorded: {error}.", "Make room.") from None
    return list(dict.fromkeys(problems))


# --- What is there ----------------------------------------------------------------------------------------------------


def _numbered(places: Places, record: RunRecord, connection: SiteConnection, word: str) -> str:
    """The id of the run that has this number here, or of the ``last`` one, if it is one of the site's; else ``word`` as
    it is."""
    book = job_book(places)
    there: dict[str, str] = {}
    for run, number in sorted(record.numbers.items(), key=lambda known: known[1]):
        job = book.job_of(run)
        if book.order(job).site == connection.name if job else record.where.get(run) == connection.title:
            there[str(number)] = there["last"] = run
    return there.get(word, word)


def runs_of_job(places: Places, site: str, word: str) -> tuple[str, ...]:
    """The runs of the one job of this computer that the site's scheduler calls ``word``, if there is one."""
    book = job_book(places)
    called = called_there(book, word, site)
    return book.runs(called[0]) if len(called) == 1 else ()


def find_folders(connection: SiteConnection, word: str, of_job: Sequence[str]) -> Iterator[str]:
    """Paths of run folders over there, as ``word`` names them: where no run's id begins so, those ``of_job``."""
    runs = str(PurePosixPath(connection.layout().run("x")).parent)
    if re.fullmatch("[0-9a-f-]*", word) is None and not of_job:
        done = connection.run(("sh", "-c", _ABSOLUTE, "sh", word))
        if done.late or done.code or not done.out.startswith("/"):
            raise problem("fetch.folder", f"There is no folder {word} on {connection.title}.", "Check the path.", word)
        yield done.out.rstrip("\n")
        return
    names = [name for name in connection.run(("sh", "-c", _LIST, "sh", runs)).out.split() if _is_run(name)]
    chosen = [name for name in names if name.startswith(word)]
    if word and not chosen and of_job:
        chosen = [name for name in names if name in of_job]
    elif word and len(chosen) != 1:
        text = f"{len(chosen) or 'No'} runs on {connection.title} begin with {word!r}."
        raise problem("fetch.run", text, "Give the whole id, or the path of its folder there.", word)
    yield from (f"{runs}/{name}" for name in chosen)


def _look(connection: SiteConnection, path: str) -> There:
    """The run in that folder. Raises ``ProblemError`` when it is none."""
    text = read_spec_text(connection, path)
    if text is None:
        raise problem("fetch.folder", f"{path} on {connection.title} is no run folder: it has no spec.toml.", "", path)
    file = f"{path}/spec.toml"
    spec = from_toml(text, file)
    if not _is_run(spec.run):
        raise problem("fetch.run", f"The spec in {file} names no run.", "The run's own folder has one.", path)
    return There(path, spec)


def _is_from_here(context: CommandContext, record: RunRecord, run: str, asked_for: bool) -> bool:
    """Whether it comes through the link of a job of this computer, and so through nothing else. Raises ``ProblemError``
    when just this one is wanted."""
    job = job_book(context.places).job_of(run)
    from_here = bool(job) and record.settled.get(run) != job
    if from_here and asked_for:
        hint = f"Come back to it: clew attach {run[:8]}"
        raise problem("fetch.job", f"The run {run[:8]} was sent from here.", hint, run)
    return from_here


def _is_run(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


# --- Bringing it ------------------------------------------------------------------------------------------------------


def _bytes_here(context: CommandContext, there: There) -> int:
    mirror = Mirror(context.places.mirrors / there.spec.run)
    return sum(mirror.length(attempt) for attempt in mirror.attempts())


def _bring(context: CommandContext, connection: SiteConnection, record: RunRecord, there: There, check: bool) -> Mirror:
    mirror = Mirror(context.places.mirrors / there.spec.run)
    if not mirror.attempts() and connection.ssh.stat(f"{there.path}/{journal_path(mirror.folder, 1).name}") is None:
        raise problem(_EMPTY, f"The run in {there.path} has not begun: it has no journal yet.", "", there.path)
    try:
        if mirror.spec() is None:
            mirror.keep_spec(there.spec)
        attempt = 1
        while attempt <= MOST_ATTEMPTS and _copy(connection, there, mirror, attempt, check):
            attempt += 1
        for stray in [one for one in mirror.attempts() if one >= attempt]:
            aside = mirror.set_aside_stray(stray)
            text = f"Attempt {stray} of run {there.spec.run[:8]} was not made on {connection.title}"
            context.note(f"{text}; what it left is now in {aside}.")
        record.number(there.spec.run, time.time())
        if record.where.get(there.spec.run) != connection.title:
            record.came_from(there.spec.run, connection.title, time.time())
    except OSError as error:
        text = f"The run cannot be stored in {mirror.folder}: {error}."
        raise problem("mirror.write", text, "Make room on that disk.", str(mirror.folder)) from None
    return mirror


def _copy(connection: SiteConnection, there: There, mirror: Mirror, attempt: int, check: bool) -> bool:
    """Bring what is missing of one journal; whether there is one. Where the copy is not the node's, the node's wins;
    with ``check`` also a copy is looked at that seems whole."""
    path = f"{there.path}/{journal_path(mirror.folder, attempt).name}"
    state = connection.ssh.stat(path)
    if state is None or state.folder:
        return False
    if attempt in stray_attempts(mirror.folder):
        mirror.set_aside_stray(attempt)
    if mirror.length(attempt) > state.size:
        mirror.set_aside(attempt)
    _bring_bytes(connection, path, mirror, attempt, state.size, check)
    if mirror.damaged.pop(attempt, None) is not None:
        mirror.set_aside(attempt)
        _bring_bytes(connection, path, mirror, attempt, state.size, check)
    return True


def _bring_bytes(connection: SiteConnection, path: str, mirror: Mirror, attempt: int, size: int, check: bool) -> None:
    if check or mirror.length(attempt) < size:
        for _ in mirror.read(attempt):  # what is here is checked against its seal, and so is what comes
            pass
    while (have := mirror.length(attempt)) < size:
        data = connection.ssh.read(path, have, min(MAX_FETCH_BYTES, size - have))
        if not data:
            break
        mirror.append(attempt, have, data)
