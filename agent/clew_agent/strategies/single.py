"""One device: the gradient of the whole batch is applied as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import tensorflow as tf

from clew_agent.training.optimizers import Optimizer
from clew_agent.training.random import Rows


class Strategy(Protocol):
    """How a step's gradients are reduced over replicas and applied. The engine takes the gradients."""

    def rows(self, batch: int) -> Rows:
        """Which rows of a global batch of ``batch`` samples this replica computes."""

    def apply(self, optimizer: Optimizer, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """Change ``variables`` by their ``gradients``, as ``optimizer`` says."""


class Single:
    """Everything on one device, nothing to reduce."""

    def rows(self, batch: int) -> Rows:
        """All rows."""
        return Rows(total=batch, count=batch)

    def apply(self, optimizer: Optimizer, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """One update."""
        optimizer.rule.apply(_in_turn(gradients), variables)


def _in_turn(gradients: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Each gradient as soon as the one before it is known as well, so that weights are updated where they lie.

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
