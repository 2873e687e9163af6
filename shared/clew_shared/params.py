"""Typed hyperparameters: one declaration gives the form, the command-line flags, the TOML table and the checks.

An exercise declares a frozen struct whose fields carry a ``Knob``::

    class Settings(Params, frozen=True):
        learning_rate: Annotated[float, Knob("Learning rate", gt=0, le=10, live=True)] = 0.5

``describe(Settings)`` turns that into plain ``ParamSpec`` data that travels in the exercise's card, ``check`` validates
values against such data (the window has no other knowledge of an exercise), ``build`` makes the typed struct.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from clew_shared.base.number_words import either
from clew_shared.base.problem import Problem, did_you_mean, raise_all

Value = bool | int | float | str | None
Kind = Literal["float", "int", "bool", "choice", "text"]

OPTIMIZER, LEARNING_RATE, BATCH_SIZE, STEPS = "optimizer", "learning_rate", "batch_size", "steps"
"""Names that mean the same in every exercise that has them; those of ``TrainingSettings`` are these. Runs are timed,
raced, swept and titled by them, also where no card is at hand (a study's lane, a spec of another lab)."""
HEADLINE = (OPTIMIZER, LEARNING_RATE)
"""The hyperparameters that a run is named by; a reader knows them by their values alone: ``adam 0.003``."""


class Choice(msgspec.Struct, frozen=True):
    """An allowed value of a choice and its words for people."""

    value: str
    label: str


SHARED, SELDOM = "Training", "More"
"""The groups that exercises share: what each of them has, and what the first labs never need. A form begins with
an exercise's own settings; the last group is folded until a person opens it."""


class Condition(msgspec.Struct, frozen=True):
    """A field matters only while another field has one of these values (a momentum without the momentum optimizer)."""

    name: str
    values: tuple[str, ...]


class Knob(msgspec.Struct, frozen=True):
    """What a person needs to know of a hyperparameter; part of the ``Annotated`` type of a ``Params`` field.

    ``gt``/``ge``/``lt``/``le`` bound a number; ``live`` means it may be changed while the run trains; ``log`` means
    that the arrow keys multiply instead of adding; ``choices`` turns a ``str`` into a choice. ``runs_of`` names the
    exercise of which an earlier run's folder may be the value of a ``str``: the window offers those that are here.
    ``example`` is shown in an empty field, or beside a switch; a field has ``lines`` lines. ``plane``: the text are
    points in the square from -1 to 1, which a window lets a person set with the mouse (``read_points``).
    """

    label: str
    help: str = ""
    group: str = SHARED
    unit: str = ""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    choices: tuple[Choice, ...] = ()
    live: bool = False
    log: bool = False
    shown_when: Condition | None = None
    runs_of: str = ""
    example: str = ""
    lines: int = 1
    plane: bool = False


class ParamSpec(Knob, frozen=True, kw_only=True):
    """A hyperparameter as data: what its ``Knob`` says, plus its name, kind and default (the course's value)."""

    name: str
    kind: Kind
    default: Value
    optional: bool = False

    @property
    def type(self) -> ParamType:
        """Returns what depends on its kind."""
        return TYPES[self.kind]


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every exercise's hyperparameters. Subclasses add fields with a ``Knob`` and a default."""


ParamsT = TypeVar("ParamsT", bound=Params)


def describe(cls: type[Params]) -> tuple[ParamSpec, ...]:
    """The fields of ``cls`` as data, in the order of declaration. Raises ``TypeError`` if one has no ``Knob``."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple(_spec(field.name, hints[field.name], field.default) for field in msgspec.structs.fields(cls))


def _spec(name: str, annotation: Any, default: Any) -> ParamSpec:
    if get_origin(annotation) is not Annotated:
        raise TypeError(f"the hyperparameter {name!r} needs Annotated[type, Knob(...)]")
    base, *extras = get_args(annotation)
    knob = next((extra for extra in extras if isinstance(extra, Knob)), None)
    if knob is None or default is msgspec.NODEFAULT:
        raise TypeError(f"the hyperparameter {name!r} needs a Knob and a default")
    optional = get_origin(base) in (Union, types.UnionType) and type(None) in get_args(base)
    if optional:
        base = next(arg for arg in get_args(base) if arg is not type(None))
    kind = kind_of(base, knob.choices)
    return ParamSpec(name=name, kind=kind, default=default, optional=optional, **msgspec.structs.asdict(knob))


def build(cls: type[ParamsT], values: Mapping[str, object]) -> ParamsT:
    """The typed struct for ``values``; missing ones take their default. Raises ``ProblemError`` with *all* problems."""
    typed, problems = check(describe(cls), values)
    raise_all(problems)
    return cls(**typed)


def defaults(specs: Sequence[ParamSpec]) -> dict[str, Value]:
    """The course's values by name."""
    return {spec.name: spec.default for spec in specs}


def check(specs: Sequence[ParamSpec], values: Mapping[str, object]) -> tuple[dict[str, Value], tuple[Problem, ...]]:
    """Validate ``values`` (typed, or text from a form or a command line) against ``specs``.

    Returns a complete dictionary (defaults filled in, wrong fields at their default) and every problem found.
    """
    known = {spec.name: spec for spec in specs}
    problems = [_unknown(name, known) for name in values if name not in known]
    typed = defaults(specs)
    for name, spec in known.items():
        if name in values:
            value, found = convert(spec, values[name])
            if found is None:
                typed[name] = value
            else:
                problems.append(found)
    return typed, (*problems, *_points_missing(specs, typed, {one.where for one in problems}))


def _points_missing(specs: Sequence[ParamSpec], values: Mapping[str, Value], wrong: set[str]) -> Iterator[Problem]:
    """What is wrong with a person's own points where a run would take them: a network needs both classes."""
    for spec in specs:
        if not spec.plane or spec.name in wrong or not matters(spec, values):
            continue
        own = read_points(str(values[spec.name]))
        if len({kind for _, _, kind in own}) < 2:
            text = "Your own points are all of one class." if own else "There are no points of your own yet."
            yield Problem("params.points", text, "Set at least one point of each class.", spec.name)


def matters(spec: ParamSpec, values: Mapping[str, object]) -> bool:
    """Whether a hyperparameter changes anything with these values of the others."""
    condition = spec.shown_when
    if condition is None:
        return True
    value = values.get(condition.name)
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    return text in condition.values


def without_effect(specs: Sequence[ParamSpec], given: Iterable[str], values: Mapping[str, Value]) -> Iterator[Problem]:
    """The settings among those ``given`` that change nothing with the others of ``values``: a person who sets one
    expects something of it."""
    known = {spec.name: spec for spec in specs}
    for name in given:
        condition = known[name].shown_when if name in known else None
        other = known.get(condition.name) if condition is not None else None
        if condition is None or other is None or matters(known[name], {other.name: other.default, **values}):
            continue
        text = (
            f"{known[name].label} ({name}) has no effect here: it counts with {other.name} {either(condition.values)},"
            f" and {other.name} is {format_value(values.get(other.name, other.default))}."
        )
        yield Problem("params.idle", text, f"Leave it out, or change {other.name}.", name)


def convert(spec: ParamSpec, raw: object) -> tuple[Value, Problem | None]:
    """Converts and checks one value: ``(value, None)`` or ``(default, problem)``."""
    try:
        value = _typed(spec, raw)
        _check_range(spec, value)
    except ValueError as error:
        return spec.default, Problem("params.value", f"{spec.label} ({spec.name}): {error}", where=spec.name)
    return value, None


def live_value(specs: Sequence[ParamSpec], name: str, value: object) -> tuple[Value, Problem | None]:
    """A value for a hyperparameter among ``specs`` while the run trains, or why it cannot have it."""
    live = {spec.name: spec for spec in specs if spec.live}
    if name in live:
        return convert(live[name], value)
    text = f"{name!r} cannot be changed while the run trains."
    return None, Problem("live.unknown", text, f"Live values: {', '.join(live) or 'none'}.", name)


def format_value(value: Value) -> str:
    """A value as text that ``convert`` reads back unchanged; for fields, tables and ``--set``."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.12g}" if float(f"{value:.12g}") == value else str(value)
    return text.replace("e-0", "e-").replace("e+", "e")


def value_words(spec: ParamSpec, value: Value) -> str:
    """A hyperparameter as a person reads it: a choice by its label, numbers with thousands separated."""
    return spec.type.words(spec, value) or "none"


def _unknown(name: str, known: Mapping[str, ParamSpec]) -> Problem:
    hint = did_you_mean(name, known) or f"Known names: {', '.join(known)}."
    return Problem("params.unknown", f"There is no hyperparameter {name!r}.", hint, where=name)


def _typed(spec: ParamSpec, raw: object) -> Value:
    free = spec.type.free
    empty_is_one = free or any(choice.value == "" for choice in spec.choices)
    text = raw.strip() if isinstance(raw, str) and not free else raw
    if text is None or (text == "" and (spec.optional or not empty_is_one)) or (spec.optional and text == "none"):
        if spec.optional:
            return None
        raise ValueError("a value is needed")
    return spec.type.read(spec, text)


def _read_float(spec: ParamSpec, raw: object) -> Value:
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError(f"expected a number, got {raw!r}")
    try:
        if isinstance(raw, str) and not _PLAIN.fullmatch(raw):
            raise ValueError
        value = float(raw)
    except (ValueError, OverflowError):
        raise ValueError(f"expected a number such as {format_value(spec.default) or '0.1'}, got {raw!r}") from None
    if not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {raw!r}")
    return value


def _read_int(spec: ParamSpec, raw: object) -> Value:
    try:
        exact = _exact_int(raw)
        value = _read_float(spec, raw) if exact is None else exact
    except ValueError:
        raise ValueError(f"expected a whole number, got {raw!r}") from None
    if not isinstance(value, int | float) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(f"expected a whole number, got {raw!r}")
    if abs(value) > 2**53:
        limit = f"at most {spec.le:.0f}" if spec.le is not None else "from -2^53 to 2^53"
        raise ValueError(f"expected a whole number {limit}, got {raw!r}")
    return int(value)


# Commas group thousands (50,000) and nothing else: "1,5" is meant as one and a half and must not become 15.
_INTEGER = re.compile(r"[+-]?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)")
# Python's float() also reads 1_000 and the digits of every script, which other programs and people read otherwise.
_PLAIN = re.compile(r"[+\-.0-9A-Za-z]*")


def read_number(text: str) -> float:
    """The number that a person typed: a decimal point, thousands with commas or without (25,000). Raises ``ValueError``
    for anything else: "0,5" must become neither 5 nor 0."""
    if _INTEGER.fullmatch(text):
        return float(text.replace(",", ""))
    try:
        return float(text if _PLAIN.fullmatch(text) else "")
    except ValueError:
        raise ValueError(f"expected a number such as 0.5 or 25,000, got {text!r}") from None


def read_whole(text: str) -> int:
    """The whole number that a person typed, with commas between thousands or without. Raises ``ValueError``."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"expected a whole number, got {text!r}")
    return int(text.replace(",", ""))


def _exact_int(raw: object) -> int | None:
    """An integer that must not pass through a float; None for everything else."""
    if isinstance(raw, str) and _INTEGER.fullmatch(raw):
        return read_whole(raw)
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and abs(raw) < 2**64 else None


def _read_bool(_spec: ParamSpec, raw: object) -> Value:
    words: dict[object, bool] = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    value = raw if isinstance(raw, bool) else words.get(str(raw).lower())
    if value is None:
        raise ValueError(f"expected true or false, got {raw!r}")
    return value


def _read_choice(spec: ParamSpec, raw: object) -> Value:
    allowed = [choice.value for choice in spec.choices]
    if raw not in allowed:
        raise ValueError(f"expected one of {', '.join(filter(None, allowed))}; got {raw!r}")
    return str(raw)


def _read_text(spec: ParamSpec, raw: object) -> Value:
    if not isinstance(raw, str):
        raise ValueError(f"expected text, got {raw!r}")
    return points_text(read_points(raw)) if spec.plane else raw


MOST_POINTS = 500
"""The largest number of points in a text."""
PlanePoint = tuple[float, float, int]
"""x, y and the class, 0 or 1."""


def read_points(text: str) -> tuple[PlanePoint, ...]:
    """The points in a text such as "0.5,-0.2,1 -0.4,0.1,0". Raises ``ValueError`` that names the wrong one."""
    words = text.split()
    if len(words) > MOST_POINTS:
        raise ValueError(f"expected at most {MOST_POINTS} points, got {len(words):,}")
    return tuple(map(_read_point, words))


def _read_point(word: str) -> PlanePoint:
    try:
        x, y, kind = word.split(",")
        at = read_number(x), read_number(y)
    except ValueError:
        at, kind = (2.0, 2.0), ""
    if not all(abs(one) <= 1 for one in at) or kind not in ("0", "1"):
        raise ValueError(f"expected points as x,y,class with x and y from -1 to 1 and class 0 or 1, got {word[:40]!r}")
    return (*at, int(kind))


def points_text(points: Sequence[PlanePoint]) -> str:
    """The text of points, as ``read_points`` reads it."""
    return " ".join(f"{format_value(x)},{format_value(y)},{kind}" for x, y, kind in points)


def _thousands(_spec: ParamSpec, value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else format_value(value)


def _on_or_off(_spec: ParamSpec, value: Value) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else format_value(value)


def _label_of(spec: ParamSpec, value: Value) -> str:
    return next((choice.label for choice in spec.choices if choice.value == value), format_value(value))


def _two(spec: ParamSpec) -> tuple[Choice, ...]:
    return (Choice("true", spec.unit or "On"), Choice("false", "Off"))


class ParamType(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of one kind of hyperparameter; only its control is elsewhere, because nothing here knows Qt.

    ``read`` makes a typed value of one, or of its text, and raises ``ValueError``; ``words`` says it to a person.
    ``python`` is the type of a value, ``metavar`` what stands for it in the help of a command (empty: the option takes
    no value). ``choices`` are all values, if they can be listed. A ``number`` changes with the arrow keys; ``several``
    is an example of several values. ``free``: any text is a value, with its blanks, and so is an empty one.
    """

    read: Callable[[ParamSpec, object], Value]
    python: type
    metavar: str = ""
    words: Callable[[ParamSpec, Value], str] = lambda _spec, value: format_value(value)
    choices: Callable[[ParamSpec], tuple[Choice, ...]] = lambda _spec: ()
    number: bool = False
    several: str = ""
    free: bool = False


TYPES: Mapping[Kind, ParamType] = {
    "float": ParamType(read=_read_float, python=float, metavar="NUMBER", number=True, several="0.01, 0.1"),
    "int": ParamType(read=_read_int, python=int, metavar="N", words=_thousands, number=True, several="10, 20"),
    "bool": ParamType(read=_read_bool, python=bool, words=_on_or_off, choices=_two),
    "text": ParamType(read=_read_text, python=str, metavar="TEXT", several="one, two", free=True),
    "choice": ParamType(
        read=_read_choice, python=str, metavar="NAME", words=_label_of, choices=lambda spec: spec.choices
    ),
}
"""Each kind of hyperparameter. A new one is an entry here and its control in the window's ``EDITORS``."""


def kind_of(python: type, choices: Sequence[object] = ()) -> Kind:
    """The kind of a hyperparameter that is declared with this type and these choices. Raises ``TypeError``."""
    found = next((kind for kind, one in TYPES.items() if one.python is python), None)
    if found is None:
        raise TypeError(f"a hyperparameter cannot have the type {python.__name__}")
    return "choice" if choices else found


def _check_range(spec: ParamSpec, value: Value) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    fails = [
        (spec.gt is not None and not value > spec.gt, "greater than", spec.gt),
        (spec.ge is not None and not value >= spec.ge, "at least", spec.ge),
        (spec.lt is not None and not value < spec.lt, "less than", spec.lt),
        (spec.le is not None and not value <= spec.le, "at most", spec.le),
    ]
    for failed, words, limit in fails:
        if failed:
            raise ValueError(f"must be {words} {format_value(limit)}, got {format_value(value)}")
