"""A job whose time is up, or that is killed, and Continue: a further job goes on, and the curve is one."""

from __future__ import annotations

import pytest

from clew_gui.remote.schedulers.state import Phase
from clew_shared.lifecycle import RunState
from tests.cluster.journey import Student, same_bits

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]
LIMIT_S = 300.0
"""Slurm's shortest time is a minute, and on a busy machine a run begins late in it."""
STEPS = 20_000
MOST_JOBS = 8


def test_a_run_whose_jobs_time_is_up_is_saved_and_completed_by_a_further_job(student: Student) -> None:
    with student.program() as program:
        run = program.send(STEPS, hold=True, partition="short", time="1")  # nobody lets go of it before its end
        program.trains(run)
        program.session.pause(run.id)  # so a quick machine does not complete it in time
        program.until(lambda: run.settled, "the job's end", LIMIT_S)
        assert run.state is RunState.TIMED_OUT, run.reason
        news = program.job(run).news
        assert (news.phase, news.text) == (Phase.TIMED_OUT, "The job reached its time limit of 1 minute.")
        reached = run.history.fold.step
        assert student.there(run.id).checkpoint(reached).exists()
        jobs = 1
        while RunState(run.state) is RunState.TIMED_OUT and jobs < MOST_JOBS:
            program.session.continue_run(run.id)
            jobs += 1
            program.until(lambda: not run.settled, "the further job")
            program.until(lambda: run.settled, "the further job's end", LIMIT_S)
            assert run.history.fold.step >= reached
            reached = run.history.fold.step
        assert (run.state, run.history.fold.step) == (RunState.FINISHED, STEPS), run.reason
        assert len({each.news.id for each in program.session.jobs.values()}) == jobs
        same_bits(run.history)
        student.judge(run, attempts=jobs)


def test_a_run_whose_job_was_killed_goes_on_from_its_checkpoint_and_repeats_the_same_bits(student: Student) -> None:
    with student.program() as program:
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
