"""A port of this computer's loopback that leads to ``host:port`` on the far side of an SSH connection.

Any user of this computer can connect to the port: what listens at the other end must protect itself, as the agent does
with CURVE. Nothing but that one address is reached through it.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from clew_gui.ssh.connection import Stream
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.wire.streams import reset

_log = logging.getLogger(__name__)

CHUNK = 262144
"""The number of bytes that are passed on at a time: paramiko moves all waiting bytes whenever a part of them is
taken."""
MOST_STREAMS = 200
"""The largest number of streams at a time; more are refused: each has two threads and up to 2 MiB on its way."""
_BACKLOG = 64
_TURN_S = 0.2
_JOIN_S = 2.0

OpenStream = Callable[[], Stream]
"""Opens one stream to where the tunnel leads, within a time of its own; raises ``ProblemError``."""


class Tunnel:
    """Listens from the moment it is made until ``close``. ``address`` and ``port`` are where.
    ``problem`` is why the last connection could not be made."""

    def __init__(self, open_stream: OpenStream) -> None:
        self.problem: Problem | None = None
        self._open = open_stream
        self._pairs: set[_Pair] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._listener.settimeout(_TURN_S)
        self.address, self.port = self._listener.getsockname()
        self._thread = threading.Thread(target=self._accept, name=f"tunnel {self.port}", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Returns how many streams it carries."""
        with self._lock:
            return len(self._pairs)

    def close(self) -> None:
        """Stop listening and end all streams; returns when their threads have ended."""
        self._ended.set()
        self._thread.join(_JOIN_S)
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.close()
        for pair in pairs:
            pair.join(_JOIN_S)

    def _accept(self) -> None:
        with self._listener:
            while not self._ended.is_set():
                try:
                    sock, _ = self._listener.accept()
                except OSError:  # the turn is over, or there are too many open files
                    continue
                if len(self) >= MOST_STREAMS:
                    reset(sock)
                    continue
                pair = _Pair(sock, self._connect, self._forget, self.port)
                with self._lock:
                    self._pairs.add(pair)
                pair.start()

    def _connect(self) -> Stream | None:
        try:
            stream = self._open()
        except ProblemError as error:
            _log.info("the tunnel's port %s cannot be served: %s", self.port, error)
            self.problem = error.problems[0]
            return None
        self.problem = None
        return stream

    def _forget(self, pair: _Pair) -> None:
        with self._lock:
            self._pairs.discard(pair)


class _Pair:
    """One connection: two threads that pass bytes on, each waiting for the other end to take them."""

    def __init__(
        self, sock: socket.socket, connect: Callable[[], Stream | None], forget: Callable[[_Pair], None], port: int
    ) -> None:
        self._sock = sock
        self._connect = connect
        self._forget = forget
        self._stream: Stream | None = None
        self._closed = threading.Event()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(None)  # not the listener's
        self._threads = [threading.Thread(target=self._run, name=f"tunnel {port} up", daemon=True)]
        self._name = f"tunnel {port} down"

    def start(self) -> None:
        self._threads[0].start()

    def join(self, timeout: float) -> None:
        for thread in self._threads:
            thread.join(timeout)

    def close(self) -> None:
        """Wakes both threads; safe from any thread, at any time."""
        self._closed.set()
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        if self._stream is not None:
            self._stream.close()

    def _run(self) -> None:
        try:
            self._stream = self._connect()
            if self._stream is None:
                reset(self._sock)
            else:
                self._pass_on(self._stream)
        finally:
            self._sock.close()
            self._forget(self)

    def _pass_on(self, stream: Stream) -> None:
        down = threading.Thread(target=self._down, args=(stream,), name=self._name, daemon=True)
        self._threads.append(down)
        down.start()
        try:
            if self._closed.is_set():
                return
            while data := self._sock.recv(CHUNK):
                stream.send(data)
            stream.end()
            down.join()  # the answer may still be on its way
        except (OSError, ProblemError) as error:
            _log.debug("%s: %s", self._name, error)
        finally:
            self.close()
            down.join(_JOIN_S)

    def _down(self, stream: Stream) -> None:
        try:
            while data := stream.recv(CHUNK):
                self._sock.sendall(data)
            self._sock.shutdown(socket.SHUT_WR)
        except (OSError, ProblemError) as error:
            _log.debug("%s: %s", self._name, error)
            self.close()
