"""A run's state on a site: what its journal says, and for which of its jobs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew_gui.jobs.job import EndRequest, JobStage, JobStatus, status_at_end
from clew_gui.schedulers.state import JobState, Phase, Reason
from clew_gui.session.run_state import Evidence, is_complete, shown_state
from clew_gui.session.runs import RunModel
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Attempt, Event, Seal, State
from clew_shared.journal.history import JOB_ENDED
from clew_shared.journal.lifecycle import RESTARTED, VANISHED, RunFold, RunState
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import RunStatus

FIRST, SECOND = "first-job", "second-job"
BEGAN, SEALED = 100.0, 300.0
STATUS = RunStatus(run="r", exercise="softmax", state=RunState.FAILED, attempt=1, size=100)


@pytest.fixture
def model() -> RunModel:
    """A run whose job was killed without a last word. The agent of the next one has just written its end."""
    model = RunModel(RunSpec(exercise="softmax", run="r"), 1, Path("r"), "node1")
    events: tuple[Event, ...] = (
        Attempt(time=BEGAN, format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", job=FIRST),
        State(time=BEGAN, state=RunState.RUNNING),
        State(time=SEALED, state=RunState.FAILED, reason="It ended without a word."),
        Seal(time=SEALED, size=100, sha256="", writer="guard"),
    )
    for event in events:
        model.history.feed(1, event)
    model.status = STATUS
    return model


def test_an_end_that_the_next_jobs_agent_wrote_is_not_that_jobs(model: RunModel) -> None:
    model.job, model.follows_on = JobStatus(job=SECOND, stage=JobStage.RUNNING, starts=200.0), True
    assert (model.state, model.complete) == (RunState.STARTING, False), "it has yet to take the run up"


def test_an_end_in_its_own_job_is_the_end(model: RunModel) -> None:
    model.job, model.follows_on = JobStatus(job=FIRST, stage=JobStage.RUNNING, starts=50.0), True
    assert (model.state, model.complete) == (RunState.FAILED, True)


def test_an_attempt_that_vanished_with_its_node_is_no_end_while_its_job_lives() -> None:
    """The scheduler starts the job again, and another agent goes on with the run."""
    model = RunModel(RunSpec(exercise="softmax", run="r"), 1, Path("r"), "node1")
    gone = Problem(RESTARTED, "The computer was restarted while the run trained.")
    events: tuple[Event, ...] = (
        Attempt(time=BEGAN, format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", job=FIRST),
        State(time=BEGAN, state=RunState.RUNNING),
        State(time=SEALED, state=RunState.FAILED, reason=gone.text, problem=gone),
        Seal(time=SEALED, size=100, sha256="", writer="supervisor"),
    )
    for event in events:
        model.history.feed(1, event)
    model.job = JobStatus(job=FIRST, stage=JobStage.RUNNING, text="The job runs.")
    assert (model.state, model.complete) == (RunState.STARTING, False), "nobody is heard yet"
    model.status, model.link_stale = msgspec.structs.replace(STATUS, state=RunState.RUNNING, size=60), True
    model.took(1, 100, 100)
    assert (model.state, model.complete) == (RunState.STARTING, False), "the lost node was heard last"
    model.status, model.link_stale = msgspec.structs.replace(STATUS, state=RunState.STARTING), False
    assert (model.state, model.complete) == (RunState.STARTING, False)
    model.status = STATUS
    assert (model.state, model.complete) == (RunState.FAILED, True), "the agent that serves now leaves it so"
    model.status = None
    model.job = msgspec.structs.replace(model.job, stage=JobStage.ENDED, phase=Phase.COMPLETED)
    assert (model.state, model.complete) == (RunState.FAILED, True)


@pytest.mark.parametrize("heard", [RunState.STARTING, RunState.RUNNING])
def test_an_end_that_came_as_a_file_counts_while_the_agent_is_not_heard(model: RunModel, heard: RunState) -> None:
    model.job = JobStatus(job=FIRST, stage=JobStage.RUNNING, starts=50.0)
    model.status = msgspec.structs.replace(STATUS, state=heard, size=60)
    model.took(1, 100, 100)
    assert not model.complete, "what it is about to say may be that the run goes on"
    model.link_stale = True
    assert (model.state, model.complete) == (RunState.FAILED, True)
    model.status = msgspec.structs.replace(STATUS, state=RunState.QUEUED)
    assert not model.complete, "it was to go on when the agent was heard last"


@pytest.mark.parametrize(
    ("phase", "said"),
    [(Phase.OUT_OF_MEMORY, "The job used too much."), (Phase.COMPLETED, "Nobody is left."), (None, "Nobody is left.")],
)
def test_why_a_job_was_killed_with_all_of_it_is_known_here(phase: Phase | None, said: str) -> None:
    model = RunModel(RunSpec(exercise="softmax", run="r"), 1, Path("r"), "node1")
    model.history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", job=FIRST))
    found = Problem(VANISHED, "Nobody is left.")
    model.history.feed(1, State(state=RunState.FAILED, reason=found.text, problem=found))
    model.job = JobStatus(job=FIRST, stage=JobStage.ENDED, phase=phase, text="The job used too much.")
    assert (model.state, model.reason) == (RunState.FAILED, said)


@pytest.mark.parametrize(
    ("reason", "said"),
    [(JOB_ENDED, "You cancelled the job."), ("Stopped on request.", "Stopped on request.")],
)
def test_who_cancelled_the_job_is_known_here_and_not_on_the_node(reason: str, said: str) -> None:
    model = RunModel(RunSpec(exercise="softmax", run="r"), 1, Path("r"), "node1")
    model.history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", job=FIRST))
    model.history.feed(1, State(state=RunState.STOPPED, reason=reason))
    model.job = JobStatus(job=FIRST, stage=JobStage.RUNNING)
    assert (model.state, model.reason) == (RunState.STOPPED, reason)
    state = JobState(id="7", phase=Phase.CANCELLED)
    model.job = status_at_end(model.job, state, Reason("The job was cancelled."), EndRequest.CANCEL)
    assert (model.state, model.reason) == (RunState.STOPPED, said)


def test_a_run_waits_again_when_its_job_was_put_back_into_the_queue() -> None:
    model = RunModel(RunSpec(exercise="softmax", run="r"), 1, Path("r"), "node1")
    model.history.feed(1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", job=FIRST))
    model.history.feed(1, State(state=RunState.RUNNING))
    model.status = RunStatus(run="r", exercise="softmax", state=RunState.RUNNING, attempt=1, size=100)
    model.job = JobStatus(job=FIRST, stage=JobStage.QUEUED, text="The job was put back into the queue.")
    assert (model.state, model.reason) == (RunState.QUEUED, "The job was put back into the queue.")
    model.job = JobStatus(job=FIRST, stage=JobStage.RUNNING)
    assert model.state is RunState.RUNNING


LISTED = msgspec.structs.replace(STATUS, state=RunState.QUEUED, attempt=0, size=0, reason="Two runs before it.")
NOTHING = Evidence(RunFold())


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        (NOTHING, (RunState.SUBMITTED, "")),
        (NOTHING._replace(never_arrived=True), (RunState.STOPPED, "It never reached the agent.")),
        (NOTHING._replace(refused="No such exercise.", status=LISTED), (RunState.FAILED, "No such exercise.")),
        (NOTHING._replace(status=LISTED), (RunState.QUEUED, "Two runs before it.")),
        (NOTHING._replace(job=JobStatus(job=FIRST, stage=JobStage.QUEUED, text="Next.")), (RunState.QUEUED, "Next.")),
    ],
)
def test_without_a_journal_the_state_is_the_agents_or_the_jobs(known: Evidence, shown: tuple[RunState, str]) -> None:
    assert shown_state(known) == shown
    assert not is_complete(known)
