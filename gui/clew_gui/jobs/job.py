"""A job as the laptop knows it: what was asked for, what is known about it, and what each event makes of that. Plain
data and pure functions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.schedulers.state import ENDED, ON_NODE, WAITING, JobState, JobUse, Output, Phase, Reason
from clew_gui.study.usage import energy
from clew_shared.base.number_words import duration, in_bytes
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy
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

JOB_WORDS = (*STAGE_WORDS.values(), *_ENDS.values())
"""All that ``job_word`` may say."""


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


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The place for a run: a site by its name with the request to its scheduler, or a ``job`` that holds a node.

    ``data`` is a file or folder of this computer that is brought there first, ``exercises`` a folder of own exercises;
    empty: none. ``hold`` keeps the allocation until its end, for further runs. ``held_unused`` is why one that is held
    there is not used.
    """

    site: str = ""
    allocation: AllocationRequest = AllocationRequest()
    data: str = ""
    exercises: str = ""
    hold: bool = False
    job: str = ""
    held_unused: str = ""

    def order(self, *runs: RunSpec) -> JobOrder:
        """A new job for these runs there."""
        return JobOrder(
            job=str(uuid.uuid4()),
            site=self.site,
            allocation=self.allocation,
            runs=runs,
            data=self.data,
            exercises=self.exercises,
            hold=self.hold,
        )


class EndRequest(StrEnum):
    """The way in which a person asked for the end of a job: it explains why the job ended."""

    CANCEL = "cancel"
    LET_GO = "let_go"


def as_there(spec: RunSpec) -> RunSpec:
    """The spec as the site reads it: data of the site's own (``site:/path``) are a path there."""
    return replace(spec, data=spec.data.removeprefix(SITE_PATH))


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job as last known. A later one replaces it.

    ``text`` is one sentence for the window ("Waits in the queue: other jobs come first."). ``id`` is the
    scheduler's. ``starts`` is when it is expected to begin or began, ``until`` when its time is up, in seconds since
    1970. ``phase`` is the scheduler's word at the end, ``problem`` why it was refused, failed or cannot be asked for
    now. ``blocked``: it will not start unless someone does something. ``use`` is what the scheduler's accounts say of
    it after its end.
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
    use: JobUse = JobUse()

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


def job_word(news: JobStatus) -> str:
    """Says how far a job is, or how it ended."""
    if news.stage is not JobStage.ENDED:
        return STAGE_WORDS[news.stage]
    return _ENDS.get(news.phase, "Ended") if news.phase is not None else "Not sent"


def use_words(use: JobUse) -> str:
    """``waited 13 minutes, 3.1 GB of memory at most, 3.1 Wh``: what the scheduler tells, which may be nothing."""
    parts = [f"waited {duration(round(use.waited))}"] if use.waited is not None else []
    parts += [f"{in_bytes(round(use.memory))} of memory at most"] if use.memory is not None else []
    return ", ".join([*parts, energy(use.energy)] if use.energy is not None else parts)


ReportStatus = Callable[[JobStatus], None]
"""Takes what is new of a job, from any thread."""


# --- What an event makes of the news ----------------------------------------------------------------------------------

_CONTINUE = "Continue starts from the last checkpoint, if there is one."
_CODES: Mapping[Phase, tuple[str, str]] = {
    Phase.FAILED: ("job.failed", ""),
    Phase.OUT_OF_MEMORY: ("job.memory", "Ask for more memory, or use a smaller batch or model."),
    Phase.NODE_FAILED: ("job.node", f"{_CONTINUE} It gets another node."),
    Phase.TIMED_OUT: ("job.time", _CONTINUE),
    Phase.CANCELLED: ("job.cancelled", _CONTINUE),
    Phase.GONE: ("job.lost", "What it wrote is still there."),
}
_DAY_S = 12 * 3600
_STEPS = tuple(JobStage)


def status_while_alive(before: JobStatus, state: JobState, reason: Reason, now: float) -> JobStatus:
    """The news while the job waits or runs. ``now`` in seconds since 1970."""
    if state.phase in WAITING:
        start = state.start if not reason.blocked else None  # Slurm names a time for jobs that it holds as well
        begin = f" It is expected to begin {moment(start, now)}." if start is not None and start > now else ""
        return replace(
            before,
            stage=JobStage.QUEUED,
            text=reason.text + begin,
            starts=start,
            until=None,
            nodes="",
            problem=None,
            blocked=reason.blocked,
        )
    if state.phase in ON_NODE:
        return replace(
            before,
            stage=JobStage.RUNNING,
            text=reason.text,
            starts=state.start if state.start is not None else before.starts,
            until=state.end if state.end is not None else before.until,
            nodes=state.nodes or before.nodes,
            problem=None,
            blocked=False,
        )
    return replace(before, text=reason.text, problem=None)


def begun(before: JobStatus) -> JobStatus:
    """The news when its agent was found, if the scheduler still said that it waits."""
    if before.stage is not JobStage.QUEUED:
        return before
    return replace(before, stage=JobStage.RUNNING, text="The job runs.", blocked=False, problem=None)


def heard_from_another(before: JobStatus, heard: JobStatus, request: EndRequest | None) -> JobStatus:
    """The news when another program wrote ``heard`` into the book: it counts as far as it is ahead of what is known."""
    ahead = heard.over or (heard.id and not before.id) or _STEPS.index(heard.stage) > _STEPS.index(before.stage)
    now = heard if ahead else before
    return now if request is None or now.over else replace(now, text=ending(request))


def ending(request: EndRequest) -> str:
    """Returns the sentence that is shown while the job is cancelled or given back."""
    return "The job is being cancelled." if request is EndRequest.CANCEL else "The allocation is being given back."


def not_ended(before: JobStatus, done: Output) -> JobStatus:
    """Returns the news that the job could not be ended: the scheduler was asked, and ``done`` is no yes."""
    said = "no answer in time" if done.late else done.said.strip()[-200:] or f"exit code {done.code}"
    found = Problem("job.end", f"The job could not be ended: {said.rstrip('.')}.", "Clew tries again.", before.job)
    return replace(before, text=found.text, problem=found)


def status_at_end(
    before: JobStatus,
    state: JobState,
    reason: Reason,
    request: EndRequest | None,
    log: str = "",
    why: str = "",
    remedies: tuple[Remedy, ...] = (),
) -> JobStatus:
    """The last news of a job. ``request`` is how a person asked for its end, ``log`` where its own words lie, ``why`` a
    hint for just this end, with its ``remedies``."""
    text, wanted = reason.text, request is not None and state.phase in (Phase.CANCELLED, Phase.COMPLETED, Phase.GONE)
    if wanted:
        text = "You cancelled the job." if request is EndRequest.CANCEL else "You gave the allocation back."
    stage = JobStage.LOST if state.phase is Phase.GONE and not wanted else JobStage.ENDED
    found = None
    if state.phase is not Phase.COMPLETED and not wanted and (state.phase in ENDED or stage is JobStage.LOST):
        code, hint = _CODES[state.phase]
        said = f"Its output is in {log}." if log and state.phase in (Phase.FAILED, Phase.GONE) else ""
        found = Problem(code, text, " ".join(part for part in (hint, why, said) if part), before.job, remedies)
    return replace(
        before,
        stage=stage,
        text=text,
        phase=state.phase,
        problem=found,
        blocked=False,
        starts=state.start if state.start is not None else before.starts,
        until=state.end if state.end is not None else before.until,
        nodes=state.nodes or before.nodes,
        use=state.use,
    )


def site_unreachable(before: JobStatus, problem: Problem, title: str) -> JobStatus:
    """Returns the news that nobody can be asked now. The job goes on, and what is known of it stays."""
    if problem.code == "scheduler.silent":
        return replace(before, text=problem.text, problem=problem)
    goes_on = {JobStage.QUEUED: " The job keeps waiting.", JobStage.RUNNING: " The job goes on."}.get(before.stage, "")
    said = problem.text if problem.code == "ssh.busy" else f"{title} does not answer now."  # a busy server does answer
    return replace(before, text=f"{said}{goes_on}", problem=problem)


def refused(before: JobStatus, problem: Problem) -> JobStatus:
    """Returns the news of a job that never ran: it was not sent, or not accepted."""
    return replace(before, stage=JobStage.ENDED, text=problem.text, problem=problem, blocked=False)


def moment(at: float, now: float) -> str:
    """A time for people, by this computer's clock: ``at 14:05``, ``on Tue 24 Nov at 09:30``."""
    local = time.localtime(at)
    if at - now < _DAY_S:
        return time.strftime("at %H:%M", local)
    return time.strftime("on %a %d %b at %H:%M", local)
