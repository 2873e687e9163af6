"""Jobs that another computer sent: taken into this computer's book once they are over, so that their runs are shown as
what became of them, and go on from here."""

from __future__ import annotations

from msgspec.structs import replace

from clew_gui.jobs.job import JobNews, JobOrder, JobStage, of_end
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.job_files import read_record
from clew_gui.schedulers.allocation import for_run
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.state import ENDED, Phase
from clew_gui.schedulers.verdict import conclude
from clew_gui.schedulers.words import describe
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.spec import RunSpec


def adopt_job(connection: SiteConnection, book: JobBook, job: str, run: RunSpec) -> bool:
    """Take the job in which ``run`` trained last into the book; whether it is there now. A job that may still live is
    left to the computer that sent it: two would ask its agent for different things.

    Raises ``ProblemError`` when the site cannot be asked, and ``OSError`` if the disk refuses.
    """
    if job not in book.jobs():
        end = _end_of(connection, job, connection.title)
        if end is None:
            return False
        allocation = for_run(connection.site.allocation, run)
        book.note_order(JobOrder(job=job, site=connection.name, allocation=allocation, runs=(run,)), connection.title)
        book.note_news(end)
    elif run.run not in book.runs(job):
        book.note_runs(job, run.run)
    return True


def _end_of(connection: SiteConnection, job: str, title: str) -> JobNews | None:
    """Returns the news of a job that has ended; None while it runs, or if nobody knows."""
    record = read_record(connection, job)
    if record is None or not record.id:
        return None
    ref = JobRef(record.id, job)
    state = connection.scheduler.states((ref,), connection.run(connection.scheduler.status((ref,))))[ref.id]
    found = conclude(state, None, record)
    if found.phase not in ENDED and found.phase is not Phase.GONE:
        return None
    before = JobNews(job=job, stage=JobStage.RUNNING, id=record.id)
    news = of_end(before, found, describe(found, connection.scheduler), None)
    return replace(news, text=news.text or f"The job on {title} has ended.")
