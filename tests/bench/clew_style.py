"""Clew's own loop as the trainer runs it: blocks of steps, every step's metrics into a journal on the disk."""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from clew_agent.catalogue.examine import find_exercise
from clew_agent.datasets.dataset import DataSet
from clew_agent.strategies.registry import make_strategy
from clew_agent.trainer.loop import SCHEMA, split
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_agent.training.engine import Engine
from clew_agent.training.runtime import configure
from clew_shared.journal.events import Event, Schema
from clew_shared.journal.files import JournalWriter
from clew_shared.params import build
from tests.bench.measure import Timing
from tests.bench.work import bench_data

Round = Callable[[], Timing]
FRAME_BYTES = 512 * 1024


def clew_round(name: str, steps: int, variant: str = "") -> Round:
    """A function that trains ``steps`` steps from fresh weights; compiling and the last evaluation are not timed.

    The time ends when the last point is in the file, with the variant "sync" when it is on the disk; "mirrored" and
    "local-sgd" are those strategies on two devices.
    """
    spread = variant in ("mirrored", "local-sgd")
    configure(devices=2 if spread else 1)
    exercise = find_exercise(name, None)[0]
    settings = build(exercise.Settings, {"steps": steps})
    data = bench_data() if exercise.datasets else None

    def run() -> Timing:
        gc.collect()  # compiled functions of the round before, with their data, go in circles
        strategy = make_strategy(variant, 2) if spread else None
        engine = Engine(exercise, settings, 1, data, strategy=strategy)
        engine.compile()
        folder = Path(tempfile.mkdtemp(prefix="clew-bench-"))
        try:
            seconds = _train(engine, folder, variant == "sync")
        finally:
            shutil.rmtree(folder)
        return Timing(steps, seconds, _result(engine, data))

    return run


class Watched(JournalWriter):
    """Notes when the last frame was in the file."""

    appended = 0.0

    def append(self, event: Event) -> int:
        """As a journal does it."""
        size = super().append(event)
        self.appended = time.perf_counter()
        return size


def _train(engine: Engine, folder: Path, sync: bool) -> float:
    """Wall seconds from before the first block until the last point is in the journal."""
    with Watched.create(folder / "journal.0001") as writer:
        recorder = Recorder(writer, Reserve(folder / "reserve"))
        recorder.start()
        recorder.put(Schema(id=SCHEMA, metrics=engine.course.per_step))
        recorder.flush()
        begin, clock = time.perf_counter(), 0.0
        while not engine.done:
            block = engine.run_block()
            for points in split(block, clock, FRAME_BYTES):
                recorder.put(points)
            clock += block.seconds
            recorder.wait_for_disk(lambda: False)
        recorder.flush()
        end = time.perf_counter() if sync else writer.appended
        recorder.close()
    return end - begin


def _result(engine: Engine, data: DataSet | None) -> float:
    """Test accuracy, or the loss of the fitted line."""
    if data is not None:
        return engine.evaluate()["test_accuracy"]
    variables = {name.rsplit("/", 1)[-1]: value for name, value in engine.variables.items()}
    weight, bias = float(np.sum(variables["W"])), float(np.sum(variables["b"]))
    x, y = np.array([1.0, 2, 3, 4]), np.array([0.0, -1, -2, -3])
    return float(np.sum((weight * x + bias - y) ** 2))
