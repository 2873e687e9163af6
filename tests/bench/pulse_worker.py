"""One trainer of the benchmark of the pulse: ``tests.bench.pulse_worker EXERCISE SECONDS``.

Each round is a pair of stretches through the trainer's own loop with its journal: one while a process beside it samples
it into the spool that its recorder empties, one while that process is stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from clew_agent.node.pulse.sampler import sampling
from clew_agent.node.pulse.spool import GuardSamples, SpoolWriter, spool_folder
from clew_agent.trainer.control import ControlRequests
from clew_agent.trainer.loop import SCHEMA
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_agent.training.engine import Engine
from clew_agent.training.runtime import configure
from clew_shared.base import operating_system
from clew_shared.journal.events import Event, Pulse, Schema
from clew_shared.journal.files import JournalWriter, Record, read_journal
from clew_shared.journal.run_folder import RunFolder
from tests.bench.observation_worker import Steps, Used, go_on, make_engine, used

_STEP_S = 0.25
"""Seconds of steps that are done between two looks at the clock."""


def sample(folder: RunFolder, trainer: int) -> Callable[[], int]:
    """Returns the sampling process: what a guard does beside waiting."""

    def work() -> int:
        operating_system.die_with_parent(by_force=True)
        with sampling(lambda: trainer, SpoolWriter(spool_folder(folder, 1)).add, folder, 1):
            while True:
                time.sleep(60)

    return work


class Sampled:
    """A run whose journal takes stretches, and its sampler."""

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        self.sampler = psutil.Process(operating_system.fork(sample(self.folder, os.getpid())).pid)
        self.sampler.suspend()
        self.taking = 0.0
        """Processor seconds in which the trainer has taken samples."""

    def begin(self, engine: Engine) -> None:
        """Open the journal; after the fork, because it begins a thread."""
        samples = GuardSamples(self.folder, 1)

        def take(last: bool) -> list[Event]:
            begun = time.thread_time()
            events = samples.events(last)
            self.taking += time.thread_time() - begun
            return events

        writer = JournalWriter.create(self.folder.journal(1))
        self._recorder = Recorder(writer, Reserve(self.folder.path / "reserve"), beside=take)
        self._recorder.start()
        self._recorder.put(Schema(id=SCHEMA, metrics=engine.course.per_step, steps=engine.steps))

    def train(self, engine: Engine, seconds: float, pace: int) -> Used:
        """Train for so long, ``pace`` steps at a time."""
        end = time.perf_counter() + seconds

        def work() -> None:
            while time.perf_counter() < end:
                go_on(engine, pace)
                Steps(engine, self._recorder, ControlRequests(), self.folder).run()
            self._recorder.flush()

        return used(engine, work)

    def busy(self) -> float:
        """Processor seconds of the sampler so far."""
        times = self.sampler.cpu_times()
        return times.user + times.system

    def samples(self) -> int:
        """How many samples are in the journal."""
        items = read_journal(self.folder.journal(1))
        events = (item.event for item in items if isinstance(item, Record))
        return sum(len(event.times) // 8 for event in events if isinstance(event, Pulse))

    def pair(self, engine: Engine, seconds: float, pace: int, sampled_first: bool) -> dict[str, object]:
        """One round."""
        found: dict[str, object] = {}
        for kind in ("sampled", "without") if sampled_first else ("without", "sampled"):
            if kind == "sampled":
                self.sampler.resume()
            before, known, taken = self.busy(), self.samples(), self.taking
            found[kind] = self.train(engine, seconds, pace)
            if kind == "sampled":
                self.sampler.suspend()
                found |= {"sampler": self.busy() - before, "samples": self.samples() - known}
                found["taking"] = self.taking - taken
        return found


def main() -> None:
    """Serve rounds until standard input ends."""
    exercise, seconds = sys.argv[1], float(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        run = Sampled(Path(folder))
        try:
            configure()
            engine = make_engine(exercise)
            go_on(engine, 10)
            run.begin(engine)
            first = run.train(engine, 1.0, 1)
            pace = max(1, round(first.steps / first.wall * _STEP_S))
            for number, _ in enumerate(sys.stdin):
                print(json.dumps(run.pair(engine, seconds, pace, sampled_first=number % 2 == 0)), flush=True)
        finally:
            run.sampler.send_signal(signal.SIGKILL)
            run.sampler.resume()


if __name__ == "__main__":
    main()
