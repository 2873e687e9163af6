"""A peer's end of the wire: one thread that sends a sign of life every second and receives the chief's messages.

It goes on while TensorFlow computes. When the chief is gone the thread ends the whole process: nothing may be left.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

import msgspec
import zmq

from clew_agent.peers.messages import (
    BEAT_S,
    CHIEF,
    SILENCE_S,
    Beat,
    ChiefAddress,
    Die,
    FromChief,
    Join,
    Message,
    Silence,
    decode_from_chief,
    encode,
)
from clew_shared.base import operating_system
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.wire.channel import ID_BYTES, Greeting, KeyPair, Wire

_CONNECT_S = 60.0
"""Seconds that a peer tries to connect. A chief that is there lets its peers in at once, unless its import of
TensorFlow holds up its threads: then a handshake comes to nothing, and ZeroMQ tries again."""
_WAITING_S = 120.0
"""Longest silence of the chief before the peer's first block: it may be importing TensorFlow from a slow disk, which
holds up its threads."""
_NUMBER = bytes(ID_BYTES)


class ChiefLink:
    """The connection to the chief. ``gone`` is called once, in the link's thread, with the reason why it is over; it
    should end the process."""

    def __init__(
        self, chief: ChiefAddress, join: Join, gone: Callable[[str], None], silence: float = SILENCE_S
    ) -> None:
        self._chief = chief
        self._join = join
        self._gone = gone
        self._most_silence = silence
        self._in: queue.SimpleQueue[FromChief] = queue.SimpleQueue()
        self._out: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._wakeup = WakeupPipe()
        self._ended = threading.Event()
        self._training = False
        self._thread = threading.Thread(target=self._work, name="chief link", daemon=True)

    def start(self) -> None:
        """Connect and join the run."""
        self._thread.start()

    def receive(self) -> FromChief:
        """Returns the chief's next message, beats left out; waits as long as it takes, because ``gone`` bounds that."""
        return self._in.get()

    def send(self, message: Message) -> None:
        """Sends a message to the chief; never waits."""
        self._out.put(message)
        self._wakeup.wake()

    def training(self) -> None:
        """Makes the chief's silence count after seconds already, from now on."""
        self._training = True

    def close(self) -> None:
        """End the connection, without ``gone``. What was said is still sent for a moment."""
        self._ended.set()
        self._wakeup.wake()
        self._thread.join(BEAT_S + 1)

    # In the thread.

    def _work(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        chief = self._chief
        keys = KeyPair(chief.public_key, chief.secret_key)
        wire = Wire(context, chief.address, chief.port, chief.chief_key, keys, send_queue=0)
        try:
            reason = self._serve(wire)
        finally:
            wire.close()
            context.term()
        if reason:
            self._gone(reason)

    def _serve(self, wire: Wire) -> str:
        poller = zmq.Poller()
        for socket in (wire.socket, wire.monitor, self._wakeup.socket):
            poller.register(socket, zmq.POLLIN)
        started = beaten = time.monotonic()
        silence = Silence(started)
        silence.received(CHIEF)
        wire.hand_over(_NUMBER, encode(self._join))
        while not self._ended.is_set():
            poller.poll(200)
            self._wakeup.clear()
            now = time.monotonic()
            silence.look(now)
            for _, payload in wire.take_in():
                silence.received(CHIEF)
                self._hear(payload)
            while not self._out.empty():
                wire.hand_over(_NUMBER, encode(self._out.get()))
            if now - beaten >= BEAT_S:
                beaten = now
                wire.hand_over(_NUMBER, encode(Beat()))
            reason = self._over(wire.greeting, silence.seconds(CHIEF), now - started)
            if reason:
                return reason
        return ""

    def _hear(self, payload: bytes) -> None:
        try:
            message = decode_from_chief(payload)
        except msgspec.DecodeError:
            return  # of another version; silence ends this process in the end
        if isinstance(message, Die):
            operating_system.end_by_force()
        if not isinstance(message, Beat):
            self._in.put(message)

    def _over(self, greeting: Greeting, silent: float, age: float) -> str:
        """Says why this process has no run any more; empty while it has."""
        if greeting is Greeting.GONE:
            return "The chief's process has ended."
        if greeting is Greeting.REFUSED:
            return "The chief at that address is not of this run."
        if greeting is not Greeting.ACCEPTED and age > _CONNECT_S:
            return f"The chief cannot be reached at {self._chief.address}, port {self._chief.port}."
        if silent > (self._most_silence if self._training else _WAITING_S):
            return f"The chief has said nothing for {silent:.0f} s."
        return ""
