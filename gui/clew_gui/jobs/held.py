"""Finds the allocation among this computer's jobs that a command or the window means, and says what it costs so far."""

from __future__ import annotations

import time

from clew_gui.base.times import time_of_day
from clew_gui.jobs.job import JobStage, JobStatus
from clew_gui.jobs.job_book import JobBook
from clew_gui.schedulers.allocation import AllocationRequest, node_hours, seconds_asked
from clew_shared.base.number_words import counted, duration


def held_jobs(book: JobBook, site: str = "") -> tuple[str, ...]:
    """The allocations that are held on a site, or on any: asked for, not over, not given back. The latest first."""
    return tuple(
        job
        for job in reversed(book.open_jobs())
        if book.order(job).hold and book.end_request(job) is None and site in ("", book.order(job).site)
    )


def live_job(book: JobBook, site: str, now: float | None = None) -> str:
    """The job on a site beside which something can be opened: one that is held, else one that was sent; of several one
    that is known to run. Empty: none. The book may be behind: nobody may have watched the job since. One whose time is
    up is none."""
    at = now if now is not None else time.time()
    mine = [
        job
        for job in reversed(book.open_jobs())
        if book.order(job).site == site and book.end_request(job) is None and not book.news(job).is_past(at)
    ]
    sent = [job for job in mine if book.news(job).id or book.order(job).hold]
    return max(sent, key=lambda job: (book.order(job).hold, book.news(job).stage is JobStage.RUNNING), default="")


def job_for(book: JobBook, site: str, allocation: AllocationRequest, now: float | None = None) -> tuple[str, str]:
    """The held allocation on a site that has what a further run asks for (empty: none), and if there are only others,
    why the latest of them is not used, in a sentence."""
    at = now if now is not None else time.time()
    held = [job for job in held_jobs(book, site) if not book.news(job).is_past(at)]
    reasons = [(job, _misses(book.order(job).allocation, allocation, book.news(job), at)) for job in held]
    found = next((job for job, missing in reasons if not missing), "")
    if found or not reasons:
        return found, ""
    job, missing = reasons[0]
    return "", f"The allocation held as j{book.number(job)} is not used: {missing}."


def _misses(held: AllocationRequest, asked: AllocationRequest, news: JobStatus, now: float) -> str:
    """Says what a held allocation lacks of the request; empty if it has everything."""
    if held.nodes < asked.nodes:
        return f"it has {counted(held.nodes, 'node')}, and {asked.nodes} are asked for"
    if (held.gpus or 0) < (asked.gpus or 0):
        return f"it has {counted(held.gpus or 0, 'GPU')} per node, and {asked.gpus} are asked for"
    if asked.cpus is not None and held.cpus != asked.cpus and (held.cpus or 0) < asked.cpus:
        has = counted(held.cpus, "core") if held.cpus is not None else "the scheduler's own number of cores"
        return f"it has {has} per node, and {asked.cpus} are asked for"
    for name in ("partition", "account", "reservation", "qos", "features"):
        has, wanted = getattr(held, name), getattr(asked, name)
        if wanted and has != wanted and has not in wanted.split(","):
            return f"its {name} is {has or 'the usual one'}, and {wanted} is asked for"
    seconds = seconds_asked(asked)
    if held.time == asked.time or not seconds:  # what is left of the very time that was asked for is to be used
        return ""
    left = news.until - now if news.until is not None else float(seconds_asked(held))
    if left < seconds:
        minutes = max(1, round(left / 60)) * 60
        return f"it has {duration(minutes)} left, and {duration(seconds)} are asked for"
    return ""


def seconds_held(news: JobStatus, now: float) -> float:
    """Returns the seconds that an allocation has counted so far: from its start until its time was up; 0 before it
    starts."""
    if news.starts is None or news.stage not in (JobStage.RUNNING, JobStage.ENDED):
        return 0.0
    return max(0.0, min(now, news.until if news.until is not None else now) - news.starts)


def held_line(news: JobStatus, nodes: int, now: float | None = None) -> str:
    """Describes an allocation in a line: ``node1 is reserved for you until 14:30 (25 minutes left); 0.41 node-hours so
    far.``"""
    at = now if now is not None else time.time()
    where, cost = news.nodes or "The allocation", node_hours(nodes, seconds_held(news, at))
    if news.until is None:
        return f"{where} is reserved for you; {cost} so far."
    clock = time_of_day(news.until)
    if at >= news.until:
        return f"{where}: its time was up at {clock}; {cost}."
    left = duration(max(1, round((news.until - at) / 60)) * 60)
    return f"{where} is reserved for you until {clock} ({left} left); {cost} so far."
