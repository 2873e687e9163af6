"""The training step as TensorFlow traces it, and many of them in one call: pick the batch, take each part's gradient,
apply it, keep the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.strategies.base import Rows, Strategy
from clew_agent.training.exercise import Batch, Loss, Model, Part, Samples
from clew_agent.training.order import FileOrder, Order, Pick
from clew_agent.training.random import StepContext
from clew_shared.base.problem import problem
from clew_shared.cards import MetricSpec

INPUT_SCOPE = "input"
"""The name scope of the operations that pick a batch, by which a trace knows them."""
ALIGNMENT = 64
"""Number of bytes: TensorFlow uses memory as it is only where it begins at a multiple of it."""


def resident(array: npt.NDArray[Any]) -> tf.Tensor:
    """``array`` as a tensor that stays for the whole run; nobody may change the array afterwards.

    On the processor its memory is shared, with other runs of a warm process as well: 150 MB of images are neither
    copied nor held twice. With a GPU the tensor lies there.
    """
    aligned = array.dtype.kind in "fiub" and array.ctypes.data % ALIGNMENT == 0
    shareable = array.flags.c_contiguous and array.flags.writeable and aligned
    if not shareable or not array.size or tf.config.list_physical_devices("GPU"):
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


# --- Step -------------------------------------------------------------------------------------------------------------
# One step as TensorFlow traces it: pick the batch, take each part's gradient, apply it, keep the metrics.


class BatchSource:
    """Samples as tensors in memory, and the order in which steps take them.

    The many small operations of a permutation are compiled by XLA even where the step is not (0.05 instead of 0.5 ms).
    File order has few, which need no function of their own to be traced.
    """

    def __init__(self, samples: Samples, order: Order) -> None:
        self.arrays = samples
        self._x = resident(samples.x)
        self._y = resident(samples.y)
        simple = isinstance(order, FileOrder)
        self._pick = order.pick if simple else tf.function(order.pick, jit_compile=True, autograph=False)
        self._whole = isinstance(order, FileOrder) and order.samples == order.batch

    def at(self, x: tf.Tensor, y: tf.Tensor) -> BatchSource:
        """The same samples in the same order, where they lie as ``x`` and ``y``: in another process."""
        there = copy(self)
        there._x, there._y = x, y
        return there

    def pick(self, step: tf.Tensor, seed: int | tf.Tensor) -> Pick:
        """Returns the samples that make up the global batch of ``step``."""
        return self._pick(step, seed)

    def batch(self, pick: Pick) -> Batch:
        """The whole batch. One of everything in file order needs no gathering."""
        if self._whole:
            return Batch(self._x, self._y, pick.index)
        return Batch(tf.gather(self._x, pick.index), tf.gather(self._y, pick.index), pick.index, pick.weight)

    def share(self, pick: Pick, rows: Rows, strategy: Strategy) -> Batch:
        """Returns one replica's rows of the batch. Rows beyond its end are filled with its last sample, of weight 0."""
        place = rows.first + tf.range(rows.count)
        own = tf.minimum(place, rows.total - 1)
        index = tf.gather(pick.index, own)
        weight = None if pick.weight is None else tf.gather(pick.weight, own)
        if rows.count * strategy.replicas != rows.total:
            inside = tf.cast(place < rows.total, tf.float32)
            weight = inside if weight is None else weight * inside
        whole = float(rows.total) if pick.weight is None else tf.reduce_sum(pick.weight)
        x, y = tf.gather(self._x, index), tf.gather(self._y, index)
        return Batch(x, y, index, weight, whole / strategy.replicas, strategy.replicas, strategy.total)


@dataclass(frozen=True)
class TrainingStep:
    """Calling it changes the model's variables by one step and returns that step's metrics.

    ``metrics`` are the per-step metrics in the order of the columns, ``live`` the names of the live hyperparameters
    in the order of the vector that the block is fed with, ``state`` all variables that a step changes.
    """

    model: Model
    source: BatchSource
    strategy: Strategy
    metrics: Sequence[MetricSpec]
    live: Sequence[str]
    seed: int | tf.Tensor
    batch_size: int
    state: Sequence[tf.Variable] = ()
    loss_scale: float = 1.0

    @property
    def dtype(self) -> tf.DType:
        """Returns the type in which the columns travel: float64 as soon as one of them needs it."""
        return tf.float64 if any(spec.dtype == "float64" for spec in self.metrics) else tf.float32

    def __call__(self, step: tf.Tensor, live: tf.Tensor) -> tf.Tensor:
        """Do ``step`` (scalar int64) with the ``live`` values (float64 [n]); returns [metrics], before the update."""
        now = self.named(live)
        each = max((part.repeats for part in self.model.parts if part.fresh_batches), default=1)
        with tf.name_scope(INPUT_SCOPE):
            numbers = [step * each + number if each > 1 else step for number in range(each)]
            picks = [self.source.pick(number, self.seed) for number in numbers]
        metrics = self.strategy.run(lambda: self._replica(picks, step, now))
        self.strategy.after_step(step, self.state)
        return metrics

    def named(self, live: tf.Tensor) -> dict[str, tf.Tensor]:
        """The ``live`` values (float64 [n]) by name."""
        return dict(zip(self.live, tf.unstack(live, len(self.live)), strict=True))

    def _replica(self, picks: Sequence[Pick], step: tf.Tensor, now: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Does one replica's part of ``step``; returns its metrics, whose mean over all replicas is the step's."""
        rows = self.strategy.rows(self.batch_size)
        alone = rows.count == rows.total
        share = self.source.batch if alone else partial(self.source.share, rows=rows, strategy=self.strategy)
        with tf.name_scope(INPUT_SCOPE):
            batches = [share(pick) for pick in picks]
        values: dict[str, tf.Tensor] = {}
        for part in self.model.parts:
            values |= self._train(part, batches if part.fresh_batches else batches[:1], rows, step, now)
        return self.columns(values)

    def columns(self, values: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The per-step metrics among ``values`` as one row [metrics]."""
        missing = [spec.name for spec in self.metrics if spec.name not in values]
        if missing:
            known = ", ".join(values)
            text = f"The exercise promises {', '.join(missing)} for every step, but its losses give only {known}."
            raise problem("exercise.metric", text, "Return it in Loss.metrics or take it off the exercise's metrics.")
        return tf.stack([tf.cast(values[spec.name], self.dtype) for spec in self.metrics])

    def _train(
        self, part: Part, batches: Sequence[Batch], rows: Rows, step: tf.Tensor, now: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        variables = list(part.variables.values())
        part.optimizer.rate.set(step, now)
        first: Loss | None = None
        for repetition in range(part.repeats):
            batch = batches[min(repetition, len(batches) - 1)]
            loss, gradients = self.loss_and_gradients(part, batch, rows, step, now, repetition)
            self.strategy.apply(part.optimizer.rule, gradients, variables)
            first = first or loss
        if first is None:
            raise problem("exercise.repeats", f"The part {part.name} has {part.repeats} repeats; at least 1 is needed.")
        name = "loss" if len(self.model.parts) == 1 else f"{part.name}_loss"
        return {name: first.value, **first.metrics}

    def _gradient_norms(self, part: Part, gradients: Sequence[tf.Tensor | None], batch: Batch) -> dict[str, tf.Tensor]:
        """The length of the gradient of all of the part's variables, and of each, where a metric asks for it."""
        by_name = zip(part.variables, gradients, strict=True)
        asked = {f"{part.name}_gradient": [one for one in gradients if one is not None]}
        asked |= {f"{name}_gradient": [one] for name, one in by_name if one is not None}
        wanted = {spec.name for spec in self.metrics}
        return {name: self._norm(own, batch) for name, own in asked.items() if name in wanted}

    def _norm(self, gradients: Sequence[tf.Tensor], batch: Batch) -> tf.Tensor:
        """Returns the norm over all replicas: what each has is the gradient of its share of the batch, and the mean is
        the whole's."""
        if batch.replicas > 1:
            gradients = [batch.total(one) / batch.replicas for one in gradients]
        return tf.linalg.global_norm(gradients)

    def loss_and_gradients(
        self,
        part: Part,
        batch: Batch,
        rows: Rows,
        step: tf.Tensor,
        now: Mapping[str, tf.Tensor],
        repetition: int = 0,
    ) -> tuple[Loss, list[tf.Tensor | None]]:
        """The loss of ``part`` for these rows, and its gradient for each of the part's variables.

        Where a metric asks for the norm of a gradient, it is among the loss' metrics.
        """
        context = StepContext(self.seed, step, now, rows, part.name, repetition)
        with tf.GradientTape() as tape:
            loss = part.loss(batch, context)
            value = loss.value if self.loss_scale == 1 else loss.value * self.loss_scale
        gradients = tape.gradient(value, list(part.variables.values()))
        if self.loss_scale != 1:
            gradients = [None if one is None else one / self.loss_scale for one in gradients]
        return Loss(loss.value, {**self._gradient_norms(part, gradients, batch), **loss.metrics}), gradients


# --- Block ------------------------------------------------------------------------------------------------------------
# Many steps in one call: a compiled loop whose length is a run-time value, so no length costs a new compilation.


MAX_STEPS = 2**15
MAX_BYTES = 900_000
"""Bytes that the metrics of one block may have: they must fit into one journal frame (1 MiB)."""


def capacity(steps: int, step: TrainingStep) -> int:
    """The longest block of a run of ``steps`` steps."""
    return min(steps, MAX_STEPS, MAX_BYTES // max(1, len(step.metrics) * int(step.dtype.size)))


class BlockProgram:
    """``while k < count: do step first + k``, with every step's metrics written into an array.

    XLA's arrays have a fixed size, the program's capacity. Elsewhere the array is as long as the block: to go through a
    full capacity of rows, nearly all of them empty, costs 3 ms in each call. The seed is fed: as a constant it would
    have XLA compile again for each one.
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
                tf.TensorSpec([], tf.int64),
            ],
            jit_compile=jit,
            autograph=False,  # a refusal raised while tracing stays what it is
        )
        self._compiled: Any = None

    @property
    def traces(self) -> int:
        """Returns how many times TensorFlow has traced the loop: 1 for the whole life of a run."""
        return int(self._function.experimental_get_tracing_count())

    def trace(self) -> Any:
        """The traced loop, for checks of what is in it."""
        self._compiled = self._compiled or self._function.get_concrete_function()
        return self._compiled

    def __call__(self, first: int, count: int, live: npt.NDArray[np.float64]) -> npt.NDArray[np.floating[Any]]:
        """Do ``count`` steps from step ``first``; returns their metrics [count, metrics]."""
        numbers = tf.constant(first, tf.int64), tf.constant(count, tf.int32), tf.constant(live)
        values = self.trace()(*numbers, tf.constant(self._step.seed, tf.int64))
        rows: npt.NDArray[np.floating[Any]] = values.numpy()[:count]
        return rows

    def _run(self, first: tf.Tensor, count: tf.Tensor, live: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        width, step = len(self._step.metrics), replace(self._step, seed=seed)
        size = self.capacity if self._jit else count
        rows = tf.TensorArray(self._step.dtype, size, element_shape=[width])

        def body(k: tf.Tensor, rows: Any) -> tuple[tf.Tensor, Any]:
            metrics = step(first + tf.cast(k, tf.int64), live)  # first: the order of operations rounds
            return k + 1, rows.write(k, metrics)

        _, rows = tf.while_loop(lambda k, _: k < count, body, (tf.constant(0), rows), parallel_iterations=1)
        return rows.stack()
