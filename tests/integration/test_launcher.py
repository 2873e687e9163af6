"""Who writes the end of a run that the supervisor did not start: its own guard, and nobody at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from clew_agent import launcher, posix
from clew_agent.launcher import Launcher
from clew_agent.tracked_run import TrackedRun
from clew_shared.events import Seal
from clew_shared.journal import JournalWriter
from clew_shared.spec import RunSpec
from tests.integration.agent_runs import events
from tests.integration.agents import wait_for
from tests.unit.runs import begin_run, describe

GUARD = """
import subprocess, sys
trainer = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(trainer.pid, flush=True)
trainer.wait()
print("sealing", flush=True)
sys.stdin.read()
"""


def test_a_headless_run_whose_guard_takes_long_to_seal_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "_GONE_FOR_S", 0.0)
    monkeypatch.setattr(launcher, "_ASK_EVERY_S", 0.0)
    folder = begin_run(tmp_path / "run")
    hands = Launcher(tmp_path)
    words = [sys.executable, "-c", GUARD, "run"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        trainer = psutil.Process(int(guard.stdout.readline()))
        with JournalWriter.create(folder.journal(1)) as writer:
            here = {"host": posix.host_name(), "boot": posix.boot_id(), "pid": trainer.pid}
            writer.append(describe(folder, 1, time=trainer.create_time(), **here))
        tracked = TrackedRun(folder, RunSpec(exercise="toy"))
        tracked.adopt()
        tracked.refresh()
        hands.seal_the_dead([tracked])
        trainer.kill()
        assert guard.stdout.readline() == "sealing\n"
        for _ in range(3):
            hands.seal_the_dead([tracked])
            assert not hands.has(tracked.run)
    hands.seal_the_dead([tracked])
    assert hands.has(tracked.run), "the guard has died as well"
    wait_for(hands.reap, "the sealer's end")
    assert sum(isinstance(event, Seal) for event in events(folder.path)) == 1
