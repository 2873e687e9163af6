"""The chief's side: starts the peers of a run, waits until all have joined, leads them, watches them and ends them.

TensorFlow itself waits an hour for a process that is missing, and for ever for one that is frozen. So peers join here
first, within a deadline, and each says every second that it is there. One thread does all of it: it receives and sends
while the trainer's own thread is inside TensorFlow, and when a peer is lost and TensorFlow does not come back, it ends
the trainer with a sentence that says why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from clew_agent.node.devices import find_devices
from clew_agent.peers import processes
from clew_agent.peers.chief_socket import ChiefSocket
from clew_agent.peers.hosts import JobHosts, place
from clew_agent.peers.members import Member, Members, in_step
from clew_agent.peers.messages import (
    Block,
    Built,
    Complaint,
    Die,
    Index,
    Join,
    Leave,
    Message,
    Prepared,
    Sampled,
    Serve,
    decode_from_peer,
)
from clew_agent.peers.processes import PeerStarter, PortKeeper, StartPeer, spawn
from clew_agent.peers.watch import COMPUTING_S, Limits, Watch
from clew_agent.wire.rendezvous import LOOPBACK, address_towards
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, os_refused, problem
from clew_shared.journal.events import Event
from clew_shared.journal.run_folder import RunFolder

_LEAVE_S = 5.0
"""Seconds that peers get to end by themselves; one that hangs in TensorFlow never would."""
_POLL_S = 0.2
"""Seconds between two looks at requests to stop while something else is waited for."""


class Peers:
    """The peers of one attempt: all workers but the chief. ``start``, ``gather``, ``send`` for each block, ``close``.

    ``record`` takes the events for the journal, ``stuck`` ends this process when a peer is lost and the trainer hangs
    in TensorFlow; both are called in the thread of this object. ``start_here`` starts those of this node. ``roles``
    are given under parameter servers, (worker or ps, number) for each peer: they then learn their roles, and one that
    is lost is replaced. ``members`` are all of them. Raises ``ProblemError`` when the nodes are not known.
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
        exercises: Path | None = None,
        start_here: StartPeer = spawn,
        limits: Limits | None = None,
        roles: Sequence[tuple[str, int]] = (),
    ) -> None:
        self._folder, self._attempt = folder, attempt
        self._hosts = hosts
        self._stuck = stuck
        self._limits: Final = limits or Limits()
        self._serving = bool(roles)
        known = zip(place(count, hosts)[1:], roles or in_step(count), strict=True)
        self.members = Members(
            Member(Index(index), host, role, number) for index, (host, (role, number)) in enumerate(known, start=1)
        )
        self._formed = len(self.members.all)
        self._starter = PeerStarter(folder, attempt, hosts, exercises, start_here)
        self._watch = Watch(folder, self.members, self._starter, self._limits, record)
        self._socket = ChiefSocket(folder, attempt, places)
        self._keeper: PortKeeper | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="peers", daemon=True)

    def start(self) -> None:
        """Listen and start all peers. Raises ``ProblemError`` or ``OSError`` when that is not possible."""
        gpus = find_devices(1).gpus
        if gpus and self.members.together > 1 and not self._serving:
            text = f"Several processes on one node would use the same GPU ({gpus[0].name})."
            hint = "Use the strategy mirrored on one node, or ask the scheduler for as many nodes as processes."
            raise problem("peers.gpu", text, hint, "nodes")
        remote = next((one.host for one in self.members.all if one.host), "")
        address = address_towards(remote) if remote else LOOPBACK
        self._socket.open(address, self._limits.silence)
        self._keeper = PortKeeper(address)
        for member in self.members.all:
            text = f"{member.name} could not be started"
            with os_refused("peers.start", text, "Start the run with one node.", member.host):
                member.start(self._starter)
        self._thread.start()

    def gather(self, go_on: Callable[[], None] = lambda: None) -> tuple[str, ...]:
        """Wait until all have joined and are prepared; returns ``host:port`` of every worker, the chief's own first.

        ``go_on`` is called now and then and may raise. Raises ``ProblemError`` that names who is missing.
        """
        deadline = time.monotonic() + self._limits.join
        while not self.members.wait(lambda: self.members.all_prepared, _POLL_S):
            go_on()
            if time.monotonic() > deadline and not self.members.all_joined:
                raise ProblemError(*self._watch.missing())
        return (self._own_address, *(one.address for one in self.members.all))

    def form(self, go_on: Callable[[], None] = lambda: None) -> dict[str, tuple[str, ...]]:
        """Gives every peer its role and waits until all serve.

        Returns the addresses (``host:port``) of TensorFlow's cluster by job. Raises ``ProblemError``.
        """
        if self._keeper is not None and len(self.members.all) != self._formed:
            self._keeper.release()  # TensorFlow makes a new server for another set of processes, and keeps the old one
            self._keeper = PortKeeper(self._keeper.address)
        self._formed = len(self.members.all)
        self.members.has_roles = True
        self._socket.wake()
        while not self.members.wait(lambda: self.members.all_built, _POLL_S):
            go_on()
        return self._cluster()

    @property
    def _own_address(self) -> str:
        if self._keeper is None:
            raise RuntimeError("the peers were not started")
        return f"{self._keeper.address}:{self._keeper.port}"

    def _cluster(self) -> dict[str, tuple[str, ...]]:
        return {"chief": (self._own_address,), **{job: self.members.addresses(job) for job in ("worker", "ps")}}

    def release_port(self) -> None:
        """Gives up the port that was kept for TensorFlow: its server of this process runs."""
        if self._keeper is not None:
            self._keeper.release()

    def add(self) -> None:
        """Start one more worker. Raises ``OSError``."""
        index = Index(len(self.members.all) + 1)
        member = Member(index, place(index + 1, self._hosts)[-1], number=self.members.roles()["worker"], added=True)
        member.start(self._starter)
        self.members.add(member)

    # --- What they are told -------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Say something to all peers; returns when it is handed over. Raises ``ProblemError`` when one is lost.

        TensorFlow may hold up all threads of this process from the next moment on.
        """
        self.members.check()
        said = self._socket.put(message)
        while not said.wait(_POLL_S):
            self.members.check()

    def lead(self, first: int, count: int, live: Sequence[float]) -> None:
        """Have all peers do this block as well."""
        self.send(Block(first=first, count=count, live=tuple(live)))

    def slow(self, number: int, factor: float) -> None:
        """Have the journal say that this worker is slowed from now on."""
        member = self.members.find("worker", number)
        member.factor = factor
        self._watch.note(member, "slowed")

    def kill(self, role: str, number: int) -> None:
        """Have a peer end by SIGKILL."""
        member = self.members.find(role, number)
        member.asked_to_die = True
        self._socket.put(Die(), member)

    # --- Whether they are well ----------------------------------------------------------------------------------------

    def reason(self, unreachable: bool = False) -> Problem | None:
        """Says why a step failed, if that was a peer's end; waits for the news of it.

        ``unreachable``: TensorFlow says that somebody is gone. A node without power says nothing itself: it is known
        when its peer has been silent for long enough.
        """
        return self.members.loss(1.0 + (max(COMPUTING_S, self._limits.silence) if unreachable else COMPUTING_S))

    def close(self) -> None:
        """Make all peers end, wait for that, and kill those that do not; then all their events have been passed on."""
        self.members.noticed = True
        if self._thread.is_alive():
            self._socket.put(Leave())
            self._thread.join()
        else:
            self._end_all()
        self._socket.close()
        self.release_port()
        processes.clear(self._folder, self._attempt)

    # --- In the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._turn():
                pass
            self._wait_for_leaving()
        finally:
            self._end_all()

    def _turn(self) -> bool:
        """Receive, send and look. False when all must leave."""
        messages = self._socket.receive(_POLL_S)
        self._watch.awake()
        for identity, payload in messages:
            self._hear(identity, payload)
        for message, said, member in self._socket.outgoing():
            self._socket.send(message, self.members.all if member is None else [member])
            said.set()
            if isinstance(message, Leave):
                return False
        if self.members.has_roles:
            self._give_places()
        self._socket.beat(self.members.all)
        hung = self._watch.look()
        if hung is not None:
            self._end_all()
            self._stuck(hung)
        return True

    def _hear(self, identity: bytes, payload: bytes) -> None:
        try:
            message = decode_from_peer(payload)
        except msgspec.DecodeError:
            return
        if isinstance(message, Join):
            self._welcome(identity, message)
        member = self.members.with_identity(identity)
        if member is None:
            return
        self._watch.received(member)
        if isinstance(message, Prepared):
            self.members.note_prepared(member)
        elif isinstance(message, Built):
            self.members.note_built(member)
        elif isinstance(message, Sampled):
            self._watch.sampled(member, message.sample)
        elif isinstance(message, Complaint):
            self._watch.complained(member, message)

    def _welcome(self, identity: bytes, join: Join) -> None:
        member = self.members.join(join, identity)
        if member is not None:
            self._watch.note(member, "replaced" if member.replaced else "joined")

    def _give_places(self) -> None:
        """Inform the peers of their roles, once the places of all are known."""
        if not all(one.prepared for one in self.members.all):
            return
        for member in (one for one in self.members.all if not one.placed):
            member.placed = True
            self._socket.send(Serve(job=member.role, number=member.number, cluster=self._cluster()), [member])

    def _wait_for_leaving(self) -> None:
        """Waits for peers to leave. A peer ends when asked to, unless it is in a step that never ends."""
        started = [one.process for one in self.members.all if one.process is not None]
        deadline = time.monotonic() + (_LEAVE_S if self.members.lost is None else 1.0)
        while any(process.exit_code() is None for process in started) and time.monotonic() < deadline:
            self._socket.receive(0.05)

    def _end_all(self) -> None:
        if self._ended:
            return
        self._ended = True
        running = [one.process for one in self.members.all if one.process is not None]
        for process in running:
            process.ask_to_end()
        for process in running:
            process.end()
        for member in self.members.all:
            if member.joined is not None and not member.ended:
                member.ended = True
                self._watch.note(member, "ended")
