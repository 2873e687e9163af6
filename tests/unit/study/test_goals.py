"""Goals are judged from the history alone."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from clew_gui.study.goals import check_goal
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, Requirement, StrategyCard
from clew_shared.catalogue import load_builtin
from clew_shared.goal_settings import goal_detail, is_for, requires_words, unknown_settings
from clew_shared.journal.events import Attempt, Evaluation, Live, Points, Schema
from clew_shared.journal.history import History
from clew_shared.params import Choice, ParamSpec
from clew_shared.spec import RateRange, RunSpec, to_toml
from tests.unit.runs import pulse


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
            "test accuracy: no value at step 500; the goal is at least 90 %",
        ),
    ],
)
def test_the_sentence_says_value_and_goal(asked: Goal, values: list[float], text: str) -> None:
    assert check_goal(asked, history_of(*values)).text == text


def test_a_metric_that_nobody_knows_is_named_as_it_is() -> None:
    text = check_goal(goal(">=", 2.0), History()).text
    assert text == "test_accuracy: no value; the goal is at least 2"


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
        check_goal(goal(">=", 0.9), History(), ExerciseCard(id="e", title="e", metrics=(metric,))).text
        == "test accuracy: no value; the goal is at least 90 %"
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
    spec = RunSpec(exercise="e", data=data)
    result = check_goal(goal(">=", 0.9, data="mnist"), history_of(0.95), spec=spec)
    assert (result.reached, result.text == "needs MNIST") == (judged, not judged)
    assert check_goal(goal(">=", 0.9), history_of(0.95), spec=spec).reached, "a goal of no data set judges all"


def test_every_exercise_on_mnist_has_a_goal_for_the_digits() -> None:
    cards = [card for card in load_builtin().exercises if "mnist" in card.datasets]
    assert len(cards) >= 11
    assert [card.id for card in cards if not any(is_for(one, "digits") for one in card.goals)] == []


# --- Settings that a goal asks for ------------------------------------------------------------------------------------

CARD = ExerciseCard(
    id="e",
    title="e",
    params=(
        ParamSpec(name="code", kind="int", label="Code", default=2),
        ParamSpec(name="samples", kind="int", label="Samples", default=50_000),
        ParamSpec(name="learning_rate", kind="float", label="Learning rate", default=0.5, live=True),
        ParamSpec(name="KL", kind="float", label="KL weight", default=1.0),
        ParamSpec(name="norm", kind="bool", label="Batch normalisation", default=False),
        ParamSpec(name="folder", kind="text", label="Image folder", default=""),
        ParamSpec(
            name="cut",
            kind="choice",
            label="Cut",
            default="stages",
            choices=(Choice("stages", "Stages"), Choice("hybrid", "Hybrid")),
        ),
    ),
    strategies=(
        StrategyCard(id="single", title="One device"),
        StrategyCard(
            id="parameter-server",
            title="Servers, workers",
            params=(ParamSpec(name="workers", kind="int", label="Workers", default=2),),
        ),
    ),
)


def asks(*requires: Requirement) -> Goal:
    return goal(">=", 0.9, requires=requires)


@pytest.mark.parametrize(
    ("asked", "spec", "because"),
    [
        (Requirement("code", (2,)), {}, ""),
        (Requirement("code", (2,)), {"params": {"code": 10}}, "code is 10"),
        (Requirement("samples", least=50_000), {"params": {"samples": 3000}}, "samples is 3,000"),
        (Requirement("samples", least=50_000), {"params": {"samples": 50_000}}, ""),
        (Requirement("KL", least=0.5, most=2), {"params": {"KL": 0.0}}, "KL weight is 0"),
        (Requirement("KL", least=0.5, most=2), {"params": {"KL": 2.0}}, ""),
        (Requirement("code", (0,), least=4), {"params": {"code": 0}}, ""),
        (Requirement("code", (0,), least=4), {"params": {"code": 3}}, "code is 3"),
        (Requirement("norm", (True,)), {}, "batch normalisation is off"),
        (Requirement("norm", (0,)), {}, "batch normalisation is off"),  # off is no number
        (Requirement("folder", ("",)), {"params": {"folder": "/x"}}, "image folder is /x"),
        (Requirement("folder", other_than=("",)), {}, "image folder is empty"),
        (Requirement("folder", other_than=("",)), {"params": {"folder": "/x"}}, ""),
        (Requirement("code", least=1, other_than=(2, 3)), {}, "code is 2"),
        (Requirement("cut", ("stages",)), {"params": {"cut": "hybrid"}}, "cut is Hybrid"),
        (Requirement("strategy", ("parameter-server",)), {}, "strategy is One device"),
        (Requirement("strategy", ("parameter-server",)), {"strategy": "parameter-server"}, ""),
        (Requirement("devices", least=2), {}, "devices is 1"),
        (Requirement("workers", least=2), {"strategy": "parameter-server"}, ""),
        (Requirement("workers", least=2), {"strategy": "parameter-server", "options": {"workers": 1}}, "workers is 1"),
        (Requirement("workers", least=2), {}, "the run has no setting workers"),
    ],
)
def test_a_value_counts_only_with_the_settings_that_the_goal_asks_for(
    asked: Requirement, spec: dict[str, object], because: str
) -> None:
    found = check_goal(asks(asked), history_of(0.95), CARD, RunSpec(exercise="e", **spec))  # type: ignore[arg-type]
    assert (found.reached, found.unmet) == (not because, because)
    assert found.text.endswith(f": not reached, because {because}" if because else ": reached")


def test_of_a_run_whose_settings_nobody_knows_nothing_is_reached_that_asks_for_some() -> None:
    found = check_goal(asks(Requirement("code", (2,))), history_of(0.95), CARD)
    assert (found.reached, found.unmet) == (False, "it is not known how the run was set")
    assert check_goal(goal(">=", 0.9), history_of(0.95), CARD).reached


def attempts_of(*codes: int, start: int = 10) -> History:
    """A run that went on with another code in each attempt."""
    history = history_of()
    for number, code in enumerate(codes, 1):
        spec = to_toml(RunSpec(exercise="e", params={"code": code}))
        begun = Attempt(
            format=1,
            run="r",
            attempt=number,
            exercise="e",
            spec_sha256="",
            spec=spec,
            start_step=0 if number == 1 else start,
            resumes=number - 1,
        )
        history.feed(number, begun)
        history.feed(number, Schema(id=1, metrics=(MetricSpec(name="test_accuracy", label="", per_step=False),)))
        history.feed(number, Evaluation(step=start * number, values={"test_accuracy": 0.95}))
    return history


def test_every_attempt_that_counts_must_have_had_the_settings() -> None:
    asked = asks(Requirement("code", (2,)))
    other = RunSpec(exercise="e", params={"code": 9})
    assert check_goal(asked, attempts_of(2), CARD, other).reached, "the journal says more than a file beside it"
    assert check_goal(asked, attempts_of(10, 2), CARD).unmet == "code is 10"
    assert check_goal(asked, attempts_of(10, 2, start=0), CARD).reached, "nothing is left of the first attempt"


def test_what_was_changed_while_the_run_trained_counts_as_well() -> None:
    history = history_of(0.95)
    asked = asks(Requirement("learning_rate", (0.5,)))
    assert check_goal(asked, history, CARD, RunSpec(exercise="e")).reached
    history.feed(1, Live(name="learning_rate", value=0.1, step=5))
    assert check_goal(asked, history, CARD, RunSpec(exercise="e")).unmet == "learning rate is 0.1"


def test_the_settings_that_a_goal_asks_for_are_said_in_words() -> None:
    asked = goal(
        ">=",
        0.9,
        detail="As in the course.",
        requires=(
            Requirement("code", (0, 1), least=4),
            Requirement("samples", least=50_000),
            Requirement("KL", least=0.5, most=2),
            Requirement("folder", ("",)),
            Requirement("strategy", ("parameter-server",)),
            Requirement("cut", other_than=("hybrid",)),
        ),
    )
    words = (
        "with code 0, 1 or at least 4; samples at least 50,000; KL weight from 0.5 to 2; image folder empty; "
        "strategy Servers, workers; cut not Hybrid"
    )
    assert requires_words(asked, CARD) == words
    assert goal_detail(asked, CARD) == f"As in the course. Counts only {words}."
    assert f"at least 90 %, {words}: " in check_goal(asked, history_of(0.95), CARD, RunSpec(exercise="e")).text
    assert (requires_words(goal(">=", 0.9), CARD), goal_detail(goal(">=", 0.9), CARD)) == ("", "")


def test_a_setting_that_no_run_of_the_exercise_has_is_found() -> None:
    def found(*names: str) -> list[str]:
        goals = (asks(*(Requirement(name, (1,)) for name in names)),)
        return [name for _, name in unknown_settings(msgspec.structs.replace(CARD, goals=goals))]

    assert found("code", "workers", "strategy", "devices", "nodes", "precision") == []
    assert found("cod", "seed") == ["cod", "seed"]


# --- An answer, and a quiet machine -----------------------------------------------------------------------------------

WHY = "Why is it so?"


@pytest.mark.parametrize(
    ("value", "answers", "reached", "because"),
    [
        (0.95, {WHY: "Because it must."}, True, ""),
        (0.95, {WHY: " \n"}, False, "the question has no answer yet"),
        (0.95, {"Another question?": "Yes."}, False, "the question has no answer yet"),
        (0.95, {}, False, "the question has no answer yet"),
        (0.95, None, True, ""),  # nobody knows the answers
        (0.85, {WHY: "Because it must."}, False, ""),
    ],
)
def test_a_goal_with_a_question_wants_an_answer_beside_the_value(
    value: float, answers: dict[str, str] | None, reached: bool, because: str
) -> None:
    found = check_goal(goal(">=", 0.9, question=WHY), history_of(value), CARD, answers=answers)
    assert (found.reached, found.unmet) == (reached, because)
    assert f"with an answer to “{WHY}”" in found.text


def test_what_a_goal_asks_for_beside_settings_is_said_in_words() -> None:
    asked = goal(">=", 0.9, requires=(Requirement("code", (2,)),), question=WHY, quiet=True)
    words = f"with code 2; an answer to “{WHY}”; no other programs on the processor"
    assert requires_words(asked, CARD) == words
    assert goal_detail(asked, CARD) == f"Counts only {words}."


@pytest.mark.parametrize(
    ("cpu", "node", "reached"),
    [
        (1.9, 2.0, True),  # what the system does beside it
        (0.9, 2.0, False),
        (0.4, 1.4, False),  # it waits much, so half a core is idle; yet others shorten what they share
        (0.9, 7.0, True),  # more cores than the run may use: who uses them is not known
        (math.nan, 2.0, True),
    ],
)
def test_a_ratio_of_times_counts_only_where_other_programs_left_the_processor_alone(
    cpu: float, node: float, reached: bool
) -> None:
    history = history_of(0.95)
    history.feed(1, pulse(100, "trainer", "node1", cpu=[cpu] * 40, node_cpu=[node] * 40, cores=[2.0] * 40))
    found = check_goal(goal(">=", 0.9, quiet=True), history, CARD)
    assert found.reached is reached
    if not reached:
        assert found.unmet == f"other programs used {100 * (node - cpu) / 2:.0f} % of the 2 cores"
    assert check_goal(goal(">=", 0.9), history, CARD).reached, "an accuracy is the same beside other programs"
