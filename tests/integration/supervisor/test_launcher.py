"""Who writes the end of a run that the supervisor did not start: its own guard, and nobody at the same time."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from clew_agent.processes.guard_mark import GuardMark, guard_pid, mark_path
from clew_agent.supervisor import launcher
from clew_agent.supervisor.launcher import Launcher
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_shared.base import operating_system
from clew_shared.journal.events import Seal
from clew_shared.journal.files import JournalWriter
from clew_shared.spec import RunSpec
from tests.integration.agent_runs import events
from tests.integration.agents import Agent, wait_for
from tests.unit.runs import begin_run, describe

GUARD = """
import subprocess, sys
from pathlib import Path
from clew_agent.processes.guard_mark import GuardMark
assert GuardMark(Path(sys.argv[1])).take()
trainer = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(trainer.pid, flush=True)
trainer.wait()
print("sealing", flush=True)
sys.stdin.read()
"""


def test_a_run_whose_guard_takes_long_to_seal_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "_GONE_FOR_S", 0.0)
    monkeypatch.setattr(launcher, "_ASK_EVERY_S", 0.0)
    folder = begin_run(tmp_path / "run")
    hands = Launcher(tmp_path)
    words = [sys.executable, "-c", GUARD, str(folder.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        trainer = psutil.Process(int(guard.stdout.readline()))
        with JournalWriter.create(folder.journal(1)) as writer:
            here = {"host": operating_system.host_name(), "boot": operating_system.boot_id(), "pid": trainer.pid}
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


HOLDER = """
import subprocess, sys, time
from pathlib import Path
from clew_agent.processes.guard_mark import GuardMark
mark = GuardMark(Path(sys.argv[1]))
print(mark.take(), flush=True)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], close_fds=False)
print(child.pid, flush=True)
time.sleep(600)
"""


def test_a_mark_belongs_to_one_process_and_ends_with_it_though_its_children_live(tmp_path: Path) -> None:
    assert guard_pid(tmp_path) is None
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        child = psutil.Process(int(holder.stdout.readline()))
        try:
            assert guard_pid(tmp_path) == guard_pid(tmp_path / ".." / tmp_path.name) == holder.pid
            assert not GuardMark(tmp_path).take()
            holder.kill()
            holder.wait()
            assert guard_pid(tmp_path) is None
            assert child.is_running()
        finally:
            holder.kill()
            child.kill()


def test_an_agent_that_ends_leaves_no_mark_of_a_guard_that_was_killed(tmp_path: Path) -> None:
    """That of a run that ended by itself without its guard, as nobody gives its slot back."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        child = psutil.Process(int(holder.stdout.readline()))
        serving = Agent()
        serving.address()
        assert serving.end() == 0
        assert mark_path(tmp_path).exists(), "its guard lives"
        holder.kill()
        child.kill()
    serving = Agent()
    serving.address()
    assert serving.end() == 0
    assert not mark_path(tmp_path).exists()


def test_a_released_mark_leaves_nothing(tmp_path: Path) -> None:
    mark = GuardMark(tmp_path)
    assert mark.take()
    mark.release()
    assert not mark_path(tmp_path).exists()
    assert GuardMark(tmp_path).take()


def test_a_guard_watches_also_where_no_mark_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "clew").touch()
    mark = GuardMark(tmp_path)
    assert mark.take()
    mark.release()
    assert guard_pid(tmp_path) is None


def test_without_locks_a_mark_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_handle: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(operating_system, "lock_for_process", refuse)
    mark = GuardMark(tmp_path)
    assert mark.take()
    assert mark_path(tmp_path).exists()
    assert guard_pid(tmp_path) is None
    mark.release()


FULL = """
import errno, os, sys, time
from pathlib import Path
from clew_agent.processes.guard_mark import GuardMark
def write(*_):
    raise OSError(errno.ENOSPC, "No space left on device")
os.write = write
print(GuardMark(Path(sys.argv[1])).take(), flush=True)
time.sleep(600)
"""


def test_a_mark_counts_also_when_its_guard_cannot_be_named(tmp_path: Path) -> None:
    words = [sys.executable, "-c", FULL, str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as guard:
        assert guard.stdout is not None
        assert guard.stdout.readline() == "True\n"
        assert guard_pid(tmp_path) == 0
        guard.kill()
