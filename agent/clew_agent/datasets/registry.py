"""The registry of the data sets: each module of ``known`` is one, and nothing else names them all."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from clew_agent.datasets import known
from clew_shared.cards import DataSetCard


def modules() -> dict[str, ModuleType]:
    """The module of each data set by the set's name, in the order of their cards. This loads NumPy."""
    names = [one.name for one in pkgutil.iter_modules(known.__path__)]
    found = [importlib.import_module(f"{known.__name__}.{name}") for name in names]
    return {one.CARD.name: one for one in sorted(found, key=lambda one: (one.CARD.order, one.CARD.name))}


def cards() -> tuple[DataSetCard, ...]:
    """The cards of all data sets, as the catalogue carries them to whatever may load neither NumPy nor the agent."""
    return tuple(module.CARD for module in modules().values())


def accepted(names: tuple[str, ...]) -> tuple[str, ...]:
    """The data sets that an exercise takes: those that it ``names``, and those that are like one of them."""
    return (*names, *(card.name for card in cards() if card.like in names and card.name not in names))
