"""The end of the job around a run. Read once, then kept by this process's own clock, which nobody sets. That the job is
over sooner, because its limit was lowered meanwhile, is known when the scheduler says so."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from clew_agent.node.allocation import Allocation

_SPARE_S, _SPARE_PART = 30.0, 8
"""The seconds before its time is up at which a job begins to end itself; in a short job its time divided by the second
number, as its keeper does it."""
_KILL_PART = 0.45
"""The part of those seconds below which a trainer that has not ended is killed, so that its guard can still seal."""
_NEAR_S = 125.0
"""Seconds left up to which a request to end is put down to the time limit, without a keeper: it comes at the limit, or
so long before as a script asks for it (a minute in the one of docs/command-line.md), and Slurm may send it another
minute early."""


class Deadline:
    """``left`` seconds from now the job is over (None: nobody knows when), which lasts ``limit`` seconds in all (None:
    it begins now).

    ``why`` says why the job's keeper is ending it just now; None where there is no keeper. ``in_job``: this process
    belongs to a scheduler's job at all.
    """

    def __init__(
        self,
        left: float | None = None,
        limit: float | None = None,
        why: Callable[[], str | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        in_job: bool = False,
    ) -> None:
        self.in_job = in_job
        self._clock = clock
        self._why = why
        self._end = math.inf if left is None else clock() + left
        self._spare = min(_SPARE_S, max(0.0, (left or 0.0) if limit is None else limit) / _SPARE_PART)

    @staticmethod
    def of(allocation: Allocation) -> Deadline:
        """The end of the job as it is known now."""
        if not allocation.until:
            return Deadline(why=allocation.ending, in_job=bool(allocation.job))
        left = allocation.until - time.time()
        began = allocation.record().get("began", "")
        whole = allocation.until - float(began) if began.isdecimal() else None
        return Deadline(left, whole, allocation.ending, in_job=True)

    @property
    def known(self) -> bool:
        """Whether there is one."""
        return math.isfinite(self._end)

    def left(self) -> float:
        """Seconds until the scheduler ends everything; infinite when nobody knows."""
        return self._end - self._clock()

    def usable(self) -> float:
        """Seconds until the job begins to end itself: everything should be saved by then."""
        return self.left() - self._spare

    def overdue(self) -> bool:
        """Whether there is only just time to write down that it is over."""
        return self.left() < self._spare * _KILL_PART

    def asks(self) -> bool:
        """Whether someone who asks a process to end now does so because the job's time is up."""
        why = self._why()
        if why is not None:
            return why == "time"
        return self.left() <= _NEAR_S
