"""One declaration gives form, flags, TOML and checks: what they do with any value a person can type."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.base.problem import ProblemError
from clew_shared.params import (
    Choice,
    Condition,
    Kind,
    Knob,
    Params,
    ParamSpec,
    Value,
    build,
    check,
    convert,
    defaults,
    describe,
    format_value,
    without_effect,
)


class Settings(Params, frozen=True):
    """One field of every kind."""

    learning_rate: Annotated[float, Knob("Learning rate", gt=0, le=10, live=True, log=True)] = 0.5
    steps: Annotated[int, Knob("Steps", ge=1, lt=1_000_000, group="Length", unit="steps")] = 500
    shuffle: Annotated[bool, Knob("Shuffle")] = False
    optimizer: Annotated[
        str, Knob("Optimizer", choices=(Choice("sgd", "Gradient descent"), Choice("adam", "Adam")))
    ] = "sgd"
    momentum: Annotated[float, Knob("Momentum", ge=0, lt=1, shown_when=Condition("optimizer", ("sgd",)))] = 0.9
    note: Annotated[str, Knob("Note")] = ""
    patience: Annotated[int | None, Knob("Patience", ge=1)] = None


SPECS = {spec.name: spec for spec in describe(Settings)}


# --- Declaring --------------------------------------------------------------------------------------------------------


def test_a_declaration_becomes_data_in_its_order() -> None:
    assert list(SPECS) == ["learning_rate", "steps", "shuffle", "optimizer", "momentum", "note", "patience"]
    assert [spec.kind for spec in SPECS.values()] == ["float", "int", "bool", "choice", "float", "text", "int"]
    assert SPECS["learning_rate"] == ParamSpec(
        name="learning_rate", kind="float", label="Learning rate", default=0.5, gt=0, le=10, live=True, log=True
    )
    assert (SPECS["steps"].group, SPECS["steps"].unit) == ("Length", "steps")
    assert SPECS["momentum"].shown_when == Condition("optimizer", ("sgd",))
    assert [name for name, spec in SPECS.items() if spec.optional] == ["patience"]
    assert defaults(describe(Settings)) == msgspec.structs.asdict(Settings())


def test_the_data_travels_as_json_and_as_msgpack() -> None:
    specs = describe(Settings)
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(specs), type=tuple[ParamSpec, ...]) == specs


def test_a_field_without_knob_or_default_is_a_mistake_in_the_exercise() -> None:
    class Bare(Params, frozen=True):
        rate: float = 0.5

    class Wordless(Params, frozen=True):
        rate: Annotated[float, "no knob"] = 0.5

    class Empty(Params, frozen=True):
        rate: Annotated[float, Knob("Rate")]

    for wrong in (Bare, Wordless, Empty):
        with pytest.raises(TypeError, match="rate"):
            describe(wrong)


# --- Reading values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "raw", "value"),
    [
        ("learning_rate", "0.1", 0.1),
        ("learning_rate", " 1e-3 ", 0.001),
        ("learning_rate", 1, 1.0),
        ("learning_rate", "10", 10.0),
        ("steps", "500", 500),
        ("steps", "50,000", 50_000),
        ("learning_rate", "+.5e0", 0.5),
        ("steps", "1e3", 1000),
        ("steps", 7.0, 7),
        ("shuffle", "Yes", True),
        ("shuffle", "off", False),
        ("shuffle", 1, True),
        ("shuffle", True, True),
        ("optimizer", "adam", "adam"),
        ("optimizer", " adam ", "adam"),
        ("note", "", ""),
        ("note", " spaces stay ", " spaces stay "),
        ("patience", "", None),
        ("patience", None, None),
        ("patience", "none", None),
        ("patience", "3", 3),
    ],
)
def test_what_a_person_may_type(name: str, raw: object, value: Value) -> None:
    found, wrong = convert(SPECS[name], raw)
    assert wrong is None
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("learning_rate", "0", "must be greater than 0, got 0"),
        ("learning_rate", "10.5", "must be at most 10, got 10.5"),
        ("learning_rate", "fast", "expected a number such as 0.5, got 'fast'"),
        ("learning_rate", "0,5", "expected a number such as 0.5, got '0,5'"),
        ("learning_rate", "nan", "expected a finite number, got 'nan'"),
        ("learning_rate", "-inf", "expected a finite number, got '-inf'"),
        ("learning_rate", 10**400, "expected a number"),
        ("learning_rate", True, "expected a number, got True"),
        ("learning_rate", [1], "expected a number, got [1]"),
        ("learning_rate", "", "a value is needed"),
        ("learning_rate", None, "a value is needed"),
        ("learning_rate", "none", "expected a number"),
        ("steps", "0", "must be at least 1, got 0"),
        ("steps", "1000000", "must be less than 1000000, got 1000000"),
        ("steps", "1.5", "expected a whole number, got '1.5'"),
        ("steps", "1,5", "expected a whole number, got '1,5'"),
        ("steps", "1,50000", "expected a whole number"),
        ("steps", "many", "expected a whole number, got 'many'"),
        ("steps", "1_000", "expected a whole number, got '1_000'"),
        ("steps", "1_0e2", "expected a whole number, got '1_0e2'"),
        ("steps", "٥", "expected a whole number, got '٥'"),
        ("steps", "５００", "expected a whole number"),
        ("learning_rate", "٠.٥", "expected a number such as 0.5, got '٠.٥'"),
        ("learning_rate", "0.000_1", "expected a number such as 0.5, got '0.000_1'"),
        ("steps", "9" * 5000, "expected a whole number"),
        ("steps", 2**53 + 1, "expected a whole number"),
        ("steps", str(2**53 + 1), "expected a whole number"),
        ("steps", True, "expected a whole number, got True"),
        ("shuffle", "maybe", "expected true or false, got 'maybe'"),
        ("optimizer", "sdg", "expected one of sgd, adam; got 'sdg'"),
        ("optimizer", 3, "expected one of sgd, adam; got 3"),
        ("note", 3, "expected text, got 3"),
        ("patience", "0", "must be at least 1, got 0"),
    ],
)
def test_what_is_refused_and_how_it_is_said(name: str, raw: object, words: str) -> None:
    value, wrong = convert(SPECS[name], raw)
    assert value == SPECS[name].default
    assert wrong is not None
    assert (wrong.code, wrong.where) == ("params.value", name)
    assert wrong.text.startswith(f"{SPECS[name].label} ({name}): ")
    assert words in wrong.text


def test_all_problems_come_at_once_and_good_values_are_kept() -> None:
    values = {"learning_rate": "-1", "steps": "some", "shuffle": "yes", "optimiser": "adam", "zzz": 1}
    typed, problems = check(describe(Settings), values)
    assert typed == defaults(describe(Settings)) | {"shuffle": True}
    assert [problem.where for problem in problems] == ["optimiser", "zzz", "learning_rate", "steps"]
    assert problems[0].hint == "Did you mean optimizer?"
    assert "learning_rate" in problems[1].hint
    with pytest.raises(ProblemError) as caught:
        build(Settings, values)
    assert caught.value.problems == problems


def test_values_build_the_typed_struct() -> None:
    built = build(Settings, {"learning_rate": "0.1", "patience": 5})
    assert built == Settings(learning_rate=0.1, patience=5)
    assert build(Settings, {}) == Settings()


# --- Written and read back --------------------------------------------------------------------------------------------

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY_VALUE: dict[Kind, st.SearchStrategy[Value]] = {
    "float": FINITE,
    "int": st.integers(-(2**53), 2**53),
    "bool": st.booleans(),
    "choice": st.sampled_from(["sgd", "adam", "none"]),
    "text": st.text(),
}


def spec_of(kind: Kind, optional: bool) -> ParamSpec:
    names = ("sgd", "adam", "none") if kind == "choice" else ()
    first: dict[Kind, Value] = {"float": 0.5, "int": 1, "bool": False, "choice": "sgd", "text": ""}
    choices = tuple(Choice(name, name) for name in names)
    return ParamSpec(name="p", kind=kind, label="P", default=first[kind], optional=optional, choices=choices)


@given(st.data(), st.sampled_from(sorted(ANY_VALUE)))
def test_a_value_written_as_text_is_read_back_unchanged(data: st.DataObject, kind: Kind) -> None:
    value = data.draw(ANY_VALUE[kind])
    assert convert(spec_of(kind, optional=False), format_value(value)) == (value, None)


@given(st.data(), st.sampled_from(["bool", "float", "int"]))
def test_an_optional_value_as_well(data: st.DataObject, kind: Kind) -> None:
    value = data.draw(st.none() | ANY_VALUE[kind])
    assert convert(spec_of(kind, optional=True), format_value(value)) == (value, None)


@given(
    st.sampled_from(sorted(ANY_VALUE)),
    st.booleans(),
    st.text() | st.floats() | st.integers() | st.booleans() | st.none(),
)
def test_no_value_makes_it_stumble_and_what_it_takes_it_takes_again(kind: Kind, optional: bool, raw: object) -> None:
    spec = spec_of(kind, optional)
    value, wrong = convert(spec, raw)
    if wrong is not None:
        assert value == spec.default
    elif value is not None:
        assert convert(spec, value) == (value, None)
        assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e-4, "0.0001"),
        (1e-5, "1e-5"),
        (2.5e-07, "2.5e-7"),
        (1e16, "1e16"),
        (500, "500"),
        (1.0, "1"),
        (True, "true"),
        (None, ""),
        ("a", "a"),
    ],
)
def test_numbers_read_as_a_person_would_write_them(value: Value, text: str) -> None:
    assert format_value(value) == text


@given(FINITE, FINITE)
def test_bounds_hold_for_every_number(limit: float, value: float) -> None:
    for knob, holds in (("gt", value > limit), ("ge", value >= limit), ("lt", value < limit), ("le", value <= limit)):
        spec = msgspec.structs.replace(spec_of("float", optional=False), **{knob: limit})
        assert (convert(spec, value)[1] is None) == holds


@pytest.mark.parametrize(("on", "idle"), [(True, []), (False, ["params.idle"])])
def test_a_setting_that_counts_with_a_switch_is_idle_only_without_it(on: bool, idle: list[str]) -> None:
    switch = ParamSpec(name="noise", kind="bool", label="Noise", default=False)
    level = ParamSpec(name="level", kind="float", label="Level", default=0.1, shown_when=Condition("noise", ("true",)))
    assert [one.code for one in without_effect((switch, level), ["level"], {"noise": on, "level": 0.2})] == idle


@pytest.mark.parametrize("text", ["0,0", "0,0,2", "1.5,0,1", "a,b,c", "0,0,1 0,nan,1", "0,0,1 " * 501])
def test_points_that_are_none_are_refused_and_named(text: str) -> None:
    spec = ParamSpec(name="own", label="Own points", kind="text", default="", plane=True)
    assert convert(spec, " 0.50,-1,1\n0,.25,0 ") == ("0.5,-1,1 0,0.25,0", None)
    assert convert(spec, "0.12345,-0.000012,1") == ("0.12345,-1.2e-5,1", None)
    wrong = convert(spec, text)[1]
    assert wrong is not None
    assert "points" in wrong.text
