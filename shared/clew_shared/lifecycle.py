"""The states of a run, which may follow which, and how a journal's records fold into what is shown."""

from __future__ import annotations

from enum import StrEnum


class RunState(StrEnum):
    """DRAFT to QUEUED and LOST stand in the laptop's job record, STARTING to the end in the node's journal."""

    DRAFT = "DRAFT"
    SUBMITTED = "SUBMITTED"
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"


TERMINAL = frozenset(
    {RunState.FINISHED, RunState.STOPPED, RunState.FAILED, RunState.TIMED_OUT, RunState.LOST},
)

_ORDER = (RunState.DRAFT, RunState.SUBMITTED, RunState.QUEUED, RunState.STARTING, RunState.PREPARING, RunState.RUNNING)


def may_follow(earlier: RunState, later: RunState) -> bool:
    """Whether ``later`` may come after ``earlier``. Stages may be skipped forwards; only LOST can be corrected."""
    if earlier in TERMINAL:
        return earlier is RunState.LOST and later in TERMINAL
    if later in TERMINAL:
        return later is not RunState.FINISHED or earlier in (RunState.RUNNING, RunState.PAUSED)
    if later is RunState.PAUSED or earlier is RunState.PAUSED:
        return {earlier, later} == {RunState.PAUSED, RunState.RUNNING}
    return _ORDER.index(earlier) < _ORDER.index(later)
