"""What every starter of runs must do, whether its processes are copies or have waited: with real guards and trainers,
and the stand-in exercise in place of TensorFlow."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from clew_agent.node.devices import GIVEN
from clew_agent.processes.guard_mark import guard_pid
from clew_agent.processes.nursery_client import NurseryClient
from clew_agent.processes.nursery_messages import GuardEnded, Started
from clew_agent.processes.run_starter import RunStarter
from clew_agent.processes.standby_keeper import StandbyKeeper
from clew_agent.supervisor.launcher import Launcher
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_shared.base import operating_system
from clew_shared.journal.events import Attempt, Event, Points
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.lifecycle import RunFold, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.params import Value
from clew_shared.spec import RunSpec, to_toml
from tests.integration.agents import wait_for
from tests.integration.faults.programs import PROGRAM, STOPS_LATE

Make = Callable[..., RunStarter]
ENDLESS: dict[str, Value] = {"steps": 100_000_000, "pause": 0.01}


def nursery(home: Path, idle: float = 600.0) -> RunStarter:
    return NurseryClient(home, command=(*PROGRAM, "nursery"), idle=idle)


def standby(home: Path, idle: float = 600.0) -> RunStarter:
    return StandbyKeeper(home, command=(*PROGRAM, "standby", "guard"), idle=idle)


STARTERS = [pytest.param(nursery, marks=pytest.mark.needs("fork")), standby]


@pytest.fixture
def no_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A TensorFlow that cannot be imported, for all processes that are started: nothing but an exercise may need it."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "tensorflow.py").write_text("raise RuntimeError('imported without need')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"), prepend=os.pathsep)


@pytest.fixture(params=STARTERS, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest, home: Path, no_tensorflow: None) -> Iterator[Callable[..., RunStarter]]:
    made: list[RunStarter] = []

    def tended(**options: float) -> RunStarter:
        made.append(request.param(home, **options))
        made[-1].tend(needed=True)
        return made[-1]

    yield tended
    for each in made:
        each.close()


def run_folder(home: Path, **params: Value) -> RunFolder:
    run = str(uuid.uuid4())
    folder = RunFolder(home / "runs" / run)
    folder.path.mkdir(parents=True)
    folder.spec.write_text(to_toml(RunSpec(exercise="stand-in", run=run, params=params)), newline="\n")
    return folder


def events(folder: RunFolder) -> list[Event]:
    path = folder.journal(1)
    items = read_journal(path) if path.exists() else ()
    return [item.event for item in items if isinstance(item, Record) and item.event is not None]


def fold_of(folder: RunFolder) -> RunFold:
    fold = RunFold()
    for event in events(folder):
        fold.feed(1, event)
    return fold


def until_ended(starter: RunStarter) -> list[object]:
    """What the starter says, in its order, until the guard has ended."""
    told: list[object] = []

    def ended() -> bool:
        starter.tend(needed=True)
        told.extend(starter.receive())
        return any(isinstance(one, GuardEnded) for one in told)

    wait_for(ended, "the guard's end")
    return told


def trains(folder: RunFolder) -> bool:
    return any(isinstance(event, Points) for event in events(folder))


def test_a_run_begins_with_its_environment_and_both_its_ends_are_reported(make: Make, home: Path) -> None:
    starter, folder = make(), run_folder(home)
    assert starter.start(folder.path, 1, None, {GIVEN: "one GPU"})
    begun, ended = until_ended(starter)
    assert begun == Started(folder=str(folder.path), pid=begun.pid)  # type: ignore[attr-defined]
    assert ended == GuardEnded(folder=str(folder.path), pid=begun.pid, exit_code=0)
    first = next(event for event in events(folder) if isinstance(event, Attempt))
    assert first.devices == ("one GPU",)
    assert fold_of(folder).state is RunState.FINISHED
    assert verify_run(folder.path).findings == ()
    assert "The stand-in begins" in folder.log.read_text()


def test_after_one_run_another_begins(make: Make, home: Path) -> None:
    starter = make()
    for _ in range(2):
        folder = run_folder(home)

        def accepted(folder: RunFolder = folder) -> bool:
            starter.tend(needed=True)
            return starter.start(folder.path, 1, None, {})

        wait_for(accepted, "a starter that is ready")
        until_ended(starter)
        assert fold_of(folder).state is RunState.FINISHED


def test_a_run_that_is_killed_before_anything_was_heard_of_it_is_stopped(make: Make, home: Path) -> None:
    folder = run_folder(home, **ENDLESS)
    launcher = Launcher(home, starter=make())
    launcher.start(folder.path, 1)
    launcher.kill(TrackedRun(folder, RunSpec(exercise="stand-in")), 1)
    assert wait_for(launcher.reap, "the sealer's end") == [(folder.path.name, 0)]
    assert fold_of(folder).state is RunState.STOPPED
    assert guard_pid(folder.path) is None
    launcher.close()


def listens(guard: int) -> bool:
    """Whether the process has begun to take requests to stop: before, they end it."""
    with suppress(OSError):
        lines = Path(f"/proc/{guard}/status").read_text().splitlines()
        caught = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt"))
        return bool(caught >> signal.SIGTERM - 1 & 1)
    return False


@pytest.mark.needs("fork")  # and /proc
def test_a_run_that_is_asked_to_stop_while_its_trainer_imports_stops(make: Make, home: Path) -> None:
    starter, folder = make(), run_folder(home, **ENDLESS)
    assert starter.start(folder.path, 1, None, {})
    wait_for(lambda: listens(guard_pid(folder.path) or 0), "the guard")
    operating_system.ask_to_stop(guard_pid(folder.path) or 0)
    until_ended(starter)
    assert fold_of(folder).state is RunState.STOPPED
    assert fold_of(folder).sealed


@pytest.mark.parametrize("make", [standby], indirect=True)  # a copy that does not listen yet dies of it
def test_a_run_that_is_asked_to_stop_between_its_import_and_its_first_frame_stops(
    make: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STOPS_LATE, "1")
    starter, folder = make(), run_folder(home, **ENDLESS)
    assert starter.start(folder.path, 1, None, {})
    until_ended(starter)
    assert fold_of(folder).state is RunState.STOPPED
    assert fold_of(folder).sealed


def test_runs_outlive_the_starter(make: Make, home: Path) -> None:
    starter, folder = make(), run_folder(home, **ENDLESS)
    assert starter.start(folder.path, 1, None, {})
    wait_for(lambda: trains(folder), "the training")
    starter.close()
    size = folder.journal(1).stat().st_size
    wait_for(lambda: folder.journal(1).stat().st_size > size, "more of the curve")
    guard = guard_pid(folder.path) or 0
    operating_system.ask_to_stop(guard)
    wait_for(lambda: fold_of(folder).sealed, "the seal")
    assert fold_of(folder).state is RunState.STOPPED
    with suppress(psutil.NoSuchProcess):
        psutil.Process(guard).wait(30)


def test_what_waits_ends_when_nobody_needs_it_and_comes_again(make: Make) -> None:
    before = {child.pid for child in psutil.Process().children()}
    starter = make(idle=0.5)

    def family() -> set[int]:
        return {child.pid for child in psutil.Process().children()} - before

    assert family()

    def over() -> bool:
        starter.tend(needed=False)
        starter.receive()
        return not family()

    wait_for(over, "its end")

    def again() -> set[int]:
        starter.tend(needed=True)
        return family()

    wait_for(again, "another one")


PARENT = """
import sys, time
from pathlib import Path
from tests.contract.test_run_starters import nursery, standby
starter = globals()[sys.argv[1]](Path(sys.argv[2]))
while True:
    starter.tend(needed=True)
    starter.receive()
    time.sleep(0.05)
"""


def test_what_waits_ends_with_its_agent(make: Make, home: Path, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id
    parent = subprocess.Popen([sys.executable, "-c", PARENT, name, str(home)])
    root = psutil.Process(parent.pid)
    wait_for(lambda: len(root.children(recursive=True)) >= (2 if name == "standby" else 1), "what waits")
    family = root.children(recursive=True)
    parent.kill()
    parent.wait(30)
    wait_for(lambda: not any(map(operating_system.is_alive, (one.pid for one in family))), "the end of all")
