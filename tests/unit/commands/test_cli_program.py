"""The agent as a program of its own: what Clew started is gone when Clew says that it has ended."""

from __future__ import annotations

import sys
import time

import psutil

from clew_gui.commands.agent_program import AgentProgram

GUARD = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
{then}
"""
BOUND_S = 30.0


def begun(agent: AgentProgram) -> psutil.Process:
    """The process that the program started in a session of its own."""
    deadline = time.monotonic() + BOUND_S
    while not agent.output():
        assert time.monotonic() < deadline, "the program did not start"
        time.sleep(0.01)
    return psutil.Process(int(agent.output()))


def test_a_program_that_does_not_listen_is_killed_with_what_it_started() -> None:
    with AgentProgram([sys.executable, "-c", GUARD.format(then="time.sleep(600)")]) as agent:
        trainer = begun(agent)
        agent.ask_to_stop()
        assert agent.wait(0.2) is None
        agent.kill()
        assert agent.exit_code() is not None
        assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE


def test_a_guard_outlives_its_killed_trainer_long_enough_to_seal() -> None:
    then = "child.wait(); print('sealed', flush=True)"
    with AgentProgram([sys.executable, "-c", GUARD.format(then=then)]) as agent:
        begun(agent)
        agent.kill()
        assert agent.exit_code() == 0
        assert agent.output().endswith("sealed")
