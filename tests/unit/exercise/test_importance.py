"""Which hyperparameters matter, by a random forest over some runs."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Mapping

import pytest

from clew_shared.cards import MetricSpec
from clew_shared.params import Value
from clew_shared.study.importance import LEAST_RESULTS, importance_of, importance_words

DICE = random.Random(3)
RUNS: list[Mapping[str, Value]] = [
    {
        "learning_rate": 10 ** DICE.uniform(-4, 0),
        "optimizer": DICE.choice(["sgd", "adam"]),
        "batch_size": DICE.choice([32, 64, 128]),
        "steps": 500,
        "decay": DICE.choice([None, 0.1]),
    }
    for _ in range(60)
]


def result(run: Mapping[str, Value]) -> float:
    """Best at a rate of 0.01; Adam is a little better, and nothing else matters."""
    rate = run["learning_rate"]
    assert isinstance(rate, float)
    return 0.9 - 0.1 * abs(math.log10(rate) + 2) + 0.02 * (run["optimizer"] == "adam")


def test_what_decides_the_results_matters_most() -> None:
    found = importance_of(RUNS, [result(run) for run in RUNS])
    assert [*found.shares][:2] == ["learning_rate", "optimizer"]
    assert found.shares["learning_rate"] > 0.9
    assert sum(found.shares.values()) == pytest.approx(1)
    assert "steps" not in found.shares, "it is the same in all runs"
    assert (found.results, (found.score or 0) > 0.8) == (60, True)


def test_results_over_decades_are_judged_by_their_logarithms() -> None:
    losses = [10 ** (-10 * result(run)) for run in RUNS]
    found = importance_of(RUNS, losses)
    assert (found.score or 0) > 0.8


def test_of_chance_no_part_can_be_told() -> None:
    found = importance_of(RUNS, [DICE.random() for _ in RUNS])
    assert found.shares == {}
    assert found.score is not None
    assert found.score < 0.2


def test_nothing_is_asked_of_few_results_and_of_equal_ones() -> None:
    few, says = RUNS[: LEAST_RESULTS - 1], "From 12 results on, a random forest says which settings mattered; there are"
    for settings, results, why in (
        (
            few,
            [result(run) for run in few],
            f"{says} 11.",
        ),
        (RUNS, [None] * len(RUNS), f"{says} 0."),
        (RUNS, [0.5] * len(RUNS), "The results are all the same, so none mattered."),
        ([RUNS[0]] * 20, [*map(float, range(20))], "These runs differ in no setting, so none mattered."),
    ):
        found = importance_of(settings, results)
        assert (found.shares, found.score, found.why) == ({}, None, why)
        assert importance_words(found, MetricSpec(name="loss", label="Loss"), None) == ("", why)


def test_without_scikit_learn_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    assert importance_of(RUNS, [result(run) for run in RUNS]).why.endswith("pip install scikit-learn.")
