"""Measures where the time of a step goes besides arithmetic: picking its batch, and summing gradients over devices.

Each is done alone, a few times in one call as steps are, and what an empty step costs is taken off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from clew_agent.engine.base import StepParts
from clew_agent.strategies.base import Strategy
from clew_agent.strategies.local_sgd import LocalSgd
from clew_agent.training.step import TrainingStep

_STEPS, _CALLS = 32, 4
"""The same in all processes of a run: what they sum, they sum together. The start of a call takes as
long as a few steps."""
_FLOAT = 4

Piece = Callable[[tf.Tensor], tf.Tensor]
"""Computes, from the step (scalar int64), a number that depends on all that the piece is to compute."""


def measure_parts(step: TrainingStep) -> StepParts:
    """Measures both parts of ``step``, which has been traced. All processes of the run must call it at the same
    point."""
    strategy, sent = step.strategy, step.strategy.reduced_bytes
    sums = strategy.replicas > 1 and sent > 0 and not isinstance(strategy, LocalSgd)  # that sums between steps
    try:
        pieces: list[Piece] = [
            lambda _: strategy.run(lambda: tf.constant(0.0)),
            lambda number: _pick(step, number),
            *([lambda number: _sum(strategy, sent, number)] if sums else []),
        ]
        empty, picked, *summed = _seconds(pieces)
    finally:
        strategy.reduced_bytes = sent  # tracing counts it again
    return StepParts(max(picked - empty, 0.0), max(summed[0] - empty, 0.0) if summed else 0.0)


def _pick(step: TrainingStep, number: tf.Tensor) -> tf.Tensor:
    pick = step.source.pick(number, step.seed)

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


def _seconds(pieces: Sequence[Piece]) -> list[float]:
    """Returns the seconds that each of ``pieces`` takes in one step: the fastest of a few calls. They take turns, so
    that a moment in which the machine is busy is bad for all of them."""
    programs = [_program(piece) for piece in pieces]
    for program in programs:
        program().numpy()
    found: list[list[float]] = [[] for _ in programs]
    for _ in range(_CALLS):
        for program, times in zip(programs, found, strict=True):
            start = time.perf_counter()
            program().numpy()
            times.append(time.perf_counter() - start)
    return [min(times) / _STEPS for times in found]


def _program(piece: Piece) -> Callable[[], tf.Tensor]:
    def body(k: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return k + 1, total + piece(k)

    def run() -> tf.Tensor:
        begin = (tf.constant(0, tf.int64), tf.constant(0.0))
        return tf.while_loop(lambda k, _: k < _STEPS, body, begin, parallel_iterations=1)[1]

    program: Callable[[], tf.Tensor] = tf.function(run, autograph=False)
    return program
