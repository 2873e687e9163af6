"""Wakes a thread that waits for sockets, from any other thread."""

from __future__ import annotations

import socket
from contextlib import suppress


class Doorbell:
    """``socket`` can be read from once it has been rung, until ``hear``."""

    def __init__(self) -> None:
        self.socket, self._rope = socket.socketpair()
        self.socket.setblocking(False)
        self._rope.setblocking(False)

    def ring(self) -> None:
        """Wake the thread; any number of times."""
        with suppress(OSError):  # it has been rung often enough already, or is closed
            self._rope.send(b"!")

    def hear(self) -> None:
        """All rings so far are known."""
        with suppress(BlockingIOError):
            while self.socket.recv(4096):
                pass

    def close(self) -> None:
        """No more ringing."""
        self.socket.close()
        self._rope.close()
