"""Run specs as TOML: read back as written, and refused with everything that is wrong."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.cli import main as cli
from clew_agent.trainer.first_frame import describe_attempt
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard, SurfaceSpec
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value
from clew_shared.revisions import trains_alike
from clew_shared.spec import MAX_NAME, RunSpec, check_spec, from_toml, read_spec, to_toml
from clew_shared.surface import heights_of, make_surface

NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
VALUES: st.SearchStrategy[Value] = st.booleans() | NUMBERS | st.text()
SPECS = st.builds(
    RunSpec,
    exercise=st.text(),
    run=st.uuids().map(str) | st.just(""),
    name=st.text(max_size=MAX_NAME),
    study=st.text(max_size=MAX_NAME),
    preset=st.text(),
    seed=st.integers(0, 2**31 - 1),
    data=st.text(),
    strategy=st.text(),
    devices=st.integers(1, 1024),
    source_hash=st.text(alphabet="0123456789abcdef"),
    params=st.dictionaries(st.text(), VALUES),
)


@given(SPECS)
def test_what_is_written_is_read_back(spec: RunSpec) -> None:
    assert from_toml(to_toml(spec)) == spec
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(spec), type=RunSpec) == spec


def test_the_text_is_what_a_person_would_write() -> None:
    spec = RunSpec(exercise="softmax", name="Try 1", data="mnist", params={"learning_rate": 0.5, "patience": None})
    assert to_toml(spec).splitlines() == [
        'exercise = "softmax"',
        "format = 1",
        'name = "Try 1"',
        "seed = 1",
        'data = "mnist"',
        'strategy = "single"',
        "devices = 1",
        "",
        "[params]",
        "learning_rate = 0.5",
        'patience = "none"',
    ]


def test_what_an_earlier_version_does_not_know_is_not_sent_unless_it_is_used() -> None:
    """It refuses a spec with a field that it does not know."""
    assert msgspec.json.encode(RunSpec(exercise="cnn", seed=3)) == b'{"exercise":"cnn","seed":3}'


def test_a_short_spec_takes_the_usual_values() -> None:
    assert from_toml('exercise = "cnn"') == RunSpec(exercise="cnn")


def test_fields_of_earlier_versions_that_compute_nothing_are_skipped() -> None:
    assert from_toml('exercise = "cnn"\nper_core = true') == RunSpec(exercise="cnn")


def problems_of(text: str) -> dict[str, str]:
    with pytest.raises(ProblemError) as caught:
        from_toml(text, "my.toml")
    return {problem.where: str(problem) for problem in caught.value.problems}


def test_everything_that_is_wrong_is_said_at_once() -> None:
    found = problems_of(
        """
        format = 9
        sed = 3
        seed = -1
        devices = "two"
        name = 5
        [params]
        learning_rate = [0.5]
        when = 2024-01-01
        steps = 5
        """
    )
    assert found == {
        "exercise": "my.toml: exercise is needed.",
        "format": "my.toml has format 9; this version reads format 1.",
        "sed": "my.toml has an unknown field 'sed'. Did you mean seed?",
        "seed": "The seed must be from 0 to 2147483647, got -1.",
        "devices": "my.toml: devices must be a whole number, got 'two'.",
        "name": "my.toml: name must be a text, got 5.",
        "params.learning_rate": "my.toml: params.learning_rate must be a number, a text, true or false, got [0.5].",
        "params.when": "my.toml: params.when must be a number, a text, true or false, got datetime.date(2024, 1, 1).",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("exercise = ", "not valid TOML"),
        ("exercise = 'a'\nexercise = 'b'", "not valid TOML"),
        ("a = " + "[" * 100_000, "not valid TOML"),
        ("seed = " + "9" * 5000, "not valid TOML"),
        ("exercise = 'a'\nparams = 3", "params must be a table, got 3"),
        ("exercise = 'a'\ndevices = 0", "At least 1 device is needed, got 0"),
        ("exercise = 'a'\nseed = 2147483648", "from 0 to 2147483647"),
        ("exercise = 'a'\nseed = true", "seed must be a whole number, got True"),
        ("exercise = 'a'\nzzzzzz = 1", "Known fields: exercise"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    assert any(words in said for said in problems_of(text).values())


def test_a_name_has_a_limit() -> None:
    assert check_spec(RunSpec(exercise="softmax", name="n" * 60)) == []
    (found,) = check_spec(RunSpec(exercise="softmax", name="n" * 61))
    assert "60 characters" in found.text


def test_files_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text(to_toml(RunSpec(exercise="softmax", run=str(uuid.uuid4()))))
    assert read_spec(good).exercise == "softmax"
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.toml", "binary.toml", "."):
        with pytest.raises(ProblemError, match="Cannot read"):
            read_spec(tmp_path / name)


# --- The revision of an exercise --------------------------------------------------------------------------------------

SOFTMAX = "b3e9f954cc82ecce1d5d59934332e3e48b735b8d9b2ea52f5ff70f76a6414e5c"
"""What the spec of an older run of softmax names (``tests/integration/commands/older_home``)."""


@pytest.mark.parametrize(
    ("exercise", "here", "revision", "source", "alike"),
    [
        ("softmax", 1, 1, "of a later text", True),
        ("softmax", 2, 1, "same", False),
        ("softmax", 1, 0, SOFTMAX, True),
        ("softmax", 2, 0, SOFTMAX, False),
        ("cnn", 1, 0, SOFTMAX, False),
        ("softmax", 1, 0, "of another text", False),
        ("mine", 0, 0, "same", True),
        ("mine", 0, 0, "", True),
        ("mine", 0, 0, "of another text", False),
        ("mine", 0, 3, "of another text", False),  # its author took the revision out
        ("mine", 3, 0, "same", True),
    ],
)
def test_the_revision_decides_and_without_one_the_file(
    exercise: str, here: int, revision: int, source: str, alike: bool
) -> None:
    card = ExerciseCard(id=exercise, title="", revision=here, source_hash="same")
    assert trains_alike(card, revision, source) is alike


def test_every_built_in_exercise_has_a_revision() -> None:
    assert all(card.revision for card in load_builtin().exercises)


def test_a_card_of_a_version_before_revisions_can_be_read() -> None:
    older = {"id": "softmax", "title": "Softmax", "source_hash": SOFTMAX, "earlier_hashes": ["0"]}
    card = msgspec.convert(older, ExerciseCard)
    assert (card.revision, trains_alike(card, 1, SOFTMAX)) == (0, True)


def test_a_journal_names_the_revision_of_a_file_that_came_with_clew(tmp_path: Path) -> None:
    own = tmp_path / "exercises"
    own.mkdir()
    (own / "mine.py").write_text('"mine"')
    for exercise, folder, revision in (("softmax", None, 1), ("mine", own, 0)):
        run = RunFolder(tmp_path / exercise)
        run.path.mkdir()
        spec = RunSpec(exercise=exercise)
        run.spec.write_text(to_toml(spec))
        assert describe_attempt(run, 1, spec, folder)[0].revision == revision


def test_writing_the_catalogue_reminds_of_the_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_builtin()
    first, second, *others = before.exercises
    replace = msgspec.structs.replace
    changed = (replace(first, source_hash="a"), replace(second, source_hash="b", revision=second.revision + 1), *others)
    monkeypatch.setattr("clew_agent.cli.catalogue.make_catalogue", lambda *_, **__: replace(before, exercises=changed))
    assert cli.main(["catalogue", "--write", str(tmp_path / "catalogue.json")]) == 0
    assert capsys.readouterr().err.startswith("linear-regression: its file changed but its revision is still 1")


def test_a_catalogue_with_a_broken_exercise_is_not_packaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packaged = tmp_path / "packaged.json"
    packaged.write_bytes(b"as it was")
    first, *others = load_builtin().exercises
    broken = msgspec.structs.replace(first, problem=Problem("catalogue.import", "NameError: name 'reduce'", "Fix it."))
    made = msgspec.structs.replace(load_builtin(), exercises=(broken, *others))
    monkeypatch.setattr("clew_agent.cli.catalogue.make_catalogue", lambda *_, **__: made)
    monkeypatch.setattr("clew_agent.cli.catalogue.BUILTIN", packaged)
    assert cli.main(["catalogue", "--write"]) == 2
    assert "NameError" in capsys.readouterr().err
    assert packaged.read_bytes() == b"as it was"


# --- A surface is the function's own values on a grid, in the order that the card says, and travels unchanged. --------


def surface(points: int = 5) -> SurfaceSpec:
    return make_surface(
        lambda x, y: x + 10 * y, title="Plane", metrics=("a", "b"), x=(0.0, 4.0), y=(1.0, 3.0), points=points
    )


def test_rows_go_up_and_columns_to_the_right() -> None:
    heights = heights_of(surface())
    assert heights[0].tolist() == [10, 11, 12, 13, 14]
    assert heights[:, 0].tolist() == [10, 15, 20, 25, 30]


def test_a_constant_is_a_plain() -> None:
    flat = make_surface(lambda *_: np.array(2.0), title="Flat", metrics=("a", "b"), x=(0, 1), y=(0, 1), points=3)
    assert heights_of(flat).tolist() == [[2.0] * 3] * 3


def test_numbers_that_are_too_few_are_refused() -> None:
    with pytest.raises(ValueError, match="reshape"):
        heights_of(msgspec.structs.replace(surface(), rows=4))


def test_a_card_takes_it_over_json_and_messagepack() -> None:
    card = ExerciseCard(id="x", title="X", surfaces=(surface(),))
    assert msgspec.json.decode(msgspec.json.encode(card), type=ExerciseCard) == card
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(card), type=ExerciseCard) == card


def test_the_surface_of_linear_regression_is_a_numpy_loop() -> None:
    (spec,) = find_card(load_builtin().exercises, "linear-regression").surfaces
    heights = heights_of(spec)
    assert spec.metrics == ("W", "b")
    xs, ys = np.linspace(*spec.x, spec.columns), np.linspace(*spec.y, spec.rows)
    for row in range(0, spec.rows, 7):
        for column in range(0, spec.columns, 7):
            loss = 0.0
            for x, y in zip((1.0, 2.0, 3.0, 4.0), (0.0, -1.0, -2.0, -3.0), strict=True):
                loss += (xs[column] * x + ys[row] - y) ** 2
            assert heights[row, column] == pytest.approx(loss, rel=1e-6, abs=1e-6)
    assert spec.minimum == (-1.0, 1.0)
