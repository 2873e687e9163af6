"""Trains over several devices in a process of its own, as a trainer does: a process has one number of them for good.

Reads a JSON list of cases from each line of standard input and prints one JSON list for it: of each case the loss of
every step, the last evaluation and what was reduced.
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


class Spread:
    """A process that has ``devices`` devices until the ``with`` block ends; it imports TensorFlow once."""

    def __init__(self, devices: int) -> None:
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.exercises.spread", str(devices)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            env=os.environ | {"PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def __call__(self, cases: Sequence[Case]) -> list[Outcome]:
        """Train all ``cases`` there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(cases) + b"\n")
        self._process.stdin.flush()
        line = next((line for line in self._process.stdout if line.startswith(b"[")), b"")
        assert line, f"it ended with {self._process.wait()}"
        return msgspec.json.decode(line, type=list[Outcome])

    def __enter__(self) -> Spread:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # it only waits for the next line
        self._process.communicate()


def spread(devices: int, cases: Sequence[Case]) -> list[Outcome]:
    """Train all ``cases`` on ``devices`` devices in one new process."""
    with Spread(devices) as process:
        return process(cases)


def main(devices: int) -> None:
    """The process."""
    from clew_agent.node.lean_import import lean_import

    with lean_import():
        from clew_agent.training.runtime import configure

    configured = False
    for line in sys.stdin.buffer:
        cases = msgspec.json.decode(line, type=list[Case])
        if not configured:
            configure(devices=devices, precision=cases[0].precision)
            configured = True
        print(json.dumps([msgspec.to_builtins(outcome(case, devices)) for case in cases]), flush=True)


def outcome(case: Case, devices: int) -> Outcome:
    """Train one case here. It is evaluated at its end only, unless its values say otherwise."""
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
    rarely = {"evaluate_every": case.values["steps"]} if "steps" in case.values else {}
    settings = build(exercise.Settings, rarely | case.values)
    engine = Engine(exercise, settings, 1, data, strategy=strategy, precision=case.precision)
    if case.restore:
        engine.restore(Path(case.restore))
    losses: list[float] = []
    evaluation: Mapping[str, float] = {}
    until = engine.steps if case.until is None else case.until
    while engine.step < until:
        losses += map(float, engine.run_block(until).values[case.column])
        if engine.course.evaluation_due():
            evaluation = engine.evaluate()
        if engine.course.checkpoint_due() and case.save:
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
