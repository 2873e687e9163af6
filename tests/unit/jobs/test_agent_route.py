"""The way to a job's agent: no call of a link waits, nothing is given out before it would work, and a way that breaks
soon is looked for ever more seldom."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew_gui.jobs import agent_route
from clew_gui.jobs.agent_route import AgentRoute
from clew_gui.jobs.job import JobOrder, JobStage
from clew_gui.jobs.job_book import JobBook
from clew_gui.jobs.manager import JobManager
from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.ssh.connection import Stream
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec, to_toml
from clew_shared.wire.messages import AgentAddress, Fetch, Fetched
from tests.unit.fake_site import AWAY, CLEW, FakeStream, Login, a_line, an_access
from tests.unit.jobs.test_manager import reach, until

KEY = ("viewer-1", "k" * 40)
SPEAKS = b"\xff\0\0\0\0\0\0\0\1\x7f"


class Scene:
    """A job that was sent, and its target."""

    def __init__(self, folder: Path) -> None:
        self.login = Login()
        self.spec = RunSpec(exercise="softmax", run=str(uuid.uuid4()))
        self.order = JobOrder(
            job=str(uuid.uuid4()), site="lab", runs=(self.spec,), allocation=AllocationRequest(time="10"), hold=True
        )
        self.job = self.order.job
        book = JobBook(folder / "jobs.jsonl")
        access = an_access(lambda: a_line(self.login))
        self.manager = JobManager(book, lambda _name: access, lambda _name: "Lab", sure=0.0)
        self.manager.submit(self.order)
        reach(self.manager, self.job, JobStage.QUEUED)
        self.target = self.manager.target(self.job)

    @property
    def allowed(self) -> str:
        return f"{CLEW}/agents/{self.job}.allow"

    def serve(self, generation: int = 1, port: int = 4000, agent: str = "") -> AgentAddress:
        """The agent has come up on the node: the job's own, or one with that name."""
        address = AgentAddress(
            agent=agent or self.job,
            host="node1",
            boot="b",
            pid=1,
            generation=generation,
            address="10.0.0.11",
            port=port,
            public_key="s" * 40,
            allow_list=self.allowed,
        )
        self.login.streams = {("10.0.0.11", port): lambda: FakeStream(SPEAKS, stays=True)}
        self.login.files[f"{CLEW}/agents/{self.job}.json"] = msgspec.json.encode(address)
        self.login.jobs["1"].state, self.login.jobs["1"].nodes = "RUNNING", "node1"
        return address

    def found(self) -> AgentAddress:
        until(self.manager, lambda: self.target.find() is not None)
        address = self.target.find()
        assert address is not None
        return address


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    with closing(scene.manager):
        yield scene


def key_file(scene: Scene) -> bytes | None:
    return scene.login.files.get(f"{scene.allowed}/viewer-1.key")


def test_while_the_job_waits_the_reason_stands_for_the_agent(scene: Scene) -> None:
    assert scene.target.find() is None
    until(scene.manager, lambda: scene.target.while_absent() == "Other jobs come first.")
    assert scene.target.files(over=False) is None


def test_the_agent_is_given_out_with_the_tunnels_end_when_the_key_is_there(scene: Scene) -> None:
    scene.target.authorize(*KEY)
    there = scene.serve()
    address = scene.found()
    assert key_file(scene) == KEY[1].encode()
    assert scene.login.modes[f"{scene.allowed}/viewer-1.part"] == 0o600
    assert address.address == "127.0.0.1"
    assert msgspec.structs.replace(address, address=there.address, port=there.port) == there
    with socket.create_connection(("127.0.0.1", address.port), timeout=10) as connection:
        assert connection.recv(64) == SPEAKS
    assert scene.target.route == "through login"
    assert scene.target.authorize(*KEY)


def test_a_key_that_comes_late_is_waited_for(scene: Scene) -> None:
    scene.serve()
    scene.found()
    until(scene.manager, lambda: scene.target.authorize(*KEY))
    assert key_file(scene) == KEY[1].encode()


def test_a_key_that_cannot_be_brought_now_is_said(scene: Scene) -> None:
    scene.serve()
    scene.found()
    scene.login.close()
    assert not scene.target.authorize(*KEY)
    assert key_file(scene) is None


def test_a_key_that_cannot_be_written_keeps_nobody_from_the_agent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook's key on a full disk, for example: the link's own may be there already."""
    write = scene.login.write

    def full(path: str, data: bytes | Path, **options: Any) -> None:
        if path.endswith("notebook.part"):
            raise problem("ssh.file", "There is no room left.")
        write(path, data, **options)

    monkeypatch.setattr(scene.login, "write", full)
    scene.target.authorize("notebook", "n" * 40)
    scene.target.authorize(*KEY)
    scene.serve()
    scene.found()
    assert scene.target.authorize(*KEY)
    assert not scene.target.authorize("notebook", "n" * 40)


def test_an_agent_that_took_its_place_is_another_one_at_the_same_port(scene: Scene) -> None:
    scene.target.authorize(*KEY)
    scene.serve()
    first = scene.found()
    scene.login.files.pop(f"{scene.allowed}/viewer-1.key")  # an agent clears its predecessor's keys
    scene.serve(generation=2, port=4001)
    until(scene.manager, lambda: not scene.target.is_alive(first))
    second = scene.found()
    assert (second.generation, second.port) == (2, first.port)
    assert scene.target.is_alive(second)
    assert key_file(scene) == KEY[1].encode()


def test_no_network_changes_nothing_of_what_is_known(scene: Scene) -> None:
    scene.target.authorize(*KEY)
    scene.serve()
    address = scene.found()
    scene.login.close()
    until(scene.manager, lambda: scene.manager.job(scene.job).news.problem is not None)
    assert scene.target.is_alive(address)
    assert scene.target.find() == address


def test_an_agents_bytes_speak_for_its_job(scene: Scene) -> None:
    scene.target.authorize(*KEY)
    scene.serve()
    address = scene.found()
    until(scene.manager, lambda: scene.manager.job(scene.job).news.nodes == "node1")
    scene.login.silent = True
    until(scene.manager, lambda: scene.manager.job(scene.job).news.problem is not None)
    with socket.create_connection(("127.0.0.1", address.port), timeout=10) as connection:
        assert connection.recv(64) == SPEAKS
    until(scene.manager, lambda: scene.manager.job(scene.job).news.problem is None)


def test_another_agents_address_is_not_taken(scene: Scene) -> None:
    looked = threading.Event()
    scene.serve(agent=str(uuid.uuid4()))
    scene.login.after["squeue"] = looked.set
    until(scene.manager, lambda: scene.manager.job(scene.job).news.stage is JobStage.RUNNING and looked.is_set())
    assert scene.target.find() is None
    assert scene.target.while_absent() == "The job runs; its agent is starting."


def test_a_running_job_whose_agent_never_comes_is_told_with_its_log(scene: Scene) -> None:
    now = [100.0]
    scene.login.files[f"{CLEW}/jobs/{scene.job}/job.log"] = b"waiting for a licence\n"
    with closing(AgentRoute(scene.manager.job(scene.job), lambda: None, lambda: now[0])) as target:
        target.start()

        def says(words: str, pause: float) -> bool:
            now[0] += pause
            target.kick()
            return words in target.while_absent()

        until(scene.manager, lambda: says("Other jobs come first.", 1000.0))
        scene.login.jobs["1"].state, scene.login.jobs["1"].nodes = "RUNNING", "node1"
        until(scene.manager, lambda: says("The job runs; its agent is starting.", 0.0))
        until(scene.manager, lambda: says("job.log on Lab, ends with: waiting for a licence.", 30.0))
        scene.serve()
        until(scene.manager, lambda: target.find() is not None)
        assert target.while_absent() == "The job runs; its agent is starting."


def test_without_a_way_the_journal_comes_as_a_file(scene: Scene) -> None:
    scene.serve()
    scene.login.streams = {}
    journal, run = b"j" * 300_000, str(uuid.uuid4())
    scene.login.files[f"{CLEW}/runs/{run}/journal.0001"] = journal
    until(scene.manager, lambda: scene.target.files(over=False) is not None)
    assert "Cannot reach the agent on node1" in scene.target.while_absent()
    files = scene.target.files(over=False)
    assert files is not None
    first = files.fetch([Fetch(run=run, attempt=1, offset=0)])[0]
    assert isinstance(first, Fetched)
    assert (first.data, first.size, first.attempts, first.sealed) == (journal[: 256 * 1024], len(journal), 1, False)
    assert files.fetch([Fetch(run=run, attempt=2, offset=0)]) == [None]
    assert scene.target.route == "its journal as a file"


def test_when_the_job_is_over_its_files_do_not_grow_any_more(scene: Scene) -> None:
    run = scene.spec.run
    scene.login.files[f"{CLEW}/runs/{run}/journal.0001"] = b"one"
    scene.login.files[f"{CLEW}/runs/{run}/journal.0002"] = b"second"
    scene.login.files[f"{CLEW}/runs/{run}/spec.toml"] = to_toml(scene.spec).encode()
    scene.login.jobs["1"].state, scene.login.jobs["1"].nodes = "COMPLETED", "node1"
    reach(scene.manager, scene.job, JobStage.ENDED)
    assert scene.target.find() is None
    assert scene.target.while_absent() == "The job has ended."
    files = scene.target.files(over=True)
    assert files is not None
    second, first = files.fetch([Fetch(run=run, attempt=2, offset=2), Fetch(run=run, attempt=1, offset=3)])
    assert isinstance(second, Fetched)
    assert (second.data, second.sealed, second.attempts) == (b"cond", True, 2)
    assert isinstance(first, Fetched)
    assert (first.data, first.size, first.sealed, first.attempts) == (b"", 3, True, 2)


def test_specs_come_from_the_order_or_from_there(scene: Scene) -> None:
    other = RunSpec(exercise="mlp", run=str(uuid.uuid4()))
    scene.login.files[f"{CLEW}/runs/{other.run}/spec.toml"] = to_toml(other).encode()
    assert scene.target.read_spec(scene.spec.run) == scene.spec
    assert scene.target.read_spec(other.run) == other
    assert scene.target.read_spec(str(uuid.uuid4())) is None


def test_a_request_to_close_is_heard_whenever_it_comes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks, just before the thread begins to wait for the next one."""
    cleared = scene.target._woken.clear

    def clear() -> None:
        cleared()
        scene.target._closed.set()  # as ``leave`` does, whose wake-up went before the clearing

    monkeypatch.setattr(agent_route, "_PACES", ((3600.0, 3600.0),))
    monkeypatch.setattr(scene.target._woken, "clear", clear)
    scene.target.kick()
    scene.target._thread.join(10)
    assert not scene.target._thread.is_alive()


def test_the_same_target_until_it_is_closed(scene: Scene) -> None:
    assert scene.manager.target(scene.job) is scene.target
    scene.target.close()
    again: AgentRoute = scene.manager.target(scene.job)
    assert again is not scene.target


# --- A way that breaks ------------------------------------------------------------------------------------------------


class Kept:
    """The way to a job's agent, whose turns and clock go when they are told to; streams end after the greeting."""

    def __init__(self, scene: Scene) -> None:
        self.now, self.searches, self.greeting = 100.0, 0, SPEAKS
        self.scene = scene
        scene.target.close()
        self.serve()
        reach(scene.manager, scene.job, JobStage.RUNNING)
        self.way = AgentRoute(scene.manager.job(scene.job), lambda: None, lambda: self.now)
        scene.manager.job(scene.job).changed = lambda: None

    def serve(self, generation: int = 1) -> None:
        self.scene.serve(generation)
        self.scene.login.streams = {("10.0.0.11", 4000): self._answer}

    def _answer(self) -> FakeStream:
        self.searches += 1
        return FakeStream(self.greeting)

    def open(self) -> Stream:
        self.searches -= 1
        return self.way.open()

    def turn(self) -> tuple[int, float]:
        """How many searches it made, and the seconds until the next turn."""
        before = self.searches
        pause = self.way.turn()
        return self.searches - before, pause

    def break_after(self, seconds: float) -> float:
        """A way is found and breaks; so long the next search waits."""
        assert self.turn()[0] <= 1
        stream = self.open()
        self.now += seconds
        drain(stream)
        searches, pause = self.turn()
        self.now += pause
        return 0.0 if searches else pause


def drain(stream: Stream) -> None:
    while stream.recv(64):
        pass


STEADY = (0, 10.0)


@pytest.fixture
def kept(scene: Scene) -> Iterator[Kept]:
    kept = Kept(scene)
    with closing(kept.way):
        yield kept
        kept.way.leave()
        kept.way.start()


def test_a_way_that_held_is_looked_for_again_at_once(kept: Kept) -> None:
    assert kept.break_after(60.0) == 0
    assert kept.way._woken.is_set()


def test_ways_that_break_soon_are_looked_for_ever_more_seldom_until_one_holds(kept: Kept) -> None:
    assert [kept.break_after(5.0) for _ in range(6)] == [1.0, 2.0, 5.0, 15.0, 30.0, 30.0]
    assert kept.break_after(60.0) == 0
    kept.turn()
    drain(kept.open())
    assert kept.turn() == (0, 1.0)
    kept.way.kick()
    assert kept.turn()[0] == 1


def test_news_of_a_node_that_is_gone_do_not_undo_the_pauses(kept: Kept) -> None:
    kept.greeting = b""
    for _ in range(135):
        kept.way.kick()
        kept.turn()
        kept.now += 1.0
    assert 3 <= kept.searches <= 12


def test_without_any_way_it_waits_as_well_but_not_for_another_agent(kept: Kept) -> None:
    kept.greeting = b""
    assert kept.turn() == (1, 1.0)
    kept.greeting = SPEAKS
    assert kept.turn() == (0, 1.0)
    kept.serve(generation=2)
    assert kept.turn() == (1, 10.0)


def test_a_stranger_on_whom_the_agent_hangs_up_costs_nobody_the_way(kept: Kept) -> None:
    kept.turn()
    viewer, stranger = kept.open(), kept.open()
    drain(stranger)
    assert kept.way._woken.is_set()  # whether it is still the same agent is worth a look
    assert kept.turn() == STEADY
    drain(viewer)
    assert kept.turn() == (0, 1.0)


def test_what_this_end_wanted_is_no_break(kept: Kept) -> None:
    kept.turn()
    kept.open().close()
    assert not kept.way._woken.is_set()
    assert kept.turn() == STEADY


def test_the_end_of_a_stream_through_an_earlier_way_says_nothing_of_this_one(kept: Kept) -> None:
    kept.turn()
    old = kept.open()
    kept.now += 1.0
    kept.serve(generation=2)
    assert kept.turn() == (1, 10.0)
    drain(old)
    assert kept.turn() == STEADY


def test_a_way_through_which_nothing_can_be_opened_is_broken(kept: Kept) -> None:
    kept.turn()
    viewer = kept.open()
    kept.scene.login.streams = {}
    with pytest.raises(ProblemError, match="cannot reach"):
        kept.open()
    assert kept.turn()[0] == 0
    with pytest.raises(ProblemError, match="Cannot reach the node now"):
        kept.open()
    viewer.close()


def test_while_the_login_is_away_a_way_stays_as_good_as_it_was(kept: Kept) -> None:
    kept.turn()
    viewer = kept.open()
    kept.scene.login.away = AWAY
    with pytest.raises(ProblemError, match="was lost"):
        kept.open()
    kept.scene.login.away = None
    assert kept.turn() == STEADY
    kept.open().close()
    viewer.close()
