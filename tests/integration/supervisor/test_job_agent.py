"""The agent of a batch job, with stand-ins for its trainers: begins the job's runs, once, and no other job's."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
import zmq

from clew_agent.wire.rendezvous import ANYWHERE, LOOPBACK, own_addresses
from clew_shared.base.places import find_places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Attempt
from clew_shared.journal.files import JournalWriter, Record, journal_path, read_journal
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.spec import RunSpec, read_spec, to_toml
from clew_shared.wire.channel import Channel, KeyPair
from clew_shared.wire.messages import AgentAddress, ContinueRun, Done, Hello, Refused, StartRun, Stop
from tests.integration.agents import BOUND_S, STAND_IN, Agent, Viewer, end_all, stand_in_spec, trainers, wait_for
from tests.unit.runs import describe, points

SLOW = {"steps": 100_000, "pause": 0.02}


class Job:
    """A job's folder, its environment, and the agents that its keeper starts."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], name: str = "") -> None:
        self.job = name or str(uuid.uuid4())
        self.places = find_places()
        self.folder = self.places.home / "jobs" / self.job
        self.runs = self.folder / "runs"
        self.runs.mkdir(parents=True)
        self.agents: list[Agent] = []
        self.viewers: list[Viewer] = []
        self._context = context
        self._began = 0
        self.starts()

    def starts(self) -> None:
        """The scheduler starts the job (again): its keeper writes another record."""
        self._began += 100
        (self.folder / "record.0").write_text(f"format=1\njob={self.job}\nbegan={self._began}\nwhy=\n")

    def add(self, spec: RunSpec) -> str:
        """Put a run into the job's folder, as the laptop does."""
        (self.runs / f"{spec.run}.toml").write_text(to_toml(spec))
        return spec.run

    def agent(self, *words: str) -> Agent:
        """The keeper starts an agent."""
        marks = {"CLEW_JOB": self.job, "CLEW_JOB_FOLDER": str(self.folder), "CLEW_JOB_UNTIL": "0"}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in marks.items():
                patch.setenv(name, value)
            self.agents.append(Agent((*STAND_IN, *words, "--job")))
        return self.agents[-1]

    def viewer(self, agent: Agent) -> Viewer:
        """A window that has found the agent."""
        self.viewers.append(Viewer(self._context, agent.address()))
        return self.viewers[-1]

    def serve(self) -> Viewer:
        """An agent, and a window that watches it."""
        return self.viewer(self.agent())

    def attempts(self, run: str) -> list[Attempt]:
        folder = self.places.runs / run
        files = sorted(folder.glob("journal.*"))
        return [first_frame(path) for path in files]

    def close(self) -> None:
        for viewer in self.viewers:
            viewer.close()
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.end()


def first_frame(path: Path) -> Attempt:
    first = next(iter(read_journal(path)))
    assert isinstance(first, Record)
    assert isinstance(first.event, Attempt)
    return first.event


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def new_job(home: object, context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Callable[..., Job]]:
    jobs: list[Job] = []

    def make(name: str = "") -> Job:
        jobs.append(Job(context, name))
        return jobs[-1]

    yield make
    for job in jobs:
        job.close()
    for folder in find_places().runs.glob("*"):
        end_all(folder.name)


@pytest.fixture
def job(new_job: Callable[..., Job]) -> Job:
    return new_job()


def test_it_is_found_by_the_jobs_name_and_listens_where_the_login_node_can_reach_it(job: Job) -> None:
    address = job.agent().address()
    path = job.places.agents / f"{job.job}.json"
    assert msgspec.json.decode(path.read_bytes(), type=AgentAddress) == address
    assert address.agent == job.job
    listening = psutil.Process(address.pid).net_connections("tcp")
    assert [one.laddr.ip for one in listening if one.laddr.port == address.port and one.status == "LISTEN"] == [
        ANYWHERE
    ]
    assert address.address in (*own_addresses(), LOOPBACK)


def test_nobody_is_let_in_without_a_key_whatever_the_address(job: Job, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    address = job.agent().address()
    stranger = Channel(context, address.address, address.port, address.public_key, KeyPair.generate())
    with pytest.raises(ProblemError):
        stranger.request(Hello(), 1.0)
    stranger.close()


def test_the_jobs_runs_begin_by_themselves_and_the_agent_ends_soon_after_the_last(job: Job) -> None:
    runs = [job.add(stand_in_spec(steps=20)) for _ in range(2)]
    agent = job.agent("0.5")
    assert agent.process.wait(BOUND_S) == 0
    for run in runs:
        (attempt,) = job.attempts(run)
        assert attempt.job == job.job
        assert verify_run(job.places.runs / run).findings == ()
    assert not (job.places.agents / f"{job.job}.json").exists()


def test_a_run_that_is_added_later_begins_as_well(job: Job) -> None:
    viewer = job.serve()
    run = job.add(stand_in_spec(steps=20))
    viewer.wait_state(run, RunState.FINISHED)


def test_asking_for_a_run_that_the_folder_named_is_harmless(job: Job) -> None:
    spec = stand_in_spec(steps=20)
    run = job.add(spec)
    viewer = job.serve()
    viewer.wait_state(run, RunState.FINISHED)
    assert viewer.ask(StartRun(spec=spec)) == Done(run=run)
    assert len(job.attempts(run)) == 1


def test_an_agent_that_is_started_again_begins_nothing_twice(job: Job) -> None:
    ended, slow = job.add(stand_in_spec(steps=20)), stand_in_spec(**SLOW)
    first = job.agent()
    viewer = job.viewer(first)
    viewer.wait_state(ended, RunState.FINISHED)
    job.add(slow)
    viewer.wait_state(slow.run, RunState.RUNNING)
    stopped = job.add(stand_in_spec(**SLOW))
    viewer.wait_state(stopped, RunState.QUEUED)
    viewer.ask(Stop(run=stopped))
    first.kill()

    again = job.serve()
    assert again.wait_state(slow.run, RunState.RUNNING).attempt == 1
    assert again.ask(Stop(run=slow.run)) == Done(run=slow.run)
    again.wait_state(slow.run, RunState.STOPPED)
    later = job.add(stand_in_spec(steps=20))
    again.wait_state(later, RunState.FINISHED)  # the folder was looked at meanwhile
    states = {run: status.state for run, status in again.statuses().items()}
    assert (states[ended], states[slow.run], states[stopped]) == (RunState.FINISHED, RunState.STOPPED, RunState.STOPPED)
    assert len(job.attempts(slow.run)) == 1


BAD = {
    "no spec": ("exercise =\n", "is not valid TOML"),
    "unknown exercise": ('exercise = "stand-out"\n', "stand-out"),
    "another's": (f'exercise = "stand-in"\nrun = "{uuid.uuid4()}"\n', "another run"),
    "wrong value": ('exercise = "stand-in"\n[params]\nsteps = -1\n', "Steps"),
}


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
def test_a_run_that_cannot_begin_is_shown_as_failed(text: str, words: str, job: Job) -> None:
    run = str(uuid.uuid4())
    path = job.runs / f"{run}.toml"
    path.write_text(text)
    os.utime(path, (1, 1))  # it was not written just now
    viewer = job.serve()
    status = viewer.wait_state(run, RunState.FAILED)
    assert words in status.reason
    assert viewer.journal(run) == journal_path(job.places.runs / run, 1).read_bytes()
    good = job.add(stand_in_spec(steps=20))
    viewer.wait_state(good, RunState.FINISHED)


def test_two_jobs_on_one_node_and_one_home_do_not_know_each_others_runs(new_job: Callable[..., Job]) -> None:
    one, other = new_job(), new_job()
    mine, yours = one.add(stand_in_spec(**SLOW)), other.add(stand_in_spec(**SLOW))
    first, second = one.serve(), other.serve()
    first.wait_state(mine, RunState.RUNNING)
    second.wait_state(yours, RunState.RUNNING)
    alone = Agent()  # the node's agent outside of jobs
    third = Viewer(zmq.Context.instance(), alone.address())
    fourth = one.add(stand_in_spec(steps=10))
    wait_for(lambda: fourth in first.statuses(), "the third run")
    assert set(first.statuses()) == {mine, fourth}
    assert set(second.statuses()) == {yours}
    assert third.statuses() == {}
    assert isinstance(third.ask(ContinueRun(run=mine)), Refused)
    third.close()
    assert alone.end() == 0
    zmq.Context.instance().destroy(linger=0)


def test_a_follow_on_job_takes_up_what_has_not_finished(new_job: Callable[..., Job]) -> None:
    first, second = new_job(), new_job()
    stopped, finished = stand_in_spec(pause=0.02, fault="hurries", steps=3000), stand_in_spec(steps=20)
    done = first.add(finished)
    watching = first.serve()
    watching.wait_state(done, RunState.FINISHED)
    first.add(stopped)
    watching.wait_state(stopped.run, RunState.RUNNING)
    assert watching.ask(Stop(run=stopped.run)) == Done(run=stopped.run)
    watching.wait_state(stopped.run, RunState.STOPPED)

    second.add(msgspec.structs.replace(stopped, strategy="spread", devices=2))
    second.add(finished)
    viewer = second.serve()
    assert viewer.wait_state(stopped.run, RunState.FINISHED).attempt == 2
    folder = RunFolder(second.places.runs / stopped.run)
    assert read_spec(folder.latest_spec).devices == 2, "the further job has other devices"
    assert [attempt.job for attempt in second.attempts(stopped.run)] == [first.job, second.job]
    assert viewer.wait_state(done, RunState.FINISHED).attempt == 1
    wait_for(lambda: stopped.run not in watching.statuses(), "the first job's agent lets go")


def test_a_job_that_is_queued_again_goes_on_beside_what_a_cut_off_node_may_still_write(job: Job) -> None:
    """The journal of another node is neither sealed nor waited for."""
    spec = stand_in_spec(steps=50)
    run = job.add(spec)
    folder = job.places.runs / run
    folder.mkdir(parents=True)
    (folder / "spec.toml").write_text(to_toml(spec))
    with JournalWriter.create(journal_path(folder, 1)) as writer:
        there = {"run": run, "host": "node-that-was-cut-off", "boot": "b", "pid": 1, "job": job.job}
        writer.append(describe(RunFolder(folder), 1, **there))
        writer.append(points(0, [4, 3]))
    before = journal_path(folder, 1).read_bytes()
    record = {"waiting": [], "running": [run], "devices": {run: ["CPU"]}, "attempts": {run: 1}, "begun": {run: "0:1:0"}}
    job.places.agents.mkdir(parents=True, exist_ok=True)
    (job.places.agents / f"{job.job}.queue").write_text(json.dumps(record))
    viewer = job.serve()
    assert viewer.wait_state(run, RunState.FINISHED).attempt == 2
    assert journal_path(folder, 1).read_bytes() == before


def test_the_same_job_on_the_same_node_again_goes_on_with_what_was_killed(job: Job) -> None:
    spec = stand_in_spec(pause=0.02, fault="hurries", steps=3000)
    run = job.add(spec)
    first = job.agent()
    job.viewer(first).wait_state(run, RunState.RUNNING)
    first.kill()
    for process in trainers(run):
        process.kill()
    job.starts()
    viewer, shown = job.serve(), set()
    while (status := viewer.statuses().get(run)) is None or status.state is not RunState.FINISHED:
        if status is not None:
            shown.add((status.attempt, status.state))
    assert status.attempt == 2
    assert not [state for attempt, state in shown if attempt == 1 and state in TERMINAL], "that was no end"


def test_what_a_person_stopped_stays_so_when_its_job_starts_again(job: Job) -> None:
    run = job.add(stand_in_spec(pause=0.02, fault="hurries", steps=3000))
    first = job.agent()
    viewer = job.viewer(first)
    viewer.wait_state(run, RunState.RUNNING)
    assert viewer.ask(Stop(run=run)) == Done(run=run)
    viewer.wait_state(run, RunState.STOPPED)
    wait_for(lambda: not trainers(run), "the end of its processes")
    assert first.end() == 0
    job.starts()
    again = job.serve()
    again.wait_state(job.add(stand_in_spec(steps=20)), RunState.FINISHED)  # the folder was looked at meanwhile
    assert (again.statuses()[run].state, again.statuses()[run].attempt) == (RunState.STOPPED, 1)
    assert again.ask(ContinueRun(run=run)) == Done(run=run)
    assert again.wait_state(run, RunState.FINISHED).attempt == 2


def test_a_job_that_has_ended_leaves_nothing_where_agents_are_found(job: Job) -> None:
    run = job.add(stand_in_spec(steps=20))
    agent = job.agent()
    job.viewer(agent).wait_state(run, RunState.FINISHED)
    queue = job.places.agents / f"{job.job}.queue"
    wait_for(lambda: json.loads(queue.read_bytes())["running"] == [], "the end of its processes")
    assert {path.suffix for path in job.places.agents.iterdir()} == {".json", ".allow", ".queue"}
    assert agent.end() == 0
    assert list(job.places.agents.iterdir()) == []


def test_an_agent_whose_job_another_one_serves_now_ends(job: Job) -> None:
    agent = job.agent()
    address = agent.address()
    successor = msgspec.structs.replace(address, generation=address.generation + 1, host="node9")
    path = job.places.agents / f"{job.job}.json"
    path.write_bytes(msgspec.json.encode(successor))
    assert agent.process.wait(BOUND_S) == 0
    assert msgspec.json.decode(path.read_bytes(), type=AgentAddress) == successor, "it leaves the other's address"
