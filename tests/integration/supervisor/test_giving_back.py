"""When a node is given back after its runs: not before the last of them, and not while somebody uses it otherwise."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import zmq

from clew_gui.jobs.job_book import job_book
from clew_gui.session.links.conversation import Conversation
from clew_gui.session.session import Session
from clew_shared.base.places import Places, find_places
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import Value
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import Done, OpenService, Refused, Service, Shutdown, Stop
from tests.integration.agents import BOUND_S, STAND_IN, Agent, Viewer, end_all, stand_in_spec, wait_for
from tests.integration.fake_site import FakeManager, FakeSite
from tests.integration.session.test_session_jobs import SITE, SLOW
from tests.integration.stand_in_agent import CATALOGUE
from tests.offspring import Offspring

IDLE = Shutdown(idle=True)
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def context() -> Iterator[zmq.Context[zmq.Socket[bytes]]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    yield context
    context.destroy(linger=0)


@contextmanager
def serving(*words: str) -> Iterator[Agent]:
    agent = Agent((*STAND_IN, *words))
    try:
        yield agent
    finally:
        agent.kill()
        for folder in agent.places.runs.glob("*"):
            end_all(folder.name)


# --- The agent --------------------------------------------------------------------------------------------------------


def test_it_waits_for_its_runs(home: object, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with serving() as agent, closing(Viewer(context, agent.address())) as viewer:
        run = viewer.start(stand_in_spec(**SLOW))
        viewer.wait_state(run, RunState.RUNNING)
        assert viewer.ask(IDLE) == Done()
        assert viewer.statuses()[run].state is RunState.RUNNING
        assert viewer.ask(Stop(run=run)) == Done(run=run)
        assert agent.process.wait(BOUND_S) == 0


def test_a_run_that_is_asked_for_meanwhile_keeps_it(home: object, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with serving() as agent, closing(Viewer(context, agent.address())) as viewer:
        first = viewer.start(stand_in_spec(**SLOW))
        assert viewer.ask(IDLE) == Done()
        second = viewer.start(stand_in_spec(steps=20))
        viewer.ask(Stop(run=first))
        for run in (first, second):
            viewer.wait_state(run, *TERMINAL)
        assert isinstance(viewer.ask(OpenService(kind="none")), Refused)  # it is there
        assert viewer.ask(IDLE) == Done()
        assert agent.process.wait(BOUND_S) == 0


def test_a_node_that_is_held_is_kept(home: object, context: zmq.Context[zmq.Socket[bytes]]) -> None:
    with serving("inf") as agent, closing(Viewer(context, agent.address())) as viewer:
        reply = viewer.ask(IDLE)
        assert isinstance(reply, Refused)
        assert reply.problem.code == "agent.used"
        assert viewer.ask(Shutdown()) == Done()
        assert agent.process.wait(BOUND_S) == 0


# --- A session --------------------------------------------------------------------------------------------------------


class Command:
    """``clew run --site``: a session that lets go of its node as soon as its run has ended."""

    def __init__(self) -> None:
        self.places: Places = find_places()
        self.site = FakeSite(self.places.home / "test", job_book(self.places), lambda _news: None)
        self.site.tell = lambda news: manager.listen(news)
        manager = FakeManager(self.site.book, lambda _name, _book, _tell: self.site, lambda _name: "Test site")
        self.session = Session(self.places, CATALOGUE, manager=manager, only=())
        self.session.start()

    def run(self) -> str:
        """Send a run and see it begin; its job."""
        self.model = self.session.runs[self.session.start_run(RunSpec(exercise="stand-in", params=SLOW), SITE)]
        assert self.model.job is not None
        self.site.begin(self.model.job.job)
        self.until(lambda: self.model.state is RunState.RUNNING)
        return self.model.job.job

    def until(self, true: object) -> None:
        assert callable(true)

        def look() -> object:
            self.session.tick()
            return true()

        wait_for(look)

    def stop(self) -> None:
        self.session.stop(self.model.id)
        self.until(lambda: self.model.complete)


@pytest.fixture
def command(home: object) -> Iterator[Command]:
    agents = Offspring()
    made = Command()
    yield made
    made.session.close()
    made.site.clear()
    agents.end()
    for folder in made.site.places.runs.glob("*"):
        end_all(folder.name)


def test_the_node_is_given_back_when_the_run_has_ended(command: Command) -> None:
    job = command.run()
    command.stop()
    command.until(lambda: command.site.address(job) is None)


def test_several_runs_train_in_their_order_and_one_that_is_taken_out_keeps_no_node(command: Command) -> None:
    params: tuple[dict[str, Value], ...] = ({"steps": 50}, SLOW, SLOW)
    runs = command.session.start_runs([RunSpec(exercise="stand-in", params=one) for one in params], SITE)
    first, second, third = (command.session.runs[run] for run in runs)
    (job,) = {model.job.job for model in (first, second, third) if model.job is not None}
    command.site.begin(job)
    command.until(lambda: second.state is RunState.RUNNING)
    assert (first.state, third.state, third.queue) == (RunState.FINISHED, RunState.QUEUED, 1)
    command.session.stop(third.id)
    command.until(lambda: third.withdrawn)
    command.session.stop(second.id)
    command.until(lambda: command.site.address(job) is None)


def test_a_local_agent_is_renewed_also_if_the_link_is_just_busy(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = command.run()
    link = command.session.job_links.link(job)
    assert link is not None
    asked, honest = threading.Event(), Conversation.send

    def asks_meanwhile(self: Conversation, renew: bool = False) -> None:
        honest(self, renew)
        if not asked.is_set():
            asked.set()
            link.renew()

    monkeypatch.setattr(Conversation, "send", asks_meanwhile)
    command.until(lambda: command.site.address(job) is None)


def test_a_node_on_which_jupyter_is_open_stays_and_that_is_said(
    command: Command, context: zmq.Context[zmq.Socket[bytes]]
) -> None:
    job = command.run()
    address = command.site.address(job)
    assert address is not None
    with closing(Viewer(context, address)) as viewer:
        assert isinstance(viewer.ask(OpenService(kind="jupyter")), Service)
        command.stop()
        command.until(lambda: command.session.jobs[job].kept)
        assert "Jupyter" in command.session.jobs[job].kept
        assert isinstance(viewer.ask(OpenService(kind="jupyter")), Service)
        assert viewer.ask(Shutdown()) == Done()
    command.until(lambda: command.site.address(job) is None)
