"""One step as TensorFlow traces it: pick the batch, take each part's gradient, apply it, keep the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from clew_agent.strategies.base import Strategy
from clew_agent.training.exercise import Batch, Loss, Model, Part, Samples
from clew_agent.training.order import FileOrder, Order
from clew_agent.training.random import StepContext
from clew_agent.training.tensors import resident
from clew_shared.cards import MetricSpec
from clew_shared.problem import problem


class Source:
    """Samples as tensors in memory, and the order in which steps take them.

    The many small operations of a permutation are compiled by XLA even where the step is not (0.05 instead of 0.5 ms).
    File order has few, which need no function of their own to be traced.
    """

    def __init__(self, samples: Samples, order: Order) -> None:
        self._x = resident(samples.x)
        self._y = resident(samples.y)
        simple = isinstance(order, FileOrder)
        self._pick = order.pick if simple else tf.function(order.pick, jit_compile=True, autograph=False)
        self._whole = isinstance(order, FileOrder) and order.samples == order.batch

    def batch(self, step: tf.Tensor) -> Batch:
        """The global batch of ``step``. A batch of everything in file order needs no gathering."""
        pick = self._pick(step)
        if self._whole:
            return Batch(self._x, self._y, pick.index)
        return Batch(tf.gather(self._x, pick.index), tf.gather(self._y, pick.index), pick.index, pick.weight)


@dataclass(frozen=True)
class TrainingStep:
    """Calling it changes the model's variables by one step and returns that step's metrics.

    ``metrics`` are the per-step metrics in the order of the columns, ``live`` the names of the live hyperparameters
    in the order of the vector that the block is fed with.
    """

    model: Model
    source: Source
    strategy: Strategy
    metrics: Sequence[MetricSpec]
    live: Sequence[str]
    seed: int
    batch_size: int

    @property
    def dtype(self) -> tf.DType:
        """What the columns travel in: float64 as soon as one of them needs it."""
        return tf.float64 if any(spec.dtype == "float64" for spec in self.metrics) else tf.float32

    def __call__(self, step: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        """Do ``step`` (scalar int64) with the ``live`` values (float64 [n]); returns [metrics], before the update."""
        now = dict(zip(self.live, tf.unstack(live, len(self.live)), strict=True))
        batch = self.source.batch(step)
        values: dict[str, tf.Tensor] = {}
        for part in self.model.parts:
            values |= self._train(part, batch, step, now)
        missing = [spec.name for spec in self.metrics if spec.name not in values]
        if missing:
            known = ", ".join(values)
            text = f"The exercise promises {', '.join(missing)} for every step, but its losses give only {known}."
            raise problem("exercise.metric", text, "Return it in Loss.metrics or take it off the exercise's metrics.")
        return tf.stack([tf.cast(values[spec.name], self.dtype) for spec in self.metrics])

    def _train(self, part: Part, batch: Batch, step: tf.Tensor, now: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        variables = list(part.variables.values())
        part.optimizer.rate.set(step, now)
        first: Loss | None = None
        for repetition in range(part.repeats):
            rows = self.strategy.rows(self.batch_size)
            context = StepContext(self.seed, step, now, rows, part.name, repetition)
            with tf.GradientTape() as tape:
                loss = part.loss(batch, context)
            self.strategy.apply(part.optimizer.rule, tape.gradient(loss.value, variables), variables)
            first = first or loss
        if first is None:
            raise problem("exercise.repeats", f"The part {part.name} has {part.repeats} repeats; at least 1 is needed.")
        name = "loss" if len(self.model.parts) == 1 else f"{part.name}_loss"
        return {name: first.value, **first.metrics}
