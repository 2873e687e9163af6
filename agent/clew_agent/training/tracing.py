"""Watches steps with TensorFlow's profiler, and makes a ``Trace`` of what it saw: which operations ran when on which
thread and device, and where the time of a step went. TensorBoard is not needed."""

from __future__ import annotations

import math
import os
import re
import tempfile
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from google.protobuf.message import DecodeError

from clew_agent.node.host import trace_prefix
from clew_agent.training.step import INPUT_SCOPE
from clew_shared.base.problem import problem
from clew_shared.journal.events import Trace
from clew_shared.journal.trace import LEAST_SECONDS, MOST_LETTERS, MOST_NAMES, MOST_ROWS, MOST_SPANS

_MARK: Final = "clew:steps"
_CONTAINERS: Final = re.compile(
    r"^(__|While$|StatelessWhile$|If$|StatelessIf$|\w*PartitionedCall$|Case$)|^(while|call|conditional)\b"
)
"""Operations that consist of others."""
_EXECUTORS: Final = ("ExecutorState::Process", "ThunkExecutor::Execute")
"""A thread that looks for the next operation, and does some of them."""
_WAITS: Final = ("KernelAndDeviceFunc::Run", "BlockUntilReady", "BlockHostUntilDone")
"""The program waits for the steps that it has begun."""
_FETCH: Final = "IteratorGetNextOp::DoCompute"
_AHEAD: Final = "Iterator::"
_READERS: Final = "tf_data_"
"""What a thread of tf.data does, which reads ahead of the steps, and how its threads are called."""
_DERIVED: Final = ("Steps", "XLA Modules", "XLA Ops", "TensorFlow Ops", "TensorFlow Name Scope", "Source code")
"""Lines of a device that say the same as its streams."""
_KINDS: Final = tuple(
    (kind, re.compile(words, re.IGNORECASE))
    for kind, words in (
        ("reduce", "allreduce|all-reduce|nccl|collective"),
        ("input", rf"(^|/){INPUT_SCOPE}(_\d+)?/(?!_\d)|iterator|readfile|decode|parse\w*example|pyfunc"),
        ("weights", r"apply\w+$|assign\w*variable"),
        ("convolution", r"conv(?!ert)|winograd|implicit_gemm"),
        ("matmul", r"matmul|gemm|\bdot\b|einsum"),
        ("sums", r"pool|sum|mean|biasaddgrad|reduce|argm|softmax|crossentropy|\bm(ax|in)$"),
        (
            "pointwise",
            "relu|add|mul$|sub$|div|neg|exp|log|tanh|sigm|sqrt|square|pow|select|greater|less|equal|cast|random|bit|shift|maximum|minimum|fusion|abs|sign|mod$|wrapped",
        ),
    )
)  # fmt: skip


def kind_of(name: str, what: str) -> str:
    """The kind of an operation: by its type, and by the scope in its name where it picks a batch."""
    if _KINDS[1][1].search(f"{name}\n{what}"):
        return "input"
    return next((kind for kind, words in _KINDS if words.search(what)), "other")


def short_name(name: str, what: str) -> str:
    """``gradient/Conv2DBackpropInput``, ``Relu_1 (FusedConv2D)``: the name without the loop around the steps, and the
    type that it does not say."""
    short = re.sub(r"(^|(?<=/))(while|body|cond|_\d+)/", "", name.replace("gradient_tape/", "gradient/"))
    kernel = re.sub(r"^_?(Mkl)?(Native)?|V\d$|WithBias$", "", what)
    said = kernel.lower().removeprefix("resource") in short.lower().replace("_", "") or what == name
    return (short if said else f"{short} ({kernel})")[-MOST_LETTERS:]


_NEEDED = "It needs a folder for temporary files with room (TMPDIR names one), and no other profiler beside it."


class Profiler:
    """TensorFlow's profiler, around some blocks of steps. ``start``, ``steps`` around each block, ``stop``."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def start(self) -> None:
        """Begins to watch. Raises ``ProblemError`` where that is not possible, because somebody else does already or
        there is no folder for temporary files."""
        with refused("trace.start", "TensorFlow's profiler cannot be started", _NEEDED):
            folder = tempfile.TemporaryDirectory(prefix=trace_prefix(os.getpid()), ignore_cleanup_errors=True)
            try:
                tf.profiler.experimental.start(folder.name)
            except BaseException:
                folder.cleanup()
                raise
            self._folder = folder

    def steps(self) -> AbstractContextManager[object]:
        """Marks the steps that are done inside."""
        mark: AbstractContextManager[object] = tf.profiler.experimental.Trace(_MARK)
        return mark

    def stop(self, step: int, count: int) -> Trace:
        """What was seen of ``count`` steps from ``step`` on. Raises ``ProblemError`` when the profiler saw nothing, or
        what it saw is lost."""
        folder, self._folder = self._folder, None
        if folder is None:
            raise RuntimeError("the profiler was not started")
        with refused("trace.lost", "What TensorFlow's profiler saw is lost", _NEEDED), folder:
            tf.profiler.experimental.stop()
            files = sorted(Path(folder.name).rglob("*.xplane.pb"))
            return summed_up(read_space(files[-1].read_bytes() if files else b""), step, count)


@contextmanager
def refused(code: str, text: str, hint: str, where: str = "") -> Iterator[None]:
    """Makes a problem of what TensorFlow, the disk or a damaged file does not allow inside."""
    try:
        yield
    except (tf.errors.OpError, OSError, DecodeError) as error:
        words = error.message if isinstance(error, tf.errors.OpError) else getattr(error, "strerror", None) or error
        raise problem(code, f"{text}: {words}.", hint, where) from None


def read_space(data: bytes) -> Any:
    """The protocol buffer that the profiler writes. Raises ``ProblemError`` where this TensorFlow cannot read it."""
    try:
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError:
        text = f"TensorFlow {tf.__version__} has no reader for what its profiler writes."
        raise problem("trace.read", text, "Install a TensorFlow from 2.16 to 2.21.") from None
    space = xplane_pb2.XSpace()
    space.ParseFromString(data)
    return space


# --- What the profiler wrote ------------------------------------------------------------------------------------------

Interval = tuple[float, float]
"""From when to when, in seconds since the first line of the profile began."""


Operation = tuple[str, str]
"""The name of an operation, and its kind."""


class _What(NamedTuple):
    """What the events of one name are: an operation, or a role of the thread that does them; empty for neither."""

    role: Literal["operation", "ahead", "mark", "busy", "wait", ""]
    operation: Operation = ("", "")


@dataclass
class _Row:
    """What one thread, or one stream of a ``device``, did: which of the ``operations`` from when to when, in few bytes
    as there may be a million. ``busy``: it looked for operations; ``waits``: it waited for the steps; ``ahead``: it
    reads ahead of them."""

    name: str = ""
    device: str = ""
    operations: list[Operation] = field(default_factory=list)
    begins: array[float] = field(default_factory=lambda: array("d"))
    ends: array[float] = field(default_factory=lambda: array("d"))
    marks: list[Interval] = field(default_factory=list)
    busy: list[Interval] = field(default_factory=list)
    waits: list[Interval] = field(default_factory=list)
    ahead: bool = False

    def add(self, operation: Operation, interval: Interval) -> None:
        """Another one."""
        self.operations.append(operation)
        self.begins.append(interval[0])
        self.ends.append(interval[1])


Hlo = Mapping[str, tuple[str, str]]
"""Name and type of TensorFlow's operation by the name of the one that XLA made of it."""


def _rows(space: Any) -> Iterator[_Row]:
    hlo, lines = _hlo(space), [line for plane in space.planes for line in plane.lines]
    start = min((line.timestamp_ns for line in lines), default=0)
    for plane in space.planes:
        if plane.name == "/host:CPU":
            known: dict[int, _What] = {}
            yield from (_host_row(plane, line, start, hlo, known) for line in plane.lines)
        elif plane.name.startswith("/device:"):
            yield from (_device_row(plane, line, start, hlo) for line in plane.lines if line.name not in _DERIVED)


def _hlo(space: Any) -> Hlo:
    try:
        from tensorflow.compiler.xla.service import hlo_pb2
    except ImportError:
        return {}
    found: dict[str, tuple[str, str]] = {}
    for plane in space.planes:
        for about in plane.event_metadata.values() if plane.name == "/host:metadata" else ():
            for stat in (one for one in about.stats if one.bytes_value):
                proto = hlo_pb2.HloProto.FromString(stat.bytes_value)
                every = (one for computation in proto.hlo_module.computations for one in computation.instructions)
                found |= {one.name: (one.metadata.op_name, one.metadata.op_type) for one in every}
    return found


def _host_row(plane: Any, line: Any, start: int, hlo: Hlo, known: dict[int, _What]) -> _Row:
    """Reads a thread. What happens inside of an operation is a part of it."""
    row, inside = _Row(ahead=line.name.startswith(_READERS)), -math.inf
    for event in sorted(line.events, key=lambda one: (one.offset_ps, -one.duration_ps)):
        what = known.get(event.metadata_id)
        if what is None:
            what = known[event.metadata_id] = _what(plane, event, hlo)
        begin, end = _interval(line, event, start)
        if what.role in ("operation", "ahead") and begin >= inside:
            row.add(what.operation, (begin, end))
            row.ahead, inside = row.ahead or what.role == "ahead", end
        elif what.role in ("mark", "busy", "wait"):
            {"mark": row.marks, "busy": row.busy, "wait": row.waits}[what.role].append((begin, end))
    return row


def _interval(line: Any, event: Any, start: int) -> Interval:
    begin = ((line.timestamp_ns - start) * 1000 + event.offset_ps) * 1e-12
    return begin, begin + event.duration_ps * 1e-12


def _what(plane: Any, event: Any, hlo: Hlo) -> _What:
    about = plane.event_metadata[event.metadata_id]
    name, what = str(about.name), str(about.display_name)
    if name in (_MARK, *_EXECUTORS, *_WAITS):
        return _What("mark" if name == _MARK else "busy" if name in _EXECUTORS else "wait")
    if name.startswith(_AHEAD):
        return _What("ahead", (name.rpartition("::")[2], "input"))
    if name == _FETCH:
        return _What("operation", ("IteratorGetNext", "input"))
    if any(plane.stat_metadata[stat.metadata_id].name == "hlo_op" for stat in event.stats):
        full, kind = hlo.get(name, ("", ""))
        name, what = full or name, kind or name
    name = name.removesuffix(f":{what}")
    kind = kind_of(name, what)
    if not what or (kind != "input" and _CONTAINERS.match(what)):
        return _What("")
    return _What("operation", (short_name(name, what), kind))


def _device_row(plane: Any, line: Any, start: int, hlo: Hlo) -> _Row:
    """Reads a stream of a device. A kernel has the name of its operation where TensorFlow knows it."""
    device = plane.name.removeprefix("/device:").replace(":", " ")
    row, known = _Row(f"{device} {line.name or line.id}", device), dict[Operation, Operation]()
    for event in line.events:
        kernel = str(plane.event_metadata[event.metadata_id].name)
        told = {plane.stat_metadata[stat.metadata_id].name: stat for stat in event.stats}
        full = next(
            (_text(plane, told[key]) for key in ("tf_op", "kernel_annotation", "hlo_op") if key in told), kernel
        )
        name, what = hlo.get(full) or full.partition(":")[::2]
        kind = "reduce" if "nccl" in kernel.lower() else kind_of(name, what or kernel)
        operation = (short_name(name, what), kind)
        row.add(known.setdefault(operation, operation), _interval(line, event, start))
    return row


def _text(plane: Any, stat: Any) -> str:
    refers = stat.WhichOneof("value") == "ref_value"
    return str(plane.stat_metadata[stat.ref_value].name if refers else stat.str_value)


# --- What it means ----------------------------------------------------------------------------------------------------

Floats = npt.NDArray[np.float64]
Moments = Sequence[float] | Floats
Place = Callable[[Moments], Floats]
"""Says where moments are on the axis on which the blocks follow each other without a gap."""


def summed_up(space: Any, step: int, count: int) -> Trace:
    """The trace of ``count`` steps from ``step`` on. Raises ``ProblemError`` when the profiler saw none."""
    rows = list(_rows(space))
    marks = sorted(mark for row in rows for mark in row.marks)
    lengths = np.array([end - begin for begin, end in marks])
    seconds = float(lengths.sum())
    if seconds < LEAST_SECONDS:
        text = "TensorFlow's profiler saw nothing of the steps."
        raise problem("trace.empty", text, "Trace them again; other profilers must not run meanwhile.")
    borders = np.array(marks).ravel()
    places = np.repeat(np.cumsum(lengths), 2)
    places[::2] -= lengths

    def place(moments: Moments) -> Floats:
        found: Floats = np.interp(moments, borders, places)
        return found

    return _event(rows, place, seconds, step, count)


def _event(rows: Sequence[_Row], place: Place, seconds: float, step: int, count: int) -> Trace:
    ranked_rows = sorted(((_seconds(row, place), row) for row in rows), key=lambda one: -one[0])
    busy = [row for length, row in ranked_rows if length > 0]
    # threads of the steps, those that read ahead, devices; then those that the timeline has no room for
    busy[:MOST_ROWS] = sorted(busy[:MOST_ROWS], key=lambda row: (bool(row.device), row.ahead))
    row_of = np.repeat(np.arange(len(busy)), [len(row.operations) for row in busy])
    begin = place(np.concatenate([np.empty(0), *(row.begins for row in busy)]))
    end = place(np.concatenate([np.empty(0), *(row.ends for row in busy)]))
    took = end - begin
    every: dict[Operation, int] = {}
    which = np.array([every.setdefault(one, len(every)) for row in busy for one in row.operations], np.int64)
    counts = np.bincount(which[took > 0], minlength=len(every))
    totals = np.bincount(which, took, minlength=len(every))
    ranked = [one for one in np.argsort(-totals, kind="stable").tolist() if counts[one]]
    others = ranked[MOST_NAMES - 1 :] if len(ranked) > MOST_NAMES else []
    ranked = ranked[: len(ranked) - len(others)]
    sums = [(*list(every)[one], int(counts[one]), float(totals[one])) for one in ranked]
    if others:
        sums.append((f"{len(others):,} others", "other", int(counts[others].sum()), float(totals[others].sum())))
    rank = np.full(len(every), -1)
    rank[ranked] = np.arange(len(ranked))
    known = rank[which]
    seen = np.flatnonzero((took > 0) & (known >= 0) & (row_of < MOST_ROWS))
    shown = np.sort(seen[np.argsort(-took[seen], kind="stable")[:MOST_SPANS]])
    return Trace(
        step=step,
        count=count,
        seconds=seconds,
        parts=_parts(rows, place, seconds),
        names=tuple(name for name, _, _, _ in sums),
        kinds=tuple(kind for _, kind, _, _ in sums),
        counts=tuple(count for _, _, count, _ in sums),
        totals=tuple(total for _, _, _, total in sums),
        rows=tuple(_named(busy[:MOST_ROWS])),
        row=row_of[shown].astype("<u2").tobytes(),
        name=known[shown].astype("<u2").tobytes(),
        begin=begin[shown].astype("<f8").tobytes(),
        took=took[shown].astype("<f4").tobytes(),
        left_out=int(np.count_nonzero(took > 0) - len(shown)),
    )


def _seconds(row: _Row, place: Place) -> float:
    return float((place(row.ends) - place(row.begins)).sum())


def _named(rows: Sequence[_Row]) -> Iterator[str]:
    threads = {False: 0, True: 0}
    for row in rows:
        threads[row.ahead] += not row.device
        yield row.name[:MOST_LETTERS] or f"{'Reader' if row.ahead else 'Thread'} {threads[row.ahead]}"


def _parts(rows: Sequence[_Row], place: Place, seconds: float) -> dict[str, float]:
    """Where the time went, on average over the devices: whatever else goes on, a device that computes computes.

    Input is time in which it does not because the steps wait for their batch; host is time in which TensorFlow and the
    program only prepare what comes; and nothing happens in what is left.
    """
    steps = [row for row in rows if not row.ahead and not row.device]
    waits = _joined([one for row in steps for one in row.waits], place)
    busy = _joined([one for row in steps for one in row.busy], place)
    host = _union(busy, _rest(waits, seconds))
    devices = sorted({row.device for row in rows if row.device}) or [""]
    found = [_device_parts(rows, device, host, place, seconds) for device in devices]
    return {name: sum(one[name] for one in found) / len(found) for name in found[0]}


def _device_parts(rows: Sequence[_Row], device: str, host: Floats, place: Place, seconds: float) -> dict[str, float]:
    def of(where: str, *kinds: str, without: Sequence[str] = ()) -> Floats:
        here = [row for row in rows if row.device == where and not row.ahead]
        found = [np.empty((0, 2))]
        for row in here:
            counts = [kind in kinds if kinds else kind not in without for _, kind in row.operations]
            found.append(np.column_stack((row.begins, row.ends))[np.array(counts, bool)])
        return _joined(np.concatenate(found), place)

    special = ("input", "reduce")
    layers = {
        "compute": of(device, without=special),
        "reduce": of(device, "reduce"),
        "input": _union(of(device, "input"), of("", "input")),
        "host": _union(host, of("")),
    }
    found, covered, before = {}, np.empty((0, 2)), 0.0
    for name, intervals in layers.items():
        covered = _union(covered, intervals)
        length = float((covered[:, 1] - covered[:, 0]).sum())
        found[name], before = length - before, length
    return found | {"idle": max(seconds - before, 0.0)}


def _joined(intervals: Sequence[Interval] | Floats, place: Place) -> Floats:
    """The time that some intervals cover, as intervals [n, 2] that neither touch nor overlap."""
    return _merged(place(np.asarray(intervals, np.float64).ravel()).reshape(-1, 2))


def _union(first: Floats, second: Floats) -> Floats:
    return _merged(np.concatenate((first, second)))


def _merged(intervals: Floats) -> Floats:
    intervals = intervals[intervals[:, 1] > intervals[:, 0]]
    if not len(intervals):
        return intervals
    intervals = intervals[np.argsort(intervals[:, 0], kind="stable")]
    ends = np.maximum.accumulate(intervals[:, 1])
    new = np.concatenate(([True], intervals[1:, 0] > ends[:-1]))
    return np.column_stack((intervals[new, 0], ends[np.append(np.flatnonzero(new)[1:] - 1, len(ends) - 1)]))


def _rest(intervals: Floats, seconds: float) -> Floats:
    """What the intervals leave of the time from 0 to ``seconds``."""
    edges = np.concatenate(([0.0], intervals.ravel(), [seconds])).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]
