"""Who waits for the network: which calls of this program, in which threads, and how the window's loop lives meanwhile;
and how often the scheduler is asked."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import paramiko
import pytest
from minicluster.namespaces import root_of
from minicluster.state import State
from PySide6.QtCore import QTimer

from clew_gui.jobs.watch import JobWatch
from clew_gui.ssh.connection import Connection
from clew_gui.ssh.dial import ReconnectingConnection
from clew_gui.ssh.paramiko_connection import ParamikoConnection
from tests.cluster.mini import MiniCluster

_BEAT_MS = 20
_NETWORK = (
    (socket.socket, ("connect", "connect_ex", "recv", "recv_into", "send", "sendall")),
    (paramiko.Transport, ("start_client", "auth_none", "auth_password", "auth_publickey", "auth_interactive")),
    (paramiko.Transport, ("open_channel", "global_request", "_send_user_message")),
    (paramiko.Channel, ("recv", "recv_stderr", "recv_exit_status", "send", "sendall", "exec_command")),
    (paramiko.SFTPClient, ("_request",)),
    (
        ReconnectingConnection,
        ("connected", "run", "open", "connect", "hop", "terminal", "read", "write", "stat", "probe"),
    ),
)
"""What may wait for the network, from bytes to whole commands."""


class Probe(NamedTuple):
    """One look whether the server answers, and how often the window's loop had come round before and after it."""

    before: int
    after: int
    answered: bool


class Lookout:
    """Looks on from its making; the thread that makes it is the window's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.in_window: list[str] = []
        """Network calls in the window's thread."""
        self.elsewhere: set[str] = set()
        """Those in other threads."""
        self.probes: list[Probe] = []
        self.silent_s = 0.0
        """So long the server had not answered when the latest of them came back, in vain or not."""
        self.connections: set[ReconnectingConnection] = set()
        self.beats = 0
        """How often the window's loop came round to a timer of this."""
        self.heard = 0
        """Signs of life of agents that spare the scheduler a question, one a second at most."""
        self._window = threading.get_ident()
        self._heard_at = time.monotonic()
        self._waiting: dict[int, int] = {}
        self.timer = QTimer()
        self.timer.timeout.connect(self._beat)
        self.timer.start(_BEAT_MS)
        for owner, names in _NETWORK:
            for name in names:
                monkeypatch.setattr(owner, name, self._noting(f"{owner.__name__}.{name}", getattr(owner, name)))
        monkeypatch.setattr(ParamikoConnection, "probe", self._timing(ParamikoConnection.probe))
        monkeypatch.setattr(JobWatch, "heard", self._counting(JobWatch.heard))

    @property
    def busy(self) -> bool:
        """Whether a command or file is on its way."""
        return any(list(self._waiting.values()))

    def in_vain(self, since: int) -> list[int]:
        """How often the window's loop came round during each probe that began after so many ``beats`` and that the
        server left unanswered."""
        return [one.after - one.before for one in self.probes if one.before >= since and not one.answered]

    def _beat(self) -> None:
        self.beats += 1

    def _noting(self, name: str, honest: Callable[..., Any]) -> Callable[..., Any]:
        def call(owner: Any, *given: Any, **named: Any) -> Any:
            here = threading.get_ident()
            if isinstance(owner, socket.socket) and owner.family not in (socket.AF_INET, socket.AF_INET6):
                return honest(owner, *given, **named)
            if here == self._window:
                self.in_window.append(name)
            else:
                self.elsewhere.add(name)
            if not isinstance(owner, ReconnectingConnection):
                return honest(owner, *given, **named)
            self.connections.add(owner)
            self._waiting[here] = self._waiting.get(here, 0) + 1
            try:
                return honest(owner, *given, **named)
            finally:
                self._waiting[here] -= 1

        return call

    def _timing(self, honest: Callable[[Any, float], bool]) -> Callable[..., bool]:
        def probe(connection: Connection, timeout: float = 5.0) -> bool:
            before = self.beats
            answered = honest(connection, timeout)
            now = time.monotonic()
            self._heard_at = now if answered else self._heard_at
            self.silent_s = now - self._heard_at
            self.probes.append(Probe(before, self.beats, answered))
            return answered

        return probe

    def _counting(self, honest: Callable[[JobWatch, str], None]) -> Callable[[JobWatch, str], None]:
        def heard(watch: JobWatch, job_id: str) -> None:
            self.heard += 1
            honest(watch, job_id)

        return heard


@contextmanager
def look_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lookout]:
    """A lookout, and an end of it."""
    lookout = Lookout(monkeypatch)
    yield lookout
    lookout.timer.stop()


@contextmanager
def counted_squeue(cluster: MiniCluster) -> Iterator[Callable[[], int]]:
    """How often the real ``squeue`` was called on the login node since, whoever called it and whatever it answered."""
    site = root_of(State(cluster.folder).pid("switch")) / "opt/site"
    command, log = site / "bin/squeue", site / "squeue.calls"
    log.touch()
    log.chmod(0o666)
    command.write_text('#!/bin/sh\nhostname >>/opt/site/squeue.calls\nexec /usr/bin/squeue "$@"\n')
    command.chmod(0o755)
    yield lambda: log.read_text().split().count("login")
    command.unlink()
    log.unlink()
