"""Probes of trained runs: one process for each run that viewers try something with, as long as somebody asks."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from clew_agent.supervisor.children import Child
from clew_agent.wire.long_polls import Caller
from clew_agent.wire.server import GuardedRouter
from clew_shared.base.foreign import from_json
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, problem
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.wire.messages import Done, Refused, Reply, Tried, TryRun
from clew_shared.wire.turns import ONE_THREAD

_log = logging.getLogger(__name__)

TRY = (sys.executable, "-P", "-m", "clew_agent", "try")
UNUSED_S = 300.0
"""Seconds after which a process that nobody asks ends: a person may look at an answer for a while."""
AWAY_S = 60.0
"""Seconds without any request from a viewer after which it counts as gone: a connected one sends some every few."""
MOST = 2
"""Processes at the same time: each has TensorFlow and a data set in memory. One more ends the one that was idle
longest."""
_MOST_WAITING = 16


class Probes:
    """The processes that answer; ``router`` wakes up when one has said something. ``command`` is another one in
    tests."""

    def __init__(
        self,
        places: Places,
        agent: str,
        exercises: Path | None,
        router: GuardedRouter,
        command: Sequence[str] = TRY,
        unused_s: float = UNUSED_S,
    ) -> None:
        self._home = places.home.absolute()
        self._logs, self._agent = places.agents, agent
        self._more = ["--exercises", str(exercises)] if exercises else []
        self._router = router
        self._wakeup = WakeupPipe()
        router.watch(self._wakeup.socket.fileno())
        self._command = [*command]
        self._unused_s = unused_s
        self._at_work: dict[str, Probe] = {}

    def __len__(self) -> int:
        return len(self._at_work)

    def ask(self, folder: Path, request: TryRun, caller: Caller) -> Reply | None:
        """Has the request answered by ``turn``. Only one without an image, by which nobody asks any more, is answered
        at once. Raises ``ProblemError`` when no process can be had."""
        one = self._at_work.get(request.run)
        if request.close and not request.asks:
            if one is not None:
                one.viewers.pop(caller.identity, None)
                if not one.busy and not one.viewers:
                    self._end(request.run)
            return Done(run=request.run)
        if one is None:
            self._make_room()
            one = self._at_work[request.run] = self._start(folder)
        if len(one.waiting) >= _MOST_WAITING:
            raise problem("try.busy", "Too many questions about this run wait already.", "Try again in a moment.")
        one.waiting.append((caller, request))
        one.viewers[caller.identity] = time.monotonic()
        if request.close:
            del one.viewers[caller.identity]
        one.go_on()
        return None

    def note_request(self, identity: bytes) -> None:
        """Notes that this viewer is still there: it asked the agent for something."""
        for one in self._at_work.values():
            if identity in one.viewers:
                one.viewers[identity] = time.monotonic()

    def turn(self) -> list[tuple[Caller, Reply]]:
        """Returns the answers that came; ends what nobody uses, and forgets what has ended."""
        self._wakeup.clear()
        answers: list[tuple[Caller, Reply]] = []
        for run, one in tuple(self._at_work.items()):
            answers += one.receive()
            unused = not one.watched() or time.monotonic() - one.used > self._unused_s
            if one.child.ended or (unused and not one.busy):
                answers += self._end(run)
        return answers

    def close(self) -> None:
        """Ends all processes."""
        for run in tuple(self._at_work):
            self._end(run)
        self._router.unwatch(self._wakeup.socket.fileno())
        self._wakeup.close()

    def _make_room(self) -> None:
        idle = sorted((one.used, run) for run, one in self._at_work.items() if not one.busy)
        if len(self._at_work) >= MOST and not idle:
            text = f"{MOST} other runs are being tried on this agent now."
            raise problem("try.many", text, "Close one of them, or try again in a moment.")
        for _, run in idle[: max(0, len(self._at_work) - MOST + 1)]:
            self._end(run)

    def _start(self, folder: Path) -> Probe:
        command = [*self._command, str(folder), *self._more]
        make_private(self._logs)
        used = {one.child.log for one in self._at_work.values()}
        logs = (self._logs / f"{self._agent}.try.{number}.log" for number in range(1, MOST + 1))
        log = next(log for log in logs if log not in used)
        more = {**ONE_THREAD, "CLEW_HOME": str(self._home)}
        one = Probe(Child(command, more, log, self._wakeup.wake, "try.start"))
        _log.info("Process %d answers what is tried with %s.", one.child.pid, folder.name)
        return one

    def _end(self, run: str) -> list[tuple[Caller, Reply]]:
        one = self._at_work.pop(run)
        _log.info("Nothing is tried any more with %s.", run)
        return one.close()


class Probe:
    """The process of one run, which answers one request at a time; it has nothing to save."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.waiting: deque[tuple[Caller, TryRun]] = deque()
        self.used = time.monotonic()
        self.viewers: dict[bytes, float] = {}
        """Who may ask again, and when each was last heard of: without any it ends after its last answer."""
        self._asked: Caller | None = None
        self._ready = False

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._asked is not None or bool(self.waiting)

    def watched(self) -> bool:
        """Whether a viewer that may ask again is still there."""
        return any(time.monotonic() - heard <= AWAY_S for heard in self.viewers.values())

    def go_on(self) -> None:
        """Asks the next question, if the process waits for one."""
        self.used = time.monotonic()
        if self._ready and self._asked is None and self.waiting:
            self._asked, request = self.waiting.popleft()
            self.child.send(msgspec.json.encode(request) + b"\n")

    def receive(self) -> Iterator[tuple[Caller, Reply]]:
        """Yields the answers that came. A process that says at first why it cannot answer has ended."""
        for line in self.child.lines():
            try:
                reply = from_json(line, Done | Tried | Refused)
            except msgspec.DecodeError:
                self.child.ended = True
                return
            if self._asked is not None:
                yield self._asked, reply
                self._asked = None
            elif isinstance(reply, Refused):
                yield from self._refuse(reply)
                self.child.ended = True
                return
            self._ready = True
            self.go_on()

    def _refuse(self, reply: Refused) -> list[tuple[Caller, Reply]]:
        callers = [self._asked] if self._asked is not None else []
        callers += [caller for caller, _ in self.waiting]
        self.waiting.clear()
        self._asked = None
        return [(caller, reply) for caller in callers]

    def close(self) -> list[tuple[Caller, Reply]]:
        """Ends the process; anybody who still waits for an answer is told so."""
        self.child.close()
        text = f"The process that answers has ended before it could.{self.child.last_words() if self.busy else ''}"
        return self._refuse(Refused(problem=Problem("try.ended", text, f"Try again. See {self.child.log}.")))
