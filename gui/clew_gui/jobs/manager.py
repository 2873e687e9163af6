"""Manages all jobs of one site: sends, watches, concludes and cancels them in its own threads, so that callers never
wait."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from clew_gui.deploy.install import Installed
from clew_gui.jobs import job_news
from clew_gui.jobs.background import BackgroundTasks, pauses
from clew_gui.jobs.job import JobNews, JobOrder, JobStage, ReportNews
from clew_gui.jobs.job_book import JobBook, JobWish
from clew_gui.jobs.job_sender import Deployer, JobSender, Say
from clew_gui.jobs.status_store import JobStatusStore
from clew_gui.jobs.target import JobTarget
from clew_gui.jobs.watch import SURE_S, JobWatch
from clew_gui.nodes.routes import RouteFinder
from clew_gui.schedulers.job import LOG, JobRef
from clew_gui.schedulers.state import ON_NODE, JobState, PartitionLimits
from clew_gui.schedulers.words import describe, start_hint
from clew_gui.sites.shared_connection import SharedConnection
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.login_policy import LoginPromptPolicy
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import check_node
from clew_shared.spec import RunSpec

_log = logging.getLogger(__name__)


_CLOSE_S = 3.0
"""A window that is closed waits at most so long for threads that wait for a network."""
_END = "end "


class SiteJobManager:
    """One per site and program. ``open_site`` makes the line when it is first needed, in a thread of the manager; what
    it raises becomes news. ``report`` is called from threads of the manager with all that is new of a job; it must not
    wait. A job that the scheduler does not know is asked for once more after ``sure`` seconds. With a ``policy`` nobody
    is asked anything before a person wants something of this site.

    Everything but ``ask_now``, ``line``, ``finder``, ``installed``, ``preview`` and ``close`` returns at once.
    """

    def __init__(
        self,
        name: str,
        open_site: Callable[[], SiteConnection],
        book: JobBook,
        report: ReportNews,
        deployer: Deployer | None = None,
        sure: float = SURE_S,
        policy: LoginPromptPolicy | None = None,
    ) -> None:
        self.name = name
        self.title = name
        self._shared = SharedConnection(open_site, policy)
        self._book = book
        self._deployer = deployer if deployer is not None else Deployer()
        self._lock = threading.Lock()
        self._installing = threading.Lock()
        self._finder: RouteFinder | None = None
        self._installed: Installed | None = None
        self._confirmed: set[str] = set()
        self._targets: dict[str, JobTarget] = {}
        self._statuses = JobStatusStore(book, report, self._kick)
        self._tasks = BackgroundTasks(self._failed)
        self._sending = JobSender(
            self.line, self.installed, lambda: self.title, book, self._statuses, self._tasks, self._deployer, sure
        )
        self._watch = JobWatch(self.line, self, sure=sure)

    # --- What can be asked for ----------------------------------------------------------------------------------------

    def take(self, order: JobOrder, title: str = "") -> None:
        """Send the job; it is written into the book first. Raises ``ProblemError`` if that cannot be done."""
        try:
            self._book.note_order(order, title)
        except OSError as error:
            text = f"The job cannot be recorded on this computer, so it is not sent: {error}."
            raise problem("book.write", text, "Make room on the disk.") from None
        self.title = title or self.title
        self._shared.allow_prompts()
        self._tasks.start(order.job, lambda: self._send(order))

    def follow(self, job: str, asked: bool = True) -> None:
        """Watch a job of the book that is not over, after this program was restarted; ``asked`` by a person, or
        because another program sent it."""
        news = self._book.news(job)
        self.title = self._book.title(job)
        if news.over or self._tasks.is_busy(job):
            return
        if asked:
            self._shared.allow_prompts()
        self._take_over(job, news)
        if not news.id:
            self._tasks.start(job, lambda: self._resume(job))
        elif self._book.wish(job) is not None:
            self._tasks.start(_END + job, lambda: self._end_it(job))

    def ask_now(self, jobs: Collection[str], seconds: float) -> bool:
        """Ask the scheduler about these jobs of the book at once; waits, so many seconds at most. Whether there is word
        of each, be it that nobody can be asked."""
        for job in jobs:
            self.follow(job)
        ids = [news.id for job in jobs if (news := self.news(job)).id and not news.over]
        return self._watch.ask_now(ids, seconds)

    def noted(self, job: str) -> None:
        """Takes over what another program wrote into the book about a job: news, or an action that it chose."""
        before, news, wish = self.news(job), self._book.news(job), self._book.wish(job)
        self._statuses.publish(job, partial(job_news.heard_from_another, heard=news, wish=wish))
        if self.news(job) != before:
            if news.id and not news.over:
                self._watch_it(job, news.id)
            self._watch.hurry()

    def cancel(self, job: str) -> None:
        """End the job, or take it out of the queue."""
        self._wish(job, JobWish.CANCEL)

    def let_go(self, job: str) -> None:
        """End an allocation that was held."""
        self._wish(job, JobWish.LET_GO)

    def target(self, job: str) -> JobTarget:
        """The connection to the job's agent; the same one each time, until it is closed."""
        with self._lock:
            known = self._targets.get(job)
            if known is None or known.closed:
                known = self._targets[job] = JobTarget(self, job)
            return known

    def news(self, job: str) -> JobNews:
        """Returns the present news of a job. Raises ``KeyError`` for one that is not in the book."""
        return self._statuses.news(job)

    def preview(self, order: JobOrder) -> str:
        """The job script exactly as it would be sent. Dials, installs the agent and stages exercises if that was not
        done before, since the script names where they lie. Raises ``ProblemError``."""
        self._shared.allow_prompts()
        return self._sending.preview(order)

    def wake(self) -> None:
        """The laptop woke up, or the network changed: look at once."""
        self._shared.wake()
        self._watch.hurry()
        self._tasks.wake()
        for target in self._all_targets():
            target.kick()

    @property
    def refusal(self) -> Problem | None:
        """Returns the reason why nobody is logged in; a person has to ``log_in``."""
        return self._shared.refusal

    def log_in(self) -> None:
        """A person wants to be logged in, and answers what is asked."""
        self._shared.allow_prompts()
        self.wake()

    def log_out(self) -> None:
        """Ends the login until the person logs in again. Jobs go on. Waits a moment."""
        self._shared.log_out(self.title)
        with self._lock:
            self._finder = None
        for target in self._all_targets():
            target.kick()

    def close(self) -> None:
        """End threads and connection; jobs go on. Waits a few seconds at most."""
        self._tasks.close()
        self._shared.close()
        targets = self._all_targets()
        for target in targets:
            target.leave()
        for target in targets:
            target.close()
        self._watch.close()
        self._tasks.join(_CLOSE_S)

    # --- For targets and services: may wait ---------------------------------------------------------------------------

    def line(self) -> SiteConnection:
        """The site's line, connected: see ``SharedConnection.line``."""
        line = self._shared.line()
        self.title = line.title
        return line

    def finder(self) -> RouteFinder:
        """Finds routes to the site's nodes. Raises ``ProblemError`` if the site cannot be reached."""
        line = self._shared.opened()
        if (refusal := self.refusal) is not None:
            raise ProblemError(refusal)
        with self._lock:
            if self._finder is None:
                self._finder = RouteFinder(line, self.installed)
            return self._finder

    def installed(self, say: Say = _log.info) -> Installed:
        """The agent there, brought at the first call. Raises ``ProblemError``."""
        line = self.line()
        with self._installing:
            if self._installed is None:
                self._installed = self._deployer.ensure_agent(line, say)
            return self._installed

    def spec_of(self, run: str) -> RunSpec | None:
        """A spec that was given to a job."""
        job = self._book.job_of(run)
        return next((spec for spec in self._book.order(job).runs if spec.run == run), None) if job else None

    def heard(self, job: str) -> None:
        """The job's agent speaks: nobody needs to ask the scheduler, once it has said where the job runs."""
        news = self.news(job)
        with self._lock:
            known = job in self._confirmed
        if known:
            self._watch.heard(news.id)
        if news.problem is not None:
            self._statuses.publish(job, lambda news: replace(news, text="The job runs.", problem=None))

    def serves(self, job: str) -> None:
        """Notes that the agent's address was found, so the job runs, whatever the scheduler said last."""
        self._statuses.publish(job, job_news.begun)
        self._watch.hurry()

    def fell_silent(self, job: str) -> None:
        """Notes that the job's agent has ended, and asks the scheduler why."""
        with self._lock:
            self._confirmed.discard(job)
        self._watch.hurry()

    # --- For the watch ------------------------------------------------------------------------------------------------

    def at(self, job: str, state: JobState, limits: PartitionLimits | None) -> None:
        """The job waits or runs."""
        with self._lock:
            (self._confirmed.add if state.phase in ON_NODE else self._confirmed.discard)(job)
        reason = describe(state, self._shared.opened().scheduler, limits)
        wish = self._latest_wish(job)

        def change(news: JobNews) -> JobNews:
            now = job_news.of_state(news, state, reason, time.time())
            return now if wish is None else replace(now, text=job_news.ending(wish))

        self._statuses.publish(job, change)

    def ended(self, job: str, state: JobState) -> None:
        """Reports that the job is over, and how."""
        line, wish = self._shared.opened(), self._latest_wish(job)
        log = f"{line.layout().job(job)}/{LOG} on {self.title}"
        reason = describe(state, line.scheduler)
        hint = start_hint(state)
        ways = (check_node(self.name),) if hint else ()
        self._statuses.publish(job, lambda news: job_news.of_end(news, state, reason, wish, log, hint, ways))

    def unanswered(self, jobs: tuple[str, ...], problem: Problem) -> None:
        """Reports that nobody could be asked; nothing is over."""
        for job in jobs:
            self._unreached(job, problem)

    def runs_of(self, job: str) -> tuple[str, ...]:
        """The runs that were given to the job."""
        return self._book.runs(job)

    # --- On its way ---------------------------------------------------------------------------------------------------

    def _send(self, order: JobOrder) -> None:
        self._sent(order.job, self._sending.send(order))

    def _resume(self, job: str) -> None:
        """Resumes a job in the book that may or may not have been sent."""
        found = self._sending.find(job)
        if found:
            self._sent(job, found)
        else:
            self._take_over(job, self._book.news(job))

    def _sent(self, job: str, job_id: str) -> None:
        sent = {"stage": JobStage.QUEUED, "id": job_id, "text": "It was sent.", "problem": None}
        self._statuses.publish(job, lambda news: replace(news, **sent))
        self._watch_it(job, job_id)
        self._kick(job)
        if self._book.wish(job) is not None:
            self._end_it(job)

    def _take_over(self, job: str, news: JobNews) -> None:
        """Takes over a job from the book."""
        self._statuses.publish(job, lambda _: news)
        if news.id and not news.over:
            self._watch_it(job, news.id)

    def _watch_it(self, job: str, job_id: str) -> None:
        self._watch.add(JobRef(job_id, job), self._book.order(job).allocation.partition)

    # --- Ending -------------------------------------------------------------------------------------------------------

    def _wish(self, job: str, wish: JobWish) -> None:
        if self.news(job).over:
            return
        try:
            self._book.note_wish(job, wish)
        except OSError as error:
            _log.warning("The request to end a job cannot be recorded: %s", error)
        self._shared.allow_prompts()
        self._statuses.publish(job, lambda news: replace(news, text=job_news.ending(wish)))
        self._tasks.wake()
        self._tasks.start(_END + job, lambda: self._end_it(job))

    def _end_it(self, job: str) -> None:
        """Ask the scheduler to end it, until it was asked; a thread that is sending it does that afterwards."""
        news, pause = self.news(job), pauses()
        while news.id and not self.news(job).over:
            try:
                line = self.line()
                done = line.run(line.scheduler.cancel(JobRef(news.id, job)))
            except ProblemError as error:
                self._unreached(job, error.problems[0])
            else:
                self._watch.hurry()  # it may be over already
                if not done.late and not done.code:
                    return
                self._statuses.publish(job, partial(job_news.not_ended, done=done))
            if not self._tasks.pause(pause()):
                return

    def _latest_wish(self, job: str) -> JobWish | None:
        """Returns the latest action chosen for a job, also by another program: it explains why the job ended."""
        with suppress(OSError):
            self._book.refresh()
        return self._book.wish(job)

    def _failed(self, key: str, found: Problem) -> None:
        """A job's refusal becomes its news; of one that was sent the watch knows more."""
        if self._tasks.closing or key.startswith(_END):
            _log.info("%s: %s", key, found)
        else:
            self._statuses.publish(key, lambda news: news if news.id else job_news.refused(news, found))

    # --- Helpers ------------------------------------------------------------------------------------------------------

    def _unreached(self, job: str, found: Problem) -> None:
        self._statuses.publish(job, lambda news: job_news.unreached(news, found, self.title))

    def _kick(self, job: str) -> None:
        with self._lock:
            target = self._targets.get(job)
        if target is not None:
            target.kick()

    def _all_targets(self) -> list[JobTarget]:
        with self._lock:
            return list(self._targets.values())
