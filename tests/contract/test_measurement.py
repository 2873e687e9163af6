"""The exercise shape carries a measurement: nothing is trained, series come as they are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated

import numpy as np
import numpy.typing as npt

from clew_agent.training.exercise import Measurement, Setup
from clew_shared.journal.events import Event, Log, Series
from clew_shared.params import Knob, Params, build

Way = Callable[[npt.NDArray[np.float64]], float]


class SumSettings(Params, frozen=True, kw_only=True):
    """How far to go."""

    largest: Annotated[int, Knob("Largest size", ge=10, le=100_000_000, log=True)] = 1000


class SumOfSquares(Measurement[SumSettings]):
    """A loop against NumPy, by size."""

    id = "toy-vectorize"
    title = "Loop against NumPy"
    Settings = SumSettings

    def measure(self, setup: Setup[SumSettings]) -> Iterator[Event]:
        """One series for each way, all with the same result."""
        sizes = [10**power for power in range(1, len(str(setup.settings.largest)))]
        ways: dict[str, Way] = {"loop": lambda x: sum(value * value for value in x), "numpy": lambda x: np.dot(x, x)}
        results = []
        for name, way in ways.items():
            seconds = []
            for size in sizes:
                x = np.arange(size, dtype=np.float64)
                start = time.perf_counter()
                results.append((size, way(x)))
                seconds.append(time.perf_counter() - start)
            yield Series(
                name=name,
                x=np.array(sizes, "<f8").tobytes(),
                y=np.array(seconds, "<f8").tobytes(),
                x_label="Size",
                y_label="Time",
                y_unit="s",
            )
        yield Log(text="same results" if len(set(results)) == len(sizes) else "results differ")


def measured(values: dict[str, object]) -> list[Event]:
    return list(SumOfSquares().measure(Setup(build(SumSettings, values), seed=1)))


def test_a_measurement_yields_series_and_says_how_it_went() -> None:
    loop, vectorized, log = measured({"largest": 1000})
    assert isinstance(loop, Series)
    assert isinstance(vectorized, Series)
    assert [loop.name, vectorized.name] == ["loop", "numpy"]
    assert np.frombuffer(loop.x, "<f8").tolist() == [10, 100, 1000]
    assert np.frombuffer(vectorized.y, "<f8").shape == (3,)
    assert log == Log(text="same results")


def test_its_card_says_that_it_measures() -> None:
    card = SumOfSquares().card()
    assert card.kind == "measurement"
    assert [spec.name for spec in card.params] == ["largest"]
