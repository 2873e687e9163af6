"""Asks a site's scheduler about all its jobs, politely and in one thread, and finds out how ended jobs ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

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


class WatchListener(Protocol):
    """The receiver of the news; called from the watch's thread. Jobs are named by their UUIDs."""

    def at(self, job: str, state: JobState, limits: PartitionLimits | None) -> None:
        """The job waits or runs."""

    def ended(self, job: str, state: JobState) -> None:
        """Called when the job is over, and how; GONE if nobody knows."""

    def unanswered(self, jobs: tuple[str, ...], problem: Problem) -> None:
        """Called when nobody could be asked."""

    def runs_of(self, job: str) -> tuple[str, ...]:
        """The runs that were given to the job."""


class JobWatch:
    """Watches from the first ``add`` until ``close``. ``line`` may wait and raises ``ProblemError``."""

    def __init__(
        self,
        line: Callable[[], SiteConnection],
        hearer: WatchListener,
        watcher: Watcher | None = None,
        sure: float = SURE_S,
    ) -> None:
        self._sure = sure
        self._line = line
        self._hearer = hearer
        self._watcher = watcher if watcher is not None else Watcher()
        self._refs: dict[str, JobRef] = {}
        self._partitions: dict[str, str] = {}
        self._over: dict[str, JobState] = {}
        self._gone: dict[str, float] = {}
        self._limits: dict[str, PartitionLimits] = {}
        self._woken = threading.Condition()
        self._ended = False
        self._unanswered: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="clew-watch", daemon=True)

    def add(self, ref: JobRef, partition: str = "") -> None:
        """Watch a job that was sent."""
        with self._woken:
            if ref.id in self._refs or self._ended:
                return
            self._refs[ref.id] = ref
            self._partitions[ref.id] = partition
            self._watcher.add(ref.id, time.monotonic())
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

    def ask_now(self, job_ids: Iterable[str], seconds: float) -> bool:
        """Ask about these jobs at once, and wait until each has been answered for, or could not be asked about, so many
        seconds at most; whether all have."""
        with self._woken:
            self._unanswered |= self._refs.keys() & set(job_ids)
            self._watcher.hurry(time.monotonic())
            self._woken.notify_all()
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
                    refs = tuple(self._refs[job_id] for job_id in due)
            try:
                if due:
                    self._ask(refs)
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

    def _ask(self, refs: tuple[JobRef, ...]) -> None:
        try:
            line = self._line()
            states = line.scheduler.states(refs, line.run(line.scheduler.status(refs)))
        except ProblemError as error:
            self._answer({})
            self._hearer.unanswered(tuple(ref.job for ref in refs), error.problems[0])
            self._answered_for(*(ref.id for ref in refs))
            return
        self._answer(states)
        for ref in refs:
            state = self._watcher.state(ref.id) or states[ref.id]
            now = states[ref.id]
            if now.phase is Phase.SILENT:
                self._hearer.unanswered((ref.job,), Problem("scheduler.silent", describe(now, line.scheduler).text))
                self._answered_for(ref.id)
            elif now.phase in ENDED or now.phase is Phase.GONE:
                self._over[ref.id] = now
            else:
                self._gone.pop(ref.id, None)
                self._hearer.at(ref.job, state, self._limits_for(line, ref, state))
                self._answered_for(ref.id)

    def _answer(self, states: Mapping[str, JobState]) -> None:
        with self._woken:
            self._watcher.answered(states, time.monotonic())

    def _limits_for(self, line: SiteConnection, ref: JobRef, state: JobState) -> PartitionLimits | None:
        """Asks once for the limits of the job's partition, if its reason for waiting could be explained with a
        number."""
        if state.phase is not Phase.PENDING or "Partition" not in state.reason:
            return None
        partition = self._partitions[ref.id]
        if partition not in self._limits:
            command = line.scheduler.ask_limits(partition)
            if command is None:
                return None
            try:
                self._limits[partition] = line.scheduler.limits(line.run(command))
            except ProblemError:
                return None
        return self._limits[partition]

    # --- How it ended -------------------------------------------------------------------------------------------------

    def _conclude_all(self) -> None:
        for job_id, state in list(self._over.items()):
            ref = self._refs[job_id]
            try:
                line = self._line()
                record = read_record(line, ref.job)
                printed = "" if state.phase is not Phase.FAILED or _has_ended(record) else read_printed(line, ref.job)
                done = state.phase is Phase.GONE and record is not None and self._runs_ended(line, ref.job, record)
            except ProblemError as error:
                self._hearer.unanswered((ref.job,), error.problems[0])
                self._answered_for(job_id)
                continue
            del self._over[job_id]
            if state.phase is Phase.GONE and not _has_ended(record) and not self._surely_gone(job_id):
                continue
            memory = line.scheduler.ran_out_of_memory(printed)
            verdict = conclude(state, self._accounts(line, ref), record, out_of_memory=memory, done=done)
            with self._woken:
                self._watcher.remove(job_id)
                del self._refs[job_id]
            if verdict.phase is Phase.CANCELLED and record is None:
                line.remove_unbegun(ref.job)
            if not line.scheduler.has_queue:
                line.remove_agent_files(ref.job)
            self._hearer.ended(ref.job, verdict)
            self._answered_for(job_id)

    def _runs_ended(self, line: SiteConnection, job: str, record: ExitRecord) -> bool:
        """Whether all of the job's runs have ended in it. Raises ``ProblemError``."""
        ends = [ended_at(line, run) for run in self._hearer.runs_of(job)]
        return bool(ends) and all(end is not None and end >= record.began for end in ends)

    def _surely_gone(self, job_id: str) -> bool:
        """Whether the scheduler has said so before; the watcher asks again by itself."""
        return time.monotonic() - self._gone.setdefault(job_id, time.monotonic()) >= self._sure

    def _accounts(self, line: SiteConnection, ref: JobRef) -> JobState | None:
        command = line.scheduler.history((ref,))
        if command is None:
            return None
        try:
            return line.scheduler.ended((ref,), line.run(command)).get(ref.id)
        except ProblemError:
            return None


def _has_ended(record: ExitRecord | None) -> bool:
    return record is not None and record.state != "running"
