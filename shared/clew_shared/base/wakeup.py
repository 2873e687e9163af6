"""Wakes a thread that waits for sockets, from any other thread."""

from __future__ import annotations

import socket
from contextlib import suppress


class WakeupPipe:
    """A pipe whose ``socket`` can be read from once ``wake`` was called, until ``clear``."""

    def __init__(self) -> None:
        self.socket, self._end = socket.socketpair()
        self.socket.setblocking(False)
        self._end.setblocking(False)

    def wake(self) -> None:
        """Wake the thread; any number of times."""
        with suppress(OSError):  # it was woken often enough already, or is closed
            self._end.send(b"!")

    def clear(self) -> None:
        """Forget all calls of ``wake`` so far: the socket is readable again only after the next one."""
        with suppress(BlockingIOError):
            while self.socket.recv(4096):
                pass

    def close(self) -> None:
        """Close both ends; ``wake`` does nothing from now on."""
        self.socket.close()
        self._end.close()
