"""The messages between a run's chief and its peers, and the file from which a peer learns where its chief listens.

The chief is the run's trainer, worker 0. All peers of one attempt share one key, which lies with the address in an
owner-only file of the run folder: the run folder is what all nodes of a job can read.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import NewType

import msgspec

from clew_agent.node.pulse.sampler import Sample
from clew_shared.base.foreign import from_json
from clew_shared.base.private_files import write_private
from clew_shared.base.problem import Problem, problem
from clew_shared.journal.run_folder import RunFolder

Index = NewType("Index", int)
"""A process's number in its run: 0 is the chief, peers count from 1."""
CHIEF = Index(0)
BEAT_S = 1.0
"""Seconds between two signs of life of each side."""
SILENCE_S = 10.0
"""Seconds of silence after which a process counts as frozen, or its node as gone."""
GAP_S = 2.5
"""A process that did not run for so long itself may not blame others for a silence: a whole job can be suspended, a
laptop sleeps."""
_APPEARS_S = 10.0
"""Seconds by which a shared file system may show a new file later on another node."""


class ChiefAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address where the chief listens, its public key, the key pair that lets a peer in, and the chief's
    process."""

    address: str
    port: int
    chief_key: str
    public_key: str
    secret_key: str
    pid: int = 0
    boot: str = ""

    def __repr__(self) -> str:
        return f"ChiefAddress({self.address}:{self.port})"


def folder_of(folder: RunFolder) -> Path:
    """Returns the folder of a run's peers: their output, and while they run the file with the address."""
    return folder.path / "peers"


def log_of(folder: RunFolder, index: Index) -> Path:
    """The output of a peer, over all attempts."""
    return folder_of(folder) / f"{index:04d}.log"


def address_file(folder: RunFolder, attempt: int) -> Path:
    """The owner-only file with the address; it lasts as long as the attempt's peers."""
    return folder_of(folder) / f".chief-{attempt:04d}.json"


def write_address(folder: RunFolder, attempt: int, address: ChiefAddress) -> None:
    """Say where the chief listens. Raises ``OSError``."""
    folder_of(folder).mkdir(mode=0o700, exist_ok=True)
    write_private(address_file(folder, attempt), msgspec.json.encode(address))


def read_address(folder: RunFolder, attempt: int) -> ChiefAddress:
    """Reads where the chief listens. Raises ``ProblemError`` when the file does not appear within seconds."""
    path = address_file(folder, attempt)
    deadline = time.monotonic() + _APPEARS_S
    while True:
        with suppress(OSError, msgspec.DecodeError):
            found: ChiefAddress = from_json(path.read_bytes(), ChiefAddress)
            return found
        if time.monotonic() > deadline:
            text = f"{path} cannot be read on this node, so this process cannot find its run."
            raise problem("peers.address", text, "The run's folder must be on a file system that all nodes share.")
        time.sleep(0.05)


class Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of all messages. By itself it says: I am here."""


class Beat(Message, frozen=True, kw_only=True, tag="beat"):
    """A sign of life, sent both ways, every second, from a thread that does nothing else."""


class Join(Message, frozen=True, kw_only=True, tag="join"):
    """First message of a peer: who it is, and the port that it keeps for TensorFlow."""

    index: int
    host: str
    address: str
    port: int
    pid: int
    devices: tuple[str, ...] = ()


class Prepared(Message, frozen=True, kw_only=True, tag="prepared"):
    """A peer's message that TensorFlow is imported and the data are read; what is left is done together with the
    others."""


class Built(Message, frozen=True, kw_only=True, tag="built"):
    """A peer's message that its model is built and compiled, and has restored its checkpoint if it got one."""


class Sampled(Message, frozen=True, kw_only=True, tag="sampled"):
    """A peer's message of what its process and its node did (``node.pulse``)."""

    sample: Sample


class Complaint(Message, frozen=True, kw_only=True, tag="complaint"):
    """A message of a peer that cannot go on. ``computing``: it happened in a step, and another process may be the
    reason."""

    problem: Problem
    computing: bool = False


class Cluster(Message, frozen=True, kw_only=True, tag="cluster"):
    """The message to a peer when all are prepared: ``host:port`` of every worker, the chief's first. ``restore`` is the
    checkpoint (a path below the run folder, empty for none) with which the attempt begins."""

    workers: tuple[str, ...]
    restore: str = ""


class Block(Message, frozen=True, kw_only=True, tag="block"):
    """The message that tells a peer to do ``count`` steps from step ``first`` with these live values. All processes do
    the same blocks."""

    first: int
    count: int
    live: tuple[float, ...] = ()


class Serve(Message, frozen=True, kw_only=True, tag="serve"):
    """The message to a peer under parameter servers, when all are prepared: what it is in TensorFlow's cluster, whose
    addresses (``host:port``) are given by job (chief, worker, ps)."""

    job: str
    number: int
    cluster: dict[str, tuple[str, ...]]


class Die(Message, frozen=True, kw_only=True, tag="die"):
    """The message that tells a peer to end by SIGKILL, because somebody wants to see what happens then."""


class Leave(Message, frozen=True, kw_only=True, tag="leave"):
    """The message to a peer that the attempt is over."""


FromPeer = Beat | Join | Prepared | Built | Sampled | Complaint
FromChief = Beat | Cluster | Block | Serve | Die | Leave


def encode(message: Message) -> bytes:
    """The message as msgpack bytes."""
    return msgspec.msgpack.encode(message)


def decode_from_peer(data: bytes) -> FromPeer:
    """A peer's message. Raises ``msgspec.DecodeError``."""
    found: FromPeer = msgspec.msgpack.decode(data, type=FromPeer)
    return found


def decode_from_chief(data: bytes) -> FromChief:
    """The chief's message. Raises ``msgspec.DecodeError``."""
    found: FromChief = msgspec.msgpack.decode(data, type=FromChief)
    return found


class Silence:
    """Measures for how long each of the others has said nothing, while this process itself was running."""

    def __init__(self, now: float) -> None:
        self._looked = now
        self._slept = 0.0
        self._last_message: dict[int, float] = {}

    def look(self, now: float) -> None:
        """Checks the clock; to be called often. A pause between two calls was a pause of this process."""
        if now - self._looked > GAP_S:
            self._slept += now - self._looked
        self._looked = now

    def received(self, index: int) -> None:
        """Notes that a message of this one has arrived."""
        self._last_message[index] = self._looked - self._slept

    def forget(self, index: int) -> None:
        """Forgets what is known: another process has this number from now on."""
        self._last_message.pop(index, None)

    def seconds(self, index: int) -> float:
        """Returns for how many seconds it has sent nothing; 0 for one that has never sent anything."""
        now = self._looked - self._slept
        return now - self._last_message.get(index, now)
