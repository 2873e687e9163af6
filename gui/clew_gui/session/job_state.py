"""A run's state as far as its job tells: before there is a journal, when the job left one without an end, and why the
job was ended."""

from __future__ import annotations

from collections.abc import Mapping

from clew_gui.remote.jobs import JobNews, Stage
from clew_gui.remote.schedulers.state import Phase
from clew_shared.lifecycle import RunFold, RunState
from clew_shared.sayings import JOB_ENDED

_WAITING: Mapping[Stage, RunState] = {
    Stage.DRAFT: RunState.DRAFT,
    Stage.CONNECTING: RunState.SUBMITTED,
    Stage.PREPARING: RunState.SUBMITTED,
    Stage.SUBMITTING: RunState.SUBMITTED,
    Stage.QUEUED: RunState.QUEUED,
    Stage.RUNNING: RunState.STARTING,
}
_ENDS: Mapping[Phase, tuple[RunState, str]] = {
    Phase.COMPLETED: (RunState.STOPPED, "The job ended without it."),
    Phase.FAILED: (RunState.FAILED, "The job failed."),
    Phase.CANCELLED: (RunState.STOPPED, "The job was cancelled."),
    Phase.TIMED_OUT: (RunState.TIMED_OUT, "The job's time was up."),
    Phase.OUT_OF_MEMORY: (RunState.FAILED, "Out of memory: the job used more than it had asked for."),
    Phase.NODE_FAILED: (RunState.FAILED, "The node failed."),
}
BEING_FETCHED = "The job is over; what it left is being fetched."
_GONE = (RunState.LOST, "The job is gone, and nobody saw it end.")


def not_begun(news: JobNews) -> bool:
    """Whether nothing can have run in the job yet."""
    return not news.over and news.stage is not Stage.RUNNING


def waiting_state(news: JobNews) -> RunState:
    """The state of a run without journal whose job is not over."""
    return _WAITING.get(news.stage, RunState.STARTING)


def state_with_job(fold: RunFold, news: JobNews, follows_on: bool, settled: bool) -> tuple[RunState, str] | None:
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


def ended_before(fold: RunFold, news: JobNews, follows_on: bool) -> bool:
    """Whether the end in the journal is that of an earlier job. It may be this job's agent that writes it down."""
    if not follows_on:
        return False
    if fold.job:
        return fold.job != news.job
    return not_begun(news) or (news.starts is not None and fold.ended < news.starts)


def reason_with_job(fold: RunFold, news: JobNews | None) -> str:
    """Why the run ended: who cancelled its job is known here, and not on the node."""
    cancelled = news is not None and news.phase is Phase.CANCELLED and fold.job in ("", news.job)
    return news.text if news is not None and cancelled and fold.reason == JOB_ENDED and news.text else fold.reason


def _after(fold: RunFold, news: JobNews, follows_on: bool, settled: bool) -> tuple[RunState, str]:
    """The job is over, and the journal as far as it is here has no end of this job's."""
    if not settled and (news.id or follows_on):  # one that was never sent has left nothing
        state = fold.state if fold.attempt and not fold.done else RunState.STARTING
        return state, BEING_FETCHED
    state, why = verdict(news, began=bool(fold.attempt))
    return (fold.state, why) if fold.done else (state, why)


def verdict(news: JobNews, began: bool) -> tuple[RunState, str]:
    """What became of a run whose journal has no end, and why, once its job is over. ``began``: it has a journal."""
    if news.stage is Stage.LOST or news.phase is Phase.GONE:
        return RunState.LOST, news.text or _GONE[1]
    if news.phase is None:  # it was never taken, or taken back before that
        state = RunState.FAILED if news.problem is not None else RunState.STOPPED
        return state, _why(news) or "The job was not sent."
    state, words = _ENDS.get(news.phase, _GONE)
    if state is RunState.STOPPED and news.phase is Phase.COMPLETED and began:
        return RunState.LOST, "The job ended, and the run's journal has no end."
    return state, _why(news) or words


def _why(news: JobNews) -> str:
    return news.problem.text if news.problem is not None else news.text
