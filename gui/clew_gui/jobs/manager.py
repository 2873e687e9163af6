"""Manages all jobs of a program on all its sites: submits, watches, reaches and ends them in threads, so that callers
never wait."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from clew_gui.jobs import procedure
from clew_gui.jobs.access import SiteAccess
from clew_gui.jobs.agent_route import AgentRoute
from clew_gui.jobs.job import EndRequest, JobOrder, ReportStatus, ending
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.jobs.managed_job import ManagedJob, Work
from clew_gui.jobs.watch import SURE_S, JobWatch
from clew_gui.sites.site_connection import SiteConnection, open_connection
from clew_gui.sites.store import site_store
from clew_gui.ssh.prompts import AskOnce, Prompter
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, problem

_log = logging.getLogger(__name__)

ASK_S = 60.0
"""The seconds that a program waits for schedulers: a login with a question, and a scheduler that is slow to answer."""
_CLOSE_S = 3.0
"""A window that is closed waits at most so long for threads that wait for a network."""


class JobManager:
    """Keeps the jobs of a program, and for each site its access and watch, all made when they are first needed. None
    dials before it has to. ``access_to`` makes the access to the site of a name; ``title`` is its name in words, and
    raises ``ProblemError`` when there is no such site, or its file is wrong. A job that a scheduler does not know is
    asked for once more after ``sure`` seconds.

    Everything but ``ask_now``, ``preview``, ``log_out`` and ``close`` returns at once. News come from any thread.
    """

    def __init__(
        self,
        book: JobBook,
        access_to: Callable[[str], SiteAccess],
        title: Callable[[str], str],
        sure: float = SURE_S,
    ) -> None:
        self.book = book
        self.title = title
        self.listen: ReportStatus = lambda _news: None
        """Called, from any thread, with everything new of any job."""
        self._access_to = access_to
        self._sure = sure
        self._lock = threading.RLock()
        self._watches: dict[str, JobWatch] = {}
        self._jobs: dict[str, ManagedJob] = {}
        self._targets: dict[str, AgentRoute] = {}

    # --- Jobs ---------------------------------------------------------------------------------------------------------

    def submit(self, order: JobOrder) -> None:
        """Note the job and begin to submit it. Raises ``ProblemError`` when the site is not known or the disk
        refuses."""
        title = self.title(order.site)
        lock = self.book.lock(order.job)  # before others see the job
        try:
            self.book.note_order(order, title)
        except OSError as error:
            if lock is not None:
                lock.remove()
            text = f"The job cannot be recorded on this computer, so it is not sent: {error}."
            raise problem("book.write", text, "Make room on the disk.") from None
        job = self.job(order.job)
        job.sending = job.sending or lock
        job.access.title = title
        job.access.allow_prompts()
        job.start(Work.SUBMIT, partial(procedure.submit, job))

    def follow(self, job_id: str, asked: bool = True) -> None:
        """Watch a job of the book that is not over, after this program was restarted. Not ``asked``: another program
        submitted it, and no person is asked anything for it."""
        job = self.job(job_id)
        news = self.book.news(job_id)
        job.access.title = self.book.title(job_id)
        if news.over or job.is_busy(Work.SUBMIT):
            return
        if asked:
            job.access.allow_prompts()
        job.take_over()
        if not news.id:
            job.start(Work.SUBMIT, partial(procedure.resume, job))
        elif self.book.end_request(job_id) is not None:
            job.start(Work.END, partial(procedure.end, job))

    def ask(self, jobs: Collection[str], heard: Callable[[str], None]) -> set[str]:
        """Ask all schedulers about these jobs of the book at the same time, and write what is new into the book.
        ``heard`` is called from any thread with each of those that are returned, as soon as there is word of it, be it
        that nobody can be asked."""
        asked: dict[JobWatch, list[str]] = {}
        for job_id in jobs:
            self.follow(job_id)
            job = self.job(job_id)
            ids = asked.setdefault(job.watch, [])
            if (news := job.news).id and not news.over:
                ids.append(news.id)
        return {job for watch, ids in asked.items() for job in watch.ask_now(ids, heard)}

    def ask_now(self, jobs: Collection[str], seconds: float) -> bool:
        """Asks as ``ask`` does, and waits at most ``seconds``. Returns whether every job was answered for, or could not
        be."""
        heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        waiting, until = self.ask(jobs, heard.put), time.monotonic() + seconds
        with suppress(queue.Empty):
            while waiting:
                waiting.discard(heard.get(timeout=max(0.0, until - time.monotonic())))
        return not waiting

    def noted(self, job: str) -> None:
        """Takes over what another program wrote about the job into the book."""
        self.job(job).take_over()

    def end(self, job_id: str, request: EndRequest) -> None:
        """End the job, or take it out of the queue."""
        job = self.job(job_id)
        if job.news.over:
            return
        try:
            self.book.note_end_request(job_id, request)
        except OSError as error:
            _log.warning("The request to end a job cannot be recorded: %s", error)
        job.access.allow_prompts()
        job.publish(lambda news: replace(news, text=ending(request)))
        job.wake()
        job.start(Work.END, partial(procedure.end, job))

    def target(self, job_id: str) -> AgentRoute:
        """The connection to the job's agent and files; the same one each time, until it is closed."""
        with self._lock:
            known = self._targets.get(job_id)
            if known is None or known.closed:
                job = self.job(job_id)
                known = self._targets[job_id] = AgentRoute(job, lambda: self.wake(job.watch))
                known.start()
            return known

    def preview(self, order: JobOrder) -> str:
        """The job's script, exactly as it would be submitted. Waits: dials, installs the agent and stages exercises if
        that was not done before. Raises ``ProblemError``."""
        self.title(order.site)
        access = self.watch_of(order.site).access
        access.allow_prompts()
        return procedure.preview(access, order)

    def job(self, job_id: str) -> ManagedJob:
        """The job of the book. Raises ``ProblemError`` if there is none."""
        with self._lock:
            if job_id not in self._jobs:
                watch = self.watch_of(self.book.order(job_id).site)
                self._jobs[job_id] = ManagedJob(job_id, watch, self.book, lambda news: self.listen(news))
            return self._jobs[job_id]

    # --- Sites --------------------------------------------------------------------------------------------------------

    def watch_of(self, site: str) -> JobWatch:
        """The watch of this site, with its access."""
        with self._lock:
            if site not in self._watches:
                self._watches[site] = JobWatch(self._access_to(site), self._sure)
            return self._watches[site]

    def refusals(self) -> dict[str, Problem]:
        """The sites where nobody is logged in until a person does something, and why not."""
        found = ((site, watch.access.refusal) for site, watch in self._all_watches().items())
        return {site: refusal for site, refusal in found if refusal is not None}

    def log_in(self, site: str) -> None:
        """A person wants to be logged in on a site, and answers what is asked."""
        watch = self.watch_of(site)
        watch.access.allow_prompts()
        self.wake(watch)

    def log_out(self) -> bool:
        """Hangs up everywhere until a person wants something of a site, and forgets what was typed; returns whether
        somebody was logged in. Jobs go on. Waits a moment."""
        was = False
        for watch in self._all_watches().values():
            was |= watch.access.log_out()
            for target in self._targets_of(watch):
                target.kick()
        return was

    def wake(self, watch: JobWatch) -> None:
        """The laptop woke up, or the network changed: look at once at the jobs of this site."""
        watch.access.wake()
        watch.hurry()
        for job in self._jobs_of(watch):
            job.wake()
        for target in self._targets_of(watch):
            target.kick()

    def close(self) -> None:
        """Hang up everywhere at the same time; jobs go on. Waits a few seconds at most."""
        threads = [
            threading.Thread(target=self._close, args=(watch,), name="clew-manager closing", daemon=True)
            for watch in self._all_watches().values()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with self._lock:
            self._watches.clear()
            self._jobs.clear()
            self._targets.clear()

    def _close(self, watch: JobWatch) -> None:
        jobs, targets = self._jobs_of(watch), self._targets_of(watch)
        for job in jobs:
            job.stop()
        watch.access.close()
        for target in targets:
            target.leave()
        for target in targets:
            target.close()
        watch.close()
        until = time.monotonic() + _CLOSE_S
        for job in jobs:
            job.join(until)

    def _all_watches(self) -> dict[str, JobWatch]:
        with self._lock:
            return dict(self._watches)

    def _jobs_of(self, watch: JobWatch) -> list[ManagedJob]:
        with self._lock:
            return [job for job in self._jobs.values() if job.watch is watch]

    def _targets_of(self, watch: JobWatch) -> list[AgentRoute]:
        with self._lock:
            return [target for job, target in self._targets.items() if self._jobs[job].watch is watch]


def open_manager(places: Places, prompter: Prompter, quiet: bool = False) -> JobManager:
    """The manager of this user's jobs. Who is asked for passwords and codes is ``prompter``, each thing once; if it is
    ``quiet`` only after a person has wanted something of the site, and never out of nowhere."""
    store, asker = site_store(places), AskOnce(prompter)

    def open_site(access: SiteAccess) -> SiteConnection:
        return open_connection(access.name, store.load(access.name), places, access.asker, access.dialling)

    def title(name: str) -> str:
        return store.load(name).title or name

    return JobManager(job_book(places), lambda name: SiteAccess(name, open_site, asker, quiet), title)
