"""The registry of strategies: all of them by name, and the one that a run asks for."""

from __future__ import annotations

from collections.abc import Mapping

from clew_agent.strategies import local_sgd, mirrored, multi_worker, parameter_server, single
from clew_agent.strategies.base import Strategy
from clew_agent.strategies.local_sgd import LocalSgd
from clew_agent.strategies.mirrored import Mirrored
from clew_agent.strategies.multi_worker import MultiWorker
from clew_agent.strategies.single import Single
from clew_shared.params import Value

CARDS = (single.CARD, mirrored.CARD, local_sgd.CARD, multi_worker.CARD, parameter_server.CARD)
"""The cards of strategies in the order in which they are offered. Every exercise that trains on batches can be run with
each of them."""


def make_strategy(name: str, devices: int = 1, options: Mapping[str, Value] | None = None, nodes: int = 1) -> Strategy:
    """The strategy called ``name`` on ``devices`` devices of each of ``nodes`` nodes with its own ``options``, all of
    which were checked before.

    With one device there is nothing to spread: then every strategy is ``Single``.
    """
    chosen = options or {}
    half = chosen.get("reduce") == "float16"
    if nodes > 1:
        return MultiWorker(devices, half=half)
    if devices == 1:
        return Single()
    if name in ("mirrored", "multi-worker"):
        return Mirrored(devices, half=half)
    if name == "local-sgd":
        every = chosen.get("average_every")
        return LocalSgd(devices, every if isinstance(every, int) else local_sgd.LocalSgdSettings().average_every)
    raise ValueError(f"no strategy is called {name!r}")
