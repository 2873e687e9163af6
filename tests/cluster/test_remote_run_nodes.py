"""What a fault ends in for a run on several nodes, and that Continue starts all of its processes again."""

from __future__ import annotations

import psutil
import pytest

from clew_gui.session.links.inbox import LinkState
from clew_gui.session.runs import RunModel
from clew_shared.journal.lifecycle import RunState
from tests.cluster.journey import Student, every_step_once
from tests.integration.agents import command_of

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]
_NO_HANG_S = 60.0
"""A run of several processes whose one is lost has ended by then, also on a busy machine; TensorFlow waits longer."""


def processes_of_run(student: Student, run: RunModel) -> dict[str, list[psutil.Process]]:
    """By node, those that train it or watch over it."""
    found = {node: student.processes(node, HOME="/home/student") for node in ("node1", "node2", "node3")}
    return {node: [one for one in each if run.id in " ".join(command_of(one))] for node, each in found.items()}


def test_a_peer_that_freezes_ends_the_run_and_continue_starts_all_again(student: Student) -> None:
    """One that dies is noticed sooner and in the same way (tests/integration/peers)."""
    with student.program() as program:
        run = program.send(nodes=2, checkpoint_every=50)
        program.trains(run)
        peers = [one for each in processes_of_run(student, run).values() for one in each if "peer" in command_of(one)]
        (peer,) = [one for one in peers if "srun" not in command_of(one)[0]]
        peer.suspend()
        program.until(lambda: run.state is RunState.FAILED, "the run's end", _NO_HANG_S)
        assert run.reason.startswith("Worker 1 on node")
        assert "has said nothing for" in run.reason
        program.until(lambda: program.job(run).news.over, "the job's end")
        assert not any(processes_of_run(student, run).values())

        program.session.continue_run(run.id)
        reached = run.history.fold.step
        program.until(lambda: run.history.fold.attempt == 2 and run.history.fold.step > reached, "further steps")
        program.stop(run)
        every_step_once(run.history)
        student.judge(run, attempts=2)


def test_each_process_on_three_nodes_says_what_it_uses_and_a_cut_loses_nothing(student: Student) -> None:
    with student.program() as program:
        run = program.send(nodes=3, checkpoint_every=50)
        program.trains(run)
        processes = run.history.pulse.processes

        def sampled() -> bool:
            return set(processes) == {"trainer", "worker 1", "worker 2"} and min(map(len, processes.values())) > 2

        program.until(sampled, "samples of all processes")
        assert {one.host for one in processes.values()} == {"node1", "node2", "node3"}
        seen = len(run.history.pulse)
        with student.cluster.broken("cut", "laptop"):
            program.until(lambda: program.job(run).link.state is not LinkState.LIVE, "a link that is known to be cut")
        program.until(lambda: len(run.history.pulse) > seen, "the samples of the time without a link")
        program.stop(run)
        student.judge(run, attempts=1)
        usage = run.history.pulse_summary()
        assert usage.cpu is not None
        assert usage.memory is not None
        assert all((one.times[1:] > one.times[:-1]).all() for one in processes.values())


def test_a_node_that_loses_its_power_is_named_and_the_run_goes_on_without_it(student: Student) -> None:
    """Nothing tells TensorFlow that a whole node is gone: the watch of the other one ends the run."""
    with student.program() as program:
        run = program.send(nodes=2, checkpoint_every=50)
        program.trains(run)
        found = processes_of_run(student, run)
        watched = {node for node, each in found.items() if any("guard" in " ".join(command_of(one)) for one in each)}
        (lost,) = [node for node, each in found.items() if each and node not in watched]
        with student.cluster.broken("node-kill", lost):
            program.until(lambda: run.state is RunState.FAILED, "the run's end", _NO_HANG_S)
            assert run.reason.startswith(f"Worker 1 on {lost}")
            program.until(lambda: program.job(run).news.over, "the job's end")
        program.session.continue_run(run.id)
        reached = run.history.fold.step
        program.until(lambda: run.history.fold.attempt == 2 and run.history.fold.step > reached, "further steps")
        program.stop(run)
        every_step_once(run.history)
