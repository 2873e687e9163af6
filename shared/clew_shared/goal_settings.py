"""Checks whether a run had the settings that a goal asks for, and puts into words what a goal asks for.

No NumPy here: the agent checks the cards of other people's files with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from clew_shared.base.number_words import either
from clew_shared.cards import ExerciseCard, Goal, Requirement
from clew_shared.data_sets import data_set_of
from clew_shared.params import ParamSpec, Value, defaults, format_value, value_words
from clew_shared.run_settings import inside, label_of, settings_of
from clew_shared.spec import SINGLE, SPREAD, RunSpec

_FIELDS = (*SPREAD, "precision")
_HEADING = re.compile(r"#{1,6} +questions?\s*", re.IGNORECASE)
_ITEM = re.compile(r"(?:[-*+]|\d+[.)]) +(.*)")


def is_for(goal: Goal, data: str) -> bool:
    """Whether runs with ``data`` (a data set or a file) are judged by this goal."""
    return goal.data in ("", data_set_of(data))


def asked_settings(spec: RunSpec, card: ExerciseCard | None) -> dict[str, Value]:
    """Returns the settings of a run, as ``settings_of`` has them, with the defaults of those that are not there."""
    chosen = next((one for one in card.strategies if one.id == spec.strategy), None) if card is not None else None
    usual = (*(chosen.params if chosen is not None else ()), *(card.params if card is not None else ()))
    return defaults(usual) | settings_of(spec, card)


def unmet(
    goal: Goal, runs: Sequence[Mapping[str, Value]], card: ExerciseCard | None, others: Mapping[str, Sequence[float]]
) -> str:
    """Says in a few words why a run does not have the settings that a goal asks for; empty when it has them.

    ``runs`` are the settings of each attempt that counts, ``others`` the values that hyperparameters had
    beside those. Without ``runs`` nothing is known, so nothing is met.
    """
    if goal.requires and not runs:
        return "it is not known how the run was set"
    for one in goal.requires:
        for settings in runs:
            if one.name not in settings:
                return f"the run has no setting {_label(one.name, card)}"
            wrong = [value for value in (settings[one.name], *others.get(one.name, ())) if not _meets(one, value)]
            if wrong:
                return f"{_label(one.name, card)} is {_value(one.name, wrong[0], card)}"
    return ""


def idle_seeds(specs: Sequence[RunSpec], card: ExerciseCard) -> str:
    """A sentence where runs that differ in nothing but their seed will be identical; empty where there are none."""
    seeds: dict[str, set[int]] = {}
    for spec in specs:
        if card.seedless and not _unmet(card.seedless, asked_settings(spec, card)):
            seeds.setdefault(str(msgspec.structs.replace(spec, run="", name="", seed=0)), set()).add(spec.seed)
    if all(len(several) < 2 for several in seeds.values()):
        return ""
    settings = ", ".join(f"{_label(one.name, card).capitalize()}: {_allowed(one, card)}" for one in card.seedless)
    return f"The seed changes nothing here ({settings}): runs that differ only in their seed are identical."


def _unmet(requires: Sequence[Requirement], settings: Mapping[str, Value]) -> bool:
    return any(one.name not in settings or not _meets(one, settings[one.name]) for one in requires)


def _meets(one: Requirement, value: Value) -> bool:
    if _among(value, one.other_than):
        return False
    bounded = one.least is not None or one.most is not None
    if _among(value, one.values) or not (one.values or bounded):
        return True
    if isinstance(value, bool) or not isinstance(value, int | float) or not bounded:
        return False
    return (one.least is None or value >= one.least) and (one.most is None or value <= one.most)


def _among(value: Value, values: Sequence[Value]) -> bool:
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in values)


def requires_words(goal: Goal, card: ExerciseCard | None) -> str:
    """What a goal asks for besides its value: "with code 2; hidden units at least 512; an answer to “Why?”"; empty for
    nothing."""
    asked = [f"{_label(one.name, card)} {_allowed(one, card)}" for one in goal.requires]
    asked += [f"an answer to “{goal.question}”"] if goal.question else []
    asked += ["no other programs on the processor"] if goal.quiet else []
    return f"with {'; '.join(asked)}" if asked else ""


def goal_detail(goal: Goal, card: ExerciseCard | None) -> str:
    """Returns the text that a guide shows below a goal: its detail, and what it asks for."""
    words = requires_words(goal, card)
    return " ".join(filter(None, (goal.detail, f"Counts only {words}." if words else "")))


def _allowed(one: Requirement, card: ExerciseCard | None) -> str:
    parts = [_value(one.name, value, card) for value in one.values]
    least, most = (_value(one.name, _plain(bound), card) for bound in (one.least, one.most))
    if one.least is not None and one.most is not None:
        parts.append(f"from {least} to {most}")
    elif one.least is not None or one.most is not None:
        parts.append(f"at least {least}" if one.least is not None else f"at most {most}")
    others = either([_value(one.name, value, card) for value in one.other_than])
    return ", ".join(filter(None, (either(parts), f"not {others}" if others else "")))


def _plain(bound: float | None) -> Value:
    return int(bound) if bound is not None and float(bound).is_integer() else bound


def _label(name: str, card: ExerciseCard | None) -> str:
    """A setting's name inside a sentence: ``batch size``, ``KL weight``."""
    spec = _spec(name, card)
    return inside(spec.label if spec is not None else label_of(name, card))


def _value(name: str, value: Value, card: ExerciseCard | None) -> str:
    if value == "":
        return "empty"
    if name == "strategy":
        strategies = card.strategies if card is not None else ()
        return next((one.title for one in (*strategies, SINGLE) if one.id == value), str(value))
    spec = _spec(name, card)
    return value_words(spec, value) if spec is not None else format_value(value) or "none"


def _spec(name: str, card: ExerciseCard | None) -> ParamSpec | None:
    if card is None:
        return None
    known = (*card.params, *(param for one in card.strategies for param in one.params))
    return next((param for param in known if param.name == name), None)


def questions(guide: str) -> tuple[str, ...]:
    """The items of the lists under the headings *Questions* of a guide in Markdown."""
    found: list[str] = []
    inside = open_item = False
    for line in guide.replace("\r\n", "\n").split("\n"):
        if line.startswith("#"):
            inside, open_item = _HEADING.fullmatch(line) is not None, False
        elif inside and (item := _ITEM.fullmatch(line)):
            found.append(item[1].strip())
            open_item = True
        elif open_item and line.startswith(" ") and line.strip():
            found[-1] += f" {line.strip()}"
        else:
            open_item = False
    return tuple(found)


def with_questions(guide: str, more: Sequence[str]) -> str:
    """A guide with further questions after its own; those that it asks already are not repeated."""
    known = questions(guide)
    added = "".join(f"\n- {' '.join(text.split())}" for text in more if " ".join(text.split()) not in known)
    headings = re.findall(r"^#{1,6} .*$", guide, re.MULTILINE)
    head = "" if headings and _HEADING.fullmatch(headings[-1]) else "\n\n## Questions\n"
    return f"{guide.rstrip()}{head}{added}\n" if added else guide


def has_answer(goal: Goal, answers: Mapping[str, str]) -> bool:
    """Whether the question that a goal asks for has an answer, or it asks for none."""
    return not goal.question or bool(answers.get(goal.question, "").strip())


def unknown_settings(card: ExerciseCard) -> Iterator[tuple[Goal, str]]:
    """The goals of a card that ask for a setting which no run of the exercise has, with its name."""
    known = {*_FIELDS, *(param.name for param in card.params)}
    known |= {param.name for one in card.strategies for param in one.params}
    yield from ((goal, one.name) for goal in card.goals for one in goal.requires if one.name not in known)
