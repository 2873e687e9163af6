"""The supervisor's end of the nursery: keeps one warm while someone may need it, and asks it for runs."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from clew_agent.processes.guard import trainer_environment
from clew_agent.processes.nursery_messages import (
    OWN_ENVIRONMENT,
    ROOM_FOR_TITLES,
    GuardEnded,
    Ready,
    Started,
    StartRefused,
    receive_reply,
    send,
    start_request,
)
from clew_shared.base import operating_system

_log = logging.getLogger(__name__)

NURSERY = (sys.executable, "-P", "-m", "clew_agent.processes.nursery")
IDLE_S = 600.0
"""Seconds without a run after which a nursery ends: all that time it holds TensorFlow in memory."""
_ANSWER_S = 60.0
"""Seconds after which a nursery that has not answered, its import included, counts as hanging."""
_BACK_OFF_S = 5.0
"""Seconds before the next nursery after one that came to nothing; twice as many after each."""
_MOST_FAILURES = 5
"""After so many nurseries in a row that came to nothing, all runs begin as fresh interpreters."""


class NurseryClient:
    """Starts a nursery and talks to it; there is at most one. ``watch`` and ``unwatch`` get the socket that wakes the
    supervisor's loop."""

    def __init__(
        self,
        home: Path,
        watch: Callable[[int], None] = lambda _: None,
        unwatch: Callable[[int], None] = lambda _: None,
        command: Sequence[str] = NURSERY,
        idle: float = IDLE_S,
    ) -> None:
        self.ready = False
        """Whether TensorFlow is imported there."""
        self._home = home
        self._watch, self._unwatch = watch, unwatch
        self._command = [*command]
        self._idle = idle
        self._needed = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._asked: dict[str, float] = {}
        """Folders of runs that it has been asked for and has not answered, and since when."""
        self._lost: list[str] = []
        """The runs on which a nursery had not reported before it ended."""
        self._leaving: list[subprocess.Popen[bytes]] = []
        """Nurseries that were let go and have not ended yet."""
        self._failures = 0
        self._not_before = 0.0

    @property
    def pid(self) -> int | None:
        """The nursery's process, if there is one."""
        return self._process.pid if self._process is not None else None

    def tend(self, needed: bool) -> None:
        """Keep one warm while someone may want to start a run: for ``idle`` seconds after it was ``needed``."""
        now = time.monotonic()
        if needed:
            self._needed = now
        if now - self._needed <= self._idle:
            self._warm()
        elif self._process is not None and not self._asked:
            _log.info("Nobody has needed the nursery for %.0f s; it ends.", self._idle)
            self._drop()

    def _warm(self) -> None:
        """Have a nursery, unless there is one or the last ones came to nothing."""
        if self._process is not None or self._failures >= _MOST_FAILURES or time.monotonic() < self._not_before:
            return
        ours, theirs = operating_system.packet_pair()
        try:
            self._process = self._popen(theirs)
        except OSError as error:
            _log.warning("The nursery cannot be started: %s", error)
            self._failed()
            ours.close()
        else:
            self._channel = ours
            self._watch(ours.fileno())
        finally:
            theirs.close()

    def start(self, folder: Path, attempt: int, exercises: Path | None, environment: Mapping[str, str]) -> bool:
        """Ask for guard and trainer of an attempt; ``receive`` returns the result. False when there is no nursery."""
        if self._channel is None:
            return False
        try:
            send(self._channel, start_request(folder, attempt, exercises, environment))
        except OSError as error:
            _log.warning("The nursery does not accept requests: %s", error)
            return False
        self._asked[str(folder)] = time.monotonic()
        return True

    def receive(self) -> list[Started | StartRefused | GuardEnded]:
        """The messages since the last call. If it has died or hangs, everything it was asked for counts as refused."""
        self._leaving = [process for process in self._leaving if process.poll() is None]
        found: list[Started | StartRefused | GuardEnded] = []
        while self._channel is not None and (reply := self._receive()) is not None:
            if isinstance(reply, Ready):
                self._note_ready(reply)
                continue
            self._asked.pop(reply.folder, None)
            found.append(reply)
            if isinstance(reply, StartRefused) and reply.last:
                self._failures = _MOST_FAILURES
                self._drop()
        return found + self._given_up()

    def _note_ready(self, reply: Ready) -> None:
        if reply.settled:
            self._failures = 0  # not before: a machine without memory for the data would end one after the other
            return
        self.ready = True
        _log.info("The nursery is warm after %.1f s.", reply.seconds)

    def interrupt(self) -> None:
        """End one that is still importing and has begun nothing: anyone who wants an end need not wait for that."""
        if self._channel is not None and not self.ready:
            self._drop(kill=True)

    def close(self, wait: float = 5.0) -> None:
        """Let it go for good. What it was asked for and has not begun is the caller's to start."""
        self._drop(kill=not self.ready)  # it would notice only when everything is imported
        for process in self._leaving:
            operating_system.wait_or_kill(process, wait)

    def _popen(self, channel: socket.socket) -> subprocess.Popen[bytes]:
        command = [*self._command, "--channel", str(channel.fileno()), "--room", ROOM_FOR_TITLES]
        env = trainer_environment() | OWN_ENVIRONMENT | {"CLEW_HOME": str(self._home)}
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=env, pass_fds=[channel.fileno()], **operating_system.own_session()
        )

    def _receive(self) -> Ready | Started | StartRefused | GuardEnded | None:
        """The next message, None when there is none now. Drops a nursery that has gone."""
        if self._channel is None:
            return None
        try:
            self._channel.setblocking(False)
            reply = receive_reply(self._channel)
        except BlockingIOError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("Cannot read what the nursery sent: %s", error)
            reply = None
        if reply is None:
            code = self._process.poll() if self._process is not None else None
            _log.warning("The nursery has ended%s.", f" with exit code {code}" if code is not None else "")
            self._failed()
            self._drop()
        return reply

    def _given_up(self) -> list[Started | StartRefused | GuardEnded]:
        now = time.monotonic()
        if any(now - since > _ANSWER_S for since in self._asked.values()):
            _log.warning("The nursery has not answered for %.0f s and is killed.", _ANSWER_S)
            self._failed()
            self._drop(kill=True)
        lost, self._lost = self._lost, []
        return [StartRefused(folder=folder, reason="The nursery has gone.") for folder in lost]

    def _failed(self) -> None:
        self._failures += 1
        self._not_before = time.monotonic() + _BACK_OFF_S * 2 ** (self._failures - 1)

    def _drop(self, kill: bool = False) -> None:
        self.ready = False
        self._lost += self._asked
        self._asked.clear()
        if self._channel is not None:
            self._unwatch(self._channel.fileno())
            self._channel.close()
            self._channel = None
        process, self._process = self._process, None
        if process is not None:
            if kill:
                process.kill()
            self._leaving.append(process)
