"""Runs side by side: what each was set to, in what two differ, which repeat each other, and the filter over them.

No NumPy here, so that the window lists runs before it loads any. What needs curves is in ``comparison``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from clew_shared.base.problem import Problem, ProblemError, did_you_mean, problem
from clew_shared.cards import ExerciseCard
from clew_shared.params import (
    HEADLINE,
    LEARNING_RATE,
    OPTIMIZER,
    ParamSpec,
    Value,
    convert,
    defaults,
    format_value,
    matters,
    read_number,
    value_words,
)
from clew_shared.spec import PRECISIONS, SINGLE, RunSpec

SEED = "seed"
_FIELDS = {
    "seed": "Seed",
    "data": "Data",
    "preset": "Preset",
    "strategy": "Strategy",
    "devices": "Devices",
    "nodes": "Nodes",
    "precision": "Precision",
}
"""Settings of a run besides its hyperparameters, and their names for people."""
NOT_SET = "none"
"""The word by which a file says that a hyperparameter has no value."""
MAX_NOTE = 2000
MAX_TAGS = 12
MAX_TAG = 30


class RunNote(msgspec.Struct, frozen=True):
    """A person's words about a run: a ``name`` instead of the one that it was started with, a note, tags."""

    name: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()


NO_NOTE = RunNote()


def read_tags(text: str) -> tuple[str, ...]:
    """The tags in ``text``, which are separated by commas or spaces, each once. Raises ``ProblemError``."""
    tags = tuple(dict.fromkeys(tag.lstrip("#") for tag in re.split(r"[,\s]+", text.strip()) if tag.lstrip("#")))
    if len(tags) > MAX_TAGS:
        raise problem("note.tags", f"A run may have {MAX_TAGS} tags, these are {len(tags)}.", "Leave some out.", "tags")
    long = next((tag for tag in tags if len(tag) > MAX_TAG), None)
    if long is not None:
        raise problem("note.tags", f"The tag {long!r} is longer than {MAX_TAG} characters.", "Shorten it.", "tags")
    return tags


# --- Settings ---------------------------------------------------------------------------------------------------------


def settings_of(spec: RunSpec, card: ExerciseCard | None = None) -> dict[str, Value]:
    """Everything that a run was set to, by name: hyperparameters with the card's defaults, the strategy's own settings,
    seed, data, preset, nodes and devices. A hyperparameter that changes nothing with the others is left out. The name
    of a data file is its path's last part, the rate of a range test its range in words. What is not set is None, also
    where a file wrote "none" for it."""
    values: dict[str, Value] = defaults(card.params) if card is not None else {}
    usual = card.datasets[0] if card is not None and card.datasets else ""
    data = (spec.data or usual).replace("\\", "/").rsplit("/", 1)[-1]
    known = {name: getattr(spec, name) for name in _FIELDS} | {"data": data}
    if spec.rate_range is not None:
        known[LEARNING_RATE] = spec.rate_range.words
    specs = {param.name: param for param in card.params} if card is not None else {}
    given = {name: _plain(value, specs.get(name)) for name, value in (spec.params | spec.options).items()}
    found = values | given | known
    return {name: value for name, value in found.items() if name not in specs or matters(specs[name], found)}


def _plain(value: Value, spec: ParamSpec | None) -> Value:
    """A value of its own kind: TOML has no null, and a command line has only text."""
    if not isinstance(value, str):
        return value
    if spec is None or spec.type.python is str:
        return None if value == NOT_SET and (spec is None or spec.optional) else value
    typed, wrong = convert(spec, value)
    return typed if wrong is None else value


def label_of(name: str, card: ExerciseCard | None = None) -> str:
    """A setting's name for people."""
    params = {param.name: param.label for param in card.params} if card is not None else {}
    return params.get(name) or _FIELDS.get(name) or name.replace("_", " ").capitalize()


class Difference(NamedTuple):
    """A setting, and what each of several runs has for it; None also where a run has no such setting."""

    name: str
    values: tuple[Value, ...]


def setting_words(name: str, value: Value, card: ExerciseCard | None = None) -> str:
    """A setting's value as the form says it; empty if it is not set."""
    spec = next((param for param in card.params if param.name == name), None) if card is not None else None
    if value is None or value == "":
        return ""
    if spec is not None:
        return value_words(spec, value)
    titles = {one.id: one.title for one in card.strategies} if card is not None else {}
    known = {"strategy": {SINGLE.id: SINGLE.title} | titles, "precision": PRECISIONS}.get(name, {})
    return known.get(str(value)) or format_value(value)


def inside(label: str) -> str:
    """A label as it reads inside a sentence: ``Test accuracy`` becomes ``test accuracy``, ``W`` and ``KL`` stay."""
    return label[:1].lower() + label[1:] if label[1:2].islower() else label


def differences(runs: Sequence[Mapping[str, Value]]) -> tuple[Difference, ...]:
    """The settings that are not the same in all ``runs``, in the order of the first run's settings. The preset is no
    setting of its own: what it set is compared."""
    names = dict.fromkeys(name for values in runs for name in values if name != "preset")
    rows = (Difference(name, tuple(values.get(name) for values in runs)) for name in names)
    return tuple(row for row in rows if any(not _same(row.values[0], value) for value in row.values[1:]))


def _same(one: Value, other: Value) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def differing(runs: Mapping[str, Mapping[str, Value]], limit: int = 0) -> dict[str, str]:
    """Returns for each run, in short, how it differs from the other ``runs``: ``adam 0.003, batch size 32``. A lone run
    gets what its table always shows, its optimizer and its rate; ``limit`` bounds the number of settings (0: all)."""
    names = [one.name for one in differences(list(runs.values()))] if len(runs) > 1 else list(HEADLINE)
    chosen = sorted(names, key=lambda name: (name not in HEADLINE, name == SEED))[: limit or None]
    return {run: short_words(values, chosen) for run, values in runs.items()}


def short_words(values: Mapping[str, Value], names: Iterable[str]) -> str:
    """``adam 0.003, batch size 32``, ``rate 0.003`` without an optimizer; what a run does not have is left out."""
    there = [name for name in names if values.get(name) is not None]
    plain = " ".join(format_value(values[name]) for name in there if name in HEADLINE)
    plain = f"rate {plain}" if plain and not there.count(OPTIMIZER) else plain
    rest = [f"{name.replace('_', ' ')} {format_value(values[name])}" for name in there if name not in HEADLINE]
    return ", ".join(filter(None, [plain, *rest]))


def repeats_of(runs: Mapping[str, Mapping[str, Value]]) -> list[tuple[str, ...]]:
    """The runs (ids with their settings) in groups that differ in nothing but the seed, in the order given."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run, values in runs.items():
        key = tuple((name, repr(values[name])) for name in sorted(values) if name not in (SEED, "preset"))
        groups.setdefault(key, []).append(run)
    return [tuple(group) for group in groups.values()]


# --- Filter -----------------------------------------------------------------------------------------------------------
# "adam learning_rate > 0.01 tag = good -failed": all conditions must hold; a word alone is looked for in the texts.


Operator = Literal["=", "!=", "<", "<=", ">", ">="]


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the filter sees it: ``words`` is all its text, ``values`` are settings and results by name."""

    words: str
    values: Mapping[str, Value]
    tags: tuple[str, ...] = ()


class FilterTerm(NamedTuple):
    """A part of a filter. Without a ``key`` the text is searched for in all words of a run."""

    key: str
    operator: Operator
    value: str
    exclude: bool = False


class RunFilter(NamedTuple):
    """Terms that must all hold; a filter without terms keeps every run."""

    terms: tuple[FilterTerm, ...] = ()

    def keeps(self, run: Facts) -> bool:
        """Whether the run is to be listed."""
        return all(_holds(one, run) != one.exclude for one in self.terms)


MAX_FILTER = 1000
_COMMAS = re.compile(r"[-+]?[0-9]+(,[0-9]+)+( ?%)?")
_PART = re.compile(
    r"""(?P<not>-)?
    (?:(?P<key>[^\W\d][\w./@-]*)\s*(?P<op><=|>=|!=|==?|<|>|:)\s*|(?P<hash>\#))?
    (?P<value>"[^"]*"|'[^']*'|[^\s,]+(?:(?<=[0-9]),(?=[0-9])[^\s,]+)*(?:\s%)?)""",
    re.VERBOSE,
)
_ALONE = re.compile(r"[^\W\d][\w./@-]*\s*(<=|>=|!=|==?|<|>|:)\s*$")


def parse_filter(text: str, known: Collection[str]) -> RunFilter:
    """The filter in ``text``. Raises ``ProblemError`` for a name that is not ``known`` (settings and results; those of
    ``_ALWAYS`` are) and where a value is missing or no number."""
    if len(text) > MAX_FILTER:
        raise _wrong(f"A filter may have {MAX_FILTER:,} characters, this one has {len(text):,}.", "Shorten it.")
    if _ALONE.search(text):
        raise _wrong(f"{text.strip()!r} has no value.", "For example: learning_rate > 0.01")
    found = [_term(part, known) for part in _PART.finditer(text) if part["value"].lower() != "and" or part["op"]]
    return RunFilter(tuple(found))


_OPERATORS: Mapping[str, Operator] = {"!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_ALWAYS = ("tag", "tags", "name", "note", "state", "number", "study", "exercise")


def _term(part: re.Match[str], known: Collection[str]) -> FilterTerm:
    value, exclude = _unquoted(part["value"]), part["not"] is not None
    if part["hash"]:
        return FilterTerm("tag", "=", value, exclude)
    if not part["key"]:
        return FilterTerm("", "=", value, exclude)
    key, operator = checked_name(part["key"], known), _OPERATORS.get(part["op"], "=")
    unclear = _COMMAS.fullmatch(part["value"]) is not None  # a quoted one is a text
    if (operator not in ("=", "!=") or unclear) and _number(value) is None:
        raise _wrong(f"{key} {operator} needs a number, got {value!r}.", f"For example: {key} {operator} 0.01")
    return FilterTerm("tag" if key == "tags" else key, operator, value, exclude)


def checked_name(name: str, known: Collection[str]) -> str:
    """The name of a setting or result. Raises ``ProblemError`` if no run has a value of that name."""
    name = name if name in known else name.lower()  # as the title of a column is written
    if name not in known and name not in _ALWAYS:
        names = sorted({*known, "tag", "name", "note", "state"})
        raise _wrong(f"No run has a value named {name!r}.", did_you_mean(name, names) or f"Known: {', '.join(names)}.")
    return name


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if quoted else text


def _wrong(text: str, hint: str) -> ProblemError:
    return problem("runs.filter", text, hint, "filter")


def _number(text: str) -> float | None:
    """``0.01``, ``25,000``, ``91 %``."""
    try:
        return read_number(text[:-1].rstrip()) / 100 if text.endswith("%") else read_number(text)
    except ValueError:
        return None


def _holds(term: FilterTerm, run: Facts) -> bool:
    if not term.key:
        return term.value.lower() in run.words.lower()
    if term.key == "tag":
        return (term.value.lower() in [tag.lower() for tag in run.tags]) == (term.operator == "=")
    if term.key not in run.values:
        return term.operator == "!="
    return _compares(run.values[term.key], term.operator, term.value)


def _compares(have: Value, operator: Operator, wanted: str) -> bool:
    number = _number(wanted)
    if isinstance(have, int | float) and not isinstance(have, bool) and number is not None:
        return _numbers(float(have), operator, number)
    if operator not in ("=", "!="):
        return False
    same = (format_value(have) or "none").lower() == (wanted.lower() or "none")
    return same == (operator == "=")


def _numbers(have: float, operator: Operator, wanted: float) -> bool:
    if math.isnan(have):
        return operator == "!="
    close = math.isclose(have, wanted, rel_tol=1e-9)
    return {
        "=": close,
        "!=": not close,
        "<": have < wanted and not close,
        "<=": have <= wanted or close,
        ">": have > wanted and not close,
        ">=": have >= wanted or close,
    }[operator]


def names_in(runs: Iterable[Facts]) -> set[str]:
    """Everything that a filter over these runs may name."""
    return {name for run in runs for name in run.values}


def note_problems(note: RunNote, most: int) -> list[Problem]:
    """Says which parts of a note are too long; ``most``: characters of a name."""
    found = []
    if len(note.name) > most:
        text = f"A run's name may have {most} characters, this one has {len(note.name)}."
        found.append(Problem("note.name", text, "Shorten it.", "name"))
    if len(note.note) > MAX_NOTE:
        text = f"A note may have {MAX_NOTE:,} characters, this one has {len(note.note):,}."
        found.append(Problem("note.note", text, "Shorten it.", "note"))
    return found
