"""Trains over several devices in a process of its own, as a trainer does: a process has one number of them for good.

Reads cases as JSON from standard input and prints one JSON list: of each case the loss of every step, the last
evaluation and what was reduced.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One training. ``restore`` and ``save`` are checkpoint folders, ``until`` is the step at which it ends, ``column``
    the place of the metric to compare among the exercise's."""

    exercise: str
    values: dict[str, Any]
    strategy: str = "mirrored"
    options: dict[str, Any] = {}
    precision: str = "float32"
    data: str = "digits"
    until: int | None = None
    column: int = 0
    save: str = ""
    restore: str = ""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    losses: list[float]
    evaluation: dict[str, float]
    reduced_bytes: int
    replicas: int
    logical: bool
    traces: int


def spread(devices: int, cases: Sequence[Case]) -> list[Outcome]:
    """Train all ``cases`` on ``devices`` devices in one new process."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.exercises.spread", str(devices)],
        input=msgspec.json.encode(cases),
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=list[Outcome])


def main(devices: int) -> None:
    """The process."""
    from clew_agent.training.runtime import configure

    cases = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Case])
    configure(devices=devices, precision=cases[0].precision)
    print(json.dumps([msgspec.to_builtins(outcome(case, devices)) for case in cases]))


def outcome(case: Case, devices: int) -> Outcome:
    """Train one case here."""
    from clew_agent.catalogue.examine import find_exercise
    from clew_agent.datasets.load import load
    from clew_agent.datasets.search import Search
    from clew_agent.strategies.registry import make_strategy
    from clew_agent.training.engine import Engine
    from clew_shared.params import build

    exercise = find_exercise(case.exercise, None)[0]
    own = Search(own=Path(os.environ.get("CLEW_DATA", ".")).absolute())
    data = load(case.data, own) if case.data else None
    strategy = make_strategy(case.strategy, devices, case.options)
    settings = build(exercise.Settings, case.values)
    engine = Engine(exercise, settings, 1, data, strategy=strategy, precision=case.precision)
    engine.compile()
    if case.restore:
        engine.restore(Path(case.restore))
    losses: list[float] = []
    evaluation: Mapping[str, float] = {}
    until = engine.steps if case.until is None else case.until
    while engine.step < until:
        losses += map(float, engine.run_block(until).values[case.column])
        if engine.evaluation_due():
            evaluation = engine.evaluate()
        if engine.checkpoint_due() and case.save:
            engine.save(Path(case.save, str(engine.step)))
    if case.save:
        engine.save(Path(case.save))
    return Outcome(
        losses=losses,
        evaluation=dict(evaluation),
        reduced_bytes=engine.reduced_bytes,
        replicas=engine.replicas,
        logical=engine.logical_devices,
        traces=engine.traces,
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
