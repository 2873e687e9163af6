"""Accuracy and loss on samples that are held out, chunk by chunk inside one compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from clew_agent.training.exercise import Batch, Samples
from clew_agent.training.step import resident
from clew_shared.base.problem import problem

CHUNK = 1000
"""Samples at a time: enough to use all cores, little enough for a small machine's memory."""


class Evaluator:
    """Means of an exercise's per-sample values over one set, as ``{set}_{value}``."""

    def __init__(
        self,
        name: str,
        samples: Samples,
        values: Callable[[Batch], Mapping[str, tf.Tensor]],
        wanted: Sequence[str],
    ) -> None:
        self._size = len(samples.x)
        self._x, self._y = resident(samples.x), resident(samples.y)
        self._values = values
        prefix = f"{name}_"
        self._names = [metric.removeprefix(prefix) for metric in wanted if metric.startswith(prefix)]
        self._prefix = prefix
        self._function = tf.function(self._sums, input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
        self._compiled: Any = None

    def compile(self) -> None:
        """Trace the loop and run it over no chunk."""
        self._run(0)

    def evaluate(self) -> dict[str, float]:
        """The means over all samples, in float64."""
        sums = self._run(math.ceil(self._size / CHUNK))
        return {self._prefix + name: float(total) / self._size for name, total in zip(self._names, sums, strict=True)}

    def _run(self, chunks: int) -> Any:
        self._compiled = self._compiled or self._function.get_concrete_function()
        return self._compiled(tf.constant(chunks, tf.int64)).numpy()

    def _sums(self, chunks: tf.Tensor) -> tf.Tensor:
        def body(k: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, sums + self._chunk(k)

        start = (tf.constant(0, tf.int64), tf.zeros([len(self._names)], tf.float64))
        return tf.while_loop(lambda k, _: k < chunks, body, start, parallel_iterations=1)[1]

    def _chunk(self, k: tf.Tensor) -> tf.Tensor:
        chunk = min(CHUNK, self._size)
        place = k * chunk + tf.range(chunk, dtype=tf.int64)
        weight = tf.cast(place < self._size, tf.float64)
        index = tf.minimum(place, self._size - 1)
        batch = Batch(tf.gather(self._x, index), tf.gather(self._y, index), index, tf.cast(weight, tf.float32))
        values = self._values(batch)
        missing = [name for name in self._names if name not in values]
        if missing:
            text = (
                f"The exercise promises {self._prefix}{missing[0]}, but its evaluation gives only {', '.join(values)}."
            )
            raise problem("exercise.metric", text, "Return it from evaluate or take it off the exercise's metrics.")
        return tf.stack([tf.reduce_sum(tf.cast(values[name], tf.float64) * weight) for name in self._names])
