"""Gets a job its id: sends it, or finds it if another program may have sent it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from clew_gui.deploy.install import Installed
from clew_gui.jobs import job_news
from clew_gui.jobs.background import BackgroundTasks, pauses
from clew_gui.jobs.job import JobNews, JobOrder, JobStage
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.status_store import JobStatusStore
from clew_gui.jobs.submitter import Deployer, Say, Submitter, job_spec
from clew_gui.schedulers.job import JobSpec
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.errors import TRANSIENT
from clew_shared.base.problem import Problem, ProblemError, problem

_log = logging.getLogger(__name__)

_SENDERS = 2
"""Jobs that are sent at the same time: more would only share the same line."""
_BOOK_S = 1.0
BEAT_S = 15.0
"""The seconds between two notes in the book by a program that sends a job."""
QUIET_S = 60.0
"""The seconds without a note after which a program that does not run here is assumed not to send any more: four notes
in a row are missing, longer than a network disk makes anybody wait."""
_MAYBE_SENT = frozenset({"scheduler.silent", "job.ended"})
"""The problems after which nobody knows whether the scheduler has the job."""
_BEAT = "beat "
_UNSURE = "The program that was about to send the job is not seen any more; if it is silent for a minute, it has ended."
_NO_AGENT = Installed(command=("?",), environment={}, python="", tensorflow="")


class JobSender:
    """Sends jobs of one site, a few at a time, and reports on the ``board`` how far each is. ``line`` is the site's
    line, connected; ``installed`` brings the agent there; both may wait and raise ``ProblemError``. ``title`` is the
    site's. ``clock`` measures how long something lasts, ``today`` seconds since 1970.
    """

    def __init__(
        self,
        line: Callable[[], SiteConnection],
        installed: Callable[[Say], Installed],
        title: Callable[[], str],
        book: JobBook,
        board: JobStatusStore,
        tasks: BackgroundTasks,
        deployer: Deployer,
        sure: float,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], float] = time.time,
    ) -> None:
        self._line = line
        self._installed = installed
        self._title = title
        self._book = book
        self._board = board
        self._tasks = tasks
        self._deployer = deployer
        self._sure = sure
        self._clock = clock
        self._today = today
        self._places = threading.Semaphore(_SENDERS)

    # --- Sent from here -----------------------------------------------------------------------------------------------

    def send(self, order: JobOrder) -> str:
        """Send the job; the scheduler's id. Raises ``ProblemError`` when it is refused or nobody wants it any more."""
        job = order.job
        self._tasks.start(_BEAT + job, lambda: self._beat(job))
        if not self._places.acquire(blocking=False):
            self._at(job, JobStage.DRAFT, "Waits until other jobs are sent.")
            self._places.acquire()
        line = None
        try:
            line = self._connect(job)
            spec = self._patiently(job, lambda: self._prepare(order))
            scheduler, title = line.scheduler, self._title()
            text = f"Goes to {scheduler.label} on {title}." if scheduler.has_queue else f"Starts on {title}."
            self._at(job, JobStage.SUBMITTING, text)
            return self._submitter(job, self._say(job, JobStage.SUBMITTING)).submit(spec)
        except ProblemError as error:
            if error.problems[0].code not in _MAYBE_SENT | TRANSIENT and line is not None:
                line.remove_unbegun(job)
            raise
        finally:
            self._places.release()

    def _beat(self, job: str) -> None:
        """Say so in the book as long as it is being sent, also while a person is asked or much is brought there."""
        due = self._clock() + BEAT_S
        while self._tasks.pause(BEAT_S) and self._tasks.is_busy(job):
            if self._clock() < due:  # woken for something else
                continue
            try:
                self._book.note_beat(job)
            except OSError as error:
                _log.warning("It cannot be recorded that a job is being sent: %s", error)
            due = self._clock() + BEAT_S

    def _connect(self, job: str) -> SiteConnection:
        """Connects to the site. The first connection is not tried twice: the person who asked learns at once what is
        wrong."""
        self._at(job, JobStage.CONNECTING, f"Connects to {self._title()}.")
        return self._line()

    def _prepare(self, order: JobOrder) -> JobSpec:
        say = partial(self._say_preparing, order.job)
        say(f"Prepares {self._title()}.")
        installed = self._installed(say)
        return self._submitter(order.job, say).prepare(order, installed)

    def _submitter(self, job: str, say: Say) -> Submitter:
        return Submitter(
            self._line, self._deployer, say, self._tasks.pause, lambda: not self._given_up(job), self._sure
        )

    def _patiently(self, job: str, work: Callable[[], JobSpec]) -> JobSpec:
        """Do ``work``, again and again while the network is away: nothing is lost by that."""
        pause = pauses()
        while True:
            self._check_wanted(job)
            try:
                return work()
            except ProblemError as error:
                if error.problems[0].code not in TRANSIENT:
                    raise
                self._unreached(job, error.problems[0])
            self._tasks.pause(pause())

    def _check_wanted(self, job: str) -> None:
        news = self._book.news(job)
        if news.over and news.problem is not None:
            raise ProblemError(news.problem)
        if self._given_up(job):
            raise problem("job.cancelled", "You cancelled the job; nothing was sent.")

    def _say_preparing(self, job: str, text: str) -> None:
        """A transfer reports its progress every second and is ended there if nobody wants the job any more."""
        self._check_wanted(job)
        self._at(job, JobStage.PREPARING, text)

    def _given_up(self, job: str) -> bool:
        """Whether the job was given up, also by another program: it was reported as never sent, so it must not run."""
        return self._book.wish(job) is not None or self._book.news(job).over or self._tasks.closing

    # --- Found again --------------------------------------------------------------------------------------------------

    def find(self, job: str) -> str:
        """Finds the id of a job in the book that may or may not have been sent; empty if another program handles it, or
        the manager closes. Raises ``ProblemError`` if it was not sent."""
        while self._await_silence(job):
            if self._book.news(job).stage is not JobStage.SUBMITTING:
                text = "The job was never sent: the program that was about to send it has ended."
                raise problem("job.unsent", text, "Send it again.")
            before = self._book.written(job)
            say = self._say(job, JobStage.SUBMITTING)
            say("It is not known whether the job was sent; Clew is looking for it.")
            line = self._found_home(job)
            if line is None:
                return ""
            found = self._submitter(job, say).find(job_spec(line, self._book.order(job), _NO_AGENT))  # by its name
            if found:
                return found
            self._book.refresh()
            if self._book.written(job) == before:  # else the program that sends it has come back meanwhile
                raise problem("job.unsent", "The scheduler did not get the job.", "Send it again.")
        return ""

    def _await_silence(self, job: str) -> bool:
        """Wait until nobody sends the job any more; False when it was sent or ended meanwhile, or the manager closes.

        That its sender is not seen here proves nothing: it may run in a container, or on another computer with the same
        home. So it must have been silent as well. What was written long ago counts at once, unless by another
        computer's clock; otherwise the silence is awaited here.
        """
        self._book.refresh()
        sender, heard, since = self._book.sender(job), self._book.written(job), self._clock()
        if sender is None or sender.is_me:
            return True
        long_ago = sender.is_here and self._today() - heard[1] >= QUIET_S
        while True:
            news = self._book.news(job)
            if not (news.over or news.id or sender.alive):
                if long_ago or self._clock() - since >= QUIET_S:
                    return True
                news = replace(news, text=_UNSURE)
            self._board.publish(job, partial(_instead, now=news))
            if news.over or news.id or not self._tasks.pause(_BOOK_S):
                return False
            self._book.refresh()
            if sender.alive or self._book.written(job) != heard:
                heard, since, long_ago = self._book.written(job), self._clock(), False

    def _found_home(self, job: str) -> SiteConnection | None:
        """The line, when it is known where things lie; None when the manager closes before."""
        pause = pauses()
        while True:
            try:
                line = self._line()
                line.layout()
                return line
            except ProblemError as error:
                self._unreached(job, error.problems[0])
            if not self._tasks.pause(pause()):
                return None

    # --- Helpers ------------------------------------------------------------------------------------------------------

    def _say(self, job: str, stage: JobStage) -> Say:
        return lambda text: self._at(job, stage, text)

    def _at(self, job: str, stage: JobStage, text: str) -> None:
        self._board.publish(job, lambda news: replace(news, stage=stage, text=text, problem=None))

    def _unreached(self, job: str, found: Problem) -> None:
        self._board.publish(job, lambda news: job_news.unreached(news, found, self._title()))


def _instead(_before: JobNews, now: JobNews) -> JobNews:
    return now
