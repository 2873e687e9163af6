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
from clew_agent.processes.run_starter import IDLE_S, MOST_FAILURES, RunStarter
from clew_shared.base import operating_system

_log = logging.getLogger(__name__)

NURSERY = (sys.executable, "-P", "-m", "clew_agent.processes.nursery")
_ANSWER_S = 60.0
"""Seconds after which a nursery that has not answered, its import included, counts as hanging."""


class NurseryClient(RunStarter):
    """Starts a nursery and talks to it. ``watch`` and ``unwatch`` get the socket that wakes the supervisor's loop."""

    def __init__(
        self,
        home: Path,
        watch: Callable[[int], None] = lambda _: None,
        unwatch: Callable[[int], None] = lambda _: None,
        command: Sequence[str] = NURSERY,
        idle: float = IDLE_S,
    ) -> None:
        super().__init__("nursery", home, command, idle)
        self.ready = False
        """Whether TensorFlow is imported there."""
        self._watch, self._unwatch = watch, unwatch
        self._channel: socket.socket | None = None
        self._asked: dict[str, float] = {}
        """Folders of runs that it has been asked for and has not answered, and since when."""
        self._lost: list[str] = []
        """The runs on which a nursery had not reported before it ended."""

    @property
    def pid(self) -> int | None:
        """The nursery's process, if there is one."""
        return self.kept.pid if self.kept is not None else None

    def _is_busy(self) -> bool:
        return bool(self._asked)

    def _begin(self) -> subprocess.Popen[bytes]:
        ours, theirs = operating_system.packet_pair()
        command = [*self._command, "--channel", str(theirs.fileno()), "--room", ROOM_FOR_TITLES]
        env = trainer_environment() | OWN_ENVIRONMENT | {"CLEW_HOME": str(self._home)}
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, env=env, pass_fds=[theirs.fileno()], **operating_system.own_session()
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = ours
        self._watch(ours.fileno())
        return process

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
        self._reap_leaving()
        found: list[Started | StartRefused | GuardEnded] = []
        while self._channel is not None and (reply := self._receive()) is not None:
            if isinstance(reply, Ready):
                self._note_ready(reply)
                continue
            self._asked.pop(reply.folder, None)
            found.append(reply)
            if isinstance(reply, StartRefused) and reply.last:
                self._failures = MOST_FAILURES
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
        super().close(wait)

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
            code = self.kept.poll() if self.kept is not None else None
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

    def _drop(self, kill: bool = False) -> None:
        self.ready = False
        self._lost += self._asked
        self._asked.clear()
        if self._channel is not None:
            self._unwatch(self._channel.fileno())
            self._channel.close()
            self._channel = None
        super()._drop(kill)
