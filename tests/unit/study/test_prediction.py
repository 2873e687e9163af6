"""How near a predicted curve came, in words."""

from __future__ import annotations

import math

import pytest

from clew_gui.study.prediction import predicted_at, prediction_words
from clew_shared.journal.events import Predicted
from clew_shared.spec import Prediction, RunSpec, check_spec
from tests.unit.study.test_goals import history_of


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
