"""The supervisor's end of a standby process, against programs that stand in for one: when one is kept, and who gets it;
and the guard's end of a trainer that has waited."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from clew_agent.node.devices import GIVEN
from clew_agent.node.exit_codes import STOPPED
from clew_agent.processes import run_starter, standby_keeper, standby_process
from clew_agent.processes.nursery_messages import GuardEnded, Started
from clew_agent.processes.standby_keeper import StandbyKeeper
from clew_agent.processes.standby_process import HandedOver
from clew_shared.base import operating_system
from tests.guards import LogBook
from tests.integration.agents import wait_for

OBEDIENT = """
import json, os, sys
line = sys.stdin.readline()
if line:
    request = json.loads(line)
    open(os.path.join(request["folder"], "seen"), "w").write(json.dumps(request["environment"]))
    sys.exit(len(request["environment"]))
"""
TRAINS = "import sys, time; sys.stdin.readline() and time.sleep(600)"
DIES = "raise SystemExit(3)"

Make = Callable[..., StandbyKeeper]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[StandbyKeeper] = []

    def keeper(program: str = OBEDIENT, idle: float = 600.0) -> StandbyKeeper:
        made.append(StandbyKeeper(tmp_path, [sys.executable, "-c", program], idle))
        made[-1].tend(needed=True)
        return made[-1]

    yield keeper
    for each in made:
        for _, guard in each._given.values():
            guard.kill()
            guard.wait()
        each.close()


@pytest.fixture(autouse=True)
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby_keeper, "LEAST_MEMORY", 0)


def test_the_run_is_given_to_the_one_that_waits(make: Make, tmp_path: Path) -> None:
    keeper = make()
    waiting = keeper.kept
    assert waiting is not None
    assert keeper.start(tmp_path, 1, None, {GIVEN: "CPU"})
    told = keeper.receive() + wait_for(keeper.receive, "the guard's end")
    name = str(tmp_path)
    assert told == [Started(folder=name, pid=waiting.pid), GuardEnded(folder=name, pid=waiting.pid, exit_code=1)]
    assert json.loads((tmp_path / "seen").read_text()) == {GIVEN: "CPU"}
    assert not keeper.start(tmp_path, 1, None, {}), "there is none now"


@pytest.mark.parametrize(("cores", "more", "another"), [(2, False, False), (4, False, True), (2, True, True)])
def test_while_a_run_trains_the_next_one_begins_only_where_cores_are_to_spare_or_more_runs_are_expected(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, more: bool, another: bool
) -> None:
    monkeypatch.setattr(operating_system, "usable_cores", lambda: cores)
    monkeypatch.setattr(standby_keeper, "REST_S", 0.0)
    keeper = make(TRAINS)
    assert keeper.start(tmp_path, 1, None, {})
    monkeypatch.setattr(standby_keeper, "REST_S", 3600.0)
    if more:
        keeper.expect_more()
    keeper.tend(needed=True)
    assert (keeper.kept is not None) == another


def test_where_memory_is_short_none_is_begun_and_the_one_that_waits_ends(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = make()
    waiting = keeper.kept
    assert waiting is not None
    monkeypatch.setattr(standby_keeper, "LEAST_MEMORY", 1 << 62)
    keeper.tend(needed=True)
    assert waiting.wait(30) == 0
    keeper.tend(needed=True)
    assert keeper.kept is None


def test_it_ends_when_nobody_needs_it(make: Make) -> None:
    keeper = make(idle=0.0)
    waiting = keeper.kept
    assert waiting is not None
    time.sleep(0.01)
    keeper.tend(needed=False)
    assert (waiting.wait(30), keeper.kept) == (0, None)


def test_after_five_that_ended_without_a_run_no_other_is_begun(
    make: Make, monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    monkeypatch.setattr(run_starter, "_BACK_OFF_S", 0.0)
    keeper, seen = make(DIES), set()
    expect_logs("The standby has ended with exit code 3")
    for _ in range(16):
        seen.add(keeper.kept)
        if keeper.kept is not None:
            keeper.kept.wait(30)
        keeper.tend(needed=True)
    assert len(seen - {None}) == 5
    assert keeper.kept is None


def test_one_that_has_just_died_gets_no_run(make: Make, tmp_path: Path, expect_logs: LogBook) -> None:
    keeper = make(DIES)
    expect_logs("The standby has ended")
    assert keeper.kept is not None
    keeper.kept.wait(30)
    assert not keeper.start(tmp_path, 1, None, {})
    assert keeper.receive() == []


def test_a_run_with_another_environment_begins_fresh_and_the_standby_stays(make: Make, tmp_path: Path) -> None:
    keeper = make()
    waiting = keeper.kept
    assert not keeper.start(tmp_path, 1, None, {"TF_XLA_FLAGS": "of its own"})
    assert keeper.kept is waiting


def test_a_trainer_that_has_computed_nothing_can_have_any_gpu(make: Make, tmp_path: Path) -> None:
    assert make().start(tmp_path, 1, None, {GIVEN: "H100 (1)", "CUDA_VISIBLE_DEVICES": "1"})


# --- The guard's end of its trainer -----------------------------------------------------------------------------------


@pytest.fixture
def handed(tmp_path: Path) -> Iterator[Callable[[str], tuple[HandedOver, list[subprocess.Popen[bytes]]]]]:
    started: list[subprocess.Popen[bytes]] = []

    def popen(words: Sequence[str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(words))
        return started[-1]

    def make(program: str) -> tuple[HandedOver, list[subprocess.Popen[bytes]]]:
        first = popen([sys.executable, "-c", program, str(tmp_path / "journal")])
        fresh = [sys.executable, "-c", "raise SystemExit(7)"]
        return HandedOver(first, tmp_path / "journal", lambda: popen(fresh)), started

    yield make
    for each in started:
        with suppress(OSError):
            each.kill()
        each.wait()


def code_of(child: HandedOver) -> int:
    wait_for(lambda: child.poll() is not None, "its end")
    return child.wait(1)


@pytest.mark.parametrize(
    ("program", "code", "processes"),
    [
        ("raise SystemExit(1)", 7, 2),  # it has not begun the run
        (f"raise SystemExit({STOPPED})", STOPPED, 1),  # it was asked to
        ("import sys; open(sys.argv[1], 'w'); raise SystemExit(1)", 1, 1),  # the run has failed
    ],
)
def test_a_trainer_that_ends_before_it_has_begun_the_run_is_replaced_once(
    handed: Callable[[str], tuple[HandedOver, list[object]]], program: str, code: int, processes: int
) -> None:
    child, started = handed(program)
    assert (code_of(child), len(started)) == (code, processes)


def test_a_trainer_that_hangs_before_it_has_begun_the_run_is_replaced(
    handed: Callable[[str], tuple[HandedOver, list[object]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby_process, "_BEGIN_S", 0.1)
    child, started = handed("import time; time.sleep(600)")
    assert (code_of(child), len(started)) == (7, 2)


@pytest.mark.parametrize(
    "end",
    [lambda child: child.kill(), pytest.param(lambda child: child.send_signal(2), marks=pytest.mark.unix("signals"))],
)
def test_a_trainer_that_someone_has_ended_is_not_replaced(
    handed: Callable[[str], tuple[HandedOver, list[object]]], end: Callable[[HandedOver], None]
) -> None:
    child, started = handed("import time; time.sleep(600)")
    end(child)
    assert (code_of(child) != 7, len(started)) == (True, 1)


def test_a_trainer_whose_guard_has_gone_ends_in_the_middle_of_its_import(tmp_path: Path) -> None:
    program = f"""
import time
from clew_agent.processes import standby_process
def prepare(lines):
    import numpy  # on Windows a thread that reads standard input would keep this one from loading libraries
    open({str(tmp_path / "imports")!r}, "w").close()
    time.sleep(600)
standby_process._warm_up = prepare
standby_process.be_trainer()
"""
    trainer = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    wait_for((tmp_path / "imports").exists, "the import")
    assert trainer.stdin is not None
    trainer.stdin.close()
    assert trainer.wait(30) == 0
