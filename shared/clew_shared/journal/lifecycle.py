"""The states of a run, which may follow which, and how a journal's records fold into what is shown."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clew_shared.base.problem import Problem
from clew_shared.journal.events import Attempt, Checkpoint, Evaluation, Event, Points, RunState, Schema, Seal, State

__all__ = ["RESTARTED", "TERMINAL", "VANISHED", "RunFold", "RunState", "fold", "may_follow"]

TERMINAL = frozenset(
    {RunState.FINISHED, RunState.STOPPED, RunState.FAILED, RunState.TIMED_OUT, RunState.LOST},
)

VANISHED, RESTARTED = "run.lost", "run.restart"
"""Codes of the problem of an attempt of which no process was left to say how it ended: an agent wrote its end."""

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


class RunFold(msgspec.Struct, eq=False):
    """The state of a run, folded from its records one by one, in any mixture of job record and journals.

    ``attempt`` is the latest attempt seen (0: none yet) and everything else is about that one: ``state`` with
    ``reason``, ``problem`` and ``exit_code``; ``step`` is the number of updates done and ``steps`` of how many;
    ``started`` and ``ended`` are wall-clock seconds since 1970 (0.0: not yet), ``updated`` the latest time seen in a
    record, ``first_started`` when the run's first attempt began, ``job`` the batch job around it (Clew's UUID; empty:
    none), ``devices`` the names of what it was given (none: nobody said), ``spec`` the text of its spec (empty:
    an earlier version wrote it), ``replay_of`` the run of which it is a replay (empty: it trained). The first terminal
    state of an attempt stays, whatever is written after it; only LOST, which is the viewer's guess, gives way to what
    the node says.
    """

    run: str = ""
    exercise: str = ""
    host: str = ""
    job: str = ""
    devices: tuple[str, ...] = ()
    spec: str = ""
    replay_of: str = ""
    attempt: int = 0
    state: RunState = RunState.DRAFT
    reason: str = ""
    problem: Problem | None = None
    exit_code: int | None = None
    step: int = 0
    steps: int = 0
    started: float = 0.0
    first_started: float = 0.0
    ended: float = 0.0
    updated: float = 0.0
    sealed: bool = False
    _counts_from: int = 0
    _worked: float = 0.0
    """Seconds that the attempts before the latest took."""
    _began: float = 0.0
    """When the latest attempt began."""
    _heard: float = 0.0
    """The latest time in a record of the latest attempt that is no end."""

    @property
    def seconds(self) -> float:
        """Returns the seconds that all attempts took together, without the time between them. An attempt that was found
        dead took as long as it was heard of."""
        if not self._began:
            return self._worked
        until = self._heard if self.vanished else self.ended or self.updated
        return self._worked + max(0.0, until - self._began)

    @property
    def done(self) -> bool:
        """Whether the state is terminal."""
        return self.state in TERMINAL

    @property
    def vanished(self) -> bool:
        """Whether the end was written by an agent that found none of the attempt's processes."""
        return self.done and self.problem is not None and self.problem.code in (VANISHED, RESTARTED)

    def feed(self, attempt: int, event: Event | None) -> None:
        """Take one record of attempt ``attempt`` (job records name the attempt they are about; 0 before the first).

        Events of earlier attempts than the latest change nothing: a process on a cut node may still write. ``None``, an
        event of a kind unknown here, changes nothing either.
        """
        if attempt < self.attempt or event is None:
            return
        if attempt > self.attempt:
            self._begin(attempt)
        self.updated = max(self.updated, event.time)
        self._take(event)

    def _begin(self, attempt: int) -> None:
        """Begins a later attempt: whatever ended the earlier one no longer counts."""
        first = self.attempt == 0
        self._worked, self._began, self._heard = self.seconds, 0.0, 0.0
        self.attempt = attempt
        if not first:
            self.state = RunState.SUBMITTED
            self.reason, self.problem, self.exit_code = "", None, None
            self.ended, self.sealed = 0.0, False

    def _take(self, event: Event) -> None:
        if not isinstance(event, State):
            self._leave_queue()
        if not isinstance(event, State) or event.state not in TERMINAL:
            self._heard = max(self._heard, event.time)
        if isinstance(event, Points):
            done = event.first + event.count - self._counts_from
            self.step = max(self.step, done - (0 < self.steps == done - 1))  # the beginning may be logged as well
        elif isinstance(event, State):
            self._enter(event)
        elif isinstance(event, Attempt):
            self._start(event)
        elif isinstance(event, Schema):
            self.steps, self._counts_from = event.steps or self.steps, event.counts_from
        elif isinstance(event, Evaluation):
            self.step = max(self.step, event.step - max(0, self._counts_from - 1))
        elif isinstance(event, Checkpoint):
            self.step = max(self.step, event.step)
        elif isinstance(event, Seal):
            self.sealed = True

    def _start(self, event: Attempt) -> None:
        self.run, self.exercise, self.host, self.job = event.run, event.exercise, event.host, event.job
        self.devices, self.spec, self.replay_of = event.devices, event.spec, event.replay_of
        self.step, self.steps = event.start_step, event.steps
        self.started = self._began = event.time
        self.first_started = self.first_started or event.time

    def _leave_queue(self) -> None:
        """Moves the run from the queue to STARTING. Job records hold nothing but states: whatever else there is, the
        process that trains wrote it. The first frame, which says so as well, may be damaged."""
        if may_follow(self.state, RunState.STARTING):
            self.state, self.reason = RunState.STARTING, ""

    def _enter(self, event: State) -> None:
        ends = event.state in TERMINAL and (not self.done or self.state is RunState.LOST)
        if not ends and not may_follow(self.state, event.state):
            # A repeated state may bring a new reason ("waiting for disk space"); a terminal one never changes.
            if event.state is self.state and not self.done:
                self.reason = event.reason
            return
        self.state, self.reason = event.state, event.reason
        self.problem, self.exit_code = event.problem, event.exit_code
        self.step = max(self.step, event.step)
        if ends:
            self.ended = event.time


def fold(records: Iterable[tuple[int, Event | None]]) -> RunFold:
    """The fold of (attempt, event) pairs."""
    result = RunFold()
    for attempt, event in records:
        result.feed(attempt, event)
    return result
