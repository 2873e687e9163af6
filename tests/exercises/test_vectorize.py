"""Products by loop, libraries and several devices: the same results, a point for each size, goals that are judged."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from clew_agent.exercises.devices import vectorize
from clew_agent.exercises.devices.vectorize import (
    EXERCISE,
    Array,
    Call,
    Implementation,
    VectorizeSettings,
    compare,
    implementations,
    operands,
    seconds_per_call,
    sizes_to,
    spread,
)
from clew_agent.training.exercise import Setup
from clew_gui.study.goals import check_goal
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Attempt, Event
from clew_shared.journal.history import History
from clew_shared.params import build
from clew_shared.spec import RunSpec

NAMES = ["Python loop", "Loop over NumPy", "NumPy", "TensorFlow", "XLA"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each measurement is one call."""
    monkeypatch.setattr(vectorize, "REPEATS_LAST_S", 0.0)


def measured(values: dict[str, object]) -> History:
    history = History()
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise=EXERCISE.id, spec_sha256=""))
    for event in events(values):
        history.feed(1, event)
    return history


def events(values: dict[str, object]) -> Iterator[Event | None]:
    return EXERCISE.measure(Setup(build(VectorizeSettings, values), seed=1))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("operation", "sizes"), [("dot", [10, 100, 500]), ("matvec", [9, 100, 484])])
def test_each_implementation_has_a_point_for_each_size(operation: str, sizes: list[int]) -> None:
    history = measured({"operation": operation, "largest": 500, "repeats": 1})
    assert list(history.series) == NAMES
    for one in history.series.values():
        assert one.x.tolist() == sizes
        assert (one.y > 0).all()
        assert (one.last.x_label, one.last.y_unit) == ("Multiplications", "s")
    assert (history.fold.step, history.fold.steps) == (3, 3)
    assert "All results are the same." in history.logs[-1].text


@pytest.mark.usefixtures("quick")
def test_the_goals_are_judged_by_the_times_at_the_largest_size() -> None:
    history = measured({"largest": 100, "repeats": 1})
    times = {name: one.y[-1] for name, one in history.series.items()}
    for goal, name in zip(EXERCISE.goals, ("NumPy", "TensorFlow"), strict=True):
        spec = RunSpec(exercise=EXERCISE.id, params={"largest": 1_000_000})
        result = check_goal(goal, history, EXERCISE.card(), spec)
        assert result.value == pytest.approx(times["Python loop"] / times[name])
        assert result.reached == (result.value is not None and result.value >= 20)


@pytest.mark.usefixtures("quick")
def test_a_result_that_differs_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(a: Array, b: Array) -> Call:
        return lambda: np.asarray(a @ b * (1 + 1e-6))

    known = implementations()
    monkeypatch.setattr(vectorize, "implementations", lambda: [*known, Implementation("Wrong", wrong)])
    with pytest.raises(ProblemError, match=r"Wrong and Python loop differ by 1\.0e-06"):
        list(events({"largest": 10, "repeats": 1}))


def test_rounding_is_no_difference() -> None:
    same = np.array([1.0, 2.0])
    compare({"a": same, "b": same * (1 + 1e-12)}, 2)
    with pytest.raises(ProblemError):
        compare({"a": same, "b": np.array([1.0, np.nan])}, 2)


@pytest.mark.parametrize("operation", ["dot", "matvec"])
@pytest.mark.parametrize("devices", [2, 3])
def test_parts_on_several_devices_give_the_whole_product(operation: str, devices: int) -> None:
    a, b = operands(operation, 100, np.random.default_rng(1))
    result = spread(["/device:CPU:0"] * devices, a, b)()
    np.testing.assert_allclose(np.ravel(result), np.ravel(a @ b), rtol=1e-12)


def test_sizes_are_powers_of_ten_up_to_the_largest() -> None:
    assert sizes_to(10) == [10]
    assert sizes_to(1000) == [10, 100, 1000]
    assert sizes_to(2500) == [10, 100, 1000, 2500]


def test_a_time_is_the_median_over_calls_that_last_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    disturbed = iter([1.0, 9.0, 1.0])

    def timed(call: Call, count: int) -> float:
        asked.append(count)
        enough = asked.count(count) > 1  # the first time with this count decides whether it lasts long enough
        return 1e-6 * count * (next(disturbed) if enough else 1.0)

    monkeypatch.setattr(vectorize, "timed", timed)
    assert seconds_per_call(lambda: np.zeros(1), repeats=3) == pytest.approx(1e-6)
    assert asked[0] == 1
    assert asked[-1] * 1e-6 >= vectorize.REPEATS_LAST_S
    assert asked[-4:] == [asked[-1]] * 4
