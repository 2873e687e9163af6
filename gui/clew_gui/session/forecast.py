"""Predicts how long runs will take and how much memory, from one that trained before at the same place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from clew_shared.base.number_words import in_bytes
from clew_shared.cards import ExerciseCard
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import BATCH_SIZE, STEPS, Value
from clew_shared.run_settings import SEED, settings_of
from clew_shared.spec import RunSpec
from clew_shared.study.usage import of_limit

_START_S = 2.0
"""The seconds from the start of a run to its first point, if nothing is known about that."""
_WHOLE = (RunState.FINISHED, RunState.STOPPED)
"""Ends of runs that used all the memory they needed: what was killed may have needed more."""

_LITTLE = 0.25
"""Share of the memory below which nothing is said."""
_FULL = 0.9
"""Share of the memory from which a run may be killed; from there on a running one is warned as well."""

_Alike = frozenset[tuple[str, Value, bool]]


class Earlier(NamedTuple):
    """A run that trained before; ``number`` is its number in the window."""

    spec: RunSpec
    history: History
    number: int = 0


class MemoryNeed(NamedTuple):
    """The bytes that a run will need at most, of its node or of each of its GPUs, and how much there was for the run
    that this is judged by; None where that is not known."""

    needed: float
    limit: float | None
    on_gpu: bool
    batch: int

    @property
    def too_much(self) -> bool:
        """Whether it will take all that there is, as other programs need some too."""
        return self.limit is not None and self.needed > _FULL * self.limit


# --- Time -------------------------------------------------------------------------------------------------------------


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


# --- Memory -----------------------------------------------------------------------------------------------------------


def memory_needed(specs: Iterable[RunSpec], card: ExerciseCard, before: Iterable[Earlier]) -> MemoryNeed | None:
    """The memory of that of these runs which needs most. Each is judged by the first of ``before`` that was set to the
    same but for its batch, its steps and what has no part in its memory; None where there is none.

    What that run used at most was measured, and what its images take of it was counted in its traced step: the rest
    does not change.
    """
    judges: dict[_Alike, Earlier] = {}
    for one in before:
        if _is_known(one.history):
            judges.setdefault(_alike(one.spec, card), one)
    found = [_need(spec, card, judges.get(_alike(spec, card))) for spec in specs] if judges else []
    return max((need for need in found if need is not None), key=lambda need: need.needed, default=None)


def _need(spec: RunSpec, card: ExerciseCard, judge: Earlier | None) -> MemoryNeed | None:
    batch = int(_number(spec, card, BATCH_SIZE))
    if not batch or judge is None or judge.history.schema is None:
        return None
    used, schema = judge.history.pulse_summary(), judge.history.schema
    on_gpu = used.gpu_memory is not None
    peak, limit = (used.gpu_memory, used.gpu_memory_limit) if on_gpu else (used.memory, used.memory_limit)
    more = (batch - schema.batch_size) * schema.image_bytes / (schema.replicas if on_gpu else 1)
    return MemoryNeed(peak + more, limit, on_gpu, batch) if peak is not None and peak + more > 0 else None


def _is_known(history: History) -> bool:
    """Whether the memory of a run of one process was counted and measured to its end."""
    counted = history.schema is not None and history.schema.image_bytes > 0
    return counted and len(history.pulse.processes) == 1 and history.fold.state in _WHOLE


def _alike(spec: RunSpec, card: ExerciseCard) -> _Alike:
    """The settings on which a run's memory depends beside its batch: what is not set in one run and None in another is
    the same."""
    others = {BATCH_SIZE, STEPS, SEED, "preset", *(param.name for param in card.params if param.live)}
    found = settings_of(spec, card).items()
    return frozenset(
        (name, value, isinstance(value, bool)) for name, value in found if value is not None and name not in others
    )


def memory_words(need: MemoryNeed | None, here: str = "this computer") -> str:
    """``2,048 samples at once need about 9.0 of 25 GB of memory.``, or that there is less than that ``here``; empty
    where it is not known, or so little that nobody needs to know."""
    if need is None or (need.limit is not None and need.needed < _LITTLE * need.limit):
        return ""
    kind = "GPU memory" if need.on_gpu else "memory"
    samples = f"{need.batch:,} sample{'s' if need.batch > 1 else ''} at once need{'' if need.batch > 1 else 's'}"
    if need.limit is None or not need.too_much:
        return f"{samples} about {of_limit(need.needed, need.limit)} of {kind}."
    owner = "a GPU there" if need.on_gpu else here
    there = f"{owner} has {in_bytes(round(need.limit))}"
    return f"{samples} about {in_bytes(round(need.needed))} of {kind}; {there}. A smaller batch needs less."
