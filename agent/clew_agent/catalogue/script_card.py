"""The card of a training script of any framework: a TOML header in its comments, read without running the file.

The header is a block as PEP 723 defines them for metadata in scripts, of the type ``clew``: lines that begin with ``#``
between ``# /// clew`` and ``# ///``. Guide and summary are the script's docstring.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from clew_agent.catalogue.exercise_files import ExerciseFile, parse_problem, read_source, source_hash
from clew_shared.base.foreign import from_toml
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PlotSpec, Preset, Requirement
from clew_shared.goal_settings import unknown_settings
from clew_shared.params import Choice, ParamSpec, Value, check, convert, kind_of
from clew_shared.spec import SINGLE

_BEGIN = re.compile(r"^# /// clew[ \t]*\r?$", re.MULTILINE)
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METRIC = re.compile(r"[A-Za-z_][\w.@-]*(/\w[\w.@-]*)*", re.ASCII)
"""As other loggers name metrics: ``train/loss``, ``val/mAP@50``. TensorBoard and MLflow take the parts for groups."""
_TOML_LINE = re.compile(r" ?\(at line (\d+), column \d+\)")
_TAKEN = ("seed", "folder")
"""Attributes that ``clew_log.start`` adds to the hyperparameters."""
_BARE = re.compile(r"[\w-]+", re.ASCII)
"""A key of TOML that needs no quotes."""
_SETS = re.compile(r"(test|validation|train|val)[_/]")
"""The prefixes of metrics that are measured on a set: they share the plot of the same quantity in training."""


class _Param(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: bool | int | float | str
    label: str = ""
    help: str = ""
    unit: str = ""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    choices: tuple[str, ...] = ()
    log: bool = False


class _Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    label: str = ""
    better: Literal["lower", "higher", "none"] = "none"
    format: Literal["number", "percent"] = "number"
    unit: str = ""
    every_step: bool = True


class _Goal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str
    metric: str
    op: Literal[">=", "<=", "near"]
    value: float
    tolerance: float = 0.0
    which: Literal["last", "best"] = "last"
    requires: tuple[Requirement, ...] = ()


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    metrics: dict[str, _Metric]
    title: str = ""
    subtitle: str = ""
    chapter: str = ""
    minutes: int = 0
    order: int = 100
    python: str = ""
    params: dict[str, _Param] = {}
    presets: dict[str, dict[str, Value]] = {}
    goals: tuple[_Goal, ...] = ()


class Script(msgspec.Struct, frozen=True):
    """A script that can be run: its file, its card, and the interpreter that it asks for (empty: the agent's own)."""

    path: Path
    card: ExerciseCard
    python: str = ""


def is_script(file: ExerciseFile) -> bool:
    """Whether a file of someone's own has a header; what cannot be read has none."""
    try:
        return not file.module and _BEGIN.search(read_source(file)) is not None
    except ProblemError:
        return False


def read_script(file: ExerciseFile) -> Script | None:
    """The script in ``file``; None when it has no header. Raises ``ProblemError`` with the line of what is wrong."""
    if not is_script(file):
        return None
    source, broken = read_source(file), parse_problem(file)
    if broken is not None:
        raise ProblemError(broken)
    text, first = _header_text(file, source)
    header = _parse(file, text, first)
    card = _card(file, source, header)
    for words, key in _mistakes(header, card):
        raise _wrong(file, _line_of(text, key, first), words)
    return Script(file.path, card, header.python)


def _header_text(file: ExerciseFile, source: str) -> tuple[str, int]:
    """The TOML in the comments, and the number of its first line."""
    lines = source.splitlines()
    start = next(i for i, line in enumerate(lines) if _BEGIN.fullmatch(line)) + 1
    found: list[str] = []
    for number, line in enumerate(lines[start:], start + 1):
        if line.rstrip() == "# ///":
            return "\n".join(found), start + 1
        if line != "#" and not line.startswith("# "):
            raise _wrong(file, number, 'the header ends with a line "# ///", and each of its lines begins with "# "')
        found.append(line[2:])
    raise _wrong(file, start, 'the header has no end: a line "# ///"')


def _parse(file: ExerciseFile, text: str, first: int) -> _Header:
    try:
        return msgspec.convert(from_toml(text), _Header)
    except msgspec.ValidationError as error:
        words, _, place = str(error).partition(" - at ")
        key = place.strip("`$.").rpartition(".")[2] or _quoted(words)
        raise _wrong(file, _line_of(text, key, first), f"the header: {words}") from None
    except ValueError as error:
        at = _TOML_LINE.search(str(error))
        line = first + int(at[1]) - 1 if at else first
        quotes = '; a name with other characters than letters, digits, _ and - needs quotes, as in [metrics."a/b"]'
        words = f"{_TOML_LINE.sub('', str(error))}{quotes if 'table declaration' in str(error) else ''}"
        raise _wrong(file, line, f"the header is not valid TOML: {words}") from None


def _quoted(words: str) -> str:
    """The name that a complaint is about."""
    found = re.search(r"`(\w+)`", words)
    return found[1] if found else ""


def _line_of(text: str, key: str, first: int) -> int:
    """The line of a file in which ``key`` is set, or its table begins; the header's first line when there is none."""
    pattern = re.compile(rf'\s*(\[+([\w.]*\.)?"?)?{re.escape(key)}(?!\w)')
    found = (number for number, line in enumerate(text.splitlines(), first) if key and pattern.match(line))
    return next(found, first)


def _wrong(file: ExerciseFile, line: int, words: str) -> ProblemError:
    text = f"{file.path.name}, line {line}: {words.rstrip('.')}."
    return ProblemError(Problem("exercise.broken", text, "Fix the file.", f"{file.shown}:{line}"))


def _mistakes(header: _Header, card: ExerciseCard) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with a header that can be read: a sentence, and the key that it is about."""
    if not _ID.fullmatch(header.id):
        yield f'the id {header.id!r} needs small letters, digits and single hyphens, such as "my-script"', "id"
    names = [name for name in header.params if not _NAME.fullmatch(name)]
    yield from ((f"{name!r} cannot be the name of a Python variable", name) for name in names)
    rule = "may have letters, digits and . _ - / @, and each part between / begins with a letter, a digit or _"
    wrong = [name for name in header.metrics if not _METRIC.fullmatch(name)]
    yield from ((f"the metric {name!r} is named in another way than Clew keeps: a name {rule}", name) for name in wrong)
    taken = [name for name in _TAKEN if name in header.params]
    yield from ((f"no hyperparameter can be called {name!r}: clew_log.start adds that", name) for name in taken)
    if not header.metrics:
        yield "the header names no metric: add [metrics.loss]", "metrics"
    yield from _bad_values(card)
    unknown = [goal.metric for goal in header.goals if goal.metric not in header.metrics]
    yield from ((f"a goal is about the metric {name!r}, which the header does not name", name) for name in unknown)
    for goal, name in unknown_settings(card):
        yield f"the goal {goal.text!r} asks for the setting {name!r}, which the header does not name", "requires"


def _bad_values(card: ExerciseCard) -> Iterator[tuple[str, str]]:
    for spec in card.params:
        wrong = convert(spec, spec.default)[1]
        if wrong is not None:
            yield f"the default of {wrong.text}", spec.name
    for preset in card.presets:
        yield from (
            (f"the preset {preset.name!r}: {one.text}", preset.name) for one in check(card.params, preset.values)[1]
        )


def _card(file: ExerciseFile, source: str, header: _Header) -> ExerciseCard:
    words = ast.get_docstring(ast.parse(source)) or ""
    summary, _, guide = words.partition("\n\n")
    return ExerciseCard(
        id=header.id,
        title=header.title or _label(header.id),
        subtitle=header.subtitle,
        chapter=header.chapter,
        kind="script",
        minutes=header.minutes,
        summary=" ".join(summary.split()),
        guide=guide,
        params=tuple(_param(name, one) for name, one in header.params.items()),
        presets=tuple(Preset(name=name, title=_label(name), values=one) for name, one in header.presets.items()),
        metrics=tuple(_metric(name, one) for name, one in header.metrics.items()),
        plots=tuple(_plots(header.metrics)),
        goals=tuple(
            Goal(id=f"goal-{number}", **msgspec.structs.asdict(one)) for number, one in enumerate(header.goals, 1)
        ),
        strategies=(SINGLE,),
        order=header.order,
        source=source,
        source_hash=source_hash(source),
        file=file.shown,
    )


def _param(name: str, one: _Param) -> ParamSpec:
    fields = msgspec.structs.asdict(one)
    fields |= {"label": one.label or _label(name), "choices": tuple(Choice(word, _label(word)) for word in one.choices)}
    return ParamSpec(name=name, kind=kind_of(type(one.default), one.choices), **fields)


def _metric(name: str, one: _Metric) -> MetricSpec:
    label = one.label or _label(name)
    return MetricSpec(
        name=name,
        label=label,
        per_step=one.every_step,
        dtype="float64",
        better=one.better,
        format=one.format,
        unit=one.unit,
    )


def _plots(metrics: dict[str, _Metric]) -> Iterator[PlotSpec]:
    """Yields a plot for each quantity; the first metric of it is the plot's own."""
    groups: dict[str, list[str]] = {}
    for name in metrics:
        groups.setdefault(_SETS.sub("", name, count=1), []).append(name)
    for quantity, names in groups.items():
        title = metrics[names[0]].label if len(names) == 1 else ""
        yield PlotSpec(
            id=quantity, title=title or _label(quantity), metrics=tuple(names), format=metrics[names[0]].format
        )


def table_of(metric: str) -> str:
    """The line of a header that declares a metric."""
    return f"[metrics.{metric}]" if _BARE.fullmatch(metric) else f"[metrics.{json.dumps(metric)}]"


def _label(name: str) -> str:
    words = name.replace("-", " ").replace("_", " ")
    return words[:1].upper() + words[1:]
