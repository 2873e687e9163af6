"""The link: one thread that finds or starts the agent, keeps talking to it, and never lets the caller wait."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from clew_gui.session.commands import Command, Commands, Outcome
from clew_gui.session.fetcher import Fetcher
from clew_gui.session.inbox import Cards, Found, Inbox, Statuses, Told
from clew_gui.session.states import LinkState, LinkStatus
from clew_shared.cards import Catalogue
from clew_shared.channel import Channel, Greeting, KeyPair
from clew_shared.messages import (
    PROTOCOL_VERSION,
    AgentAddress,
    AnyReply,
    CatalogueReply,
    GetCatalogue,
    GetStatus,
    Hello,
    Refused,
    RunStatus,
    Shutdown,
    StartRun,
    Status,
    Welcome,
)
from clew_shared.problem import Problem, ProblemError
from clew_shared.spec import RunSpec

if TYPE_CHECKING:
    from clew_gui.remote.target import Target

_log = logging.getLogger(__name__)

STALE_AFTER_S = 15.0
_STATUS_WAIT_S = 5.0
_STATUS_LOST_S = 13.0
_GREET_WITHIN_S = 5.0
"""An address whose agent does not answer so long after connecting belongs to another program by now."""
_START_WITHIN_S = 30.0
"""Python on a cold, slow disk; then the person is told, and it is tried again."""
_LOOK_EVERY_S = 0.02
"""While the agent comes up, its address file is looked for this often."""
_MADE_ROOM_S = 0.01
_ALIVE_EVERY_S = 0.5
_TURN_S = 0.25
_JOIN_S = 5.0
_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Between two attempts that failed."""


class Link:
    """Owns the socket, the mirrors and the thread. Everything it learns goes into ``inbox``."""

    def __init__(
        self,
        target: Target,
        fetcher: Fetcher,
        inbox: Inbox,
        forgotten: frozenset[str],
        catalogue: Catalogue | None = None,
    ) -> None:
        self.commands = Commands()
        self._target = target
        self._fetcher = fetcher
        self._inbox = inbox
        self._forgotten = set(forgotten)
        self._catalogue = catalogue
        self._drops: deque[str] = deque()
        self._renewing = False
        self._hurried = False
        self._bell, self._rope = socket.socketpair()
        self._bell.setblocking(False)
        self._rope.setblocking(False)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="clew-link", daemon=True)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._keys = KeyPair.generate()
        self._state, self._state_text = LinkState.OFFLINE, ""
        self._channel: Channel | None = None
        self._address: AgentAddress | None = None
        self._dead: set[tuple[str, int]] = set()
        self._failures = 0
        self._not_before = 0.0
        self._starting_until = 0.0
        self._told = ""
        self._connected = self._heard = self._looked = 0.0
        self._heard_wall = 0.0
        self._welcome = False
        self._hello: bytes = b""
        self._cards: bytes = b""
        self._datasets: tuple[str, ...] = ()
        self._status: tuple[bytes, float] | None = None
        self._version = 0
        self._connections = 1

    # --- For the caller's thread --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask(self, command: Command) -> None:
        """Send a command as soon as there is a link."""
        self.commands.put(command)
        self._hurried = True
        self._wake()

    def renew(self) -> None:
        """Ask the agent to end, once; another is started as if it had ended by itself."""
        self._renewing = True
        self._hurried = True
        self._wake()

    def drop(self, run: str) -> None:
        """Forget a run and remove its mirror."""
        self._drops.append(run)
        self._wake()

    def close(self) -> None:
        """End the thread and the connection; agent and runs go on. Waits a few seconds at most."""
        self._closing.set()
        self._wake()
        if self._thread.ident is None:
            self._target.close()
            self._context.term()
        else:
            self._thread.join(_JOIN_S)
        self._bell.close()
        self._rope.close()

    def _wake(self) -> None:
        with suppress(OSError):  # it has been rung often enough already, or is closed
            self._rope.send(b"!")

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._fetcher.find_mirrors(frozenset(self._forgotten))
            while not self._closing.is_set():
                self._guarded_turn()
        finally:
            self._disconnect()
            self._target.close()
            self._context.term()  # bounded by the channel's linger

    def _guarded_turn(self) -> None:
        try:
            self._turn()
        except Exception as error:  # noqa: BLE001  # the thread's border: a link that fails is made anew, the window lives on
            _log.exception("The link failed and is made anew.")
            self._tell(Problem("link.internal", f"The link failed: {error}.", "It is made anew by itself."))
            self._disconnect()
            self._fail(LinkState.OFFLINE, "failed")

    def _turn(self) -> None:
        while self._drops:
            run = self._drops.popleft()
            self._forgotten.add(run)
            self._fetcher.drop(run)
        busy = self._fetcher.replay()
        if self._channel is None:
            if self._hurried:
                self._not_before = 0.0  # a person waits: an agent that was away may be back
            self._hurried = False
            self._connect()
        if self._channel is not None:
            self._talk(self._channel)
        self._wait(0.0 if busy else _TURN_S)

    def _wait(self, longest: float) -> None:
        """Until there is something to do."""
        poller = zmq.Poller()
        poller.register(self._bell, zmq.POLLIN)
        if self._channel is not None:
            poller.register(self._channel.socket, zmq.POLLIN)
        else:
            longest = min(longest, max(0.0, self._not_before - time.monotonic()))
        if self._inbox.full:
            longest = min(longest, _MADE_ROOM_S)  # the caller makes room without a word
        poller.poll(round(longest * 1000))
        with suppress(BlockingIOError):
            while self._bell.recv(4096):
                pass

    # --- Connecting ---------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        now = time.monotonic()
        if now < self._not_before:
            return
        self._not_before = now + _LOOK_EVERY_S
        address = self._target.find()
        try:
            if address is None or (address.agent, address.generation) in self._dead:
                self._start(now)
                return
            self._target.admit(address, f"viewer-{self._keys.public.encode().hex()[:16]}", self._keys.public)
        except (ProblemError, OSError) as error:
            self._tell(_as_problem(error))
            self._starting_until = 0.0
            self._fail(LinkState.OFFLINE, _as_problem(error).text.splitlines()[0])
            return
        self._starting_until = 0.0
        self._open(address)

    def _start(self, now: float) -> None:
        if not self._starting_until:
            self._target.start()
            self._enter(LinkState.CONNECTING, "starting the agent")
            self._starting_until = now + _START_WITHIN_S
        self._target.check_start()
        if now > self._starting_until:
            self._starting_until = 0.0
            text = f"The agent did not come up within {_START_WITHIN_S:.0f} s."
            raise ProblemError(Problem("agent.slow", text, "It is tried again; its log may say why."))

    def _open(self, address: AgentAddress) -> None:
        if self._state is not LinkState.REFUSED:
            self._enter(LinkState.CONNECTING, "connecting")
        self._address = address
        self._channel = Channel(self._context, address.address, address.port, address.public_key, self._keys)
        self._connected = self._heard = time.monotonic()
        self._welcome, self._status, self._version, self._connections = False, None, 0, 1
        self._hello = self._channel.send(Hello(client="clew"))

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = self._address = None
        self._fetcher.lost(everything=True)
        self.commands.cut()

    def _fail(self, state: LinkState, text: str) -> None:
        """Show why, and try again after a pause that grows."""
        pause = _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        self._not_before = time.monotonic() + pause
        self._enter(state, text)

    # --- Talking ------------------------------------------------------------------------------------------------------

    def _talk(self, channel: Channel) -> None:
        for request_id, reply in channel.receive():
            self._hear()
            self._take(request_id, reply)
        if channel.connections > self._connections:
            self._connections = channel.connections
            self._ask_again(channel)
        for outcome in self.commands.late():
            self._report(outcome)
        self._fetcher.lost()
        if self._check(channel) and self._welcome:
            self._send(channel)

    def _ask_again(self, channel: Channel) -> None:
        """The connection was cut and is there again, the agent takes it for another viewer's: nothing that was asked
        before will be answered."""
        self._hello = channel.send(Hello(client="clew"))
        self._status = None
        self._fetcher.lost(everything=True)
        self.commands.cut()

    def _hear(self) -> None:
        self._heard, self._heard_wall = time.monotonic(), time.time()
        self._failures, self._told = 0, ""
        if self._welcome:
            self._enter(LinkState.LIVE, "live")

    def _take(self, request_id: bytes, reply: AnyReply) -> None:
        if request_id == self._hello:
            self._greeted(reply)
        elif self._status is not None and request_id == self._status[0]:
            self._status = None
            if isinstance(reply, Status):
                self._take_status(reply)
        elif request_id == self._cards:
            if isinstance(reply, CatalogueReply) and reply.catalogue != self._catalogue:
                self._catalogue = reply.catalogue
                self._inbox.put(Cards(reply.catalogue))
        elif not self._fetcher.answered(request_id, reply):
            outcome = self.commands.answered(request_id, reply)
            if outcome is not None:
                self._report(outcome)

    def _greeted(self, reply: AnyReply) -> None:
        self._welcome = True
        if isinstance(reply, Welcome):
            self._datasets = reply.datasets
        if isinstance(reply, Welcome) and self._channel is not None and self._catalogue is not None:
            self._cards = self._channel.send(GetCatalogue())
        self._enter(LinkState.LIVE, "live")
        if isinstance(reply, Refused):
            self._tell(reply.problem)
        elif isinstance(reply, Welcome) and reply.protocol[0] != PROTOCOL_VERSION[0]:
            text = f"The agent speaks protocol {reply.protocol[0]}, this window {PROTOCOL_VERSION[0]}."
            self._tell(Problem("link.protocol", text, "Runs can be watched; to steer them use the same version."))

    def _take_status(self, status: Status) -> None:
        self._version = status.version
        runs = sorted((run for run in status.runs if run.run not in self._forgotten), key=lambda run: run.started)
        for run in runs:
            if not self._fetcher.knows(run.run):
                self._inbox.put(Found(run.run, self._find_spec(run)))
            self._fetcher.note(run)
        self._inbox.put(Statuses(tuple(runs)))

    def _find_spec(self, run: RunStatus) -> RunSpec:
        """The spec from the mirror or from the node, and kept; a bare one when neither has it."""
        mirror = self._fetcher.follow(run.run).mirror
        spec = mirror.spec()
        if spec is None:
            spec = self._target.read_spec(run.run) or RunSpec(exercise=run.exercise, run=run.run, name=run.name)
            with suppress(OSError):  # it can be asked for again
                mirror.keep_spec(spec)
        return spec

    def _send(self, channel: Channel) -> None:
        now = time.monotonic()
        if self._status is None or now > self._status[1]:
            wait = _STATUS_WAIT_S if self._version else 0.0
            self._status = (channel.send(GetStatus(version=self._version, wait=wait)), now + _STATUS_LOST_S)
        if self._renewing:
            self._renewing = False
            channel.send(Shutdown())
            return
        while (command := self.commands.next()) is not None:
            self.commands.sent(channel.send(command), command)
            if isinstance(command, StartRun):
                self._fetcher.expect(command.spec.run)
        while (wanted := self._fetcher.next_fetch()) is not None:
            run, fetch = wanted
            self._fetcher.sent(run, channel.send(fetch))

    def _check(self, channel: Channel) -> bool:
        """Whether the connection may be used. A silent agent is stale, nothing is torn down unless it has ended."""
        now = time.monotonic()
        address = self._address
        if address is None:
            return False
        if channel.greeting is Greeting.REFUSED:
            self._disconnect()
            self._fail(LinkState.REFUSED, "the agent does not accept this window's key")
            return False
        if not self._welcome and now - self._connected > _GREET_WITHIN_S:
            self._dead.add((address.agent, address.generation))
            self._disconnect()
            self._fail(LinkState.CONNECTING, "nobody answers at the agent's address")
            return False
        suspect = channel.greeting is not Greeting.ACCEPTED or now - self._heard > STALE_AFTER_S
        if suspect and now - self._looked > _ALIVE_EVERY_S:
            self._looked = now
            if not self._target.is_alive(address):
                self._disconnect()
                self._fail(LinkState.CONNECTING, "the agent has ended")
                return False
        if self._welcome and now - self._heard > STALE_AFTER_S:
            self._enter(LinkState.STALE, "silent")
        return True

    # --- Telling ------------------------------------------------------------------------------------------------------

    def _enter(self, state: LinkState, text: str) -> None:
        if state is not self._state or (state is not LinkState.LIVE and text != self._state_text):
            since = self._heard_wall if state is LinkState.STALE else time.time()
            self._state, self._state_text = state, text
            self._inbox.put(LinkStatus(state, since, text, self._datasets))

    def _tell(self, problem: Problem) -> None:
        """A trouble that lasts is told once, until the agent has been heard again."""
        if problem.code != self._told:
            self._told = problem.code
            self._inbox.put(Told(problem))

    def _report(self, outcome: Outcome) -> None:
        refused = outcome.command.spec.run if isinstance(outcome.command, StartRun) else ""
        self._inbox.put(Told(outcome.problem, refused if outcome.problem.code != "link.timeout" else ""))


def _as_problem(error: ProblemError | OSError) -> Problem:
    if isinstance(error, ProblemError):
        return error.problems[0]
    return Problem("link.key", f"The key for the agent cannot be written: {error}.", "Make room on the disk.")
