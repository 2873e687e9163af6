"""The news of each job of a site: changed by many threads, reported in order, noted in the book."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from clew_gui.jobs.job import JobNews, JobStage
from clew_gui.jobs.job_book import JobBook
from clew_shared.base.problem import problem

_log = logging.getLogger(__name__)

Change = Callable[[JobNews], JobNews]


class JobStatusStore:
    """Keeps the latest news of jobs and publishes it. ``report`` gets all that is new of a job, from the thread that
    learned it; it must not wait. ``turned`` is called after it when the job came to another stage, or a trouble came or
    went."""

    def __init__(self, book: JobBook, report: Callable[[JobNews], None], turned: Callable[[str], None]) -> None:
        self._book = book
        self._report = report
        self._turned = turned
        self._news: dict[str, JobNews] = {}
        self._reading = threading.Lock()
        self._telling = threading.RLock()

    def news(self, job: str) -> JobNews:
        """Returns the present news of a job. Raises ``KeyError`` for one that is not in the book."""
        with self._reading:
            known = self._news.get(job)
        return known if known is not None else self._book.news(job)

    def publish(self, job: str, change: Change) -> None:
        """Make new news out of the old, note them, and report them. What is over stays over.

        Raises ``ProblemError`` when a job that is about to be sent cannot be noted.
        """
        with self._telling:
            before = self.news(job)
            after = before if before.over else change(before)
            with self._reading:
                first = job not in self._news
                self._news[job] = after
            if after == before and not first:
                return
            self._note(after)
            self._report(after)
        if after.stage is not before.stage or after.problem != before.problem:
            self._turned(job)

    def _note(self, news: JobNews) -> None:
        try:
            self._book.note_news(news)
        except OSError as error:
            _log.warning("What became of a job cannot be recorded: %s", error)
            if news.stage is JobStage.SUBMITTING:
                text = f"The job cannot be recorded on this computer, so it is not sent: {error}."
                raise problem("book.write", text, "Make room on the disk.") from None
