"""Accuracy and loss on samples that are held out, chunk by chunk inside one compiled loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from clew_agent.training.exercise import Batch, Samples, Summary
from clew_agent.training.step import resident
from clew_shared.base.problem import problem

CHUNK = 1000
"""Samples at a time: enough to use all cores, little enough for a small machine's memory."""


class Evaluator:
    """Means of an exercise's per-sample values over one set, as ``{set}_{value}``, and what ``summarize`` makes of
    them."""

    def __init__(
        self,
        name: str,
        samples: Samples,
        values: Callable[[Batch], Mapping[str, tf.Tensor]],
        wanted: Sequence[str],
        summarize: Summary | None = None,
    ) -> None:
        self.size = len(samples.x)
        """The number of samples that are measured."""
        self._x, self._y = resident(samples.x), resident(samples.y)
        self._values = values
        self._summarize = summarize
        self._prefix = f"{name}_"
        self._names = [metric.removeprefix(self._prefix) for metric in wanted if metric.startswith(self._prefix)]
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._function = tf.function(self._sums, input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
        self._compiled: Any = None

    def compile(self) -> None:
        """Trace the loop and run it over no chunk."""
        self._run(0)

    def evaluate(self) -> dict[str, float]:
        """The means over all samples, in float64. Raises ``ProblemError`` when a promised value is missing."""
        sums = self._run(math.ceil(self.size / CHUNK))
        ends = np.cumsum([math.prod(shape) for shape in self._shapes.values()])[:-1]
        pieces = zip(self._shapes.items(), np.split(sums / self.size, ends), strict=True)
        means = {name: mean.reshape(shape) for (name, shape), mean in pieces}
        found = means if self._summarize is None else means | dict(self._summarize(means))
        self._require(found)
        return {self._prefix + name: float(found[name]) for name in self._names}

    def _run(self, chunks: int) -> Any:
        self._compiled = self._compiled or self._function.get_concrete_function()
        return self._compiled(tf.constant(chunks, tf.int64)).numpy()

    def _sums(self, chunks: tf.Tensor) -> tf.Tensor:
        sums_of = tf.function(self._chunk, input_signature=[tf.TensorSpec([], tf.int64)], autograph=False)
        one = sums_of.get_concrete_function()  # traced before the loop, which must know how many sums there are

        def body(k: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, sums + one(k)

        start = (tf.constant(0, tf.int64), tf.zeros(one.structured_outputs.shape, tf.float64))
        return tf.while_loop(lambda k, _: k < chunks, body, start, parallel_iterations=1)[1]

    def _chunk(self, k: tf.Tensor) -> tf.Tensor:
        chunk = min(CHUNK, self.size)
        place = k * chunk + tf.range(chunk, dtype=tf.int64)
        weight = tf.cast(place < self.size, tf.float64)
        index = tf.minimum(place, self.size - 1)
        batch = Batch(tf.gather(self._x, index), tf.gather(self._y, index), index, tf.cast(weight, tf.float32))
        values = self._values(batch)
        if self._summarize is None:
            self._require(values)
            values = {name: values[name] for name in self._names}
        self._shapes = {name: tuple(value.shape[1:]) for name, value in values.items()}
        rows = [tf.reshape(tf.cast(value, tf.float64), [chunk, -1]) for value in values.values()]
        return tf.reduce_sum(tf.concat(rows, 1) * weight[:, None], 0)

    def _require(self, found: Mapping[str, object]) -> None:
        missing = [name for name in self._names if name not in found]
        if missing:
            text = (
                f"The exercise promises {self._prefix}{missing[0]}, but its evaluation gives only {', '.join(found)}."
            )
            raise problem("exercise.metric", text, "Return it from evaluate or take it off the exercise's metrics.")
