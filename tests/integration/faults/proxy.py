"""A TCP proxy on loopback between a viewer and an agent, whose link can be cut, frozen and slowed down."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress

_RESET = struct.pack("ii", 1, 0)
_JOIN_S = 5.0


class Proxy:
    """Listens on ``port`` and passes bytes to ``target`` (which may change: a new agent has another port)."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target = 0
        self.delay = 0.0
        """Seconds by which each piece comes late."""
        self.cuts = 0
        self.unanswered = 0
        """Connections that were taken and closed again, since nobody was at the target."""
        self.passed = 0
        """Bytes from the agent that have been passed on."""
        self._flowing = threading.Event()
        self._flowing.set()
        self._lock = threading.Lock()
        self._left: int | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads = [threading.Thread(target=self._accept, name="proxy", daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """Reset every connection, as a network does that is gone."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self._left = None
            self.cuts += 1
        for pair in pairs:
            _reset(*pair)

    def cut_after(self, count: int) -> None:
        """Cut when ``count`` further bytes have come from the agent, wherever in a message that is."""
        with self._lock:
            self._left = count

    def freeze(self) -> None:
        """Pass nothing on, and let the connections stand."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Go on."""
        self._flowing.set()

    def close(self) -> None:
        """End everything."""
        self._flowing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(_JOIN_S)
        self.cut()
        for thread in self._threads[1:]:
            thread.join(_JOIN_S)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:  # nobody there (any more); the client tries again
                client.close()
                self.unanswered += 1
                continue
            with self._lock:
                self._pairs.append((client, server))
            for words in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pump, args=words, name="proxy", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                time.sleep(self.delay)
                part, cut = self._allowed(data) if counted else (data, False)
                sink.sendall(part)
                if cut:
                    self.cut()
        _reset(source, sink)

    def _allowed(self, data: bytes) -> tuple[bytes, bool]:
        with self._lock:
            if self._left is not None and self._left <= len(data):
                data, cut = data[: self._left], True
            else:
                cut = False
                self._left = None if self._left is None else self._left - len(data)
            self.passed += len(data)
            return data, cut


def _reset(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.shutdown(socket.SHUT_RDWR)  # wakes who waits for bytes of it
        end.close()
