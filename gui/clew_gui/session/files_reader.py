"""Journals by files, for a link without an agent: the same mirrors, the same order, one bounded read at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew_gui.session.fetcher import Fetcher
from clew_shared.messages import Refused
from clew_shared.problem import Problem

if TYPE_CHECKING:
    from clew_gui.remote.target import JournalFiles

_ID = b"by files"
_SHORTER = Refused(problem=Problem("fetch.offset", "The journal there is shorter than its copy."))


class FilesReader:
    """Reads for ``fetcher``, in the link's thread. Once ``last`` was said nothing is added to the journals any more."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._begun = False
        self._last = False

    def finish(self) -> None:
        """The job is over: what is there now is all."""
        self._last = True
        self._begun = False

    def pause(self) -> None:
        """An agent serves again."""
        self._begun = False

    def turn(self, files: JournalFiles) -> bool:
        """Read one piece of what is wanted most; whether there is more to read at once.

        Raises ``ProblemError`` when the machine cannot be reached.
        """
        if not self._begun:
            self._begun = True
            self._fetcher.alone(self._last)
        wanted = self._fetcher.next_fetch()
        if wanted is None:
            return False
        run, fetch = wanted
        self._fetcher.sent(run, _ID + run.encode())
        try:
            found = files.fetch(run, fetch.attempt, fetch.offset)
        except BaseException:
            self._fetcher.lost(everything=True)
            self._fetcher.later(run)
            raise
        if found is None:
            self._fetcher.nothing_there(run)
            return True
        shorter = found.size < fetch.offset
        self._fetcher.answered(_ID + run.encode(), _SHORTER if shorter else found)
        if not found.data and not found.sealed and not shorter:
            self._fetcher.later(run)
        return True
