"""Whether a run reached a goal of its exercise, judged from its history alone."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from clew_shared.cards import Goal
from clew_shared.history import Column, History


class GoalResult(NamedTuple):
    """The verdict, the value that counted (None: there is none yet) and a sentence with both."""

    reached: bool
    value: float | None
    text: str


def check_goal(goal: Goal, history: History) -> GoalResult:
    """Judge ``goal`` on what ``history`` holds now; a running run may still reach it, or lose it again."""
    column = history.column(goal.metric)
    spec = history.metrics.get(goal.metric)
    label, percent = (spec.label, spec.format == "percent") if spec else (goal.metric, False)
    wanted = _wanted(goal, percent)
    value = _counting(goal, column)
    if value is None:
        where = f" at step {goal.step}" if goal.which == "at" else ""
        return GoalResult(False, None, f"{label}: no value{where} yet; the goal is {wanted}")
    reached = _reaches(goal, value)
    verdict = "reached" if reached else "not reached"
    return GoalResult(reached, value, f"{label}: {_number(value, percent)}; the goal is {wanted}: {verdict}")


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
    return f"{100 * value:.6g} %" if percent else f"{value:.6g}"
