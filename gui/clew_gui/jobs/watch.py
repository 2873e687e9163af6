"""Asks a site's scheduler about its jobs: seldom, once for all of them in one thread, and not at all while the agents
themselves answer. Finds out how ended jobs ended."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.job_files import ended_at, read_printed, read_records
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.state import ENDED, NOT_KNOWN, JobState, PartitionLimits, Phase
from clew_gui.schedulers.verdict import ExitRecord, conclude, follow
from clew_gui.schedulers.words import describe
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import Problem, ProblemError

if TYPE_CHECKING:
    from clew_gui.jobs.managed_job import ManagedJob

_log = logging.getLogger(__name__)

SURE_S = 5.0
"""The seconds after which a scheduler that does not know a job is asked again: it may just have restarted."""
_AGAIN_S = 5.0
_JOIN_S = 3.0


FIRST_S = 2.0
LONGEST_S = 60.0
GROWTH = 1.5
"""A scheduler is asked soon after something moved, then after pauses that grow by this factor, up to the longest: sites
lock out programs that ask more often."""
UNANSWERED_S = 10.0
"""The seconds until a scheduler that does not answer is asked again: it has trouble enough."""
HEARTBEAT_S = 15.0
"""An agent that answered within this time speaks for its job."""
_JITTER = 0.1
"""The random part of each pause: forty students who start at once must not keep asking at the same moment."""


class Watched:
    """One job with what the scheduler said of it, and when to ask again. Pure: ``now`` is a reading of a clock, and
    ``dice`` gives numbers from 0 to 1."""

    def __init__(self, job: ManagedJob, now: float, dice: Callable[[], float] = random.random) -> None:
        self.job = job
        self.pause = FIRST_S
        self.next = now + FIRST_S
        self.state: JobState | None = None
        """What was last known; a scheduler's silence changes nothing."""
        self.over: JobState | None = None
        """The scheduler's word that the job is over, until it is concluded."""
        self.gone_since: float | None = None
        self.awaited: list[Callable[[str], None]] = []
        """Who waits for word of it, and is told its UUID."""
        self._heard = float("-inf")
        self._dice = dice

    @property
    def ended(self) -> bool:
        """Whether nobody needs to ask about it any more."""
        return self.state is not None and self.state.phase in ENDED

    @property
    def speaks_until(self) -> float:
        """Returns when its agent no longer speaks for it."""
        return self._heard + HEARTBEAT_S

    def hear(self, now: float) -> None:
        """The job's agent answered: nobody asks until it has been silent for a while."""
        self._heard = now

    def hurry(self, now: float) -> None:
        """Lets the next question come at once, and often again for a while, because something has happened, such as an
        agent that fell silent or a network that is back."""
        self._heard, self.next, self.pause = float("-inf"), now, FIRST_S

    def answer(self, state: JobState | None, now: float) -> None:
        """Takes the scheduler's answer; None if there was none."""
        if state is None or state.phase in NOT_KNOWN:
            self._later(now, max(UNANSWERED_S, self.pause * 2))
            return
        before, self.state = self.state, follow(self.state, state)
        moved = before is not None and before.phase is not self.state.phase  # the next change may come soon
        self._later(now, FIRST_S if moved else self.pause * GROWTH)

    def _later(self, now: float, pause: float) -> None:
        self.pause = min(LONGEST_S, pause)
        self.next = now + self.pause * (1 + _JITTER * self._dice())


def due(jobs: Mapping[str, Watched], now: float) -> dict[str, Watched]:
    """The jobs to ask about in one call now; none while nothing is due.

    As soon as one is due all are asked about that no agent speaks for: it costs the scheduler the same.
    """
    silent = {job_id: one for job_id, one in jobs.items() if not one.ended and now >= one.speaks_until}
    return silent if any(one.next <= now for one in silent.values()) else {}


def wait_s(jobs: Mapping[str, Watched], now: float) -> float | None:
    """Seconds until ``due`` may have something; None when nothing is watched."""
    moments = [max(one.next, one.speaks_until) for one in jobs.values() if not one.ended]
    return max(0.0, min(moments) - now) if moments else None


class JobWatch:
    """Watches from the first ``add`` until ``close``. A job that the scheduler does not know is asked for once more
    after ``sure`` seconds."""

    def __init__(self, access: SiteAccess, sure: float = SURE_S) -> None:
        self.access = access
        self.sure = sure
        self._jobs: dict[str, Watched] = {}
        self._limits: dict[str, PartitionLimits] = {}
        self._woken = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="clew-watch", daemon=True)

    def add(self, job: ManagedJob, job_id: str) -> None:
        """Watch a job to which the scheduler gave this id."""
        with self._woken:
            if job_id in self._jobs or self._ended:
                return
            self._jobs[job_id] = Watched(job, time.monotonic())
            if self._thread.ident is None:
                self._thread.start()
            self._woken.notify()

    def heard(self, job_id: str) -> None:
        """The job's agent speaks for it."""
        with self._woken:
            if job_id in self._jobs:
                self._jobs[job_id].hear(time.monotonic())

    def hurry(self) -> None:
        """Asks now about all jobs, because something has happened."""
        with self._woken:
            for watched in self._jobs.values():
                watched.hurry(time.monotonic())
            self._woken.notify_all()

    def ask_now(self, job_ids: Iterable[str], heard: Callable[[str], None]) -> set[str]:
        """Ask about these jobs at once. ``heard`` is called from any thread with the UUID of each of those that are
        returned: when there is word of it, be it that nobody can be asked."""
        with self._woken:
            asked = [self._jobs[job_id] for job_id in self._jobs.keys() & set(job_ids)]
            for one in asked:
                one.awaited.append(heard)
            self.hurry()
            return {one.job.id for one in asked}

    def close(self) -> None:
        """End the thread; a call that is running ends with the connection."""
        with self._woken:
            self._ended = True
            self._woken.notify_all()
            for watched in self._jobs.values():
                self._answered_for(watched)
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._woken:
                if self._ended:
                    return
                now = time.monotonic()
                jobs, over = due(self._jobs, now), self._over()
                if not jobs and not over:
                    self._woken.wait(wait_s(self._jobs, now))
                    continue
            try:
                if jobs:
                    self._ask(jobs)
                self._conclude_all()
            except ProblemError as error:  # the connection went while an answer was used
                _log.info("A scheduler's answer was not used: %s", error)
            except Exception:  # noqa: BLE001  # the thread's border: one strange answer must not end the watching
                _log.exception("A scheduler's answer could not be used.")
            with self._woken:
                if self._over() and not self._ended:
                    self._woken.wait(_AGAIN_S)

    def _over(self) -> dict[str, JobState]:
        return {job_id: one.over for job_id, one in self._jobs.items() if one.over is not None}

    def _ask(self, jobs: Mapping[str, Watched]) -> None:
        refs = tuple(JobRef(job_id, one.job.id) for job_id, one in jobs.items())
        states: Mapping[str, JobState] = {}
        try:
            connection = self.access.connected()
            scheduler = connection.scheduler
            states = connection.job_states(refs)
        except ProblemError as error:
            for one in jobs.values():
                one.job.unreached(error.problems[0])
                self._answered_for(one)
            return
        finally:
            with self._woken:
                for job_id, one in jobs.items():
                    one.answer(states.get(job_id), time.monotonic())
        for job_id, one in jobs.items():
            now = states[job_id]
            if now.phase in ENDED or now.phase is Phase.GONE:
                one.over = now
                continue
            if now.phase is Phase.SILENT:
                one.job.unreached(Problem("scheduler.silent", describe(now, scheduler).text))
            else:
                one.gone_since, state = None, now if now.phase is Phase.UNKNOWN or one.state is None else one.state
                one.job.on_state(state, self._limits_for(connection, one.job.order.allocation.partition, state))
            self._answered_for(one)

    def _answered_for(self, watched: Watched) -> None:
        """Tells who waits for news of this job: call it after the news was reported."""
        with self._woken:
            waiting, watched.awaited = watched.awaited, []
        for heard in waiting:
            heard(watched.job.id)

    def _limits_for(self, connection: SiteConnection, partition: str, state: JobState) -> PartitionLimits | None:
        """Asks once for the limits of the job's partition, if its reason for waiting could be explained with a
        number."""
        if state.phase is not Phase.PENDING or "Partition" not in state.reason:
            return None
        with suppress(ProblemError):
            if partition not in self._limits and (found := connection.ask(connection.scheduler.limits(partition))):
                self._limits[partition] = found
        return self._limits.get(partition)

    # --- How it ended -------------------------------------------------------------------------------------------------

    def _conclude_all(self) -> None:
        with self._woken:
            over = self._over()
        for job_id, state in over.items():
            watched = self._jobs[job_id]
            job, gone = watched.job, state.phase is Phase.GONE
            try:
                connection = self.access.connected()
                record = read_records(connection, (job.id,)).get(job.id)
                failed = state.phase is Phase.FAILED and not _has_ended(record)
                printed = read_printed(connection, job.id) if failed else ""
                done = gone and record is not None and _runs_ended(connection, job.book.runs(job.id), record)
            except ProblemError as error:
                job.unreached(error.problems[0])
                self._answered_for(watched)
                continue
            watched.over = None
            if gone and not _has_ended(record) and not self._surely_gone(watched):
                continue
            scheduler = connection.scheduler
            accounts = _accounts(connection, JobRef(job_id, job.id))
            memory = scheduler.ran_out_of_memory(printed)
            verdict = conclude(state, accounts, record, out_of_memory=memory, done=done)
            if verdict.phase is Phase.CANCELLED and record is None:
                connection.remove_unbegun(job.id)
            if not scheduler.has_queue:
                connection.remove_agent_files(job.id)
            job.ended(verdict)
            with self._woken:
                del self._jobs[job_id]
            self._answered_for(watched)

    def _surely_gone(self, watched: Watched) -> bool:
        """Whether the scheduler has said so before; it is asked again in its time."""
        if watched.gone_since is None:
            watched.gone_since = time.monotonic()
        return time.monotonic() - watched.gone_since >= self.sure


def _has_ended(record: ExitRecord | None) -> bool:
    return record is not None and record.state != "running"


def _runs_ended(connection: SiteConnection, runs: Collection[str], record: ExitRecord) -> bool:
    """Whether all of the job's runs have ended in it. Raises ``ProblemError``."""
    ends = [ended_at(connection, run) for run in runs]
    return bool(ends) and all(end is not None and end >= record.began for end in ends)


def _accounts(connection: SiteConnection, ref: JobRef) -> JobState | None:
    with suppress(ProblemError):
        return (connection.ask(connection.scheduler.history((ref,))) or {}).get(ref.id)
    return None
