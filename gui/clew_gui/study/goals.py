"""Whether a run reached a goal of its exercise, judged from its history alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from clew_gui.study.machine import others_words
from clew_gui.study.rate_range import rate_test
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard, Goal
from clew_shared.catalogue import known_sets
from clew_shared.goal_settings import asked_settings, has_answer, is_for, requires_words, unmet
from clew_shared.journal.history import Column, History
from clew_shared.params import STEPS, Value
from clew_shared.reading import spec_of
from clew_shared.spec import RunSpec, from_toml


class GoalResult(NamedTuple):
    """The verdict, the value that counted (None: there is none yet) and a sentence with both; ``beyond``: not reached,
    because the value is better than the tolerance allows; ``unmet``: the value suffices, but something else that the
    goal asks for is missing, and what."""

    reached: bool
    value: float | None
    text: str
    beyond: bool = False
    unmet: str = ""


def needs_words(goal: Goal) -> str:
    """Says which data a goal is for, for people who use other data: "needs MNIST"."""
    known = known_sets().get(goal.data)
    return f"needs {known.in_a_sentence if known else goal.data}"


_LOSS = "loss"
"""The metric whose end as a finite number is the end of the training: of what comes after it nothing counts."""


def check_goal(
    goal: Goal,
    history: History,
    card: ExerciseCard | None = None,
    spec: RunSpec | None = None,
    answers: Mapping[str, str] | None = None,
) -> GoalResult:
    """Judge ``goal`` on what ``history`` holds now; a running run may still reach it, or lose it again.

    ``card`` is the exercise's: its words, and the values of what a spec leaves out. ``spec`` is how the run was set,
    where its journal does not hold that. ``answers`` are those to the guide's questions; None where nobody knows them,
    and then the goal is judged by the rest. On another data set than the goal's nothing is judged, and a value does not
    count where anything else is missing that the goal asks for. What a run measured after its loss became NaN or
    infinite for good reaches no goal, whatever the value. Nor does a replay, nor a learning-rate range test.
    """
    data = data_asked(spec or spec_of(history), card)
    if data and not is_for(goal, data):
        return GoalResult(False, None, needs_words(goal))
    known = [history.metrics[goal.metric]] if goal.metric in history.metrics else card.metrics if card else ()
    metric = next((one for one in known if one.name == goal.metric), None)
    label, percent = (metric.label, metric.format == "percent") if metric else (goal.metric, False)
    wanted = ", ".join(filter(None, (_wanted(goal, percent), requires_words(goal, card))))
    column = history.column(goal.metric)
    end = diverged_for_good(history)
    value = _counting(goal, column if end is None or goal.which != "best" else column.before(end))
    if value is None:
        where = f" at step {goal.step}" if goal.which == "at" else ""
        return GoalResult(False, None, f"{label}: no value{where}; the goal is {wanted}")
    late = end is not None and goal.which != "best" and _step(goal, column) >= end
    unjudged = "a replay" if history.fold.replay_of else "a range test" if rate_test(history) else ""
    suffices = _reaches(goal, value) and not late and not unjudged
    other = _missing(goal, history, card, spec, answers) if suffices else ""
    reached = suffices and not other
    verdict = "reached" if reached else f"not reached, because {other}" if other else "not reached"
    beyond = not suffices and goal.op == "near" and metric is not None and _beats(goal, value, metric.better)
    if beyond:
        verdict += ", because it is better than the tolerance allows"
    if late:
        verdict += f", because the run diverged at step {end:,}"
    if unjudged:
        verdict, beyond = f"not judged, because this is {unjudged}", False
    label += ", best value" if goal.which == "best" else ""
    text = f"{label}: {_number(value, percent)}; the goal is {wanted}: {verdict}"
    return GoalResult(reached, value, text, beyond, other)


def _missing(
    goal: Goal, history: History, card: ExerciseCard | None, spec: RunSpec | None, answers: Mapping[str, str] | None
) -> str:
    """Says in a few words what else the goal asks for and is not there; empty where nothing is missing."""
    found = unmet(goal, _settings(history, card, spec), card, _changes(history, card))
    found = found or (others_words(history) if goal.quiet else "")
    return found or ("" if answers is None or has_answer(goal, answers) else "the question has no answer yet")


def data_asked(spec: RunSpec | None, card: ExerciseCard | None) -> str:
    """The data set or file that a run used; empty when that is not known or none was needed."""
    usual = card.datasets[0] if card is not None and card.datasets else ""
    return spec.data or usual if spec is not None else ""


def _settings(history: History, card: ExerciseCard | None, spec: RunSpec | None) -> list[dict[str, Value]]:
    """Returns the settings of each attempt that counts, as the journals say; those of ``spec`` where a journal has
    none."""
    found = [_read(text) or spec for text in history.specs or ("",)]
    return [asked_settings(one, card) for one in found if one is not None] if None not in found else []


def _read(text: str) -> RunSpec | None:
    try:
        return from_toml(text) if text else None
    except ProblemError:
        return None


def _changes(history: History, card: ExerciseCard | None) -> dict[str, list[float]]:
    """Values that a run had beside those of its spec: what was changed while it trained, and the steps that it did,
    which are fewer where it was stopped. In a measurement steps are something else."""
    changes: dict[str, list[float]] = {}
    for one in history.live:
        changes.setdefault(one.name, []).append(one.value)
    if card is not None and card.kind == "training":
        changes[STEPS] = [history.fold.step]
    return changes


def shortfall(goal: Goal, result: GoalResult) -> float | None:
    """Returns how far from the goal a run stayed: 0 where it reached it, None where nothing was judged."""
    if result.reached:
        return 0.0
    if result.value is None or not math.isfinite(result.value):
        return None
    return abs(result.value - goal.value)


def diverged_for_good(history: History) -> int | None:
    """The step from which on no loss was a finite number any more; None while the latest one is."""
    column = history.column(_LOSS)
    if not len(column.values) or math.isfinite(column.values[-1]):
        return None
    finite = np.flatnonzero(np.isfinite(column.values))
    return int(column.steps[finite[-1] + 1 if len(finite) else 0])


def _step(goal: Goal, column: Column) -> int:
    """The step of the value that counts."""
    return goal.step if goal.which == "at" else int(column.steps[-1])


def _counting(goal: Goal, column: Column) -> float | None:
    """The value that the goal looks at; "best" is the one that suits the goal best."""
    if not len(column.values):
        return None
    if goal.which == "last":
        return float(column.values[-1])
    if goal.which == "at":
        index = int(np.searchsorted(column.steps, goal.step))
        there = index < len(column.steps) and int(column.steps[index]) == goal.step
        return float(column.values[index]) if there else None
    finite = column.values[np.isfinite(column.values)].astype(np.float64)
    if not len(finite):
        return None
    if goal.op == "near":
        return float(finite[int(np.argmin(np.abs(finite - goal.value)))])
    return float(finite.max() if goal.op == ">=" else finite.min())


def _beats(goal: Goal, value: float, better: str) -> bool:
    """Whether a value is beyond a goal that asks for one near it, on the good side."""
    return math.isfinite(value) and (
        value > goal.value if better == "higher" else value < goal.value if better == "lower" else False
    )


def _reaches(goal: Goal, value: float) -> bool:
    if not math.isfinite(value):
        return False
    if goal.op == "near":
        # Decimal tolerances are rarely exact in binary: 0.9 + 0.0002 must still count as within 0.0002 of 0.9.
        return abs(value - goal.value) <= goal.tolerance * (1 + 1e-9) + 1e-15
    return value >= goal.value if goal.op == ">=" else value <= goal.value


def _wanted(goal: Goal, percent: bool) -> str:
    if goal.op == "near":
        return f"{_number(goal.value, percent)} ± {_number(goal.tolerance, percent)}"
    return f"{'at least' if goal.op == '>=' else 'at most'} {_number(goal.value, percent)}"


def _number(value: float, percent: bool) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    return f"{100 * value:.6g} %" if percent else f"{value:.6g}"
