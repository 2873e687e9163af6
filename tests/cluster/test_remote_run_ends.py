"""What each thing that goes wrong on a cluster ends in: for the job, for the run, in words, and what Continue makes of
it. docs/sites.md has the table for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from clew_gui.jobs.job import JobStage
from clew_gui.schedulers.state import Phase
from clew_shared.journal.lifecycle import RunState
from tests.cluster.journey import Scene, Student, every_step_once, same_bits

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]


@pytest.fixture
def scene(student: Student) -> Iterator[Scene]:
    """A run that trains on a node for ever."""
    with student.program() as program:
        run = program.send()
        program.trains(run)
        program.until(lambda: program.job(run).news.nodes != "", "the scheduler says where it runs")
        yield Scene(student, program, run)
        if not program.job(run).news.over:
            program.session.cancel(program.job(run).id)
            program.until(lambda: program.job(run).news.over, "the job's end")


# --- Faults that end a job --------------------------------------------------------------------------------------------


class End(NamedTuple):
    """What a fault ends in."""

    make: Callable[[Scene], None]
    phase: Phase
    job: str
    """What is said of the job."""
    state: RunState
    reason: str
    """What is said of the run."""
    hint: str = "Continue starts from the last checkpoint"
    saved: bool = False
    """Whether there is a checkpoint of its last step."""
    stage: JobStage = JobStage.ENDED


def _power_off(scene: Scene) -> None:
    node = scene.node
    scene.cluster("fault", "node-kill", node)
    scene.cluster.on("ctl", "scontrol", "update", f"nodename={node}", "state=down", "reason=power")


def _cancel(scene: Scene) -> None:
    scene.cluster.on("ctl", "scancel", scene.id)


def _kill(scene: Scene) -> None:
    scene.student.kill_all(scene.node, SLURM_JOB_ID=scene.id)


def _forget(scene: Scene) -> None:
    """The job is killed, and then the controller has lost its memory. Its next numbers are none that it has given."""
    node = scene.node
    with scene.cluster.broken("controller-crash"):
        scene.student.kill_all(node, SLURM_JOB_ID=scene.id)
        scene.cluster.on("ctl", "rm -f /var/spool/slurmctld/job_state*")
        scene.cluster.on("ctl", f"echo FirstJobId={int(scene.id) + 1000} >>/etc/slurm/slurm.conf")


ENDS = {
    "node killed": End(
        _power_off,
        Phase.NODE_FAILED,
        "A node of the job failed on {node}.",
        RunState.FAILED,
        "A node of the job failed",
    ),
    "job cancelled outside": End(
        _cancel, Phase.CANCELLED, "The job was cancelled.", RunState.STOPPED, "The job was cancelled.", saved=True
    ),
    "job killed": End(
        _kill,
        Phase.FAILED,
        "The job failed.",
        RunState.FAILED,
        "The job failed.",
        "Its output is in",
    ),
    "job gone without a trace": End(
        _forget,
        Phase.GONE,
        "The job is gone without a trace: the scheduler does not know it any more, and nobody saw it end.",
        RunState.LOST,
        "gone without a trace",
        "What it wrote is still there. Its output is in",
        stage=JobStage.LOST,
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_job_is_told_and_what_was_written_is_here(scene: Scene, name: str) -> None:
    end, run, program = ENDS[name], scene.run, scene.program
    node = scene.node
    end.make(scene)
    try:
        program.until(lambda: program.job(run).news.over and run.settled, "the job's end")
        news = program.job(run).news
        assert (news.stage, news.phase, news.text) == (end.stage, end.phase, end.job.format(node=node))
        assert news.problem is not None
        assert end.hint in news.problem.hint
        assert run.state is end.state
        assert end.reason in run.reason
        there, here = scene.student.there(run.id), scene.student.here(run.id)
        assert here.journal(1).read_bytes() == there.journal(1).read_bytes()
        every_step_once(run.history)
        if end.saved:
            assert there.checkpoint(run.history.fold.step).exists()
        assert program.problems == [news.problem]
    finally:
        scene.cluster("heal")


def test_a_job_with_too_little_memory_says_so(student: Student) -> None:
    """Where the kernel keeps the limit it ends the trainer, and Slurm names the reason when the job is over. Where
    Slurm itself looks, at the job's shell and its children only, it ends the job and names the reason in its output."""
    by_kernel = student.cluster.info()["memory"] == "kernel"
    with student.program() as program:
        run = program.send(site="small" if by_kernel else "hungry")
        program.until(lambda: program.job(run).news.over and run.settled, "the job's end")
        news = program.job(run).news
        assert (news.stage, news.phase) == (JobStage.ENDED, Phase.OUT_OF_MEMORY)
        assert news.text == "The job used more memory than it had asked for, and was killed."
        assert news.problem is not None
        assert news.problem.hint == "Ask for more memory, or use a smaller batch or model."
        # The kernel may kill the trainer alone, or before it the guard that would have said so.
        reasons = ["The machine ran out of memory and killed the trainer (SIGKILL)."] * by_kernel + [news.text]
        assert run.state is RunState.FAILED
        assert run.reason in reasons
        assert program.problems == [news.problem]


def test_a_node_that_was_cut_off_and_comes_back_spoils_nothing(scene: Scene) -> None:
    student, program, run, node = scene.student, scene.program, scene.run, scene.node
    first, there, here = scene.id, student.there(run.id), student.here(run.id)
    with scene.cluster.broken("cut", node):
        scene.cluster.on("ctl", "scontrol", "update", f"nodename={node}", "state=down", "reason=silent")
        program.until(lambda: program.job(run).news.over and run.settled, "the job's end")
        assert (run.state, program.job(run).news.phase) == (RunState.FAILED, Phase.NODE_FAILED)
        reached, size = run.history.fold.step, there.journal(1).stat().st_size
        program.session.continue_run(run.id)
        program.until(lambda: run.history.fold.attempt == 2 and run.history.fold.step > reached, "further steps")
        program.until(lambda: there.journal(1).stat().st_size > size, "the cut node writes on")
    program.until(lambda: not student.processes(node, SLURM_JOB_ID=first), "the end of what trained on the cut node")
    program.trains(run)
    program.stop(run)
    assert run.state is RunState.STOPPED
    assert here.journal(2).read_bytes() == there.journal(2).read_bytes()
    assert there.journal(1).read_bytes().startswith(here.journal(1).read_bytes())
    every_step_once(run.history)
    same_bits(run.history)  # none, when the cut node saved behind what the laptop had seen of it


def test_a_job_that_starts_again_elsewhere_goes_on_whatever_its_lost_node_still_writes(student: Student) -> None:
    with student.program() as program:
        run = program.send(site="again")
        program.trains(run)
        program.until(lambda: program.job(run).news.nodes != "", "the scheduler says where it runs")
        scene = Scene(student, program, run)
        node, number, there = scene.node, scene.id, student.there(run.id)
        with scene.cluster.broken("cut", node):
            scene.cluster.on("ctl", "scontrol", "update", f"nodename={node}", "state=down", "reason=silent")
            program.until(lambda: program.job(run).news.stage is JobStage.QUEUED, "the job waits again")
            reached, size = run.history.fold.step, there.journal(1).stat().st_size
            scene.cluster.on("ctl", "scontrol", "update", f"jobid={number}", "starttime=now")
            program.until(lambda: run.history.fold.attempt == 2 and run.history.fold.step > reached, "further steps")
            program.until(lambda: there.journal(1).stat().st_size > size, "the cut node writes on")
        program.until(lambda: not student.processes(node, SLURM_JOB_ID=number), "the end of what the cut node trained")
        program.trains(run)
        program.stop(run)
        assert (run.state, program.problems, scene.id) == (RunState.STOPPED, [], number)
        here = student.here(run.id)
        assert here.journal(2).read_bytes() == there.journal(2).read_bytes()
        assert there.journal(1).read_bytes().startswith(here.journal(1).read_bytes())
        every_step_once(run.history)
        same_bits(run.history)
