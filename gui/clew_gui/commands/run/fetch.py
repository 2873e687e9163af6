"""``clew fetch``: brings home the journals of runs that were made on a site without this computer, as by a job script
with ``clew-agent run SPEC.toml``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import PurePosixPath
from typing import NamedTuple

from msgspec.structs import replace

from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.find import KeptJobs, called_there
from clew_gui.commands.output.result import ending
from clew_gui.commands.output.words import state_word
from clew_gui.jobs.job_book import job_book
from clew_gui.jobs.job_files import RunThere, SiteFiles, look_at_runs
from clew_gui.session.links.fetcher import Fetcher
from clew_gui.session.links.inbox import Inbox, RequestFailed
from clew_gui.session.links.mirror import Mirror, stray_attempts
from clew_gui.session.run_record import RunLine, RunRecord, run_record
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.file_names import is_uuid
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, from_toml

_EMPTY = "fetch.empty"
_LIST = 'cd -- "$1" 2>/dev/null && ls -1 || true'
_ABSOLUTE = 'case "$1" in "~"|"~/"*) set -- "$HOME${1#\\~}";; esac; cd -- "$1" && pwd -P'
_ROOM = "Make room on that disk."
_AT_ONCE = 64
"""Journals that are asked for together: 16 MiB at most."""


class There(NamedTuple):
    """A run folder on the site, with the sizes of its attempts there."""

    path: str
    spec: RunSpec
    attempts: dict[int, int]


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
    prompter = AskOnce(headless_prompter(os.environ))
    with closing(open_connection(options.site, site, context.places, prompter)) as connection:
        return fetch_runs(context, connection, options.run or "", options.json)


def fetch_runs(context: CommandContext, connection: SiteConnection, word: str, as_json: bool) -> int:
    """Bring the runs that ``word`` names, without one all that are not here yet or have grown; returns the exit status.

    Raises ``ProblemError`` when there are none.
    """
    record = run_record(context.places)
    word = _numbered(context.places, record, connection, word)
    found, problems, unbegun = _bring_all(context, connection, record, word)
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
    runs, problems, unbegun = _look(context, connection, record, word)
    before = {there.path: _sizes(context, there) for there in runs}
    try:
        problems += bring(context, connection, runs, check=bool(word))
    finally:  # also of Ctrl+C: what is here has a number
        after = [_sizes(context, there) for there in runs]
        for run in (there.spec.run for there, sizes in zip(runs, after, strict=True) if sizes):
            record.number(run)
            if record.where.get(run) != connection.title:
                record.add(RunLine(run=run, where=connection.title))
    copies = list[Mirror]()
    for there, sizes in zip(runs, after, strict=True):
        whole = all(sizes.get(attempt, 0) >= size for attempt, size in there.attempts.items())
        if whole and (word or sizes != before[there.path]):
            copies.append(Mirror(context.places.mirrors / there.spec.run))
    return copies, problems, unbegun


def _sizes(context: CommandContext, there: There) -> dict[int, int]:
    """The bytes that are here of each attempt."""
    mirror = Mirror(context.places.mirrors / there.spec.run)
    return {attempt: mirror.length(attempt) for attempt in mirror.attempts()}


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
        if done.failed or not done.out.startswith("/"):
            raise problem("fetch.folder", f"There is no folder {word} on {connection.title}.", "Check the path.", word)
        yield done.out.rstrip("\n")
        return
    names = [name for name in connection.run(("sh", "-c", _LIST, "sh", runs)).out.split() if is_uuid(name)]
    chosen = [name for name in names if name.startswith(word)]
    if word and not chosen and of_job:
        chosen = [name for name in names if name in of_job]
    elif word and len(chosen) != 1:
        text = f"{len(chosen) or 'No'} runs on {connection.title} begin with {word!r}."
        raise problem("fetch.run", text, "Give the whole id, or the path of its folder there.", word)
    yield from (f"{runs}/{name}" for name in chosen)


def _look(
    context: CommandContext, connection: SiteConnection, record: RunRecord, word: str
) -> tuple[list[There], list[Problem], int]:
    """The runs that ``word`` names, what was wrong with others, and how many have not begun."""
    folders = list(find_folders(connection, word, runs_of_job(context.places, connection.name, word)))
    runs, problems, unbegun = list[There](), list[Problem](), 0
    for folder, found in zip(folders, look_at_runs(connection, folders), strict=True):
        try:
            there = _read_spec(connection, folder, found)
            if _is_from_here(context, record, there.spec.run, asked_for=bool(word)):
                continue
            if not there.attempts and not _sizes(context, there):
                raise problem(_EMPTY, f"The run in {folder} has not begun: it has no journal yet.", "", folder)
            runs.append(there)
        except ProblemError as error:
            if not word and error.problems[0].code == _EMPTY:
                unbegun += 1
            else:
                problems += error.problems
    return runs, problems, unbegun


def _read_spec(connection: SiteConnection, folder: str, found: RunThere | ProblemError) -> There:
    if isinstance(found, ProblemError):
        raise found
    if found.spec is None:
        title = connection.title
        raise problem("fetch.folder", f"{folder} on {title} is no run folder: it has no spec.toml.", "", folder)
    file = f"{folder}/spec.toml"
    spec = from_toml(found.spec, file)
    if not is_uuid(spec.run):
        raise problem("fetch.run", f"The spec in {file} names no run.", "The run's own folder has one.", folder)
    return There(folder, spec, found.attempts)


def _is_from_here(context: CommandContext, record: RunRecord, run: str, asked_for: bool) -> bool:
    """Whether it comes through the link of a job of this computer, and so through nothing else. Raises ``ProblemError``
    when just this one is wanted."""
    job = job_book(context.places).job_of(run)
    from_here = bool(job) and record.settled.get(run) != job
    if from_here and asked_for:
        hint = f"Come back to it: clew attach {run[:8]}"
        raise problem("fetch.job", f"The run {run[:8]} was sent from here.", hint, run)
    return from_here


# --- Bringing it ------------------------------------------------------------------------------------------------------


def bring(context: CommandContext, connection: SiteConnection, runs: Sequence[There], check: bool) -> list[Problem]:
    """Bring what is missing of the runs, a damaged copy again from its beginning; with ``check`` also one is looked at
    that seems whole. Returns why not all is here."""
    inbox, problems = Inbox(), list[Problem]()
    fetcher = Fetcher(context.places.mirrors, inbox, at_once=_AT_ONCE)
    files = SiteFiles(connection, over=True, folders={there.spec.run: there.path for there in runs})
    try:
        for there in runs:
            _set_strays_aside(context, connection, there)
            if check or _sizes(context, there) != there.attempts:
                fetcher.follow(there.spec.run)
        busy = True
        while busy:
            busy = fetcher.replay()
            try:
                busy |= fetcher.fetch_files(files, final=True)
            except ProblemError as error:
                problems += [one for one in error.problems if one not in problems]
                if error.problems[0].code != "ssh.file":
                    break
            for arrival in iter(inbox.take, None):
                busy = True
                if isinstance(arrival, RequestFailed) and arrival.problem.code != "mirror.seal":
                    hint = _ROOM if arrival.problem.code == "mirror.write" else arrival.problem.hint
                    problems.append(replace(arrival.problem, hint=hint))
    except OSError as error:
        text = f"The runs cannot be stored in {context.places.mirrors}: {error}."
        problems.append(Problem("mirror.write", text, _ROOM, str(context.places.mirrors)))
    return problems


def _set_strays_aside(context: CommandContext, connection: SiteConnection, there: There) -> None:
    """Keep the spec, and set aside what never came from the node."""
    mirror = Mirror(context.places.mirrors / there.spec.run)
    if mirror.spec() is None:
        mirror.keep_spec(there.spec)
    strays = {*stray_attempts(mirror.folder), *(set(mirror.attempts()) - set(there.attempts))}
    for stray in sorted(strays):
        aside = mirror.set_aside_stray(stray)
        if stray not in there.attempts:
            text = f"Attempt {stray} of run {there.spec.run[:8]} was not made on {connection.title}"
            context.note(f"{text}; what it left is now in {aside}.")
