"""Clew's own loop as the trainer runs it: blocks of steps, every step's metrics into a journal on the disk."""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from clew_agent.datasets import DataSet
from clew_agent.recorder import Recorder, Reserve
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Exercise
from clew_shared.events import Points, Schema
from clew_shared.journal import JournalWriter
from clew_shared.params import build
from tests.bench.measure import Timing
from tests.bench.work import bench_data

Round = Callable[[], Timing]


def clew_round(name: str, steps: int) -> Round:
    """A function that trains ``steps`` steps from fresh weights; compiling and the last evaluation are not timed."""
    exercise = find_exercise(name)
    settings = build(exercise.Settings, {"steps": steps})
    data = bench_data() if exercise.datasets else None

    def run() -> Timing:
        gc.collect()  # compiled functions of the round before, with their data, go in circles
        engine = Engine(exercise, settings, 1, data)
        engine.compile()
        folder = Path(tempfile.mkdtemp(prefix="clew-bench-"))
        try:
            seconds = _train(engine, folder)
        finally:
            shutil.rmtree(folder)
        return Timing(steps, seconds, _result(engine, data))

    return run


def find_exercise(name: str) -> Exercise[Any]:
    """The built-in exercise with this id."""
    module = import_module(f"clew_agent.exercises.{name.replace('-', '_')}")
    found: Exercise[Any] = module.EXERCISE
    return found


def _train(engine: Engine, folder: Path) -> float:
    """Wall seconds from before the first block until the last point is in the journal and on the disk."""
    with JournalWriter.create(folder / "journal.0001") as writer:
        recorder = Recorder(writer, Reserve(folder / "reserve"))
        recorder.start()
        recorder.put(Schema(id=1, metrics=engine.per_step))
        seconds = 0.0
        begin = time.perf_counter()
        while not engine.done:
            block = engine.run_block()
            seconds += block.seconds
            values = tuple(np.ascontiguousarray(column).tobytes() for column in block.values)
            recorder.put(
                Points(
                    schema=1, first=block.first, count=block.count, seconds=block.seconds, clock=seconds, values=values
                )
            )
            recorder.wait_for_disk(lambda: False)
        recorder.flush()
        elapsed = time.perf_counter() - begin
        recorder.close()
    return elapsed


def _result(engine: Engine, data: DataSet | None) -> float:
    """Test accuracy, or the loss of the fitted line."""
    if data is not None:
        return engine.evaluate()["test_accuracy"]
    variables = {name.rsplit("/", 1)[-1]: value for name, value in engine.variables.items()}
    weight, bias = float(np.sum(variables["W"])), float(np.sum(variables["b"]))
    x, y = np.array([1.0, 2, 3, 4]), np.array([0.0, -1, -2, -3])
    return float(np.sum((weight * x + bias - y) ** 2))
