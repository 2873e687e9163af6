"""The one line to a site that all work of a program shares, made when it is first needed; nobody is asked in vain."""

from __future__ import annotations

import threading
from collections.abc import Callable

from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.errors import TRANSIENT
from clew_gui.ssh.login_policy import NEEDS_PERSON, LoginPromptPolicy
from clew_shared.base.problem import Problem, ProblemError, problem


class SharedConnection:
    """Shares one connection to a site. ``open_site`` makes the line and raises ``ProblemError``, as when consent is
    lacking; it is tried again then.

    With a ``policy`` only a login that a person has just asked for asks a person anything.
    """

    def __init__(self, open_site: Callable[[], SiteConnection], policy: LoginPromptPolicy | None = None) -> None:
        self._open_site = open_site
        self._policy = policy
        self._opening = threading.Lock()
        self._dialling = threading.Lock()
        self._line: SiteConnection | None = None
        self._refusal: ProblemError | None = None
        self._allowed = 0
        self._closed = threading.Event()

    @property
    def seen(self) -> SiteConnection | None:
        """The line, if it was needed before."""
        return self._line

    @property
    def refusal(self) -> Problem | None:
        """Returns why nobody is logged in, if a person has to fix that; None while there is a connection, or none is
        needed."""
        refusal, line = self._refusal, self._line
        gone = refusal is not None and (line is None or not line.connection.alive)
        return refusal.problems[0] if refusal is not None and gone else None

    def opened(self) -> SiteConnection:
        """The line, connected or not. Raises ``ProblemError``."""
        with self._opening:
            if self._closed.is_set():
                raise problem("ssh.lost", "The connection was closed here.")
            if self._line is None:
                self._line = self._open_site()
                if self._closed.is_set():  # meanwhile: nobody would close it any more
                    self._line.close()
                    raise problem("ssh.lost", "The connection was closed here.")
            return self._line

    def line(self) -> SiteConnection:
        """The line, connected. May wait for a person. Raises ``ProblemError``.

        Where a login was refused or cancelled, that is said again without asking anybody, until the person does
        something: who looks at jobs in the background must not ask for codes every few seconds.
        """
        line = self.opened()
        with self._dialling:
            if self._refusal is not None and not line.connection.alive:
                raise ProblemError(*self._refusal.problems)  # a new one: each raise leaves its trace in what is raised
            allowed = self._allowed
            try:
                line.connection.connected()
            except ProblemError as error:
                if allowed == self._allowed and error.problems[0].code not in TRANSIENT - {NEEDS_PERSON}:
                    self._refusal = error
                raise
            finally:
                if allowed == self._allowed and self._policy is not None:  # else a person did something meanwhile
                    self._policy.shut()
            return line

    def allow_prompts(self) -> None:
        """Allows a new login, and its questions, because a person is doing something."""
        self._allowed += 1
        self._refusal = None
        if self._policy is not None:
            self._policy.open()

    def wake(self) -> None:
        """The laptop woke up, or the network changed: a login may be tried again, without asking anybody."""
        self._refusal = None
        if self._line is not None:
            self._line.connection.wake()

    def log_out(self, title: str) -> None:
        """Hangs up until the person does something that the site ``title`` is needed for."""
        hint = "Log in: the button is above Run, and under Cluster."
        with self._opening:
            line, self._line = self._line, None
            self._allowed += 1  # a login that is under way does not count any more
            self._refusal = problem("ssh.logged_out", f"You logged out of {title}.", hint, title)
            if self._policy is not None:
                self._policy.shut()
        if line is not None:
            line.close()

    def close(self) -> None:
        """Hang up, for good."""
        self._closed.set()
        if self._line is not None:
            self._line.close()
