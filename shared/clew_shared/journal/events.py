"""The events of a journal, and the states of a run. PROTOCOL.md gives every event with an example; readers skip tags
that they do not know."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from clew_shared.base.problem import Problem
from clew_shared.cards import MetricSpec


class RunState(StrEnum):
    """DRAFT to QUEUED and LOST are in the laptop's job record, STARTING to the end in the node's journal."""

    DRAFT = "DRAFT"
    SUBMITTED = "SUBMITTED"
    QUEUED = "QUEUED"
    STARTING = "STARTING"
    PREPARING = "PREPARING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"


# --- Events -----------------------------------------------------------------------------------------------------------
# What may be in a journal. PROTOCOL.md gives every event with an example; readers skip tags they do not know.


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of all events. ``time`` is wall-clock seconds since 1970 on the writer's node, for display only."""

    time: float = 0.0


class FileRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a run folder as it was when recorded: path below the run folder (with ``/``), length in bytes, SHA-256,
    and the CRC-32 of each block of ``block_size`` bytes (little-endian uint32, concatenated): damage is found with its
    offset. A later record of the same path replaces an earlier one; ``size`` -1 says that the file was removed."""

    path: str
    size: int
    sha256: str
    blocks: bytes = b""
    block_size: int = 4096


class Attempt(Event, frozen=True, kw_only=True, tag="attempt"):
    """First frame of every journal file: which run and attempt, where, and from what it goes on.

    A resumed attempt names the earlier one, the step and checkpoint it starts from, and the length and SHA-256 of the
    earlier file up to which that attempt counts.
    """

    format: int
    run: str
    attempt: int
    exercise: str
    spec_sha256: str
    source_sha256: str = ""
    host: str = ""
    boot: str = ""
    pid: int = 0
    software: dict[str, str] = {}
    seed: int = 0
    steps: int = 0
    """Steps that the run will have when it is complete; 0 when unknown."""
    start_step: int = 0
    resumes: int = 0
    checkpoint: str = ""
    earlier_size: int = 0
    earlier_sha256: str = ""
    devices: tuple[str, ...] = ()
    """Names of the devices that the supervisor gave; none when nobody did."""
    job: str = ""
    """Clew's UUID of the batch job in which it ran; empty outside of one."""
    spec: str = ""
    """The text of the spec that it runs, so that a copy of the journals says what was asked for; empty where that has
    more than 32 KiB."""
    revision: int = 0
    """The revision of the exercise; 0 when it has none, or its file is not the one that came with Clew."""
    replay_of: str = ""
    """The run that ``clew replay`` of an earlier version showed again in this one, which trained nothing; empty for a
    run."""


class Schema(Event, frozen=True, kw_only=True, tag="schema"):
    """Names the columns of the ``Points`` that carry the same ``id``; sent once before the first of them.

    Evaluation metrics are listed as well (``per_step`` false) so that a reader without the card can label them.
    ``steps`` is how many the whole run will have (0: unknown), for an exercise whose card was not at hand at first.
    ``replicas`` compute each step together; each sends ``reduced_bytes`` of gradients or weights in one, on average.
    ``shared_cores``: the replicas are parts of one processor, of which they share so many cores (0: they share none).
    ``input_seconds`` and ``reduce_seconds`` are what picking a batch and one all-reduce of ``reduced_bytes`` take,
    measured before the first step of a run that is timed (0: not measured). ``counts_from`` is the number that a
    training script gives to its first step: after ``Points``, ``first + count - counts_from`` steps are done.
    """

    id: int
    metrics: tuple[MetricSpec, ...]
    batch_size: int = 0
    samples_per_epoch: int = 0
    steps: int = 0
    replicas: int = 1
    reduced_bytes: int = 0
    shared_cores: int = 0
    input_seconds: float = 0.0
    reduce_seconds: float = 0.0
    counts_from: int = 0


class Points(Event, frozen=True, kw_only=True, tag="points"):
    """The values of ``count`` steps in a row from step ``first`` (0-based), one little-endian array per column.

    ``clock`` is the training clock (seconds, monotonic, without compile, evaluation, checkpoints) at the end of the
    stretch and ``seconds`` how long it took; a step's own time inside is interpolated. ``time`` is the wall clock at
    the end. Values are those of the batch *before* the step's update.
    """

    schema: int
    first: int
    count: int
    seconds: float
    clock: float
    values: tuple[bytes, ...]


class Evaluation(Event, frozen=True, kw_only=True, tag="evaluation"):
    """Values measured on held-out data after ``step`` updates; ``seconds`` is what measuring took."""

    step: int
    values: dict[str, float]
    seconds: float = 0.0
    clock: float = 0.0


class Series(Event, frozen=True, kw_only=True, tag="series"):
    """Points of a measured relation (time against size): ``x`` and ``y`` as little-endian float64."""

    name: str
    x: bytes
    y: bytes
    x_label: str = ""
    y_label: str = ""
    x_unit: str = ""
    y_unit: str = ""


class Image(Event, frozen=True, kw_only=True, tag="image"):
    """``count`` images of one size after ``step`` updates, one after the other: ``data`` is row-major uint8,
    ``channels`` 1 or 3. Images may have classes (little-endian int32), those of a gallery the model's answers
    as well, and the names of classes 0, 1 and so on where these have names. Where images are maps of a plane,
    ``points`` in it (little-endian float32, x and y in turn) with their ``point_classes`` (little-endian int32) may be
    shown over each of them."""

    name: str
    step: int
    width: int
    height: int
    channels: int
    data: bytes
    count: int = 1
    columns: int = 0
    """Images in a row; 0: as many as fit."""
    classes: bytes = b""
    answers: bytes = b""
    class_labels: tuple[str, ...] = ()
    points: bytes = b""
    point_classes: bytes = b""


class Histogram(Event, frozen=True, kw_only=True, tag="histogram"):
    """Counts (little-endian int64) between ``edges`` (little-endian float64, one more than counts).

    Where the values have classes, or a threshold may be moved through them, the ``values`` themselves (little-endian
    float32) and their ``classes`` (little-endian int32) are there as well. ``threshold`` is the one by which the run
    judged at that step.
    """

    name: str
    step: int
    edges: bytes
    counts: bytes
    values: bytes = b""
    classes: bytes = b""
    threshold: float | None = None


class Matrix(Event, frozen=True, kw_only=True, tag="matrix"):
    """A table of float64 values, row-major, little-endian: a confusion matrix; bars (one row); the points of a scatter
    plot (columns ``x``, ``y`` and ``class``), with the names of classes 0, 1 and so on where these have names; a loss
    surface (the row of the lowest y first), with the ``points`` in it (little-endian float32, x and y in turn)."""

    name: str
    step: int
    rows: int
    columns: int
    data: bytes
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()
    class_labels: tuple[str, ...] = ()
    points: bytes = b""


class Updates(Event, frozen=True, kw_only=True, tag="updates"):
    """Gradients that workers sent to parameter servers, in the order in which the servers took them.

    Each field is one little-endian array with a value for each gradient. ``steps`` (int64) is the step that it made;
    for one that was dropped, the step that it would have been. ``workers`` (int32) are the workers' numbers, ``ended``
    (float64) the training clock when the answer came, ``seconds`` (float32) how long the worker had it, ``staleness``
    (int32) how many other updates came between its reading of the weights and its own update, ``accepted`` (uint8) 0
    for dropped ones. ``moved``: bytes of weights and gradients that one of them sends over the network.
    """

    steps: bytes
    workers: bytes
    ended: bytes
    seconds: bytes
    staleness: bytes
    accepted: bytes
    moved: int = 0


class Peer(Event, frozen=True, kw_only=True, tag="peer"):
    """A process of a distributed run beside the one that writes the journal.

    ``role`` is worker or ps (parameter server). ``status`` is joined, lost, ended, and under parameter servers also
    slowed (its ``factor``: each of its updates takes so many times as long; 1 again for not slowed), killed (because
    somebody asked for it) and replaced (a new process has its place, at the same address).
    ``address`` and ``port`` are where TensorFlow reaches it.
    """

    role: str
    index: int
    host: str
    address: str = ""
    port: int = 0
    pid: int = 0
    devices: tuple[str, ...] = ()
    status: str = ""
    factor: float = 1.0


class Pulse(Event, frozen=True, kw_only=True, tag="pulse"):
    """What one process of a run and its node did, sampled about once a second beside the one that trains.

    ``process`` is ``trainer``, or role and number of a peer (``worker 1``). ``times`` (little-endian
    float64) are wall-clock seconds since 1970 on its node, ``values`` one little-endian float32 array for each of
    ``names``; NaN is what could not be read. PROTOCOL.md lists the names.
    """

    process: str
    host: str
    times: bytes
    names: tuple[str, ...]
    values: tuple[bytes, ...]


class Trace(Event, frozen=True, kw_only=True, tag="trace"):
    """What the operations of ``count`` steps from ``step`` (0-based) on did in the run's first process.

    The steps took ``seconds``; ``parts`` says where they went, in seconds that together are ``seconds``. ``names`` are
    those of the operations, the most expensive first, with a kind, a count and the sum of its seconds for each;
    operations that run at once count each. The timeline has a span for each element of four little-endian arrays:
    ``row`` (uint16) is the number of its thread or device in ``rows``, ``name`` (uint16) that of its operation,
    ``begin`` (float64) and ``took`` (float32) are seconds. ``left_out`` are spans that had no room: the shortest, and
    those of the rows with the least work. How much there may be of each says ``journal.trace``.
    """

    step: int
    count: int
    seconds: float
    parts: dict[str, float]
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    counts: tuple[int, ...]
    totals: tuple[float, ...]
    rows: tuple[str, ...]
    row: bytes
    name: bytes
    begin: bytes
    took: bytes
    left_out: int = 0


class State(Event, frozen=True, kw_only=True, tag="state"):
    """A new state of the run. Terminal ones carry the reason, and a ``Problem`` when something went wrong."""

    state: RunState
    reason: str = ""
    step: int = 0
    problem: Problem | None = None
    exit_code: int | None = None


class Live(Event, frozen=True, kw_only=True, tag="live"):
    """A hyperparameter changed while running: ``value`` acts from step ``step`` on."""

    name: str
    value: float
    step: int


class Checkpoint(Event, frozen=True, kw_only=True, tag="checkpoint"):
    """A checkpoint that is complete on disk, after ``step`` updates."""

    step: int
    folder: str
    files: tuple[FileRecord, ...]
    seconds: float = 0.0


class Files(Event, frozen=True, kw_only=True, tag="files"):
    """Files of the run folder that do not change any more (spec, log, artifacts), for ``verify``."""

    files: tuple[FileRecord, ...]


class Diverged(Event, frozen=True, kw_only=True, tag="diverged"):
    """Says that ``metric`` is no finite number from ``step`` on, but ``value``. Training goes on.

    Of an evaluated metric ``step`` is the number of updates done. Once for each metric of a run.
    """

    metric: str
    step: int
    value: Literal["NaN", "inf", "-inf"]


class Predicted(Event, frozen=True, kw_only=True, tag="predicted"):
    """The curve of ``metric`` that a person expected, written before the run's first step: straight lines between
    ``values`` at rising ``steps``."""

    metric: str
    steps: tuple[int, ...]
    values: tuple[float, ...]


class Log(Event, frozen=True, kw_only=True, tag="log"):
    """A sentence for people, or a timing of a stage (``stage``, ``seconds``): compile, data, import."""

    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"
    step: int = 0
    stage: str = ""
    seconds: float = 0.0


class Digest(Event, frozen=True, kw_only=True, tag="digest"):
    """SHA-256 of all ``size`` bytes of this file before this frame; every 1 MiB."""

    size: int
    sha256: str


class Seal(Event, frozen=True, kw_only=True, tag="seal"):
    """Last frame: nothing comes after it. ``sha256`` covers all ``size`` bytes before it.

    ``writer`` is trainer, guard or supervisor.
    """

    size: int
    sha256: str
    writer: str


AnyEvent = (
    Attempt
    | Schema
    | Points
    | Evaluation
    | Series
    | Image
    | Histogram
    | Matrix
    | Updates
    | Peer
    | Pulse
    | Trace
    | State
    | Live
    | Checkpoint
    | Files
    | Diverged
    | Predicted
    | Log
    | Digest
    | Seal
)
