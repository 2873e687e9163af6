"""The words after ``clew run``: flags from the exercise's hyperparameters, and every mistake named at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.commands.run.arguments import join_negative_numbers, make_parser, parse_run
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue, ExerciseCard, Preset
from clew_shared.params import Choice, ParamSpec, Value
from clew_shared.spec import RunSpec, from_toml, to_toml

OPTIMIZERS = (Choice("sgd", "Gradient descent"), Choice("adam", "Adam"))
SOFTMAX = ExerciseCard(
    id="softmax",
    title="Softmax",
    params=(
        ParamSpec(name="learning_rate", kind="float", label="Learning rate", default=0.5, gt=0, le=10),
        ParamSpec(name="optimizer", kind="choice", label="Optimizer", default="sgd", choices=OPTIMIZERS),
        ParamSpec(name="batch_size", kind="int", label="Batch size", default=100, ge=1, le=50000),
        ParamSpec(name="shuffle", kind="bool", label="Shuffle", default=False),
        ParamSpec(name="evaluate_every", kind="int", label="Evaluate every", default=100, optional=True, ge=1),
    ),
    presets=(
        Preset(name="tiny", title="Tiny", values={"batch_size": 10}, data="digits", seed=7),
        Preset(name="adam", title="Adam", values={"optimizer": "adam", "learning_rate": 0.001}),
    ),
    datasets=("mnist", "digits"),
    source_hash="abc",
)
LINE = ExerciseCard(
    id="linear-regression",
    title="Line",
    params=(ParamSpec(name="steps", kind="int", label="Steps", default=1000, ge=1),),
)
CATALOGUE = Catalogue(exercises=(LINE, SOFTMAX))


def spec_of(line: str) -> RunSpec:
    return parse_run(line.split(), CATALOGUE, "a-run")[2]


def complaints(line: str, catalogue: Catalogue = CATALOGUE) -> list[str]:
    with pytest.raises(ProblemError) as caught:
        parse_run(line.split(), catalogue, "a-run")
    return [str(found) for found in caught.value.problems]


def test_nothing_else_is_said_of_an_exercise_that_cannot_be_read() -> None:
    broken = ExerciseCard(id="mine", title="Mine", problem=Problem("exercise.broken", "mine.py, line 3: no."))
    assert complaints("mine --preset tiny", Catalogue(exercises=(broken,))) == ["mine.py, line 3: no."]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("softmax", {}),
        ("softmax --learning-rate 0.1", {"learning_rate": 0.1}),
        ("--learning-rate=0.1 softmax", {"learning_rate": 0.1}),
        ("--learning-rate 0.1 softmax", {"learning_rate": 0.1}),
        ("softmax --set learning_rate=0.1 --set batch-size=20", {"learning_rate": 0.1, "batch_size": 20}),
        ("softmax --set learning_rate=0.1 --learning-rate 0.2", {"learning_rate": 0.2}),
        ("softmax --learning-rate 0.2 --set learning_rate=0.1", {"learning_rate": 0.1}),
        ("softmax --optimizer adam --batch-size 1e3", {"optimizer": "adam", "batch_size": 1000}),
        ("softmax --shuffle", {"shuffle": True}),
        ("softmax --shuffle --no-shuffle", {"shuffle": False}),
        ("softmax --preset adam", {"optimizer": "adam", "learning_rate": 0.001}),
        ("softmax --preset adam --learning-rate 0.01", {"optimizer": "adam", "learning_rate": 0.01}),
    ],
)
def test_flags_win_over_the_preset_and_the_preset_over_the_defaults(line: str, changed: dict[str, Value]) -> None:
    defaults = {param.name: param.default for param in SOFTMAX.params}
    assert spec_of(line).params == defaults | changed


def test_the_spec_names_exercise_run_source_and_preset() -> None:
    spec = spec_of("softmax --preset tiny --name first")
    assert (spec.exercise, spec.run, spec.source_hash, spec.preset) == ("softmax", "a-run", "abc", "tiny")
    assert (spec.name, spec.data, spec.seed) == ("first", "digits", 7)


@pytest.mark.parametrize(
    ("line", "seed"),
    [("softmax", 1), ("softmax --seed 0", 0), ("softmax --preset tiny", 7), ("softmax --preset tiny --seed 3", 3)],
)
def test_the_seed_is_the_given_one_else_the_presets_else_one(line: str, seed: int) -> None:
    assert spec_of(line).seed == seed


@pytest.mark.parametrize(
    ("line", "data"),
    [("softmax", ""), ("softmax --data digits", "digits"), ("softmax --preset tiny --data mnist", "mnist")],
)
def test_data_is_the_given_name_else_the_presets(line: str, data: str) -> None:
    assert spec_of(line).data == data


def test_a_data_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.npz").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert spec_of("softmax --data mine.npz").data == str(tmp_path / "mine.npz")


def test_no_value_is_written_so_that_it_survives_the_file() -> None:
    """TOML has no null; left out, the optional value would come back as its default 100."""
    spec = from_toml(to_toml(spec_of("softmax --evaluate-every none")))
    assert spec.params["evaluate_every"] == "none"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", ["Which exercise? One of: linear-regression, softmax."]),
        ("sofmax", ["There is no exercise 'sofmax'. Did you mean softmax?"]),
        ("softmax --learning-rate -1", ["Learning rate (learning_rate): must be greater than 0, got -1"]),
        ("softmax --learning-rate -1e-3", ["Learning rate (learning_rate): must be greater than 0, got -0.001"]),
        ("softmax --learning-rate nan", ["Learning rate (learning_rate): expected a finite number, got 'nan'"]),
        ("softmax --learning-rate", ["Argument --learning-rate: expected one argument. See: clew run --help"]),
        ("softmax --set batch_size", ["--set batch_size has no value. Write --set name=value."]),
        ("softmax --set =3", ["There is no hyperparameter ''. Known names: "]),
        ("softmax --batch-size 10.5", ["Batch size (batch_size): expected a whole number, got '10.5'"]),
        ("softmax --optimizer admm", ["Optimizer (optimizer): expected one of sgd, adam; got 'admm'"]),
        ("softmax --learing-rate 1", ["There is no option --learing-rate. Did you mean --learning-rate?"]),
        ("softmax --steps 10", ["There is no option --steps."]),
        ("softmax --learn 1", ["There is no option --learn."]),
        ("softmax cnn", ["Clew does not expect 'cnn' here."]),
        ("softmax batch_size=64", ["Clew does not expect 'batch_size=64' here. Write --batch-size 64."]),
        (
            "softmax batch_size=8,16",
            ["Clew does not expect 'batch_size=8,16' here. A sweep has several values: clew sweep … --over batch"],
        ),
        ("softmax --preset tinny", ["softmax has no preset 'tinny'. Did you mean tiny?"]),
        ("linear-regression --preset tiny", ["linear-regression has no preset 'tiny'. There are none."]),
        ("linear-regression --data mnist", ["linear-regression needs no data, but got --data mnist."]),
        ("softmax --data minst", ["softmax knows no data set 'minst'. Did you mean mnist?"]),
        ("softmax --data no/such.npz", ["There is no file or folder no/such.npz."]),
        ("softmax --seed -1", ["The seed must be a whole number from 0 to 2147483647, got '-1'."]),
        ("softmax --seed 2147483648", ["The seed must be a whole number from 0 to 2147483647, got '2147483648'."]),
        ("softmax --seed ١", ["The seed must be a whole number from 0 to 2147483647, got '١'."]),
    ],
)
def test_one_mistake_is_told_in_one_sentence(line: str, expected: list[str]) -> None:
    found = complaints(line)
    assert len(found) == len(expected)
    assert all(told.startswith(wanted) for told, wanted in zip(found, expected, strict=True)), found


def test_all_mistakes_are_told_at_once() -> None:
    line = "softmax --learning-rate 0 --set batch_size=none --sed 3 --optimizer x --preset y --seed z --data /no/q.npz"
    assert [told.split(" ")[0] for told in complaints(line)] == [
        "There",
        "softmax",
        "Learning",
        "Optimizer",
        "Batch",
        "The",
        "There",
    ]


def test_an_unknown_exercise_does_not_hide_other_mistakes(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    found = complaints(f"softmaxx --seed x --frobnicate --out {tmp_path}")
    assert [told.split(".")[0] for told in found[:2]] == [
        "There is no exercise 'softmaxx'",
        "There is no option --frobnicate",
    ]
    assert len(found) == 4


def test_a_folder_with_something_in_it_is_never_written_to(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("mine")
    assert complaints(f"softmax --out {tmp_path}")[0].startswith(f"The folder {tmp_path} is not empty")
    assert complaints(f"softmax --out {tmp_path}/kept.txt")[0].startswith(f"{tmp_path}/kept.txt is a file")


def test_the_help_of_an_exercise_shows_each_hyperparameter_with_limits_and_default() -> None:
    text = make_parser([SOFTMAX]).format_help()
    assert "--learning-rate NUMBER" in text
    assert "> 0 and ≤ 10 (default 0.5)" in " ".join(text.split())
    assert "one of sgd, adam (default sgd)" in " ".join(text.split())
    assert "Presets: tiny, adam. Data sets: mnist, digits." in text
    assert text.index("--learning-rate") < text.index("--seed"), "what the exercise is about comes first"


def test_rare_options_are_in_the_help_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    brief = make_parser(CATALOGUE.exercises).format_help()
    assert "--learning-rate" not in brief, "the help of an exercise has those"
    with pytest.raises(SystemExit):
        make_parser(CATALOGUE.exercises).parse_args(["--help-all"])
    full = capsys.readouterr().out
    for option in ("--learning-rate", "--partition"):
        assert (option in brief, option in full) == (False, True)


@given(st.floats(allow_nan=False, allow_infinity=False, max_value=-1e-300))
def test_a_negative_number_behind_a_flag_is_its_value(value: float) -> None:
    assert join_negative_numbers(["softmax", "--learning-rate", str(value), "--json"]) == [
        "softmax",
        f"--learning-rate={value}",
        "--json",
    ]


@given(st.lists(st.text(max_size=12), max_size=6))
def test_whatever_is_typed_is_a_spec_or_a_list_of_problems(words: list[str]) -> None:
    """Only ``--help`` ends the parser in another way."""
    try:
        parse_run(words, CATALOGUE, "a-run")
    except ProblemError as error:
        assert error.problems
    except SystemExit as end:
        assert any(word.startswith(("-h", "--help")) for word in words), end
