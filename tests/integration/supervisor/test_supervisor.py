"""A real supervisor process, real sockets, a stand-in for guard and trainer: what a viewer can ask and what it gets."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
from collections.abc import Callable, Iterator

import msgspec
import pytest
import zmq

from clew_shared.base.problem import Problem
from clew_shared.journal.events import Live
from clew_shared.journal.files import Record, journal_path, read_journal
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.journal.verify import verify_run
from clew_shared.spec import RunSpec, read_spec
from clew_shared.wire.channel import Channel, KeyPair
from clew_shared.wire.messages import (
    MAX_FETCH_BYTES,
    CatalogueReply,
    ContinueRun,
    Done,
    Fetch,
    Fetched,
    GetCatalogue,
    GetStatus,
    Hello,
    Pause,
    Refused,
    SetLive,
    Shutdown,
    StartRun,
    Status,
    Stop,
    Unpause,
    Welcome,
)
from tests.integration.agents import BOUND_S, STAND_IN, Agent, Viewer, end_all, stand_in_spec, trainers, wait_for

SLOW = {"steps": 100_000, "pause": 0.02}


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


@pytest.fixture
def new_agent() -> Iterator[Callable[[], Agent]]:
    """Starts supervisors; at the end they and the runs they left are ended."""
    agents: list[Agent] = []

    def start() -> Agent:
        agents.append(Agent())
        return agents[-1]

    yield start
    for agent in agents:
        if agent.process.poll() is None:
            assert agent.end() == 0
    for folder in agents[0].places.runs.glob("*") if agents else ():
        end_all(folder.name)


@pytest.fixture
def agent(new_agent: Callable[[], Agent]) -> Agent:
    return new_agent()


@pytest.fixture
def viewer(agent: Agent, context: zmq.Context[zmq.Socket[bytes]]) -> Iterator[Viewer]:
    viewer = Viewer(context, agent.address())
    yield viewer
    viewer.close()


def refusal(reply: object) -> Problem:
    assert isinstance(reply, Refused), reply
    return reply.problem


# --- Finding and greeting ---------------------------------------------------------------------------------------------


def test_the_rendezvous_file_is_for_the_owner_alone_and_holds_no_secret(agent: Agent) -> None:
    address = agent.address()
    path = agent.places.agents / f"{address.agent}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert set(json.loads(path.read_text())) == set(msgspec.structs.asdict(address))
    assert not [name for name in msgspec.structs.asdict(address) if "secret" in name]


def test_hello_says_who_answers(agent: Agent, viewer: Viewer) -> None:
    reply = viewer.ask(Hello())
    assert isinstance(reply, Welcome)
    assert reply.agent == agent.address().agent
    assert "CPU core" in reply.devices[0]


def test_a_viewer_of_another_major_version_may_read_and_not_command(viewer: Viewer) -> None:
    assert isinstance(viewer.ask(Hello(protocol=(99, 0))), Welcome)
    assert isinstance(viewer.ask(GetStatus()), Status)
    assert refusal(viewer.ask(StartRun(spec=stand_in_spec()))).code == "protocol.major"
    assert refusal(viewer.ask(Shutdown())).code == "protocol.major"


def test_a_second_start_finds_the_first_and_leaves_it_alone(agent: Agent, viewer: Viewer) -> None:
    before = agent.address()
    assert subprocess.run(STAND_IN, capture_output=True, timeout=BOUND_S, check=False).returncode == 0
    assert agent.address() == before
    assert isinstance(viewer.ask(Hello()), Welcome)


def test_it_ends_by_itself_when_nobody_needs_it(home: object) -> None:
    agent = Agent((*STAND_IN, "0.2"))
    assert agent.process.wait(BOUND_S) == 0
    assert list(agent.places.agents.glob("*.json")) == []


def test_shutdown_ends_it_and_removes_its_address(agent: Agent, viewer: Viewer) -> None:
    assert viewer.ask(Shutdown()) == Done()
    assert agent.process.wait(BOUND_S) == 0
    assert list(agent.places.agents.glob("*.json")) == []


def test_the_catalogue_comes_whole(viewer: Viewer) -> None:
    reply = viewer.ask(GetCatalogue())
    assert isinstance(reply, CatalogueReply)
    assert [card.id for card in reply.catalogue.exercises] == ["stand-in"]


# --- A run ------------------------------------------------------------------------------------------------------------


def test_a_run_is_started_written_fetched_and_verified(agent: Agent, viewer: Viewer) -> None:
    spec = stand_in_spec(steps=200)
    run = viewer.start(spec)
    data = viewer.journal(run)
    folder = RunFolder(agent.places.runs / run)
    assert data == folder.journal(1).read_bytes()
    assert read_spec(folder.spec) == spec
    assert viewer.wait_state(run, RunState.FINISHED).step == 200
    assert verify_run(folder.path).ok


def test_starting_twice_starts_once(agent: Agent, viewer: Viewer) -> None:
    spec = stand_in_spec()
    assert [viewer.ask(StartRun(spec=spec)) for _ in range(3)] == [Done(run=spec.run)] * 3
    viewer.wait_state(spec.run, RunState.FINISHED)
    assert viewer.ask(StartRun(spec=spec)) == Done(run=spec.run)
    assert RunFolder(agent.places.runs / spec.run).attempts() == (1,)
    other = msgspec.structs.replace(spec, seed=7)
    assert refusal(viewer.ask(StartRun(spec=other))).code == "run.exists"


def test_a_wrong_spec_is_refused_with_everything_that_is_wrong_and_leaves_nothing(agent: Agent, viewer: Viewer) -> None:
    spec = stand_in_spec(steps=-1, speed=3)
    spec = msgspec.structs.replace(spec, source_hash="another", seed=-1, strategy="mirrored")
    text = refusal(viewer.ask(StartRun(spec=spec))).text
    for words in ("steps", "'speed'", "another version", "seed", "'mirrored'"):
        assert words in text
    assert not (agent.places.runs / spec.run).exists()
    assert viewer.statuses() == {}


@pytest.mark.parametrize("run", ["", "../../etc/passwd", "a/b", "\0", "0" * 36, "X" * 5000])
def test_a_run_that_is_named_by_anything_but_a_uuid_is_refused(run: str, agent: Agent, viewer: Viewer) -> None:
    reply = viewer.ask(StartRun(spec=RunSpec(exercise="stand-in", run=run)))
    assert refusal(reply).code == "spec.run"
    for request in (Fetch(run=run, attempt=1, offset=0), Stop(run=run), ContinueRun(run=run), Pause(run=run)):
        assert refusal(viewer.ask(request)).code == "run.unknown"


def test_an_unknown_exercise_is_refused_with_the_known_ones(viewer: Viewer) -> None:
    reply = viewer.ask(StartRun(spec=msgspec.structs.replace(stand_in_spec(), exercise="stand-on")))
    assert "stand-in" in refusal(reply).hint


def test_runs_wait_for_the_slot_in_order_and_say_their_place(viewer: Viewer) -> None:
    first, second, third = (viewer.start(stand_in_spec(**SLOW)) for _ in range(3))
    viewer.wait_state(first, RunState.RUNNING)
    assert [viewer.statuses()[run].queue for run in (first, second, third)] == [0, 1, 2]
    assert viewer.statuses()[second].state is RunState.QUEUED
    assert viewer.ask(Stop(run=second)) == Done(run=second)
    assert viewer.statuses()[second].state is RunState.STOPPED
    assert viewer.statuses()[third].queue == 1
    assert viewer.ask(Stop(run=first)) == Done(run=first)
    viewer.wait_state(third, RunState.RUNNING)


def test_a_run_that_left_the_queue_can_be_continued_all_the_same(agent: Agent, viewer: Viewer) -> None:
    first, second = viewer.start(stand_in_spec(**SLOW)), viewer.start(stand_in_spec(steps=20))
    viewer.wait_state(first, RunState.RUNNING)
    viewer.ask(Stop(run=second))
    assert not (agent.places.runs / second).exists()
    assert viewer.ask(ContinueRun(run=second)) == Done(run=second)
    viewer.ask(Stop(run=first))
    assert viewer.wait_state(second, RunState.FINISHED, RunState.FAILED).state is RunState.FINISHED
    viewer.journal(second)  # up to its seal, which comes after the state
    assert verify_run(agent.places.runs / second).ok


def test_a_run_is_paused_changed_and_stopped(agent: Agent, viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(**SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    wait_for(lambda: (agent.places.private / "runs" / f"{run}.json").exists())
    assert viewer.ask(Pause(run=run)) == Done(run=run)
    viewer.wait_state(run, RunState.PAUSED)
    assert viewer.ask(Unpause(run=run)) == Done(run=run)
    viewer.wait_state(run, RunState.RUNNING)
    assert viewer.ask(SetLive(run=run, name="learning_rate", value=0.25)) == Done(run=run)
    assert viewer.ask(Stop(run=run)) == Done(run=run)
    assert viewer.wait_state(run, *TERMINAL).state is RunState.STOPPED
    events = [item.event for item in read_journal(agent.places.runs / run / "journal.0001") if isinstance(item, Record)]
    assert [event.value for event in events if isinstance(event, Live)] == [0.25]
    assert viewer.ask(Stop(run=run)) == Done(run=run)
    assert refusal(viewer.ask(Pause(run=run))).code == "run.not_running"


def test_a_trainer_that_does_not_listen_is_killed_by_stop_now_and_its_journal_sealed(
    agent: Agent, viewer: Viewer
) -> None:
    run = viewer.start(stand_in_spec(fault="deaf", **SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    assert viewer.ask(Stop(run=run, now=True)) == Done(run=run)
    assert viewer.wait_state(run, *TERMINAL).state is RunState.STOPPED
    assert viewer.journal(run) == journal_path(agent.places.runs / run, 1).read_bytes()
    wait_for(lambda: not trainers(run))
    assert verify_run(agent.places.runs / run).ok


def test_a_stopped_run_goes_on_as_a_further_attempt(agent: Agent, viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(fault="hurries", **SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    viewer.ask(Stop(run=run))
    viewer.wait_state(run, RunState.STOPPED)
    assert refusal(viewer.ask(ContinueRun(run=run, devices=3))).code == "spec.devices"
    assert viewer.ask(ContinueRun(run=run, devices=2)) == Done(run=run)
    status = viewer.wait_state(run, RunState.FINISHED)
    assert status.attempt == 2
    folder = RunFolder(agent.places.runs / run)
    specs = [read_spec(folder.spec_of(attempt)) for attempt in (1, 2)]
    assert [(spec.strategy, spec.devices) for spec in specs] == [("single", 1), ("spread", 2)]
    assert viewer.journal(run, 2) == journal_path(agent.places.runs / run, 2).read_bytes()
    assert refusal(viewer.ask(ContinueRun(run=run))).code == "run.finished"


def test_a_trainer_that_dies_without_a_guard_is_sealed_by_the_supervisor(agent: Agent, viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(fault="dies"))
    status = viewer.wait_state(run, *TERMINAL)
    assert status.state is RunState.FAILED
    assert "both stopped without a message; log.txt may say why." in status.reason
    viewer.journal(run)  # up to its seal, which comes after the state
    assert verify_run(agent.places.runs / run).ok


# --- Fetching ---------------------------------------------------------------------------------------------------------


def test_long_journals_come_in_pieces_of_256_kib(agent: Agent, viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(steps=60_000))
    viewer.wait_state(run, RunState.FINISHED)
    journal = viewer.journal(run)  # up to its seal, which comes after the state
    path = journal_path(agent.places.runs / run, 1)
    assert path.stat().st_size > 2 * MAX_FETCH_BYTES
    reply = viewer.ask(Fetch(run=run, attempt=1, offset=0))
    assert isinstance(reply, Fetched)
    assert len(reply.data) == MAX_FETCH_BYTES
    assert reply.size == path.stat().st_size
    assert hashlib.sha256(journal).digest() == hashlib.sha256(path.read_bytes()).digest()


def test_an_empty_answer_after_the_wait_is_the_heartbeat(viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(steps=1000, pause=10))
    viewer.wait_state(run, RunState.RUNNING)
    size = viewer.statuses()[run].size
    reply = viewer.ask(Fetch(run=run, attempt=1, offset=size, wait=0.1))
    while isinstance(reply, Fetched) and reply.data:
        reply = viewer.ask(Fetch(run=run, attempt=1, offset=reply.offset + len(reply.data), wait=0.1))
    assert isinstance(reply, Fetched)
    assert (reply.data, reply.sealed) == (b"", False)


def test_a_second_fetch_replaces_the_first_and_states_never_wait_behind_either(viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec(steps=1000, pause=10))
    viewer.wait_state(run, RunState.RUNNING)
    fetch = Fetch(run=run, attempt=2, offset=0, wait=5.0)
    first = viewer.channel.send(fetch)
    second = viewer.channel.send(fetch)
    assert viewer.statuses()[run].state is RunState.RUNNING
    wait_for(lambda: first in _answered(viewer))
    viewer.ask(Stop(run=run, now=True))
    assert second not in _answered(viewer)


def _answered(viewer: Viewer) -> set[bytes]:
    return {request_id for request_id, _ in viewer.channel.receive()}


@pytest.mark.parametrize(("attempt", "offset"), [(0, 0), (-1, 0), (1, -1), (1, 10**9)])
def test_fetching_what_cannot_be_is_refused(attempt: int, offset: int, viewer: Viewer) -> None:
    run = viewer.start(stand_in_spec())
    viewer.wait_state(run, RunState.FINISHED)
    assert refusal(viewer.ask(Fetch(run=run, attempt=attempt, offset=offset))).code.startswith("fetch.")


def test_status_waits_for_a_change(viewer: Viewer) -> None:
    before = viewer.ask(GetStatus())
    assert isinstance(before, Status)
    waiting = viewer.channel.send(GetStatus(version=before.version, wait=5.0))
    run = viewer.start(stand_in_spec(**SLOW))
    replies: dict[bytes, object] = {}

    def came() -> bool:
        replies.update(viewer.channel.receive())
        return waiting in replies

    wait_for(came)
    reply = replies[waiting]
    assert isinstance(reply, Status)
    assert [status.run for status in reply.runs] == [run]


# --- What must not harm it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x00",
        b"not msgpack",
        b"\x81\xa1t\xa7unknown",
        b"\x81\xa1t\xa5start",
        b"\x91" * 60_000,
        bytes(60_000),
    ],
    ids=["empty", "reserved", "number", "text", "unknown", "incomplete", "deep", "zeros"],
)
def test_bytes_that_are_no_request_are_refused_and_the_agent_lives_on(payload: bytes, viewer: Viewer) -> None:
    viewer.channel.socket.send_multipart([b"12345678", payload])
    replies = wait_for(viewer.channel.receive)
    assert replies[0][0] == b"12345678"
    assert refusal(replies[0][1]).code == "request.unknown"
    assert isinstance(viewer.ask(Hello()), Welcome)


def test_a_client_without_a_key_on_the_list_gets_nothing(
    agent: Agent, viewer: Viewer, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    address = agent.address()
    stranger = Channel(context, address.address, address.port, address.public_key, KeyPair.generate())
    stranger.send(Hello())
    wait_for(lambda: stranger.greeting == "refused")
    assert isinstance(viewer.ask(Hello()), Welcome)
    assert stranger.receive() == []
    stranger.close()


# --- A supervisor that dies -------------------------------------------------------------------------------------------


def test_a_killed_supervisor_is_replaced_and_its_runs_go_on(
    new_agent: Callable[[], Agent], context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    first = new_agent()
    viewer = Viewer(context, first.address())
    running = viewer.start(stand_in_spec(**SLOW))
    queued = viewer.start(stand_in_spec(steps=20))
    viewer.wait_state(running, RunState.RUNNING)
    generation = first.address().generation
    first.kill()
    viewer.close()
    assert trainers(running)
    second = new_agent()
    assert second.address().generation > generation
    assert second.address().agent == next(second.places.agents.glob("*.json")).stem
    viewer = Viewer(context, second.address())
    assert viewer.wait_state(running, RunState.RUNNING).attempt == 1
    assert viewer.statuses()[queued].queue == 1
    assert viewer.ask(Stop(run=running)) == Done(run=running)
    viewer.wait_state(queued, RunState.FINISHED)
    assert viewer.journal(running) == journal_path(second.places.runs / running, 1).read_bytes()
    viewer.close()


def test_runs_survive_a_polite_end_and_old_ones_are_listed_again(
    new_agent: Callable[[], Agent], context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    first = new_agent()
    viewer = Viewer(context, first.address())
    done = viewer.start(stand_in_spec(steps=20_000))
    viewer.wait_state(done, RunState.FINISHED)
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(BOUND_S) == 0
    viewer.close()
    viewer = Viewer(context, new_agent().address())
    status = viewer.wait_state(done, RunState.FINISHED)
    assert (status.step, status.exercise) == (20_000, "stand-in")
    viewer.close()
