"""Says in one sentence why a run on a site does not move, for anyone who follows it in a terminal."""

from __future__ import annotations

import time
from typing import NamedTuple

from clew_gui.base.state_words import queue_place
from clew_gui.session.job_links import JobModel
from clew_gui.session.links.inbox import AGENT_ENDED, SILENT, LinkState
from clew_gui.session.run_state import not_begun
from clew_gui.session.runs import RunModel
from clew_shared.base.problem import Problem
from clew_shared.journal.lifecycle import TERMINAL, RunState

QUIET_S = 20.0
"""The seconds that a training run may be without a new step before that is said. A silent agent is noticed earlier: it
is the cause then, and the only thing to say."""


class Standstill(NamedTuple):
    """Says why a run does not move. ``text`` is a sentence that stays the same as long as it lasts; it began ``since``,
    in seconds since 1970."""

    text: str
    since: float


class Watched:
    """Remembers of one run since when nothing moved. ``now`` is in seconds since 1970."""

    def __init__(self, now: float) -> None:
        self._moved = now
        self._place: tuple[int, int, RunState] | None = None
        self._silent_since = 0.0
        self._ended = self._again = False
        self._shown: Standstill | None = None

    def look(self, run: RunModel, job: JobModel, now: float) -> Standstill | None:
        """Says why nothing moves; None if something does, or the run is over."""
        fold = run.history.fold
        place = (fold.attempt, fold.step, fold.state)
        live = job.link.state is LinkState.LIVE
        if place != self._place or fold.state is not RunState.RUNNING or not live:
            self._place, self._moved = place, now
        self._look_at_link(job)
        text = _why(run, job, self._silence(job), self._moved, now)
        if not text:
            self._shown = None
        elif self._shown is None or self._shown.text != text:
            self._shown = Standstill(text, self._silent_since or now)
        return self._shown

    def _look_at_link(self, job: JobModel) -> None:
        """Notes since when the agent does not answer: from the first state that is not live. A job that waits again
        will have another agent."""
        if job.link.state is LinkState.LIVE or not_begun(job.news):
            self._silent_since, self._ended = 0.0, False
            self._again = not_begun(job.news)
            return
        if not self._silent_since and job.link.since:
            self._silent_since = job.link.since
        self._ended = self._ended or job.link.text == AGENT_ENDED

    def _silence(self, job: JobModel) -> str:
        """Says since when the agent does not answer, whether a person can help, and that nothing is lost."""
        if job.link.state is LinkState.LIVE:
            return ""
        if self._again:
            return _with_cause(no_agent(job) or "The job runs; its agent is starting.", job)
        if self._ended:
            return _with_cause(_ended(job), job)
        return _with_cause(f"{_unheard(job, self._silent_since)} Training goes on there.", job)


def _why(run: RunModel, job: JobModel, silence: str, moved: float, now: float) -> str:
    news = job.news
    if run.settled or (run.state in TERMINAL and run.history.fold.done):
        return ""
    if news.over:
        return "The job is over; what it left is being fetched."
    if not_begun(news):
        return f"The job is back in the queue. {news.text}".rstrip()
    if silence:
        return silence
    if run.status is not None and run.status.queue:
        return f"Waiting: {queue_place(run.status.queue)} of {_where(job)}."
    if run.catching_up is not None:
        return ""  # points arrive, of earlier steps
    if run.state is RunState.RUNNING and now - moved >= QUIET_S:
        return f"No new step since {clock(moved)}; {_where(job)} answers."
    return ""


def _unheard(job: JobModel, since: float) -> str:
    return f"No answer from {_where(job)}{f' since {clock(since)}' if since else ''}."


def _ended(job: JobModel) -> str:
    return f"The agent on {_where(job)} has ended; Clew asks the scheduler what became of the job."


def _with_cause(text: str, job: JobModel) -> str:
    """Adds why nobody is logged in, or why the site cannot be asked."""
    cause = job.locked or job.news.problem
    return f"{text} {cause.text}" if cause is not None else text


def why_unasked(job: JobModel) -> Problem | None:
    """Says why neither the agent nor the site can be asked about a job that is not over; None if one of them can."""
    if job.link.state is LinkState.LIVE or job.news.over:
        return None
    return job.locked or job.news.problem


def no_agent(job: JobModel) -> str:
    """Says why the agent of a running job does not answer, if nothing of its run is shown yet; empty while it is being
    connected to, which needs no words."""
    link = job.link
    if link.state is LinkState.LIVE or link.text == "connecting":
        return ""
    if link.text == SILENT:
        return _unheard(job, link.since)
    if link.text == AGENT_ENDED:
        return _ended(job)
    text = f"{link.text[:1].upper()}{link.text[1:]}"
    return text if text.endswith((".", "…")) or not text else f"{text}."


def _where(job: JobModel) -> str:
    return job.news.nodes or job.title


def clock(moment: float) -> str:
    """A moment of today as ``14:03:05``."""
    return time.strftime("%H:%M:%S", time.localtime(moment))
