"""Runs side by side: differences, repeats, the filter language, mean and band, time to a target."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.study.comparison import band_of, curve_of, outcome_of, time_to
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.curves import Column
from clew_shared.journal.events import Attempt, Points, Schema
from clew_shared.journal.history import History
from clew_shared.params import Value
from clew_shared.run_settings import (
    Facts,
    differences,
    differing,
    parse_filter,
    read_tags,
    repeats_of,
    setting_words,
    settings_of,
)
from clew_shared.spec import RunSpec
from tests.unit.runs import METRICS

SOFTMAX = next(card for card in load_builtin().exercises if card.id == "softmax")


def settings(seed: int = 1, **params: Value) -> Mapping[str, Value]:
    return settings_of(RunSpec(exercise="softmax", seed=seed, params=params), SOFTMAX)


def test_runs_differ_in_what_was_set_and_not_in_what_is_the_default() -> None:
    runs = {
        "a": settings(),
        "b": settings(optimizer="adam", learning_rate=0.003),
        "c": settings(seed=2, optimizer="sgd"),
    }
    assert [(one.name, one.values) for one in differences(list(runs.values()))] == [
        ("optimizer", ("sgd", "adam", "sgd")),
        ("learning_rate", (0.5, 0.003, 0.5)),
        ("seed", (1, 1, 2)),
    ]
    assert differing(runs) == {"a": "sgd 0.5, seed 1", "b": "adam 0.003, seed 1", "c": "sgd 0.5, seed 2"}
    assert repeats_of(runs) == [("a", "c"), ("b",)]


KNOWN = ("learning_rate", "optimizer", "test_accuracy", "batch_size", "train/loss", "val/mAP@50-95", "top.1")
ADAM = Facts(
    words="Warm start good adam 0.05 Finished",
    values={
        "learning_rate": 0.05,
        "optimizer": "adam",
        "test_accuracy": 0.91,
        "batch_size": None,
        "train/loss": 0.5,
        "val/mAP@50-95": 0.625,
        "top.1": 1.0,
        "name": "Warm start",
    },
    tags=("good",),
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", True),
        ("warm adam", True),
        ("learning_rate > 0.01", True),
        ("learning_rate>0.05", False),
        ("learning_rate >= 5e-2 and optimizer = Adam", True),
        ("test_accuracy > 90 %", True),
        ("test_accuracy > 91%", False),
        ("optimizer != adam", False),
        ("#good", True),
        ("tag=bad", False),
        ("-tag=good", False),
        ("-failed", True),
        ('name="warm start"', True),
        ("batch_size = none", True),
        ("name = 'warm start'", True),
        ("name = 'warm end'", False),
        ("batch_size = ''", True),
        ('batch_size = ""', True),
        ("name = ''", False),
        ("train/loss < 1", True),
        ("train/loss<0.5 val/mAP@50-95>0", False),
        ("val/mAP@50-95 > 62 % top.1=1", True),
        ("-val/mAP@50-95 > 62 %", False),
    ],
)
def test_a_filter_keeps_what_fits(text: str, kept: bool) -> None:
    assert parse_filter(text, KNOWN).keeps(ADAM) is kept


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat > 1", "No run has a value named 'learning_rat'. Did you mean learning_rate?"),
        ("learning_rate >", "'learning_rate >' has no value. For example: learning_rate > 0.01"),
        ("train/loss <", "'train/loss <' has no value. For example: learning_rate > 0.01"),
        ("val/loss < 1", "No run has a value named 'val/loss'. Did you mean train/loss?"),
        ("learning_rate > much", "learning_rate > needs a number, got 'much'. For example: learning_rate > 0.01"),
        ("learning_rate > 0,01", "learning_rate > needs a number, got '0,01'. For example: learning_rate > 0.01"),
        ("learning_rate = 0,01", "learning_rate = needs a number, got '0,01'. For example: learning_rate = 0.01"),
        ("learning_rate < 1,50 %", "learning_rate < needs a number, got '1,50 %'. For example: learning_rate < 0.01"),
        ("a" * 100_000, "A filter may have 1,000 characters, this one has 100,000. Shorten it."),
    ],
)
def test_a_filter_that_is_not_understood_says_why(text: str, message: str) -> None:
    with pytest.raises(ProblemError) as error:
        parse_filter(text, KNOWN)
    assert str(error.value.problems[0]) == message


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_a_problem(text: str) -> None:
    try:
        found = parse_filter(text, KNOWN)
    except ProblemError:
        return
    assert found.keeps(ADAM) in (True, False)


def test_tags_are_read_once_each_and_bounded() -> None:
    assert read_tags(" #good, slow good ") == ("good", "slow")
    with pytest.raises(ProblemError, match="12 tags"):
        read_tags(" ".join(f"t{n}" for n in range(13)))


def column(steps: list[int], values: list[float]) -> Column:
    return Column(np.array(steps, np.int64), np.array(values), np.array(steps, np.float64))


def test_a_band_is_mean_and_sample_deviation_where_all_curves_are() -> None:
    band = band_of([column([0, 10, 20], [4, 2, 0]), column([0, 5, 10, 15], [2, 2, 2, 2]), column([5, 15], [3, 1])])
    assert band is not None
    assert band.number == 3
    assert band.x.tolist() == [5, 10, 15], "from the latest first point to the earliest last one"
    assert band.mean.tolist() == pytest.approx([8 / 3, 2, 4 / 3])
    assert band.deviation.tolist() == pytest.approx([np.std([3, 2, 3], ddof=1), 0, np.std([1, 2, 1], ddof=1)])
    assert band_of([column([0], [1]), column([], [])]) is None, "one of them has nothing"


def test_a_thinned_curve_has_the_means_of_its_stretches_and_its_last_point() -> None:
    x, y = curve_of(column(list(range(1000)), [float(n % 2) for n in range(1000)]), most=100)
    assert len(x) == 101
    assert y[:-1].tolist() == [0.5] * 100
    assert (x[-1], y[-1]) == (999, 1)


def history(*loss: float) -> History:
    found, values = History(), np.array(loss, "<f4").tobytes()
    weights = np.zeros(len(loss), "<f8").tobytes()
    found.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", steps=len(loss)))
    found.feed(1, Schema(id=1, metrics=METRICS))
    points = Points(schema=1, first=0, count=len(loss), seconds=4.0, clock=4.0, values=(values, weights))
    found.feed(1, points)
    return found


def test_a_group_has_the_mean_of_its_bests_and_of_the_runs_that_reached_the_target() -> None:
    runs = [("a", history(4, 3, 2, 1)), ("b", history(4, 3, 3, 3)), ("c", history(float("nan"), 2, 2, 2))]
    assert time_to(runs[0][1], "loss", 2.0, "lower") == (2, 3.0)
    assert time_to(runs[1][1], "loss", 2.0, "lower") is None
    found = outcome_of(runs, "loss", "lower", 2.0)
    assert (found.best, found.steps, found.seconds, found.reached) == (2.0, 1.5, 2.5, 2)
    assert found.deviation == pytest.approx(1.0)


def test_a_value_that_is_not_set_is_the_same_however_it_was_written() -> None:
    """The window sends no value, a file writes "none", an earlier run may lack the setting."""
    card = find_card(load_builtin().exercises, "softmax")
    optional = next(param.name for param in card.params if param.optional)
    ways: list[dict[str, Value]] = [{}, {optional: None}, {optional: "none"}]
    found = {str(k): settings_of(RunSpec(exercise="softmax", params=way), card) for k, way in enumerate(ways)}
    assert differences(list(found.values())) == ()
    assert repeats_of(found) == [("0", "1", "2")]
    assert settings_of(RunSpec(exercise="x", params={"clip": "none"}))["clip"] is None


def test_a_setting_that_changes_nothing_is_no_difference() -> None:
    plain, idle = RunSpec(exercise="softmax"), RunSpec(exercise="softmax", params={"momentum": 0.5})
    assert "momentum" not in settings_of(idle, SOFTMAX), "SGD has none"
    assert repeats_of({"a": settings_of(plain, SOFTMAX), "b": settings_of(idle, SOFTMAX)}) == [("a", "b")]
    assert settings_of(RunSpec(exercise="softmax", params={"optimizer": "momentum"}), SOFTMAX)["momentum"] == 0.9


def test_settings_are_worded_as_in_the_form() -> None:
    found = settings_of(RunSpec(exercise="softmax", params={"steps": 25_000}), SOFTMAX)
    said = {name: setting_words(name, found[name], SOFTMAX) for name in ("optimizer", "steps", "strategy", "precision")}
    assert said == {"optimizer": "SGD", "steps": "25,000", "strategy": "One device", "precision": "32 bits"}
    assert setting_words("momentum", found.get("momentum"), SOFTMAX) == ""
    assert setting_words("optimizer", "lion", None) == "lion", "an exercise that is not known here"


def test_a_number_is_the_same_as_text_and_as_number() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    one, other = (
        settings_of(RunSpec(exercise="softmax", params={"learning_rate": rate, "steps": steps}), card)
        for rate, steps in ((0.5, 100), ("0.50", "1e2"))
    )
    assert differences([one, other]) == ()
