"""Which hyperparameters matter, by a random forest over some runs."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from clew_shared.params import Value
from clew_shared.study.importance import LEAST_RUNS, importance_of

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
    assert found is not None
    assert [*found.shares][:2] == ["learning_rate", "optimizer"]
    assert found.shares["learning_rate"] > 0.9
    assert sum(found.shares.values()) == pytest.approx(1)
    assert "steps" not in found.shares, "it is the same in all runs"
    assert (found.runs, found.score > 0.8) == (60, True)


def test_results_over_decades_are_judged_by_their_logarithms() -> None:
    losses = [10 ** (-10 * result(run)) for run in RUNS]
    found = importance_of(RUNS, losses)
    assert found is not None
    assert found.score > 0.8


def test_of_chance_no_part_can_be_told() -> None:
    found = importance_of(RUNS, [DICE.random() for _ in RUNS])
    assert found is not None
    assert found.shares == {}
    assert found.score < 0.2


def test_nothing_is_asked_of_few_runs_and_of_equal_ones() -> None:
    few = RUNS[: LEAST_RUNS - 1]
    assert importance_of(few, [result(run) for run in few]) is None
    assert importance_of(RUNS, [0.5] * len(RUNS)) is None
    assert importance_of([RUNS[0]] * 20, [*map(float, range(20))]) is None
    assert importance_of(RUNS, [None] * len(RUNS)) is None
