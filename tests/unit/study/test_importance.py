"""Which hyperparameters matter, by Optuna, over some runs."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Mapping

import pytest

from clew_gui.study.importance import LEAST_RESULTS, importance_of, importance_words
from clew_shared.cards import MetricSpec
from clew_shared.params import Value

DICE = random.Random(3)
LOSS = MetricSpec(name="loss", label="Loss")
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
    found = importance_of(RUNS, [result(run) for run in RUNS], higher=True)
    assert next(iter(found.shares)) == "learning_rate"
    assert found.shares["learning_rate"] > 0.9
    assert sum(found.shares.values()) == pytest.approx(1)
    assert "steps" not in found.shares, "it is the same in all runs"
    assert found.results == 60
    what, sure = importance_words(found, LOSS, None)
    assert what.startswith("What mattered for loss, from 60 results: learning rate 9")
    assert sure.startswith("Optuna says so (PED-ANOVA)")


def test_the_best_are_the_lowest_of_a_loss() -> None:
    losses = [1 - result(run) for run in RUNS]
    assert importance_of(RUNS, losses, higher=False) == importance_of(RUNS, [-loss for loss in losses], higher=True)


def test_nothing_is_asked_of_few_results_and_of_equal_ones() -> None:
    few, says = RUNS[: LEAST_RESULTS - 1], "From 20 results on, Optuna says which settings mattered; there are"
    for settings, results, why in (
        (few, [result(run) for run in few], f"{says} 19."),
        (RUNS, [None] * len(RUNS), f"{says} 0."),
        (RUNS, [0.5] * len(RUNS), "The results are all the same, so none mattered."),
        ([RUNS[0]] * 20, [*map(float, range(20))], "These runs differ in no setting, so none mattered."),
    ):
        found = importance_of(settings, results, higher=True)
        assert (found.shares, found.why) == ({}, why)
        assert importance_words(found, LOSS, None) == ("", why)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("higher", [True, False])
@pytest.mark.parametrize("results", [[0.1] * 23 + [0.9], [0.9] * 20 + [0.1, 0.2, 0.3, 0.4]])
def test_nothing_is_said_where_the_best_quarter_cannot_be_told_from_the_rest(
    results: list[float], higher: bool
) -> None:
    found = importance_of(RUNS[:24], results if higher else [-one for one in results], higher)
    assert found == ({}, 24, "Too many results are the same to say which settings mattered.")


@pytest.mark.filterwarnings("error")
def test_some_results_may_be_the_same() -> None:
    found = importance_of(RUNS, [round(result(run), 2) for run in RUNS], higher=True)
    assert next(iter(found.shares)) == "learning_rate"


def test_without_optuna_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert importance_of(RUNS, [result(run) for run in RUNS], higher=True).why.endswith("pip install optuna.")
