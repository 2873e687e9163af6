"""Which of this computer's jobs is the allocation that a command or the window means, and what it costs so far."""

from __future__ import annotations

import time

from clew_gui.base.times import in_words
from clew_gui.jobs.job import JobNews, JobStage
from clew_gui.jobs.job_book import JobBook
from clew_gui.schedulers.allocation import AllocationRequest, node_hours


def held_jobs(book: JobBook, site: str = "") -> tuple[str, ...]:
    """The allocations that are held on a site, or on any: asked for, not over, not let go. The latest first."""
    return tuple(
        job
        for job in reversed(book.open_jobs())
        if book.order(job).hold and book.wish(job) is None and site in ("", book.order(job).site)
    )


def live_job(book: JobBook, site: str, now: float | None = None) -> str:
    """The job on a site beside which something can be opened: one that is held, else one that was sent; of several one
    that is known to run. Empty: none. The book may be behind: nobody may have watched the job since. One whose time is
    up is none."""
    at = now if now is not None else time.time()
    mine = [
        job
        for job in reversed(book.open_jobs())
        if book.order(job).site == site and book.wish(job) is None and not book.news(job).is_past(at)
    ]
    sent = [job for job in mine if book.news(job).id or book.order(job).hold]
    return max(sent, key=lambda job: (book.order(job).hold, book.news(job).stage is JobStage.RUNNING), default="")


def job_for(book: JobBook, site: str, allocation: AllocationRequest, now: float | None = None) -> str:
    """The held allocation on a site that was asked for in just these words, for a further run, unless its time is up;
    empty: none."""
    at = now if now is not None else time.time()
    fitting = (job for job in held_jobs(book, site) if book.order(job).allocation == allocation)
    return next((job for job in fitting if not book.news(job).is_past(at)), "")


def seconds_held(news: JobNews, now: float) -> float:
    """How long an allocation has counted so far: since it began, and until its time was up; 0 before that."""
    if news.starts is None or news.stage not in (JobStage.RUNNING, JobStage.ENDED):
        return 0.0
    return max(0.0, min(now, news.until if news.until is not None else now) - news.starts)


def held_line(news: JobNews, nodes: int, now: float | None = None) -> str:
    """One line: ``node1 is reserved for you until 14:30 (25 minutes left); 0.41 node-hours so far.``"""
    at = now if now is not None else time.time()
    where, cost = news.nodes or "The allocation", node_hours(nodes, seconds_held(news, at))
    if news.until is None:
        return f"{where} is reserved for you; {cost} so far."
    clock = time.strftime("%H:%M", time.localtime(news.until))
    if at >= news.until:
        return f"{where}: its time was up at {clock}; {cost}."
    left = in_words(max(1, round((news.until - at) / 60)) * 60)
    return f"{where} is reserved for you until {clock} ({left} left); {cost} so far."
