"""The nursery of one run: its peers on this node begin as copies of a process that has imported TensorFlow.

The chief computes, so it cannot be copied. Before it has a second thread it makes a copy of itself that computes
nothing and makes peers on request, also those that replace lost ones. A peer is the chief's own child, as if it had
begun as a fresh interpreter: the process between it and the nursery ends at once, and the chief adopts what is left.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from clew_agent.peers.processes import StartPeer, spawn
from clew_agent.processes.nursery_messages import MAX_BYTES
from clew_agent.strategies import registry
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import read_spec

BePeer = Callable[[Sequence[str]], int]
"""Is the peer of these words (see ``peers.peer``) and returns its exit code."""

_log = logging.getLogger(__name__)
_ANSWER_S = 30.0
"""Seconds after which a nursery that has not made a peer counts as hanging: memory may have to be found for it."""
_REFUSED = b"0"


class _Wanted(msgspec.Struct, frozen=True, array_like=True):
    """A peer, and the file that it prints into."""

    words: list[str]
    log: str


class PeerNursery:
    """The chief's end. To be made by a process with one thread that has computed nothing. Raises ``OSError`` when the
    system refuses."""

    def __init__(self, be_peer: BePeer) -> None:
        self._channel, theirs = operating_system.packet_pair()
        self._channel.settimeout(_ANSWER_S)
        self._lock = threading.Lock()
        chief = os.getpid()

        def work() -> int:
            self._channel.close()
            return _serve(theirs, chief, be_peer)

        try:
            self._process = operating_system.fork(work)
        except OSError:
            self._channel.close()
            raise
        finally:
            theirs.close()
        operating_system.adopt_orphans()

    def start(self, words: Sequence[str], log: Path) -> operating_system.Child:
        """Start a peer of this node; as a fresh interpreter if the nursery cannot. Raises ``OSError``."""
        try:
            with self._lock:
                self._channel.send(msgspec.json.encode(_Wanted([*words], str(log))))
                answer = self._channel.recv(MAX_BYTES)
        except OSError as error:
            _log.warning("The run's nursery does not answer: %s", error)
            self._channel.close()  # a late answer must not be taken for the next one
            return spawn(words, log)
        if not answer or answer == _REFUSED:
            return spawn(words, log)
        return operating_system.Forked(int(answer))

    def close(self) -> None:
        """End it; peers go on."""
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):  # a dead disk
            self._process.wait(_ANSWER_S)


@contextmanager
def start_of_peers(folder: RunFolder, attempt: int, be_peer: BePeer) -> Iterator[StartPeer]:
    """Yields how peers of this node start in an attempt: as copies, if it has any and this process may be copied."""
    try:
        spec = read_spec(folder.spec_of(attempt))
        several = spec.nodes > 1 or bool(registry.entry(spec.strategy).roles(spec))
    except ProblemError:  # the trainer says why
        several = False
    nursery = _nursery(be_peer) if several and operating_system.thread_count() == 1 else None
    if nursery is None:
        yield spawn
        return
    with closing(nursery):
        yield nursery.start


def _nursery(be_peer: BePeer) -> PeerNursery | None:
    try:
        return PeerNursery(be_peer)
    except OSError as error:
        _log.warning("The run has no nursery for its peers: %s", error)
        return None


def _serve(channel: socket.socket, chief: int, be_peer: BePeer) -> int:
    operating_system.die_with_parent(by_force=True)
    for number in operating_system.stop_signals():  # a scheduler sends them to all processes of a job
        signal.signal(number, signal.SIG_IGN)
    operating_system.set_title("clew-agent nursery of peers")
    while data := channel.recv(MAX_BYTES):
        wanted = msgspec.json.decode(data, type=_Wanted)
        try:
            made = operating_system.fork(partial(_make, wanted, channel, chief, be_peer))
            failed = made.wait(_ANSWER_S) != 0
        except (OSError, subprocess.TimeoutExpired):
            failed = True
        if failed:
            channel.send(_REFUSED)
    return 0


def _make(wanted: _Wanted, channel: socket.socket, chief: int, be_peer: BePeer) -> int:
    """Be the process between nursery and peer."""
    between = os.getpid()

    def work() -> int:
        adopted = operating_system.wait_for_adoption(between, by=chief)
        operating_system.print_to(Path(wanted.log))
        if not adopted:  # the chief has gone
            return 1
        channel.send(str(os.getpid()).encode())
        channel.close()
        operating_system.set_title(f"clew-agent peer {' '.join(wanted.words)}")
        return be_peer(wanted.words)

    operating_system.fork(work)
    return 0
