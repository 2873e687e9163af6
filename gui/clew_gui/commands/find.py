"""Which run is meant: a number, an id, the beginning of an id, ``last``, or a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from clew_gui.jobs.job_book import job_book
from clew_gui.session.run_record import run_record
from clew_gui.session.run_state import state_with_job
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, problem, raise_all
from clew_shared.journal.events import Attempt
from clew_shared.journal.files import FrameReader, Record, attempts, journal_path
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.run_settings import RunNote

RUN_HELP = "its number, id, the beginning of its id, `last`, or its folder"

_HEAD_BYTES = 64 * 1024
"""Enough for the first frame of a journal."""


class KeptRun(NamedTuple):
    """A kept run: ``number`` is the one that the window shows, ``note`` what a person wrote about it."""

    number: int
    folder: Path
    started: float
    note: RunNote = RunNote()


def kept_runs(places: Places) -> list[KeptRun]:
    """All runs on this computer, by number: its own, and the copies of runs on sites. Only the first frame of each is
    read.

    Window and commands share one record of numbers; runs that are new to it are numbered as they began, for good.
    """
    own = [path for path in places.runs.iterdir() if attempts(path)] if places.runs.is_dir() else []
    names = {path.name for path in own}
    copies = [path for path in places.mirrors.glob("*-*-*-*-*") if path.name not in names and attempts(path)]
    folders = [*own, *copies]
    begun = sorted((began(folder), folder.name, folder) for folder in folders)
    record = run_record(places)
    numbers = record.number_all(name for _, name, _ in begun)
    found = (KeptRun(numbers[name], folder, at, record.notes.get(name, RunNote())) for at, name, folder in begun)
    return sorted(found, key=lambda run: run.number)


def is_copy(places: Places, folder: Path) -> bool:
    """Whether it is the copy of a run that was made elsewhere: its journals are here, its other files are not."""
    return folder.parent == places.mirrors


class KeptJobs:
    """What became of kept runs as far as their jobs on sites show it: a node that lost its power writes no end."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._book = job_book(places)
        self._record = run_record(places)

    def state(self, folder: Path, fold: RunFold) -> tuple[RunState, str]:
        """The run's state and the reason, from its journal, folded in ``fold``, and its latest job together."""
        run = folder.name
        job = self._book.job_of(run) if is_copy(self._places, folder) else ""
        if not job or (fold.job and fold.job not in self._book.jobs()):  # another computer's job has it by now
            return fold.state, fold.reason
        news, follows_on = self._book.news(job), self._book.went_with(run, but=job)
        state, reason = state_with_job(fold, news, follows_on, settled=True) or (fold.state, fold.reason)
        if news.problem is not None and reason == news.problem.text:
            reason = news.problem.command_text()
        if news.over and state is not fold.state and self._record.settled.get(run) != job and (news.id or follows_on):
            number = self._record.numbers.get(run, run)
            reason = f"{news.text} Some of it may not be here yet: clew attach {number} fetches it.".lstrip()
        return state, reason


def began(folder: Path) -> float:
    """When the run's first attempt began, as wall-clock seconds since 1970; 0 when its journal does not say."""
    with journal_path(folder, attempts(folder)[0]).open("rb") as file:
        found = FrameReader().feed(file.read(_HEAD_BYTES))
    first = found[0] if found else None
    return first.event.time if isinstance(first, Record) and isinstance(first.event, Attempt) else 0.0


def _not_begun(places: Places, runs: Sequence[KeptRun]) -> list[Problem]:
    """Why the run that was sent last has no folder yet, where its job is not over."""
    record, book = run_record(places), job_book(places)
    last = max(record.numbers.keys() - record.forgotten, key=lambda run: record.numbers[run], default="")
    job = book.job_of(last) if last not in {run.folder.name for run in runs} else ""
    if not job or book.news(job).over:
        return []
    number = record.numbers[last]
    text = f"Nothing of the last run, run {number}, is here yet: it is on {book.title(job)}."
    return [Problem("cli.run", text, f"Follow it with: clew attach {number}", "last")]


def find_run(places: Places, word: str) -> Path:
    """The folder of the run that ``word`` names. Raises ``ProblemError`` when there is none, or more than one."""
    path = Path(word).expanduser()
    if word and path.is_dir() and attempts(path):
        return path.absolute()
    runs = kept_runs(places)
    if word == "last":
        raise_all(_not_begun(places, runs))
    if word == "last" and runs:
        return max(runs, key=lambda run: run.started).folder
    numbered = [run.folder for run in runs if word == str(run.number)]
    if numbered:
        return numbered[0]
    found = [run.folder for run in runs if word and run.folder.name.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        text = f"{len(found)} runs begin with {word!r}: {', '.join(folder.name for folder in found[:5])}."
        raise problem("cli.run", text, "Give more of the id.", word)
    if word and path.is_dir():
        raise problem("cli.run", f"The folder {word} holds no run: it has no journal.0001.", where=word)
    if word in map(str, run_record(places).numbers.values()):
        text = f"No record is kept of run {word}: it was refused, or left the queue before it began."
        raise problem("cli.run", text, "`clew runs` lists those that are kept.", word)
    hint = "`clew runs` lists them." if runs else f"No runs are kept in {places.runs} yet; begin with: clew run softmax"
    raise problem("cli.run", f"There is no run {word!r}.", hint, word)
