"""The runs that a viewer knows: each with its spec, its curves, and a state folded from journal, agent and job
together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from clew_gui.jobs.job import JobNews, Stage
from clew_gui.schedulers.state import Phase
from clew_gui.session.mirror import Mirror
from clew_gui.session.run_record import RunRecord
from clew_shared.base.places import Places
from clew_shared.journal.history import JOB_ENDED, History
from clew_shared.journal.lifecycle import TERMINAL, RunFold, RunState
from clew_shared.run_settings import RunNote
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import RunStatus

if TYPE_CHECKING:
    from clew_gui.jobs.job_book import JobBook


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
_GONE = (RunState.LOST, "The job is gone, and it is not known how it ended.")


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
        return RunState.LOST, "The job ended, but the run's journal is incomplete."
    return state, _why(news) or words


def _why(news: JobNews) -> str:
    return news.problem.text if news.problem is not None else news.text


# --- Run model --------------------------------------------------------------------------------------------------------
# One run as the viewer knows it: its spec, its curves, and a state folded from journal, agent and job together.


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
        self.note = RunNote()
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
    def withdrawn(self) -> bool:
        """Whether it ended in the agent's queue, before it began: there is no journal to come."""
        listed = self.status
        return not self.history.fold.attempt and listed is not None and listed.state in TERMINAL and not listed.size

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
        """Share of this computer's copy that has been read, while that goes on and the agent does not say that it
        trains: what was read so far tells a state of long ago."""
        have = sum(have for have, _ in self._have.values())
        ended = self.status is None or self.status.state in TERMINAL
        return have / self.copied if ended and have < self.copied else None

    def took(self, attempt: int, have: int, size: int) -> None:
        """Note how much of an attempt's journal has been taken in."""
        before = self._have.get(attempt, (0, 0))
        self._have[attempt] = (max(have, before[0]), max(size, before[1]))

    def restart(self) -> None:
        """What was taken in is void; it comes again."""
        self.history = History()
        self._have.clear()


# --- Run table --------------------------------------------------------------------------------------------------------
# All runs that a viewer knows, with their numbers and the jobs that they were given to.


class RunTable:
    """``models`` by id, in the order in which they were found. ``here`` is this computer in words; ``book`` None: no
    run was given to a job."""

    def __init__(self, places: Places, record: RunRecord, book: JobBook | None, here: str) -> None:
        self.models: dict[str, RunModel] = {}
        self.record = record
        self._places = places
        self._book = book
        self._here = here

    def mirror(self, run: str) -> Mirror:
        """This computer's copy of the run."""
        return Mirror(self._places.mirrors / run)

    def add(self, spec: RunSpec, lasting: bool = True) -> RunModel:
        """The model of a run that is new here. Raises ``OSError`` if the disk refuses to keep its number."""
        number = self.record.number(spec.run, time.time(), lasting)
        where = self.record.where.get(spec.run, "")
        model = RunModel(spec, number, self._places.mirrors / spec.run, where or self._here)
        model.elsewhere = bool(where)
        model.note = self.record.notes.get(spec.run, model.note)
        model.refused = self.record.refused.get(spec.run, "")
        self.models[spec.run] = model
        self.place(model)
        return model

    def place(self, model: RunModel) -> None:
        """Note in the model which job it was given to last, if to any."""
        job = self._book.job_of(model.id) if self._book is not None else ""
        if not job or self._book is None:
            return
        model.elsewhere = True
        model.site, model.where = self._book.order(job).site, self._book.title(job)
        model.job, model.status = self._book.news(job), None
        model.settled = self.record.settled.get(model.id) == job
        model.follows_on = self._book.went_with(model.id, but=job)

    def settle(self, model: RunModel, job: str) -> None:
        """All that the job left of the run is here; if that cannot be noted it is looked for again next time. A further
        job may have the run by now."""
        if model.job is None or model.job.job == job:
            model.settled, model.status = True, None
        with suppress(OSError):
            self.record.settle_run(model.id, job, time.time())

    def is_settled(self, run: str, job: str) -> bool:
        """Whether all that the job left of the run is here."""
        return self.record.settled.get(run) == job
