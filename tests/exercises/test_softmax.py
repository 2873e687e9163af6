"""The second exercise: the slides' accuracy on the real data, and a short run on the built-in digits."""

from __future__ import annotations

import pytest

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.softmax import EXERCISE
from clew_shared.params import Value
from tests.exercises.training import make_engine, train


@pytest.mark.needs("real-mnist")
def test_the_slides_values_give_the_slides_accuracy(real_mnist: DataSet) -> None:
    engine = make_engine(EXERCISE, {}, real_mnist)
    seen = train(engine)
    values = engine.evaluate()
    assert values["test_accuracy"] == pytest.approx(0.9079, abs=2e-4)
    assert engine.samples_per_epoch == 50_000
    assert seen["loss"][0] == pytest.approx(2.302585, rel=1e-5)  # ten equal scores: the logarithm of 10
    assert seen["loss"].shape == seen["accuracy"].shape == (500,)


def test_the_digits_are_learnt_with_the_tiny_preset(small_digits: DataSet) -> None:
    (tiny,) = [preset for preset in EXERCISE.presets if preset.name == "tiny"]
    engine = make_engine(EXERCISE, tiny.values, small_digits)
    seen = train(engine)
    assert seen["loss"][-1] < seen["loss"][0] / 3
    assert engine.evaluate()["test_accuracy"] > 0.8


def test_every_lane_of_the_race_sees_the_same_batches(small_digits: DataSet) -> None:
    """At a rate that is 0 in float32, each step's values are those of its batch alone: the same bits for every lane."""
    (race,) = EXERCISE.races
    shared: dict[str, Value] = {"order": "shuffle", "steps": 8, "learning_rate": 1e-60}
    records = [train(make_engine(EXERCISE, lane.values | shared, small_digits)) for lane in race.lanes]
    assert len(records) == 6
    for name in ("loss", "accuracy"):
        assert len({record[name].tobytes() for record in records}) == 1
    assert len(set(records[0]["accuracy"].tolist())) > 1, "batches differ from step to step"
