"""The nursery of a run's peers, with real processes that only say who they are: nothing here imports TensorFlow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clew_agent.peers.processes import spawn
from clew_agent.processes.peer_nursery import start_of_peers
from clew_shared.base import operating_system
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, to_toml
from tests.guards import LogBook
from tests.integration.agents import wait_for
from tests.unit.processes.programs import answer_of

pytestmark = pytest.mark.needs("fork")

HEAD = """
import json, os, signal, sys, time
from pathlib import Path
from clew_shared.base import operating_system
from clew_agent.processes import peer_nursery

log = Path(sys.argv[1], "log")
def be_peer(words):
    operating_system.die_with_parent(by_force=True)
    print(json.dumps({"words": words, "chief": os.getppid(), "session": os.getsid(0) == os.getpid()}), flush=True)
    time.sleep(float(words[0]))
    return 7
nursery = peer_nursery.PeerNursery(be_peer)
def said():
    while not log.exists() or not log.read_text().endswith("}\\n"):
        time.sleep(0.005)
    return json.loads(log.read_text().splitlines()[-1])
"""


def found_by(tmp_path: Path, program: str) -> dict[str, object]:
    return answer_of(HEAD + program, tmp_path)


def test_a_peer_is_a_child_of_the_chief_in_a_session_of_its_own(tmp_path: Path) -> None:
    program = """
peer = nursery.start(["0", "word"], log)
code = peer.wait(30)
nursery.close()
print(json.dumps(said() | {"chief": said()["chief"] == os.getpid(), "code": code}))
"""
    found = found_by(tmp_path, program)
    assert found == {"words": ["0", "word"], "chief": True, "session": True, "code": 7}


def test_how_a_killed_peer_ended_is_known_and_its_nursery_makes_another(tmp_path: Path) -> None:
    program = """
peer = nursery.start(["600"], log)
said()
operating_system.kill_session(peer)
codes = [peer.wait(30), nursery.start(["0"], log).wait(30)]
nursery.close()
print(json.dumps({"codes": codes}))
"""
    assert found_by(tmp_path, program) == {"codes": [-signal.SIGKILL, 7]}


def test_without_its_nursery_a_peer_is_a_fresh_interpreter(tmp_path: Path) -> None:
    program = """
peer_nursery.spawn = lambda words, log: f"{words} fresh"
nursery._process.kill()
nursery._process.wait(30)
fresh = [nursery.start(["0"], log) for _ in range(2)]
nursery.close()
print(json.dumps({"fresh": fresh}))
"""
    assert found_by(tmp_path, program) == {"fresh": ["['0'] fresh"] * 2}


def test_a_peer_that_the_system_refuses_to_copy_is_a_fresh_interpreter(tmp_path: Path) -> None:
    program = """
peer_nursery.spawn = lambda words, log: "fresh"
def refused(work):
    raise OSError("no more processes")
first = nursery.start(["0"], log).wait(30)
nursery.close()
fork = operating_system.fork
def fork_once(work):
    operating_system.fork = refused
    return fork(work)
operating_system.fork = fork_once
nursery = peer_nursery.PeerNursery(be_peer)
print(json.dumps({"first": first, "second": nursery.start(["0"], log)}))
nursery.close()
"""
    assert found_by(tmp_path, program) == {"first": 7, "second": "fresh"}


def test_a_killed_chief_leaves_neither_peers_nor_their_nursery(tmp_path: Path) -> None:
    program = (
        HEAD
        + """
peer = nursery.start(["600"], log)
said()
print(json.dumps([peer.pid, nursery._process.pid]), flush=True)
signal.pause()
"""
    )
    chief = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with chief:
        assert chief.stdout is not None
        left = json.loads(chief.stdout.readline())
        chief.kill()
    wait_for(lambda: not any(map(operating_system.is_alive, left)), "the end of both", 30.0)


def folder_of(tmp_path: Path, spec: RunSpec) -> RunFolder:
    folder = RunFolder(tmp_path)
    folder.spec.write_text(to_toml(spec), encoding="utf-8")
    return folder


def test_a_run_of_one_process_has_no_nursery(tmp_path: Path) -> None:
    with start_of_peers(folder_of(tmp_path, RunSpec(exercise="softmax")), 1, lambda _: 0) as start:
        assert start is spawn


def test_where_no_nursery_can_be_made_peers_are_fresh_interpreters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    expect_logs("no nursery for its peers: no more processes")

    def refused(_: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(operating_system, "thread_count", lambda: 1)
    monkeypatch.setattr(operating_system, "fork", refused)
    spec = RunSpec(exercise="softmax", strategy="multi-worker", nodes=2)
    with start_of_peers(folder_of(tmp_path, spec), 1, lambda _: 0) as start:
        assert start is spawn


def test_a_process_with_several_threads_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operating_system, "thread_count", lambda: 2)
    spec = RunSpec(exercise="softmax", strategy="multi-worker", nodes=2)
    with start_of_peers(folder_of(tmp_path, spec), 1, lambda _: 0) as start:
        assert start is spawn
