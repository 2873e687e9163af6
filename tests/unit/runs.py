"""Small but complete run folders, written with the real writer, for tests that read, verify and export them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Attempt, Checkpoint, Evaluation, Event, Log, Points, Pulse, Schema, State, Trace
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files, record_file
from clew_shared.spec import RunSpec, to_toml

RUN = "5f2b8c1e-0000-4000-8000-000000000001"
METRICS = (
    MetricSpec(name="loss", label="loss", better="lower"),
    MetricSpec(name="W", label="W", dtype="float64"),
    MetricSpec(name="test_accuracy", label="test accuracy", per_step=False, better="higher", format="percent"),
)


def points(first: int, loss: Iterable[float], time: float = 0.0) -> Points:
    """A block of one second with these losses; W is 10 times the step."""
    column = np.array(list(loss), "<f4")
    weights = 10.0 * np.arange(first, first + len(column), dtype="<f8")
    end = float(first + len(column))
    values = (column.tobytes(), weights.tobytes())
    return Points(time=time, schema=1, first=first, count=len(column), seconds=1.0, clock=end, values=values)


def pulse(first: float, process: str = "trainer", host: str = "node1", **columns: list[float]) -> Pulse:
    """Samples a second apart, the first at ``first``."""
    count = len(next(iter(columns.values())))
    return Pulse(
        time=first + count - 1,
        process=process,
        host=host,
        times=(first + np.arange(count, dtype="<f8")).tobytes(),
        names=tuple(columns),
        values=tuple(np.array(values, "<f4").tobytes() for values in columns.values()),
    )


def trace(step: int = 0) -> Trace:
    """Two steps of 2 ms on one thread: two products of matrices and one other operation."""
    return Trace(
        step=step,
        count=2,
        seconds=0.004,
        parts={"compute": 0.003, "input": 0.0005, "host": 0.0002, "idle": 0.0003},
        names=("MatMul", "ReluGrad"),
        kinds=("matmul", "pointwise"),
        counts=(2, 1),
        totals=(0.0025, 0.0005),
        rows=("Thread 1",),
        row=np.array([0, 0, 0], "<u2").tobytes(),
        name=np.array([0, 0, 1], "<u2").tobytes(),
        begin=np.array([0.0005, 0.0021, 0.0034], "<f8").tobytes(),
        took=np.array([0.0015, 0.001, 0.0005], "<f4").tobytes(),
    )


def begin_run(path: Path, **fields: Any) -> RunFolder:
    """A run folder with its spec, before the first attempt."""
    folder = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    usual: dict[str, Any] = {"exercise": "softmax", "run": RUN, "params": {"learning_rate": 0.5}}
    folder.spec.write_text(to_toml(RunSpec(**usual | fields)), newline="\n")
    return folder


def describe(folder: RunFolder, number: int = 1, **changes: object) -> Attempt:
    """The first event of an attempt in ``folder``."""
    usual: dict[str, object] = {
        "time": 1_700_000_000.0,
        "format": JOURNAL_FORMAT,
        "run": RUN,
        "attempt": number,
        "exercise": "softmax",
        "spec_sha256": hashlib.sha256(folder.spec.read_bytes()).hexdigest(),
        "steps": 4,
    }
    return Attempt(**usual | changes)  # type: ignore[arg-type]


def write_checkpoint(folder: RunFolder, step: int, size: int = 300) -> Checkpoint:
    """A checkpoint of two files, complete on disk, and its event."""
    place = folder.checkpoint(step)
    place.mkdir(parents=True, exist_ok=True)
    (place / "index").write_bytes(bytes([step % 256]) * 20)
    (place / "data").write_bytes(bytes((step + i) % 256 for i in range(size)))
    files = tuple(record_file(folder.path, path) for path in sorted(place.iterdir()))
    return Checkpoint(step=step, folder=place.relative_to(folder.path).as_posix(), files=files)


def end_run(folder: RunFolder, writer: JournalWriter, state: RunState = RunState.FINISHED, time: float = 0.0) -> None:
    """Record the remaining files, the terminal state and the seal."""
    for files in final_files(folder.path):
        writer.append(files)
    writer.append(State(time=time, state=state))
    writer.seal("trainer")


def small_run(path: Path, extra: Iterable[Event] = ()) -> RunFolder:
    """A finished run of 4 steps with spec, journal, log, a checkpoint and an artifact."""
    folder = begin_run(path)
    with JournalWriter.create(folder.journal(1)) as writer:
        for event in (
            describe(folder),
            Schema(id=1, metrics=METRICS),
            State(time=1_700_000_001.0, state=RunState.RUNNING),
            points(0, [4, 3], time=1_700_000_002.0),
            Log(text="a sentence"),
            points(2, [2, float("nan")], time=1_700_000_003.0),
            Evaluation(time=1_700_000_003.5, step=4, values={"test_accuracy": 0.9}, clock=4.0),
            write_checkpoint(folder, 4),
            *extra,
        ):
            writer.append(event)
        folder.log.write_bytes(b"step 1\nstep 2\n")
        folder.artifacts.mkdir()
        (folder.artifacts / "picture.bin").write_bytes(b"\x00\x01\x02")
        (folder.artifacts / "empty.txt").touch()
        end_run(folder, writer, time=1_700_000_004.0)
    return folder
