"""Uninvited guests for tests: what they send, what they hear, and a good client that is served meanwhile.

*A byte of ours* is anything behind ZeroMQ's own handshake. A stranger may hear the 64-byte ZMTP greeting, which is the
same for every CURVE server of the world, and of the handshake a WELCOME (encrypted for whoever knows the server's key)
and an ERROR with the status of the refusal. READY and messages are for clients that were let in.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import zmq

from clew_agent.trainer.control_address import address_file
from clew_shared.wire.channel import Channel, KeyPair, allow
from clew_shared.wire.messages import AgentAddress, AnyReply, GetStatus, Hello, Request
from tests.integration.agents import BOUND_S, Agent, wait_for

GREETING = b"\xff" + bytes(7) + b"\x01\x7f" + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + bytes(32)
"""What every CURVE server of libzmq 4.3 says first: https://rfc.zeromq.org/spec/23/."""
HANDSHAKE = {b"WELCOME", b"ERROR"}
_LINGER = 50
"""So many of a flood stay, so that each can be answered before it goes; more than the door has in hand at once."""


def assert_nothing_of_ours(heard: bytes | bytearray) -> None:
    """Fail when a stranger heard more than a greeting, a WELCOME and the status of its refusal."""
    greeting, rest = bytes(heard[: len(GREETING)]), bytes(heard[len(GREETING) :])
    assert greeting == GREETING[: len(greeting)]
    while rest:
        assert rest[0] in (0x04, 0x06), f"no handshake command, but {rest[:80]!r}"
        width = 1 if rest[0] == 0x04 else 8
        size, start = int.from_bytes(rest[1 : 1 + width], "big"), 1 + width
        body, rest = rest[start : start + size], rest[start + size :]
        name, content = body[1 : 1 + body[0]], body[1 + body[0] :]
        assert name in HANDSHAKE, name
        assert name == b"WELCOME" or content in (b"\x00", b"\x03400"), content


class Endpoint(NamedTuple):
    """Where somebody may knock: the agent's port, or that of a trainer. ``asks`` is answered for good clients."""

    name: str
    address: AgentAddress
    asks: Request

    def channel(self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyPair, server_key: str = "") -> Channel:
        """A client's connection to it."""
        key = server_key or self.address.public_key
        return Channel(context, self.address.address, self.address.port, key, keys)

    def invite(self) -> KeyPair:
        """Keys that are on its list."""
        keys = KeyPair.generate()
        allow(Path(self.address.allow_list), f"good-{keys.public[:4].encode().hex()}", keys.public)
        return keys

    def knock(self) -> socket.socket:
        """A bare TCP connection."""
        return socket.create_connection((self.address.address, self.address.port), timeout=BOUND_S)


def agent_door(agent: Agent) -> Endpoint:
    return Endpoint("agent", agent.address(), GetStatus())


def trainer_door(agent: Agent, run: str) -> Endpoint:
    path = address_file(agent.places, run)
    wait_for(path.exists, "the trainer's address")
    return Endpoint("trainer", msgspec.json.decode(path.read_bytes(), type=AgentAddress), Hello())


class Tap:
    """A relay to a door; ``heard`` is what was said on the way out, one entry for each connection."""

    def __init__(self, door: Endpoint) -> None:
        self.heard: list[bytearray] = []
        self._door = door
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._relay)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._listener.close()

    def _relay(self) -> None:
        pairs: dict[socket.socket, socket.socket] = {}
        heard: dict[socket.socket, bytearray] = {}
        while not self._ended.is_set():
            for ready in select.select([self._listener, *pairs], [], [], 0.02)[0]:
                if ready is self._listener:
                    outside, inside = self._listener.accept()[0], self._door.knock()
                    pairs |= {outside: inside, inside: outside}
                    self.heard.append(heard.setdefault(inside, bytearray()))
                elif ready in pairs:
                    self._pass_on(ready, pairs, heard.get(ready))
        for end in pairs:
            end.close()

    def _pass_on(
        self, source: socket.socket, pairs: dict[socket.socket, socket.socket], heard: bytearray | None
    ) -> None:
        try:
            data = source.recv(65536)
            pairs[source].sendall(data)
        except OSError:
            data = b""
        if heard is not None:
            heard += data
        if not data:
            other = pairs.pop(source)
            pairs.pop(other)
            source.close()
            other.close()


class Good:
    """Asks again and again in a thread of its own; counts its answers, and keeps what went wrong."""

    def __init__(self, door: Endpoint) -> None:
        self.answers: list[AnyReply] = []
        self.failure: BaseException | None = None
        self._door = door
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        channel = self._door.channel(context, self._door.invite())
        try:
            while not self._ended.wait(0.01):
                self.answers.append(channel.request(self._door.asks, BOUND_S))
        except BaseException as error:  # noqa: BLE001  # for the thread that waits for it
            self.failure = error
        finally:
            channel.close()
            context.destroy(linger=0)

    def more(self, count: int = 3) -> None:
        """Return when it had so many further answers."""
        wanted = len(self.answers) + count
        wait_for(lambda: self.failure or len(self.answers) >= wanted, "an answer for the good client")
        assert self.failure is None

    def start(self) -> None:
        self._thread.start()
        self.more(1)

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
        assert self.failure is None


@contextmanager
def good_client(door: Endpoint) -> Iterator[Good]:
    """A client with a key, served all the time; and a new one is let in at the end."""
    good = Good(door)
    good.start()
    try:
        yield good
        good.more()
    finally:
        good.end()
    late = Good(door)
    late.start()
    late.end()


def listen(stranger: socket.socket) -> bytes:
    """What a bare connection hears until it is closed; ZeroMQ closes those that do not shake hands."""
    heard = b""
    stranger.settimeout(BOUND_S)
    try:
        while data := stranger.recv(65536):
            heard += data
    except ConnectionError:
        pass
    return heard


def overhear(stranger: socket.socket) -> bytes:
    """What a bare connection has heard by now; waits for the first bytes, or for its end."""
    heard = b""
    stranger.settimeout(BOUND_S)
    with suppress(ConnectionError, BlockingIOError):
        while data := stranger.recv(65536):
            heard += data
            stranger.setblocking(False)
    return heard


def flood(door: Endpoint, count: int, junk: bytes, keep: int, heard: list[bytes]) -> Iterator[socket.socket]:
    """So many connections that send ``junk``, a byte more of it each time; one of ``keep`` stays open. Each of the
    others is closed when some more have come; ``heard`` gets what it was told until then."""
    leaving: deque[socket.socket] = deque()

    def leave() -> None:
        with leaving.popleft() as stranger:
            heard.append(overhear(stranger))

    try:
        for number in range(count):
            stranger = door.knock()
            with suppress(ConnectionError):  # it may have been hung up already
                stranger.sendall(junk[: number % (len(junk) + 1)])
            if number % keep == 0:
                yield stranger
            else:
                leaving.append(stranger)
            if len(leaving) > _LINGER:
                leave()
        while leaving:
            leave()
    finally:
        for stranger in leaving:
            stranger.close()


@contextmanager
def crowd(door: Endpoint, size: int) -> Iterator[None]:
    """Silent strangers who knock all the time, so many of them at once."""
    inside: deque[socket.socket] = deque()
    ended = threading.Event()

    def press() -> None:
        while not ended.is_set():
            stranger = socket.socket()
            stranger.settimeout(0.2)  # the door may be too full to open
            inside.append(stranger)
            with suppress(OSError):
                stranger.connect((door.address.address, door.address.port))
            if len(inside) > size:
                inside.popleft().close()

    thread = threading.Thread(target=press)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for stranger in inside:
            stranger.close()
