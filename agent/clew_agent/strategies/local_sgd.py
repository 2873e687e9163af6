"""Replicas that train by themselves and average their weights every H steps: no server, and little to send.

IT4Innovations' course calls it stale-synchronous and decentralised. With H = 1 and plain gradient descent it is
synchronous training; the larger H is, the further the replicas drift apart before they meet (Stich, "Local SGD
converges fast and communicates little", ICLR 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import tensorflow as tf

from clew_agent.strategies.base import Rule, Spread, copies
from clew_agent.strategies.mirrored import DEVICES, Mirrored, reduce_no_more, replica_context
from clew_shared.cards import StrategyCard
from clew_shared.params import Knob, Params, build, describe


class LocalSgdSettings(Params, frozen=True, kw_only=True):
    """How often the replicas meet."""

    average_every: Annotated[
        int,
        Knob(
            "Average every",
            "Number of steps that each device trains by itself before all take the mean of their weights.",
            group="Devices",
            unit="steps",
            ge=1,
            le=100_000,
            log=True,
        ),
    ] = 10


CARD = StrategyCard(
    id="local-sgd",
    title="Local SGD",
    devices=DEVICES,
    params=describe(LocalSgdSettings),
    help="Each device trains alone on its share of every batch. Every few steps all take the mean of their weights.",
)


def make(spread: Spread) -> LocalSgd:
    """The strategy for a run with these options, which is on one node."""
    return LocalSgd(spread.devices, build(LocalSgdSettings, spread.options).average_every)


class LocalSgd(Mirrored):
    """``devices`` replicas whose weights, moving averages and optimizer slots are averaged every ``every`` steps.

    A checkpoint averages as well (``settle``), so a run that continues from it goes the way that it would have gone. An
    evaluation measures the average and gives each replica its own back (``settled``): it changes nothing.
    """

    def __init__(self, devices: int, every: int) -> None:
        super().__init__(devices)
        self._every = every
        self._now: Callable[[], object] | None = None

    def total(self, values: tf.Tensor) -> tf.Tensor:
        """Sums as if the other replicas had the same: between two averages they do not talk to each other."""
        return values * self.replicas

    def apply(self, rule: Rule, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
        """Does one update on each device, by its own gradient."""
        reduce_no_more(rule)
        rule.apply(list(gradients), variables)

    def after_step(self, step: tf.Tensor, state: Sequence[tf.Variable]) -> None:
        """Averages the replicas every few steps."""

        def average() -> tf.Tensor:
            self._average(state)
            return tf.constant(0)

        tf.cond(tf.equal((step + 1) % self._every, 0), average, lambda: tf.constant(0))

    def settle(self, state: Sequence[tf.Variable]) -> None:
        """Averages the replicas now."""
        if self._now is None:
            self._now = tf.function(lambda: self._average(state), autograph=False)
        self._now()

    @contextmanager
    def settled(self, state: Sequence[tf.Variable]) -> Iterator[None]:
        """Averages the replicas meanwhile, and gives each its own values back afterwards."""
        kept = [(own, tf.identity(own)) for variable in state for own in copies(variable)]
        self.settle(state)
        try:
            yield
        finally:
            for own, value in kept:
                own.assign(value)

    def _average(self, state: Sequence[tf.Variable]) -> None:
        floats = [variable for variable in state if variable.dtype.is_floating]
        size = sum(variable.shape.num_elements() * variable.dtype.size for variable in floats)
        self.reduced_bytes = size // self._every

        def mean() -> list[tf.Tensor]:
            values = [variable.read_value() for variable in floats]
            return list(replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, values))

        for variable, value in zip(floats, self._strategy.run(mean), strict=True):
            self._strategy.extended.update(variable, lambda own, new: own.assign(new), args=(value,))
