"""What the task manager, an administrator or a crash may end: trainer, guard and agent, on every system."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from clew_agent.processes.guard_mark import guard_pid
from clew_gui.targets.local_agent import find_agent
from clew_shared.base import operating_system
from clew_shared.catalogue import load_builtin
from clew_shared.journal.events import Attempt
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from tests.integration.agent_runs import events
from tests.integration.agents import wait_for
from tests.integration.session.conftest import Window

STEPS = 4_000_000


def gone(pid: int) -> bool:
    """End a process at once and wait for that."""
    operating_system.kill_process(pid)
    return wait_for(lambda: not operating_system.is_alive(pid), f"the end of {pid}")


def test_killed_trainers_guards_and_agents_leave_nothing_and_the_run_goes_on(new_window: Callable[..., Window]) -> None:
    window = new_window(None, load_builtin())
    spec = RunSpec(exercise="linear-regression", params={"steps": STEPS, "checkpoint_every": 1000})
    model = window.session.runs[window.session.start_run(spec)]
    node = window.places.runs / model.id

    def trainer(attempt: int) -> int:
        first = events(node, attempt)[0]
        assert isinstance(first, Attempt)
        return first.pid

    def train_on() -> None:
        done = model.history.fold.step
        window.until(lambda: model.history.fold.step > done + 2000, "further steps", 200)

    train_on()
    pids = [trainer(1), guard_pid(node) or 0]
    assert gone(pids[0])
    window.until_state(model, RunState.FAILED)
    found = model.history.fold.problem
    assert found is not None
    assert found.code == "run.died"

    window.session.continue_run(model.id)
    window.until(lambda: model.state is RunState.RUNNING, "the second attempt", 200)
    train_on()
    pids += [trainer(2), guard_pid(node) or 0]
    assert gone(pids[-1])
    train_on()

    address = find_agent(window.places)
    assert address is not None
    pids.append(address.pid)
    assert gone(address.pid)
    train_on()
    window.session.stop(model.id)
    window.until_state(model, RunState.STOPPED)
    assert model.history.fold.step < STEPS
    wait_for(lambda: not any(map(psutil.pid_exists, pids)), f"the end of {pids}")
