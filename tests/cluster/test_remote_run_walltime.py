"""A job whose time is up, by its own clock or by Slurm's word, or that is killed, and Continue: a further job goes on,
and the curve is one."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from clew_gui.schedulers.state import Phase
from clew_gui.session.runs import RunModel
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from tests.cluster.journey import Program, Student, same_bits

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]
LIMIT_S = 300.0
"""Slurm's shortest time is a minute, and on a busy machine a run begins late in it."""
STEPS = 10_000
EVERY = 1000
"""Steps between two checkpoints of the run that is killed: many blocks."""
MOST_JOBS = 8


def test_runs_whose_jobs_time_is_up_and_one_whose_job_was_killed_are_completed_by_further_jobs(
    student: Student,
) -> None:
    """The second's limit is lowered while it runs, so it is Slurm that ends it; the third has its whole life in the
    minute that the first one's job lasts."""
    with student.program() as program:
        timed = _waits(program, program.send(STEPS, hold=True, partition="short", time="1"))  # nobody lets go of it
        lowered = _waits(program, program.send(STEPS))
        program.until(lambda: program.job(lowered).news.nodes != "", "the scheduler says where it runs")
        student.cluster.on("ctl", "scontrol", "update", f"jobid={program.job(lowered).news.id}", "timelimit=1")
        _a_killed_job(student, program)
        _a_job_whose_time_is_up(student, program, timed, slurm="FAILED|TIMEOUT")  # mostly the job has ended itself
        _a_job_whose_time_is_up(student, program, lowered, slurm="TIMEOUT")


def _waits(program: Program, run: RunModel) -> RunModel:
    """The run with its first steps: paused, so a quick machine does not complete it in time."""
    program.trains(run)
    program.session.pause(run.id)
    return run


def _a_job_whose_time_is_up(student: Student, program: Program, run: RunModel, slurm: str) -> None:
    """There is a checkpoint of its last step, and as many further jobs as it takes complete the run. ``slurm`` is what
    the scheduler has written down of it, which it soon forgets otherwise."""
    program.until(lambda: run.settled and program.job(run).news.over, "the job's end", LIMIT_S)
    assert run.state is RunState.TIMED_OUT, run.reason
    news = program.job(run).news
    assert (news.phase, news.text) == (Phase.TIMED_OUT, "The job reached its time limit of 1 minute.")
    written = student.cluster.on("ctl", f"grep '^JobId={news.id} ' /var/spool/slurmctld/jobcomp.log")
    assert re.search(f" JobState=({slurm}) ", written)
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
    assert same_bits(run.history) == 0  # each was saved at its very last step
    student.judge(run, attempts=len(jobs))


def _a_killed_job(student: Student, program: Program) -> None:
    """It asks for no time of its own. A further one goes on from the run's checkpoint and repeats the same bits."""
    run = program.send(checkpoint_every=EVERY, time="")
    program.until(lambda: run.history.fold.step > EVERY, "steps behind a checkpoint")
    program.until(lambda: program.job(run).news.nodes != "", "the scheduler says where it runs")
    _kill_between_two_checkpoints(student, program, run)
    program.until(lambda: run.settled, "the job's end")
    reached = run.history.fold.step
    program.session.continue_run(run.id)
    program.until(lambda: run.history.fold.attempt == 2 and run.history.fold.step > reached, "further steps")
    program.stop(run)
    assert run.state is RunState.STOPPED
    went_on = int(run.history.column("loss", attempt=2).steps[0])
    assert (0 < went_on < reached, went_on % EVERY) == (True, 0)
    assert same_bits(run.history) == reached - went_on
    student.judge(run, attempts=2)


def _kill_between_two_checkpoints(student: Student, program: Program, run: RunModel) -> None:
    """Frozen first, to see that steps are recorded which no checkpoint holds: those are done again."""
    news = program.job(run).news

    def to_all(send: Callable[[psutil.Process], None]) -> None:
        for process in student.processes(news.nodes, SLURM_JOB_ID=news.id):
            with suppress(psutil.Error):  # it has ended meanwhile
                send(process)

    to_all(psutil.Process.suspend)
    while read_run(student.there(run.id).path).fold.step % EVERY == 0:
        to_all(psutil.Process.resume)
        program.trains(run)
        to_all(psutil.Process.suspend)
    to_all(psutil.Process.kill)
