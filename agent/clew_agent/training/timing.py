"""Where the time of a step goes besides arithmetic: picking its batch, and summing gradients over devices.

Each is done alone, a few times in one call as steps are, and what an empty step costs is taken off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from clew_agent.strategies.base import Strategy
from clew_agent.strategies.local_sgd import LocalSgd
from clew_agent.training.step import TrainingStep

_STEPS, _CALLS = 8, 3
"""The same in all processes of a run: what they sum, they sum together."""
_FLOAT = 4

Piece = Callable[[tf.Tensor], tf.Tensor]
"""From the step (scalar int64) to a number that depends on all that the piece is to compute."""


class StepParts(NamedTuple):
    """Seconds of one step that pass with picking its batch, and with one all-reduce of what it sends; 0: not
    measured."""

    input_seconds: float = 0.0
    reduce_seconds: float = 0.0


def measure_parts(step: TrainingStep) -> StepParts:
    """Both parts of ``step``, which has been traced. All processes of the run must call it at the same point."""
    strategy, sent = step.strategy, step.strategy.reduced_bytes
    sums = strategy.replicas > 1 and sent > 0 and not isinstance(strategy, LocalSgd)  # that sums between steps
    try:
        empty = _seconds(lambda _: strategy.run(lambda: tf.constant(0.0)))
        picking = _seconds(lambda number: _pick(step, number)) - empty
        summing = _seconds(lambda number: _sum(strategy, sent, number)) - empty if sums else 0.0
    finally:
        strategy.reduced_bytes = sent  # tracing counts it anew
    return StepParts(max(picking, 0.0), max(summing, 0.0))


def _pick(step: TrainingStep, number: tf.Tensor) -> tf.Tensor:
    pick = step.source.pick(number)

    def replica() -> tf.Tensor:
        rows = step.strategy.rows(step.batch_size)
        alone = rows.count == rows.total
        batch = step.source.batch(pick) if alone else step.source.share(pick, rows, step.strategy)
        return _first(batch.x) + _first(batch.y)

    return step.strategy.run(replica)


def _sum(strategy: Strategy, size: int, number: tf.Tensor) -> tf.Tensor:
    value = tf.cast(number, tf.float32)
    return strategy.run(lambda: _first(strategy.total(tf.fill([max(size // _FLOAT, 1)], value))))


def _first(values: tf.Tensor) -> tf.Tensor:
    """A number that needs all of ``values``: TensorFlow leaves out what nothing depends on."""
    return tf.cast(tf.reshape(values, [-1])[0], tf.float32)


def _seconds(piece: Piece) -> float:
    """What ``piece`` takes in one step: the fastest of a few calls."""

    def body(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return k + 1, total + piece(k)

    def run() -> tf.Tensor:
        begin = (tf.constant(0, tf.int64), tf.constant(0.0))
        return tf.while_loop(lambda k, _: k < _STEPS, body, begin, parallel_iterations=1)[1]

    program, found = tf.function(run, autograph=False), []
    program()
    for _ in range(_CALLS):
        start = time.perf_counter()
        program().numpy()
        found.append(time.perf_counter() - start)
    return min(found) / _STEPS
