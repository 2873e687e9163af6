"""A run's state as far as its job tells: before there is a journal, and when the job left one without an end."""

from __future__ import annotations

from collections.abc import Mapping

from clew_gui.remote.jobs import JobNews, Stage
from clew_gui.remote.schedulers.state import Phase
from clew_shared.lifecycle import RunState

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
_GONE = (RunState.LOST, "The job is gone, and nobody saw it end.")


def not_begun(news: JobNews) -> bool:
    """Whether nothing can have run in the job yet."""
    return not news.over and news.stage is not Stage.RUNNING


def waiting_state(news: JobNews) -> RunState:
    """The state of a run without journal whose job is not over."""
    return _WAITING.get(news.stage, RunState.STARTING)


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
