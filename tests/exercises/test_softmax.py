"""The second exercise: the slides' accuracy on the real data, and a short run on the built-in digits."""

from __future__ import annotations

import pytest

from clew_agent.datasets import registry
from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.softmax import EXERCISE
from clew_shared.cards import DataSetCard
from tests.exercises.training import assert_same_bits, make_engine, race_records, train


def test_the_card_names_data_sets_that_are_like_one_that_the_exercise_names(monkeypatch: pytest.MonkeyPatch) -> None:
    new = DataSetCard(name="new", title="New", like="fashion-mnist")
    monkeypatch.setattr(registry, "cards", lambda: (new, DataSetCard(name="other", title="Other", like="unknown")))
    assert EXERCISE.card("", "").datasets == (*EXERCISE.datasets, "new")


@pytest.mark.needs("real-mnist")
def test_the_slides_values_give_the_slides_accuracy(real_mnist: DataSet) -> None:
    engine = make_engine(EXERCISE, {}, real_mnist)
    seen = train(engine)
    values = engine.evaluate()
    assert values["test_accuracy"] == pytest.approx(0.9079, abs=2e-4)
    assert engine.course.samples_per_epoch == 50_000
    assert seen["loss"][0] == pytest.approx(2.302585, rel=1e-5)  # ten equal scores: the logarithm of 10
    assert seen["loss"].shape == seen["accuracy"].shape == (500,)


def test_the_digits_are_learnt_with_the_tiny_preset(small_digits: DataSet) -> None:
    (tiny,) = [preset for preset in EXERCISE.presets if preset.name == "tiny"]
    engine = make_engine(EXERCISE, tiny.values, small_digits)
    seen = train(engine)
    assert seen["loss"][-1] < seen["loss"][0] / 3
    assert engine.evaluate()["test_accuracy"] > 0.8


def test_every_lane_of_the_race_sees_the_same_batches(small_digits: DataSet) -> None:
    first, *others = race_records(EXERCISE, {"steps": 8}, small_digits)
    assert len(others) == 5
    for record in others:
        assert_same_bits(record, first)
    assert len(set(first["accuracy"].tolist())) > 1, "batches differ from step to step"
