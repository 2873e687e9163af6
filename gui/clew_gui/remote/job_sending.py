"""How a job comes to its id: it is sent from here, or found where another program may have sent it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from clew_gui.remote import job_news
from clew_gui.remote.bootstrap import Installed
from clew_gui.remote.errands import Errands, pauses
from clew_gui.remote.job_book import JobBook
from clew_gui.remote.job_submitter import Bringer, Say, Submitter, job_spec
from clew_gui.remote.jobs import Order, Stage
from clew_gui.remote.news_board import NewsBoard
from clew_gui.remote.schedulers.job import JobSpec
from clew_gui.remote.site_line import SiteLine
from clew_shared.problem import Problem, ProblemError, problem

_SENDERS = 2
"""Jobs that are sent at the same time: more would only share the same line."""
_BOOK_S = 1.0
_NO_AGENT = Installed(command=("?",), environment={}, python="", tensorflow="")


class Sending:
    """Sends jobs of one site, a few at a time, and tells on the ``board`` how far each is. ``line`` is the site's line,
    connected; ``installed`` brings the agent there; both may wait and raise ``ProblemError``. ``title`` is the site's.
    """

    def __init__(
        self,
        line: Callable[[], SiteLine],
        installed: Callable[[Say], Installed],
        title: Callable[[], str],
        book: JobBook,
        board: NewsBoard,
        errands: Errands,
        bringer: Bringer,
        sure: float,
    ) -> None:
        self._line = line
        self._installed = installed
        self._title = title
        self._book = book
        self._board = board
        self._errands = errands
        self._bringer = bringer
        self._sure = sure
        self._places = threading.Semaphore(_SENDERS)

    # --- Sent from here -----------------------------------------------------------------------------------------------

    def send(self, order: Order) -> str:
        """Send the job; the scheduler's id. Raises ``ProblemError`` when it is refused or nobody wants it any more."""
        job = order.job
        if not self._places.acquire(blocking=False):
            self._at(job, Stage.DRAFT, "Waits until other jobs are sent.")
            self._places.acquire()
        try:
            line = self._connect(job)
            spec = self._patiently(job, lambda: self._prepare(order))
            self._at(job, Stage.SUBMITTING, f"Goes to {line.scheduler.label} on {self._title()}.")
            return self._submitter(job, self._say(job, Stage.SUBMITTING)).submit(spec)
        finally:
            self._places.release()

    def _connect(self, job: str) -> SiteLine:
        """The first connection is not tried twice: whoever has just asked for the job learns at once what is wrong."""
        self._at(job, Stage.CONNECTING, f"Connects to {self._title()}.")
        return self._line()

    def _prepare(self, order: Order) -> JobSpec:
        say = partial(self._say_preparing, order.job)
        say(f"Prepares {self._title()}.")
        installed = self._installed(say)
        return self._submitter(order.job, say).prepare(order, installed)

    def _submitter(self, job: str, say: Say) -> Submitter:
        return Submitter(
            self._line, self._bringer, say, self._errands.pause, lambda: not self._given_up(job), self._sure
        )

    def _patiently(self, job: str, work: Callable[[], JobSpec]) -> JobSpec:
        """Do ``work``, again and again while the network is away: nothing is lost by that."""
        pause = pauses()
        while True:
            self._check_wanted(job)
            try:
                return work()
            except ProblemError as error:
                if error.problems[0].code not in job_news.TRANSIENT:
                    raise
                self._unreached(job, error.problems[0])
            self._errands.pause(pause())

    def _check_wanted(self, job: str) -> None:
        if self._given_up(job):
            raise problem("job.cancelled", "You cancelled the job; nothing was sent.")

    def _say_preparing(self, job: str, text: str) -> None:
        """What brings things tells its progress every second: there it is ended, if nobody wants the job any more."""
        self._check_wanted(job)
        self._at(job, Stage.PREPARING, text)

    def _given_up(self, job: str) -> bool:
        return self._book.wish(job) is not None or self._errands.closing

    # --- Found again --------------------------------------------------------------------------------------------------

    def find(self, job: str) -> str:
        """The id of a job of the book of which nobody knows whether it was sent; empty when it is another program's
        matter, or the desk closes. Raises ``ProblemError`` when it was not sent."""
        while (sender := self._book.sender(job)) is not None and sender.alive and not sender.is_me:
            self._book.refresh()
            news = self._book.news(job)
            self._board.publish(job, lambda _, news=news: news)  # type: ignore[misc]
            if news.over or news.id or not self._errands.pause(_BOOK_S):
                return ""
        if self._book.news(job).stage is not Stage.SUBMITTING:
            text = "The job was never sent: the program that was about to send it has ended."
            raise problem("job.unsent", text, "Send it again.")
        say = self._say(job, Stage.SUBMITTING)
        say("Nobody knows whether it was sent; it is looked for.")
        line = self._found_home(job)
        if line is None:
            return ""
        found = self._submitter(job, say).find(job_spec(line, self._book.order(job), _NO_AGENT))  # by its name
        if not found:
            raise problem("job.unsent", "The scheduler did not get the job.", "Send it again.")
        return found

    def _found_home(self, job: str) -> SiteLine | None:
        """The line, when it is known where things lie; None when the desk closes before."""
        pause = pauses()
        while True:
            try:
                line = self._line()
                line.layout()
                return line
            except ProblemError as error:
                self._unreached(job, error.problems[0])
            if not self._errands.pause(pause()):
                return None

    # --- Helpers ------------------------------------------------------------------------------------------------------

    def _say(self, job: str, stage: Stage) -> Say:
        return lambda text: self._at(job, stage, text)

    def _at(self, job: str, stage: Stage, text: str) -> None:
        self._board.publish(job, lambda news: replace(news, stage=stage, text=text, problem=None))

    def _unreached(self, job: str, found: Problem) -> None:
        self._board.publish(job, lambda news: job_news.unreached(news, found, self._title()))
