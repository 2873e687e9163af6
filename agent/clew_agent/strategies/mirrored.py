"""Several devices of one node in step: each computes its rows of every batch, and all apply the mean gradient.

TensorFlow distributes (``tf.distribute.MirroredStrategy``): it holds a copy of each variable on every device and sums
gradients over them. Without GPUs the devices are logical ones: parts of one processor, which show how it is done and
make nothing faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

import tensorflow as tf

from clew_agent.strategies.base import OneState, Rows, Rule, Spread
from clew_shared.cards import StrategyCard
from clew_shared.params import Choice, Knob, Params, Value, build, describe

DEVICES = (1, 2, 4, 8, 16)


class ReduceSettings(Params, frozen=True, kw_only=True):
    """How gradients travel."""

    reduce: Annotated[
        str,
        Knob(
            "Reduce in",
            "The number format in which gradients are summed over the devices. 16 bits halve what is sent.",
            group="Devices",
            choices=(Choice("float32", "32 bits"), Choice("float16", "16 bits")),
        ),
    ] = "float32"


CARD = StrategyCard(
    id="mirrored",
    title="Mirrored",
    devices=DEVICES,
    params=describe(ReduceSettings),
    help="Each device computes its share of every batch; all of them apply the mean of their gradients.",
)


def make(spread: Spread) -> Mirrored:
    """The strategy for a run with these options, which are on one node."""
    return Mirrored(spread.devices, half=halved(spread.options))


def halved(options: Mapping[str, Value]) -> bool:
    """Whether the options ask for gradients of 16 bits on the way."""
    return build(ReduceSettings, options).reduce == "float16"


def several_devices(help_text: str) -> StrategyCard:
    """Returns a card for a measurement that uses the devices in a way of its own: their number is all that it is
    given."""
    return StrategyCard(id=CARD.id, title="Several devices", devices=DEVICES, help=help_text)


class Replicated(OneState):
    """The base of all strategies that hold a copy of the variables on each device and work in step.

    ``half`` sums gradients in 16 bits instead of 32, which halves what goes between the devices.
    """

    processes = 1
    whole = False

    def __init__(self, strategy: tf.distribute.Strategy, *, half: bool = False) -> None:
        self._strategy = strategy
        self._half = half
        self.replicas: int = strategy.num_replicas_in_sync
        self.reduced_bytes = 0

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Makes a copy of each variable on every device. What a step writes without an optimizer (moving averages)
        becomes the mean."""
        with self._strategy.scope(), tf.variable_creator_scope(_mean_of_writes):
            yield

    def run(self, replica: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Runs ``replica`` on each device; returns the mean."""
        self.reduced_bytes = 0
        return self._strategy.reduce(tf.distribute.ReduceOp.MEAN, self._strategy.run(replica), axis=None)

    def rows(self, batch: int) -> Rows:
        """Returns equal shares, the last ones filled up."""
        count = -(-batch // self.replicas)
        return Rows(total=batch, count=count, first=replica_context().replica_id_in_sync_group * count)

    def total(self, values: tf.Tensor) -> tf.Tensor:
        """Sums the values by TensorFlow's collectives."""
        return replica_context().all_reduce(tf.distribute.ReduceOp.SUM, values)

    def apply(self, rule: Rule, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
        """Does one update on every device, by the mean of all gradients."""
        reduce_no_more(rule)
        rule.apply(self._mean(gradients), variables)

    def _mean(self, gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
        known = [gradient for gradient in gradients if gradient is not None]
        sent = [tf.cast(one, tf.float16) if self._half and one.dtype == tf.float32 else one for one in known]
        self.reduced_bytes += sum(one.shape.num_elements() * one.dtype.size for one in sent) // self._replicas_here
        summed = iter(replica_context().all_reduce(tf.distribute.ReduceOp.SUM, [one / self.replicas for one in sent]))
        return [None if one is None else tf.cast(next(summed), one.dtype) for one in gradients]

    @property
    def _replicas_here(self) -> int:
        """Replicas of this process: a step is traced once for each of them."""
        return len(self._strategy.extended.worker_devices)


class Mirrored(Replicated):
    """``devices`` GPUs of this node, or as many logical devices of its processor (``runtime.configure`` makes them)."""

    def __init__(self, devices: int, *, half: bool = False) -> None:
        names = tuple(device.name for device in compute_devices()[:devices])
        super().__init__(_mirrored(names), half=half)


def compute_devices() -> list[tf.config.LogicalDevice]:
    """The GPUs of this run, or its logical processors where those are more (``runtime.configure`` makes them)."""
    gpus, processors = tf.config.list_logical_devices("GPU"), tf.config.list_logical_devices("CPU")
    return list(gpus if len(gpus) >= len(processors) else processors)


@cache
def _mirrored(names: tuple[str, ...]) -> tf.distribute.Strategy:
    """Makes the strategy once for a whole process: two would give the same numbers to different sums."""
    return tf.distribute.MirroredStrategy(names)


def replica_context() -> Any:
    return tf.distribute.get_replica_context()


def _mean_of_writes(make: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
    """Sets what becomes of several writes: TensorFlow refuses a write by one replica unless the variable says so."""
    none = options.get("aggregation") in (None, tf.VariableAggregation.NONE)
    return make(**options | ({"aggregation": tf.VariableAggregation.MEAN} if none else {}))


def reduce_no_more(rule: Any) -> None:
    """Keeps Keras' optimizers from summing the gradients of all replicas themselves; these are reduced already."""
    if not hasattr(rule, "_all_reduce_sum_gradients"):
        raise RuntimeError(f"{type(rule).__name__} reduces gradients in a way of its own")
    rule._all_reduce_sum_gradients = _as_they_are


def _as_they_are(pairs: Any) -> list[Any]:
    return list(pairs)
