"""The server's end of the wire: a ROUTER that only clients on the allow-list reach.

libzmq lets every CURVE client in that knows the server's public key *unless* a ZAP handler answers and the domain is
enforced. Here the handler is a socket in the same poll loop: while nobody polls, or when it is closed, nobody gets in.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import zmq
from zmq.utils import z85

from clew_agent.wire.rendezvous import ANYWHERE, LOOPBACK, PORTS_TAKEN, PortRange, own_address
from clew_shared import __version__
from clew_shared.base import operating_system
from clew_shared.base.private_files import is_private
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.wire.channel import ID_BYTES, KEY_SUFFIX, KeyPair
from clew_shared.wire.messages import MAX_REQUEST_BYTES, PROTOCOL_VERSION, AgentAddress, Refused, Reply, Welcome, encode

_log = logging.getLogger(__name__)

ZAP_ENDPOINT = "inproc://zeromq.zap.01"
_DOMAIN = "clew"
_KEY_LENGTH = 40
_HARD_LIMIT = 16 * MAX_REQUEST_BYTES
"""Above it ZeroMQ itself ends the connection; between the two the request gets its ``Refused``."""
_HANDSHAKE_MS = 3000
"""A stranger who connects and says nothing holds a place for so long."""
_LINGER_MS = 500
"""The last answers get so long to leave when the agent ends."""
_RECEIVE_QUEUE = 64
"""Requests that wait for one viewer; it has one of each kind on its way."""
_SEND_QUEUE = 128
"""Replies kept for a viewer that does not read, before further ones are dropped: at most 128 × 256 KiB."""
_HEARTBEAT_MS = 10_000
_HEARTBEAT_TIMEOUT_MS = 40_000
"""A viewer that was silent for so long has gone: in a full classroom, Wi-Fi is often away for half a minute."""
_MESSAGES_AT_ONCE = 256
"""After so many requests the agent looks at its runs again: a flood must not keep it from that."""
_PASSING = (errno.EMFILE, errno.ENFILE, errno.EIO, errno.ESTALE)
"""Errors of a list that is there and cannot be read just now: no descriptor is left, a shared file system stumbles."""

Message = tuple[bytes, bytes, bytes]
"""Identity of the client, request id, payload."""


class GuardedRouter:
    """An encrypted ROUTER with its own gatekeeper, on a port that the system chose or one of ``ports``. Belongs to one
    thread.

    ``allow_list`` is the folder whose ``*.key`` files name the clients (read at each new connection, so a key acts at
    once). One router per ZeroMQ context, because the gatekeeper's place in a context is fixed. ``send_queue`` is how
    many messages may wait for a client that does not read, 0 for any number. A client whose process says nothing at all
    for ``silence_ms`` (ZeroMQ itself asks, and answers whatever else the process is doing) is cut off.

    Raises ``ProblemError`` when none of the ``ports`` is free. Raises the process's limit of open files: each
    connection takes one, also a stranger's until ZeroMQ drops it.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        allow_list: Path,
        address: str = LOOPBACK,
        ports: PortRange | None = None,
        send_queue: int = _SEND_QUEUE,
        silence_ms: int = _HEARTBEAT_TIMEOUT_MS,
    ) -> None:
        self.allow_list = allow_list
        self.address = address
        self.rejected = 0
        """Messages that were no requests: wrong number of frames, over-size."""
        self.ready: dict[zmq.Socket[bytes] | int, int] = {}
        """The sockets that the last ``poll`` found, with the events."""
        operating_system.raise_descriptor_limit()
        self._zap: zmq.Socket[bytes] = context.socket(zmq.REP)
        self._zap.linger = 0
        self._zap.bind(ZAP_ENDPOINT)
        keys = KeyPair.generate()
        self.public_key = keys.public
        self._socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        _configure(self._socket, keys, send_queue, silence_ms)
        try:
            _bind(self._socket, address, ports)
        except (zmq.ZMQError, ProblemError):
            self.close()
            raise
        self.port = _port(self._socket)
        self._poller = zmq.Poller()
        self._poller.register(self._zap, zmq.POLLIN)
        self._poller.register(self._socket, zmq.POLLIN)

    def watch(self, socket: zmq.Socket[bytes] | int, events: int = zmq.POLLIN) -> None:
        """``poll`` returns early as well when ``socket`` (or the system's socket of this number) is readable, or
        another of these ``events`` happens to it; ``ready`` shows which it was."""
        self._poller.register(socket, events)

    def unwatch(self, socket: zmq.Socket[bytes] | int) -> None:
        """Undo ``watch``, before the socket is closed."""
        self._poller.unregister(socket)

    def poll(self, timeout: float) -> list[Message]:
        """Wait at most ``timeout`` seconds; serve new connections; return the requests that came, undecoded.

        A request over 64 KiB is refused here already, anything that is not two frames is counted and dropped.
        """
        self.ready = dict(self._poller.poll(max(0, round(timeout * 1000))))
        if self._zap in self.ready:
            self._serve_zap()
        return self._receive() if self._socket in self.ready else []

    def describe(self, agent: str, generation: int = 0) -> AgentAddress:
        """Where this process answers as ``agent``, as others find it."""
        return AgentAddress(
            agent=agent,
            host=operating_system.host_name(),
            boot=operating_system.boot_id(),
            pid=os.getpid(),
            generation=generation,
            address=own_address() if self.address == ANYWHERE else self.address,
            port=self.port,
            public_key=self.public_key,
            allow_list=str(self.allow_list.absolute()),
            version=__version__,
            started=time.time(),
        )

    def reply(self, identity: bytes, request_id: bytes, reply: Reply) -> None:
        """Send ``reply``; it is dropped when that client has gone or has long stopped reading. Never waits."""
        self.send(identity, request_id, encode(reply))

    def send(self, identity: bytes, number: bytes, payload: bytes) -> bool:
        """Send any bytes; False when that client has gone or has long stopped reading. Never waits."""
        try:
            self._socket.send_multipart([identity, number, payload], flags=zmq.DONTWAIT)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                raise
            return False
        return True

    def close(self) -> None:
        """Stop listening. Replies on their way are still sent, for half a second at most."""
        self._zap.close()
        self._socket.close()

    def _receive(self) -> list[Message]:
        found: list[Message] = []
        for _ in range(_MESSAGES_AT_ONCE):
            try:
                frames = self._socket.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                break
            if len(frames) != 3 or len(frames[1]) != ID_BYTES:
                self._reject("a message that is not an id and a request")
            elif len(frames[2]) > MAX_REQUEST_BYTES:
                self._reject(f"a request of {len(frames[2])} bytes")
                self.reply(frames[0], frames[1], Refused(problem=_too_long(len(frames[2]))))
            else:
                found.append((frames[0], frames[1], frames[2]))
        return found

    def _reject(self, what: str) -> None:
        self.rejected += 1
        if self.rejected & (self.rejected - 1) == 0:  # 1, 2, 4, 8, …: a flood must not fill the log
            _log.info("Rejected %s (%d so far).", what, self.rejected)

    def _serve_zap(self) -> None:
        for _ in range(_MESSAGES_AT_ONCE):
            try:
                frames = self._zap.recv_multipart(flags=zmq.DONTWAIT)
            except zmq.Again:
                return
            self._zap.send_multipart(answer_zap(frames, self.allow_list))


def welcome(agent: str) -> Welcome:
    """What ``agent`` answers to a greeting, at least."""
    host = operating_system.host_name()
    return Welcome(protocol=PROTOCOL_VERSION, agent=agent, host=host, version=__version__, clock=time.time())


def answer_zap(frames: Sequence[bytes], allow_list: Path) -> list[bytes]:
    """The reply to one ZAP request (https://rfc.zeromq.org/spec/27/): 200 for a known CURVE key, 400 for all else.

    300 when the list cannot be read just now: nobody gets in, and ZeroMQ lets a client that belongs here try again.
    """
    version, request_id = (frames[0], frames[1]) if len(frames) >= 2 else (b"1.0", b"")
    user = ""
    if len(frames) == 7 and version == b"1.0" and frames[2] == _DOMAIN.encode() and frames[5] == b"CURVE":
        key = z85.encode(frames[6]).decode("ascii") if len(frames[6]) == 32 else ""
        try:
            user = key if key and key in allowed_keys(allow_list) else ""
        except OSError as error:
            return [version, request_id, b"300", (error.strerror or "unreadable").encode("ascii", "replace"), b"", b""]
    code, text = (b"200", b"OK") if user else (b"400", b"not on the allow-list")
    return [version, request_id, code, text, user.encode("ascii"), b""]


def allowed_keys(folder: Path) -> frozenset[str]:
    """The public keys in the ``*.key`` files of ``folder``; none when it is missing or others may write to it.

    Raises ``OSError`` when it cannot be read just now.
    """
    if not is_private(folder):
        return frozenset()
    return frozenset(key for path in folder.glob(f"*{KEY_SUFFIX}") if (key := _read_key(path)))


def _read_key(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_KEY_LENGTH + 2).decode("ascii").strip()
    except UnicodeDecodeError:
        return ""
    except OSError as error:
        if error.errno in _PASSING:
            raise
        return ""
    return text if len(text) == _KEY_LENGTH else ""


def _configure(socket: zmq.Socket[bytes], keys: KeyPair, send_queue: int, silence_ms: int) -> None:
    socket.linger = _LINGER_MS
    socket.maxmsgsize = _HARD_LIMIT
    socket.rcvhwm = _RECEIVE_QUEUE
    socket.sndhwm = send_queue
    socket.router_mandatory = 1  # a client that has gone raises an error; nothing is dropped in silence
    socket.handshake_ivl = _HANDSHAKE_MS
    socket.heartbeat_ivl = min(_HEARTBEAT_MS, silence_ms // 4)
    socket.heartbeat_timeout = silence_ms
    socket.curve_server = True
    socket.curve_secretkey = keys.secret.encode("ascii")
    socket.zap_domain = _DOMAIN.encode("ascii")
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)


def _bind(socket: zmq.Socket[bytes], address: str, ports: PortRange | None) -> None:
    for port in ports.shuffled() if ports is not None else ["*"]:
        try:
            socket.bind(f"tcp://{address}:{port}")
        except zmq.ZMQError as error:
            if ports is None or error.errno not in (zmq.EADDRINUSE, errno.EACCES):
                raise
        else:
            return
    text = f"None of the ports {ports} is free on {operating_system.host_name()}."
    raise problem(PORTS_TAKEN, text, "Allow a longer range of ports, or none at all.", "ports")


def _port(socket: zmq.Socket[bytes]) -> int:
    endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
    return int(endpoint.rstrip("\0").rpartition(":")[2])


def _too_long(size: int) -> Problem:
    text = f"A request may have {MAX_REQUEST_BYTES} bytes, this one has {size}."
    return Problem("request.size", text, "Shorten its texts.")
