"""A job as the laptop knows it: what was asked for, and what is known about it. Plain data."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.state import Phase
from clew_shared.base.problem import Problem
from clew_shared.spec import SITE_PATH, RunSpec

_LATE_S = 60.0
"""The seconds by which the clocks of two computers may differ; a scheduler also takes a moment to end a job."""


class JobStage(StrEnum):
    """The stage that a job has reached. Only ENDED and LOST are final."""

    DRAFT = "DRAFT"
    """Written down here, nothing sent."""
    CONNECTING = "CONNECTING"
    PREPARING = "PREPARING"
    """Agent, data and exercises are being brought there."""
    SUBMITTING = "SUBMITTING"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    ENDED = "ENDED"
    LOST = "LOST"
    """The scheduler does not know it any more and nobody saw it end: two sources agree."""


STAGE_WORDS = {
    JobStage.DRAFT: "Not sent yet",
    JobStage.CONNECTING: "Connecting",
    JobStage.PREPARING: "Preparing",
    JobStage.SUBMITTING: "Submitting",
    JobStage.QUEUED: "Queued",
    JobStage.RUNNING: "Running",
    JobStage.LOST: "Lost",
}
"""A stage for people. How a job ended is said by its phase."""
_ENDS = {
    Phase.COMPLETED: "Ended",
    Phase.FAILED: "Failed",
    Phase.CANCELLED: "Cancelled",
    Phase.TIMED_OUT: "Time was up",
    Phase.OUT_OF_MEMORY: "Out of memory",
    Phase.NODE_FAILED: "Node failed",
}


class JobOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A person's request: a job with this UUID on the site of this name.

    The job's agent starts ``runs`` by itself. ``data`` is a file or folder of this computer that is brought there
    first (empty: none), ``exercises`` a folder of own exercises here. ``hold``: the allocation is kept until its end or
    until it is let go, also while nothing runs.
    """

    job: str
    site: str
    allocation: AllocationRequest = AllocationRequest()
    runs: tuple[RunSpec, ...] = ()
    data: str = ""
    exercises: str = ""
    hold: bool = False


def as_there(spec: RunSpec) -> RunSpec:
    """The spec as the site reads it: data of the site's own (``site:/path``) are a path there."""
    return msgspec.structs.replace(spec, data=spec.data.removeprefix(SITE_PATH))


class JobNews(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a job, whole: later news replaces it.

    ``text`` is one sentence for the status line ("Waits in the queue: other jobs come first."). ``id`` is the
    scheduler's. ``starts`` is when it is expected to begin or began, ``until`` when its time is up, in seconds since
    1970. ``phase`` is the scheduler's word at the end, ``problem`` why it was refused, failed or cannot be asked for
    now. ``blocked``: it will not start unless someone does something.
    """

    job: str
    stage: JobStage
    text: str = ""
    id: str = ""
    starts: float | None = None
    until: float | None = None
    nodes: str = ""
    phase: Phase | None = None
    problem: Problem | None = None
    blocked: bool = False

    @property
    def over(self) -> bool:
        """Whether there will be no more news of it."""
        return self.stage in (JobStage.ENDED, JobStage.LOST)

    def is_past(self, now: float) -> bool:
        """Whether its time is up by this computer's clock, whatever the last news of it was. ``now`` in seconds since
        1970."""
        return self.stage is JobStage.RUNNING and self.until is not None and now > self.until + _LATE_S

    @property
    def refused(self) -> bool:
        """Whether it never came into a queue: refused before it was sent, or by the scheduler."""
        return self.over and not self.id and self.problem is not None


def job_word(news: JobNews) -> str:
    """Says how far a job is, or how it ended."""
    if news.stage is not JobStage.ENDED:
        return STAGE_WORDS[news.stage]
    return _ENDS.get(news.phase, "Ended") if news.phase is not None else "Not sent"


ReportNews = Callable[[JobNews], None]
"""Takes what is new of a job, from any thread."""
