"""A port that is kept for TensorFlow."""

from __future__ import annotations

import socket

from clew_shared.base import operating_system


class PortKeeper:
    """A port that this process keeps until TensorFlow's own server has taken it as well.

    Both allow that (``SO_REUSEPORT``), and connections go to the one that listens: nobody else can take it meanwhile.
    ``port`` 0: any.
    """

    def __init__(self, address: str, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the process that had it before is gone
        operating_system.share_port(self._socket)
        self._socket.bind((address, port))
        self.address = address
        self.port: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Gives up the port, which TensorFlow has now."""
        self._socket.close()
