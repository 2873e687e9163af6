"""Jupyter for anyone who may command this agent: at most once, ended with the agent.

Every service is a process of its own (``services.process``); this one only starts it, and hands on where it listens.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from clew_agent.node.heard_lines import HeardLines
from clew_agent.wire.long_polls import MAX_WAITING, Caller
from clew_agent.wire.rendezvous import PortRange
from clew_agent.wire.server import GuardedRouter
from clew_shared.base import operating_system
from clew_shared.base.foreign import from_json
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, problem
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.wire.messages import Refused, Reply, Service

_log = logging.getLogger(__name__)

KINDS = ("jupyter",)
COMMAND = (sys.executable, "-m", "clew_agent", "service")
_END_S = 8.0
"""Seconds that a service gets to end: more than it gives its program before it kills it."""
_LAST_LINES = 5
_LINE_LIMIT = 64 * 1024
"""Bytes that are kept of what a service has printed: the line with its address is looked for in them."""
_USED_FOR_S = 60.0
"""Seconds for which a program counts as used after a request: a viewer that uses it asks for it again every ten
seconds. Only time during which a viewer sends something counts: a laptop that wakes up may send other requests first,
and takes some seconds to ask for its programs again."""
_AWAY_S = 5.0
"""Seconds within which a connected viewer sends something; of a longer silence only these count."""


class Services:
    """The programs that the supervisor runs. Clients of ``router``, the agent's own, may use them, and ``ports`` are
    those that they may listen on; ``command`` is another one in tests. Belongs to the supervisor's thread."""

    def __init__(
        self,
        places: Places,
        agent: str,
        router: GuardedRouter,
        ports: PortRange | None = None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._places = places
        self._agent = agent
        self._router = router
        self._ports = ports
        self._command = tuple(command)
        self._running: dict[str, _Running] = {}
        self._last_request = time.monotonic()
        self._attended = 0.0

    @property
    def open_any(self) -> bool:
        """Whether a program runs, or starts."""
        return bool(self._running)

    def note_request(self) -> None:
        """Notes that someone asked the agent for something."""
        now = time.monotonic()
        self._attended += min(now - self._last_request, _AWAY_S)
        self._last_request = now

    def open(self, kind: str, caller: Caller) -> Reply | None:
        """The service of that kind, started when there is none; None when the answer comes from ``turn``.

        Raises ``ProblemError`` for an unknown kind, and where no service can be had.
        """
        if kind not in KINDS:
            raise problem("service.kind", f"There is no service {kind[:40]!r}.", f"There are: {', '.join(KINDS)}.")
        running = self._running.get(kind)
        if running is None:
            running = self._running[kind] = self._start(kind)
        running.asked = self._attended
        if running.service is not None:
            return running.service
        if len(running.waiting) < MAX_WAITING:
            running.waiting.append(caller)
        return None

    def turn(self) -> list[tuple[Caller, Reply]]:
        """Returns answers for those who wait; what has ended is forgotten, and restarts at the next request."""
        answers: list[tuple[Caller, Reply]] = []
        for kind, running in tuple(self._running.items()):
            reply = running.read()
            if reply is None and running.ended:
                reply = Refused(problem=running.died(kind))
            if reply is not None:
                answers += [(caller, reply) for caller in running.waiting]
                running.waiting.clear()
            if running.ended:
                self._forget(kind, running)
        return answers

    def in_use(self) -> tuple[str, ...]:
        """Returns the services that a viewer uses, or waits for."""
        return tuple(
            running.service.name if running.service is not None else kind
            for kind, running in self._running.items()
            if running.waiting or self._attended - running.asked < _USED_FOR_S
        )

    def close(self) -> None:
        """Ends all services."""
        for running in self._running.values():
            running.hang_up()
        for kind, running in tuple(self._running.items()):
            self._forget(kind, running)

    def _start(self, kind: str) -> _Running:
        log = make_private(self._places.agents) / f"{self._agent}.{kind}.log"
        try:
            running = _Running([*self._command, *self._words(kind)], log, self._places)
        except OSError as error:
            text = f"The service {kind} cannot be started: {error.strerror or error}."
            raise problem("service.start", text, "The node may be short of memory or processes.") from None
        self._router.watch(running.wakeup.socket.fileno())
        _log.info("The service %s starts as process %d.", kind, running.pid)
        return running

    def _words(self, kind: str) -> list[str]:
        ports = [f"--ports={self._ports}"] if self._ports is not None else []
        return [*ports, kind, self._router.address, str(self._router.allow_list.absolute())]

    def _forget(self, kind: str, running: _Running) -> None:
        self._router.unwatch(running.wakeup.socket.fileno())
        running.close()
        del self._running[kind]
        _log.info("The service %s has ended.", kind)


def read_line(line: bytes) -> Service | Refused | None:
    """Reads what a service's process says of itself; None for anything else."""
    try:
        found: Service | Refused = from_json(line, Service | Refused)
    except msgspec.DecodeError:
        return None
    return found


class _Running:
    """The process of a service: it lives as long as its standard input is open."""

    def __init__(self, command: Sequence[str], log: Path, places: Places) -> None:
        self.waiting: list[Caller] = []
        self.service: Service | None = None
        self.asked = 0.0
        self.ended = False
        self._log = log
        environment = {**os.environ, "CLEW_HOME": str(places.home.absolute())}
        with (
            os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file,
            ExitStack() as if_refused,
        ):
            self.wakeup = WakeupPipe()
            """Is readable when the process has said something, or has ended."""
            if_refused.callback(self.wakeup.close)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=environment,
                **operating_system.own_session(),
            )
            if_refused.pop_all()
        assert self._process.stdin is not None  # noqa: S101  # a pipe
        assert self._process.stdout is not None  # noqa: S101  # a pipe
        self._rope = self._process.stdin
        self.pid = self._process.pid
        self._heard = HeardLines(self._process.stdout, self.wakeup.wake, "service output", _LINE_LIMIT)

    def read(self) -> Reply | None:
        """Returns what the process says of itself, when it says it."""
        self.wakeup.clear()
        reply: Service | Refused | None = None
        for line in self._heard.take():
            self.ended = not line
            reply = reply or read_line(line)
        if reply is not None:
            self.service = reply if isinstance(reply, Service) else None
        return self._with_log(reply.problem) if isinstance(reply, Refused) else reply

    def _with_log(self, found: Problem) -> Refused:
        """Adds the log: a program that ended by itself has said why in it."""
        if found.code != "service.start":
            return Refused(problem=found)
        words = self._last_words()
        return Refused(problem=msgspec.structs.replace(found, text=f"{found.text}{words}", hint=f"See {self._log}."))

    def died(self, kind: str) -> Problem:
        """Says that the process ended before it was ready."""
        text = f"The service {kind} ended before it was ready.{self._last_words()}"
        return Problem("service.start", text, f"See {self._log}.", kind)

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-_LAST_LINES:]
            return " It said:\n" + "\n".join(line[:300] for line in lines) if lines else ""
        return ""

    def hang_up(self) -> None:
        """Lets the service know that nobody needs it."""
        with suppress(OSError):
            self._rope.close()

    def close(self) -> None:
        """Waits for its end, which is bounded."""
        self.hang_up()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._heard.close(_END_S)
        self.wakeup.close()
