"""The strategy for one device: the gradient of the whole batch is applied as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import tensorflow as tf

from clew_agent.strategies.base import OneState, Rows, Rule, Spread
from clew_shared.cards import StrategyCard

CARD = StrategyCard(id="single", title="One device", help="All of a batch on one device.")


def make(_spread: Spread) -> Single:
    """The strategy for a run that has one device."""
    return Single()


class Single(OneState):
    """Everything on one device, nothing to reduce."""

    replicas = 1
    processes = 1
    whole = True
    reduced_bytes = 0

    def scope(self) -> AbstractContextManager[object]:
        """Changes nothing: variables may be made anywhere."""
        return nullcontext()

    def run(self, replica: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Calls ``replica`` once."""
        return replica()

    def rows(self, batch: int) -> Rows:
        """Returns all rows."""
        return Rows(total=batch, count=batch)

    def total(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the values themselves."""
        return values

    def apply(self, rule: Rule, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
        """Does one update."""
        rule.apply(_in_turn(gradients), variables)


def _in_turn(gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Makes each gradient wait until the one before it is known as well, so that weights are updated where they are.

    Layers are listed from the input on, and their gradients come from the output on. When that of a layer's weights is
    known, the weights may still be read, for the gradient of what came in; to update them then is to copy them first.
    The gradient of what is listed before says that this is over. In any other order the result is the same, and costs
    that copy.
    """
    in_turn: list[tf.Tensor | None] = []
    before: list[tf.Tensor] = []
    for gradient in gradients:
        if gradient is None:  # nothing depends on this variable
            in_turn.append(None)
            continue
        with tf.control_dependencies(before):
            in_turn.append(tf.identity(gradient))
        before = [gradient]
    return in_turn
