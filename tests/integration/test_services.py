"""Real Jupyter and TensorBoard behind a real agent: with the token only, once each, and gone with the agent."""

from __future__ import annotations

import http.client
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import zmq

from clew_shared.messages import OpenService, Refused, Service, Shutdown
from clew_shared.private import make_private
from tests.integration.agents import Agent, Viewer, wait_for
from tests.unit.runs import small_run

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent((sys.executable, "-m", "clew_agent", "serve", "--fresh"))
    yield made
    made.kill()


@pytest.fixture
def viewer(agent: Agent) -> Iterator[Viewer]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    made = Viewer(context, agent.address())
    yield made
    made.close()
    context.term()


def opened(viewer: Viewer, kind: str) -> Service:
    reply = viewer.ask(OpenService(kind=kind))
    assert isinstance(reply, Service), reply
    return reply


def status(service: Service, target: str, **headers: str) -> int:
    return fetched(service, target, **headers)[0]


def fetched(service: Service, target: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(service.address, service.port, timeout=30)
    try:
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def family(agent: Agent) -> list[psutil.Process]:
    return psutil.Process(agent.process.pid).children(recursive=True)


def is_refused(service: Service) -> bool:
    try:
        status(service, "/")
    except OSError:
        return True
    return False


def test_jupyter_opens_once_with_its_token_and_ends_with_the_agent(agent: Agent, viewer: Viewer) -> None:
    service = opened(viewer, "jupyter")
    assert opened(viewer, "jupyter") == service
    assert status(service, "/api/status") == 403
    assert status(service, "/login") == 403
    assert status(service, "/api/status?token=wrong") == 403
    assert status(service, f"/api/status?token={service.token}") == 200
    assert status(service, "/api/status", Authorization=f"token {service.token}") == 200
    children = family(agent)
    words = [word for one in children for word in one.cmdline()]
    secret = next(Path(word.partition("=")[2]) for word in words if word.startswith("--config="))
    assert service.token in secret.read_text()
    assert not any(service.token in text for text in [*words, *(str(one.environ()) for one in children)])
    agent.kill()  # out of the blue: nobody is left to tell the service
    wait_for(lambda: not any(one.is_running() and one.status() != "zombie" for one in children), "their end")
    assert is_refused(service)
    assert not secret.parent.exists()


def test_tensorboard_shows_the_runs_to_whoever_has_the_token(agent: Agent, viewer: Viewer) -> None:
    small_run(agent.places.runs / "5f2b8c1e-0000-4000-8000-000000000001")
    service = opened(viewer, "tensorboard")
    assert status(service, "/data/runs") == 403
    assert status(service, "/", Accept="text/html") == 403
    token = f"?token={service.token}"
    assert status(service, f"/{token}", Accept="text/html") == 303
    code, page = fetched(service, f"/{token}")
    assert code == 200
    assert b"TensorBoard" in page

    def runs() -> bool:
        return b"softmax-5f2b8c1e" in fetched(service, f"/data/runs{token}")[1]

    wait_for(runs, "the run in TensorBoard")
    ports = {
        one.laddr.port for child in family(agent) for one in child.net_connections("inet") if one.status == "LISTEN"
    }
    assert ports == {service.port}  # TensorBoard itself listens on none
    viewer.ask(Shutdown())
    assert agent.process.wait(30) == 0
    assert is_refused(service)


def test_a_service_that_ends_can_be_opened_again(agent: Agent, viewer: Viewer) -> None:
    first = opened(viewer, "jupyter")
    program = next(one for one in family(agent) if "jupyter_server" in " ".join(one.cmdline()))
    program.kill()
    wait_for(lambda: is_refused(first), "the end of the first")
    second = wait_for(lambda: _another(viewer, first), "another")
    assert status(second, f"/api/status?token={second.token}") == 200
    assert second.token != first.token


def _another(viewer: Viewer, first: Service) -> Service | None:
    reply = opened(viewer, "jupyter")
    return reply if reply.token != first.token else None


def test_a_kind_that_there_is_not_is_refused(viewer: Viewer) -> None:
    reply = viewer.ask(OpenService(kind="x" * 1000))
    assert isinstance(reply, Refused)
    assert reply.problem.code == "service.kind"


def test_a_program_that_cannot_start_says_why(agent: Agent, viewer: Viewer, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_private(agent.places.agents)
    (folder / f"{viewer_agent(agent)}.jupyter.log").mkdir()
    reply = viewer.ask(OpenService(kind="jupyter"))
    assert isinstance(reply, Refused)
    assert reply.problem.code == "service.start"


def viewer_agent(agent: Agent) -> str:
    return agent.address().agent
