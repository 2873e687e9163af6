"""An engine without TensorFlow: NumPy trains the linear regression. It shows what the training loop needs of an engine.

``python -m tests.exercises.numpy_engine FOLDER`` trains a run in that folder, in a process that loads no TensorFlow.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clew_agent.engine.base import StepParts, TrainingEngine
from clew_agent.engine.blocks import TrainedBlock
from clew_agent.engine.course import Course
from clew_agent.engine.pictures import Pictures
from clew_agent.training.settings import TrainingSettings
from clew_shared.cards import Bars, MetricSpec
from clew_shared.journal.events import Event
from clew_shared.params import build
from clew_shared.spec import RunSpec
from tests.exercises.attempts import attempt, new_run

X, Y = np.array([1.0, 2, 3, 4]), np.array([0.0, -1, -2, -3])
METRICS = tuple(MetricSpec(name=name, label=name, dtype="float64") for name in ("loss", "W", "b"))
PICTURE = Bars("line", labels=("W", "b"), every=50)
BLOCK = 10


class NumpyEngine:
    """Gradient descent on four points, in float64: a ``TrainingEngine``."""

    replicas, logical_devices, reduced_bytes = 1, False, 0
    parts = StepParts()

    def __init__(self, settings: TrainingSettings) -> None:
        self.course = Course(settings, METRICS, samples=len(X), samples_per_step=len(X))
        self._line = np.array([0.3, -0.3])
        self._pictures = Pictures(self.course, (PICTURE,), {PICTURE.id: lambda: self._line})

    def compile(self) -> float:
        """Nothing is to be compiled."""
        return 0.0

    def measure_parts(self) -> None:
        """A step has no parts."""

    def compile_evaluation(self) -> float:
        """There are no held-out data."""
        return 0.0

    def compile_pictures(self) -> float:
        """Call each picture's function once."""
        return self._pictures.compile()

    def run_block(self, until: int | None = None) -> TrainedBlock:
        """The next steps: values from before each update."""
        start = time.perf_counter()
        count = min(BLOCK, self.course.room(until, self._pictures.places()))
        rows = np.array([self._step() for _ in range(count)])
        return self.course.trained(rows, time.perf_counter() - start)

    def _step(self) -> npt.NDArray[np.float64]:
        W, b = self._line
        error = W * X + b - Y
        row = np.array([(error**2).sum(), W, b])
        gradient = np.array([(2 * error * X).sum(), (2 * error).sum()])
        self._line = self._line - self.course.live["learning_rate"] * gradient
        return row

    def evaluate(self) -> dict[str, float]:
        """There are no held-out data."""
        return {}

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        """The line as two bars."""
        return self._pictures.take(last=last)

    def save(self, folder: Path) -> None:
        """Write the line and the course."""
        folder.mkdir(parents=True)
        arrays: Any = self.course.saved() | {"line": self._line}
        np.savez(folder / "state.npz", **arrays)

    def restore(self, folder: Path) -> None:
        """Go on from there."""
        with np.load(folder / "state.npz") as saved:
            self._line = saved["line"]
            self.course.go_on_from(saved)


def numpy_engine(spec: RunSpec, _data: object) -> TrainingEngine:
    """The engine for a run."""
    return NumpyEngine(build(TrainingSettings, spec.params))


def main(folder: Path) -> None:
    """Train in ``folder``; prints which of TensorFlow and Keras this process has loaded."""
    attempt(new_run(folder), engine_of=numpy_engine)
    print(*sorted({"tensorflow", "keras"} & sys.modules.keys()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
