"""Stands in for guard and trainer in tests of the supervisor and the session: writes a journal, obeys commands.

``python -m tests.integration.stand_in_guard RUN_FOLDER --attempt N``; the hyperparameters in the run spec say how it
behaves: ``steps``, ``pause`` (seconds after each block), and ``fault`` (``deaf``: obeys nobody, ``dies``: at once,
``hurries``: a further attempt makes no pauses).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from array import array
from pathlib import Path

import msgspec

from clew_agent.node.allocation import read_allocation
from clew_agent.node.devices import given
from clew_agent.trainer.control import Control, ControlRequests
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Attempt, Event, Live, Log, Points, Schema, State
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.spec import RunSpec, read_spec
from clew_shared.wire.messages import Pause, SetLive, Stop, Unpause

_BLOCK = 10


class Trainer:
    """Writes blocks of ten steps whose loss is 1 / (1 + step)."""

    def __init__(self, folder: RunFolder, attempt: int) -> None:
        self.folder = folder
        self.spec: RunSpec = read_spec(folder.spec)
        self.step = 0
        self.writer = JournalWriter.create(folder.journal(attempt))
        self.write(
            Attempt(
                format=JOURNAL_FORMAT,
                run=self.spec.run,
                attempt=attempt,
                exercise=self.spec.exercise,
                spec_sha256=hashlib.sha256(folder.spec.read_bytes()).hexdigest(),
                host=operating_system.host_name(),
                boot=operating_system.boot_id(),
                pid=os.getpid(),
                steps=int(self.number("steps")),
                devices=given(),
                job=read_allocation().job,
            )
        )
        self.write(Schema(id=1, metrics=(MetricSpec(name="loss", label="loss", better="lower"),)))

    def number(self, name: str) -> float:
        return float(self.spec.params.get(name) or 0)

    def write(self, event: Event) -> None:
        self.writer.append(msgspec.structs.replace(event, time=time.time()))

    def block(self) -> None:
        values = array("f", [1.0 / (1 + step) for step in range(self.step, self.step + _BLOCK)]).tobytes()
        self.write(Points(schema=1, first=self.step, count=_BLOCK, seconds=0.01, clock=0.01, values=(values,)))
        self.step += _BLOCK

    def end(self, state: RunState, reason: str = "") -> None:
        for files in final_files(self.folder.path):
            self.write(files)
        self.write(State(state=state, reason=reason, step=self.step))
        self.writer.seal("trainer")
        self.writer.close()


def train(trainer: Trainer, commands: ControlRequests, attempt: int) -> RunState:
    """Blocks until the steps are done or somebody says stop."""
    trainer.write(Log(text=f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES')}"))
    trainer.write(State(state=RunState.RUNNING))
    fault = trainer.spec.params.get("fault")
    paused, deaf = False, fault == "deaf"
    pause = 0.0 if fault == "hurries" and attempt > 1 else trainer.number("pause")
    while trainer.step < trainer.number("steps"):
        for command in [] if deaf else commands.take():
            match command:
                case Stop():
                    return RunState.STOPPED
                case Pause() | Unpause():
                    paused = isinstance(command, Pause)
                    trainer.write(State(state=RunState.PAUSED if paused else RunState.RUNNING, step=trainer.step))
                case SetLive():
                    trainer.write(Live(name=command.name, value=command.value, step=trainer.step))
        if not paused:
            trainer.block()
        time.sleep(pause)
    return RunState.FINISHED


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    options = parser.parse_args()
    folder = RunFolder(options.folder)
    trainer, commands = Trainer(folder, options.attempt), ControlRequests()
    if trainer.spec.params.get("fault") == "dies":
        os._exit(9)
    control = Control(find_places(), trainer.spec.run, options.attempt, commands, lambda _command: None)
    control.start()
    try:
        trainer.end(train(trainer, commands, options.attempt))
    finally:
        control.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
