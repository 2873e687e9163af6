"""Who wins a race: fewest steps to the target, then the best value."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Mapping

import numpy as np
import pytest

from clew_gui.study.importance import LEAST_RESULTS, importance_of, importance_words
from clew_gui.study.prediction import predicted_at, prediction_words
from clew_gui.study.ranking import Standing, rank, stand
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Points, Predicted, Schema
from clew_shared.journal.history import History
from clew_shared.params import Value
from clew_shared.spec import Prediction, RunSpec, check_spec
from tests.unit.study.test_goals import history_of


def history(*values: float) -> History:
    found = History()
    found.feed(1, Schema(id=1, metrics=(MetricSpec(name="loss", label="Loss", dtype="float64"),)))
    if values:
        data = np.array(values, "<f8").tobytes()
        found.feed(1, Points(schema=1, first=0, count=len(values), seconds=1.0, clock=1.0, values=(data,)))
    return found


def test_the_first_step_at_the_target_counts_and_the_best_value() -> None:
    one = stand("a", history(3.0, 0.5, np.nan, 2.0, 0.1), "loss", "lower", 0.5)
    assert (one.reached, one.best, one.step) == (1, 0.1, 5)
    two = stand("a", history(3.0, 0.5), "loss", "higher", 4.0)
    assert (two.reached, two.best) == (None, 3.0)


def test_a_run_without_values_has_no_place_yet() -> None:
    assert stand("a", history(), "loss", "lower", 1.0) == Standing("a", None, None, 0)
    assert stand("a", history(np.nan, np.inf), "loss", "lower", 1.0)[1:3] == (None, None)
    assert stand("a", history(1.0), "accuracy", "higher", None).best is None


@pytest.mark.parametrize(("better", "order"), [("lower", "cabde"), ("higher", "cbade")])
def test_the_winner_stands_first(better: str, order: str) -> None:
    standings = [
        Standing("d", None, None, 3),
        Standing("a", None, 0.1, 9),
        Standing("b", None, 0.2, 9),
        Standing("c", 7, 0.15, 9),
        Standing("e", None, None, 0),
    ]
    found = "".join(one.run for one in rank(standings, "lower" if better == "lower" else "higher"))
    assert found == order


# --- How near a predicted curve came, in words ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "words"),
    [
        (True, "test accuracy: you predicted 75 % for step 20, and it is 91 %."),
        (False, "test accuracy: you predicted 0.75 for step 20, and it is 0.91."),
    ],
)
def test_the_last_value_is_compared_with_what_was_expected_there(percent: bool, words: str) -> None:
    history = history_of(0.8, 0.91, percent=percent)
    assert prediction_words(history) == ""
    history.feed(1, Predicted(metric="test_accuracy", steps=(0, 40), values=(0.5, 1.0)))
    assert prediction_words(history) == words


def test_a_metric_without_a_value_is_not_judged() -> None:
    history = history_of(0.8)
    history.feed(1, Predicted(metric="loss", steps=(0, 40), values=(0.5, 1.0)))
    assert prediction_words(history) == ""


@pytest.mark.parametrize(
    ("steps", "values"),
    [((), ()), ((0, 40), (0.5,)), ((40, 0), (0.5, 1.0)), ((0, 40), (0.5, math.nan)), ((-1, 3), (0.5, 1.0))],
)
def test_a_prediction_that_is_no_curve_is_damage(steps: tuple[int, ...], values: tuple[float, ...]) -> None:
    history = history_of(0.8, 0.91)
    history.feed(1, Predicted(metric="test_accuracy", steps=steps, values=values))
    assert [note.text for note in history.damages] == ["the prediction of test_accuracy is no curve"]
    assert prediction_words(history) == ""


def test_beyond_the_drawing_its_end_is_expected() -> None:
    drawn = Predicted(metric="loss", steps=(10, 20), values=(1.0, 3.0))
    assert [predicted_at(drawn, step) for step in (0, 10, 15, 20, 99)] == [1.0, 1.0, 2.0, 3.0, 3.0]


def test_a_prediction_of_the_largest_numbers_stays_between_them() -> None:
    drawn = Predicted(metric="loss", steps=(0, 4), values=(1e308, -1e308))
    assert [predicted_at(drawn, step) for step in range(5)] == [1e308, 5e307, 0, -5e307, -1e308]


@pytest.mark.parametrize("values", [(1e308, 1.0), (0.0, -1e308), (1e301, 1e301)])
def test_a_prediction_that_no_axis_shows_is_refused(values: tuple[float, float]) -> None:
    spec = RunSpec(exercise="softmax", prediction=Prediction("loss", (0, 100), values))
    assert [found.text for found in check_spec(spec)] == [
        "A prediction cannot have values beyond 1e+300, which no axis shows."
    ]
    fine = RunSpec(exercise="softmax", prediction=Prediction("loss", (0, 100), (1e300, -1e300)))
    assert check_spec(fine) == []


# --- Which hyperparameters matter, by Optuna, over some runs ----------------------------------------------------------

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
