"""An exercise whose curve is known beforehand, trained by the product's own trainer with an engine of a few lines.

Everything around the engine is real: journal, recorder, checkpoints, control channel, signals, guard. The loss is a
chain of pseudo-random numbers, so that a step which was lost, doubled or redone from a wrong state shows in its bits.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from clew_agent.engine.base import StepParts, TrainingEngine
from clew_agent.engine.blocks import TrainedBlock
from clew_agent.engine.course import Course
from clew_shared.base.problem import problem
from clew_shared.cards import Catalogue, ExerciseCard, MetricSpec
from clew_shared.journal.events import Event
from clew_shared.params import Choice, Knob, Params, Value, describe
from clew_shared.spec import RunSpec

FAULTS = (
    Choice("none", "none"),
    Choice("nan", "NaN losses"),
    Choice("memory", "out of memory"),
    Choice("refuses", "refuses"),
)
METRICS = (
    MetricSpec(name="loss", label="loss", better="lower"),
    MetricSpec(name="test_accuracy", label="test accuracy", per_step=False, better="higher", format="percent"),
)


class StandInSettings(Params, frozen=True):
    """How the stand-in behaves: blocks of ``block`` steps, ``pause`` seconds each; from ``at`` on the ``fault``."""

    steps: Annotated[int, Knob("Steps", ge=0, le=100_000_000)] = 200
    block: Annotated[int, Knob("Steps in a block", ge=1, le=100_000)] = 10
    pause: Annotated[float, Knob("Seconds of a block", ge=0, le=10)] = 0.0
    checkpoint_every: Annotated[int, Knob("Checkpoint every", ge=1)] = 1_000_000_000
    evaluate_every: Annotated[int, Knob("Evaluate every", ge=1)] = 1_000_000_000
    learning_rate: Annotated[float, Knob("Learning rate", gt=0, live=True)] = 0.5
    fault: Annotated[str, Knob("Fault", choices=FAULTS)] = "none"
    at: Annotated[int, Knob("From step", ge=0)] = 0


CARD = ExerciseCard(
    id="stand-in", title="Stand-in", metrics=METRICS, params=describe(StandInSettings), source_hash="abc"
)
_FACTOR, _CONSTANT = 1664525, 1013904223
CATALOGUE = Catalogue(exercises=(CARD,))


def follow(state: int) -> int:
    """The next link of the chain (the generator of Numerical Recipes)."""
    return (state * _FACTOR + _CONSTANT) % 2**32


def true_losses(steps: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """What the loss of each step must be, to the bit."""
    factors = np.cumprod(np.full(steps, _FACTOR, np.uint32), dtype=np.uint32)  # of the seed, modulo 2**32
    sums = np.cumsum(np.append(np.uint32(1), factors[:-1])[:steps], dtype=np.uint32)  # of the constant
    states = factors * np.uint32(seed) + sums * np.uint32(_CONSTANT)
    return (states / 2**32).astype(np.float32)


class StandInEngine:
    """A ``TrainingEngine``; its loss is the chain."""

    replicas, logical_devices, reduced_bytes = 1, False, 0
    parts = StepParts()

    def __init__(self, settings: StandInSettings, seed: int, metrics: Sequence[MetricSpec] = METRICS) -> None:
        self._settings = settings
        self._state = seed
        self._judged = any(metric.name == "test_accuracy" for metric in metrics)
        self.course = Course(settings, metrics, samples=0, samples_per_step=0, measured=1)
        print(f"The stand-in begins in process {os.getpid()}.", flush=True)

    def compile(self) -> float:
        return 0.0

    def measure_parts(self) -> None:
        pass

    def compile_evaluation(self) -> float:
        return 0.0

    def compile_pictures(self) -> float:
        return 0.0

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        return iter(())

    def run_block(self, until: int | None = None) -> TrainedBlock:
        start = time.perf_counter()
        count = min(self._settings.block, self.course.room(until))
        values = np.array([[self._next()] * len(self.course.per_step) for _ in range(count)], np.float32)
        time.sleep(self._settings.pause)
        return self.course.trained(values, time.perf_counter() - start)

    def _next(self) -> float:
        self._state = follow(self._state)
        faulty = self._settings.fault if self.course.step >= self._settings.at else "none"
        if faulty == "memory":
            bytearray(1 << 60)  # more than any machine has
        return math.nan if faulty == "nan" else self._state / 2**32

    def evaluate(self) -> dict[str, float]:
        values = {"test_accuracy": 0.5} if self._judged else {}
        self.course.evaluated(values)
        return values

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        saved = {name: value.tolist() for name, value in self.course.saved().items()}
        (folder / "state.json").write_text(json.dumps([saved, self._state]))

    def restore(self, folder: Path) -> None:
        saved, self._state = json.loads((folder / "state.json").read_text())
        self.course.go_on_from({name: np.array(value) for name, value in saved.items()})


def put_in_the_stand_in(
    card_of: Callable[[str, Path | None], ExerciseCard],
    settings_of: Callable[[Mapping[str, Value]], StandInSettings],
) -> None:
    """Have the trainer build this engine: ``card_of`` the exercise's name and folder, ``settings_of`` its
    hyperparameters."""
    from clew_agent.trainer import attempt as stages

    def find(attempt: stages.Attempt, spec: RunSpec) -> Any:
        card = card_of(spec.exercise, attempt.exercises)
        return card, card

    def build(attempt: stages.Attempt, checked: stages.CheckedRun) -> TrainingEngine:
        settings = settings_of(checked.spec.params)
        if settings.fault == "refuses":
            raise problem("stand-in.refuses", "The trainer refuses it.")
        engine = StandInEngine(settings, checked.spec.seed, checked.card.metrics)
        if checked.start.checkpoint:
            engine.restore(attempt.folder.path / checked.start.checkpoint)
        return engine

    vars(stages).update(_import=find, build=build)
