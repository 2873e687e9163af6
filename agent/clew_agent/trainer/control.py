"""Receives commands for the trainer, in a thread with an encrypted socket on loopback. They wait for the loop."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

import msgspec
import zmq

from clew_agent.node.exit_codes import STOPPED
from clew_agent.trainer.control_address import address_file, allow_folder, remove_address
from clew_agent.wire.server import GuardedRouter, welcome
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem
from clew_shared.wire.messages import (
    PROTOCOL_VERSION,
    AnyRequest,
    Done,
    Hello,
    Refused,
    Reply,
    RunningRunRequest,
    Stop,
    decode_request,
)

_log = logging.getLogger(__name__)


class JobEnds(Stop, frozen=True, kw_only=True):
    """The command to end because the job around the run is ended from outside before its time. Never sent: a signal of
    the scheduler says so."""


class Superseded(Stop, frozen=True, kw_only=True):
    """The command to end because a later attempt of the run has begun elsewhere; this one counts no more. Never
    sent."""


Command = RunningRunRequest | Stop
Check = Callable[[Command], Problem | None]
_POLL_S = 0.25
_STOP_NOW_S = 5.0
"""Seconds that a run may take to stop at once by itself; then it ends without clean-up, and its guard seals."""
_JOIN_S = 5.0
"""Seconds for the thread to end; it looks up every quarter of a second."""


class StopAsked(Exception):
    """Raised when a stop arrives before the first block or while peers are missing."""


class ControlRequests:
    """The requests to the run, to be taken by the loop at a block's end.

    Other threads and signal handlers put in; so there is no lock that a signal handler could find taken.
    """

    def __init__(self) -> None:
        self._waiting: deque[Command] = deque()
        self.stop: Stop | None = None
        """The first stop that was ever put in; it acts even while the loop waits for something else."""

    def put(self, command: Command) -> None:
        """Accept a command."""
        if isinstance(command, Stop):
            self.stop = self.stop or command
        self._waiting.append(command)

    def take(self) -> list[Command]:
        """Everything accepted since the last call, in order; never waits."""
        found = []
        while self._waiting:
            found.append(self._waiting.popleft())
        return found


class Control:
    """Answers Hello, Stop and the other requests to a running run, of those whose key lies in its allow-list folder.

    ``check`` says why a command cannot be carried out, or None; what it lets through goes into ``commands`` and is
    answered with ``Done``. The address file is written by ``start`` and removed by ``close``.
    """

    def __init__(self, places: Places, run: str, attempt: int, commands: ControlRequests, check: Check) -> None:
        self._places = places
        self._run = run
        self._attempt = attempt
        self._commands = commands
        self._check = check
        self._ended = threading.Event()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router: GuardedRouter | None = None
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)

    def start(self) -> None:
        """Listen. Raises ``ProblemError`` or ``OSError`` when that is not possible here; training goes on without."""
        make_private(self._places.private)
        make_private(address_file(self._places, self._run).parent)
        folder = make_private(allow_folder(self._places, self._run))
        self._router = GuardedRouter(self._context, folder)
        address = self._router.describe(self._run, self._attempt)
        write_private(address_file(self._places, self._run), msgspec.json.encode(address))
        self._thread.start()

    def close(self) -> None:
        """Stop listening and forget the address. Replies on their way are still sent for a moment."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        if self._router is not None:
            self._router.close()
            self._router = None
        remove_address(self._run)
        self._context.term()

    def _serve(self) -> None:
        router = self._router
        while router is not None and not self._ended.is_set():
            try:
                for identity, request_id, payload in router.poll(_POLL_S):
                    router.reply(identity, request_id, self._answer(payload))
            except Exception:  # noqa: BLE001  # the thread is a border: one bad message must not make a run deaf
                _log.exception("Dropped a control message that could not be handled.")

    def _answer(self, payload: bytes) -> Reply:
        try:
            request = decode_request(payload)
        except msgspec.DecodeError as error:
            return Refused(problem=Problem("request.unknown", f"The request cannot be read: {error}."))
        if isinstance(request, Hello):
            return self._welcome(request)
        return self._obey(request)

    def _welcome(self, hello: Hello) -> Reply:
        if hello.protocol[0] != PROTOCOL_VERSION[0]:
            text = f"The trainer speaks protocol {PROTOCOL_VERSION[0]}, not {hello.protocol[0]}."
            return Refused(problem=Problem("protocol.major", text, "Use the same version of Clew on both sides."))
        return welcome(self._run)

    def _obey(self, request: AnyRequest) -> Reply:
        if not isinstance(request, Command):
            text = f"A trainer does not handle {type(request).__name__} requests."
            return Refused(problem=Problem("request.kind", text, "Ask its agent."))
        if request.run != self._run:
            return Refused(problem=Problem("request.run", f"This trainer runs {self._run}, not {request.run}."))
        found = self._check(request)
        if found is not None:
            return Refused(problem=found)
        self._commands.put(request)
        if isinstance(request, Stop) and request.now:
            _exit_later()
        return Done(run=self._run)


def _exit_later() -> None:
    """Makes the process exit some seconds later: a step that takes minutes must not hold up a stop that was to act at
    once."""
    timer = threading.Timer(_STOP_NOW_S, operating_system.exit_at_once, (STOPPED,))
    timer.daemon = True
    timer.start()
