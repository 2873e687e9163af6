"""Connects to a server through SSH, and connects again when the link is dead and needed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from clew_gui.ssh.connection import Command, Connection, Finished, Hop, RemoteFile, Size, SshFiles, Stream, Terminal
from clew_gui.ssh.kept_logins import KeptLogins
from clew_gui.ssh.prompts import PersonNeeded, Prompter, Unattended
from clew_shared.base.problem import ProblemError, problem

if TYPE_CHECKING:
    from clew_gui.ssh.paramiko_connection import ParamikoConnection

_log = logging.getLogger(__name__)

PROBE_EVERY_S = 5.0
PATIENCE_S = 15.0
"""The seconds that a link may be silent before it is given up; dialling again takes a tenth of a second."""
PATIENCE_WITH_CODE_S = 120.0
"""The same where dialling again would ask a person for a code: an old link mostly wakes up by itself."""
_JOIN_S = 2.0


def dial(hops: Sequence[Hop], asker: Prompter, files: SshFiles, timeout: float = 30.0) -> ParamikoConnection:
    """Connect to the last of ``hops`` through all the others; ``timeout`` is for each hop, without a person's thinking.

    Raises ``ProblemError``. Closing the connection closes all hops but kept ones.
    """
    if not files.keep_login_s:
        return _log_in(hops, asker, files, timeout)
    kept = KeptLogins(files)
    if (found := kept.find(hops, asker)) is not None:
        return found
    try:
        return _log_in(hops, Unattended(asker), files, timeout)
    except PersonNeeded:
        return kept.log_in(hops, asker, timeout)


def _log_in(hops: Sequence[Hop], asker: Prompter, files: SshFiles, timeout: float) -> ParamikoConnection:
    """Log in hop by hop, each through the one before; when one fails those before are closed."""
    from clew_gui.ssh.paramiko_connection import dial_paramiko  # a tenth of a second, in the thread that logs in

    first, *others = hops
    connection = dial_paramiko(first, files, asker, timeout)
    for hop in others:
        try:
            connection = dial_paramiko(hop, files, asker, timeout, connection)
        except BaseException:
            connection.close_all()
            raise
    connection.owns_below = True
    return connection


class ReconnectingConnection:
    """A ``Connection`` made of as many as it takes. ``dial`` makes one and raises ``ProblemError``.

    A call on a link that is known to be dead dials first; one that fails in the middle is not repeated. Streams end
    with their link: anyone who had one opens it again.
    """

    def __init__(
        self, dial: Callable[[], Connection], every: float = PROBE_EVERY_S, patience: float | None = None
    ) -> None:
        self._dial = dial
        self._every = every
        self.patience = patience
        """The seconds that a link may be silent; None: the connection's own limit."""
        self._connection: Connection | None = None
        self._dialling = threading.Lock()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._heard = time.monotonic()
        self._thread: threading.Thread | None = None
        self.dials = 0
        """The number of times that it was dialled."""

    @property
    def passed(self) -> tuple[tuple[str, str], ...]:
        """See ``Connection.passed``; empty before the first call."""
        return self._connection.passed if self._connection is not None else ()

    @property
    def alive(self) -> bool:
        """See ``Connection.alive``."""
        return self._connection is not None and self._connection.alive

    @property
    def silent_s(self) -> float:
        """Seconds since the server was last known to answer."""
        return time.monotonic() - self._heard

    def wake(self) -> None:
        """Probes now, because the laptop woke up, or the network changed. A link that does not answer then is given up
        at once, unless dialling again would ask for a code."""
        self._wake.set()

    def connected(self) -> Connection:
        """The link that is alive as far as is known, dialled when there is none. One thread dials, others wait for it.

        Raises ``ProblemError``.
        """
        with self._dialling:
            if self._ended.is_set():
                raise problem("ssh.lost", "The connection was closed here.")
            if self._connection is None or not self._connection.alive:
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                made = self._dial()
                if self._ended.is_set():  # closed while a person was asked
                    made.close()
                    raise problem("ssh.lost", "The connection was closed here.")
                self._connection = made
                self.dials += 1
                self._heard = time.monotonic()
                self._watch()
            return self._connection

    def _watch(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._probe_on, name="ssh probe", daemon=True)
            self._thread.start()

    def _probe_on(self) -> None:
        while not self._ended.is_set():
            if woken := self._wake.wait(self._every):  # one that comes right after the wait counts for the next turn
                self._wake.clear()
            connection = self._connection
            if self._ended.is_set() or connection is None or not connection.alive:
                continue
            if connection.probe(self._every):
                self._heard = time.monotonic()
            elif self.silent_s > self._patience_for(connection) or (woken and not connection.asks_codes):
                _log.info("%s is silent for %.0f s and given up", connection.passed, self.silent_s)
                connection.close()

    def _patience_for(self, connection: Connection) -> float:
        if self.patience is not None:
            return self.patience
        return PATIENCE_WITH_CODE_S if connection.asks_codes else PATIENCE_S

    @property
    def asks_codes(self) -> bool:
        """See ``Connection.asks_codes``."""
        return self._connection is not None and self._connection.asks_codes

    # --- As a connection ---------------------------------------------------------------------------------------------

    def run(self, command: Command, *, stdin: bytes = b"", timeout: float = 30.0) -> Finished:
        """See ``Connection.run``."""
        return self.connected().run(command, stdin=stdin, timeout=timeout)

    def open(self, command: Command, timeout: float = 30.0) -> Stream:
        """See ``Connection.open``."""
        return self.connected().open(command, timeout)

    def connect(self, host: str, port: int, timeout: float = 10.0) -> Stream:
        """See ``Connection.connect``."""
        return self.connected().connect(host, port, timeout)

    def terminal(self, command: Command, term: str, size: Size | None, timeout: float = 30.0) -> Terminal:
        """See ``Connection.terminal``."""
        return self.connected().terminal(command, term, size, timeout)

    def hop(self, hop: Hop, timeout: float = 30.0) -> Connection:
        """See ``Connection.hop``. The further connection ends with this link; it does not dial again."""
        return self.connected().hop(hop, timeout)

    def read(self, path: str, offset: int = 0, limit: int | None = None, timeout: float = 60.0) -> bytes:
        """See ``Connection.read``."""
        return self.connected().read(path, offset, limit, timeout)

    def write(
        self, path: str, data: bytes | Path, *, mode: int = 0o600, offset: int = 0, timeout: float = 600.0
    ) -> None:
        """See ``Connection.write``."""
        self.connected().write(path, data, mode=mode, offset=offset, timeout=timeout)

    def stat(self, path: str, timeout: float = 30.0) -> RemoteFile | None:
        """See ``Connection.stat``."""
        return self.connected().stat(path, timeout)

    def probe(self, timeout: float = 5.0) -> bool:
        """Whether the link there is answers; never dials."""
        connection = self._connection
        with suppress(ProblemError):
            if connection is not None and connection.probe(timeout):
                self._heard = time.monotonic()
                return True
        return False

    def close(self) -> None:
        """End the link and the probing. A dial that is under way goes on in its own thread and closes what it made."""
        self._ended.set()
        self._wake.set()
        connection = self._connection
        if connection is not None:
            connection.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
