"""The access of a program to one site: the connection that all of its work shares, and what was found and brought
there. Nobody is asked in vain."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from clew_gui.deploy import install, preflight, staging
from clew_gui.deploy.install import Installed
from clew_gui.nodes.routes import RouteFinder
from clew_gui.sites.site_connection import SiteConnection
from clew_gui.ssh.errors import TRANSIENT
from clew_gui.ssh.prompts import ASKED_FOR, NEEDS_PERSON, AskOnce, Prompt, Prompter
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.spec import RunSpec

_log = logging.getLogger(__name__)

Say = Callable[[str], None]
"""Takes progress in sentences."""

_SUBMITTED_AT_ONCE = 2
"""Jobs that are submitted at the same time: more would only share the same connection."""


class Deployer(msgspec.Struct, frozen=True):
    """The functions that copy things to a site and check there whether they are sufficient; replaced in tests."""

    ensure_agent: Callable[[SiteConnection, Say], Installed] = install.ensure_agent
    stage: Callable[[SiteConnection, str, Say], str] = staging.stage
    stage_exercises: Callable[[SiteConnection, Path, Say], str] = staging.stage_exercises
    check_runs: Callable[[SiteConnection, Mapping[str, str], Sequence[RunSpec], bool], None] = preflight.check_runs


class SiteAccess(Prompter):
    """One for each site and program; used from any thread. ``open_site`` makes the connection when it is first needed,
    with ``asker`` of this access and within its ``dialling``; it raises ``ProblemError``, as when consent is lacking,
    and is tried again then.

    If it is ``quiet``, only a login that a person has just asked for asks a person anything: it is a ``Prompter`` that
    refuses questions of other logins (``ssh.person``), and passes all others on to ``asker``.
    """

    def __init__(
        self,
        name: str,
        open_site: Callable[[SiteAccess], SiteConnection],
        asker: AskOnce,
        quiet: bool = False,
        deployer: Deployer | None = None,
    ) -> None:
        self.name = name
        self.title = name
        """The site in words."""
        self.deployer = deployer if deployer is not None else Deployer()
        self.turns = threading.Semaphore(_SUBMITTED_AT_ONCE)
        """The places of jobs that are being submitted."""
        self.routes = RouteFinder(self.installed)
        self.asker = AskOnce(self) if quiet else asker
        """Who is asked at a login."""
        self._open_site = open_site
        self._person = asker
        self._quiet = quiet
        self._prompts_allowed = False
        self._dials = 0
        self._opening = threading.Lock()
        self._dialling = threading.Lock()
        self._installing = threading.Lock()
        self._connection: SiteConnection | None = None
        self._installed: Installed | None = None
        self._refusal: ProblemError | None = None
        self._requests = 0
        """How often a person asked for a login, or for its end."""
        self._closed = threading.Event()

    # --- Connection ---------------------------------------------------------------------------------------------------

    @property
    def refusal(self) -> Problem | None:
        """Returns why nobody is logged in, if a person has to fix that; None while there is a connection, or none is
        needed."""
        refusal, connection = self._refusal, self._connection
        gone = refusal is not None and (connection is None or not connection.ssh.alive)
        return refusal.problems[0] if refusal is not None and gone else None

    def opened(self) -> SiteConnection:
        """The connection, dialled or not. Raises ``ProblemError``."""
        with self._opening:
            if self._closed.is_set():
                raise problem("ssh.lost", "The connection was closed here.")
            if self._connection is None:
                self._connection = self._open_site(self)
                if self._closed.is_set():  # meanwhile: nobody would close it any more
                    self._connection.close()
                    raise problem("ssh.lost", "The connection was closed here.")
            return self._connection

    def connected(self) -> SiteConnection:
        """The connection, dialled. May wait for a person. Raises ``ProblemError``.

        Where a login was refused or cancelled, that is said again without asking anybody, until the person does
        something: who looks at jobs in the background must not ask for codes every few seconds.
        """
        connection = self.opened()
        with self._dialling:
            if self._refusal is not None and not connection.ssh.alive:
                raise ProblemError(*self._refusal.problems)  # a new one: each raise leaves its trace in what is raised
            requests = self._requests
            try:
                connection.ssh.connected()
            except ProblemError as error:
                if requests == self._requests and error.problems[0].code not in TRANSIENT - {NEEDS_PERSON}:
                    self._refusal = error
                raise
            finally:
                if requests == self._requests:  # else a person did something meanwhile
                    self._prompts_allowed = False
            self.title = connection.title
            return connection

    def allow_prompts(self) -> None:
        """Allows a new login, and its questions, because a person is doing something."""
        self._requests += 1
        self._refusal = None
        self._prompts_allowed = True

    def wake(self) -> None:
        """The laptop woke up, or the network changed: a login may be tried again, without asking anybody."""
        self._refusal = None
        if self._connection is not None:
            self._connection.ssh.wake()

    def log_out(self) -> bool:
        """Hangs up until the person does something that the site is needed for, and forgets what was typed; returns
        whether somebody was logged in. Waits a moment."""
        self.asker.forget()
        self._person.forget()
        hint = "Log in: the button is above Run, and under Cluster."
        self.routes = RouteFinder(self.installed)
        with self._opening:
            connection, self._connection = self._connection, None
            self._requests += 1  # a login that is under way does not count any more
            self._refusal = problem("ssh.logged_out", f"You logged out of {self.title}.", hint, self.title)
            self._prompts_allowed = False
        if connection is not None:
            connection.close()
        return connection is not None

    def close(self) -> None:
        """Hang up, for good."""
        self._closed.set()
        if self._connection is not None:
            self._connection.close()

    # --- Who may be asked ---------------------------------------------------------------------------------------------

    @contextmanager
    def dialling(self) -> Iterator[None]:
        """Questions within belong to a login of the site itself."""
        self._dials += 1
        try:
            yield
        finally:
            self._dials -= 1

    def ask(self, prompt: Prompt) -> str | None:
        """See ``Prompter.ask``."""
        if self._prompts_allowed or not self._quiet or not self._dials:
            return self._person.ask(prompt)
        known = self._person.remembered(prompt)
        if known is None:
            text = f"{prompt.title} asks for {ASKED_FOR[prompt.kind]}."
            raise problem(NEEDS_PERSON, text, "Log in: the button is above Run, and under Cluster.", prompt.title)
        return known

    def refused(self, prompt: Prompt) -> None:
        """See ``Prompter``."""
        self._person.refused(prompt)

    def show_message(self, text: str) -> None:
        """See ``Prompter``."""
        self._person.show_message(text)

    # --- What is there ------------------------------------------------------------------------------------------------

    def installed(self, say: Say = _log.info) -> Installed:
        """The agent there, brought at the first call. May wait; raises ``ProblemError``."""
        connection = self.connected()
        with self._installing:
            if self._installed is None:
                self._installed = self.deployer.ensure_agent(connection, say)
            return self._installed
