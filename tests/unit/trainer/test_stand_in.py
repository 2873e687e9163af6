"""The engine of the fault tests has all that the trainer asks of an engine, so that those tests need not find out."""

from __future__ import annotations

import ast
import inspect

from clew_agent.trainer import loop, trainer
from tests.integration.faults.stand_in import StandInEngine, StandInSettings

BUILDS = ("_build", "_build_on_cluster", "_ready")
"""What the fault tests replace."""


def test_the_stand_in_has_what_the_trainer_asks_of_an_engine() -> None:
    asked: set[str] = set()
    for module in (loop, trainer):
        tree = ast.parse(inspect.getsource(module))
        for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and one.name not in BUILDS):
            asked |= {
                one.attr
                for one in ast.walk(function)
                if isinstance(one, ast.Attribute) and ast.unparse(one.value) in ("engine", "self._engine")
            }
    assert {"run_block", "samples_per_step", "step"} <= asked
    engine = StandInEngine(StandInSettings(), 1)
    assert [name for name in sorted(asked) if not hasattr(engine, name)] == []
