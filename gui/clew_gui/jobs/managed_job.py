"""A job of the book while this program works for it: its news, which many threads change, and those threads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from functools import partial

from msgspec.structs import replace

from clew_gui.jobs.job import (
    EndRequest,
    JobOrder,
    JobStage,
    JobStatus,
    ReportStatus,
    begun,
    ending,
    heard_from_another,
    refused,
    site_unreachable,
    status_at_end,
    status_while_alive,
)
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.watch import HEARTBEAT_S, JobWatch
from clew_gui.schedulers.job import LOG
from clew_gui.schedulers.state import ON_NODE, JobState, PartitionLimits
from clew_gui.schedulers.words import describe, start_hint
from clew_shared.base.file_lock import LockFile
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import check_node
from clew_shared.spec import RunSpec

_log = logging.getLogger(__name__)


class Work(StrEnum):
    """The pieces of work for a job; each is done by one thread at a time."""

    SUBMIT = "submit"
    END = "end"


class ManagedJob:
    """``report`` gets all that is new of the job, from the thread that learned it; it must not wait. ``clock`` measures
    how long something lasts. Used from any thread; only the work that it starts waits.
    """

    def __init__(
        self,
        job: str,
        watch: JobWatch,
        book: JobBook,
        report: ReportStatus,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = job
        """The job's UUID."""
        self.watch = watch
        self.access = watch.access
        self.book = book
        self.clock = clock
        self.changed: Callable[[], None] = lambda: None
        """Called when the job came to another stage, or a trouble came or went."""
        self.sending: LockFile | None = None
        """The book's lock of this job, until its submission ends."""
        self._report = report
        self._news: JobStatus | None = None
        self._publishing = threading.RLock()
        self._confirmed = False
        self._spoke = float("-inf")
        """When the job's agent was last heard."""
        self._busy: dict[Work, threading.Thread] = {}
        self._woken = threading.Condition()
        self.closing = False
        """Whether nothing more is to be done."""

    @property
    def order(self) -> JobOrder:
        """Returns what was asked for."""
        return self.book.order(self.id)

    def spec_of(self, run: str) -> RunSpec | None:
        """A spec that was given to a job here."""
        job = self.book.job_of(run)
        return next((spec for spec in self.book.order(job).runs if spec.run == run), None) if job else None

    # --- News ---------------------------------------------------------------------------------------------------------

    @property
    def news(self) -> JobStatus:
        """Returns the present news."""
        known = self._news
        return known if known is not None else self.book.news(self.id)

    def publish(self, change: Callable[[JobStatus], JobStatus]) -> None:
        """Make new news out of the old, note them, and report them. What is over stays over.

        Raises ``ProblemError`` when a job that is about to be submitted cannot be noted.
        """
        with self._publishing:
            before, first = self.news, self._news is None
            after = self._news = before if before.over else change(before)
            if after == before and not first:
                return
            self._note(after)
            self._report(after)
        if after.stage is not before.stage or after.problem != before.problem:
            self.changed()

    def say(self, stage: JobStage, text: str) -> None:
        """Publishes how far it is."""
        self.publish(lambda news: replace(news, stage=stage, text=text, problem=None))

    def unreached(self, found: Problem) -> None:
        """Publishes that nobody could be asked, unless the job's agent speaks for it; nothing is over."""
        if self.clock() - self._spoke < HEARTBEAT_S:
            return
        self.publish(lambda news: site_unreachable(news, found, self.access.title))

    def take_over(self) -> None:
        """Takes over what the book says, which another program may have written: news, or a request to end the job.
        Watches the job if it was submitted."""
        before, news, request = self.news, self.book.news(self.id), self.book.end_request(self.id)
        self.publish(partial(heard_from_another, heard=news, request=request))
        self._watch()
        if self.news != before:
            self.watch.hurry()

    def submitted(self, job_id: str) -> None:
        """Publishes the scheduler's id, and watches the job from now on."""
        sent = {"stage": JobStage.QUEUED, "id": job_id, "text": "It was sent.", "problem": None}
        self.publish(lambda news: replace(news, **sent))
        self._watch()

    def _watch(self) -> None:
        news = self.news
        if news.id and not news.over:
            self.watch.add(self, news.id)

    def _note(self, news: JobStatus) -> None:
        try:
            self.book.note_news(news)
        except OSError as error:
            _log.warning("What became of a job cannot be recorded: %s", error)
            if news.stage is JobStage.SUBMITTING:
                text = f"The job cannot be recorded on this computer, so it is not sent: {error}."
                raise problem("book.write", text, "Make room on the disk.") from None

    # --- What the scheduler says --------------------------------------------------------------------------------------

    def on_state(self, state: JobState, limits: PartitionLimits | None) -> None:
        """Called while the job waits or runs."""
        self._confirmed = state.phase in ON_NODE
        reason = describe(state, self.access.opened().scheduler, limits)
        request = self._latest_end_request()

        def change(news: JobStatus) -> JobStatus:
            now = status_while_alive(news, state, reason, time.time())
            return now if request is None else replace(now, text=ending(request))

        self.publish(change)

    def ended(self, state: JobState) -> None:
        """Reports that the job is over, and how."""
        connection, request = self.access.opened(), self._latest_end_request()
        log = f"{connection.layout().job(self.id)}/{LOG} on {self.access.title}"
        reason = describe(state, connection.scheduler)
        hint = start_hint(state)
        remedies = (check_node(self.access.name),) if hint else ()
        self.publish(lambda news: status_at_end(news, state, reason, request, log, hint, remedies))

    def _latest_end_request(self) -> EndRequest | None:
        """Returns the latest request to end the job, also of another program: it explains why the job ended."""
        with suppress(OSError):
            self.book.refresh()
        return self.book.end_request(self.id)

    # --- What its agent says ------------------------------------------------------------------------------------------

    def heard(self) -> None:
        """The job's agent speaks: nobody needs to ask the scheduler, once it has said where the job runs."""
        self._spoke = self.clock()
        if self._confirmed:
            self.watch.heard(self.news.id)
        if self.news.problem is not None:
            self.publish(lambda news: replace(news, text="The job runs.", problem=None))

    def serves(self) -> None:
        """Notes that the agent's address was found, so the job runs, whatever the scheduler said last."""
        self.publish(begun)
        self.watch.hurry()

    def fell_silent(self) -> None:
        """Notes that the job's agent has ended, or that another took its place, and asks the scheduler why."""
        self._confirmed, self._spoke = False, float("-inf")
        self.watch.hurry()

    # --- Threads ------------------------------------------------------------------------------------------------------

    def start(self, name: Work, work: Callable[[], None]) -> None:
        """Does a piece of work in a thread, unless one of this name is being done. What is wrong with it becomes news;
        of a job that was submitted the watch knows more."""
        with self._woken:
            if name in self._busy or self.closing:
                return
            title = f"clew-job {name} {self.id[:8]}"
            self._busy[name] = threading.Thread(target=self._do, args=(name, work), name=title, daemon=True)
            self._busy[name].start()

    def is_busy(self, name: Work) -> bool:
        """Whether the work of this name is being done."""
        with self._woken:
            return name in self._busy

    def pause(self, seconds: float) -> bool:
        """Waits; less if something has changed. False if nothing more is to be done."""
        with self._woken:
            if not self.closing:
                self._woken.wait(seconds)
            return not self.closing

    def wake(self) -> None:
        """End all pauses."""
        with self._woken:
            self._woken.notify_all()

    def stop(self) -> None:
        """Lets no more work begin; what is being done ends soon."""
        with self._woken:
            self.closing = True
            self._woken.notify_all()

    def join(self, until: float) -> None:
        """Waits for the end of what is being done, until that reading of the monotonic clock at most."""
        with self._woken:
            threads = list(self._busy.values())
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _do(self, name: Work, work: Callable[[], None]) -> None:
        try:
            work()
        except ProblemError as error:
            self._failed(name, error.problems[0])
        except Exception as error:  # noqa: BLE001  # the thread's border
            _log.exception("Work for a site failed.")
            self._failed(name, Problem("job.internal", f"The job could not be handled: {error}.", "Try again."))
        finally:
            with self._woken:
                self._busy.pop(name, None)
            if name is Work.SUBMIT and self.sending is not None:  # the book has what became of it
                self.sending.remove()
                self.sending = None

    def _failed(self, name: Work, found: Problem) -> None:
        if self.closing or name != Work.SUBMIT:
            _log.info("%s of %s: %s", name, self.id, found)
        else:
            self.publish(lambda news: news if news.id else refused(news, found))
