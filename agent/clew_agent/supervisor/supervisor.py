"""Answers viewers' requests: runs are queued, started through guards, steered through trainers.

One thread, one poll loop. The supervisor is mortal: runs neither need nor notice it, and what it knows it reads again
from the run folders. TensorFlow, Keras and NumPy are never imported here.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from itertools import chain

import msgspec

from clew_agent.catalogue.catalogue import CatalogueSource
from clew_agent.processes.run_starter import RunStarter
from clew_agent.supervisor.job_runs import JobRunStarter
from clew_agent.supervisor.probes import Probes
from clew_agent.supervisor.run_manager import RunManager
from clew_agent.supervisor.services import Services
from clew_agent.supervisor.trainer_client import ControlClient
from clew_agent.wire.long_polls import Caller, LongPolls, WaitingRequest
from clew_agent.wire.server import GuardedRouter, welcome
from clew_shared import __version__
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.catalogue import catalogue_hash
from clew_shared.wire.messages import (
    PROTOCOL_VERSION,
    AnyRequest,
    CatalogueReply,
    ContinueRun,
    Done,
    Fetch,
    GetCatalogue,
    GetStatus,
    Hello,
    MoveRun,
    OpenService,
    Refused,
    Reply,
    RunningRunRequest,
    Shutdown,
    StartRun,
    Status,
    Stop,
    TryRun,
    decode_request,
    unknown_kind,
)

_log = logging.getLogger(__name__)

_FETCHING_S = 0.02
"""Seconds between two looks at the journal's length while a viewer waits for bytes: what a point may come late by."""
_FIRST_S = 0.005
"""Seconds between two looks while the journal of a run that a viewer waits for has begun and has no point yet."""
_LIVE_S = 0.2
"""Seconds between two looks while a run is being started or trains."""
_QUIET_S = 1.0
"""Seconds between two looks while nothing happens; a request wakes it at once."""
_READING = (Hello, GetStatus, Fetch, GetCatalogue)
_OTHER_MAJOR = f"This agent speaks protocol {PROTOCOL_VERSION[0]}; a viewer of another major version can only read."
_MOST_READERS = 1024
"""Bound on what is remembered of viewers of another major version: anybody can claim to be a new one."""


class Supervisor:
    """Everything that one agent answers. ``turn`` is one round of its loop; ``run`` repeats it until the end."""

    def __init__(
        self,
        router: GuardedRouter,
        runs: RunManager,
        control: ControlClient,
        catalogue: CatalogueSource,
        services: Services,
        probes: Probes,
        starter: RunStarter | None = None,
        duty: JobRunStarter | None = None,
    ) -> None:
        self.agent = ""
        self.rejected = 0
        """Requests that could not be read."""
        self._router = router
        self._manager = runs
        self._control = control
        self._catalogue = catalogue
        self._starter = starter
        self._duty = duty
        self._services = services
        self._probes = probes
        self._fetches = LongPolls[Fetch]()
        self._statuses = LongPolls[GetStatus]()
        self._early: list[tuple[Caller, AnyRequest]] = []
        self._readers: set[bytes] = set()
        self._last_request = time.monotonic()
        self._ending = self._leaving = self._held = False
        self._hindered = 0
        self._wakeup = WakeupPipe()
        router.watch(self._wakeup.socket.fileno())

    def close(self) -> None:
        """Let go of what wakes the loop."""
        self._router.unwatch(self._wakeup.socket.fileno())
        self._wakeup.close()

    def run(self, idle: float, kept: float = 0.0) -> None:
        """Serve until ``Shutdown``, ``end``, or until for ``idle`` seconds no viewer asked and no run lived; in a job
        only what is asked to be done counts. ``kept`` seconds, if that is more, as long as a program is open: the
        laptop that opened it may be asleep."""
        self._held = idle == math.inf
        while not self._ending:
            self.turn()
            if self._busy():
                self._last_request = time.monotonic()
            elif self._leaving and not self._early:
                _log.info("Someone asked the agent to end, and no run is alive: it ends.")
                self._ending = True
            elif time.monotonic() - self._last_request > (
                longest := max(idle, kept) if self._services.open_any else idle
            ):
                _log.info("No viewer and no run for %.0f s: this agent ends.", longest)
                self._ending = True

    def end(self) -> None:
        """Leave ``run`` at the end of this turn, which comes at once. May be called from a signal handler."""
        self._ending = True
        self._wakeup.wake()

    def turn(self) -> None:
        """Wait for something to do, at most a second, and do it."""
        requests = self._router.poll(self._patience())
        for identity, request_id, payload in requests:
            self._receive(Caller(identity, request_id), payload)
        steered, worked = self._control.receive(), self._work()
        for caller, reply in chain(steered, worked, self._services.turn(), self._probes.turn()):
            self._answer(caller, reply)
        if self._duty is not None:
            self._attend(self._duty)
        self._catalogue.turn()
        if self._early:
            early, self._early = self._early, []
            for caller, request in early:
                self._handle(caller, request)
        self._answer_waiting()
        if self._starter is not None:
            self._starter.tend(needed=bool(requests))

    def _attend(self, duty: JobRunStarter) -> None:
        duty.turn(self._catalogue)
        if duty.over:
            _log.warning("Another agent serves this job now: this one ends.")
            self._ending = True

    def _work(self) -> Sequence[tuple[Caller, Reply]]:
        """Does one turn. A system that refuses a file or a process now may grant it at the next turn."""
        try:
            return self._manager.turn()
        except OSError as error:
            self._hindered += 1
            if self._hindered & (self._hindered - 1) == 0:
                _log.error("Cannot look after runs now: %s (%d times so far).", error, self._hindered)
            return []

    def _patience(self) -> float:
        if self._manager.hurried():
            return 0.0
        soon = self._manager.busy() or self._early or self._catalogue.reading
        wait = self._fetching_s() if len(self._fetches) else _LIVE_S if soon else _QUIET_S
        soonest = self._statuses.soonest()
        return wait if soonest is None else min(wait, max(soonest, 0.001))

    def _fetching_s(self) -> float:
        waited_for = filter(None, map(self._manager.registry.find, self._fetches.keys()))
        return _FIRST_S if any(tracked.beginning for tracked in waited_for) else _FETCHING_S

    def _busy(self) -> bool:
        at_work = self._manager.busy() or len(self._control) > 0 or bool(self._probes)
        return at_work or (self._duty is not None and self._duty.pending)

    # --- Requests -----------------------------------------------------------------------------------------------------

    def _receive(self, caller: Caller, payload: bytes) -> None:
        try:
            request = decode_request(payload)
        except msgspec.DecodeError as error:
            self._reject(caller, payload, error)
            return
        self._services.note_request()
        self._probes.note_request(caller.identity)
        if self._duty is None or not isinstance(request, (*_READING, Shutdown)):
            self._last_request = time.monotonic()  # in a job a window that only looks on does not keep the node
        self._handle(caller, request)

    def _reject(self, caller: Caller, payload: bytes, error: Exception) -> None:
        self.rejected += 1
        if self.rejected & (self.rejected - 1) == 0:  # 1, 2, 4, 8, …: a flood must not fill the log
            _log.info("Refused a request that cannot be read: %s (%d so far).", error, self.rejected)
        self._answer(caller, Refused(problem=_unknown(error, unknown_kind(payload))))

    def _handle(self, caller: Caller, request: AnyRequest) -> None:
        """Handles one request; whatever goes wrong with it becomes its refusal, and the agent lives on."""
        try:
            if caller.identity in self._readers and not isinstance(request, _READING):
                raise problem("protocol.major", _OTHER_MAJOR, "Use the same version of Clew on both sides.")
            if isinstance(request, (StartRun, ContinueRun, OpenService, TryRun)):
                self._leaving = False
            reply = self._reply(caller, request)
        except ProblemError as error:
            reply = Refused(problem=error.problems[0])
        except Exception as error:  # noqa: BLE001  # the border of the process: one bad request must not end it
            _log.exception("A request of kind %s failed.", type(request).__name__)
            text = f"The agent failed to handle this request: {error}."
            reply = Refused(problem=Problem("agent.internal", text, "Its log has the details."))
        if reply is not None:
            self._answer(caller, reply)

    def _reply(self, caller: Caller, request: AnyRequest) -> Reply | None:
        """The reply, or None when it comes later."""
        match request:
            case Hello():
                return self._welcome(caller, request)
            case GetStatus():
                return self._status(caller, request)
            case Fetch():
                return self._fetch(caller, request)
            case StartRun() | ContinueRun() if not self._catalogue.ready(_exercise(request)):
                self._early.append((caller, request))
                return None
            case GetCatalogue():
                if request.fresh:
                    self._catalogue.reload()
                return CatalogueReply(catalogue=self._catalogue.get(), generation=self._catalogue.generation)
            case StartRun():
                return self._manager.start(request.spec, self._catalogue.get())
            case Shutdown():
                return self._shutdown(request)
            case _:
                return self._command(caller, request)

    def _shutdown(self, request: Shutdown) -> Reply:
        if not request.idle:
            self._ending = True
            return Done()
        used = self._services.in_use()
        if used or self._held:
            text = f"{' and '.join(used)} is open on its node." if used else "Its node is held."
            raise problem("agent.used", text, "It ends by itself when nobody uses it. To end it now, cancel the job.")
        self._leaving = True
        return Done()

    def _command(
        self, caller: Caller, request: ContinueRun | MoveRun | RunningRunRequest | Stop | OpenService | TryRun
    ) -> Reply | None:
        match request:
            case ContinueRun():
                return self._manager.resume(request.run, self._catalogue.get(), request.changes)
            case MoveRun():
                return self._manager.move(request)
            case Stop():
                return self._manager.stop(request, caller)
            case OpenService():
                return self._services.open(request.kind, caller)
            case TryRun():
                folder = self._manager.registry.get(request.run).folder.path
                return self._probes.ask(folder, request, caller)
            case _:
                return self._manager.steer(request.run, request, caller)

    def _welcome(self, caller: Caller, request: Hello) -> Reply:
        if request.protocol[0] != PROTOCOL_VERSION[0] and len(self._readers) < _MOST_READERS:
            _log.info("A viewer speaks protocol %s; it can read, but not send commands.", request.protocol)
            self._readers.add(caller.identity)
        return msgspec.structs.replace(
            welcome(self.agent),
            catalogue_hash=catalogue_hash(self._catalogue.get()),
            devices=self._manager.devices(),
            datasets=self._manager.datasets(),
        )

    def _answer(self, caller: Caller, reply: Reply) -> None:
        self._router.reply(caller.identity, caller.request_id, reply)

    # --- Long polls ---------------------------------------------------------------------------------------------------

    def _status(self, caller: Caller, request: GetStatus) -> Reply | None:
        replaced = self._statuses.add(caller, "", request)
        if replaced is not None:
            self._answer(replaced.caller, self._present_status())
        return None

    def _present_status(self) -> Status:
        generation = self._catalogue.generation
        return Status(version=self._version(), runs=self._manager.statuses(), catalogue=generation)

    def _version(self) -> int:
        """Grows with every change of the runs and of the catalogue."""
        return self._manager.version + self._catalogue.generation

    def _fetch(self, caller: Caller, request: Fetch) -> Reply | None:
        if request.attempt < 1 or request.offset < 0:
            raise problem("fetch.numbers", f"Attempts count from 1 and bytes from 0, got {request}.")
        self._manager.registry.get(request.run)
        replaced = self._fetches.add(caller, request.run, request)
        if replaced is not None:
            self._answer_fetch(replaced, heartbeat=True)
        return None

    def _answer_waiting(self) -> None:
        for status in self._statuses.take(lambda request: request.version != self._version()):
            self._answer(status.caller, self._present_status())
        for fetch in self._fetches.take(self._fetch_due):
            self._answer_fetch(fetch)

    def _fetch_due(self, request: Fetch) -> bool:
        """Whether there is a byte to send, or never will be one."""
        tracked = self._manager.registry.find(request.run)
        return tracked is None or tracked.has_news(request.attempt, request.offset)

    def _answer_fetch(self, one: WaitingRequest[Fetch], heartbeat: bool = False) -> None:
        try:
            tracked = self._manager.registry.get(one.request.run)
            reply: Reply = tracked.fetch(one.request.attempt, one.request.offset)
        except ProblemError as error:
            reply = Refused(problem=error.problems[0])
        if heartbeat and not isinstance(reply, Refused):
            reply = msgspec.structs.replace(reply, data=b"", sealed=False)
        self._answer(one.caller, reply)


def _exercise(request: StartRun | ContinueRun) -> str:
    """The exercise that a request is about, if it says so."""
    return request.spec.exercise if isinstance(request, StartRun) else ""


def _unknown(error: Exception, kind: str) -> Problem:
    """Says why a request is refused that cannot be read. ``kind``: what it is called, where that is what nobody
    knows."""
    if not kind:
        text = f"The request cannot be read: {error}."
        return Problem("request.unknown", text, "Use the same version on both sides.")
    mine = f"Clew {__version__}, protocol {PROTOCOL_VERSION[0]}.{PROTOCOL_VERSION[1]}"
    text = f"This agent ({mine}) does not know the request {kind[:40]!r}."
    return Problem(
        "request.unknown", text, "It is older than the program that asked. A newly started one will know it."
    )
