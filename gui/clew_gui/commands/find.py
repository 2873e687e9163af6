"""Finds the run or job that is meant: by number, id, the beginning of an id, ``last``, a folder, or a scheduler's own
id."""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clew_gui.commands.context import CommandContext
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.schedulers.state import JobUse
from clew_gui.session.run_record import RunRecord, run_record
from clew_gui.session.run_state import state_with_job
from clew_gui.session.summaries import Summaries
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, problem, raise_all
from clew_shared.base.process_identity import still_runs_since
from clew_shared.journal.files import attempts, began
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.run_settings import RunNote

RUN_HELP = "its number, id, the beginning of its id, `last`, or its folder"


class KeptRun(NamedTuple):
    """A kept run: ``number`` is the one that the window shows, ``note`` what a person wrote about it."""

    number: int
    folder: Path
    note: RunNote = RunNote()


def kept_runs(places: Places) -> list[KeptRun]:
    """Returns all runs on this computer, by number: its own, and the copies of runs on sites. Nothing is read of those
    that have their number.

    Window and commands share one record of numbers; runs that are new to it are numbered as they began, for good.
    """
    own = [path for path in places.runs.iterdir() if attempts(path)] if places.runs.is_dir() else []
    names = {path.name for path in own}
    copies = [path for path in places.mirrors.glob("*-*-*-*-*") if path.name not in names and attempts(path)]
    record = run_record(places)
    new = sorted((began(folder), folder.name) for folder in (*own, *copies) if folder.name not in record.numbers)
    numbers = record.numbers | record.number_all(name for _, name in new)
    found = [KeptRun(numbers[path.name], path, record.notes.get(path.name, RunNote())) for path in (*own, *copies)]
    return sorted(found, key=lambda run: run.number)


def is_copy(places: Places, folder: Path) -> bool:
    """Whether it is the copy of a run that was made elsewhere: its journals are here, its other files are not."""
    return folder.parent == places.mirrors


class KeptJobs:
    """Knows the states of kept runs as far as their jobs on sites show them: a node that lost its power writes no
    end."""

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

    def is_at_work(self, folder: Path) -> bool:
        """Whether the latest job of the copied run in ``folder`` has not ended, as far as is known here."""
        job = self._book.job_of(folder.name)
        return bool(job) and not self._book.news(job).over

    def use(self, folder: Path) -> JobUse:
        """What the scheduler's accounts say of the run's latest job."""
        job = self._book.job_of(folder.name) if is_copy(self._places, folder) else ""
        return self._book.news(job).use if job else JobUse()


def _not_begun(places: Places, runs: Sequence[KeptRun]) -> list[Problem]:
    """Says why the run that was sent last has no folder yet, if its job is not over."""
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
        summaries = Summaries(places)
        return max(runs, key=lambda run: summaries.started(run.folder)).folder
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


# --- Jobs -------------------------------------------------------------------------------------------------------------


JOB_HELP = (
    "its number (j3), id, the beginning of its id, the number of one of its runs, `last`, or the scheduler's own id"
)
_LISTED = 5


def named_job(context: CommandContext, book: JobBook, word: str, site: str = "") -> str:
    """Finds a job like ``find_job``; if a scheduler uses the same name for another job, says so on standard error."""
    job = find_job(context.places, book, word, site)
    others = [one for one in called_there(book, word, site) if one != job]
    if others:
        taken = f"j{book.number(job)}"
        context.note(f"{word} is read as job {taken}, by Clew's own numbers; there is also {_listed(book, others)}.")
    return job


def find_job(places: Places, book: JobBook, word: str, site: str = "") -> str:
    """The UUID of the job that ``word`` names. Raises ``ProblemError`` when there is none, or more than one.

    Clew's own numbers, of jobs (``j3``) and of runs, go before a scheduler's, and those before beginnings of ids.
    ``site``: what a scheduler calls so is looked for there only.
    """
    jobs, record = book.jobs(), run_record(places)
    word = last_run(book, record, site) if word == "last" else word
    if word[:1] in "jJ" and word[1:].isascii() and word[1:].isdecimal() and (job := book.numbered(int(word[1:9]))):
        return job
    called = called_there(book, word, site)
    numbered = [run for run, number in record.numbers.items() if word == str(number)]
    begun = [run for run in record.numbers if word and run.startswith(word)] if not called else []
    runs = numbered or begun
    found = [job for run in runs if (job := book.job_of(run))]
    if not numbered:
        found = found or called or [job for job in jobs if word and job.startswith(word)]
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        return found[0]
    if found:
        text = f"{len(found)} jobs match {word!r}: {_listed(book, found)}."
        raise problem("cli.job", text, "Give its number, or more of its id.", word)
    if runs:
        hint = f"See: clew show {word}" + (f" The scheduler's {word} is {_listed(book, called)}." if called else "")
        raise problem("cli.job", f"Run {word} is one of this computer's.", hint, word)
    raise problem("cli.job", f"There is no job or run {word!r} on a site.", "`clew jobs` lists them.", word)


def last_run(book: JobBook, record: RunRecord, site: str = "") -> str:
    """The run that was sent to a site last, or to this one. Raises ``ProblemError`` when there is none."""
    sent = [run for run in record.numbers if run not in record.forgotten and book.job_of(run)]
    sent = [run for run in sent if site in ("", book.order(book.job_of(run)).site)]
    if not sent:
        hint = f"Start with: clew run softmax --site {shlex.quote(site) if site else 'NAME'}"
        raise problem("cli.job", f"No run was sent to {site or 'a site'} yet.", hint, "last")
    return max(sent, key=lambda run: record.numbers[run])


def called_there(book: JobBook, word: str, site: str = "") -> list[str]:
    """The jobs that their scheduler calls ``word``, on any site or on this one, also those that are over.

    Of PBS's ``4711.server`` and Slurm's ``4711;cluster`` the number will do, and what qstat shows of a longer name.
    """
    if not word:
        return []
    mine = [job for job in book.jobs() if site in ("", book.order(job).site)]
    return [job for job in mine if _is_called(book.news(job).id, word)]


def _is_called(there: str, word: str) -> bool:
    number = re.split("[.;]", there)[0]
    return word in (there, number) or (word.startswith(f"{number}.") and there.startswith(word))


def _listed(book: JobBook, jobs: list[str]) -> str:
    """``j3 (4711 on Lab), j5 (4711 on Other)``."""
    parts = []
    for job in jobs[:_LISTED]:
        there = book.news(job).id
        parts.append(f"j{book.number(job)} ({f'{there} ' if there else ''}on {book.title(job)})")
    return ", ".join(parts) + (", …" if len(jobs) > _LISTED else "")


def trains_here(folder: Path) -> bool:
    """Whether the run in ``folder`` trains on this computer now; one that cannot be read is not known to."""
    with suppress(ProblemError):
        history = read_run(folder)
        begun = history.begun if not history.fold.done else None
        if begun is not None and begun.host == socket.gethostname() and begun.pid > 0:
            journal = RunFolder(folder).journal(begun.attempt)
            return still_runs_since(begun.pid, begun.time, lambda files: journal in files)
    return False
