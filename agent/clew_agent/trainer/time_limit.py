"""The end of the job around a run: ends the run in time, and says early when that will be before its last step.

The end is read once, then kept by this process's own clock, which nobody sets. That the job is over sooner, because its
limit was lowered meanwhile, is known when the scheduler says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from clew_agent.node.allocation import Allocation
from clew_shared.base.number_words import duration
from clew_shared.journal.events import Event, Log
from clew_shared.wire.messages import Stop

if TYPE_CHECKING:
    from clew_agent.trainer.control import ControlRequests  # with ZeroMQ, which the guard does not load

_SPARE_S, _SPARE_PART = 30.0, 8
"""The seconds before its time is up at which a job begins to end itself; in a short job its time divided by the second
number, as its keeper does it."""
_KILL_PART = 0.45
"""The part of those seconds below which a trainer that has not ended is killed, so that its guard can still seal."""
_NEAR_S = 125.0
"""Seconds left up to which a request to end is put down to the time limit, without a keeper: it comes at the limit, or
so long before as a script asks for it (a minute in the one of docs/command-line.md), and Slurm may send it another
minute early."""
FORECAST = "forecast"
"""``stage`` of the sentence that predicts the end; its ``seconds`` are those that the run still needs."""
_MARGIN_S, _MARGIN_PART = 10.0, 8
"""Kept for what was never measured: the files' records, the last state, a slower disk. Less where time is short."""
_SAVING = 2.0
"""The multiple of the longest time of a checkpoint so far that a further one may take."""
_WINDOW_S, _WINDOW_PART = 2.5, 100
"""The length of a window, in seconds and as a part of the time that is left (a hundredth). Nothing is predicted before
two windows had about the same pace: the first blocks hold tracing and compiling."""
_STEADY = 1.5
"""The paces of two windows may differ by this factor."""
_SURE, _DOUBT = 1.03, 0.9
"""Factors of the time left: a run that needs more than the first is said to be late, and below the second to be in time
after all."""


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


class TimeIsUp(Stop, frozen=True, kw_only=True):
    """The command to end because the job around the run is about to be over. Never sent: the trainer says it to
    itself."""


class Timekeeper:
    """Watches the time limit of one attempt. ``record`` takes the sentences; ``look`` puts the request to end into
    ``commands``.

    The longest time between two checks, and the time for a checkpoint, are learned and kept in reserve.
    """

    def __init__(
        self,
        deadline: Deadline,
        commands: ControlRequests,
        run: str,
        record: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadline = deadline
        self._commands = commands
        self._run = run
        self._record = record
        self._clock = clock
        self._margin = min(_MARGIN_S, max(0.0, deadline.usable()) / _MARGIN_PART)
        self._saving = 0.0
        self._longest = 0.0
        self._looked: float | None = None
        self._first = 0
        self._worked = 0.0
        self._pace: float | None = None
        self._steady = False
        self._late = False

    def saved(self, seconds: float) -> None:
        """Notes how long a checkpoint took."""
        self._saving = max(self._saving, seconds)

    def look(self, step: int = 0, steps: int = 0, idle: bool = False) -> None:
        """Ask the run to end when it is time to. At a block's head with the next ``step`` of how many ``steps`` (0: no
        step is trained yet, or ever); ``idle``: none was since the last check, because the run is paused."""
        if not self._deadline.known:
            return
        if steps:
            self._learn(step, idle)
        left = self._deadline.usable()
        if left <= self._reserve():
            if self._commands.stop is None:
                self._commands.put(TimeIsUp(run=self._run))
        elif steps and not idle:
            self._predict(step, steps, left)

    def _reserve(self) -> float:
        return self._margin + self._longest + _SAVING * self._saving

    def _learn(self, step: int, idle: bool) -> None:
        now = self._clock()
        if self._looked is None:
            self._first = step
        elif not idle:
            self._worked += now - self._looked
            self._longest = max(self._longest, now - self._looked)
        self._looked = now

    def _predict(self, step: int, steps: int, left: float) -> None:
        if step <= self._first or not self._is_steady(step, left):
            return
        needed = (steps - step) * self._worked / (step - self._first)
        factor = _DOUBT if self._late else _SURE
        late = needed > (left - self._reserve()) * factor
        if late != self._late:
            self._late = late
            ends = duration(self._deadline.left())
            text = f"This run will need about {duration(needed)} more; the job ends in {ends}."
            if late:
                text += " It will be saved in time and can be continued in another job."
            else:
                text = f"This run will be done in time after all. {text}"
            log = Log(text=text, level="warning" if late else "info", step=step, stage=FORECAST, seconds=needed)
            self._record(log)

    def _is_steady(self, step: int, left: float) -> bool:
        """Whether the pace is known; until then what was measured before the latest window does not count."""
        if self._steady or self._worked < min(_WINDOW_S, left / _WINDOW_PART):
            return self._steady
        before, self._pace = self._pace, self._worked / (step - self._first)
        self._steady = before is not None and 1 / _STEADY <= self._pace / before <= _STEADY
        if not self._steady:
            self._first, self._worked = step, 0.0
        return self._steady
