"""The state of a run as a viewer shows it: one fold of its journal, of what its agent said, and of the job it was given
to. Nothing here remembers anything; ``Evidence`` is all that counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clew_gui.jobs.job import JobStage, JobStatus
from clew_gui.schedulers.state import Phase
from clew_shared.journal.history import JOB_ENDED
from clew_shared.journal.lifecycle import TERMINAL, RunFold, RunState
from clew_shared.wire.messages import RunStatus

_WAITING: Mapping[JobStage, RunState] = {
    JobStage.DRAFT: RunState.DRAFT,
    JobStage.CONNECTING: RunState.SUBMITTED,
    JobStage.PREPARING: RunState.SUBMITTED,
    JobStage.SUBMITTING: RunState.SUBMITTED,
    JobStage.QUEUED: RunState.QUEUED,
    JobStage.RUNNING: RunState.STARTING,
}
_ENDS: Mapping[Phase, tuple[RunState, str]] = {
    Phase.COMPLETED: (RunState.STOPPED, "The job ended without it."),
    Phase.FAILED: (RunState.FAILED, "The job failed."),
    Phase.CANCELLED: (RunState.STOPPED, "The job was cancelled."),
    Phase.TIMED_OUT: (RunState.TIMED_OUT, "The job's time was up."),
    Phase.OUT_OF_MEMORY: (RunState.FAILED, "Out of memory: the job used more than it had asked for."),
    Phase.NODE_FAILED: (RunState.FAILED, "The node failed."),
}
_KILLED = (Phase.OUT_OF_MEMORY, Phase.TIMED_OUT, Phase.NODE_FAILED)
CATCHING_UP_BYTES = 256 * 1024
"""The size of the missing part of a journal from which on a person is informed."""
BEING_FETCHED = "The job is over; what it left is being fetched."
_GONE = (RunState.LOST, "The job is gone, and it is not known how it ended.")


def not_begun(news: JobStatus) -> bool:
    """Whether nothing can have run in the job yet."""
    return not news.over and news.stage is not JobStage.RUNNING


def waiting_state(news: JobStatus) -> RunState:
    """The state of a run without journal whose job is not over."""
    return _WAITING.get(news.stage, RunState.STARTING)


def state_with_job(fold: RunFold, news: JobStatus, follows_on: bool, settled: bool) -> tuple[RunState, str] | None:
    """The state of a run that was given to the job of ``news``, and why, where no agent is heard; None: its journal,
    folded in ``fold``, says all.

    ``follows_on``: an earlier job had it before; ``settled``: all that the job left of the journals is in ``fold``.
    """
    if fold.done and not ended_before(fold, news, follows_on):
        return fold.state, reason_with_job(fold, news)
    if news.over:
        return _after(fold, news, follows_on, settled)
    if not fold.attempt or fold.done or not_begun(news):
        return waiting_state(news), news.text
    return None


def ended_before(fold: RunFold, news: JobStatus, follows_on: bool) -> bool:
    """Whether the end in the journal is that of an earlier job. It may be this job's agent that writes it down."""
    if not follows_on:
        return False
    if fold.job:
        return fold.job != news.job
    return not_begun(news) or (news.starts is not None and fold.ended < news.starts)


def reason_with_job(fold: RunFold, news: JobStatus | None) -> str:
    """Returns why the run ended: this computer knows who cancelled its job, and why the scheduler killed all of its
    processes; the node does not."""
    if news is None or not news.text or fold.job not in ("", news.job):
        return fold.reason
    cancelled = news.phase is Phase.CANCELLED and fold.reason == JOB_ENDED
    killed = news.phase in _KILLED and fold.vanished
    return news.text if cancelled or killed else fold.reason


def _after(fold: RunFold, news: JobStatus, follows_on: bool, settled: bool) -> tuple[RunState, str]:
    """Returns state and reason if the job is over, and the journal as far as it is here has no end of this job's."""
    if not settled and (news.id or follows_on):  # one that was never sent has left nothing
        state = fold.state if fold.attempt and not fold.done else RunState.STARTING
        return state, BEING_FETCHED
    state, why = verdict(news, began=bool(fold.attempt))
    return (fold.state, why) if fold.done else (state, why)


def verdict(news: JobStatus, began: bool) -> tuple[RunState, str]:
    """Returns state and reason of a run whose journal has no end, once its job is over. ``began``: it has a journal."""
    if news.stage is JobStage.LOST or news.phase is Phase.GONE:
        return RunState.LOST, news.text or _GONE[1]
    if news.phase is None:  # it was never taken, or taken back before that
        state = RunState.FAILED if news.problem is not None else RunState.STOPPED
        return state, _why(news) or "The job was not sent."
    state, words = _ENDS.get(news.phase, _GONE)
    if state is RunState.STOPPED and news.phase is Phase.COMPLETED and began:
        return RunState.LOST, "The job ended, but the run's journal is incomplete."
    return state, _why(news) or words


def _why(news: JobStatus) -> str:
    return news.problem.text if news.problem is not None else news.text


# --- One fold of all evidence -----------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """The facts that are known about a run. ``fold`` is its journal, as far as it is here; ``status`` what its agent
    said last, None if it does not know the run or has not been asked; ``job`` the latest job that it was given to, None
    for a run of this computer.

    ``follows_on``: an earlier job had it before, so an end in the journal may be that one's. ``settled``: the job is
    over, and all that it left of the journals is here. ``refused``: why it never began. ``never_arrived``: its
    request was lost with an earlier window. ``coming``: much of the journal is still to come. ``ahead``: more of it is
    here than there was when the agent spoke last.
    """

    fold: RunFold
    status: RunStatus | None = None
    job: JobStatus | None = None
    follows_on: bool = False
    settled: bool = False
    refused: str = ""
    never_arrived: bool = False
    coming: bool = False
    ahead: bool = False


def shown_state(known: Evidence) -> tuple[RunState, str]:
    """The state, and why, in words; empty when there is nothing to say.

    It is the journal's, so that an end is never shown before the points that lead to it; the agent's before a journal
    is here, while a continuation waits, and while a long journal is still being fetched.
    """
    if known.refused:
        return RunState.FAILED, known.refused
    job, fold = known.job, known.fold
    if job is not None and _may_go_on(known):
        return waiting_state(job), job.text
    if job is not None and (job.over or known.status is None or not_begun(job)):  # or it waits once more
        found = state_with_job(fold, job, known.follows_on, known.settled)
        if found is not None:
            return found
    state = _with_journal(known) if fold.attempt else _without_journal(known)
    return state, _reason(known, state)


def _may_go_on(known: Evidence) -> bool:
    """Whether the job lives, and its agent may be about to go on with an attempt that ended with its node: a scheduler
    starts a job again elsewhere. Once the agent itself shows it as ended, it has."""
    if known.job is None or known.job.over or not known.fold.vanished:
        return False
    return known.status is None or known.status.state not in TERMINAL or known.ahead


def is_complete(known: Evidence) -> bool:
    """Whether it has ended, and all of its journal has been taken in."""
    fold, status = known.fold, known.status
    waits = status is not None and status.state not in TERMINAL and not known.ahead
    ended = fold.done and fold.sealed and shown_state(known)[0] is fold.state
    return ended and not waits and not known.coming


def _without_journal(known: Evidence) -> RunState:
    status = known.status
    if status is None:
        return RunState.STOPPED if known.never_arrived else RunState.SUBMITTED
    if status.state in TERMINAL and 0 < status.size <= CATCHING_UP_BYTES:
        return RunState.STARTING  # it ended so quickly that its journal is still on its way here
    return status.state


def _with_journal(known: Evidence) -> RunState:
    fold, status = known.fold, known.status
    if fold.state is RunState.DRAFT:  # its first frame is here, which has no state yet
        return RunState.STARTING
    if status is None or status.attempt < fold.attempt:
        return fold.state
    before = known.job is not None and ended_before(fold, known.job, known.follows_on)
    if fold.done and status.state in TERMINAL and before:
        return RunState.STARTING  # the agent of the next job has not taken it up yet
    waits = fold.done and status.state in (RunState.QUEUED, RunState.STARTING) and not known.ahead
    ended = not fold.done and status.state in TERMINAL and known.coming
    return status.state if waits or ended else fold.state


def _reason(known: Evidence, state: RunState) -> str:
    if known.fold.attempt:
        return known.fold.reason if state is known.fold.state else ""
    if known.status is not None:
        return known.status.reason
    return "It never reached the agent." if known.never_arrived else ""
