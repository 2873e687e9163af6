"""Describes a job's state at any scheduler in one form."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from clew_shared.base.problem import Problem


class Phase(StrEnum):
    """The phase of a job, or how it ended. GONE and SILENT are what remains if nobody says more."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    REQUEUED = "REQUEUED"
    """The job ran, and waits again: it will begin from the start."""
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    NODE_FAILED = "NODE_FAILED"
    UNKNOWN = "UNKNOWN"
    """The scheduler has it, in a state of which it is not known whether it waits, runs or is over."""
    GONE = "GONE"
    """The scheduler does not know it, or not any more."""
    SILENT = "SILENT"
    """The scheduler does not answer: nothing is known, and nothing is over."""


WAITING = frozenset({Phase.PENDING, Phase.REQUEUED})
ON_NODE = frozenset({Phase.RUNNING, Phase.SUSPENDED, Phase.COMPLETING})
NOT_KNOWN = frozenset({Phase.SILENT, Phase.UNKNOWN})
ENDED = frozenset(
    {Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT, Phase.OUT_OF_MEMORY, Phase.NODE_FAILED}
)
"""The scheduler itself says that the job is over. Neither GONE nor SILENT is among them: one source is not enough."""


class JobUse(msgspec.Struct, frozen=True, kw_only=True):
    """What the scheduler's accounts say of a whole job: the seconds that it waited, the most memory in bytes of one
    of its tasks (Slurm) or of all together (PBS), the energy of its nodes in joules. None: not known."""

    waited: float | None = None
    memory: float | None = None
    energy: float | None = None


def waited(submitted: float | None, started: float | None) -> float | None:
    """The seconds from one moment to the other; None where one is not known."""
    return max(started - submitted, 0.0) if submitted is not None and started is not None else None


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job in one answer of the scheduler.

    ``reason`` is the scheduler's own word. ``start`` is when it began, or is expected to begin while it waits; ``end``
    when its time is up, or when it ended; both in seconds since 1970, None when unknown. ``nodes`` is how the
    scheduler writes them (``node[1-3]``). ``by`` is who cancelled it, empty when unknown. ``exit_code`` and ``signal``
    are those of the job script. ``limit`` is the time asked for, in seconds. ``use`` is what its accounts say.
    """

    id: str
    phase: Phase
    name: str = ""
    reason: str = ""
    nodes: str = ""
    start: float | None = None
    end: float | None = None
    limit: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    by: str = ""
    use: JobUse = JobUse()


class Output(msgspec.Struct, frozen=True):
    """The result of a command on the site. ``late`` means that it was given up, and nothing else counts."""

    code: int
    out: str = ""
    err: str = ""
    late: bool = False

    @property
    def failed(self) -> bool:
        """Whether it was given up, or has ended with another status than 0."""
        return self.late or self.code != 0

    @property
    def said(self) -> str:
        """Returns all that it printed."""
        return f"{self.out}\n{self.err}"


class Reason(msgspec.Struct, frozen=True):
    """A whole sentence. ``blocked`` says that the job will not start unless somebody does something."""

    text: str
    blocked: bool = False


class PartitionLimits(msgspec.Struct, frozen=True):
    """The limits of a partition for a job; None: not reported, or no limit."""

    time: int | None = None
    nodes: int | None = None


class Submitted(msgspec.Struct, frozen=True):
    """The result of a submission: the job's id, or why it was refused."""

    id: str = ""
    problem: Problem | None = None

    @property
    def lost(self) -> bool:
        """Whether nobody knows if the job was taken: look for its name before it is sent again."""
        return not self.id and (self.problem is None or self.problem.code == "scheduler.silent")
