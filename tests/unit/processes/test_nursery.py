"""The supervisor's end of the nursery, against programs that stand in for one; when one is kept warm, and when not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from clew_agent.processes import nursery_client, run_starter
from clew_agent.processes.nursery import Nursery
from clew_agent.processes.nursery_client import NurseryClient
from clew_agent.processes.nursery_messages import GuardEnded, Started, StartGuard, StartRefused, send
from clew_agent.supervisor import launcher as launcher_module
from clew_agent.supervisor.launcher import Launcher
from clew_agent.supervisor.serve import may_fork
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_shared.base import operating_system
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.verify import verify_run
from clew_shared.spec import RunSpec
from tests.guards import LogBook
from tests.integration.agents import wait_for
from tests.unit.runs import begin_run

pytestmark = pytest.mark.needs("fork")

HEAD = """
import os, socket, subprocess, sys, time
from clew_agent.processes.nursery_messages import *
channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--channel") + 1]))
"""
OBEDIENT = """
send(channel, Ready(seconds=0.1))
while (request := receive_start(channel)) is not None:
    send(channel, Started(folder=request.folder, pid=os.getpid()))
    send(channel, GuardEnded(folder=request.folder, pid=os.getpid(), exit_code=len(request.environment)))
"""
SLOW = """
send(channel, Ready(seconds=0.1))
request = receive_start(channel)
while not os.path.exists("go"):
    time.sleep(0.01)
guard = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
send(channel, GuardEnded(folder=request.folder, pid=1, exit_code=7))  # of an earlier attempt's guard
send(channel, Started(folder=request.folder, pid=guard.pid))
guard.wait()
send(channel, GuardEnded(folder=request.folder, pid=guard.pid, exit_code=guard.returncode))
time.sleep(600)
"""
DIES_OF_THE_DATA = "send(channel, Ready(seconds=0.1)); os._exit(137)"
WITH_THREADS = """
send(channel, Ready(seconds=0.1))
request = receive_start(channel)
send(channel, StartRefused(folder=request.folder, reason="two threads", last=True))
time.sleep(600)
"""
DIES_WHEN_ASKED = "receive_start(channel); os._exit(3)"
DIES_AT_ONCE = "sys.exit(4)"
HANGS = "time.sleep(600)"
BABBLES = "channel.send(b'{]'); time.sleep(600)"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Callable[..., NurseryClient]]:
    made: list[NurseryClient] = []

    def make(program: str, idle: float = 600.0) -> NurseryClient:
        made.append(NurseryClient(tmp_path, command=[sys.executable, "-c", HEAD + program], idle=idle))
        made[-1].tend(needed=True)
        return made[-1]

    yield make
    for each in made:
        each.close(wait=0.1)


def test_it_is_asked_and_tells(client: Callable[..., NurseryClient], tmp_path: Path) -> None:
    nursery = client(OBEDIENT)
    assert nursery.start(tmp_path / "run", 1, None, {"A": "1", "B": "2"})
    told: list[object] = []

    def both() -> bool:
        told.extend(nursery.receive())
        return len(told) == 2

    wait_for(both, "both answers")
    assert isinstance(told[0], Started)
    assert isinstance(told[1], GuardEnded)
    assert (told[1].pid, told[1].exit_code) == (told[0].pid, 2)
    assert nursery.ready


@pytest.mark.parametrize("program", [DIES_WHEN_ASKED, DIES_AT_ONCE, BABBLES])
def test_what_a_lost_nursery_was_asked_for_is_refused_and_another_comes_later(
    client: Callable[..., NurseryClient],
    tmp_path: Path,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    expect_logs: LogBook,
) -> None:
    monkeypatch.setattr(run_starter, "_BACK_OFF_S", 0.05)
    nursery = client(program)
    first = nursery.pid
    expect_logs("(?i)nursery")
    assert nursery.start(tmp_path, 1, None, {})
    told = wait_for(nursery.receive, "the refusal")
    assert [type(one) for one in told] == [StartRefused]
    assert not nursery.start(tmp_path, 1, None, {}), "there is none now"

    def another() -> int | None:
        nursery.tend(needed=True)
        return nursery.pid

    wait_for(another, "another one")
    assert nursery.pid != first


@pytest.mark.parametrize("program", [DIES_AT_ONCE, DIES_OF_THE_DATA])
def test_after_five_failures_no_other_is_tried(
    program: str, client: Callable[..., NurseryClient], monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    monkeypatch.setattr(run_starter, "_BACK_OFF_S", 0.0)
    nursery = client(program)
    seen = set()
    expect_logs("(?i)nursery")
    for _ in range(8):
        nursery.tend(needed=True)
        seen.add(nursery.pid)
        wait_for(lambda: nursery.receive() or nursery.pid is None, "its end")
    assert len(seen - {None}) == 5


def test_one_that_hangs_is_ended_and_the_run_refused(
    client: Callable[..., NurseryClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    monkeypatch.setattr(nursery_client, "_ANSWER_S", 0.2)
    nursery = client(HANGS)
    assert nursery.start(tmp_path, 1, None, {})
    expect_logs("(?i)nursery")
    assert [type(one) for one in wait_for(nursery.receive, "patience has an end")] == [StartRefused]


def test_it_ends_when_nobody_needs_it_and_comes_again(client: Callable[..., NurseryClient]) -> None:
    nursery = client(OBEDIENT, idle=0.2)
    first = nursery.pid
    assert first is not None
    process = psutil.Process(first)

    def rests() -> bool:
        nursery.tend(needed=False)
        return nursery.pid is None

    def is_gone() -> bool:
        nursery.receive()  # as the supervisor does at each turn: it also waits for those that were let go
        return not process.is_running()

    wait_for(rests, "idle")
    wait_for(is_gone, "the end of its process")
    nursery.tend(needed=True)
    assert nursery.pid not in (None, first)


def test_with_a_second_thread_runs_begin_fresh_from_then_on(
    client: Callable[..., NurseryClient], tmp_path: Path
) -> None:
    nursery = client(WITH_THREADS)
    folder = tmp_path / "run"
    fresh = [sys.executable, "-c", f"open({str(tmp_path / 'seen')!r}, 'a').write('x')"]
    launcher = Launcher(tmp_path, guard=fresh, starter=nursery)
    launcher.start(folder, 1)
    assert launcher.has("run")
    assert wait_for(launcher.reap, "the fresh guard's end") == [("run", 0)]
    nursery.tend(needed=True)
    assert nursery.pid is None
    launcher.start(folder, 2)
    assert wait_for(launcher.reap, "the second one's end") == [("run", 0)]
    assert (tmp_path / "seen").read_text() == "xx"


def test_a_guard_whose_nursery_has_gone_is_still_noticed(
    client: Callable[..., NurseryClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    program = """
import subprocess
send(channel, Ready(seconds=0.1))
request = receive_start(channel)
lives = "import os, time\\nwhile not os.path.exists('go'): time.sleep(0.01)"
guard = subprocess.Popen([sys.executable, "-c", lives], start_new_session=True)
send(channel, Started(folder=request.folder, pid=guard.pid))
time.sleep(0.2)
os._exit(9)
"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher_module, "_MARKED_AFTER_S", 3600.0)  # this guard leaves no mark
    nursery = client(program)
    launcher = Launcher(tmp_path, starter=nursery)
    launcher.start(tmp_path / "run", 1)
    expect_logs("(?i)nursery")
    wait_for(lambda: launcher.reap() or nursery.pid is None, "the nursery's end")
    assert launcher.has("run"), "its guard lives"
    (tmp_path / "go").touch()
    assert wait_for(launcher.reap, "the guard's end") == [("run", -1)]


def test_what_the_user_has_set_is_in_the_runs_environment_though_the_nursery_needs_it_otherwise(
    client: Callable[..., NurseryClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    program = """
request = receive_start(channel)
words = os.environ["OPENBLAS_NUM_THREADS"] + request.environment["OPENBLAS_NUM_THREADS"]
send(channel, StartRefused(folder=request.folder, reason=words))
time.sleep(600)
"""
    nursery = client(program)
    assert nursery.start(tmp_path, 1, None, {})
    assert wait_for(nursery.receive, "its words") == [StartRefused(folder=str(tmp_path), reason="14")]


# --- Asked for, and not yet begun -------------------------------------------------------------------------------------


@pytest.fixture
def asked(
    client: Callable[..., NurseryClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Launcher, TrackedRun]:
    """A launcher whose nursery goes about the run only when there is a file ``go``; a fresh guard writes ``fresh``."""
    monkeypatch.chdir(tmp_path)
    folder = begin_run(tmp_path / "run")
    fresh = [sys.executable, "-c", "open('fresh', 'w')"]
    launcher = Launcher(tmp_path, guard=fresh, starter=client(SLOW))
    launcher.start(folder.path, 1)
    return launcher, TrackedRun(folder, RunSpec(exercise="toy"))


def test_a_run_that_is_killed_before_the_nursery_answers_ends_with_its_answer(
    asked: tuple[Launcher, TrackedRun], tmp_path: Path
) -> None:
    launcher, tracked = asked
    wait_for(lambda: launcher.reap() or launcher._starter.ready, "the nursery is warm")  # type: ignore[union-attr]
    launcher.kill(tracked, 1)
    assert launcher.reap() == []
    assert launcher.has("run"), "nobody may seal what the nursery may be starting"
    assert not tracked.folder.attempts()
    (tmp_path / "go").touch()
    assert wait_for(launcher.reap, "the sealer's end") == [("run", 0)]
    assert not launcher.has("run")
    assert not descendants("time.sleep(600)", besides="nursery_messages"), "its guard is gone"
    tracked.adopt()
    assert (tracked.fold.state, tracked.fold.sealed) == (RunState.STOPPED, True)


def test_a_run_that_is_killed_while_the_nursery_imports_ends_at_once(
    client: Callable[..., NurseryClient], tmp_path: Path
) -> None:
    folder = begin_run(tmp_path / "run")
    nursery = client(HANGS)
    launcher = Launcher(tmp_path, starter=nursery)
    launcher.start(folder.path, 1)
    launcher.kill(TrackedRun(folder, RunSpec(exercise="toy")), 1)
    nursery.tend(needed=True)  # the next one is there before the launcher hears of anything
    assert wait_for(launcher.reap, "the sealer's end") == [("run", 0)]
    assert verify_run(folder.path).findings == ()


def test_the_end_of_an_earlier_attempts_guard_is_not_taken_for_this_ones(
    asked: tuple[Launcher, TrackedRun], tmp_path: Path
) -> None:
    launcher, tracked = asked
    (tmp_path / "go").touch()
    wait_for(lambda: launcher.reap() or descendants("time.sleep(600)", besides="nursery_messages"), "the guard")
    for _ in range(20):
        assert launcher.reap() == []
        time.sleep(0.01)
    assert launcher.has("run")
    launcher.kill(tracked, 1)
    assert wait_for(launcher.reap, "the sealer's end") == [("run", 0)]


def test_an_agent_that_ends_leaves_no_run_behind_that_was_asked_for(
    asked: tuple[Launcher, TrackedRun], tmp_path: Path
) -> None:
    launcher, _ = asked
    launcher.close()
    (guard,) = launcher._guards.values()
    with suppress(ChildProcessError):  # a launcher that is closed waits for none, and collects what has ended by then
        os.waitpid(guard.pid, 0)
    assert (tmp_path / "fresh").exists()


def test_a_nursery_does_not_begin_what_an_agent_asked_for_that_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    monkeypatch.setattr(operating_system, "thread_count", lambda: 1)
    monkeypatch.setattr(operating_system, "fork", begun.append)
    ours, theirs = operating_system.packet_pair()
    send(ours, StartGuard(folder="run", attempt=1))
    ours.close()
    with theirs, suppress(OSError):
        Nursery(theirs, None).run()  # type: ignore[arg-type]
    assert not begun


def test_the_channel_may_have_a_number_that_select_cannot_take() -> None:
    """As when the agent has answered a thousand strangers; its number is handed on."""
    program = """
import os, socket
from clew_shared.base import operating_system as posix
from clew_agent.processes.nursery import Nursery
from clew_agent.processes.nursery_messages import *
posix.raise_descriptor_limit()
posix.thread_count = lambda: 2
ours, theirs = posix.packet_pair()
os.dup2(theirs.fileno(), 3000)
send(ours, StartGuard(folder="run", attempt=1))
ours.shutdown(socket.SHUT_WR)
Nursery(socket.socket(fileno=3000), None).run()
print(type(receive_reply(ours)).__name__)
"""
    assert output_of(program) == "StartRefused"


def test_children_are_heeded_where_the_parent_ignored_their_ends() -> None:
    program = """
import signal, time
from clew_shared.base import operating_system as posix
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
posix.restore_sigchld()
child = posix.fork(lambda: 7)
while child.poll() is None:
    time.sleep(0.01)
print(child.returncode)
"""
    assert output_of(program) == "7"


def output_of(program: str) -> str:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def descendants(words: str, besides: str = "\0") -> list[psutil.Process]:
    """Living processes of this test with these words in their command line, and without the others."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if words in line and besides not in line and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def test_where_a_gpu_is_runs_begin_fresh() -> None:
    assert not may_fork(gpus=1)
    assert may_fork(gpus=0) == (sys.platform == "linux")
