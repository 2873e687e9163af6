"""A home as it is after a semester: thousands of runs that ended, in several exercises; what a command takes in it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from clew_gui.commands.context import FAILED, OK
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.cards import ExerciseCard
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Evaluation, Points, Schema, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from tests.unit.runs import begin_run, describe, end_run

EXERCISES = 10
STEPS, EVALUATIONS = 500, 10


class Took(NamedTuple):
    """Seconds of the processor, and megabytes."""

    seconds: float
    memory: float


_MEASURED = """
import sys, time
from clew_gui.commands.main import main
status = main(sys.argv[1:])
from tests.bench.semester import most_memory
print(time.process_time(), most_memory(), file=sys.stderr)
sys.exit(status)
"""


def most_memory() -> float:
    """The most memory that this process has had, in megabytes. Not ``ru_maxrss``: that begins with the parent's."""
    text = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+)", text)[0]) / 1000


def command(home: Path, *words: str) -> Took:
    """One command in a process of its own."""
    line = [sys.executable, "-c", _MEASURED, *words]
    environment = {**os.environ, "CLEW_HOME": str(home)}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != OK and (words[0] != "class" or done.returncode != FAILED):  # it has something to say of one
        raise RuntimeError(f"clew {' '.join(words)}: {done.stderr[-2000:]}")
    seconds, memory = done.stderr.splitlines()[-1].split()
    return Took(float(seconds), float(memory))


def fill(places: Places, runs: int) -> list[str]:
    """Write ``runs`` runs of ``STEPS`` steps, in ``EXERCISES`` exercises by turns; returns their ids in order."""
    cards = [card for card in load_builtin().exercises if {"steps", "learning_rate"} <= {p.name for p in card.params}]
    dice = random.Random(1)  # not a secret
    found = []
    with patch.multiple(operating_system, sync=lambda _: None, sync_folder=lambda _: None):  # no power cut comes
        for number in range(runs):
            run = str(uuid.UUID(int=dice.getrandbits(128), version=4))
            write_run(places.runs / run, cards[number % min(EXERCISES, len(cards))], run, 1e9 + 60 * number, dice)
            found.append(run)
    return found


def write_run(folder: Path, card: ExerciseCard, run: str, at: float, dice: random.Random) -> None:
    """One run that finished."""
    seed, rate = dice.randrange(1, 9), round(10 ** dice.uniform(-4, 0), 6)
    begun = begin_run(folder, exercise=card.id, run=run, seed=seed, params={"steps": STEPS, "learning_rate": rate})
    with JournalWriter.create(begun.journal(1)) as writer:
        spec = begun.spec.read_text(encoding="utf-8")
        writer.append(describe(begun, run=run, exercise=card.id, spec=spec, steps=STEPS, time=at))
        per_step = tuple(metric for metric in card.metrics if metric.per_step)
        others = tuple(metric for metric in card.metrics if not metric.per_step)
        writer.append(Schema(id=1, metrics=per_step, batch_size=100, samples_per_epoch=50_000, steps=STEPS))
        writer.append(State(state=RunState.RUNNING, time=at))
        for part in range(EVALUATIONS):
            count = STEPS // EVALUATIONS
            curves = [np.abs(np.random.default_rng(part).normal(1, 0.2, count)).astype(m.dtype) for m in per_step]
            first, seconds = part * count, 0.01 * (part + 1)
            values = tuple(curve.astype(curve.dtype.newbyteorder("<")).tobytes() for curve in curves)
            writer.append(
                Points(
                    schema=1, first=first, count=count, seconds=0.01, clock=seconds, values=values, time=at + seconds
                )
            )
            if others:
                numbers = {metric.name: 0.8 + 0.01 * part for metric in others}
                writer.append(Evaluation(step=first + count, values=numbers, time=at + seconds))
        end_run(begun, writer, time=at + 30)
