"""The one line to a site that all work of a program shares, made when it is first needed; nobody is asked in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable

from clew_gui.remote.job_news import TRANSIENT
from clew_gui.remote.site_line import SiteLine
from clew_shared.problem import ProblemError, problem


class Door:
    """``open_site`` makes the line and raises ``ProblemError``, as when consent is lacking; it is tried again then."""

    def __init__(self, open_site: Callable[[], SiteLine]) -> None:
        self._open_site = open_site
        self._opening = threading.Lock()
        self._dialling = threading.Lock()
        self._line: SiteLine | None = None
        self._refusal: ProblemError | None = None
        self._closed = False

    @property
    def seen(self) -> SiteLine | None:
        """The line, if it was needed before."""
        return self._line

    def opened(self) -> SiteLine:
        """The line, connected or not. Raises ``ProblemError``."""
        with self._opening:
            if self._closed:
                raise problem("ssh.lost", "The connection was closed here.")
            if self._line is None:
                self._line = self._open_site()
            return self._line

    def line(self) -> SiteLine:
        """The line, connected. May wait for a person. Raises ``ProblemError``.

        Where a login was refused or cancelled, that is said again without asking anybody, until the person does
        something: who looks at jobs in the background must not ask for codes every few seconds.
        """
        line = self.opened()
        with self._dialling:
            if self._refusal is not None and not line.connection.alive:
                raise self._refusal
            try:
                line.connection.connected()
            except ProblemError as error:
                self._refusal = error if error.problems[0].code not in TRANSIENT else None
                raise
            return line

    def knock(self) -> None:
        """The person does something: a login may be tried again."""
        self._refusal = None

    def wake(self) -> None:
        """The laptop woke up, or the network changed."""
        self.knock()
        if self._line is not None:
            self._line.connection.wake()

    def close(self) -> None:
        """Hang up, for good."""
        self._closed = True
        if self._line is not None:
            self._line.close()
