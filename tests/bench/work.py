"""The work of one round: which steps on which samples. The same for all contenders."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from clew_agent.datasets.dataset import DataSet
from clew_agent.datasets.load import load
from clew_agent.datasets.search import find_search
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from tests.bench.measure import Timing

Fresh = TypeVar("Fresh")
Trained = TypeVar("Trained")
Round = Callable[[], Timing]
Floats = npt.NDArray[np.float32]
_TEST_IMAGES = {"softmax": 10_000, "cnn": 2_000}


class Work(NamedTuple):
    """``x`` [samples, 784] and ``one_hot`` [samples, 10] in file order, ``batch_size`` of them in each step."""

    steps: int
    batch_size: int
    x: Floats
    one_hot: Floats
    test_x: Floats
    test_one_hot: Floats

    def batch(self, step: int) -> npt.NDArray[np.int64]:
        """Indices of the samples of ``step``; the first sample follows the last."""
        first = step * self.batch_size
        return np.arange(first, first + self.batch_size) % max(len(self.x), 1)

    def accuracy(self, scores: npt.ArrayLike) -> float:
        """The share of the test images whose highest score is the right one's."""
        return float(np.mean(np.argmax(np.asarray(scores), 1) == np.argmax(self.test_one_hot, 1)))

    def round(
        self, fresh: Callable[[], Fresh], train: Callable[[Fresh], Trained], result: Callable[[Trained], float]
    ) -> Round:
        """A round that trains all steps from what ``fresh`` makes; only ``train`` is timed."""

        def run() -> Timing:
            state = fresh()
            begin = time.perf_counter()
            trained = train(state)
            seconds = time.perf_counter() - begin
            return Timing(self.steps, seconds, result(trained))

        return run


def make_work(exercise: str, steps: int) -> Work:
    """The samples of ``exercise``; empty arrays for one that needs none."""
    if exercise == "linear-regression":
        none = np.empty((0, 0), np.float32)
        return Work(steps, 4, none, none, none, none)
    data = bench_data()
    few = _TEST_IMAGES[exercise]
    test_x, test_y = data.test.x[:few], data.test.y[:few]
    batch_size = {"softmax": 100, "cnn": 50}[exercise]
    return Work(steps, batch_size, data.train.x, _one_hot(data.train.y), test_x, _one_hot(test_y))


def bench_data() -> DataSet:
    """The real MNIST where CLEW_DATA or the user's cache has it, else the built-in digits, for speed alone."""
    search = find_search(find_places())
    try:
        return load("mnist", search)
    except ProblemError:
        return load("digits", search)


def _one_hot(labels: npt.NDArray[np.int32]) -> Floats:
    return np.eye(10, dtype=np.float32)[labels]
