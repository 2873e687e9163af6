"""Goals are judged from the history alone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from clew_shared.cards import Goal, MetricSpec
from clew_shared.catalogue import load_builtin
from clew_shared.goals import check_goal, is_for
from clew_shared.journal.events import Attempt, Evaluation, Points, Schema
from clew_shared.journal.history import History
from clew_shared.spec import RateRange, RunSpec, to_toml


def history_of(*values: float, percent: bool = True) -> History:
    """A run whose test accuracy was evaluated every 10 steps."""
    history = History()
    spec = MetricSpec(
        name="test_accuracy", label="test accuracy", per_step=False, format="percent" if percent else "number"
    )
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="e", spec_sha256=""))
    history.feed(1, Schema(id=1, metrics=(spec,)))
    for index, value in enumerate(values):
        history.feed(1, Evaluation(step=10 * (index + 1), values={"test_accuracy": value}))
    return history


def goal(op: str, value: float, **more: object) -> Goal:
    return Goal(id="g", text="reach it", metric="test_accuracy", op=op, value=value, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "values", "reached", "counted"),
    [
        (goal(">=", 0.9), [0.5, 0.9], True, 0.9),
        (goal(">=", 0.9), [0.95, 0.85], False, 0.85),
        (goal(">=", 0.9, which="best"), [0.95, 0.85], True, 0.95),
        (goal("<=", 0.1, which="best"), [0.5, 0.05, 0.7], True, 0.05),
        (goal("<=", 0.1), [0.05, 0.5], False, 0.5),
        (goal("near", 0.9079, tolerance=0.0002), [0.9081], True, 0.9081),
        (goal("near", 0.9079, tolerance=0.0002), [0.9077], True, 0.9077),
        (goal("near", 0.9079, tolerance=0.0002), [0.9076], False, 0.9076),
        (goal("near", 0.5, tolerance=0.1, which="best"), [0.1, 0.45, 0.9], True, 0.45),
        (goal(">=", 0.5, which="at", step=20), [0.1, 0.6, 0.2], True, 0.6),
        (goal(">=", 0.5, which="at", step=25), [0.1, 0.6, 0.2], False, None),
        (goal(">=", 0.5, which="at", step=99), [0.1, 0.6, 0.2], False, None),
        (goal(">=", 0.5), [], False, None),
        (goal(">=", 0.5, which="best"), [math.nan], False, None),
        (goal(">=", 0.5, which="best"), [math.inf, 0.6], True, 0.6),
        (goal(">=", 0.5), [math.inf], False, math.inf),
    ],
)
def test_which_value_counts_and_whether_it_suffices(
    asked: Goal, values: list[float], reached: bool, counted: float | None
) -> None:
    result = check_goal(asked, history_of(*values))
    assert (result.reached, result.value) == (reached, counted)


def test_a_range_test_reaches_no_goal() -> None:
    history = history_of(0.95)
    spec = RunSpec(exercise="e", rate_range=RateRange(0.001, 10.0))
    history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="e", spec_sha256="", spec=to_toml(spec)))
    result = check_goal(goal(">=", 0.9), history)
    assert not result.reached
    assert result.text.endswith("not judged, because this is a range test")
    assert not check_goal(goal("near", 0.9, tolerance=0.001), history).beyond


def test_a_value_that_is_no_number_reaches_nothing() -> None:
    result = check_goal(goal("<=", 0.5), history_of(math.nan))
    assert not result.reached
    assert "NaN" in result.text


@pytest.mark.parametrize(
    ("asked", "values", "text"),
    [
        (goal(">=", 0.9), [0.9079], "test accuracy: 90.79 %; the goal is at least 90 %: reached"),
        (goal("<=", 0.9), [0.9079], "test accuracy: 90.79 %; the goal is at most 90 %: not reached"),
        (
            goal(">=", 0.9, which="best"),
            [0.91, 0.89],
            "test accuracy, best value: 91 %; the goal is at least 90 %: reached",
        ),
        (
            goal("near", 0.9079, tolerance=0.0002),
            [0.9079],
            "test accuracy: 90.79 %; the goal is 90.79 % ± 0.02 %: reached",
        ),
        (
            goal(">=", 0.9, which="at", step=500),
            [],
            "test accuracy: no value at step 500 yet; the goal is at least 90 %",
        ),
    ],
)
def test_the_sentence_says_value_and_goal(asked: Goal, values: list[float], text: str) -> None:
    assert check_goal(asked, history_of(*values)).text == text


def test_a_metric_that_nobody_knows_is_named_as_it_is() -> None:
    text = check_goal(goal(">=", 2.0), History()).text
    assert text == "test_accuracy: no value yet; the goal is at least 2"


def diverged(loss: list[float], *evaluations: tuple[int, float]) -> History:
    history = history_of()
    history.feed(1, Schema(id=2, metrics=(MetricSpec(name="loss", label="loss"),)))
    values = (np.array(loss, "<f4").tobytes(),)
    history.feed(1, Points(schema=2, first=0, count=len(loss), seconds=1, clock=1, values=values))
    for step, value in evaluations:
        history.feed(1, Evaluation(step=step, values={"test_accuracy": value}))
    return history


@pytest.mark.parametrize(
    ("asked", "reached"),
    [
        (goal("<=", 0.1), False),
        (goal("near", 0.098, tolerance=0.001), False),
        (goal("<=", 0.1, which="at", step=4), False),
        (goal(">=", 0.5, which="at", step=2), True),
        (goal(">=", 0.5, which="best"), True),
        (goal("<=", 0.1, which="best"), False),
    ],
)
def test_what_is_measured_after_the_run_diverged_reaches_no_goal(asked: Goal, reached: bool) -> None:
    history = diverged([1.0, 0.5, 0.2, math.inf, math.nan], (2, 0.6), (4, 0.098))
    found = check_goal(asked, history)
    assert found.reached is reached
    assert ("diverged at step 3" in found.text) is (asked.which != "best" and not reached)


def test_a_loss_that_is_infinite_once_ends_nothing() -> None:
    assert check_goal(goal(">=", 0.5), diverged([1.0, math.inf, 0.2], (3, 0.6))).reached


def test_a_run_that_never_said_what_it_measures_is_judged_in_the_exercises_words() -> None:
    metric = MetricSpec(name="test_accuracy", label="test accuracy", per_step=False, format="percent")
    assert (
        check_goal(goal(">=", 0.9), History(), [metric]).text
        == "test accuracy: no value yet; the goal is at least 90 %"
    )


def test_a_value_that_is_better_than_the_tolerance_allows_is_said_to_be() -> None:
    history = history_of(0.9763)
    history.metrics["test_accuracy"] = MetricSpec(
        name="test_accuracy", label="test accuracy", better="higher", format="percent"
    )
    found = check_goal(goal("near", 0.9597, tolerance=0.005), history)
    assert (found.reached, found.beyond) == (False, True)
    assert found.text.endswith("not reached, because it is better than the tolerance allows")
    assert not check_goal(goal("near", 0.99, tolerance=0.005), history).beyond, "worse is only not reached"


@pytest.mark.parametrize(
    ("data", "judged"),
    [
        ("mnist", True),
        ("/home/me/mnist.npz", True),
        ("site:/gpfs/mnist.pkl.gz", True),
        ("", True),  # of a run whose spec is not known
        ("digits", False),
        ("/home/me/fraud.csv", False),
    ],
)
def test_a_goal_of_a_data_set_judges_no_run_on_another(data: str, judged: bool) -> None:
    result = check_goal(goal(">=", 0.9, data="mnist"), history_of(0.95), data=data)
    assert (result.reached, result.text == "needs MNIST") == (judged, not judged)
    assert check_goal(goal(">=", 0.9), history_of(0.95), data=data).reached, "a goal of no data set judges all"


def test_every_exercise_on_mnist_has_a_goal_for_the_digits() -> None:
    cards = [card for card in load_builtin().exercises if "mnist" in card.datasets]
    assert len(cards) >= 11
    assert [card.id for card in cards if not any(is_for(one, "digits") for one in card.goals)] == []
    # A goal changes the file's hash; runs of the file as it was go on.
    assert [card.id for card in cards if any(one.data for one in card.goals) and not card.earlier_hashes] == []
