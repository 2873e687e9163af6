"""The peers of one attempt as their chief knows them: who they are, how far they have come, and who is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from clew_agent.node.pulse.batches import PulseBatch
from clew_agent.node.pulse.sampler import Sample
from clew_agent.peers.messages import Complaint, Index, Join
from clew_agent.peers.processes import PeerProcess, PeerStarter
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.events import Event, Peer


@dataclass
class Member:
    """A peer. ``process`` is None until it is started."""

    index: Index
    host: str
    role: str = "worker"
    number: int = 0
    added: bool = False
    """Whether it came while the others trained: they can do without it."""
    process: PeerProcess | None = None
    started: float = 0.0
    identity: bytes = b""
    joined: Join | None = None
    prepared: bool = False
    placed: bool = False
    built: bool = False
    ended: bool = False
    complaint: Complaint | None = None
    complained: float = 0.0
    cut: float = 0.0
    port: int = 0
    """The port at which TensorFlow reaches it; a process that replaces it keeps it."""
    replaced: int = 0
    """Number of processes that have taken its place since it last was at work."""
    asked_to_die: bool = False
    factor: float = 1.0
    samples: PulseBatch | None = None
    """What was sampled of it and is not in the journal yet."""

    @property
    def node(self) -> str:
        """Returns the name of its node, which may call itself otherwise than the scheduler does."""
        return self.joined.host if self.joined is not None else self.host or operating_system.host_name()

    @property
    def name(self) -> str:
        """Returns the name that people see, also in the window: ``Worker 1 on node2 (process 4711)``."""
        pid = f" (process {self.joined.pid})" if self.joined is not None else ""
        return f"{'Server' if self.role == 'ps' else 'Worker'} {self.number} on {self.node}{pid}"

    @property
    def state(self) -> str:
        """Says how far it has come."""
        if self.ended or self.complaint is not None:
            return "has failed"
        if self.built:
            return "at work"
        return "ready" if self.prepared else "has joined" if self.joined is not None else "has not joined yet"

    @property
    def address(self) -> str:
        """Returns ``host:port`` for TensorFlow; empty before it has joined."""
        return f"{self.joined.address}:{self.joined.port}" if self.joined is not None else ""

    def event(self, status: str) -> Peer:
        """What the journal says of it."""
        joined = self.joined
        return Peer(
            role=self.role,
            index=self.number,
            host=self.node,
            address=joined.address if joined is not None else "",
            port=joined.port if joined is not None else 0,
            pid=joined.pid if joined is not None else 0,
            devices=joined.devices if joined is not None else (),
            status=status,
            factor=self.factor,
        )

    def sampled(self, sample: Sample) -> list[Event]:
        """Takes a sample of it; returns the events that are due with it."""
        self.samples = self.samples or PulseBatch(f"{self.role} {self.number}", self.node)
        return self.samples.add(sample)

    def start(self, starter: PeerStarter) -> None:
        """Start its process. Raises ``OSError``."""
        self.started = time.monotonic()
        self.process = starter.start(self.index, self.host, self.port)

    def start_over(self) -> None:
        """Forgets everything about the process that was here."""
        self.process, self.identity, self.joined = None, b"", None
        self.prepared = self.built = self.placed = self.asked_to_die = False
        self.complaint, self.cut = None, 0.0
        self.replaced += 1


class Members:
    """All peers of an attempt. The trainer's thread asks and waits; the thread of ``Peers`` says what happened."""

    def __init__(self, members: Iterable[Member]) -> None:
        self.all = list(members)
        self.has_roles = False
        """Whether they have roles, of which they must be informed."""
        self.all_joined = self.all_prepared = self.all_built = False
        self.lost: Problem | None = None
        self.noticed = False
        """Whether the trainer knows that one is lost."""
        self.servers_lost = 0
        self._changed = threading.Condition()

    @property
    def together(self) -> int:
        """Returns how many of the run's processes are on the chief's own node, the chief included."""
        return 1 + sum(not one.host for one in self.all)

    @property
    def states(self) -> str:
        """Says how far each peer has come."""
        return "; ".join(f"{one.name}: {one.state}" for one in self.all) + "."

    def roles(self) -> dict[str, int]:
        """Returns how many peers there are in each role."""
        found = [one.role for one in self.all]
        return {role: found.count(role) for role in dict.fromkeys(found)}

    def find(self, role: str, number: int) -> Member:
        """The peer in this role."""
        return next(one for one in self.all if (one.role, one.number) == (role, number))

    def with_identity(self, identity: bytes) -> Member | None:
        """The peer that a message with this identity comes from; None for one that has not joined."""
        return next((one for one in self.all if identity and one.identity == identity), None)

    def addresses(self, role: str) -> tuple[str, ...]:
        """Returns the addresses of the peers in a role, by number."""
        there = sorted((one for one in self.all if one.role == role and one.joined), key=lambda one: one.number)
        return tuple(one.address for one in there)

    # What the trainer's thread asks.

    def check(self) -> None:
        """Raises ``ProblemError`` when one is lost."""
        with self._changed:
            if self.lost is not None:
                self.noticed = True
                raise ProblemError(self.lost)

    def wait(self, ready: Callable[[], bool], within: float) -> bool:
        """Waits until it is ``ready``; whether it is. Raises ``ProblemError`` when one is lost."""
        with self._changed:
            self._changed.wait_for(lambda: ready() or self.lost is not None, within)
            if self.lost is not None:
                raise ProblemError(self.lost)
            return ready()

    def loss(self, within: float) -> Problem | None:
        """Waits for the news that one is lost; from now on the trainer knows it."""
        with self._changed:
            self._changed.wait_for(lambda: self.lost is not None, within)
            self.noticed = True
            return self.lost

    # What has happened to them.

    def join(self, join: Join, identity: bytes) -> Member | None:
        """Notes that a process has joined; None when none is expected there."""
        member = next((one for one in self.all if one.index == join.index), None)
        if member is None or member.joined is not None:
            return None
        with self._changed:
            member.identity, member.joined, member.port = identity, join, join.port
            self._note()
        return member

    def note_prepared(self, member: Member) -> None:
        """Notes that it has imported TensorFlow and read the data."""
        with self._changed:
            member.prepared = True
            self._note()

    def note_built(self, member: Member) -> None:
        """Notes that it is at work."""
        with self._changed:
            member.built, member.replaced = True, 0
            self._note()

    def add(self, member: Member) -> None:
        """Takes in one more."""
        with self._changed:
            self.all.append(member)
            self.all_built = False

    def drop(self, member: Member) -> None:
        """Leaves one out that never came."""
        with self._changed:
            self.all.remove(member)
            self._note()

    def note_replaced(self, member: Member) -> None:
        """Notes that another process is about to take its place."""
        with self._changed:
            self.servers_lost += member.role == "ps"
            self.all_built = False

    def lose(self, member: Member, why: Problem) -> None:
        """Notes that one is lost for good, and the attempt with it."""
        with self._changed:
            member.ended = True
            self.lost = why
            self._changed.notify_all()

    def _note(self) -> None:
        """Joined and prepared are said once: a process that takes another's place does not undo them."""
        self.all_joined |= all(one.joined is not None for one in self.all)
        self.all_prepared |= all(one.prepared for one in self.all)
        self.all_built = all(one.built for one in self.all)
        self._changed.notify_all()


def in_step(count: int) -> Sequence[tuple[str, int]]:
    """The roles of the peers of a run whose ``count`` processes all do the same; the chief is worker 0."""
    return [("worker", number) for number in range(1, count)]
