"""Jobs that another computer sent: taken into this computer's book once they are over, so that their runs are shown as
what became of them, and go on from here."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from clew_gui.jobs.job import JobNews, JobOrder, JobStage, of_end
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.job_files import read_records
from clew_gui.schedulers.allocation import for_run
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.state import ENDED, Phase
from clew_gui.schedulers.verdict import conclude
from clew_gui.schedulers.words import describe
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.spec import RunSpec


def ends_of(connection: SiteConnection, jobs: Sequence[str]) -> tuple[dict[str, JobNews], list[Problem]]:
    """The news of those of the ``jobs`` that have ended, and what was wrong with others. Nothing of one that may still
    live: that is left to the computer that sent it, because two would ask its agent for different things."""
    try:
        return _ends(connection, jobs), []
    except ProblemError as error:
        if error.problems[0].code != "ssh.file" or len(jobs) < 2:
            return {}, list(error.problems)
    some, other = (ends_of(connection, half) for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]))
    return some[0] | other[0], some[1] + other[1]


def _ends(connection: SiteConnection, jobs: Sequence[str]) -> dict[str, JobNews]:
    records = {job: record for job, record in read_records(connection, jobs).items() if record.id}
    refs = {job: JobRef(record.id, job) for job, record in records.items()}
    if not refs:
        return {}
    states = connection.job_states(tuple(refs.values()))
    found: dict[str, JobNews] = {}
    for job, ref in refs.items():
        end = conclude(states[ref.id], None, records[job])
        if end.phase in ENDED or end.phase is Phase.GONE:
            before = JobNews(job=job, stage=JobStage.RUNNING, id=ref.id)
            news = of_end(before, end, describe(end, connection.scheduler), None)
            found[job] = replace(news, text=news.text or f"The job on {connection.title} has ended.")
    return found


def adopt_job(connection: SiteConnection, book: JobBook, job: str, run: RunSpec, end: JobNews | None) -> bool:
    """Take the job in which ``run`` trained last into the book, with its ``end``; whether it is there now.

    Raises ``OSError`` if the disk refuses.
    """
    if job not in book.jobs():
        if end is None:
            return False
        allocation = for_run(connection.site.allocation, run)
        book.note_order(JobOrder(job=job, site=connection.name, allocation=allocation, runs=(run,)), connection.title)
        book.note_news(end)
    elif run.run not in book.runs(job):
        book.note_runs(job, run.run)
    return True
