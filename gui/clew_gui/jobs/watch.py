"""Asks a site's scheduler about all its jobs, politely and in one thread, and finds out how ended jobs ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.job_files import read_printed, read_record
from clew_gui.jobs.journal_files import ended_at
from clew_gui.schedulers.job import JobRef
from clew_gui.schedulers.state import ENDED, JobState, PartitionLimits, Phase
from clew_gui.schedulers.verdict import ExitRecord, conclude
from clew_gui.schedulers.watcher import Watcher
from clew_gui.schedulers.words import describe
from clew_gui.sites.site_connection import SiteConnection
from clew_shared.base.problem import Problem, ProblemError

_log = logging.getLogger(__name__)

SURE_S = 5.0
"""The seconds after which a scheduler that does not know a job is asked again: it may just have restarted."""
_AGAIN_S = 5.0
_JOIN_S = 3.0


class WatchedJob(Protocol):
    """What is watched of a job; called from the watch's thread."""

    @property
    def id(self) -> str:
        """The job's UUID."""

    @property
    def partition(self) -> str:
        """The partition that was asked for."""

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that were given to it."""

    def at(self, state: JobState, limits: PartitionLimits | None) -> None:
        """The job waits or runs."""

    def ended(self, state: JobState) -> None:
        """Called when the job is over, and how; GONE if nobody knows."""

    def unreached(self, found: Problem) -> None:
        """Called when nobody could be asked."""


class JobWatch:
    """Watches from the first ``add`` until ``close``. A job that the scheduler does not know is asked for once more
    after ``sure`` seconds."""

    def __init__(self, access: SiteAccess, sure: float = SURE_S) -> None:
        self.access = access
        self.sure = sure
        self._watcher = Watcher()
        self._jobs: dict[str, WatchedJob] = {}
        self._over: dict[str, JobState] = {}
        self._gone: dict[str, float] = {}
        self._limits: dict[str, PartitionLimits] = {}
        self._woken = threading.Condition()
        self._ended = False
        self._unanswered: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="clew-watch", daemon=True)

    def add(self, job: WatchedJob, job_id: str) -> None:
        """Watch a job to which the scheduler gave this id."""
        with self._woken:
            if job_id in self._jobs or self._ended:
                return
            self._jobs[job_id] = job
            self._watcher.add(job_id, time.monotonic())
            if self._thread.ident is None:
                self._thread.start()
            self._woken.notify()

    def heard(self, job_id: str) -> None:
        """The job's agent speaks for it."""
        with self._woken:
            self._watcher.heard(job_id, time.monotonic())

    def hurry(self) -> None:
        """Asks now, because something has happened."""
        with self._woken:
            self._watcher.hurry(time.monotonic())
            self._woken.notify()

    def ask_now(self, job_ids: Iterable[str]) -> None:
        """Ask about these jobs at once; ``await_answers`` waits for that."""
        with self._woken:
            self._unanswered |= self._jobs.keys() & set(job_ids)
            self._watcher.hurry(time.monotonic())
            self._woken.notify_all()

    def await_answers(self, seconds: float) -> bool:
        """Wait until each job has been answered for that somebody asked about at once, or could not be asked about, so
        many seconds at most; whether all have."""
        with self._woken:
            return self._woken.wait_for(lambda: not self._unanswered or self._ended, seconds)

    def _answered_for(self, *job_ids: str) -> None:
        """Stop waiting for news of these jobs: call it after the news was reported."""
        with self._woken:
            self._unanswered -= set(job_ids)
            self._woken.notify_all()

    def close(self) -> None:
        """End the thread; a call that is running ends with the connection."""
        with self._woken:
            self._ended = True
            self._woken.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._woken:
                if self._ended:
                    return
                due = self._watcher.due(time.monotonic())
                if not due and not self._over:
                    self._woken.wait(self._watcher.wait(time.monotonic()))
                    continue
                if due:
                    self._watcher.asked(due, time.monotonic())
                    jobs = {job_id: self._jobs[job_id] for job_id in due}
            try:
                if due:
                    self._ask(jobs)
                self._conclude_all()
            except ProblemError as error:  # the connection went while an answer was used
                _log.info("A scheduler's answer was not used: %s", error)
                self._answer({})
            except Exception:  # noqa: BLE001  # the thread's border: one strange answer must not end the watching
                _log.exception("A scheduler's answer could not be used.")
                self._answer({})
            if self._over:
                with self._woken:
                    self._woken.wait(_AGAIN_S)

    def _ask(self, jobs: Mapping[str, WatchedJob]) -> None:
        refs = tuple(JobRef(job_id, job.id) for job_id, job in jobs.items())
        try:
            connection = self.access.connected()
            scheduler = connection.scheduler
            states = scheduler.states(refs, connection.run(scheduler.status(refs)))
        except ProblemError as error:
            self._answer({})
            for job in jobs.values():
                job.unreached(error.problems[0])
            self._answered_for(*jobs)
            return
        self._answer(states)
        for job_id, job in jobs.items():
            now = states[job_id]
            state = self._watcher.state(job_id) or now
            if now.phase is Phase.SILENT:
                job.unreached(Problem("scheduler.silent", describe(now, scheduler).text))
                self._answered_for(job_id)
            elif now.phase in ENDED or now.phase is Phase.GONE:
                self._over[job_id] = now
            else:
                self._gone.pop(job_id, None)
                job.at(state, self._limits_for(connection, job.partition, state))
                self._answered_for(job_id)

    def _answer(self, states: Mapping[str, JobState]) -> None:
        with self._woken:
            self._watcher.answered(states, time.monotonic())

    def _limits_for(self, connection: SiteConnection, partition: str, state: JobState) -> PartitionLimits | None:
        """Asks once for the limits of the job's partition, if its reason for waiting could be explained with a
        number."""
        if state.phase is not Phase.PENDING or "Partition" not in state.reason:
            return None
        if partition not in self._limits:
            command = connection.scheduler.ask_limits(partition)
            if command is None:
                return None
            try:
                self._limits[partition] = connection.scheduler.limits(connection.run(command))
            except ProblemError:
                return None
        return self._limits[partition]

    # --- How it ended -------------------------------------------------------------------------------------------------

    def _conclude_all(self) -> None:
        for job_id, state in list(self._over.items()):
            job = self._jobs[job_id]
            try:
                connection = self.access.connected()
                record = read_record(connection, job.id)
                failed = state.phase is Phase.FAILED and not _has_ended(record)
                printed = read_printed(connection, job.id) if failed else ""
                gone = state.phase is Phase.GONE
                done = gone and record is not None and _runs_ended(connection, job.runs, record)
            except ProblemError as error:
                job.unreached(error.problems[0])
                self._answered_for(job_id)
                continue
            del self._over[job_id]
            if gone and not _has_ended(record) and not self._surely_gone(job_id):
                continue
            scheduler = connection.scheduler
            accounts = _accounts(connection, JobRef(job_id, job.id))
            memory = scheduler.ran_out_of_memory(printed)
            verdict = conclude(state, accounts, record, out_of_memory=memory, done=done)
            with self._woken:
                self._watcher.remove(job_id)
                del self._jobs[job_id]
            if verdict.phase is Phase.CANCELLED and record is None:
                connection.remove_unbegun(job.id)
            if not scheduler.has_queue:
                connection.remove_agent_files(job.id)
            job.ended(verdict)
            self._answered_for(job_id)

    def _surely_gone(self, job_id: str) -> bool:
        """Whether the scheduler has said so before; the watcher asks again by itself."""
        return time.monotonic() - self._gone.setdefault(job_id, time.monotonic()) >= self.sure


def _has_ended(record: ExitRecord | None) -> bool:
    return record is not None and record.state != "running"


def _runs_ended(connection: SiteConnection, runs: Collection[str], record: ExitRecord) -> bool:
    """Whether all of the job's runs have ended in it. Raises ``ProblemError``."""
    ends = [ended_at(connection, run) for run in runs]
    return bool(ends) and all(end is not None and end >= record.began for end in ends)


def _accounts(connection: SiteConnection, ref: JobRef) -> JobState | None:
    command = connection.scheduler.history((ref,))
    if command is None:
        return None
    try:
        return connection.scheduler.ended((ref,), connection.run(command)).get(ref.id)
    except ProblemError:
        return None
