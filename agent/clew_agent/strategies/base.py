"""The interface between the engine and a strategy. It knows nothing of training, so that training can build on it, and
nothing of TensorFlow: a tensor and a variable are whatever the engine computes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from clew_shared.params import Value

Tensor = Any
Variable = Any


class Spread(NamedTuple):
    """How a run spreads: over ``devices`` of each of its ``nodes``, with the strategy's own ``options``."""

    devices: int
    nodes: int
    options: Mapping[str, Value]


@dataclass(frozen=True)
class Rows:
    """The rows of the global batch that this replica computes: ``count`` rows from row ``first``, of ``total``.

    Where the replicas do not divide the batch, the last rows are beyond its end: they are fillers of weight 0.
    """

    total: int
    count: int
    first: Tensor | int = 0


class Rule(Protocol):
    """The rule that changes variables by their gradients, as Keras' optimizers do."""

    def apply(self, gradients: Sequence[Tensor | None], variables: Sequence[Variable]) -> None:
        """Does one update."""


class Strategy(Protocol):
    """A way to spread one step over replicas: each computes its own rows of the global batch.

    The engine takes the gradients. A replica's loss is scaled so that the *mean* over all replicas is the loss of the
    global batch; the same holds for gradients and metrics. ``rows``, ``total`` and ``apply`` are called inside ``run``,
    once for each replica.
    """

    replicas: int
    """Number of replicas that compute a step together, in all processes."""
    processes: int
    """Number of processes that these replicas are in; all of them must do the same blocks."""
    whole: bool
    """Whether one device does everything, so that XLA may compile a block of steps as one program."""
    reduced_bytes: int
    """Bytes of gradients that a replica gives away in one step; known once a step was traced."""

    def scope(self) -> AbstractContextManager[object]:
        """Returns the scope in which variables and the optimizers' slots are made."""

    def run(self, replica: Callable[[], Tensor]) -> Tensor:
        """Have each replica call ``replica``; returns the mean of what they return (a tensor of floats)."""

    def rows(self, batch: int) -> Rows:
        """Returns the rows of a global batch of ``batch`` samples that this replica computes."""

    def total(self, values: Tensor) -> Tensor:
        """The sum of ``values`` over the replicas that compute one step together; differentiable."""

    def apply(self, rule: Rule, gradients: Sequence[Tensor | None], variables: Sequence[Variable]) -> None:
        """Change ``variables`` by their ``gradients``, as ``rule`` says."""

    def after_step(self, step: Tensor, state: Sequence[Variable]) -> None:
        """Traced after each ``run``: what happens between steps. ``state`` is all that the step may have changed."""

    def settle(self, state: Sequence[Variable]) -> None:
        """Make all replicas hold the same, before a checkpoint; nothing to do where they do."""

    def settled(self, state: Sequence[Variable]) -> AbstractContextManager[object]:
        """Makes all replicas hold the same meanwhile, for an evaluation, and afterwards what they held before."""


class OneState:
    """What a strategy has to do about replicas that always hold the same: nothing."""

    def after_step(self, step: Tensor, state: Sequence[Variable]) -> None:
        """See ``Strategy.after_step``."""

    def settle(self, state: Sequence[Variable]) -> None:
        """See ``Strategy.settle``."""

    def settled(self, state: Sequence[Variable]) -> AbstractContextManager[object]:
        """See ``Strategy.settled``."""
        return nullcontext()


def copies(variable: Variable) -> tuple[Variable, ...]:
    """The plain variables of this process that make up ``variable``: one for each replica, or itself if not spread."""
    return tuple(getattr(variable, "values", (variable,)))
