"""A study becomes runs that differ in their lane's values only, and goes through TOML unchanged."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard, Lane, RaceSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.params import check, format_value
from clew_shared.spec import RunSpec
from clew_shared.spec import from_toml as spec_from_toml
from clew_shared.spec import to_toml as spec_to_toml
from clew_shared.study.study import (
    StudySpec,
    check_study,
    choose_lanes,
    find_race,
    from_toml,
    lane_specs,
    lane_title,
    new_name,
    race_of,
    race_study,
    read_study,
    scaling_study,
    study_runs,
    sweep_study,
    to_toml,
)
from clew_shared.study.sweep import Sweep
from tests.unit.exercise.test_spec import SPECS, VALUES

RACE = RaceSpec(
    id="optimizers",
    title="Optimizer race",
    steps=300,
    target=0.001,
    lanes=(
        Lane(name="Gradient descent", values={"optimizer": "sgd", "learning_rate": 0.01}),
        Lane(name="Adam", values={"optimizer": "adam", "learning_rate": 0.2}),
    ),
)
BASE = RunSpec(exercise="linear-regression", run="x", name="mine", preset="adam", seed=7, params={"schedule": "cosine"})
LANES = st.builds(Lane, name=st.text(), values=st.dictionaries(st.text(alphabet="abc"), VALUES, max_size=3))
STUDIES = st.builds(
    StudySpec,
    study=st.text(max_size=60),
    base=SPECS,
    lanes=st.lists(LANES, min_size=1, max_size=4, unique_by=lambda lane: lane.name).map(tuple),
    title=st.text(),
    metric=st.text(min_size=1),
    target=st.none() | st.floats(allow_nan=False),
)

AXES = st.builds(
    StudySpec,
    study=st.text(max_size=60),
    base=SPECS,
    axis=st.sampled_from(["learning_rate", "dropout"]),
    values=st.lists(
        st.integers(1, 1000) | st.floats(allow_nan=False) | st.booleans(),
        min_size=1,
        max_size=6,
        unique_by=format_value,
    ).map(tuple),
    repeats=st.integers(1, 5),
    format=st.just(2),
)
TRAIN = RunSpec(exercise="softmax", data="digits", seed=3, strategy="mirrored", params={"steps": 60, "batch_size": 32})


def card(name: str) -> ExerciseCard:
    return find_card(load_builtin().exercises, name)


def test_every_lane_has_the_same_exercise_data_seed_and_budget() -> None:
    study = race_study(RACE, BASE)
    one, two = lane_specs(study)
    assert (one.name, two.name) == ("", "")
    assert lane_title(study.lanes[1]) == "Adam 0.2"
    assert one.params == {"schedule": "cosine", "steps": 300, "optimizer": "sgd", "learning_rate": 0.01}
    same = {"name": "", "params": {}}
    assert msgspec.structs.replace(one, **same) == msgspec.structs.replace(two, **same)
    assert (one.run, one.preset, one.seed, one.study) == ("", "", 7, study.study)
    assert study.steps == 300


def test_lanes_and_budget_may_be_chosen() -> None:
    study = race_study(RACE, BASE, choose_lanes(RACE, ["ADAM"]), steps=50)
    assert lane_specs(race_study(RACE, BASE, (Lane(name="Heavy", values={"momentum": 0.99}),)))[0].name == "Heavy"
    (only,) = lane_specs(study)
    assert (only.params["optimizer"], only.params["steps"]) == ("adam", 50)
    assert choose_lanes(RACE, ["adam", "gradient-descent"]) == RACE.lanes
    with pytest.raises(ProblemError, match=r"no lane 'adm'.*Gradient descent, Adam"):
        choose_lanes(RACE, ["adm"])


def test_a_study_knows_its_race_by_its_name() -> None:
    exercise = card("linear-regression")
    name = new_name("optimizers")
    assert race_of(exercise, name) == exercise.races[0]
    assert race_of(exercise, "") is None
    assert race_of(exercise, "other-123456") is None
    assert new_name("optimizers") != name
    assert len(new_name("x" * 200)) <= 60


def test_a_lane_must_not_see_other_batches_or_more_of_them() -> None:
    lanes = tuple(Lane(name=key, values={key: 1}) for key in ("steps", "batch_size", "order"))
    found = check_study(race_study(RACE, BASE, lanes))
    assert [problem.code for problem in found] == ["study.unfair"] * 3


def test_wrong_values_twins_and_no_lanes_are_told() -> None:
    exercise = card("linear-regression")
    assert check_study(race_study(RACE, BASE), exercise) == []
    wrong = Lane(name="Adam", values={"learning_rate": -1.0, "speed": 3})
    words = " ".join(problem.text for problem in check_study(race_study(RACE, BASE, (wrong, wrong)), exercise))
    assert "Two lanes are called 'Adam'" in words
    assert "speed" in words
    assert "greater than 0" in words or "> 0" in words or "-1" in words
    assert "1 to 32 lanes" in check_study(race_study(RACE, BASE, ()))[0].text


@pytest.mark.parametrize("name", ["linear-regression", "softmax", "cnn"])
def test_the_races_of_the_built_in_exercises_can_be_run(name: str) -> None:
    exercise = card(name)
    for race in exercise.races:
        study = race_study(race, RunSpec(exercise=name))
        assert check_study(study, exercise) == []
        assert race.metric in {metric.name for metric in exercise.metrics}
        values = [check(exercise.params, spec.params)[0] for spec in lane_specs(study)]
        assert len({str(one) for one in values}) == len(race.lanes) >= 2


def test_an_exercise_without_a_race_says_so() -> None:
    with pytest.raises(ProblemError, match="has no race"):
        find_race(ExerciseCard(id="mine", title="Mine"))
    with pytest.raises(ProblemError, match="Known: optimizers"):
        find_race(card("softmax"), "batches")
    assert find_race(card("softmax")).id == find_race(card("softmax"), "optimizers").id == "optimizers"


@given(STUDIES | AXES)
def test_a_study_goes_through_toml(study: StudySpec) -> None:
    assert from_toml(to_toml(study)) == study


def test_the_text_is_what_a_person_would_write() -> None:
    assert from_toml(to_toml(race_study(RACE, RunSpec(exercise="x", params={"patience": None})))).base.params == {
        "patience": "none",
        "steps": 300,
    }
    text = to_toml(race_study(RACE, RunSpec(exercise="linear-regression"), name="optimizers-1a2b3c"))
    assert text.splitlines() == [
        'study = "optimizers-1a2b3c"',
        "format = 1",
        'title = "Optimizer race"',
        'metric = "loss"',
        "target = 0.001",
        "lanes = [",
        '    { name = "Gradient descent", values = { optimizer = "sgd", learning_rate = 0.01 } },',
        '    { name = "Adam", values = { optimizer = "adam", learning_rate = 0.2 } },',
        "]",
        "",
        "[base]",
        'exercise = "linear-regression"',
        "format = 1",
        "seed = 1",
        'strategy = "single"',
        "devices = 1",
        "",
        "[base.params]",
        "steps = 300",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("study =", "cannot be read"),
        ('study = "x"', "missing required field `base`"),
        ('study = "x"\nlanes = []\n[base]\nexercise = "softmax"', "1 to 32 lanes"),
        ('study = "x"\nlanes = []\ncolour = 1\n[base]\nexercise = "softmax"', "colour"),
    ],
)
def test_a_broken_study_is_refused_with_its_reason(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "race.toml"
    path.write_text(text)
    with pytest.raises(ProblemError, match=words):
        read_study(path)
    with pytest.raises(ProblemError, match="Cannot read"):
        read_study(tmp_path / "none.toml")


# --- Over an axis -----------------------------------------------------------------------------------------------------


def test_a_scaling_study_changes_the_devices_alone_and_mixes_its_repeats() -> None:
    study = scaling_study(TRAIN, [1, 2, 4], repeats=2, warm_up=10)
    runs = study_runs(study)
    assert [run.value for run in runs] == [1, 2, 4, 1, 2, 4]
    assert [run.title for run in runs[2:4]] == ["4 devices, 1 of 2", "1 device, 2 of 2"]
    assert [run.spec.devices for run in runs[:3]] == [1, 2, 4]
    assert {run.spec.seed for run in runs} == {3}
    assert len({str(run.spec.params) for run in runs}) == 1
    assert {run.spec.study for run in runs} == {study.study}
    assert check_study(study, card("softmax")) == []
    assert from_toml(to_toml(study)) == study


def test_an_exercise_without_training_steps_cannot_be_timed() -> None:
    base = RunSpec(exercise="vectorize", strategy="mirrored")
    (found,) = check_study(scaling_study(base, [1, 2]), card("vectorize"))
    assert found.text == "vectorize measures by itself and has no training steps to time."


def test_weak_scaling_gives_each_device_a_whole_batch() -> None:
    runs = study_runs(scaling_study(TRAIN, [1, 4], weak=True))
    assert [run.spec.params["batch_size"] for run in runs] == [32, 128]


def test_a_batch_that_grows_beyond_the_limit_is_refused() -> None:
    base = msgspec.structs.replace(TRAIN, params={"steps": 60, "batch_size": 20_000})
    assert check_study(scaling_study(base, [1, 2], weak=True), card("softmax")) == []
    (found,) = check_study(scaling_study(base, [1, 2, 4], repeats=2, weak=True), card("softmax"))
    assert "got 80000" in found.text


def test_repeats_over_a_hyperparameter_have_seeds_of_their_own() -> None:
    study = StudySpec(base=TRAIN, axis="batch_size", values=(16, 64), repeats=2, study="batches", format=2)
    assert check_study(study, card("softmax")) == []
    runs = study_runs(study)
    assert [(run.spec.params["batch_size"], run.spec.seed) for run in runs] == [(16, 3), (64, 3), (16, 4), (64, 4)]
    assert runs[3].spec.name == "batch size 64, 2 of 2"


def test_lanes_are_runs_as_well() -> None:
    study = race_study(RACE, BASE)
    assert [(run.title, run.spec) for run in study_runs(study)] == list(
        zip(["Gradient descent 0.01", "Adam 0.2"], lane_specs(study), strict=True)
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"values": ()}, "1 to 32 values, this one has 0"),
        ({"values": (1, 0)}, "whole number from 1 to 1,024, got 0"),
        ({"values": (1, 2.5)}, "got 2.5"),
        ({"values": (1, 3)}, "runs on 1, 2, 4, 8, 16 devices, not on 3"),
        ({"axis": "nodes"}, "runs on one node, not on 2"),
        ({"values": (1, True)}, "got True"),
        ({"values": (2, 2)}, "value 2 is listed twice"),
        ({"repeats": 0}, "1 to 100 repeats"),
        ({"warm_up": 60}, "shorter than the run of 60 steps, got 60"),
        ({"weak": True, "base": RunSpec(exercise="softmax")}, "needs to know the batch size"),
        ({"axis": "colour"}, "softmax has no hyperparameter 'colour'"),
        ({"axis": "batch_size", "warm_up": 5}, "axis devices or nodes"),
        ({"axis": "batch_size", "values": (0,)}, "at least 1"),
        ({"axis": ""}, "need an axis"),
        ({"axis": "batch_size", "metric": "speed"}, "softmax has no metric 'speed'"),
        ({"lanes": RACE.lanes}, "not both"),
        ({"format": 4}, "format 4"),
    ],
)
def test_what_is_wrong_with_an_axis_is_told(change: dict[str, object], words: str) -> None:
    study = msgspec.structs.replace(scaling_study(TRAIN, [1, 2]), **change)
    assert words in " ".join(problem.text for problem in check_study(study, card("softmax")))


@pytest.mark.parametrize(
    ("said", "timed"),
    [
        ('name = "2 devices, 1 of 3"\nstudy = "s"\ndevices = 2', True),
        ('name = "1 node"\nstudy = "s"', True),
        ('name = "2 devices"\ndevices = 2', False),
        ('name = "3 devices"\nstudy = "s"\ndevices = 2', False),
        ('name = "batch size 2"\nstudy = "s"', False),
        ("timed = true", True),
    ],
)
def test_of_an_older_spec_the_name_says_whether_it_is_timed(said: str, timed: bool) -> None:
    spec = spec_from_toml(f'exercise = "softmax"\n{said}')
    assert spec.timed is timed
    assert ("timed" in spec_to_toml(spec)) is ("timed" in said), (
        "an earlier agent refuses a field that it does not know"
    )
    assert not sweep_study(spec, Sweep(), metric="loss").base.timed, "a copy is of no study"
    assert spec_from_toml(spec_to_toml(spec)) == spec
