"""Steps that are traced: which ones, what the profiler's file says of them, and that nothing else changes."""

from __future__ import annotations

import shutil
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XPlane, XSpace

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.softmax import EXERCISE as SOFTMAX
from clew_agent.training.tracing import Profiler, kind_of, read_space, short_name, summed_up
from clew_shared.base.problem import ProblemError, problem
from clew_shared.journal.events import Trace
from clew_shared.journal.files import Record, encode_frame, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.trace import MOST_NAMES, MOST_ROWS, MOST_SPANS, read_spans
from clew_shared.params import Value
from clew_shared.reading import read_run
from clew_shared.wire.messages import TraceSteps
from tests.exercises.attempts import BLOCK, RUN, STOP, attempt, new_run, rate
from tests.exercises.numpy_engine import numpy_engine
from tests.exercises.training import make_engine, train
from tests.unit.runs import trace

# --- Which steps ------------------------------------------------------------------------------------------------------


class Watcher:
    """A profiler that only notes what it is asked for, and that the steps cannot do without."""

    def __init__(self, refuses: str = "") -> None:
        self.noted: list[object] = []
        self._refuses = refuses

    def start(self) -> None:
        """Noted, or refused."""
        if self._refuses == "start":
            raise problem("trace.start", "TensorFlow's profiler cannot do that.")
        self.noted.append("start")

    @contextmanager
    def steps(self) -> Iterator[None]:
        """Noted."""
        self.noted.append("block")
        yield

    def stop(self, step: int, count: int) -> Trace:
        """A trace of these steps, or refused."""
        if self._refuses == "stop":
            raise problem("trace.lost", "TensorFlow's profiler cannot do that.")
        self.noted.append((step, count))
        return trace(step)


def traces(folder: Path, number: int = 1) -> list[Trace]:
    events = [item.event for item in read_journal(folder / f"journal.{number:04d}") if isinstance(item, Record)]
    return [event for event in events if isinstance(event, Trace)]


def ask(steps: int) -> TraceSteps:
    return TraceSteps(run=RUN, steps=steps)


def test_exactly_the_next_steps_are_traced_whatever_the_blocks(tmp_path: Path) -> None:
    watcher, folder = Watcher(), new_run(tmp_path / "run")
    attempt(folder, {40: (ask(25), ask(3)), 200: ask(2)}, engine_of=numpy_engine, profiler=watcher)
    assert watcher.noted == [
        "start",
        *(-(-25 // BLOCK) * ["block"]),
        (40, 25),
        "start",
        "block",
        (65, 3),
        "start",
        "block",
        (200, 2),
    ]
    assert [one.step for one in traces(folder.path)] == [40, 65, 200], "one after the other"
    assert read_run(folder.path).fold.step == 500


def test_a_run_that_ends_meanwhile_keeps_what_was_seen(tmp_path: Path) -> None:
    watcher, folder = Watcher(), new_run(tmp_path / "run")
    attempt(folder, {40: ask(25), 50: STOP}, engine_of=numpy_engine, profiler=watcher)
    assert watcher.noted == ["start", "block", (40, 10)]
    assert len(traces(folder.path)) == 1


@pytest.mark.parametrize(("refuses", "until"), [("start", 500), ("stop", 500), ("stop", 50)])
def test_a_trace_that_is_not_possible_harms_no_run(tmp_path: Path, refuses: str, until: int) -> None:
    folder = new_run(tmp_path / "run")
    attempt(folder, {40: ask(25), until: STOP}, engine_of=numpy_engine, profiler=Watcher(refuses))
    assert "TensorFlow's profiler cannot do that." in [log.text for log in read_run(folder.path).logs]
    assert read_run(folder.path).fold.step == until
    assert read_run(folder.path).fold.state in (RunState.FINISHED, RunState.STOPPED)


def test_without_a_profiler_there_is_no_trace(tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run")
    attempt(folder, {40: (ask(25), rate(0.01))}, engine_of=numpy_engine)
    assert not traces(folder.path)


# --- TensorFlow's own -------------------------------------------------------------------------------------------------


def test_tensorflow_sees_the_steps_and_nothing_else(small_digits: DataSet) -> None:
    settings: dict[str, Value] = {"steps": 9, "batch_size": 50, "evaluate_every": 9}
    engine, plain = (make_engine(SOFTMAX, settings, small_digits, block_steps=lambda room: min(2, room)) for _ in "ab")
    engine.compile()  # warmed up, so that the first step's surprises are not among what takes longest
    profiler, blocks = Profiler(), [engine.run_block()]
    profiler.start()
    for until in (4, 6, 7):
        with profiler.steps():
            blocks.append(engine.run_block(until))
        engine.evaluate()
    found = profiler.stop(2, 5)
    blocks += [engine.run_block()]
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert found.parts["compute"] > 0
    assert set(found.counts) & {5, 10}, "five steps"
    assert "matmul" in found.kinds
    assert "weights" in found.kinds
    assert "input" in found.kinds, "the batch is picked"
    assert read_spans(found) is not None
    losses = np.concatenate([block.values[0] for block in blocks])
    np.testing.assert_array_equal(losses, train(plain)["loss"])


def test_a_second_profiler_is_refused() -> None:
    first, second = Profiler(), Profiler()
    first.start()
    with pytest.raises(ProblemError, match="cannot be started"):
        second.start()
    with pytest.raises(ProblemError, match="saw nothing of the steps"):
        first.stop(0, 1)


def test_without_a_folder_for_temporary_files_it_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ProblemError, match=r"cannot be started: No such file or directory\. It needs a folder"):
        Profiler().start()


def test_a_folder_that_was_cleaned_meanwhile_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    profiler = Profiler()
    profiler.start()
    (folder,) = tmp_path.glob("clew-trace-*")
    shutil.rmtree(folder)
    folder.write_bytes(b"")
    with pytest.raises(ProblemError):
        profiler.stop(0, 1)
    profiler.start()
    with pytest.raises(ProblemError, match="saw nothing"):
        profiler.stop(0, 1)


def full(folder: Path) -> None:
    """What TensorFlow says of a disk without room."""
    raise tf.errors.ResourceExhaustedError(None, None, f"{folder}; No space left on device")


def cut(folder: Path) -> None:
    """A file with less than it says."""
    (folder / "one.xplane.pb").write_bytes(b"\x0a\xff")


def spoilt(folder: Path) -> None:
    """A whole file with a program of XLA that is none."""
    made = XPlane(name="/host:metadata")
    made.event_metadata[1].stats.add(metadata_id=1, bytes_value=b"\x0a\xff")
    (folder / "one.xplane.pb").write_bytes(XSpace(planes=[made]).SerializeToString())


@pytest.mark.parametrize("mischief", [full, cut, spoilt])
def test_what_cannot_be_written_or_read_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, mischief: Callable[[Path], None]
) -> None:
    folders: list[Path] = []
    monkeypatch.setattr(tf.profiler.experimental, "start", lambda folder: folders.append(Path(folder)))
    monkeypatch.setattr(tf.profiler.experimental, "stop", lambda: mischief(folders[0]))
    profiler = Profiler()
    profiler.start()
    with pytest.raises(ProblemError, match="What TensorFlow's profiler saw is lost: "):
        profiler.stop(0, 1)
    assert not folders[0].exists()


# --- What is in the file ----------------------------------------------------------------------------------------------

Happening = tuple[str, float, float]
"""A name, and from when to when in milliseconds."""


def plane(name: str, lines: dict[str, Sequence[Happening]], stats: dict[str, str] | None = None) -> XPlane:
    """A plane as TensorFlow writes one. An operation's name is ``path:Type``; ``stats`` are those of each event."""
    made = XPlane(name=name)
    for number, key in enumerate(stats or {}, 1):
        made.stat_metadata[number].name = key
    for label, happenings in lines.items():
        line = made.lines.add(name=label, timestamp_ns=7)
        for what, begin, end in happenings:
            place = len(made.event_metadata) + 1
            made.event_metadata[place].name = what
            path, _, kind = what.rpartition(":")
            if path and not path.endswith(":"):
                made.event_metadata[place].display_name = kind
            event = line.events.add(
                metadata_id=place, offset_ps=round(begin * 1e9), duration_ps=round((end - begin) * 1e9)
            )
            for number, value in enumerate((stats or {}).values(), 1):
                event.stats.add(metadata_id=number, str_value=value)
    return made


def seen(*planes: XPlane, count: int = 1) -> Trace:
    return summed_up(XSpace(planes=planes), 0, count)


MARK = ("clew:steps", 0.0, 10.0)


def parts(found: Trace) -> dict[str, float]:
    return {name: round(1000 * value, 6) for name, value in found.parts.items()}


def test_each_moment_counts_once_and_what_computes_comes_first() -> None:
    main = [MARK, ("KernelAndDeviceFunc::Run", 1.0, 10.0)]
    worker = [
        ("ExecutorState::Process", 1.0, 7.0),
        ("while/body/_1/while/input/GatherV2:GatherV2", 1.0, 3.0),
        ("while/body/_1/while/MatMul:_MklMatMul", 3.0, 5.0),
    ]
    other = [("while/body/_1/while/CollectiveReduceV2:CollectiveReduceV2", 4.0, 6.0)]
    found = seen(plane("/host:CPU", {"python": main, "tf_Compute/1": worker, "tf_Compute/2": other}))
    assert parts(found) == {"compute": 2.0, "reduce": 1.0, "input": 2.0, "host": 2.0, "idle": 3.0}
    assert dict(zip(found.names, found.kinds, strict=True)) == {
        "input/GatherV2": "input",
        "MatMul": "matmul",
        "CollectiveReduceV2": "reduce",
    }
    assert found.rows == ("Thread 1", "Thread 2")


def test_blocks_follow_each_other_without_what_was_done_between_them() -> None:
    main = [("clew:steps", 0.0, 4.0), ("clew:steps", 10.0, 14.0)]
    worker = [("a/MatMul:MatMul", 3.0, 4.0), ("b/MatMul:MatMul", 5.0, 9.0), ("a/MatMul:MatMul", 10.0, 12.0)]
    found = seen(plane("/host:CPU", {"python": main, "tf_Compute/1": worker}), count=2)
    spans = read_spans(found)
    assert spans is not None
    assert found.seconds == pytest.approx(0.008)
    assert (found.names, found.counts) == (("a/MatMul",), (2,))
    np.testing.assert_allclose(spans.begin, [0.003, 0.004])
    np.testing.assert_allclose(spans.took, [0.001, 0.002])


def test_threads_that_read_ahead_are_shown_and_only_waiting_for_them_is_input() -> None:
    main = [MARK, ("KernelAndDeviceFunc::Run", 0.0, 10.0)]
    fetch = [("IteratorGetNextOp::DoCompute", 0.0, 2.0)]
    ahead = [("Iterator::Root::Prefetch::ParallelMapV2", 0.0, 9.0), ("DecodePng:DecodePng", 1.0, 2.0)]
    reader = [("ReadFile:ReadFile", 3.0, 4.0), ("Cast:Cast", 4.0, 5.0)]
    found = seen(plane("/host:CPU", {"python": main, "a": fetch, "b": ahead, "tf_data_pool/7": reader}))
    assert parts(found) == {"compute": 0.0, "reduce": 0.0, "input": 2.0, "host": 0.0, "idle": 8.0}
    assert found.rows == ("Thread 1", "Reader 1", "Reader 2")
    assert found.names == ("ParallelMapV2", "IteratorGetNext", "ReadFile", "Cast")


def test_operations_that_only_hold_others_are_none() -> None:
    worker = [("__inference_run_7:__inference_run_7", 0.0, 9.0), ("a/If:If", 0.0, 8.0), ("a/MatMul:MatMul", 1.0, 2.0)]
    assert seen(plane("/host:CPU", {"python": [MARK], "a": worker})).names == ("a/MatMul",)


def test_kernels_of_a_device_have_the_names_of_their_operations() -> None:
    host = plane(
        "/host:CPU", {"python": [MARK, ("KernelAndDeviceFunc::Run", 0.0, 10.0)], "a": [("a/MatMul:MatMul", 0.0, 4.0)]}
    )
    kernels = plane(
        "/device:GPU:0",
        {"Stream #13(Compute)": [("sgemm_128", 3.0, 9.0)]},
        {"tf_op": "while/body/_1/while/MatMul:MatMul"},
    )
    idle = plane(
        "/device:GPU:1", {"Stream #13(Compute)": [("ncclKernel_AllReduce", 8.0, 10.0)], "XLA Ops": [("x", 0.0, 9.0)]}
    )
    found = seen(host, kernels, idle)
    assert parts(found) == {"compute": 3.0, "reduce": 1.0, "input": 0.0, "host": 3.5, "idle": 2.5}
    assert found.rows == ("Thread 1", "GPU 0 Stream #13(Compute)", "GPU 1 Stream #13(Compute)")
    assert ("MatMul", "matmul") in zip(found.names, found.kinds, strict=True)
    assert ("ncclKernel_AllReduce", "reduce") in zip(found.names, found.kinds, strict=True)


def test_a_long_trace_keeps_its_longest_spans_and_all_sums() -> None:
    rows = {
        f"tf_Compute/{row}": [
            ("a/Mul:Mul", k * 0.001, k * 0.001 + (0.0009 if row else 0.0005)) for k in range(MOST_SPANS // 2)
        ]
        for row in range(3)
    }
    made = plane("/host:CPU", {"python": [MARK]})
    made.event_metadata[9].name, made.event_metadata[9].display_name = "a/Mul:Mul", "Mul"
    for label, happenings in rows.items():
        line = made.lines.add(name=label)
        for _, begin, end in happenings:
            line.events.add(metadata_id=9, offset_ps=round(begin * 1e9), duration_ps=round((end - begin) * 1e9))
    tracemalloc.start()
    found = seen(made)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 300 * 3 * MOST_SPANS // 2, "a million spans have to find room between two steps"
    spans = read_spans(found)
    assert spans is not None
    assert len(spans.begin) == MOST_SPANS
    assert found.left_out == MOST_SPANS // 2
    assert found.counts == (3 * MOST_SPANS // 2,)
    assert spans.took.min() > 0.0000008
    assert len(encode_frame(found)) < 400_000


def test_operations_beyond_those_with_a_name_are_one_of_the_sums() -> None:
    many = [(f"a/n{k}/Mul:Mul", k * 0.01, k * 0.01 + 0.008 - k * 1e-6) for k in range(MOST_NAMES + 20)]
    found = seen(plane("/host:CPU", {"python": [MARK], "tf_Compute/0": many}))
    assert len(found.names) == len(found.kinds) == len(found.counts) == MOST_NAMES
    assert (found.names[-1], found.kinds[-1], found.counts[-1]) == ("21 others", "other", 21)
    assert sum(found.totals) == pytest.approx(sum(end - begin for _, begin, end in many) / 1000)
    assert read_spans(found) is not None


def test_a_timeline_of_some_threads_has_the_sums_of_all() -> None:
    threads = {f"tf_Compute/{row}": [("a/MatMul:MatMul", 1.0, 2.0 + row / 100)] for row in range(MOST_ROWS + 6)}
    found = seen(plane("/host:CPU", {"python": [MARK, ("a/Exp:Exp", 0.0, 0.5)], **threads}))
    spans = read_spans(found)
    assert spans is not None
    assert (found.names, found.counts) == (("a/MatMul", "a/Exp"), (MOST_ROWS + 6, 1))
    assert sum(found.totals) == pytest.approx(0.0005 + sum(1 + row / 100 for row in range(MOST_ROWS + 6)) / 1000)
    assert len(found.rows) == len(spans.row) == MOST_ROWS
    assert found.left_out == 7
    assert spans.took.min() == pytest.approx(0.00106), "the rows with the most work"


def test_steps_without_operations_are_idle() -> None:
    found = seen(plane("/host:CPU", {"python": [MARK, ("KernelAndDeviceFunc::Run", 0.0, 10.0)]}))
    assert parts(found) == {"compute": 0.0, "reduce": 0.0, "input": 0.0, "host": 0.0, "idle": 10.0}
    assert found.names == found.rows == ()
    assert read_spans(found) is not None


def test_marks_that_took_no_time_are_a_problem() -> None:
    with pytest.raises(ProblemError, match="saw nothing"):
        seen(plane("/host:CPU", {"python": [("clew:steps", 1.0, 1.0)]}))


def test_a_file_without_steps_is_a_problem() -> None:
    with pytest.raises(ProblemError, match="saw nothing"):
        summed_up(read_space(b""), 0, 1)


@pytest.mark.parametrize(
    ("name", "what", "kind"),
    [
        ("while/Conv2DBackpropInput", "_MklNativeConv2DBackpropInput", "convolution"),
        ("while/Relu_1", "_MklNativeFusedConv2D", "convolution"),
        ("while/MatMul/MatMul_1", "_MklMatMul", "matmul"),
        ("dot.3", "dot.3", "matmul"),
        ("while/fused_adam/ResourceApplyAdam", "ResourceApplyAdam", "weights"),
        ("while/sgd/AssignSubVariableOp", "AssignSubVariableOp", "weights"),
        ("while/BiasAdd/BiasAddGrad", "BiasAddGrad", "sums"),
        ("while/MaxPool2d", "_MklNativeMaxPool", "sums"),
        ("while/add_1", "AddV2", "pointwise"),
        ("while/Cast", "Cast", "pointwise"),
        ("while/ConvertIt", "Convert", "other"),
        ("Func/while/input/StatefulPartitionedCall/input/_5", "Identity", "input"),
        ("while/replica_1/input_1/GatherV2", "GatherV2", "input"),
        ("Func/while/body/_1/input/_121/_31", "_Send", "other"),  # an argument of the loop, to or from a GPU
        ("while/GatherV2", "GatherV2", "other"),
        ("ReadFile", "ReadFile", "input"),
        ("nccl", "NcclAllReduce", "reduce"),
    ],
)
def test_kinds_of_operations(name: str, what: str, kind: str) -> None:
    assert kind_of(name, what) == kind


@pytest.mark.parametrize(
    ("name", "what", "short"),
    [
        ("while/body/_1/gradient_tape/while/MatMul/MatMul_1", "_MklMatMul", "gradient/MatMul/MatMul_1"),
        ("while/body/_1/while/Relu_1", "_MklNativeFusedConv2D", "Relu_1 (FusedConv2D)"),
        ("while/body/_1/while/add_1", "AddV2", "add_1"),
        ("wrapped_add", "wrapped_add", "wrapped_add"),
    ],
)
def test_names_say_what_an_operation_is(name: str, what: str, short: str) -> None:
    assert short_name(name, what) == short
