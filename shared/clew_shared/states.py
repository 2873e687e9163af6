"""The states a run can be in. ``lifecycle`` says which may follow which and how records fold into one."""

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
