"""One trainer of the benchmark of observation: ``tests.bench.observation_worker EXERCISE VIEWER STEPS``.

Each round is a pair: the same number of steps by the same engine once to nobody, and once through the trainer's own
loop with its journal on the disk, a supervisor and a viewer that was attached before (``reader``, which does not paint,
or ``window``, the real one). Which of the two comes first changes from round to round. Both wait until the viewer has
nothing left to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import psutil

from clew_agent.catalogue.examine import find_exercise
from clew_agent.trainer.control import ControlRequests
from clew_agent.trainer.loop import SCHEMA, Loop
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_agent.training.engine import Engine
from clew_agent.training.runtime import configure
from clew_gui.targets.local_agent import find_agent
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.journal.events import Attempt, Schema, State
from clew_shared.journal.files import JOURNAL_FORMAT, JournalWriter, journal_path
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.params import build
from clew_shared.spec import RunSpec, to_toml
from tests.bench.work import bench_data

_LONG = 10**6
"""Steps for which the engine is made: enough for blocks of any length."""
_MANY = 10**9
"""Steps that it has then: it never ends by itself."""
_ATTACH_S = 60.0
_CATCH_UP_S = 600.0


class Used(NamedTuple):
    """What a stretch of training took: its steps, this process's processor seconds, and seconds by the clock."""

    steps: int
    cpu: float
    wall: float


class Steps(Loop):
    """The trainer's loop without what is no step: checkpoints and the evaluation at the end."""

    def _save(self) -> None:
        pass

    def _evaluate(self) -> None:
        pass

    def _prepare_evaluation(self) -> None:
        pass


def make_engine(exercise: str) -> Engine:
    """A compiled engine that evaluates nothing on the way."""
    found = find_exercise(exercise, None)[0]
    engine = Engine(found, build(found.Settings, {"steps": _LONG}), 1, bench_data() if found.datasets else None)
    engine.course.plan = replace(engine.course.plan, steps=_MANY, evaluate_every=_MANY)
    engine.compile()
    return engine


def used(engine: Engine, work: Callable[[], object]) -> Used:
    """Do ``work`` and say what it took."""
    first, cpu, wall = engine.step, time.process_time(), time.perf_counter()
    work()
    return Used(engine.step - first, time.process_time() - cpu, time.perf_counter() - wall)


def go_on(engine: Engine, steps: int) -> None:
    """Let so many more steps be the rest of the run."""
    engine.course.plan = replace(engine.course.plan, steps=engine.step + steps)


def to_nobody(engine: Engine, steps: int) -> Used:
    """So many steps in blocks, whose arrays are dropped."""
    go_on(engine, steps)

    def work() -> None:
        while not engine.done:
            engine.run_block()

    return used(engine, work)


class Observed:
    """A home with a supervisor, a viewer and one run, to whose journal stretches are added."""

    def __init__(self, exercise: str, viewer: list[str], engine: Engine) -> None:
        self._exercise = exercise
        self._engine = engine
        self._home = Path(tempfile.mkdtemp(prefix="clew-bench-"))
        environment = {**os.environ, "CLEW_HOME": str(self._home)}
        command = [sys.executable, "-m", "tests.bench.reader", *viewer]
        self._viewer = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )
        run = str(uuid.uuid4())
        self._places = Places(self._home, self._home)
        self._folder = RunFolder(self._places.runs / run)
        self._mirror = journal_path(self._places.mirrors / run, 1)
        self._recorder = Recorder(self._begin(run), Reserve(self._folder.path / "reserve"))
        self._recorder.start()
        self._recorder.put(Schema(id=SCHEMA, metrics=engine.course.per_step, steps=engine.steps))
        self.wait(_ATTACH_S)

    def train(self, steps: int) -> Used:
        """So many steps, from the first block until all their points are in the journal."""
        go_on(self._engine, steps)
        loop = Steps(self._engine, self._recorder, ControlRequests(), self._folder)

        def work() -> None:
            loop.run()
            self._recorder.flush()

        return used(self._engine, work)

    def wait(self, bound: float = _CATCH_UP_S) -> None:
        """Until the viewer's copy is as long as the journal, and a moment longer, so that it is painted as well."""
        self._recorder.flush()
        deadline = time.monotonic() + bound
        while not self._mirror.exists() or self._mirror.stat().st_size < self.size:
            if time.monotonic() > deadline or self._viewer.poll() is not None:
                raise TimeoutError("the viewer does not follow")
            time.sleep(0.02)
        time.sleep(0.2)

    @property
    def size(self) -> int:
        """Bytes in the journal."""
        return self._folder.journal(1).stat().st_size

    def watching(self) -> float:
        """Processor seconds of viewer and supervisor so far."""
        watching = [psutil.Process(self._viewer.pid)]
        if (address := find_agent(self._places)) is not None:
            watching.append(psutil.Process(address.pid))
        times = [process.cpu_times() for process in watching]
        return sum(found.user + found.system for found in times)

    def _begin(self, run: str) -> JournalWriter:
        self._folder.path.mkdir(parents=True)
        spec = to_toml(RunSpec(exercise=self._exercise, run=run))
        self._folder.spec.write_text(spec, encoding="utf-8")
        writer = JournalWriter.create(self._folder.journal(1))
        first = Attempt(
            format=JOURNAL_FORMAT,
            run=run,
            attempt=1,
            exercise=self._exercise,
            spec_sha256=hashlib.sha256(spec.encode()).hexdigest(),
            host=operating_system.host_name(),
            boot=operating_system.boot_id(),
            pid=os.getpid(),
            steps=self._engine.steps,
            time=time.time(),
        )
        writer.append(first)
        writer.append(State(state=RunState.STARTING, time=time.time()))
        writer.append(State(state=RunState.PREPARING, time=time.time()))
        return writer

    def close(self) -> None:
        """End the run, the viewer and the agent."""
        with self._recorder.close() as writer:
            for files in final_files(self._folder.path):
                writer.append(files)
            writer.append(State(state=RunState.STOPPED, time=time.time()))
            writer.seal("trainer")
        assert self._viewer.stdin is not None
        self._viewer.stdin.close()
        self._viewer.wait(60)
        shutil.rmtree(self._home, ignore_errors=True)


def pair(engine: Engine, observed: Observed, steps: int, nobody_first: bool) -> dict[str, object]:
    """One round: both stretches, what the other processes took meanwhile, and how long the journal became."""
    nobody = to_nobody(engine, steps) if nobody_first else None
    before, size = observed.watching(), observed.size
    watched = observed.train(steps)
    observed.wait()
    size = observed.size - size
    return {
        "nobody": nobody or to_nobody(engine, steps),
        "observed": watched,
        "watching": observed.watching() - before,
        "bytes": size,
    }


def main() -> None:
    """Serve rounds until standard input ends."""
    exercise, viewer, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    configure()
    engine = make_engine(exercise)
    observed = Observed(exercise, ["--paint", exercise] if viewer == "window" else [], engine)
    try:
        for number, _ in enumerate(sys.stdin):
            print(json.dumps(pair(engine, observed, steps, nobody_first=number % 2 == 0)), flush=True)
    finally:
        observed.close()


if __name__ == "__main__":
    main()
