"""Many steps in one call: a compiled loop whose length is a run-time value, so no length costs a new compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.training.step import TrainingStep

MAX_STEPS = 2**15
MAX_BYTES = 900_000
"""Metrics of one block must fit into one journal frame (1 MiB)."""


def capacity(steps: int, step: TrainingStep) -> int:
    """The longest block of a run of ``steps`` steps."""
    return min(steps, MAX_STEPS, MAX_BYTES // max(1, len(step.metrics) * int(step.dtype.size)))


class BlockProgram:
    """``while k < count: do step first + k``, with every step's metrics written into an array.

    XLA's arrays have a fixed size, the program's capacity. Elsewhere the array is as long as the block: to go through a
    full capacity of rows, nearly all of them empty, costs 3 ms in each call.
    """

    def __init__(self, step: TrainingStep, room: int, jit: bool) -> None:
        self.capacity = room
        self._step = step
        self._jit = jit
        self._function = tf.function(
            self._run,
            input_signature=[
                tf.TensorSpec([], tf.int64),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([len(step.live)], tf.float64),
            ],
            jit_compile=jit,
            autograph=False,  # a refusal raised while tracing stays what it is
        )
        self._compiled: Any = None

    @property
    def traces(self) -> int:
        """How many times TensorFlow has traced the loop: 1 for the whole life of a run."""
        return int(self._function.experimental_get_tracing_count())

    def trace(self) -> Any:
        """The traced loop, for checks of what stands in it."""
        self._compiled = self._compiled or self._function.get_concrete_function()
        return self._compiled

    def __call__(self, first: int, count: int, live: npt.NDArray[np.float64]) -> npt.NDArray[np.floating[Any]]:
        """Do ``count`` steps from step ``first``; returns their metrics [count, metrics]."""
        values = self.trace()(tf.constant(first, tf.int64), tf.constant(count, tf.int32), tf.constant(live))
        rows: npt.NDArray[np.floating[Any]] = values.numpy()[:count]
        return rows

    def _run(self, first: tf.Tensor, count: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        width = len(self._step.metrics)
        size = self.capacity if self._jit else count
        rows = tf.TensorArray(self._step.dtype, size, element_shape=[width])

        def body(k: tf.Tensor, rows: Any) -> tuple[tf.Tensor, Any]:
            return k + 1, rows.write(k, self._step(first + tf.cast(k, tf.int64), live))

        _, rows = tf.while_loop(lambda k, _: k < count, body, (tf.constant(0), rows), parallel_iterations=1)
        return rows.stack()
