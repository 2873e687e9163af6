"""Jupyter for anyone who may command this agent: at most once, ended with the agent.

It is a process of its own (``services.process``); this one only starts it, and hands on where it listens.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

import msgspec

from clew_agent.supervisor.children import Child
from clew_agent.wire.long_polls import MAX_WAITING, Caller
from clew_agent.wire.rendezvous import PortRange
from clew_agent.wire.server import GuardedRouter
from clew_shared.base.foreign import from_json
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, problem
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.wire.messages import Refused, Reply, Service

_log = logging.getLogger(__name__)

KIND = "jupyter"
COMMAND = (sys.executable, "-m", "clew_agent", "service")
_END_S = 8.0
"""Seconds that it gets to end: more than it gives Jupyter before it kills it."""
_USED_FOR_S = 60.0
"""Seconds for which Jupyter counts as used after a request: a viewer that uses it asks for it again every ten seconds.
Only time during which a viewer sends something counts: a laptop that wakes up may send other requests first, and takes
some seconds to ask for its programs again."""
_AWAY_S = 5.0
"""Seconds within which a connected viewer sends something; of a longer silence only these count."""


class Services:
    """The program that the supervisor runs for people. Clients of ``router``, the agent's own, may use it, and
    ``ports`` are those that it may listen on; ``command`` is another one in tests. Belongs to the supervisor's
    thread."""

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
        more = [f"--ports={ports}"] if ports is not None else []
        self._command = [*command, *more, KIND, router.address, str(router.allow_list.absolute())]
        self._child: Child | None = None
        self._service: Service | None = None
        self._waiting: list[Caller] = []
        self._asked = self._attended = 0.0
        self._last_request = time.monotonic()
        self._wakeup = WakeupPipe()
        router.watch(self._wakeup.socket.fileno())

    @property
    def open_any(self) -> bool:
        """Whether it runs, or starts."""
        return self._child is not None

    def note_request(self) -> None:
        """Notes that someone asked the agent for something."""
        now = time.monotonic()
        self._attended += min(now - self._last_request, _AWAY_S)
        self._last_request = now

    def open(self, kind: str, caller: Caller) -> Reply | None:
        """The service, started when there is none; None when the answer comes from ``turn``.

        Raises ``ProblemError`` for another kind, and where it cannot be had.
        """
        if kind != KIND:
            raise problem("service.kind", f"There is no service {kind[:40]!r}.", f"There is: {KIND}.")
        if self._child is None:
            log = make_private(self._places.agents) / f"{self._agent}.{KIND}.log"
            home = {"CLEW_HOME": str(self._places.home.absolute())}
            self._child = Child(self._command, home, log, self._wakeup.wake, "service.start")
            _log.info("The service %s starts as process %d.", KIND, self._child.pid)
        self._asked = self._attended
        if self._service is not None:
            return self._service
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(caller)
        return None

    def turn(self) -> list[tuple[Caller, Reply]]:
        """Returns answers for those who wait; what has ended is forgotten, and restarts at the next request."""
        self._wakeup.clear()
        child, reply = self._child, None
        if child is None:
            return []
        for line in child.lines():
            reply = reply or read_line(line)
        if isinstance(reply, Service):
            self._service = reply
        elif reply is None and child.ended:
            reply = Refused(problem=Problem("service.start", "The service ended before it was ready.", where=KIND))
        answers: list[tuple[Caller, Reply]] = []
        if reply is not None:
            answers = [(caller, _with_log(reply, child)) for caller in self._waiting]
            self._waiting.clear()
        if child.ended:
            self._forget()
        return answers

    def in_use(self) -> tuple[str, ...]:
        """Returns the services that a viewer uses, or waits for."""
        if self._child is None or not (self._waiting or self._attended - self._asked < _USED_FOR_S):
            return ()
        return (self._service.name if self._service is not None else KIND,)

    def close(self) -> None:
        """Ends it."""
        self._forget()
        self._router.unwatch(self._wakeup.socket.fileno())
        self._wakeup.close()

    def _forget(self) -> None:
        child, self._child, self._service = self._child, None, None
        if child is not None:
            child.close(_END_S)
            _log.info("The service %s has ended.", KIND)


def read_line(line: bytes) -> Service | Refused | None:
    """Reads what a service's process says of itself; None for anything else."""
    try:
        found: Service | Refused = from_json(line, Service | Refused)
    except msgspec.DecodeError:
        return None
    return found


def _with_log(reply: Service | Refused, child: Child) -> Reply:
    """Adds the log to the refusal of a program that ended by itself: it has said why in it."""
    if isinstance(reply, Service) or reply.problem.code != "service.start":
        return reply
    text = f"{reply.problem.text}{child.last_words()}"
    return Refused(problem=msgspec.structs.replace(reply.problem, text=text, hint=f"See {child.log}."))
