"""All jobs of one site: sent, watched, concluded, cancelled, by threads of their own. Nobody who asks has to wait."""

from __future__ import annotations

from collections.abc import Callable

from clew_gui.remote.job_book import JobBook
from clew_gui.remote.job_target import JobTarget
from clew_gui.remote.jobs import JobNews, Order
from clew_gui.remote.site_line import SiteLine

Tell = Callable[[JobNews], None]


class SiteDesk:
    """One per site and program. ``open_site`` makes the line when it is first needed, in a thread of the desk; what it
    raises becomes news. ``tell`` is called from threads of the desk with all that is new of a job.

    Everything but ``preview`` and ``close`` returns at once.
    """

    def __init__(self, name: str, open_site: Callable[[], SiteLine], book: JobBook, tell: Tell) -> None:
        raise NotImplementedError

    def take(self, order: Order, title: str = "") -> None:
        """Send the job; it is written into the book first. Raises ``ProblemError`` if that cannot be done."""
        raise NotImplementedError

    def follow(self, job: str) -> None:
        """Watch a job of the book that is not over, after this program was started anew."""
        raise NotImplementedError

    def cancel(self, job: str) -> None:
        """End the job, or take it out of the queue."""
        raise NotImplementedError

    def let_go(self, job: str) -> None:
        """End an allocation that was held."""
        raise NotImplementedError

    def target(self, job: str) -> JobTarget:
        """The way to the job's agent; the same one each time, until it is closed."""
        raise NotImplementedError

    def preview(self, order: Order) -> str:
        """The job script exactly as it would be sent. May dial and wait. Raises ``ProblemError``."""
        raise NotImplementedError

    def news(self, job: str) -> JobNews:
        """What is known of a job now. Raises ``KeyError`` for one that is not in the book."""
        raise NotImplementedError

    def wake(self) -> None:
        """The laptop woke up, or the network changed: look at once."""
        raise NotImplementedError

    def close(self) -> None:
        """End threads and connection; jobs go on. Waits a few seconds at most."""
        raise NotImplementedError
