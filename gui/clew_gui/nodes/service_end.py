"""A port on this computer's loopback that leads to a service of an agent, through one encrypted connection.

Browsers connect to it as to any page. Any user of this computer can: Jupyter asks everybody for its token.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import suppress

import zmq

from clew_shared.wire.channel import ID_BYTES, Greeting, KeyPair, Wire
from clew_shared.wire.streams import Streams

_log = logging.getLogger(__name__)

HERE = "127.0.0.1"
MOST_STREAMS = 200
"""A browser opens a dozen connections to a page; more is a mistake or an attack."""
_BACKLOG = 64
_TURN_S = 0.2
_JOIN_S = 2.0
_AGAIN_S = 2.0
"""A server that does not know the key is not asked again sooner; nor is there a new connection sooner where none could
be made, since too many files are open."""
_REST_S = 0.5
"""The seconds in which nobody new is let in after the system had no descriptor left: new connections wait, the others
are served."""


class ServiceEnd:
    """Listens on ``port`` from the moment it is made until ``close``. ``far_port`` of this computer leads to what has
    the key ``server_key``, or will lead there: what is said meanwhile waits.

    Raises ``OSError`` or ``zmq.ZMQError`` when too many files are open."""

    def __init__(self, far_port: int, server_key: str, keys: KeyPair) -> None:
        self._far_port, self._server_key, self._keys = far_port, server_key, keys
        self._listener = socket.create_server((HERE, 0), backlog=_BACKLOG)
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller = zmq.Poller()
        self._streams = Streams(lambda key, message: self._wire.hand_over(key[1], message), self._watch)
        self._count = 0
        self._rests_until = 0.0
        self._rested = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"service {self.port}", daemon=True)
        try:
            self._wire = self._dial()
            self._thread.start()
        except BaseException:
            self._listener.close()
            self._context.destroy(linger=0)
            raise

    def close(self) -> None:
        """Stop listening and break all streams off."""
        self._ended.set()
        self._thread.join(_JOIN_S)

    # --- The thread ---------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._poller.register(self._listener.fileno(), zmq.POLLIN)
        try:
            while not self._ended.is_set():
                self._turn()
        except Exception:  # noqa: BLE001  # the thread's border; anyone who is connected sees it break off
            _log.exception("The connection to a service failed.")
        finally:
            self._listener.close()
            self._streams.drop_all()
            self._wire.close()
            self._context.destroy(linger=0)

    def _turn(self) -> None:
        ready = dict(self._poller.poll(round(_TURN_S * 1000)))
        self._check()
        if self._ended.is_set():
            return
        if self._rests_until and time.monotonic() >= self._rests_until:
            self._rests_until = 0.0
            self._poller.register(self._listener.fileno(), zmq.POLLIN)
        if self._wire.socket in ready:
            for number, message in self._wire.take_in():
                self._streams.take((b"", number), message)
        for one in ready:
            if one == self._listener.fileno():
                self._accept()
            elif isinstance(one, int):
                self._streams.turn(one)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # nobody any more
            return
        except OSError as error:  # too many open files: else this would be logged at every turn
            self._rest(error)
            return
        self._rested = False
        if len(self._streams) >= MOST_STREAMS:
            sock.close()
            return
        with suppress(OSError):  # it may have hung up
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count += 1
        self._streams.begin((b"", self._count.to_bytes(ID_BYTES, "big")), sock)

    def _rest(self, error: OSError) -> None:
        """Let nobody in for a moment; that is said once, until someone came in again."""
        self._poller.unregister(self._listener.fileno())
        self._rests_until = time.monotonic() + _REST_S
        if not self._rested:
            self._rested = True
            _log.warning("A page of a service waits, port %d: %s. It is tried again.", self.port, error.strerror)

    def _check(self) -> None:
        """Drops all streams after the connection broke: what was under way will not go on, and what was not sent yet
        never will be. A browser that sees a failure asks again by itself, and nothing may be done twice."""
        refused = self._wire.greeting is Greeting.REFUSED
        if not (refused or self._wire.broken):
            return
        self._streams.drop_all()
        self._poller.unregister(self._wire.socket)
        self._poller.unregister(self._wire.monitor)
        self._wire.abandon()
        if refused:
            self._ended.wait(_AGAIN_S)
        while not self._ended.is_set():
            try:
                self._wire = self._dial()
            except zmq.ZMQError:  # too many open files
                self._ended.wait(_AGAIN_S)
            else:
                return

    def _dial(self) -> Wire:
        """A new connection. Behind a tunnel the port takes connections while nobody answers them: what is said
        meanwhile waits, since nobody has seen a failure."""
        wire = Wire(self._context, HERE, self._far_port, self._server_key, self._keys, send_queue=0)
        self._poller.register(wire.socket, zmq.POLLIN)
        self._poller.register(wire.monitor, zmq.POLLIN)
        return wire

    def _watch(self, number: int, reads: bool, writes: bool) -> None:
        self._poller.register(number, zmq.POLLIN * reads | zmq.POLLOUT * writes)
