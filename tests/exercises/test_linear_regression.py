"""The first exercise against plain NumPy, step for step."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from clew_agent.exercises.linear_regression import EXERCISE
from clew_shared.surface import heights_of
from tests.exercises.training import make_engine, train


def numpy_loop(steps: int = 1000, rate: float = 0.01) -> dict[str, npt.NDArray[Any]]:
    """Gradient descent on the four points in float64; values from before each update."""
    x, y = np.array([1.0, 2, 3, 4]), np.array([0.0, -1, -2, -3])
    w, b = 0.3, -0.3
    rows = []
    for _ in range(steps):
        error = w * x + b - y
        rows.append(((error**2).sum(), w, b))
        w, b = w - rate * (2 * error * x).sum(), b - rate * (2 * error).sum()
    return dict(zip(("loss", "W", "b"), np.array(rows).T, strict=True))


def test_defaults_equal_a_numpy_loop_step_for_step() -> None:
    expected, seen = numpy_loop(), train(make_engine(EXERCISE, {}))
    early = expected["loss"] > 1e-6
    assert early.sum() > 500
    for name in ("loss", "W", "b"):
        assert seen[name].dtype == np.float64
        np.testing.assert_allclose(seen[name][early], expected[name][early], rtol=1e-6)
        np.testing.assert_allclose(seen[name][~early], expected[name][~early], rtol=0, atol=1e-11)
    assert seen["loss"][0] == pytest.approx(23.66)
    assert seen["loss"][-1] == pytest.approx(5.8e-11, rel=0.02)


def test_the_rate_acts_in_float64() -> None:
    """In float32, 0.01 is off by 2e-8, which shows after the first step."""
    seen = train(make_engine(EXERCISE, {"steps": 2}))
    assert seen["W"][1] == pytest.approx(numpy_loop(2)["W"][1], rel=1e-15)


@pytest.mark.parametrize(
    ("values", "last_loss"),
    [
        ({"optimizer": "momentum"}, 0.0),
        ({"optimizer": "adam"}, 4.6e-3),
        ({"optimizer": "rmsprop"}, 1.4e-3),
        ({"optimizer": "adagrad", "learning_rate": 0.1}, 1.5e-2),
        ({"optimizer": "adadelta", "learning_rate": 1.0}, 0.70),
    ],
)
def test_the_race_ends_where_it_was_measured_to_end(values: dict[str, Any], last_loss: float) -> None:
    assert train(make_engine(EXERCISE, values))["loss"][-1] == pytest.approx(last_loss, rel=0.05, abs=1e-9)


def test_the_ghost_curve_is_the_slides_loss() -> None:
    curve = EXERCISE.plots[0].expected
    loss = numpy_loop()["loss"]
    assert len(curve) == 40
    assert all(value == pytest.approx(loss[int(step)]) for step, value in curve)
    assert [step for step, _ in curve[:3]] == [0, 25, 50]


def test_every_lane_of_the_race_starts_at_the_same_loss_and_gets_the_same_steps() -> None:
    (race,) = EXERCISE.races
    records = [train(make_engine(EXERCISE, lane.values | {"steps": 20})) for lane in race.lanes]
    assert {len(record["loss"]) for record in records} == {20}
    for name in ("loss", "W", "b"):
        assert len({record[name][:1].tobytes() for record in records}) == 1, f"{name} of step 0, bit for bit"
    assert len({record["loss"][1:].tobytes() for record in records}) > 1


def test_the_surface_holds_the_path_of_every_lane() -> None:
    (surface,), (race,) = EXERCISE.surfaces(), EXERCISE.races
    heights = heights_of(surface)
    for lane in race.lanes:
        record = train(make_engine(EXERCISE, lane.values | {"steps": race.steps}))
        for axis, span in zip(surface.metrics, (surface.x, surface.y), strict=True):
            assert span[0] <= record[axis].min() <= record[axis].max() <= span[1]
        column = (record["W"][0] - surface.x[0]) / (surface.x[1] - surface.x[0]) * (surface.columns - 1)
        row = (record["b"][0] - surface.y[0]) / (surface.y[1] - surface.y[0]) * (surface.rows - 1)
        near = heights[int(row) : int(row) + 2, int(column) : int(column) + 2]
        assert near.min() <= record["loss"][0] <= near.max()
