"""Gives ``clew-agent`` a trainer without TensorFlow: Python imports this first where its folder is on ``PYTHONPATH``.

Everything else of the agent is the product's own. What would import TensorFlow before a run begins is empty, and the
trainer's engine is the one beside this file. Built-in exercises keep their cards; their losses are the engine's.
Files of one's own are read with TensorFlow, in a process that only does that.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_NOTHING = (
    "clew_agent.strategies.multi_worker",
    "clew_agent.strategies.parameter_server",
    "clew_agent.training.runtime",
)
_TRAINER = "clew_agent.trainer.trainer"
BLOCK, PAUSE_S = 50, 0.05
"""Steps of a block, and the seconds that it takes: quick enough for a test, and most of it leaves the processor."""


class _Nothing(Loader):
    """A module with nothing in it."""

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Trainer(Loader):
    """The agent's trainer, whose engine is the stand-in's."""

    def __init__(self, real: Loader) -> None:
        self._real = real

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        _put_in_the_stand_in()


def _put_in_the_stand_in() -> None:
    from clew_agent.catalogue.lookup import card_of
    from clew_shared.params import build, describe

    spec = importlib.util.spec_from_file_location("stand_in_engine", Path(__file__).with_name("engine.py"))
    assert spec is not None
    assert spec.loader is not None
    engine: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = engine
    spec.loader.exec_module(engine)
    fields = {field.name for field in describe(engine.StandInSettings)}

    def settings(params: Mapping[str, Any]) -> Any:
        known = {name: value for name, value in params.items() if name in fields and value != "none"}  # not given
        return build(engine.StandInSettings, {**known, "block": BLOCK, "pause": PAUSE_S})

    engine.put_in_the_stand_in(card_of, settings)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in _NOTHING:
            return ModuleSpec(name, _Nothing())
        if name != _TRAINER:
            return None
        sys.meta_path.remove(self)  # or it would find itself again
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            spec.loader = _Trainer(spec.loader)
        return spec


if any("clew_agent" in word for word in sys.orig_argv) and "examine" not in sys.orig_argv:
    sys.meta_path.insert(0, _Finder())
