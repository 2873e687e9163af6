"""Predicts how long runs will take, from one that trained before at the same place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.params import BATCH_SIZE, STEPS
from clew_shared.spec import RunSpec

_START_S = 2.0
"""The seconds from the start of a run to its first point, if nothing is known about that."""


class Earlier(NamedTuple):
    """A run that trained before; ``number`` is its number in the window."""

    spec: RunSpec
    history: History
    number: int = 0


def timed(before: Iterable[Earlier]) -> Earlier | None:
    """Returns the first of these runs that has a speed, by which others are judged."""
    return next((one for one in before if _speed(one.history)), None)


def seconds_each(specs: Iterable[RunSpec], card: ExerciseCard, before: Iterable[Earlier]) -> list[float]:
    """Seconds of each run, judged by the first of ``before`` that has a speed; nothing when none has."""
    judge = timed(before)
    if judge is None:
        return []
    history = judge.history
    start, speed = history.first_point_seconds or _START_S, _speed(history)
    return [start + _work(spec, judge.spec, card, history.fold.steps or history.fold.step) / speed for spec in specs]


def _speed(history: History) -> float:
    """Steps per second; 0 where that is not known."""
    speed = history.steps_per_second()
    return speed if speed and math.isfinite(speed) and history.fold.step else 0.0


def _work(spec: RunSpec, judge: RunSpec, card: ExerciseCard, steps_before: int) -> float:
    """Steps, in steps of the run that is judged by."""
    steps, batch, size = (
        _number(spec, card, STEPS),
        _number(spec, card, BATCH_SIZE),
        _number(judge, card, BATCH_SIZE),
    )
    return (steps or steps_before) * (batch / size if batch and size else 1.0)


def _number(spec: RunSpec, card: ExerciseCard, name: str) -> float:
    usual = next((param.default for param in card.params if param.name == name), None)
    value = spec.params.get(name, usual)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
