"""The chief's side: starts the peers of a run, waits until all have joined, leads them, watches them and ends them.

TensorFlow itself waits an hour for a process that is missing, and for ever for one that is frozen. So peers join here
first, within a deadline, and each says every second that it is there. One thread does all of it: it receives and sends
while the trainer's own thread is inside TensorFlow, and when a peer is lost and TensorFlow does not come back, it ends
the trainer with a sentence that says why.
"""

from __future__ import annotations

import os
import queue
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import zmq

from clew_agent.node import operating_system
from clew_agent.node.devices import find_devices
from clew_agent.node.log_tail import tail
from clew_agent.peers import processes
from clew_agent.peers.hosts import JobHosts, place
from clew_agent.peers.messages import (
    BEAT_S,
    SILENCE_S,
    Beat,
    Block,
    Built,
    ChiefAddress,
    Complaint,
    Die,
    Index,
    Join,
    Leave,
    Message,
    Prepared,
    Serve,
    Silence,
    decode_from_peer,
    encode,
    log_of,
    write_address,
)
from clew_agent.peers.port import PortKeeper
from clew_agent.peers.processes import PeerProcess
from clew_agent.wire.rendezvous import LOOPBACK, address_towards
from clew_agent.wire.server import GuardedRouter
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.wakeup import WakeupPipe
from clew_shared.journal.events import Event, Log, Peer
from clew_shared.journal.run_folder import RunFolder
from clew_shared.wire.channel import ID_BYTES, KeyPair, allow

JOIN_S = 60.0
_IMPORT_SILENCE_S, _MEET_SILENCE_S = 120.0, 30.0
"""Silences that a peer may keep while it imports TensorFlow from a slow disk, and while TensorFlow's processes find
each other. They are longer than later: both can hold up all its threads but ZeroMQ's, which say that the process is not
frozen."""
_COMPUTING_S = 3.0
"""Seconds within which the death of another peer is known: a peer that fails in a step may fail because of it."""
_CUT_S = 5.0
"""Seconds within which the program that ran a peer on its node says how a peer whose connection is cut has ended."""
_GRACE_S = 5.0
"""Seconds that a trainer gets when a peer is lost. TensorFlow then comes back with an error, usually at once; a trainer
that hangs longer is ended."""
_LEAVE_S = 5.0
_REPLACE_S = 2.0
"""Seconds that a process that is to be replaced gets to end; no messages are received meanwhile."""
_POLL_S = 0.2
_NUMBER = bytes(ID_BYTES)

CommandFor = Callable[[Index, int], Sequence[str]]
"""The command line of a peer, with the port that it is to keep (0: any)."""
_MOST_REPLACEMENTS = 3
"""Number of times that a peer is replaced before it could even join; then its place is given up, and the run with
it."""


@dataclass
class _Peer:
    """A peer as the chief knows it. ``process`` is None for one that somebody else has started (in tests)."""

    index: Index
    host: str
    process: PeerProcess | None = None
    identity: bytes = b""
    joined: Join | None = None
    prepared: bool = False
    built: bool = False
    ended: bool = False
    complaint: Complaint | None = None
    complained: float = 0.0
    cut: float = 0.0
    role: str = "worker"
    number: int = 0
    port: int = 0
    """The port at which TensorFlow reaches it; a process that replaces it keeps it."""
    replaced: int = 0
    """Number of processes that have taken its place since it last was at work."""
    started: float = 0.0
    added: bool = False
    """Whether it came while the others trained: they can do without it."""
    asked_to_die: bool = False
    placed: bool = False
    factor: float = 1.0

    @property
    def name(self) -> str:
        """Returns the name that people see, also in the window: ``Worker 1 on node2 (process 4711)``."""
        host = self.joined.host if self.joined is not None else self.host or operating_system.host_name()
        pid = f" (process {self.joined.pid})" if self.joined is not None else ""
        return f"{'Server' if self.role == 'ps' else 'Worker'} {self.number} on {host}{pid}"

    def start_over(self) -> None:
        """Forgets everything about the process that was here."""
        self.process, self.identity, self.joined = None, b"", None
        self.prepared = self.built = self.placed = self.asked_to_die = False
        self.complaint, self.cut = None, 0.0


@dataclass(frozen=True)
class Limits:
    """The seconds that the chief waits: for all peers to ``join``, for a word of one (``silence``), and for TensorFlow
    to notice that one is lost (``grace``)."""

    join: float = JOIN_S
    silence: float = SILENCE_S
    grace: float = _GRACE_S


@dataclass
class _Shared:
    """The data that both threads look at, under ``changed``."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    all_joined: bool = False
    all_prepared: bool = False
    lost: Problem | None = None
    noticed: bool = False
    ended: bool = False
    all_built: bool = False
    servers_lost: int = 0


class Peers:
    """The peers of one attempt: all workers but the chief. ``start``, ``gather``, ``send`` for each block, ``close``.

    ``record`` takes the events for the journal, ``stuck`` ends this process when a peer is lost and the trainer hangs
    in TensorFlow; both are called in the thread of this object. ``command`` is the command line of a peer, None when
    somebody else starts it. ``roles`` are given under parameter servers, (worker or ps, number) for each peer: they
    then learn their roles, and one that is lost is replaced. Raises ``ProblemError`` when the nodes are not known.
    """

    def __init__(
        self,
        folder: RunFolder,
        attempt: int,
        count: int,
        hosts: JobHosts,
        places: Places,
        record: Callable[[Event], None],
        stuck: Callable[[Problem], None],
        *,
        command: CommandFor | None = None,
        limits: Limits | None = None,
        roles: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._folder = folder
        self._attempt = attempt
        self._hosts = hosts
        self._record = record
        self._stuck = stuck
        self._command = command
        self._limits = limits or Limits()
        self._serving = bool(roles)
        known = roles or [("worker", number) for number in range(1, count)]
        there = place(count, hosts)[1:]
        self._peers = [
            _Peer(Index(index), host, role=role, number=number)
            for index, (host, (role, number)) in enumerate(zip(there, known, strict=True), start=1)
        ]
        self._formed = len(self._peers)
        self._cast = False
        """Whether peers have roles, of which they must be informed."""
        self._by_identity: dict[bytes, _Peer] = {}
        self._allowed = processes.allow_list(places, folder, attempt)
        self._shared = _Shared()
        self._out: queue.SimpleQueue[tuple[Message | None, threading.Event, _Peer | None]] = queue.SimpleQueue()
        self._wakeup = WakeupPipe()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router: GuardedRouter | None = None
        self._silence = Silence(time.monotonic())
        self._keeper: PortKeeper | None = None
        self._beaten = self._lost_at = 0.0
        self._thread = threading.Thread(target=self._work, name="peers", daemon=True)

    @property
    def together(self) -> int:
        """Returns how many of the run's processes are on the chief's own node, the chief included."""
        return 1 + sum(not peer.host for peer in self._peers)

    def start(self) -> None:
        """Listen and start all peers. Raises ``ProblemError`` or ``OSError`` when that is not possible."""
        gpus = find_devices(1).gpus
        if gpus and self.together > 1 and not self._serving:
            text = f"Several processes on one node would use the same GPU ({gpus[0].name})."
            hint = "Use the strategy mirrored on one node, or ask the scheduler for as many nodes as processes."
            raise problem("peers.gpu", text, hint, "nodes")
        remote = next((peer.host for peer in self._peers if peer.host), "")
        address = address_towards(remote) if remote else LOOPBACK
        make_private(self._allowed.parent.parent)
        make_private(self._allowed.parent)
        keys = KeyPair.generate()
        allow(self._allowed, "peers", keys.public)
        silence_ms = round(1000 * self._limits.silence)
        self._router = GuardedRouter(self._context, self._allowed, address, send_queue=0, silence_ms=silence_ms)
        self._router.watch(self._wakeup.socket.fileno())
        self._keeper = PortKeeper(address)
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
        if self._command is not None:
            self._start_processes(self._command)
        self._thread.start()

    def _start_processes(self, command: CommandFor) -> None:
        for peer in self._peers:
            try:
                self._start_process(peer, command)
            except OSError as error:
                text = f"{peer.name} could not be started: {error.strerror or error}."
                raise problem("peers.start", text, "Start the run with one node.", peer.host) from None

    def _start_process(self, peer: _Peer, command: CommandFor) -> None:
        peer.started = time.monotonic()
        words = command(peer.index, peer.port)
        peer.process = PeerProcess(self._folder, peer.index, peer.host, words, self._hosts)
        started = [one.process for one in (*self._peers, peer) if one.process is not None]
        processes.note_started(self._folder, self._attempt, list(dict.fromkeys(started)))

    def gather(self, go_on: Callable[[], None] = lambda: None) -> tuple[str, ...]:
        """Wait until all have joined and are prepared; returns ``host:port`` of every worker, the chief's own first.

        ``go_on`` is called now and then and may raise. Raises ``ProblemError`` that names who is missing.
        """
        deadline = time.monotonic() + self._limits.join
        shared = self._shared
        while True:
            with shared.changed:
                shared.changed.wait_for(lambda: shared.all_prepared or shared.lost is not None, _POLL_S)
                if shared.lost is not None:
                    raise ProblemError(shared.lost)
                if shared.all_prepared:
                    return tuple(self._workers())
            go_on()
            if time.monotonic() > deadline and not shared.all_joined:
                raise ProblemError(*self._missing())

    def form(self, go_on: Callable[[], None] = lambda: None) -> dict[str, tuple[str, ...]]:
        """Under parameter servers: have all peers be what they are, and wait until they are it.

        Returns the addresses (``host:port``) of TensorFlow's cluster by job. Raises ``ProblemError``.
        """
        if self._keeper is not None and len(self._peers) != self._formed:
            self._keeper.release()  # TensorFlow makes a new server for another set of processes, and keeps the old one
            self._keeper = PortKeeper(self._keeper.address)
        self._formed = len(self._peers)
        self._put(None)
        shared = self._shared
        while True:
            with shared.changed:
                shared.changed.wait_for(lambda: shared.all_built or shared.lost is not None, _POLL_S)
                if shared.lost is not None:
                    raise ProblemError(shared.lost)
                if shared.all_built:
                    return self._cluster()
            go_on()

    def _cluster(self) -> dict[str, tuple[str, ...]]:
        if self._keeper is None:
            raise RuntimeError("the peers were not started")
        jobs = {"chief": [f"{self._keeper.address}:{self._keeper.port}"], "worker": list[str](), "ps": list[str]()}
        for peer in sorted(self._peers, key=lambda one: one.number):
            if peer.joined is not None:
                jobs[peer.role].append(f"{peer.joined.address}:{peer.joined.port}")
        return {job: tuple(addresses) for job, addresses in jobs.items()}

    @property
    def servers_lost(self) -> int:
        """Returns how many parameter servers were lost until now, and replaced or being replaced."""
        with self._shared.changed:
            return self._shared.servers_lost

    @property
    def complete(self) -> bool:
        """Whether all peers are what they are to be in the cluster."""
        with self._shared.changed:
            return self._shared.all_built

    def add(self) -> None:
        """Start one more worker. Raises ``OSError``."""
        number, index = self.roles()["worker"], len(self._peers) + 1
        peer = _Peer(Index(index), place(index + 1, self._hosts)[-1], role="worker", number=number, added=True)
        if self._command is not None:
            self._start_process(peer, self._command)
        with self._shared.changed:
            self._peers.append(peer)
            self._shared.all_built = False

    def roles(self) -> dict[str, int]:
        """Returns how many peers there are in each role."""
        found = [peer.role for peer in self._peers]
        return {role: found.count(role) for role in dict.fromkeys(found)}

    def slow(self, number: int, factor: float) -> None:
        """Have the journal say that this worker is slowed from now on."""
        peer = next(one for one in self._peers if (one.role, one.number) == ("worker", number))
        peer.factor = factor
        self._record_peer(peer, "slowed")

    def kill(self, role: str, number: int) -> None:
        """Have a peer end by SIGKILL."""
        peer = next(one for one in self._peers if (one.role, one.number) == (role, number))
        peer.asked_to_die = True
        self._put(Die(), peer)

    def _workers(self) -> Iterator[str]:
        if self._keeper is None:
            raise RuntimeError("the peers were not started")
        yield f"{self._keeper.address}:{self._keeper.port}"
        for peer in self._peers:
            if peer.joined is not None:
                yield f"{peer.joined.address}:{peer.joined.port}"

    def _missing(self) -> list[Problem]:
        found = []
        for peer in self._peers:
            if peer.joined is None:
                text = f"{peer.name} did not answer within {self._limits.join:.0f} s of its start."
                text += _printed(self._folder, peer.index)
                hint = "Check that this node works and sees the run's folder, or start the run on fewer nodes."
                found.append(Problem("peers.missing", text, hint, peer.host))
        return found

    def send(self, message: Message) -> None:
        """Say something to all peers; returns when it is handed over. Raises ``ProblemError`` when one is lost.

        TensorFlow may hold up all threads of this process from the next moment on.
        """
        self.check()
        said = self._put(message)
        while not said.wait(_POLL_S):
            self.check()

    def _put(self, message: Message | None, peer: _Peer | None = None) -> threading.Event:
        """Have the thread send ``message`` to ``peer``, or to all; None means each one's place in the cluster."""
        said = threading.Event()
        self._out.put((message, said, peer))
        self._wakeup.wake()
        return said

    def lead(self, first: int, count: int, live: Sequence[float]) -> None:
        """Have all peers do this block as well."""
        self.send(Block(first=first, count=count, live=tuple(live)))

    def check(self) -> None:
        """Raise ``ProblemError`` when a peer is lost."""
        with self._shared.changed:
            if self._shared.lost is not None:
                self._shared.noticed = True
                raise ProblemError(self._shared.lost)

    def release_port(self) -> None:
        """Gives up the port that was kept for TensorFlow: its server of this process runs."""
        if self._keeper is not None:
            self._keeper.release()

    def reason(self, unreachable: bool = False) -> Problem | None:
        """Says why a step failed, if that was a peer's end; waits for the news of it.

        ``unreachable``: TensorFlow says that somebody is gone. A node without power says nothing itself: it is known
        when its peer has been silent for long enough.
        """
        shared = self._shared
        within = max(_COMPUTING_S, self._limits.silence) if unreachable else _COMPUTING_S
        with shared.changed:
            shared.changed.wait_for(lambda: shared.lost is not None, within + 1.0)
            shared.noticed = True
            return shared.lost

    def close(self) -> None:
        """Make all peers end, wait for that, and kill those that do not; then all their events have been passed on."""
        with self._shared.changed:
            self._shared.noticed = True
        if self._thread.is_alive():
            self._put(Leave())
            self._thread.join()
        else:
            self._end_all()
        if self._router is not None:
            self._router.close()
        self.release_port()
        self._context.term()
        self._wakeup.close()
        processes.clear(self._folder, self._attempt)
        shutil.rmtree(self._allowed, ignore_errors=True)

    # In the thread.

    def _work(self) -> None:
        try:
            while self._turn():
                pass
            self._wait_for_leaving()
        finally:
            self._end_all()

    def _turn(self) -> bool:
        """Receive, send and check. False when all must leave."""
        router = self._router
        if router is None:
            return False
        messages = router.poll(_POLL_S)
        self._wakeup.clear()
        self._silence.look(time.monotonic())
        for identity, _, payload in messages:
            self._hear(identity, payload)
        while not self._out.empty():
            message, said, peer = self._out.get()
            if message is None:
                self._cast = True
            else:
                self._say(message, self._peers if peer is None else [peer])
            said.set()
            if isinstance(message, Leave):
                return False
        if self._cast:
            self._give_places()
        self._beat()
        self._look()
        return True

    def _give_places(self) -> None:
        """Inform the peers of their roles."""
        if not all(peer.prepared for peer in self._peers):  # then the places of all are known
            return
        for peer in [one for one in self._peers if one.prepared]:
            if not peer.placed:
                peer.placed = True
                self._say(Serve(job=peer.role, number=peer.number, cluster=self._cluster()), [peer])

    def _hear(self, identity: bytes, payload: bytes) -> None:
        try:
            message = decode_from_peer(payload)
        except msgspec.DecodeError:
            return
        if isinstance(message, Join):
            self._welcome(identity, message)
        peer = self._by_identity.get(identity)
        if peer is None:
            return
        self._silence.received(peer.index)
        if isinstance(message, Prepared):
            peer.prepared = True
            self._note(prepared=all(one.prepared for one in self._peers))
        elif isinstance(message, Built):
            peer.built, peer.replaced = True, 0
            self._note(built=all(one.built for one in self._peers))
        elif isinstance(message, Complaint) and peer.complaint is None:
            peer.complaint, peer.complained = message, time.monotonic()

    def _welcome(self, identity: bytes, join: Join) -> None:
        peer = next((one for one in self._peers if one.index == join.index), None)
        if peer is None or peer.joined is not None:
            return
        peer.identity, peer.joined = identity, join
        self._by_identity[identity] = peer
        self._silence.received(peer.index)
        self._record_peer(peer, "replaced" if peer.replaced else "joined")
        peer.port = join.port
        self._note(joined=len(self._by_identity) == len(self._peers))

    def _note(self, joined: bool = False, prepared: bool = False, built: bool = False) -> None:
        with self._shared.changed:
            self._shared.all_joined |= joined
            self._shared.all_prepared |= prepared
            self._shared.all_built = self._shared.all_built or built
            self._shared.changed.notify_all()

    def _record_peer(self, peer: _Peer, status: str) -> None:
        joined = peer.joined
        event = Peer(
            role=peer.role,
            index=peer.number,
            host=joined.host if joined is not None else peer.host or operating_system.host_name(),
            address=joined.address if joined is not None else "",
            port=joined.port if joined is not None else 0,
            pid=joined.pid if joined is not None else 0,
            devices=joined.devices if joined is not None else (),
            status=status,
            factor=peer.factor,
        )
        with suppress(ProblemError):  # the disk refuses; the trainer learns that by itself
            self._record(event)

    def _say(self, message: Message, peers: Sequence[_Peer]) -> None:
        payload = encode(message)
        for peer in peers:
            if peer.identity and self._router is not None:
                there = self._router.send(peer.identity, _NUMBER, payload)
                peer.cut = 0.0 if there else peer.cut or time.monotonic()

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beaten >= BEAT_S:
            self._beaten = now
            self._say(Beat(), self._peers)

    def _look(self) -> None:
        if self._shared.lost is None:
            found = next(((peer, why) for peer in self._peers if (why := self._why_lost(peer))), None)
            if found is not None and found[0].added and not found[0].port:
                self._drop(*found)
            elif found is not None and self._replaceable(found[0]):
                self._replace(*found)
            elif found is not None:
                self._lose(*found)
        elif not self._shared.noticed and time.monotonic() - self._lost_at > self._limits.grace:
            self._end_all()
            self._stuck(self._shared.lost)

    def _why_lost(self, peer: _Peer) -> Problem | None:
        code = peer.process.exit_code() if peer.process is not None else None
        if code is not None:
            return self._end_of(peer, code)
        if peer.complaint is not None:
            waits = _COMPUTING_S if peer.complaint.computing else 0.0
            if time.monotonic() - peer.complained >= waits:
                return self._complained(peer, peer.complaint.problem)
        late = peer.joined is None and self._cast and time.monotonic() - peer.started > self._limits.join
        if late:
            text = f"{peer.name} did not answer within {self._limits.join:.0f} s of its start."
            return _lost(text, "Check that its node works and sees the run's folder.", peer)
        silent = self._silence.seconds(peer.index) if peer.joined is not None else 0.0
        cut = peer.cut and time.monotonic() - peer.cut > _CUT_S
        if silent <= self._most_silence(peer) and not cut:
            return None
        text = f"{peer.name} has said nothing for {silent:.0f} s and was ended."
        return _lost(text, "Its process or node is frozen, or the network between the nodes is cut.", peer)

    def _most_silence(self, peer: _Peer) -> float:
        if peer.built:
            return self._limits.silence
        return max(self._limits.silence, _MEET_SILENCE_S if peer.prepared else _IMPORT_SILENCE_S)

    def _end_of(self, peer: _Peer, code: int) -> Problem:
        if peer.complaint is not None and not peer.complaint.computing:
            return self._complained(peer, peer.complaint.problem)
        name = operating_system.signal_name(code)
        how = f"was killed ({name})" if name == "SIGKILL" else f"died of {name}" if name else ""
        if peer.joined is None:
            text = f"{peer.name} {how or f'ended with exit code {code}'} before it joined the run."
        else:
            text = f"{peer.name} {how or f'ended with exit code {code}'}."
        if name == "SIGKILL":
            hint = "A person killed it, or its node ran out of memory."
        else:
            text += _printed(self._folder, peer.index)
            hint = f"Its output is in peers/{peer.index:04d}.log."
        return _lost(text, hint, peer)

    def _complained(self, peer: _Peer, found: Problem) -> Problem:
        return msgspec.structs.replace(found, text=f"{peer.name}: {found.text}")

    def _drop(self, peer: _Peer, why: Problem) -> None:
        """Drops a peer that was added and never came: the others go on as they were."""
        self._record_peer(peer, "lost")
        with suppress(ProblemError):  # the disk refuses; the trainer learns that by itself
            self._record(Log(text=f"{why.text} The others go on without it.", level="warning"))
        if peer.process is not None:
            peer.process.ask_to_end()
        with self._shared.changed:
            self._peers.remove(peer)
            self._shared.all_built = all(one.built for one in self._peers)

    def _replaceable(self, peer: _Peer) -> bool:
        """Whether another process can do a peer's work: under parameter servers, as soon as all have been at work
        once."""
        return self._cast and peer.port > 0 and self._command is not None and peer.replaced < _MOST_REPLACEMENTS

    def _replace(self, peer: _Peer, why: Problem) -> None:
        with self._shared.changed:
            self._shared.servers_lost += peer.role == "ps"
            self._shared.all_built = False
        self._record_peer(peer, "killed" if peer.asked_to_die else "lost")
        with suppress(ProblemError):  # the disk refuses; the trainer learns that by itself
            self._record(Log(text=f"{why.text} Another process takes its place.", level="warning"))
        if peer.process is not None:
            with suppress(subprocess.TimeoutExpired):  # a dead disk; it cannot be at work any more
                peer.process.end(_REPLACE_S)
        self._by_identity.pop(peer.identity, None)
        self._silence.forget(peer.index)
        peer.start_over()
        peer.replaced += 1
        if self._command is not None:
            try:
                self._start_process(peer, self._command)
            except OSError as error:
                self._lose(peer, _lost(f"{peer.name} could not be started: {error}.", "", peer))

    def _lose(self, peer: _Peer, why: Problem) -> None:
        self._lost_at = time.monotonic()
        peer.ended = True
        self._record_peer(peer, "lost")
        if peer.process is not None:
            peer.process.ask_to_end()
        with self._shared.changed:
            self._shared.lost = why
            self._shared.changed.notify_all()

    def _wait_for_leaving(self) -> None:
        """Waits for peers to leave. A peer ends when asked to, unless it is in a step that never ends."""
        started = [peer.process for peer in self._peers if peer.process is not None]
        healthy = self._shared.lost is None
        deadline = time.monotonic() + (_LEAVE_S if healthy else 1.0)
        while any(process.exit_code() is None for process in started) and time.monotonic() < deadline:
            if self._router is not None:
                self._router.poll(0.05)

    def _end_all(self) -> None:
        if self._shared.ended:
            return
        self._shared.ended = True
        running = [peer.process for peer in self._peers if peer.process is not None]
        for process in running:
            process.ask_to_end()
        for process in running:
            process.end()
        for peer in self._peers:
            if peer.joined is not None and not peer.ended:
                peer.ended = True
                self._record_peer(peer, "ended")


def _lost(text: str, hint: str, peer: _Peer) -> Problem:
    host = peer.joined.host if peer.joined is not None else peer.host
    continued = "Continue the run: it goes on from its last checkpoint, or begins again if it has none."
    return Problem("peers.lost", text, f"{hint} {continued}", host)


def _printed(folder: RunFolder, index: Index) -> str:
    last = tail(log_of(folder, index))
    return f" Last output:\n{last}\n" if last else ""
