"""Real attempts of a real run in this process: training, loop, journal and checkpoints; a crash is an exception.

TensorFlow is loaded only for an attempt that trains with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from clew_agent.datasets.dataset import DataSet
from clew_agent.engine.base import TrainingEngine
from clew_agent.trainer.control import Command, ControlRequests
from clew_agent.trainer.endings import endings
from clew_agent.trainer.first_frame import describe_attempt
from clew_agent.trainer.loop import SCHEMA, Loop
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_agent.trainer.time_limit import Timekeeper
from clew_agent.trainer.tracing import StepProfiler, StepTracing
from clew_shared.journal.events import Schema, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.spec import RunSpec, read_spec, to_toml
from clew_shared.wire.messages import SetLive, Stop

BLOCK = 10
RUN = "attempts"


class Crash(Exception):
    """The trainer is dead."""


class Script(ControlRequests):
    """Gives each command once its step is reached, several of one step one after the other, and dies at the step
    ``crash``."""

    def __init__(
        self, step: Callable[[], int], commands: Mapping[int, Command | Sequence[Command]], crash: int | None
    ) -> None:
        super().__init__()
        self._step = step
        self._commands = {at: list(one) if isinstance(one, Sequence) else [one] for at, one in commands.items()}
        self._crash = crash

    def take(self) -> list[Command]:
        """The commands that are due."""
        if self._step() == self._crash:
            raise Crash
        for due in (due for step, due in self._commands.items() if step <= self._step() and due):
            self.put(due.pop(0))
        return super().take()


def rate(value: float) -> SetLive:
    """Somebody changes the learning rate."""
    return SetLive(run=RUN, name="learning_rate", value=value)


STOP = Stop(run=RUN)


def new_run(path: Path, exercise: str = "linear-regression", **params: Any) -> RunFolder:
    """The folder of a run without attempts."""
    path.mkdir()
    folder = RunFolder(path)
    spec = RunSpec(exercise=exercise, run=RUN, params={"checkpoint_every": 100, "steps": 500} | params)
    folder.spec.write_text(to_toml(spec), encoding="utf-8")
    return folder


def tensorflow_engine(spec: RunSpec, data: DataSet | None) -> TrainingEngine:
    """The product's own engine, in blocks of ``BLOCK`` steps."""
    from clew_agent.exercises import linear_regression, softmax
    from tests.exercises.training import make_engine

    exercise = {one.EXERCISE.id: one.EXERCISE for one in (linear_regression, softmax)}[spec.exercise]
    return make_engine(exercise, dict(spec.params), data, block_steps=blocks)


def blocks(room: int) -> int:
    """Blocks of ``BLOCK`` steps."""
    return min(BLOCK, room)


def attempt(
    folder: RunFolder,
    commands: Mapping[int, Command | Sequence[Command]] | None = None,
    crash: int | None = None,
    seal: bool = True,
    data: DataSet | None = None,
    timekeeper: Callable[[ControlRequests, Recorder], Timekeeper] | None = None,
    engine_of: Callable[[RunSpec, DataSet | None], TrainingEngine] = tensorflow_engine,
    profiler: StepProfiler | None = None,
) -> None:
    """The next attempt of the run, from where it has to begin to its end or to the step ``crash``.

    After a crash ``seal`` says whether a guard is there to write the end.
    """
    number = max(folder.attempts(), default=0) + 1
    spec = read_spec(folder.spec)
    writer = JournalWriter.create(folder.journal(number))
    recorder = Recorder(writer, Reserve(folder.path / ".reserve"))
    recorder.start()
    first, start = describe_attempt(folder, number, spec, None)
    engine = engine_of(spec, data)
    if start.checkpoint:
        engine.restore(folder.path / start.checkpoint)
    recorder.put(first)
    recorder.put(Schema(id=SCHEMA, metrics=engine.course.per_step, steps=engine.course.steps))
    script = Script(lambda: engine.course.step, commands or {}, crash)
    loop = Loop(
        engine,
        recorder,
        script,
        folder,
        attempt=number,
        start=start,
        timekeeper=timekeeper(script, recorder) if timekeeper is not None else None,
        endings=endings(folder, spec, engine.course.per_step, engine.course),
        tracing=StepTracing(None if profiler is None else lambda: profiler, recorder.put),
    )
    last: State | None = None
    try:
        last = loop.run()
    except Crash:
        if seal:
            last = State(state=RunState.FAILED, reason="killed")
    with recorder.close():
        if last is not None:
            for files in final_files(folder.path):
                writer.append(files)
            writer.append(last)
            writer.seal("trainer")
