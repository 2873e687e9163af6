"""The agent as a program of its own: what Clew started is gone when Clew says that it has ended."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from clew_gui.commands.agent_program import AgentProgram
from clew_shared.wire.turns import RunEnded, RunWanted

GUARD = """
import json, signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.stdin.readline()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(json.dumps({"code": child.pid}), flush=True)
sys.stdin.readline()
{then}
"""
BOUND_S = 30.0
WANTED = RunWanted("nowhere")


def begun(agent: AgentProgram) -> psutil.Process:
    """The process that the program started in a session of its own; the next run is asked for."""
    ended = agent.ask(WANTED).wait(BOUND_S)
    assert ended is not None, "the program did not start"
    agent.ask(WANTED)
    return psutil.Process(ended.code)


def test_a_program_that_does_not_listen_is_killed_with_what_it_started() -> None:
    with AgentProgram([sys.executable, "-c", GUARD.replace("{then}", "time.sleep(600)")]) as agent:
        trainer = begun(agent)
        agent.ask_to_stop()
        assert agent.wait(0.2) is None
        agent.kill()
        assert agent.wait(BOUND_S) is not None
        assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE


def test_a_guard_outlives_its_killed_trainer_long_enough_to_seal() -> None:
    then = "child.wait(); print('sealed', file=sys.stderr, flush=True)"
    with AgentProgram([sys.executable, "-c", GUARD.replace("{then}", then)]) as agent:
        begun(agent)
        agent.kill()
        assert agent.wait(BOUND_S) == RunEnded(1, "sealed")


STOPS = """
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path("stopped").touch()
    sys.exit()
sys.stdin.readline()
signal.signal(signal.SIGINT, stop)
pathlib.Path("begun").touch()
while True:
    time.sleep(0.01)
"""


def test_a_run_that_nobody_follows_any_more_is_stopped_and_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with AgentProgram([sys.executable, "-c", STOPS]) as agent:
        agent.ask(WANTED)
        deadline = time.monotonic() + BOUND_S
        while not Path("begun").exists():
            assert time.monotonic() < deadline, "the program did not start"
            time.sleep(0.01)
    assert Path("stopped").exists()


def test_a_run_that_does_not_stop_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_gui.commands.agent_program._STOP_WAIT_S", 0.1)
    with AgentProgram([sys.executable, "-c", GUARD.replace("{then}", "time.sleep(600)")]) as agent:
        trainer = begun(agent)
    assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE


@pytest.mark.unix("a copy has its original's pipes")
def test_a_program_that_was_killed_has_ended_although_its_trainer_goes_on() -> None:
    """The trainer is its copy and has its ends of the pipes."""
    with AgentProgram([sys.executable, "-c", GUARD.replace("{then}", "time.sleep(600)")]) as agent:
        trainer = begun(agent)
        program = trainer.parent()
        assert program is not None
        program.kill()
        deadline = time.monotonic() + BOUND_S
        while (ended := agent.wait(0.01)) is None:
            assert time.monotonic() < deadline, "it is waited for"
        assert ended.code == -signal.SIGKILL
        assert trainer.is_running()
        trainer.kill()


def test_a_program_that_was_killed_is_started_again_for_the_next_run() -> None:
    answers = "import sys\nfor line in sys.stdin: print('{\"code\": 7}', flush=True)"
    with AgentProgram([sys.executable, "-c", answers]) as agent:
        for _ in range(2):
            assert agent.ask(WANTED).wait(BOUND_S) == RunEnded(7)
            agent.kill()


def test_what_else_is_printed_where_the_answers_are_is_no_answer() -> None:
    answers = "import sys\nprint('Loading CUDA')\nfor line in sys.stdin: print('{\"code\": 7}', flush=True)"
    with AgentProgram([sys.executable, "-c", answers]) as agent:
        assert agent.ask(WANTED).wait(BOUND_S) == RunEnded(7)
