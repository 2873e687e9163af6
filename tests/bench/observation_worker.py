"""One contender of the benchmark of observation: ``tests.bench.observation_worker EXERCISE WHO STEPS``.

``nobody`` runs the blocks and drops their arrays. ``reader`` is the trainer's own loop with its journal on the disk, a
supervisor and a reader that does not paint; ``window`` has the real window instead. Seconds are the processor's, of
this process alone, with all of its threads; the result is the wall-clock rate.
"""

from __future__ import annotations

import gc
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
from pathlib import Path

from clew_agent import posix
from clew_agent.control import Commands
from clew_agent.loop import SCHEMA, Loop
from clew_agent.recorder import Recorder, Reserve
from clew_agent.training.engine import Engine
from clew_agent.training.runtime import configure
from clew_shared.events import Attempt, Schema, State
from clew_shared.journal import JOURNAL_FORMAT, JournalWriter, journal_path
from clew_shared.lifecycle import RunState
from clew_shared.params import build
from clew_shared.places import Places
from clew_shared.runfolder import RunFolder, final_files
from clew_shared.spec import RunSpec, to_toml
from tests.bench.clew_style import find_exercise
from tests.bench.measure import Timing
from tests.bench.work import bench_data

_ATTACH_S = 60.0


class Steps(Loop):
    """The trainer's loop without what is no step: checkpoints and the evaluation at the end."""

    def _save(self) -> None:
        pass

    def _evaluate(self) -> None:
        pass


def make_engine(exercise: str, steps: int) -> Callable[[], Engine]:
    """A function that makes a compiled engine for a round; nothing is evaluated on the way."""
    found = find_exercise(exercise)
    long = {"evaluate_every": steps} if found.datasets else {}
    settings = build(found.Settings, {"steps": steps, **long})
    data = bench_data() if found.datasets else None

    def make() -> Engine:
        gc.collect()
        engine = Engine(found, settings, 1, data)
        engine.compile()
        return engine

    return make


def to_nobody(engine: Engine) -> tuple[float, float]:
    """Processor and wall seconds of all blocks, whose arrays are dropped."""
    cpu, wall = time.process_time(), time.perf_counter()
    while not engine.done:
        engine.run_block()
    return time.process_time() - cpu, time.perf_counter() - wall


class Observed:
    """A home with a supervisor and a viewer; each round is a new run in it."""

    def __init__(self, exercise: str, viewer: list[str]) -> None:
        self._exercise = exercise
        self._home = Path(tempfile.mkdtemp(prefix="clew-bench-"))
        environment = {**os.environ, "CLEW_HOME": str(self._home)}
        command = [sys.executable, "-m", "tests.bench.reader", *viewer]
        self._viewer = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
        )

    def train(self, engine: Engine) -> tuple[float, float]:
        """Processor and wall seconds from the first block until all points are in the journal."""
        run = str(uuid.uuid4())
        places = Places(self._home, self._home)
        folder = RunFolder(places.runs / run)
        writer = self._begin(folder, run, engine.steps)
        recorder = Recorder(writer, Reserve(folder.path / "reserve"))
        recorder.start()
        recorder.put(Schema(id=SCHEMA, metrics=engine.per_step, steps=engine.steps))
        self._wait_for(journal_path(places.mirrors / run, 1))
        loop = Steps(engine, recorder, Commands(), folder)
        cpu, wall = time.process_time(), time.perf_counter()
        loop.run()
        recorder.flush()
        seconds = time.process_time() - cpu, time.perf_counter() - wall
        self._end(folder, recorder)
        return seconds

    def _begin(self, folder: RunFolder, run: str, steps: int) -> JournalWriter:
        folder.path.mkdir(parents=True)
        spec = to_toml(RunSpec(exercise=self._exercise, run=run))
        folder.spec.write_text(spec, encoding="utf-8")
        writer = JournalWriter.create(folder.journal(1))
        first = Attempt(
            format=JOURNAL_FORMAT,
            run=run,
            attempt=1,
            exercise=self._exercise,
            spec_sha256=hashlib.sha256(spec.encode()).hexdigest(),
            host=posix.host_name(),
            boot=posix.boot_id(),
            pid=os.getpid(),
            steps=steps,
            time=time.time(),
        )
        writer.append(first)
        writer.append(State(state=RunState.STARTING, time=time.time()))
        writer.append(State(state=RunState.PREPARING, time=time.time()))
        return writer

    def _wait_for(self, mirror: Path) -> None:
        """The viewer is attached once its copy has begun."""
        deadline = time.monotonic() + _ATTACH_S
        while not mirror.exists():
            if time.monotonic() > deadline or self._viewer.poll() is not None:
                raise TimeoutError("the viewer did not attach")
            time.sleep(0.02)

    def _end(self, folder: RunFolder, recorder: Recorder) -> None:
        with recorder.close() as writer:
            for files in final_files(folder.path):
                writer.append(files)
            writer.append(State(state=RunState.FINISHED, time=time.time()))
            writer.seal("trainer")

    def close(self) -> None:
        """End viewer and agent."""
        assert self._viewer.stdin is not None
        self._viewer.stdin.close()
        self._viewer.wait(60)
        shutil.rmtree(self._home, ignore_errors=True)


def main() -> None:
    """Serve rounds until standard input ends."""
    exercise, who, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    configure()
    make = make_engine(exercise, steps)
    observed = None if who == "nobody" else Observed(exercise, ["--paint", exercise] if who == "window" else [])
    for _ in sys.stdin:
        engine = make()
        cpu, wall = to_nobody(engine) if observed is None else observed.train(engine)
        print(json.dumps(Timing(steps, cpu, steps / wall)._asdict()), flush=True)
    if observed is not None:
        observed.close()


if __name__ == "__main__":
    main()
