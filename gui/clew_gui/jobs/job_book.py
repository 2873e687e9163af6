"""The laptop's own list of jobs on sites: what was asked for, under which id it runs, what became of it.

One line of JSON for each piece of news, only appended. A job is here before anything of it is sent, so
that it is found again whatever happens to the laptop. Windows and commands append to the same file.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_gui.base.line_file import LineFile
from clew_gui.jobs.job import EndRequest, JobOrder, JobStage, JobStatus
from clew_shared.base.file_lock import LockFile
from clew_shared.base.foreign import json_or_none
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError, problem
from clew_shared.base.remedies import list_all

_UNSENT = frozenset({JobStage.DRAFT, JobStage.CONNECTING, JobStage.PREPARING, JobStage.SUBMITTING})


class BookLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """News of a job at ``time``, in seconds since 1970. ``title`` is the site's title at that time."""

    job: str
    time: float = 0.0
    order: JobOrder | None = None
    title: str = ""
    news: JobStatus | None = None
    runs: tuple[str, ...] = ()
    request: EndRequest | None = msgspec.field(default=None, name="wish")
    forgotten: bool = False


class _Entry:
    def __init__(self, number: int, line: BookLine, order: JobOrder) -> None:
        self.number = number
        self.order = order
        self.title = line.title
        self.news = JobStatus(job=line.job, stage=JobStage.DRAFT)
        self.runs = [spec.run for spec in order.runs]
        self.end_request: EndRequest | None = None
        self.forgotten = False
        self.written = line.time


class JobBook:
    """Lines of JSON in ``path``. A line that is torn or damaged is passed over. May be used from any thread. Locks are
    in ``private`` where the disk of ``path`` has none.

    What writes raises ``OSError`` if the disk refuses. A job that is not in the book is a ``ProblemError``; one that a
    program took out of the list stays in it.
    """

    def __init__(self, path: Path, private: Path | None = None) -> None:
        self._lock_folders = [path.with_suffix(".locks"), *([private / "jobs.locks"] if private is not None else [])]
        self._file = LineFile(path)
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.RLock()
        self.refresh()

    # --- Reading ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in what others appended since."""
        with self._lock:
            for line in self._file.new_lines():
                if (found := json_or_none(line, BookLine)) is not None:
                    self._take(found)

    def mark(self) -> tuple[int, int]:
        """Returns a mark that changes with everything that any program writes; cheap."""
        return self._file.mark()

    def jobs(self) -> tuple[str, ...]:
        """Returns all jobs that were not forgotten, in the order of the requests."""
        with self._lock:
            return tuple(job for job, entry in self._entries.items() if not entry.forgotten)

    def number(self, job: str) -> int:
        """The job's number: its order's place among all in the file, so every program comes to the same one. A job that
        was forgotten keeps its own."""
        return self._entry(job).number

    def numbered(self, number: int) -> str:
        """The job with this number; empty when there is none, or it was forgotten."""
        return next((job for job in self.jobs() if self._entries[job].number == number), "")

    def open_jobs(self) -> tuple[str, ...]:
        """Returns the jobs that may have more news."""
        with self._lock:
            return tuple(job for job in self.jobs() if not self._entries[job].news.over)

    def order(self, job: str) -> JobOrder:
        """Returns the job's order."""
        return self._entry(job).order

    def title(self, job: str) -> str:
        """Returns the title of the job's site, also if the site is not known any more."""
        entry = self._entry(job)
        return entry.title or entry.order.site

    def news(self, job: str) -> JobStatus:
        """Returns the latest news of the job."""
        return self._entry(job).news

    def age_s(self, job: str) -> float:
        """The seconds since something of the job was written down."""
        return max(0.0, time.time() - self._entry(job).written)

    def end_request(self, job: str) -> EndRequest | None:
        """Returns how a person asked for the job's end since."""
        return self._entry(job).end_request

    def runs(self, job: str) -> tuple[str, ...]:
        """The runs that were given to it, also later ones."""
        with self._lock:
            return tuple(self._entry(job).runs)

    def job_of(self, run: str) -> str:
        """The latest job that the run was given to, but for those that were forgotten; empty when there is none."""
        with self._lock:
            return next((job for job in reversed(self.jobs()) if run in self._entries[job].runs), "")

    def went_with(self, run: str, but: str = "") -> bool:
        """Whether the run was given to a job that a scheduler took, other than the job ``but``."""
        with self._lock:
            others = (entry for job, entry in self._entries.items() if job != but)
            return any(run in entry.runs and entry.news.id for entry in others)

    def words(self) -> dict[str, str]:
        """Returns the site and the scheduler's id of each job that a scheduler took."""
        with self._lock:
            return {job: f"{self.title(job)}, id {self.news(job).id}" for job in self.jobs() if self.news(job).id}

    # --- Writing ------------------------------------------------------------------------------------------------------

    def note_order(self, order: JobOrder, title: str = "") -> None:
        """Notes a new job, of which nothing was sent yet; one that is known already stays as it is."""
        with self._lock:
            if order.job not in self._entries:
                self._append(BookLine(job=order.job, order=order, title=title))

    def note_news(self, news: JobStatus) -> None:
        """Writes news of the job if they matter: a new sentence alone, or a new forecast of its start, is not
        written."""
        with self._lock:
            if _matters(news) != _matters(self._entry(news.job).news):
                self._append(BookLine(job=news.job, news=news))
            if not _goes_back(self._entry(news.job).news, news):
                self._entry(news.job).news = news

    def lock(self, job: str) -> LockFile | None:
        """Takes the lock that a program has while it sends the job, or looks whether it was sent; None while
        another one has it. Where no disk has locks there is nobody to wait for."""
        for folder in self._lock_folders:
            lock = LockFile(folder / f"{job}.lock")
            with suppress(OSError, ProblemError):
                make_private(folder)
                return lock if lock.acquire() else None
        return lock

    def note_runs(self, job: str, *runs: str) -> None:
        """The job got further runs."""
        with self._lock:
            new = tuple(run for run in runs if run not in self._entry(job).runs)
            if new:
                self._append(BookLine(job=job, runs=new))

    def note_end_request(self, job: str, request: EndRequest) -> None:
        """Notes how a person asked for the job's end."""
        with self._lock:
            if self._entry(job).end_request is not request:
                self._entry(job).end_request = request  # it holds here also if the disk refuses
                self._append(BookLine(job=job, request=request))

    def forget(self, job: str) -> None:
        """Stops showing the job."""
        with self._lock:
            if not self._entry(job).forgotten:
                self._append(BookLine(job=job, forgotten=True))

    def _entry(self, job: str) -> _Entry:
        with self._lock:
            if job not in self._entries:
                raise problem("job.unknown", f"There is no job {job or 'of this run'}.", "", job, list_all("jobs"))
            return self._entries[job]

    def _take(self, line: BookLine) -> None:
        if line.order is not None and line.job not in self._entries and line.order.job == line.job:
            self._entries[line.job] = _Entry(len(self._entries) + 1, line, line.order)
        entry = self._entries.get(line.job)
        if entry is None:
            return
        if line.news is not None and line.news.job == line.job and not _goes_back(entry.news, line.news):
            entry.news = line.news
        entry.runs += [run for run in line.runs if run not in entry.runs]
        entry.end_request = line.request or entry.end_request
        entry.forgotten = entry.forgotten or line.forgotten
        entry.written = max(entry.written, line.time)

    def _append(self, line: BookLine) -> None:
        data = msgspec.json.encode(msgspec.structs.replace(line, time=time.time()))
        try:
            self._file.append(data)
        finally:
            self.refresh()


def _matters(news: JobStatus) -> tuple[object, ...]:
    code = news.problem.code if news.problem is not None and news.over else ""
    return news.stage, news.id, news.nodes, news.until, news.phase, news.blocked, code


def _goes_back(before: JobStatus, now: JobStatus) -> bool:
    """Whether ``now`` was written by a program that knew less: that a job was sent, and that it is over, stays true."""
    return (before.over and not now.over) or (bool(before.id) and now.stage in _UNSENT)


def job_book(places: Places) -> JobBook:
    """The book of this computer's viewers."""
    return JobBook(places.home / "jobs.jsonl", places.private)
