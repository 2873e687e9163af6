"""Faults that a run outlives, and what is told of a job that waits while the scheduler hangs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from clew_gui.jobs.job import JobStage
from clew_gui.session.runs import RunModel
from clew_shared.journal.lifecycle import RunState
from tests.cluster.journey import Program, Scene, Student, every_step_once, same_bits
from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]


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
