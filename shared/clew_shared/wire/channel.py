"""The client's end of the wire: one DEALER socket with CURVE. The only place in ``clew_shared`` that knows ZeroMQ.

A ``Channel`` belongs to one thread. It never blocks except in ``request``, which waits no longer than its ``timeout``.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from enum import StrEnum
from pathlib import Path

import msgspec
import zmq

from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem, problem
from clew_shared.wire.messages import AnyReply, Refused, Request, decode_reply, encode

ID_BYTES = 8
KEY_SUFFIX = ".key"
MAX_REPLY_BYTES = 64 * 1024 * 1024
"""A catalogue with all its sources is the longest reply, some hundred kilobytes; more than this is no reply of ours."""
_DRAIN_AT_ONCE = 256
_SEND_QUEUE = 1000
_LINGER_MS = 300
"""The last message gets so long to leave when a channel is closed."""
_RECONNECT_MS = 100
_RECONNECT_MAX_MS = 2000
"""A link that was cut is tried again at once, and then less and less often, up to this pause."""
_WATCHED = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)


class KeyPair(msgspec.Struct, frozen=True):
    """A CURVE key pair in Z85 text (40 characters each). ``secret`` stays in memory, in no file or log."""

    public: str
    secret: str

    @classmethod
    def generate(cls) -> KeyPair:
        """A new random pair."""
        public, secret = zmq.curve_keypair()
        return cls(public.decode("ascii"), secret.decode("ascii"))

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"


class Greeting(StrEnum):
    """The progress of a connection: what the last handshake of a channel said."""

    NONE = "none"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    """The server does not know this client's key; ZeroMQ does not try again, a new channel must."""
    WRONG = "wrong"
    """Another program answers at that port, or an agent with another key."""
    GONE = "gone"
    """The connection was accepted and has ended; ZeroMQ tries again by itself."""


def allow(folder: Path, name: str, public_key: str) -> Path:
    """Let the client with ``public_key`` in: write ``<name>.key`` into the allow-list ``folder``, owner-only, and
    return it."""
    make_private(folder)
    path = folder / f"{name}{KEY_SUFFIX}"
    write_private(path, public_key.encode("ascii"))
    return path


class Wire:
    """An encrypted DEALER connection, and what became of it. Belongs to one thread. ``send_queue`` is how many messages
    may wait to be sent, 0 for any number."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: str,
        port: int,
        server_key: str,
        keys: KeyPair,
        send_queue: int = _SEND_QUEUE,
    ) -> None:
        self.socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        """For a poller: readable when there is something to be taken."""
        self.monitor: zmq.Socket[bytes] = self.socket.get_monitor_socket(_WATCHED)
        self._greeting = Greeting.NONE
        self._connections = 0
        self.socket.linger = _LINGER_MS
        self.socket.maxmsgsize = MAX_REPLY_BYTES
        self.socket.sndhwm = send_queue
        self.socket.reconnect_ivl = _RECONNECT_MS
        self.socket.reconnect_ivl_max = _RECONNECT_MAX_MS
        self.socket.curve_publickey = keys.public.encode("ascii")
        self.socket.curve_secretkey = keys.secret.encode("ascii")
        self.socket.curve_serverkey = server_key.encode("ascii")
        self.socket.connect(f"tcp://{address}:{port}")

    @property
    def greeting(self) -> Greeting:
        """Returns the state of the handshake so far."""
        while self.monitor.poll(0):
            # http://api.zeromq.org/4-3:zmq-socket-monitor; pyzmq's own reader of it imports asyncio, which takes long.
            (event,) = struct.unpack_from("=H", self.monitor.recv_multipart()[0])
            self._greeting = _greeting(event, self._greeting)
            self._connections += event == zmq.EVENT_HANDSHAKE_SUCCEEDED
        return self._greeting

    @property
    def connections(self) -> int:
        """Returns how many times the server has accepted this client. ZeroMQ connects again by itself after a cut, but
        what was on its way then is lost: when this number grows, ask again for whatever has no answer."""
        return self._connections if self.greeting is not Greeting.NONE else 0

    @property
    def broken(self) -> bool:
        """Whether the connection that was accepted first has ended. Both facts are of one moment: read one after the
        other, a handshake between them would look like an end."""
        now = self.greeting
        return self._connections > 1 or (self._connections == 1 and now is not Greeting.ACCEPTED)

    def hand_over(self, number: bytes, payload: bytes) -> bool:
        """Queue a message, without waiting; False when too many wait already."""
        try:
            self.socket.send_multipart([number, payload], flags=zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def take_in(self) -> list[tuple[bytes, bytes]]:
        """Messages that have come, each with its number; never waits, and leaves some for later where many came."""
        found = []
        for _ in range(_DRAIN_AT_ONCE):
            try:
                frames = self.socket.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                break
            if len(frames) == 2:
                found.append((frames[0], frames[1]))
        return found

    def close(self) -> None:
        """End the connection. What was handed over is still sent for a moment."""
        self._close(_LINGER_MS)

    def abandon(self) -> None:
        """End the connection at once. What was handed over and not sent yet is never sent."""
        self._close(0)

    def _close(self, linger_ms: int) -> None:
        if self.socket.closed:
            return
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=linger_ms)


class Channel(Wire):
    """Requests out, replies in, over one encrypted connection to a supervisor or a trainer."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], address: str, port: int, server_key: str, keys: KeyPair
    ) -> None:
        super().__init__(context, address, port, server_key, keys)
        self._backlog: deque[tuple[bytes, AnyReply]] = deque()
        self._count = 0

    def send(self, message: Request) -> bytes:
        """Hand ``message`` over to be sent, without waiting; returns the id that its reply will carry.

        Raises ``ProblemError`` when a thousand requests already wait for the connection.
        """
        self._count += 1
        request_id = self._count.to_bytes(ID_BYTES, "big")
        if not self.hand_over(request_id, encode(message)):
            raise problem("channel.full", "The agent accepts no more requests for now.", "Wait until it answers again.")
        return request_id

    def receive(self) -> list[tuple[bytes, AnyReply]]:
        """The replies that have come, with the ids of their requests; never waits.

        Bytes that are no reply of ours come as ``Refused``, so that anyone who asked learns of it.
        """
        replies = list(self._backlog)
        self._backlog.clear()
        return replies + [(number, _decode(payload)) for number, payload in self.take_in()]

    def request(self, message: Request, timeout: float) -> AnyReply:
        """Send ``message`` and wait for its reply, at most ``timeout`` seconds. Raises ``ProblemError`` if not."""
        request_id = self.send(message)
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            self.socket.poll(max(1, int(left * 1000)))
            replies = self.receive()
            self._backlog.extend(pair for pair in replies if pair[0] != request_id)
            for found, reply in replies:
                if found == request_id:
                    return reply
        raise problem("channel.timeout", f"No answer within {timeout:g} s.", "The agent may have ended, or be busy.")


def _decode(data: bytes) -> AnyReply:
    try:
        return decode_reply(data)
    except msgspec.DecodeError as error:
        hint = "The two sides may run different versions of Clew."
        return Refused(problem=Problem("channel.reply", f"The agent's reply cannot be read: {error}.", hint))


def _greeting(event: int, before: Greeting) -> Greeting:
    if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
        return Greeting.ACCEPTED
    if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
        return Greeting.REFUSED
    if event == zmq.EVENT_DISCONNECTED:
        return Greeting.GONE if before is Greeting.ACCEPTED else before
    return Greeting.WRONG
