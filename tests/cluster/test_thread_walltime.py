"""A job whose time is up, or that is killed, and Continue: a further job goes on, and the curve is one."""

from __future__ import annotations

import pytest

from clew_gui.remote.schedulers.state import Phase
from clew_gui.session import RunModel
from clew_shared.lifecycle import RunState
from tests.cluster.journey import Program, Student, same_bits

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]
LIMIT_S = 300.0
"""Slurm's shortest time is a minute, and on a busy machine a run begins late in it."""
STEPS = 10_000
MOST_JOBS = 8


def test_a_run_whose_jobs_time_is_up_and_one_whose_job_was_killed_are_completed_by_further_jobs(
    student: Student,
) -> None:
    """The second has its whole life in the minute that the first one's job lasts."""
    with student.program() as program:
        timed = program.send(STEPS, hold=True, partition="short", time="1")  # nobody lets go of it before its end
        program.trains(timed)
        program.session.pause(timed.id)  # so a quick machine does not complete it in time
        _a_killed_job(student, program)
        _a_job_whose_time_is_up(student, program, timed)


def _a_job_whose_time_is_up(student: Student, program: Program, run: RunModel) -> None:
    """There is a checkpoint, and as many further jobs as it takes complete the run."""
    program.until(lambda: run.settled, "the job's end", LIMIT_S)
    assert run.state is RunState.TIMED_OUT, run.reason
    news = program.job(run).news
    assert (news.phase, news.text) == (Phase.TIMED_OUT, "The job reached its time limit of 1 minute.")
    reached = run.history.fold.step
    assert student.there(run.id).checkpoint(reached).exists()
    jobs = [news.id]
    while RunState(run.state) is RunState.TIMED_OUT and len(jobs) < MOST_JOBS:
        program.session.continue_run(run.id)
        program.until(lambda: not run.settled, "the further job")
        program.until(lambda: run.settled, "the further job's end", LIMIT_S)
        jobs.append(program.job(run).news.id)
        assert run.history.fold.step >= reached
        reached = run.history.fold.step
    assert (run.state, run.history.fold.step) == (RunState.FINISHED, STEPS), run.reason
    assert len(set(jobs)) == len(jobs)
    same_bits(run.history)
    student.judge(run, attempts=len(jobs))


def _a_killed_job(student: Student, program: Program) -> None:
    """A further one goes on from the run's checkpoint and repeats the same bits."""
    run = program.send(checkpoint_every=200)
    program.until(lambda: run.history.fold.step > 250, "steps behind a checkpoint")
    program.until(lambda: program.job(run).news.nodes != "", "the scheduler says where it runs")
    student.kill_all(program.job(run).news.nodes, SLURM_JOB_ID=program.job(run).news.id)
    program.until(lambda: run.settled, "the job's end")
    reached = run.history.fold.step
    program.session.continue_run(run.id)
    program.until(lambda: run.history.fold.attempt == 2 and run.history.fold.step > reached, "further steps")
    program.stop(run)
    assert run.state is RunState.STOPPED
    went_on = int(run.history.column("loss", attempt=2).steps[0])
    assert (0 < went_on <= reached, went_on % 200) == (True, 0)
    same_bits(run.history)
    student.judge(run, attempts=2)
