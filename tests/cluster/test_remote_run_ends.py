"""What each thing that goes wrong on a cluster ends in: for the job, for the run, in words, and what Continue makes of
it. docs/connecting.md has the table for people."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import psutil
import pytest

from clew_gui.jobs.job import JobStage
from clew_gui.schedulers.state import Phase
from clew_gui.session.runs import RunModel
from clew_shared.journal.lifecycle import RunState
from tests.cluster.journey import Program, Student, every_step_once, same_bits
from tests.cluster.mini import MiniCluster
from tests.integration.agents import command_of

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]


class Scene(NamedTuple):
    """A run that trains on a node, and who looks at it."""

    student: Student
    program: Program
    run: RunModel

    @property
    def cluster(self) -> MiniCluster:
        return self.student.cluster

    @property
    def id(self) -> str:
        """The scheduler's number of the job."""
        return self.program.job(self.run).news.id

    @property
    def node(self) -> str:
        return self.cluster.on("ctl", "squeue", "--noheader", f"--jobs={self.id}", "--format=%N")

    def agent(self) -> psutil.Process | None:
        """The agent that serves the run's job; None while there is none."""
        found = self.student.processes(self.node, SLURM_JOB_ID=self.id)
        return next((one for one in found if "serve" in command_of(one)), None)


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
        reason = "The machine ran out of memory and killed the trainer (SIGKILL)." if by_kernel else news.text
        assert (run.state, run.reason) == (RunState.FAILED, reason)
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


# --- Faults that a run outlives ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lasting(student: Student) -> Iterator[tuple[str, str]]:
    """One run and its job for all these faults, one after the other; in the end both copies are the same."""
    with student.program() as program:
        run = program.send(time="30", site="again")
        program.trains(run)
        lasting = run.id, program.job(run).id
    yield lasting
    with student.program(lasting[1]) as program:
        run = program.session.runs[lasting[0]]
        program.until(lambda: program.is_live(run), "the agent is reached")
        program.stop(run)
        assert run.state is RunState.STOPPED
        same_bits(run.history)  # mostly none: what is put back into the queue is given the time to save
        student.judge(run, attempts=len(student.there(run.id).attempts()))


def _kill_the_agent(scene: Scene) -> None:
    """Its keeper starts another."""
    agent = scene.agent()
    assert agent is not None
    agent.kill()
    scene.program.until(lambda: (new := scene.agent()) is not None and new.pid != agent.pid, "another agent")


def _stop_the_controller(scene: Scene) -> None:
    with scene.cluster.broken("controller-down"):
        assert scene.cluster.call("on", "login", "squeue").returncode != 0
        scene.program.trains(scene.run)
        assert scene.run.state is RunState.RUNNING


def _fill_the_home(scene: Scene) -> None:
    with scene.cluster.broken("home-full", "student"):
        scene.program.until(lambda: scene.run.state is RunState.PAUSED, "training waits")
        said = scene.run.reason.lower()  # the system's words, or those for the room that a journal keeps
        assert said.startswith("waiting for the disk: no space left")
    scene.program.until(lambda: scene.run.state is RunState.RUNNING, "training goes on")


def _requeue(scene: Scene) -> None:
    """The same job starts again, and its agent goes on with the run."""
    cluster, program, run = scene.cluster, scene.program, scene.run
    job, before = scene.id, run.history.fold.attempt
    cluster.on("ctl", "scontrol", "requeue", job)
    program.until(lambda: program.job(run).news.stage is JobStage.QUEUED, "the job waits again")
    assert (run.state, run.reason) == (RunState.QUEUED, program.job(run).news.text)
    program.until(lambda: cluster.job_state(job) == "PENDING", "it may begin")
    cluster.on("ctl", "scontrol", "update", f"jobid={job}", "starttime=now")  # Slurm would wait for two minutes
    program.until(lambda: run.history.fold.attempt == before + 1, "the further attempt")


def _hold(scene: Scene) -> None:
    """Put back and held, while ``squeue`` lists nothing; somebody lets it go, and it starts again."""
    cluster, program, run = scene.cluster, scene.program, scene.run
    job, before, squeue = scene.id, run.history.fold.attempt, "/opt/site/bin/squeue"
    cluster.on("root@login", f"echo '#!/bin/sh' >{squeue}; chmod +x {squeue}")
    try:
        cluster.on("ctl", "scontrol", "requeuehold", "State=SpecialExit", job)
        program.until(lambda: program.job(run).news.blocked, "it is known that it is held")
        assert program.job(run).news.text.endswith("`scontrol release` lets it go.")
        assert run.state is RunState.QUEUED
    finally:
        cluster.on("root@login", "rm", squeue)
    cluster.on("ctl", "scontrol", "release", job)
    program.until(lambda: cluster.job_state(job) == "PENDING", "it may begin")
    cluster.on("ctl", "scontrol", "update", f"jobid={job}", "starttime=now")
    program.until(lambda: run.history.fold.attempt == before + 1, "the further attempt")


OUTLIVED = {
    "agent killed": _kill_the_agent,
    "controller away": _stop_the_controller,
    "home full": _fill_the_home,
    "job requeued": _requeue,
    "job held": _hold,
}


@pytest.mark.parametrize("name", OUTLIVED)
def test_what_a_run_outlives_costs_no_step(student: Student, lasting: tuple[str, str], name: str) -> None:
    with student.program(lasting[1]) as program:
        run = program.session.runs[lasting[0]]
        program.until(lambda: program.is_live(run) and run.state is RunState.RUNNING, "the agent is reached")
        OUTLIVED[name](Scene(student, program, run))
        program.catches_up(student.there(run.id), student.here(run.id))
        program.trains(run)
        assert run.state is RunState.RUNNING
        every_step_once(run.history)
        assert program.problems == []


@pytest.fixture
def full_node(cluster: MiniCluster) -> Iterator[None]:
    """Somebody else has all of node3, for an hour at most."""
    job = cluster.on(
        "classmate@login", "sbatch", "--parsable", "--partition=gpu", "--exclusive", "--time=60", "--wrap=sleep 4000"
    )
    yield
    cluster.on("ctl", "scancel", job)


def _try_here(program: Program, waiting: RunModel) -> None:
    """A short run of the same settings on this computer, while the job waits on."""
    told = program.job(waiting).news
    here = program.session.runs[program.session.try_here(waiting.id)]
    program.until(lambda: here.state is RunState.FINISHED, "the run of this computer")
    assert (here.job, here.where) == (None, "This computer")
    same = {"exercise": here.spec.exercise, "data": here.spec.data, "seed": here.spec.seed}
    assert same == {name: getattr(waiting.spec, name) for name in same}
    assert here.spec.params == {**waiting.spec.params, "steps": here.history.fold.step}
    assert here.history.fold.step == 100
    every_step_once(here.history)
    news = program.job(waiting).news
    assert (waiting.state, news.id, news.problem) == (RunState.QUEUED, told.id, None)


@pytest.mark.usefixtures("full_node")
def test_a_job_behind_others_has_an_estimate_and_a_controller_that_hangs_is_told_of_as_such(
    student: Student, lasting: tuple[str, str]
) -> None:
    """Meanwhile another run trains: its agent speaks for its job, and nobody needs the scheduler for that. The laptop
    tries what waits."""
    with student.window() as program:
        trains = program.session.runs[lasting[0]]
        program.until(lambda: program.is_live(trains), "the agent is reached")
        run = program.send(steps=1000, partition="gpu", gpus=4)
        estimated = re.compile(r"It is next, and waits until nodes are free\. It is expected to begin at \d\d:\d\d\.")

        def waits() -> bool:
            return estimated.fullmatch(program.job(run).news.text) is not None

        program.until(waits, "an estimate")
        begins = program.job(run).news.starts
        assert begins is not None
        assert begins > time.time()
        assert (run.state, run.reason) == (RunState.QUEUED, program.job(run).news.text)
        _try_here(program, run)
        assert student.cluster.job_state(program.job(run).news.id) == "PENDING"
        with student.cluster.broken("controller-hangs"):
            program.until(lambda: program.job(run).news.problem is not None, "nobody answers")
            news = program.job(run).news
            assert news.problem is not None
            assert (news.stage, news.problem.code) == (JobStage.QUEUED, "scheduler.silent")
            assert news.text.startswith("The scheduler does not answer. That alone changes nothing for the job.")
            program.trains(trains)
            assert (trains.state, program.job(trains).news.problem) == (RunState.RUNNING, None)
        program.until(waits, "the scheduler answers again")
        assert program.job(run).news.problem is None
        program.session.cancel(program.job(run).id)
        program.until(lambda: program.job(run).news.over, "the job's end")
        assert program.problems == []
