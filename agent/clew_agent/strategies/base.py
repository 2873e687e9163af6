"""What the engine asks of a strategy. It knows nothing of training, so that training can build on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import tensorflow as tf


@dataclass(frozen=True)
class Rows:
    """Which rows of the global batch this replica computes: ``count`` rows from row ``first``, of ``total``."""

    total: int
    count: int
    first: tf.Tensor | int = 0


class Rule(Protocol):
    """What changes variables by their gradients, as Keras' optimizers do."""

    def apply(self, gradients: Sequence[tf.Tensor | None], variables: Sequence[tf.Variable]) -> None:
        """One update."""


class Strategy(Protocol):
    """How a step's gradients are reduced over replicas and applied. The engine takes the gradients."""

    def rows(self, batch: int) -> Rows:
        """Which rows of a global batch of ``batch`` samples this replica computes."""

    def apply(self, rule: Rule, gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable]) -> None:
        """Change ``variables`` by their ``gradients``, as ``rule`` says."""
