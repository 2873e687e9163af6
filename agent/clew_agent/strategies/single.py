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
        optimizer.rule.apply(gradients, variables)
