"""One run as the viewer knows it: its spec, its curves, and a state folded from journal, agent and job together."""

from __future__ import annotations

from pathlib import Path

from clew_gui.remote.jobs import JobNews
from clew_gui.session.job_state import ended_before, not_begun, state_with_job
from clew_shared.history import History
from clew_shared.lifecycle import TERMINAL, RunState
from clew_shared.messages import RunStatus
from clew_shared.spec import RunSpec

_CATCHING_UP_BYTES = 256 * 1024


class RunModel:
    """Changed by ``Session.tick`` only. ``number`` is kept for good; ``index`` picks the curve's style.

    ``where`` is the machine in words, ``site`` its name among the sites (empty: this computer).
    """

    def __init__(self, spec: RunSpec, number: int, folder: Path, where: str) -> None:
        self.id = spec.run
        self.spec = spec
        self.number = number
        self.index = number - 1
        self.folder = folder
        self.where = where
        self.history = History()
        self.link_stale = False
        self.status: RunStatus | None = None
        """What the agent said last; None when it does not know the run, or has not been asked yet."""
        self.refused = ""
        self.never_arrived = False
        """The agent does not know it and there is no journal: its request was lost with an earlier window."""
        self.link = ""
        """The job through whose link it comes; empty for this computer's."""
        self.elsewhere = False
        """It is no run of this computer: its agent does not know it, and need not."""
        self.site = ""
        self.job: JobNews | None = None
        """What is known of the latest job that it was given to; None for a run of this computer."""
        self.follows_on = False
        """An earlier job had it before this one: what its journal says may be that one's end."""
        self.settled = False
        """Its job is over, and all that it left of the journals is here."""
        self.copied = 0
        """Bytes of this computer's copy when the run was found, which are read first."""
        self._have: dict[int, tuple[int, int]] = {}

    @property
    def state(self) -> RunState:
        """The journal's state, so that an end is never shown before the points that lead to it; the agent's before a
        journal is here, while a continuation waits, and while a long journal is still being fetched."""
        return self._shown[0]

    @property
    def _shown(self) -> tuple[RunState, str]:
        """State and reason, which belong together."""
        if self.refused:
            return RunState.FAILED, self.refused
        job, fold = self.job, self.history.fold
        if job is not None and (job.over or self.status is None or not_begun(job)):  # or it waits once more
            told = state_with_job(fold, job, self.follows_on, self.settled)
            if told is not None:
                return told
        state = self._state_with_journal() if fold.attempt else self._state_without_journal()
        return state, self._told_reason(state)

    def _state_without_journal(self) -> RunState:
        if self.status is None:
            return RunState.STOPPED if self.never_arrived else RunState.SUBMITTED
        if self.status.state in TERMINAL and 0 < self.status.size <= _CATCHING_UP_BYTES:
            return RunState.STARTING  # it ended so quickly that its journal is still on its way here
        return self.status.state

    def _state_with_journal(self) -> RunState:
        fold, status = self.history.fold, self.status
        if fold.state is RunState.DRAFT:  # its first frame is here, which tells of no state yet
            return RunState.STARTING
        if status is None or status.attempt < fold.attempt:
            return fold.state
        before = self.job is not None and ended_before(fold, self.job, self.follows_on)
        if fold.done and status.state in TERMINAL and before:
            return RunState.STARTING  # the agent of the next job has not taken it up yet
        waits = fold.done and status.state in (RunState.QUEUED, RunState.STARTING) and not self._is_ahead
        ended = not fold.done and status.state in TERMINAL and self.catching_up is not None
        return status.state if waits or ended else fold.state

    @property
    def reason(self) -> str:
        """Why, in words; empty when there is nothing to say."""
        return self._shown[1]

    def _told_reason(self, state: RunState) -> str:
        if self.history.fold.attempt:
            return self.history.fold.reason if state is self.history.fold.state else ""
        if self.status is not None:
            return self.status.reason
        return "It never reached the agent." if self.never_arrived else ""

    @property
    def complete(self) -> bool:
        """Whether it has ended, and all of its journal has been taken in."""
        fold, listed = self.history.fold, self.status
        waits = listed is not None and listed.state not in TERMINAL and not self._is_ahead
        return fold.done and fold.sealed and self.state is fold.state and not waits and self.catching_up is None

    @property
    def _is_ahead(self) -> bool:
        """Whether more of the journal is here than there was when the agent spoke last: the rest came as files."""
        told = self.status
        if told is None or not self.link_stale:
            return False
        have, _ = self._have.get(told.attempt, (0, 0))
        return told.attempt < self.history.fold.attempt or told.size < have

    @property
    def queue(self) -> int:
        """Its place in the agent's queue from 1; 0 when it does not wait."""
        return self.status.queue if self.status is not None else 0

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that it has or had, as far as the agent tells."""
        return self.status.devices if self.status is not None else ()

    @property
    def catching_up(self) -> float | None:
        """Share of the journals that has been taken in, 0 to 1, while much of them is still to come; else None."""
        have = sum(have for have, _ in self._have.values())
        size = sum(size for _, size in self._have.values())
        return have / size if size - have > _CATCHING_UP_BYTES else None

    @property
    def reading(self) -> float | None:
        """Share of this computer's copy that has been read, while that goes on and the agent has said nothing: what
        was read so far tells a state of long ago."""
        have = sum(have for have, _ in self._have.values())
        return have / self.copied if self.status is None and have < self.copied else None

    def took(self, attempt: int, have: int, size: int) -> None:
        """Note how much of an attempt's journal has been taken in."""
        before = self._have.get(attempt, (0, 0))
        self._have[attempt] = (max(have, before[0]), max(size, before[1]))

    def restart(self) -> None:
        """What was taken in is void; it comes again."""
        self.history = History()
        self._have.clear()
