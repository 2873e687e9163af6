"""A real supervisor's queue: devices for several runs at once, places, cancelling, and what a successor keeps of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
import zmq

from clew_agent.supervisor.run_queue import QueueRecord
from clew_shared.journal.events import Attempt, Log
from clew_shared.journal.files import Record, journal_path, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import ContinueRun, Done, GetStatus, MoveRun, Refused, RunStatus, StartRun, Status, Stop
from tests.integration.agents import (
    BOUND_S,
    STAND_IN,
    Agent,
    Viewer,
    command_of,
    end_all,
    stand_in_spec,
    trainers,
    wait_for,
)

SLOW = {"steps": 100_000, "pause": 0.02}
Opened = tuple[Agent, Viewer]
Opener = Callable[..., Opened]


@pytest.fixture
def open_agent() -> Iterator[Opener]:
    """Starts a supervisor with these options and connects to it; a second call follows the first one's end."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: list[Opened] = []

    def start(*options: str) -> Opened:
        agent = Agent((*STAND_IN, *options))
        opened.append((agent, Viewer(context, agent.address())))
        return opened[-1]

    yield start
    for agent, viewer in opened:
        viewer.close()
        if agent.process.poll() is None:
            assert agent.end() == 0
    for folder in opened[0][0].places.runs.glob("*"):
        end_all(folder.name)
    context.destroy(linger=0)


def spread(count: int) -> RunSpec:
    """A slow run on several devices."""
    spec = stand_in_spec(**SLOW)
    return msgspec.structs.replace(spec, strategy="spread", devices=count) if count > 1 else spec


def queued(viewer: Viewer, count: int) -> list[str]:
    """Runs of which the first has begun and the others wait in this order."""
    runs = [viewer.start(stand_in_spec(**SLOW)) for _ in range(count)]
    viewer.wait_state(runs[0], RunState.RUNNING)
    return runs


def places(viewer: Viewer, runs: Sequence[str]) -> list[int]:
    statuses = viewer.statuses()
    return [statuses[run].queue for run in runs]


def first_words(agent: Agent, run: str) -> tuple[Attempt, str]:
    """What a run's journal says of its devices, and what its process found in its environment."""
    events = [item.event for item in read_journal(journal_path(agent.places.runs / run, 1)) if isinstance(item, Record)]
    attempt, log = events[0], next(event for event in events if isinstance(event, Log))
    assert isinstance(attempt, Attempt)
    return attempt, log.text


# --- Devices ----------------------------------------------------------------------------------------------------------


def test_several_runs_train_at_once_on_devices_of_their_own(open_agent: Opener) -> None:
    agent, viewer = open_agent("--gpus", "3")
    large, small, third = (viewer.start(spread(count)) for count in (2, 1, 1))
    assert viewer.wait_state(large, RunState.RUNNING).devices == ("Stand-in GPU (0)", "Stand-in GPU (1)")
    assert viewer.wait_state(small, RunState.RUNNING).devices == ("Stand-in GPU (2)",)
    waiting = viewer.statuses()[third]
    assert (waiting.state, waiting.queue, waiting.devices) == (RunState.QUEUED, 1, ())
    attempt, environment = first_words(agent, large)
    assert attempt.devices == ("Stand-in GPU (0)", "Stand-in GPU (1)")
    assert environment == "CUDA_VISIBLE_DEVICES=0,1"

    viewer.ask(Stop(run=small))
    assert viewer.wait_state(third, RunState.RUNNING).devices == ("Stand-in GPU (2)",)
    assert viewer.statuses()[small].devices == ("Stand-in GPU (2)",), "also when it is over"


def test_small_runs_do_not_pass_a_large_one_over(open_agent: Opener) -> None:
    _, viewer = open_agent("--gpus", "2")
    first, large, small = (viewer.start(spread(count)) for count in (1, 2, 1))
    viewer.wait_state(first, RunState.RUNNING)
    assert places(viewer, (first, large, small)) == [0, 1, 2]
    viewer.ask(Stop(run=first))
    viewer.wait_state(large, RunState.RUNNING)
    assert places(viewer, (large, small)) == [0, 1]


def test_a_run_that_asks_for_more_devices_than_there_are_is_refused_at_once(open_agent: Opener) -> None:
    agent, viewer = open_agent("--gpus", "3")
    spec = spread(4)
    reply = viewer.ask(StartRun(spec=spec))
    assert isinstance(reply, Refused)
    assert reply.problem.code == "spec.devices"
    assert "asks for 4 devices, and a run can have at most 3 here" in reply.problem.text
    assert not (agent.places.runs / spec.run).exists()


def test_processors_have_slots_and_devices_there_are_made_inside_a_run(open_agent: Opener) -> None:
    _, viewer = open_agent("--slots", "2")
    runs = [viewer.start(spread(count)) for count in (4, 1, 2)]
    for run in runs[:2]:
        assert viewer.wait_state(run, RunState.RUNNING).devices == ("CPU",)
    assert places(viewer, runs) == [0, 0, 1]


# --- Places -----------------------------------------------------------------------------------------------------------


def test_a_waiting_run_is_moved_and_viewers_see_it_at_once(open_agent: Opener) -> None:
    _, viewer = open_agent()
    runs = queued(viewer, 4)
    before = viewer.ask(GetStatus())
    assert isinstance(before, Status)
    assert viewer.ask(MoveRun(run=runs[3], place=1)) == Done(run=runs[3])
    after = viewer.ask(GetStatus(version=before.version, wait=5.0))
    assert isinstance(after, Status)
    assert after.version > before.version
    assert places(viewer, runs) == [0, 2, 3, 1]

    assert viewer.ask(MoveRun(run=runs[3], place=1)) == Done(run=runs[3])
    again = viewer.ask(GetStatus())
    assert isinstance(again, Status)
    assert again.version == after.version, "the same request again changes nothing"
    viewer.ask(MoveRun(run=runs[1], place=100))
    assert places(viewer, runs) == [0, 3, 2, 1]
    viewer.ask(Stop(run=runs[0]))
    viewer.wait_state(runs[3], RunState.RUNNING)


def test_moving_what_does_not_wait_changes_nothing_and_a_place_must_be_one(open_agent: Opener) -> None:
    _, viewer = open_agent()
    runs = queued(viewer, 3)
    assert viewer.ask(MoveRun(run=runs[0], place=2)) == Done(run=runs[0])
    assert places(viewer, runs) == [0, 1, 2]
    wrong = viewer.ask(MoveRun(run=runs[2], place=0))
    unknown = viewer.ask(MoveRun(run="nobody", place=1))
    assert isinstance(wrong, Refused)
    assert isinstance(unknown, Refused)
    assert (wrong.problem.code, unknown.problem.code) == ("queue.place", "run.unknown")
    viewer.ask(Stop(run=runs[2]))
    assert viewer.ask(MoveRun(run=runs[2], place=1)) == Done(run=runs[2])
    assert places(viewer, runs) == [0, 1, 0]


# --- Cancelling -------------------------------------------------------------------------------------------------------


def test_a_queued_continuation_is_taken_out_and_the_run_stays_as_it_was(open_agent: Opener) -> None:
    agent, viewer = open_agent()
    run = viewer.start(stand_in_spec(fault="hurries", **SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    viewer.ask(Stop(run=run))
    before = viewer.wait_state(run, RunState.STOPPED)
    viewer.journal(run)
    (other,) = queued(viewer, 1)
    assert viewer.ask(ContinueRun(run=run)) == Done(run=run)
    assert viewer.statuses()[run].state is RunState.QUEUED
    for _ in range(2):
        assert viewer.ask(Stop(run=run)) == Done(run=run)
    after = viewer.statuses()[run]
    assert (after.state, after.attempt, after.reason, after.step) == (RunState.STOPPED, 1, before.reason, before.step)
    assert (agent.places.runs / run / "spec.toml").exists()

    assert viewer.ask(ContinueRun(run=run)) == Done(run=run)
    viewer.ask(Stop(run=other))
    assert viewer.wait_state(run, RunState.FINISHED).attempt == 2


def test_a_run_that_was_taken_out_stays_out_until_a_person_wants_it_again(open_agent: Opener) -> None:
    agent, viewer = open_agent()
    (first,) = queued(viewer, 1)
    spec = stand_in_spec(steps=20)
    viewer.start(spec)
    viewer.ask(Stop(run=spec.run))

    def taken_out(viewer: Viewer) -> None:
        for _ in range(2):
            status = viewer.statuses()[spec.run]
            assert (status.state, status.queue, status.reason) == (RunState.STOPPED, 0, "Taken out of the queue.")
            assert viewer.ask(StartRun(spec=spec)) == Done(run=spec.run), "as when its answer was lost in a cut"
        assert not (agent.places.runs / spec.run).exists()

    taken_out(viewer)
    agent.kill()
    _, viewer = open_agent()
    taken_out(viewer)
    viewer.ask(Stop(run=first))
    assert viewer.ask(ContinueRun(run=spec.run)) == Done(run=spec.run)
    assert viewer.wait_state(spec.run, RunState.FINISHED).attempt == 1


def test_taking_out_lets_those_behind_move_up_and_the_next_begin(open_agent: Opener) -> None:
    _, viewer = open_agent("--gpus", "2")
    first = viewer.start(spread(1))
    viewer.wait_state(first, RunState.RUNNING)
    large, small = viewer.start(spread(2)), viewer.start(spread(1))
    assert places(viewer, (large, small)) == [1, 2]
    viewer.ask(Stop(run=large))
    assert viewer.wait_state(small, RunState.RUNNING).devices == ("Stand-in GPU (1)",)


def test_a_discarded_run_leaves_nothing_whether_it_trains_waits_or_has_ended(open_agent: Opener) -> None:
    agent, viewer = open_agent()
    done = viewer.start(stand_in_spec(steps=5))
    viewer.wait_state(done, RunState.FINISHED)
    trains, waits = queued(viewer, 2)
    for run in (done, waits, trains, trains, "nobody"):
        assert viewer.ask(Stop(run=run, now=True, discard=True)) == Done(run=run)
    wait_for(lambda: not viewer.statuses(), "the agent forgets them")
    wait_for(lambda: not list(agent.places.runs.iterdir()), "their folders go")
    last = viewer.start(stand_in_spec(steps=5))
    assert viewer.wait_state(last, RunState.FINISHED).attempt == 1


def test_what_is_discarded_goes_also_when_the_agent_dies_meanwhile(open_agent: Opener) -> None:
    agent, viewer = open_agent()
    (run,) = queued(viewer, 1)
    (guard,) = (one for one in trainers(run) if any("guard" in word for word in command_of(one)))
    guard.suspend()
    agent.kill()
    (record,) = agent.places.agents.glob("*.queue")  # as an agent leaves it that dies as soon as it was asked
    kept = msgspec.json.decode(record.read_bytes(), type=QueueRecord)
    record.write_bytes(msgspec.json.encode(msgspec.structs.replace(kept, discarded=frozenset({run}))))
    _, viewer = open_agent()
    assert (agent.places.runs / run).exists(), "one of its processes is still there"
    guard.resume()
    wait_for(lambda: not (agent.places.runs / run).exists(), "its folder goes")
    assert not viewer.statuses()


# --- Successors -------------------------------------------------------------------------------------------------------


def test_a_successor_knows_who_has_which_device_and_who_is_next(open_agent: Opener) -> None:
    agent, viewer = open_agent("--gpus", "2")
    held = [viewer.start(spread(1)) for _ in range(2)]
    for run in held:
        viewer.wait_state(run, RunState.RUNNING)
    waiting = [viewer.start(spread(1)) for _ in range(2)]
    viewer.ask(MoveRun(run=waiting[1], place=1))
    agent.kill()
    agent, viewer = open_agent("--gpus", "2")

    def seen() -> dict[str, RunStatus] | None:
        statuses = viewer.statuses()
        return statuses if statuses.keys() >= {*held, *waiting} else None

    statuses = wait_for(seen, "all runs are adopted", BOUND_S)
    assert [statuses[run].devices for run in held] == [("Stand-in GPU (0)",), ("Stand-in GPU (1)",)]
    assert [statuses[run].queue for run in waiting] == [2, 1]
    viewer.ask(Stop(run=held[0]))
    assert viewer.wait_state(waiting[1], RunState.RUNNING).devices == ("Stand-in GPU (0)",)
    assert viewer.statuses()[held[1]].state is RunState.RUNNING


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_successor_begins_what_its_predecessor_was_about_to_begin(open_agent: Opener, attempt: int) -> None:
    """As when both agent and nursery are killed between the request and the first byte."""
    agent, viewer = open_agent()
    run = viewer.start(stand_in_spec(fault="hurries", **SLOW))
    viewer.wait_state(run, RunState.RUNNING)
    viewer.ask(Stop(run=run))
    viewer.wait_state(run, RunState.STOPPED)
    assert agent.end() == 0
    if attempt == 1:
        journal_path(agent.places.runs / run, 1).unlink()
    (record,) = agent.places.agents.glob("*.queue")
    held = QueueRecord(running=(run,), devices={run: ("CPU",)}, attempts={run: attempt})
    record.write_bytes(msgspec.json.encode(held))
    _, viewer = open_agent()
    assert viewer.wait_state(run, RunState.RUNNING, RunState.FINISHED).attempt == attempt


def test_a_successor_with_fewer_devices_gives_up_what_can_never_begin(open_agent: Opener) -> None:
    agent, viewer = open_agent("--gpus", "4")
    first = viewer.start(spread(4))
    viewer.wait_state(first, RunState.RUNNING)
    large, small = viewer.start(spread(4)), viewer.start(spread(1))
    agent.kill()
    _, viewer = open_agent("--gpus", "2")
    status = viewer.wait_state(large, RunState.FAILED)
    assert "asks for 4 devices" in status.reason
    again = viewer.ask(ContinueRun(run=large))
    assert isinstance(again, Refused)
    assert again.problem.code == "spec.devices"
    viewer.ask(Stop(run=first))
    viewer.wait_state(small, RunState.RUNNING)
