"""The way to a service's socket: a port of the node at which only the agent's own viewers get in, encrypted by CURVE.

Nothing readable leaves the node. Each stream of a viewer becomes a connection to its socket, which is the
owner's alone.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import zmq

from clew_agent.wire.rendezvous import PortRange
from clew_agent.wire.server import GuardedRouter
from clew_shared.base import operating_system
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.wire.streams import Key, Sign, Streams

_log = logging.getLogger(__name__)

_TURN_S = 1.0
_JOIN_S = 5.0


class StreamServer:
    """Listens on ``address``, on a port that the system chooses or one of ``ports``, from the moment it is made; a
    thread passes everything on to and from the socket ``target``, from ``start`` to ``close``.

    The folder ``allow_list`` says who is let in. Raises what ``GuardedRouter`` raises.
    """

    def __init__(self, allow_list: Path, address: str, ports: PortRange | None, target: Path) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        try:
            self._router = GuardedRouter(self._context, allow_list, address, ports, send_queue=0)
        except BaseException:
            self._context.term()
            raise
        self.port, self.public_key = self._router.port, self._router.public_key
        self._target = target
        self._streams = Streams(self._send, self._watch)  # each has a bound of its own on what may wait to be sent
        self._ended = threading.Event()
        self._wakeup = WakeupPipe()
        self._router.watch(self._wakeup.socket.fileno())
        self._thread = threading.Thread(target=self._work, name="service streams", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether it is served."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def close(self) -> None:
        """Break all streams off and stop listening."""
        self._ended.set()
        self._wakeup.wake()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        self._wakeup.close()

    def _work(self) -> None:
        try:
            while not self._ended.is_set():
                self._turn()
        except Exception:  # noqa: BLE001  # the thread's border: the process looks after it, and ends
            _log.exception("The encrypted port of the service failed.")
        finally:
            self._streams.drop_all()
            self._router.close()
            self._context.term()  # bounded by the router's linger, half a second

    def _turn(self) -> None:
        for who, number, message in self._router.poll(_TURN_S):
            if message[:1] == bytes([Sign.OPEN]):
                self._open((who, number))
            else:
                self._streams.take((who, number), message)
        for ready in tuple(self._router.ready):
            if isinstance(ready, int):
                self._streams.turn(ready)

    def _open(self, key: Key) -> None:
        self._streams.drop(key)
        try:
            self._streams.add(key, operating_system.connect_locally(self._target))
        except OSError:  # such as too many open files
            self._send(key, bytes([Sign.CLOSE]))

    def _send(self, key: Key, message: bytes) -> bool:
        return self._router.send(*key, message)

    def _watch(self, number: int, reads: bool, writes: bool) -> None:
        self._router.watch(number, zmq.POLLIN * reads | zmq.POLLOUT * writes)
