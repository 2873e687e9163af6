"""``clew fetch``: brings home the journals of runs that were made on a site without this computer, as by a job script
with ``clew-agent run SPEC.toml``."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from clew_gui.commands.context import FAILED, OK, CommandContext, Parser
from clew_gui.commands.find import KeptJobs, called_there
from clew_gui.commands.output.result import ending
from clew_gui.commands.output.words import state_word
from clew_gui.jobs.job_book import job_book
from clew_gui.jobs.job_files import MOST_ATTEMPTS
from clew_gui.session.links.mirror import Mirror, stray_attempts
from clew_gui.session.run_record import RunRecord, run_record
from clew_gui.sites.many_files import FilePiece, file_sizes, read_pieces
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, headless_prompter
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.journal.files import journal_path
from clew_shared.reading import read_run, summary
from clew_shared.spec import RunSpec, from_toml

_EMPTY = "fetch.empty"
_LIST = 'cd -- "$1" 2>/dev/null && ls -1 || true'
_ABSOLUTE = 'case "$1" in "~"|"~/"*) set -- "$HOME${1#\\~}";; esac; cd -- "$1" && pwd -P'


_SPEC_BYTES = 1 << 20
_FILES = "spec.toml journal.[0-9][0-9][0-9][0-9]"


class There(NamedTuple):
    """A run folder on the site, with the sizes of its journals by their names."""

    path: str
    spec: RunSpec
    journals: dict[str, int]


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
    folders = list(find_folders(connection, word, runs_of_job(context.places, connection.name, word)))
    copies: list[RunCopy] = []
    problems, unbegun = list[Problem](), 0
    for there in _look(connection, folders):
        try:
            if isinstance(there, ProblemError):
                raise there
            if not _is_from_here(context, record, there.spec.run, asked_for=bool(word)):
                copies.append(RunCopy(context.places, there))
        except ProblemError as error:
            if not word and error.problems[0].code == _EMPTY:
                unbegun += 1
            else:
                problems += error.problems
    try:
        problems += bring(connection, copies, check=bool(word))
    finally:  # also of Ctrl+C: what is here has a number
        for copy in copies:
            problems += copy.finish(context, connection, record)
    return [copy.mirror for copy in copies if copy.whole and (word or copy.grown)], problems, unbegun


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


def _look(connection: SiteConnection, folders: Sequence[str]) -> Iterator[There | ProblemError]:
    """The runs in these folders; in the place of one that is none, the error that says so."""
    listed = file_sizes(connection, folders, _FILES)
    sizes = [one if isinstance(one, dict) else {} for one in listed]
    specs = [
        FilePiece(f"{folder}/spec.toml", 0, min(one["spec.toml"], _SPEC_BYTES))
        for folder, one in zip(folders, sizes, strict=True)
        if "spec.toml" in one
    ]
    texts = {piece.path: b"" for piece in specs} | {piece.path: data for piece, data in read_pieces(connection, specs)}
    for folder, found, one in zip(folders, listed, sizes, strict=True):
        try:
            if isinstance(found, ProblemError):
                raise found
            journals = {name: size for name, size in one.items() if name.startswith("journal.")}
            yield There(folder, _spec(connection, folder, texts.get(f"{folder}/spec.toml")), journals)
        except ProblemError as error:
            yield error


def _spec(connection: SiteConnection, folder: str, text: bytes | ProblemError | None) -> RunSpec:
    if isinstance(text, ProblemError):
        raise text
    if text is None:
        title = connection.title
        raise problem("fetch.folder", f"{folder} on {title} is no run folder: it has no spec.toml.", "", folder)
    file = f"{folder}/spec.toml"
    spec = from_toml(text.decode(errors="replace"), file)
    if not _is_run(spec.run):
        raise problem("fetch.run", f"The spec in {file} names no run.", "The run's own folder has one.", folder)
    return spec


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


class RunCopy:
    """The copy of one run, while it is brought. Raises ``ProblemError`` for a run that has not begun."""

    def __init__(self, places: Places, there: There) -> None:
        self.there = there
        self.mirror = Mirror(places.mirrors / there.spec.run)
        self._before = self._bytes()
        self._problems: list[Problem] = []
        if not self.mirror.attempts() and self._path(1) not in self._sizes():
            raise problem(_EMPTY, f"The run in {there.path} has not begun: it has no journal yet.", "", there.path)

    @property
    def whole(self) -> bool:
        """Whether all is here that was there when it was looked at."""
        return not self._problems and all(self.mirror.length(attempt) >= size for attempt, size in self._attempts())

    @property
    def grown(self) -> bool:
        """Whether there is more of it here than before."""
        return self._bytes() != self._before

    def missing(self, connection: SiteConnection, check: bool) -> list[FilePiece]:
        """What is not here, once a copy that is not the node's is set aside; with ``check`` also one is looked at that
        seems whole."""
        pieces = list[FilePiece]()
        with self._noting():
            if self.mirror.spec() is None:
                self.mirror.keep_spec(self.there.spec)
            for attempt, size in self._attempts():
                if attempt in stray_attempts(self.mirror.folder):
                    self.mirror.set_aside_stray(attempt)
                if self.mirror.length(attempt) > size:
                    now = connection.ssh.stat(self._path(attempt))  # another program may have brought what came since
                    if now is None or self.mirror.length(attempt) > now.size:
                        self.mirror.set_aside(attempt)
                if check or self.mirror.length(attempt) < size:
                    for _ in self.mirror.read(
                        attempt
                    ):  # what is here is checked against its seal, and so is what comes
                        pass
                have = self.mirror.length(attempt)
                pieces += [FilePiece(self._path(attempt), have, size - have)] if have < size else []
        return pieces

    def damaged(self) -> list[FilePiece]:
        """The whole journals whose copies are not the node's, once these are set aside."""
        pieces = list[FilePiece]()
        with self._noting():
            for attempt, size in self._attempts():
                if self.mirror.damaged.pop(attempt, None) is not None:
                    self.mirror.set_aside(attempt)
                    pieces.append(FilePiece(self._path(attempt), 0, size))
        return pieces

    def take(self, piece: FilePiece, data: bytes | ProblemError) -> None:
        """Add a piece to the copy, unless something has gone wrong with it before."""
        if isinstance(data, ProblemError):
            self._problems += data.problems
        elif not self._problems:
            with self._noting():
                self.mirror.append(int(piece.path[-4:]), piece.offset, data)

    def finish(self, context: CommandContext, connection: SiteConnection, record: RunRecord) -> list[Problem]:
        """Put what never came from the node aside, and note where the run came from; returns what has gone wrong."""
        run, attempts = self.there.spec.run, [attempt for attempt, _ in self._attempts()]
        with self._noting():
            for stray in [one for one in self.mirror.attempts() if one not in attempts] if not self._problems else ():
                aside = self.mirror.set_aside_stray(stray)
                text = f"Attempt {stray} of run {run[:8]} was not made on {connection.title}"
                context.note(f"{text}; what it left is now in {aside}.")
            if self.mirror.attempts():
                record.number(run, time.time())
            if self.mirror.attempts() and record.where.get(run) != connection.title:
                record.came_from(run, connection.title, time.time())
        return self._problems

    def _attempts(self) -> list[tuple[int, int]]:
        """The attempts over there and their sizes; they are numbered without gaps."""
        sizes = self._sizes()
        whole = takewhile(lambda attempt: self._path(attempt) in sizes, range(1, MOST_ATTEMPTS + 1))
        return [(attempt, sizes[self._path(attempt)]) for attempt in whole]

    def _sizes(self) -> dict[str, int]:
        return {f"{self.there.path}/{name}": size for name, size in self.there.journals.items()}

    def _path(self, attempt: int) -> str:
        return f"{self.there.path}/{journal_path(self.mirror.folder, attempt).name}"

    def _bytes(self) -> int:
        return sum(self.mirror.length(attempt) for attempt in self.mirror.attempts())

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Notes that the disk refuses."""
        try:
            yield
        except OSError as error:
            text = f"The run cannot be stored in {self.mirror.folder}: {error}."
            self._problems.append(Problem("mirror.write", text, "Make room on that disk.", str(self.mirror.folder)))


def bring(connection: SiteConnection, copies: Sequence[RunCopy], check: bool) -> list[Problem]:
    """Bring what is missing of all the copies, a damaged one again from its beginning; returns why that ended before
    all was here."""
    owners = {copy.there.path: copy for copy in copies}
    try:
        for wanted in (lambda copy: copy.missing(connection, check), RunCopy.damaged):
            for piece, data in read_pieces(connection, chain.from_iterable(map(wanted, copies))):
                owners[piece.path.rpartition("/")[0]].take(piece, data)
    except ProblemError as error:
        for copy in copies:
            copy.damaged()  # set aside, so that the next fetch brings it
        return list(error.problems)
    return []
