"""The managers of all sites that a program talks to, each made when it is first needed. None dials before it has to."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Protocol

from clew_gui.jobs.job import JobOrder, ReportNews
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.jobs.manager import SiteJobManager
from clew_gui.sites.site_connection import SiteConnection, open_line
from clew_gui.sites.store import site_store
from clew_gui.ssh.login_policy import LoginPromptPolicy
from clew_gui.ssh.prompts import AskOnce, Prompter
from clew_gui.targets.target import Target
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, problem
from clew_shared.base.remedies import list_all

ASK_S = 60.0
"""The seconds that a program waits for schedulers: a login with a question, and a scheduler that is slow to answer."""


class JobManager(Protocol):
    """The interface that is needed from a ``SiteJobManager``."""

    def take(self, order: JobOrder, title: str = "") -> None:
        """Note the job and send it."""

    @property
    def refusal(self) -> Problem | None:
        """Returns the reason why nobody is logged in, if a person has to fix that."""

    def follow(self, job: str, asked: bool = True) -> None:
        """Watch a job that was sent earlier; not ``asked``: by another program, just now."""

    def ask_now(self, jobs: Collection[str], seconds: float) -> bool:
        """Ask the scheduler about these jobs at once; waits."""

    def noted(self, job: str) -> None:
        """Takes over what another program wrote about the job into the book."""

    def cancel(self, job: str) -> None:
        """End it."""

    def let_go(self, job: str) -> None:
        """End an allocation that was held."""

    def target(self, job: str) -> Target:
        """The connection to its agent and files."""

    def preview(self, order: JobOrder) -> str:
        """The script; waits."""

    def log_in(self) -> None:
        """Log in, and ask what has to be asked."""

    def log_out(self) -> None:
        """Hang up until a person wants something of the site."""

    def close(self) -> None:
        """Hang up."""


class JobManagers:
    """Keeps the job managers of all sites. ``make`` makes the manager of a site, given its name, the book and where to
    report news; ``forget`` forgets what a person typed to log in. Used from one thread, but ``preview`` and
    ``log_out``; the news come from threads of the managers."""

    def __init__(
        self,
        book: JobBook,
        make: Callable[[str, JobBook, ReportNews], JobManager],
        title: Callable[[str], str],
        forget: Callable[[], object] = lambda: None,
    ) -> None:
        self.book = book
        self.title = title
        """A site's name in words. Raises ``ProblemError`` when there is no such site, or its file is wrong."""
        self.listen: ReportNews = lambda _news: None
        """Called, from any thread, with everything new of any job."""
        self._make, self._forget = make, forget
        self._managers: dict[str, JobManager] = {}
        self._making = threading.Lock()

    def submit(self, order: JobOrder) -> None:
        """Note the job and begin to send it. Raises ``ProblemError`` when the site is not known or the disk refuses."""
        title = self.title(order.site)
        self.manager_of(order.site).take(order, title)

    def follow(self, job: str, asked: bool = True) -> None:
        """Watch a job of the book. Not ``asked``: another program sent it, and no person is asked anything for it."""
        self._of_job(job).follow(job, asked)

    def noted(self, job: str) -> None:
        """Takes over what another program wrote about the job into the book."""
        self._of_job(job).noted(job)

    def ask_now(self, jobs: Collection[str], seconds: float) -> None:
        """Ask all schedulers about these jobs at the same time, and write what is new into the book. Waits, so many
        seconds at most."""
        by_site: dict[str, list[str]] = {}
        for job in jobs:
            by_site.setdefault(self.book.order(job).site, []).append(job)
        threads = [
            threading.Thread(target=self.manager_of(site).ask_now, args=(mine, seconds), name="clew-ask", daemon=True)
            for site, mine in by_site.items()
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def refusals(self) -> dict[str, Problem]:
        """The sites where nobody is logged in until a person does something, and why not."""
        found = ((site, manager.refusal) for site, manager in tuple(self._managers.items()))
        return {site: refusal for site, refusal in found if refusal is not None}

    def log_in(self, site: str) -> None:
        """A person wants to be logged in on a site, and answers what is asked."""
        self.manager_of(site).log_in()

    def log_out(self) -> None:
        """Hangs up everywhere until a person wants something of a site, and forgets what was typed. Jobs go on. Waits a
        moment."""
        self._forget()
        for manager in tuple(self._managers.values()):
            manager.log_out()

    def cancel(self, job: str) -> None:
        """End the job, or take it out of the queue."""
        self._of_job(job).cancel(job)

    def let_go(self, job: str) -> None:
        """End an allocation that was held."""
        self._of_job(job).let_go(job)

    def target(self, job: str) -> Target:
        """The connection to the job's agent and files."""
        return self._of_job(job).target(job)

    def preview(self, order: JobOrder) -> str:
        """The job's script, exactly as it would be sent. Waits. Raises ``ProblemError``."""
        self.title(order.site)
        return self.manager_of(order.site).preview(order)

    def close(self) -> None:
        """Hang up everywhere at the same time; jobs go on."""
        managers = tuple(self._managers.values())  # ``preview`` may just make one
        others = [
            threading.Thread(target=manager.close, name="clew-manager closing", daemon=True) for manager in managers[1:]
        ]
        for thread in others:
            thread.start()
        for manager in managers[:1]:
            manager.close()
        for thread in others:
            thread.join()
        self._managers.clear()

    def _of_job(self, job: str) -> JobManager:
        try:
            return self.manager_of(self.book.order(job).site)
        except KeyError:
            raise problem("job.unknown", f"There is no job {job}.", "", job, list_all("jobs")) from None

    def manager_of(self, site: str) -> JobManager:
        """The manager of this site, made when it is first asked for."""
        with self._making:
            if site not in self._managers:
                self._managers[site] = self._make(site, self.book, lambda news: self.listen(news))
            return self._managers[site]


def open_managers(places: Places, prompter: Prompter, quiet: bool = False) -> JobManagers:
    """The managers of this user's sites. Who is asked for passwords and codes is ``prompter``, each thing once; with
    ``quiet`` only after a person has wanted something of the site, and never out of nowhere."""
    store, asker = site_store(places), AskOnce(prompter)
    askers = [asker]

    def make(name: str, book: JobBook, report: ReportNews) -> JobManager:
        if not quiet:
            return SiteJobManager(name, lambda: open_line(name, store.load(name), places, asker), book, report)
        policy = LoginPromptPolicy(asker)
        behind = AskOnce(policy)
        askers.append(behind)

        def open_site() -> SiteConnection:
            return open_line(name, store.load(name), places, behind, policy.dialling)

        return SiteJobManager(name, open_site, book, report, policy=policy)

    def title(name: str) -> str:
        return store.load(name).title or name

    def forget() -> None:
        for one in tuple(askers):
            one.forget()

    return JobManagers(job_book(places), make, title, forget)
