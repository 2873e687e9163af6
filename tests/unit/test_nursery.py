"""The supervisor's end of the nursery, against programs that stand in for one; when one is kept warm, and when not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clew_agent import nursery_client
from clew_agent.launcher import Launcher
from clew_agent.nursery_client import NurseryClient, may_fork
from clew_agent.nursery_messages import Ended, Refused, Started
from tests.guards import LogBook
from tests.integration.agents import wait_for

pytestmark = pytest.mark.needs("fork")

HEAD = """
import os, socket, sys, time
from clew_agent.nursery_messages import *
channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--channel") + 1]))
"""
OBEDIENT = """
send(channel, Ready(seconds=0.1))
while (request := receive_start(channel)) is not None:
    send(channel, Started(folder=request.folder, pid=os.getpid()))
    send(channel, Ended(folder=request.folder, exit_code=len(request.environment)))
"""
WITH_THREADS = """
send(channel, Ready(seconds=0.1))
request = receive_start(channel)
send(channel, Refused(folder=request.folder, reason="two threads", last=True))
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
    assert told[1] == Ended(folder=str(tmp_path / "run"), exit_code=2)
    assert nursery.ready


@pytest.mark.parametrize("program", [DIES_WHEN_ASKED, DIES_AT_ONCE, BABBLES])
def test_what_a_lost_nursery_was_asked_for_is_refused_and_another_comes_later(
    client: Callable[..., NurseryClient],
    tmp_path: Path,
    program: str,
    monkeypatch: pytest.MonkeyPatch,
    expect_logs: LogBook,
) -> None:
    monkeypatch.setattr(nursery_client, "_BACK_OFF_S", 0.05)
    nursery = client(program)
    first = nursery.pid
    expect_logs("(?i)nursery")
    assert nursery.start(tmp_path, 1, None, {})
    told = wait_for(nursery.receive, "the refusal")
    assert [type(one) for one in told] == [Refused]
    assert not nursery.start(tmp_path, 1, None, {}), "there is none now"

    def another() -> int | None:
        nursery.tend(needed=True)
        return nursery.pid

    wait_for(another, "another one")
    assert nursery.pid != first


def test_after_five_failures_no_other_is_tried(
    client: Callable[..., NurseryClient], monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    monkeypatch.setattr(nursery_client, "_BACK_OFF_S", 0.0)
    nursery = client(DIES_AT_ONCE)
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
    assert [type(one) for one in wait_for(nursery.receive, "patience has an end")] == [Refused]


def test_it_ends_when_nobody_needs_it_and_comes_again(client: Callable[..., NurseryClient]) -> None:
    nursery = client(OBEDIENT, idle=0.2)
    first = nursery.pid
    assert first is not None

    def rests() -> bool:
        nursery.tend(needed=False)
        return nursery.pid is None

    wait_for(rests, "idle")
    nursery.tend(needed=True)
    assert nursery.pid not in (None, first)


def test_with_a_second_thread_runs_begin_fresh_from_then_on(
    client: Callable[..., NurseryClient], tmp_path: Path
) -> None:
    nursery = client(WITH_THREADS)
    folder = tmp_path / "run"
    fresh = [sys.executable, "-c", f"open({str(tmp_path / 'seen')!r}, 'a').write('x')"]
    launcher = Launcher(tmp_path, guard=fresh, nursery=nursery)
    launcher.start(folder, 1)
    assert launcher.has("run")
    assert wait_for(launcher.reap, "the fresh guard's end") == [("run", 0)]
    nursery.tend(needed=True)
    assert nursery.pid is None
    launcher.start(folder, 2)
    assert wait_for(launcher.reap, "the second one's end") == [("run", 0)]
    assert (tmp_path / "seen").read_text() == "xx"


def test_a_guard_whose_nursery_has_gone_is_still_noticed(
    client: Callable[..., NurseryClient], tmp_path: Path, expect_logs: LogBook
) -> None:
    program = """
import subprocess
send(channel, Ready(seconds=0.1))
request = receive_start(channel)
guard = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1.0)"], start_new_session=True)
send(channel, Started(folder=request.folder, pid=guard.pid))
time.sleep(0.2)
os._exit(9)
"""
    nursery = client(program)
    launcher = Launcher(tmp_path, nursery=nursery)
    launcher.start(tmp_path / "run", 1)
    expect_logs("(?i)nursery")
    wait_for(lambda: launcher.reap() or nursery.pid is None, "the nursery's end")
    assert launcher.has("run"), "its guard lives"
    assert wait_for(launcher.reap, "the guard's end") == [("run", -1)]


def test_where_a_gpu_is_runs_begin_fresh() -> None:
    assert not may_fork(gpus=1)
    assert may_fork(gpus=0) == (sys.platform == "linux")
