"""Run specs as TOML: read back as written, and refused with everything that is wrong."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.base.problem import ProblemError
from clew_shared.params import Value
from clew_shared.spec import MAX_NAME, RunSpec, check_spec, from_toml, read_spec, to_toml

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


@given(st.text())
def test_no_text_makes_it_stumble(text: str) -> None:
    try:
        spec = from_toml(text)
    except ProblemError as error:
        assert error.problems
    else:
        assert check_spec(spec) == []


def test_files_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    good = tmp_path / "good.toml"
    good.write_text(to_toml(RunSpec(exercise="softmax", run=str(uuid.uuid4()))))
    assert read_spec(good).exercise == "softmax"
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("absent.toml", "binary.toml", "."):
        with pytest.raises(ProblemError, match="Cannot read"):
            read_spec(tmp_path / name)
