"""The chief's end of the wire: receives what peers send, and sends them what other threads put in."""

from __future__ import annotations

import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator, Sequence

import zmq

from clew_agent.peers import processes
from clew_agent.peers.members import Member
from clew_agent.peers.messages import BEAT_S, Beat, ChiefAddress, Message, encode, write_address
from clew_agent.wire.server import GuardedRouter
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.journal.run_folder import RunFolder
from clew_shared.wire.channel import ID_BYTES, KeyPair, allow

_NUMBER = bytes(ID_BYTES)


class ChiefSocket:
    """The messages of one attempt. ``put`` is for any thread, all else for the one that receives and sends."""

    def __init__(self, folder: RunFolder, attempt: int, places: Places) -> None:
        self._folder, self._attempt = folder, attempt
        self._allowed = processes.allow_list(places, folder, attempt)
        self._out: queue.SimpleQueue[tuple[Message, threading.Event, Member | None]] = queue.SimpleQueue()
        self._wakeup = WakeupPipe()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router: GuardedRouter | None = None
        self._beaten = 0.0

    def open(self, address: str, silence: float) -> None:
        """Listen, and write down for the peers where. Raises ``OSError`` or ``ProblemError``."""
        make_private(self._allowed.parent.parent)
        make_private(self._allowed.parent)
        keys = KeyPair.generate()
        allow(self._allowed, "peers", keys.public)
        self._router = GuardedRouter(
            self._context, self._allowed, address, send_queue=0, silence_ms=round(1000 * silence)
        )
        self._router.watch(self._wakeup.socket.fileno())
        chief = ChiefAddress(
            address=address,
            port=self._router.port,
            chief_key=self._router.public_key,
            public_key=keys.public,
            secret_key=keys.secret,
            pid=os.getpid(),
            boot=operating_system.boot_id(),
        )
        write_address(self._folder, self._attempt, chief)

    def put(self, message: Message, member: Member | None = None) -> threading.Event:
        """Have a message sent, to all unless it is for one ``member``; the event says when it is handed over."""
        said = threading.Event()
        self._out.put((message, said, member))
        self.wake()
        return said

    def wake(self) -> None:
        """Have ``receive`` return now."""
        self._wakeup.wake()

    def receive(self, within: float) -> list[tuple[bytes, bytes]]:
        """Waits for messages; returns each with its sender's identity."""
        found = self._router.poll(within) if self._router is not None else []
        self._wakeup.clear()
        return [(identity, payload) for identity, _, payload in found]

    def outgoing(self) -> Iterator[tuple[Message, threading.Event, Member | None]]:
        """What was put in since the last time."""
        while not self._out.empty():
            yield self._out.get()

    def send(self, message: Message, members: Sequence[Member]) -> None:
        """Send a message to those who have joined; notes since when the connection of one is cut."""
        payload = encode(message)
        for member in members:
            if member.identity and self._router is not None:
                there = self._router.send(member.identity, _NUMBER, payload)
                member.cut = 0.0 if there else member.cut or time.monotonic()

    def beat(self, members: Sequence[Member]) -> None:
        """Say now and then that the chief is there."""
        now = time.monotonic()
        if now - self._beaten >= BEAT_S:
            self._beaten = now
            self.send(Beat(), members)

    def close(self) -> None:
        """Stop listening, and remove what let the peers in."""
        if self._router is not None:
            self._router.close()
        self._context.term()
        self._wakeup.close()
        shutil.rmtree(self._allowed, ignore_errors=True)
