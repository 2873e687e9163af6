"""Turns a scheduler's answers about a job into news for people. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec.structs import replace

from clew_gui.jobs.job import JobNews, JobStage
from clew_gui.jobs.job_book import JobWish
from clew_gui.schedulers.state import ENDED, ON_NODE, WAITING, JobState, Output, Phase, Reason
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy

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


def of_state(before: JobNews, state: JobState, reason: Reason, now: float) -> JobNews:
    """The news while the job waits or runs. ``now`` in seconds since 1970."""
    if state.phase in WAITING:
        begin = f" It is expected to begin {moment(state.start, now)}." if _is_ahead(state.start, now) else ""
        return replace(
            before,
            stage=JobStage.QUEUED,
            text=reason.text + begin,
            starts=state.start,
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
    return before


def begun(before: JobNews) -> JobNews:
    """The news when its agent was found, if the scheduler still said that it waits."""
    if before.stage is not JobStage.QUEUED:
        return before
    return replace(before, stage=JobStage.RUNNING, text="The job runs.", blocked=False, problem=None)


_STEPS = tuple(JobStage)


def heard_from_another(before: JobNews, heard: JobNews, wish: JobWish | None) -> JobNews:
    """The news when another program wrote ``heard`` into the book: it counts as far as it is ahead of what is known."""
    ahead = heard.over or (heard.id and not before.id) or _STEPS.index(heard.stage) > _STEPS.index(before.stage)
    now = heard if ahead else before
    return now if wish is None or now.over else replace(now, text=ending(wish))


def ending(wish: JobWish) -> str:
    """Returns the sentence that is shown while the job is cancelled or given back."""
    return "The job is being cancelled." if wish is JobWish.CANCEL else "The allocation is being given back."


def not_ended(before: JobNews, done: Output) -> JobNews:
    """Returns the news that the job could not be ended: the scheduler was asked, and ``done`` is no yes."""
    said = "no answer in time" if done.late else done.said.strip()[-200:] or f"exit code {done.code}"
    found = Problem("job.end", f"The job could not be ended: {said.rstrip('.')}.", "Clew tries again.", before.job)
    return replace(before, text=found.text, problem=found)


def of_end(
    before: JobNews,
    state: JobState,
    reason: Reason,
    wish: JobWish | None,
    log: str = "",
    why: str = "",
    remedies: tuple[Remedy, ...] = (),
) -> JobNews:
    """The last news of a job. ``wish`` is what the person wanted of it, ``log`` where its own words lie, ``why`` a hint
    for just this end, with its ``remedies``."""
    text, wanted = reason.text, wish is not None and state.phase in (Phase.CANCELLED, Phase.COMPLETED, Phase.GONE)
    if wanted:
        text = "You cancelled the job." if wish is JobWish.CANCEL else "You gave the allocation back."
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
    )


def unreached(before: JobNews, problem: Problem, title: str) -> JobNews:
    """Returns the news that nobody can be asked now. The job goes on, and what is known of it stays."""
    if problem.code == "scheduler.silent":
        return replace(before, text=problem.text, problem=problem)
    goes_on = {JobStage.QUEUED: " The job keeps waiting.", JobStage.RUNNING: " The job goes on."}.get(before.stage, "")
    said = problem.text if problem.code == "ssh.busy" else f"{title} does not answer now."  # a busy server does answer
    return replace(before, text=f"{said}{goes_on}", problem=problem)


def refused(before: JobNews, problem: Problem) -> JobNews:
    """Returns the news of a job that never ran: it was not sent, or not accepted."""
    return replace(before, stage=JobStage.ENDED, text=problem.text, problem=problem, blocked=False)


def moment(at: float | None, now: float) -> str:
    """A time for people, by this computer's clock: ``at 14:05``, ``on Tue 24 Nov at 09:30``."""
    if at is None:
        return ""
    local = time.localtime(at)
    if at - now < _DAY_S:
        return time.strftime("at %H:%M", local)
    return time.strftime("on %a %d %b at %H:%M", local)


def _is_ahead(at: float | None, now: float) -> bool:
    return at is not None and at > now
