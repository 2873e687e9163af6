"""The registry of strategies: what is known of each without TensorFlow, and the one that a run asks for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType

from clew_agent.strategies import cluster_settings
from clew_agent.strategies.base import Spread, Strategy
from clew_shared.base.problem import Problem
from clew_shared.cards import StrategyCard
from clew_shared.params import Value
from clew_shared.spec import SINGLE, RunSpec


@dataclass(frozen=True)
class StrategyEntry:
    """What is known of a strategy before TensorFlow is imported.

    ``roles`` are those of a run's other processes, in the order in which they take the nodes; none where all do the
    same. ``check`` says what is wrong with a spec beyond what the card says. ``build`` names the function that
    makes the engine.
    """

    roles: Callable[[RunSpec], Sequence[cluster_settings.Role]] = lambda _: ()
    check: Callable[[RunSpec], Iterator[Problem]] = lambda _: iter(())
    build: str = "clew_agent.trainer.attempt:build_in_step"


STRATEGIES = {
    "single": StrategyEntry(),
    "mirrored": StrategyEntry(),
    "local-sgd": StrategyEntry(),
    "multi-worker": StrategyEntry(),
    "parameter-server": StrategyEntry(
        cluster_settings.roles, cluster_settings.check, "clew_agent.trainer.cluster:build_on_servers"
    ),
}
"""All strategies in the order in which they are offered. Each has a module here of the same name, with its ``CARD``
and, if its engine is built in step, ``make``. That imports TensorFlow, which the supervisor may not."""


def entry(strategy: str) -> StrategyEntry:
    """Returns the entry of a strategy, an empty one if this version does not have it."""
    return STRATEGIES.get(strategy, StrategyEntry())


def cards() -> tuple[StrategyCard, ...]:
    """The cards of all strategies. Every exercise that trains on batches can be run with each of them."""
    return tuple(_module(name).CARD for name in STRATEGIES)


def make_strategy(name: str, devices: int = 1, options: Mapping[str, Value] | None = None, nodes: int = 1) -> Strategy:
    """The strategy called ``name`` on ``devices`` devices of each of ``nodes`` nodes with its own ``options``, all of
    which were checked before.

    With one device there is nothing to spread: then every strategy is the one for a single device.
    """
    made: Strategy = _module(name if devices * nodes > 1 else SINGLE.id).make(Spread(devices, nodes, options or {}))
    return made


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name.replace('-', '_')}")
