"""Helpers for tests of training: make an engine from values, train it to some step, collect what it recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.strategies.base import Rule
from clew_agent.strategies.single import Single
from clew_agent.training.engine import Engine
from clew_agent.training.exercise import Exercise
from clew_shared.params import Value, build

Record = dict[str, npt.NDArray[np.floating[Any]]]


class AtOnce(Single):
    """Updates each variable as soon as its own gradient is known, for comparison with ``Single``."""

    def apply(self, rule: Rule, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One update."""
        rule.apply(gradients, variables)


def make_engine(
    exercise: Exercise[Any],
    values: dict[str, Value],
    data: DataSet | None = None,
    *,
    seed: int = 1,
    block_steps: Callable[[int], int] | None = None,
) -> Engine:
    """An engine with the exercise's defaults but for ``values``.

    Its first block compiles it: without the warm-up of ``compile``, and only where a test trains at all.
    """
    return Engine(exercise, build(exercise.Settings, values), seed, data, block_steps=block_steps)


def train(engine: Engine, until: int | None = None) -> Record:
    """Train up to step ``until`` (default: the end); every step's metrics by name.

    It is evaluated on the way only where early stopping looks at that: nothing else here would hear of it.
    """
    pieces: list[tuple[npt.NDArray[np.floating[Any]], ...]] = []
    last = engine.steps if until is None else until
    while not engine.done and engine.step < last:
        block = engine.run_block()
        assert block.first + block.count == engine.step
        pieces.append(block.values)
        if engine.course.plan.patience and engine.course.evaluation_due():
            engine.evaluate()
    names = [spec.name for spec in engine.course.per_step]
    return dict(zip(names, map(np.concatenate, zip(*pieces, strict=True)), strict=True))


def race_records(exercise: Exercise[Any], values: dict[str, Value], data: DataSet) -> list[Record]:
    """What each lane of the exercise's only race records, at a rate that is 0 in float32: the values of a step are then
    those of its batch, and of what is drawn for it, alone."""
    (race,) = exercise.races
    still = values | {"order": "shuffle", "learning_rate": 1e-60}
    return [train(make_engine(exercise, lane.values | still, data)) for lane in race.lanes]


def sizes(steps: Iterable[int]) -> Callable[[int], int]:
    """Blocks of these sizes, then as much as there is room for."""
    rest = iter(steps)
    return lambda room: next(rest, room)


def assert_same_bits(one: dict[str, npt.NDArray[Any]], other: dict[str, npt.NDArray[Any]]) -> None:
    """Both dictionaries hold the same names with the same bytes."""
    assert list(one) == list(other)
    differing = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    assert differing == []
