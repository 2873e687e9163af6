"""A sweep becomes points in one place, always the same ones, and what a person types becomes values or a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest

from clew_gui.session.study_runner import KnownRun, next_point, progress
from clew_gui.views.actions.study_actions import sweep_words
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.goal_settings import idle_seeds
from clew_shared.journal.events import RunState
from clew_shared.spec import Pruning, RunSpec
from clew_shared.study.study import (
    StudySpec,
    check_study,
    from_toml,
    number_of_runs,
    study_runs,
    sweep_study,
    to_toml,
    usual_metric,
)
from clew_shared.study.sweep import (
    MAX_RUNS,
    Point,
    Range,
    Sweep,
    Values,
    check_sweep,
    points,
    read_range,
    read_values,
    settled,
)
from tests.unit.work import lines_run

CARD = find_card(load_builtin().exercises, "softmax")
RATE = next(param for param in CARD.params if param.name == "learning_rate")
BATCH = next(param for param in CARD.params if param.name == "batch_size")
GRID = Sweep(
    over={"optimizer": ("sgd", "adam"), "learning_rate": Range(low=0.01, high=1, log=True, count=3)},
    seeds=(1, 2),
    pruner="median",
)


def study(sweep: Sweep) -> StudySpec:
    return sweep_study(RunSpec(exercise="softmax", params={"steps": 50}), sweep, metric=usual_metric(CARD))


def test_a_grid_has_every_combination_with_every_seed_and_survives_toml() -> None:
    found = study(GRID)
    assert check_study(found, CARD) == []
    runs = [run.spec for run in study_runs(found)]
    assert [(run.params["optimizer"], run.params["learning_rate"], run.seed) for run in runs] == [
        (optimizer, rate, seed) for seed in (1, 2) for optimizer in ("sgd", "adam") for rate in (0.01, 0.1, 1)
    ]
    assert {(run.study, run.params["steps"], run.pruning) for run in runs} == {
        (found.study, 50, Pruning("median", "validation_accuracy"))
    }
    assert number_of_runs(found) == 12
    assert from_toml(to_toml(found)) == found
    as_list = msgspec.structs.replace(found, sweep=settled(GRID, CARD))
    assert [run.spec for run in study_runs(from_toml(to_toml(as_list)))] == runs, "written out they are the same runs"


def test_random_points_are_the_same_each_time_and_fit_the_exercise() -> None:
    over: dict[str, Values] = {
        "batch_size": Range(low=16, high=256, log=True),
        "learning_rate": Range(low=0.001, high=1, log=True),
    }
    sweep = settled(Sweep(method="random", over=over, count=20), CARD)
    assert sweep == settled(Sweep(method="random", over=over, count=20), CARD)
    assert sweep != settled(Sweep(method="random", over=over, count=20, draw=2), CARD)
    assert len(sweep.points) == 20
    assert check_study(study(sweep), CARD) == [], "whole numbers where the exercise wants them"
    assert (
        min(float(str(point["batch_size"])) for point in sweep.points)
        < 40
        < 120
        < max(float(str(point["batch_size"])) for point in sweep.points)
    )


def test_a_sampler_learns_and_proposes_the_same_again() -> None:
    sweep = Sweep(method="tpe", over={"learning_rate": Range(low=0.0001, high=1, log=True)}, count=30)

    def tried() -> list[tuple[Point, float | None]]:
        told: list[tuple[Point, float | None]] = []
        while len(told) < 25:
            point = next_point(sweep, CARD, "lower", told)
            told.append((point, abs(float(str(point["learning_rate"])) - 0.1)))
        return told

    told = tried()
    assert told == tried()
    late = sorted(loss for _, loss in told[12:] if loss is not None)
    early = sorted(loss for _, loss in told[:12] if loss is not None)
    assert late[len(late) // 2] < early[len(early) // 2], "it comes nearer to the best rate"
    only = Sweep(method="tpe", over={"optimizer": ("sgd",)}, count=2)
    with pytest.raises(ProblemError, match="only points that were tried"):
        next_point(only, CARD, "lower", [({"optimizer": "sgd"}, 1.0)])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1", (0.1,)),
        ("0.01, 0.1", (0.01, 0.1)),
        ("0.01; 0.1;", (0.01, 0.1)),
        ("1e-3 to 1 log 4", (0.001, 0.01, 0.1, 1)),
        ("1..3 x3", (1, 2, 3)),
    ],
)
def test_values_are_typed_as_a_list_or_a_range(text: str, values: tuple[float, ...]) -> None:
    assert read_values(RATE, text) == (values, [])


@pytest.mark.parametrize(
    ("text", "words"), [("0.1, x", "got 'x'"), ("1 to 0.1", "from a lower to a higher"), ("0 to 1 log", "above 0")]
)
def test_what_is_no_list_of_values_is_said(text: str, words: str) -> None:
    assert words in " ".join(problem.text for problem in read_values(RATE, text)[1])
    assert read_values(BATCH, "25,000, 100")[0] == (25_000, 100), "a comma inside a number is none between two"


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        (Sweep(), "needs values in"),
        (Sweep(over={"colour": (1, 2)}), "no setting 'colour'"),
        (Sweep(over={"seed": (1, 2)}), "Seeds are not an axis"),
        (Sweep(over={"learning_rate": (0.1, 0.1)}), "listed twice"),
        (Sweep(method="random", over={"learning_rate": Range(low=0.1, high=1)}), "how many points"),
        (Sweep(method="list", points=({"steps": 1}, {"steps": 1})), "same values"),
        (Sweep(over={"steps": tuple(range(1, MAX_RUNS + 2))}), "at most 1,000 runs"),
        (Sweep(over={"learning_rate": (0.1,)}, seeds=(1, 1)), "seed is listed twice"),
    ],
)
def test_what_is_wrong_with_a_sweep_is_said(sweep: Sweep, words: str) -> None:
    assert words in " ".join(problem.text for problem in check_sweep(sweep, CARD))


@pytest.mark.parametrize(("kind", "words"), [("script", "a training script"), ("measurement", "a measurement")])
def test_a_pruner_is_refused_where_no_run_ends_early(kind: Literal["script", "measurement"], words: str) -> None:
    card = msgspec.structs.replace(CARD, kind=kind)
    (found,) = check_study(study(GRID), card)
    assert found.text == f"{CARD.id} is {words}: Clew cannot end its run early because others do better."
    assert found.hint == "Leave the pruner out."
    assert check_study(study(msgspec.structs.replace(GRID, pruner="")), card) == []
    assert check_study(study(GRID), CARD) == []


def test_what_is_left_of_a_sweep_is_found_by_the_specs_of_its_runs() -> None:
    found = study(msgspec.structs.replace(GRID, seeds=()))
    specs = [run.spec for run in study_runs(found)]
    states = (RunState.STOPPED, RunState.FINISHED, RunState.RUNNING, RunState.FAILED, RunState.FINISHED)
    runs = [KnownRun(str(k), specs[k], state) for k, state in enumerate(states)]
    runs.append(KnownRun("again", specs[0], RunState.FINISHED))
    left = progress(found, CARD, runs)
    assert (left.finished, left.under_way, left.ended) == (("again", "1", "4"), ("2",), ("3",))
    assert left.missing == (specs[5],)
    assert left.total == len(points(GRID)) == 6


def test_runs_that_a_student_started_are_those_of_the_study_that_nobody_had_signed() -> None:
    found = study(msgspec.structs.replace(GRID, seeds=()))
    specs = [msgspec.structs.replace(run.spec, run=str(k), student="Ada") for k, run in enumerate(study_runs(found))]
    left = progress(found, CARD, [KnownRun(spec.run, spec, RunState.FINISHED) for spec in specs])
    assert (len(left.finished), left.missing) == (6, ())


def test_runs_that_another_version_called_otherwise_are_those_of_the_study() -> None:
    found = study(msgspec.structs.replace(GRID, seeds=()))
    specs = [msgspec.structs.replace(run.spec, run=str(k), name=f"run {k}") for k, run in enumerate(study_runs(found))]
    left = progress(found, CARD, [KnownRun(spec.run, spec, RunState.FINISHED) for spec in specs])
    assert (len(left.finished), left.missing) == (6, ())


def test_runs_that_are_none_of_the_planned_ones_are_counted_nowhere() -> None:
    found = study(msgspec.structs.replace(GRID, seeds=()))
    strange = msgspec.structs.replace(study_runs(found)[0].spec, seed=77)
    runs = [KnownRun(str(k), strange, RunState.QUEUED) for k in range(20)]
    left = progress(found, CARD, runs)
    assert (left.at_work, left.waiting, len(left.missing)) == ((), (), 6)
    assert sweep_words(left) == "0 of 6 runs finished, 6 not started"


@pytest.mark.parametrize("text", ["0,5 to 2,5 2", "1,5..2", "0 to 1,00", "25,00 to 30,000"])
def test_a_comma_that_groups_no_thousands_is_refused_in_a_range_as_in_a_value(text: str) -> None:
    assert read_range(text) is None
    values, wrong = read_values(RATE, text)
    assert values == ()
    assert f"got {text!r}" in str(wrong[0])
    assert read_range("25,000 to 30,000") == Range(low=25_000, high=30_000)


def test_seeds_that_change_nothing_are_named_before_the_start() -> None:
    card = find_card(load_builtin().exercises, "softmax")
    in_order = [RunSpec(exercise="softmax", seed=seed) for seed in (1, 2)]
    said = idle_seeds(in_order, card)
    assert said.startswith("The seed changes nothing here (Order: File order)")
    shuffled = [msgspec.structs.replace(one, params={"order": "shuffle"}) for one in in_order]
    assert idle_seeds(shuffled, card) == ""
    assert idle_seeds([in_order[0], shuffled[1]], card) == "", "they differ in their order"
    assert idle_seeds([*in_order, *shuffled], card) == said
    assert idle_seeds(in_order, msgspec.structs.replace(card, seedless=())) == "", "nothing is known of it"


@pytest.mark.parametrize(
    "changes",
    [
        lambda values: {"sweep": Sweep(over={"learning_rate": values}), "format": 3},
        lambda values: {"sweep": Sweep(over={"devices": values}), "format": 3},
        lambda values: {
            "sweep": Sweep(method="list", points=tuple({"learning_rate": value} for value in values)),
            "format": 3,
        },
        lambda values: {"axis": "learning_rate", "values": values, "format": 2},
        lambda values: {"axis": "devices", "values": values, "format": 2},
    ],
)
def test_a_study_of_very_many_values_is_refused_in_one_sentence_and_with_little_work(
    changes: Callable[[tuple[float, ...]], dict[str, Any]],
) -> None:
    """Looking at eight times as many values takes about eight times the work, not sixty-four times."""
    work = []
    for count in (2_000, 16_000):
        study = StudySpec(
            base=RunSpec(exercise="softmax"), **changes(tuple(2 + number / 1e6 for number in range(count)))
        )
        found, lines = lines_run(check_study, study, CARD)
        work.append(lines)
        assert len(found) == 1
    assert work[1] < 12 * work[0]
