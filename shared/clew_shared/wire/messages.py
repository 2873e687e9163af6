"""Requests and replies on the wire between a viewer and an agent, and between a supervisor and a trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from clew_shared.base.foreign import from_msgpack, read_json
from clew_shared.base.problem import Problem
from clew_shared.cards import Catalogue, PictureSpec
from clew_shared.journal.events import Histogram, Image, Matrix
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec

PROTOCOL_VERSION = (1, 4)
MAX_REQUEST_BYTES = 64 * 1024
MAX_FETCH_BYTES = 256 * 1024
MAX_TRIED_BYTES = 32 * 1024
"""Bytes of an image in ``TryRun``."""
MAX_FETCH_WAIT = 5.0
"""Seconds; an empty answer after this wait is the heartbeat."""


class AgentAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Content of ``agents/<uuid>.json``: what a viewer needs to reach an agent. Holds no secret."""

    agent: str
    host: str
    boot: str
    pid: int
    generation: int
    address: str
    port: int
    public_key: str
    allow_list: str
    """Folder in which a file ``<name>.key`` with a client's public key (Z85) lets that client in."""
    protocol: tuple[int, int] = PROTOCOL_VERSION
    version: str = ""
    started: float = 0.0


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="t"):
    """Base of all requests."""


class Hello(Request, frozen=True, kw_only=True, tag="hello"):
    """First request of a viewer."""

    protocol: tuple[int, int] = PROTOCOL_VERSION
    client: str = ""


class GetStatus(Request, frozen=True, kw_only=True, tag="status"):
    """Asks for the states of all runs; answered without waiting for a Fetch. ``wait`` > 0: answer on change."""

    version: int = 0
    wait: float = 0.0


class Fetch(Request, frozen=True, kw_only=True, tag="fetch"):
    """Bytes of a run's journal file ``attempt`` from ``offset`` on; waits up to ``wait`` seconds for a new byte."""

    run: str
    attempt: int
    offset: int
    wait: float = MAX_FETCH_WAIT


class GetCatalogue(Request, frozen=True, kw_only=True, tag="catalogue"):
    """Asks for the agent's own exercise cards. ``fresh``: it reads the files of its folder again."""

    fresh: bool = False


class StartRun(Request, frozen=True, kw_only=True, tag="start"):
    """Queues a run; ``spec.run`` is a UUID made by the client, so sending it twice starts it once."""

    spec: RunSpec


class ContinueRun(Request, frozen=True, kw_only=True, tag="continue"):
    """Resumes an ended run from its last checkpoint as a new attempt, under another strategy or on another number of
    devices or nodes where these are given."""

    run: str
    strategy: str = ""
    devices: int = 0
    nodes: int = 0

    @property
    def changes(self) -> dict[str, str | int]:
        """Returns the values that are given, by field of the run spec."""
        given: dict[str, str | int] = {"strategy": self.strategy, "devices": self.devices, "nodes": self.nodes}
        return {name: value for name, value in given.items() if value}


class Pause(Request, frozen=True, kw_only=True, tag="pause"):
    """Stops after the current block and waits."""

    run: str


class Unpause(Request, frozen=True, kw_only=True, tag="unpause"):
    """Goes on after ``Pause``."""

    run: str


class Stop(Request, frozen=True, kw_only=True, tag="stop"):
    """Ends a run: after the current block with a checkpoint, or ``now`` (killed, sealed). Cancels a queued one.
    ``discard``: its folder is removed as soon as its processes have gone."""

    run: str
    now: bool = False
    discard: bool = False


class MoveRun(Request, frozen=True, kw_only=True, tag="move"):
    """Puts a waiting run at ``place`` of the queue: 1 is next, a place beyond the end is the last."""

    run: str
    place: int


class SetLive(Request, frozen=True, kw_only=True, tag="live"):
    """Changes a live hyperparameter from the next block on."""

    run: str
    name: str
    value: float


class DisturbCluster(Request, frozen=True, kw_only=True, tag="disturb"):
    """Disturbs the parameter-server cluster of a run, to see what that does: ``slow`` makes worker ``index`` take
    ``factor`` times as long for each update (1: as before), ``kill`` ends the process ``index`` of a ``role`` with
    SIGKILL, ``add`` starts one more worker."""

    run: str
    action: Literal["slow", "kill", "add"]
    role: Literal["worker", "ps"] = "worker"
    index: int = 0
    factor: float = 1.0


class TraceSteps(Request, frozen=True, kw_only=True, tag="trace"):
    """Has TensorFlow's profiler watch the next steps of a run; what it saw is a ``Trace`` in the journal."""

    run: str
    steps: int


RunningRunRequest = Pause | Unpause | SetLive | DisturbCluster | TraceSteps
"""The requests to a run while it trains."""


class OpenService(Request, frozen=True, kw_only=True, tag="open"):
    """Asks for a program beside the runs: ``jupyter``. Started when there is none yet."""

    kind: str


class TryRun(Request, frozen=True, kw_only=True, tag="try"):
    """Asks what a run's network, as its last checkpoint has it, makes of one image, or draws from a ``code``.

    The image is the data set's test image ``sample`` (counted round and round), or with -1 these ``pixels``, one byte a
    channel, row by row. ``drawn``: light strokes on black, to be scaled and centred as the data set's images are.
    ``close``: nobody asks any more, after this if it asks something.
    """

    run: str
    sample: int = -1
    code: tuple[float, ...] = ()
    width: int = 0
    height: int = 0
    pixels: bytes = b""
    drawn: bool = False
    close: bool = False

    @property
    def asks(self) -> bool:
        """Whether there is something to answer."""
        return self.sample >= 0 or bool(self.pixels) or bool(self.code)


class Shutdown(Request, frozen=True, kw_only=True, tag="shutdown"):
    """Ends the supervisor; runs go on. ``idle``: as soon as no run lives, and not at all while somebody uses the node
    otherwise: that is refused. A run or a program that is asked for meanwhile keeps it."""

    idle: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="t"):
    """Base of all replies."""


class Welcome(Reply, frozen=True, kw_only=True, tag="welcome"):
    """Answer to ``Hello``. ``clock`` is the agent's wall clock, for display offsets only.

    ``datasets`` are the names of the data sets that were found there.
    """

    protocol: tuple[int, int]
    agent: str
    host: str
    version: str
    clock: float
    catalogue_hash: str = ""
    devices: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one run as the supervisor sees it.

    ``size`` is its journal's length in bytes, ``queue`` its place in the run queue from 1 (0 when not queued),
    ``devices`` the names of those that it has, or had when it ended: ``NVIDIA H100 (0)``, or ``CPU``.
    """

    run: str
    exercise: str
    state: RunState
    attempt: int
    size: int
    name: str = ""
    step: int = 0
    steps: int = 0
    queue: int = 0
    started: float = 0.0
    reason: str = ""
    devices: tuple[str, ...] = ()


class Status(Reply, frozen=True, kw_only=True, tag="status"):
    """Answer to ``GetStatus``; ``version`` grows with every change, ``catalogue`` with every change of the cards."""

    version: int
    runs: tuple[RunStatus, ...]
    catalogue: int = 0


class Fetched(Reply, frozen=True, kw_only=True, tag="fetched"):
    """Bytes of a journal file from ``offset`` on; empty data is the heartbeat.

    ``size`` is how many bytes of the file will stay, ``attempts`` how many attempts exist, ``sealed`` whether this file
    will not grow any more (then ``offset + len(data) == size`` means that the reader has all of it).
    """

    run: str
    attempt: int
    offset: int
    data: bytes
    size: int
    attempts: int
    sealed: bool = False


class CatalogueReply(Reply, frozen=True, kw_only=True, tag="cards"):
    """Answer to ``GetCatalogue``; ``generation`` is the number of this state of the cards, as in ``Status``."""

    catalogue: Catalogue
    generation: int = 0


class Done(Reply, frozen=True, kw_only=True, tag="done"):
    """The reply that the request was carried out, or had been already."""

    run: str = ""


class Service(Reply, frozen=True, kw_only=True, tag="service"):
    """Answer to ``OpenService``: where it listens, on the agent's own address. Encrypted by CURVE, for the agent's
    viewers only: streams of HTTP, and nothing without the token.

    ``page`` is the path at which a person begins, ``name`` the program in words.
    """

    kind: str
    port: int
    public_key: str
    token: str
    page: str = "/"
    name: str = ""

    def __repr__(self) -> str:
        return f"Service(kind={self.kind!r}, port={self.port!r})"


class TriedPicture(msgspec.Struct, frozen=True, kw_only=True):
    """One picture of an answer: how it is drawn, and what it shows."""

    spec: PictureSpec
    figure: Image | Histogram | Matrix


class Tried(Reply, frozen=True, kw_only=True, tag="tried"):
    """Answer to ``TryRun``, by the checkpoint of ``step``: a probability for each class, or of a network with a code
    the code that was decoded.

    ``ranges`` are the least and largest usual value of each number of the code, ``error`` the mean squared difference
    between the image and what the network draws, ``threshold`` the error above which it is an anomaly. ``pictures`` are
    the image as the network got it (``input``), and what the network makes of it. ``label`` is the class of the test
    image ``sample`` of ``samples``; both are -1 for an image that came with the request.
    """

    run: str
    step: int
    probabilities: tuple[float, ...] = ()
    code: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    error: float | None = None
    threshold: float | None = None
    class_names: tuple[str, ...] = ()
    label: int = -1
    sample: int = -1
    samples: int = 0
    pictures: tuple[TriedPicture, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Returns a name for each class: that of the data set, else its number."""
        return self.class_names or tuple(map(str, range(len(self.probabilities))))

    @property
    def best(self) -> int:
        """Returns the most probable class. Raises ``ValueError`` without probabilities."""
        return self.probabilities.index(max(self.probabilities))


class Refused(Reply, frozen=True, kw_only=True, tag="refused"):
    """The reply that the request was not carried out, and why."""

    problem: Problem


AnyRequest = (
    Hello
    | GetStatus
    | Fetch
    | GetCatalogue
    | StartRun
    | ContinueRun
    | MoveRun
    | Pause
    | Unpause
    | Stop
    | SetLive
    | DisturbCluster
    | TraceSteps
    | OpenService
    | TryRun
    | Shutdown
)
_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyRequest))
AnyReply = Welcome | Status | Fetched | CatalogueReply | Service | Tried | Done | Refused


def encode(message: Request | Reply) -> bytes:
    """The message as msgpack bytes."""
    return msgspec.msgpack.encode(message)


def decode_request(data: bytes) -> AnyRequest:
    """A request. Raises ``msgspec.DecodeError`` (or its ``ValidationError``) for anything else."""
    request: AnyRequest = from_msgpack(data, AnyRequest)
    return request


def unknown_kind(data: bytes) -> str:
    """The kind of a request that names one of which nothing is known here, as one of a later version may; else
    empty."""
    try:
        kind = from_msgpack(data, dict[str, Any]).get("t")
    except msgspec.DecodeError:
        return ""
    return kind if isinstance(kind, str) and kind not in _KINDS else ""


def decode_reply(data: bytes) -> AnyReply:
    """A reply. Raises ``msgspec.DecodeError`` (or its ``ValidationError``) for anything else."""
    reply: AnyReply = from_msgpack(data, AnyReply)
    return reply


# --- Address file -----------------------------------------------------------------------------------------------------
# The file in which an agent says where it listens, ``agents/<uuid>.json``, as its neighbours and viewers read it.


def read_address(path: Path) -> AgentAddress | None:
    """The address in ``path``; None when it is missing or no address."""
    return read_json(path, AgentAddress)
