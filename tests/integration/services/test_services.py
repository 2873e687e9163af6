"""Real Jupyter behind a real agent: with the token only, once each, and gone with the agent."""

from __future__ import annotations

import http.client
import importlib
import json
import os
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import pytest
import zmq

from clew_gui.nodes.service_end import ServiceEnd
from clew_gui.nodes.services import ANSWER_S
from clew_shared.base.private_files import make_private
from clew_shared.wire.channel import Channel, Greeting, KeyPair
from clew_shared.wire.messages import AgentAddress, GetStatus, OpenService, Refused, Service
from tests.integration.agents import BOUND_S, Agent, Viewer, command_of, wait_for
from tests.integration.strangers import Endpoint, assert_nothing_of_ours, listen

pytestmark = pytest.mark.timeout(240)

T = TypeVar("T")


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
    reply = viewer.channel.request(OpenService(kind=kind), ANSWER_S)
    assert isinstance(reply, Service), reply
    return reply


@contextmanager
def ended_here(viewer: Viewer, service: Service) -> Iterator[int]:
    """The port of this computer at which a browser finds it."""
    with closing(ServiceEnd(service.port, service.public_key, viewer.keys)) as end:
        yield end.port


def status(port: int, target: str, **headers: str) -> int:
    return fetched(port, target, **headers)[0]


def fetched(port: int, target: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def family(agent: Agent) -> list[psutil.Process]:
    return psutil.Process(agent.process.pid).children(recursive=True)


def asked(question: Callable[[], T]) -> T | None:
    """What a process says of itself; None if it has ended meanwhile, as the short-lived ones among them do."""
    try:
        return question()
    except psutil.NoSuchProcess:
        return None


def ended(process: psutil.Process) -> bool:
    return not process.is_running() or asked(process.status) in {"zombie", None}


def secret_of(agent: Agent) -> Path:
    """Jupyter's configuration, which lies in the service's own folder."""
    words = [word for one in family(agent) for word in command_of(one)]
    return next(Path(word.partition("=")[2]) for word in words if word.startswith("--config="))


def is_refused(service: Service) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", service.port), timeout=30):
            return False
    except OSError:
        return True


def test_jupyter_opens_once_with_its_token_and_ends_with_the_agent(agent: Agent, viewer: Viewer) -> None:
    service = opened(viewer, "jupyter")
    assert opened(viewer, "jupyter") == service
    with ended_here(viewer, service) as port:
        assert status(port, "/api/status") == 403
        assert status(port, "/api/status?token=wrong") == 403
        assert status(port, f"/api/status?token={service.token}") == 200
        assert status(port, "/api/status", Authorization=f"token {service.token}") == 200
    children = family(agent)
    words = [word for one in children for word in command_of(one)]
    secret = secret_of(agent)
    assert service.token in secret.read_text()
    assert not any(service.token in text for text in [*words, *(str(asked(one.environ)) for one in children)])
    agent.kill()  # out of the blue: nobody is left to tell the service
    wait_for(lambda: all(ended(one) for one in children), "their end")
    assert is_refused(service)
    assert not secret.parent.exists()


def test_a_service_that_ends_can_be_opened_again(agent: Agent, viewer: Viewer) -> None:
    first = opened(viewer, "jupyter")
    program = next(one for one in family(agent) if "jupyter_server" in " ".join(command_of(one)))
    program.kill()
    wait_for(lambda: is_refused(first), "the end of the first")
    second = wait_for(lambda: _another(viewer, first), "another")
    with ended_here(viewer, second) as port:
        assert status(port, f"/api/status?token={second.token}") == 200
    assert second.token != first.token


def _another(viewer: Viewer, first: Service) -> Service | None:
    reply = opened(viewer, "jupyter")
    return reply if reply.token != first.token else None


FORK = """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=print, args=("said by a child",))
child.start()
child.join()
"""
DEBUG = {"type": "request", "seq": 1, "command": "initialize", "arguments": {"clientID": "test", "adapterID": ""}}
Ask = Callable[[str, str, dict[str, object]], Iterator[dict[str, Any]]]


def test_a_kernel_answers_and_listens_on_no_port(agent: Agent, viewer: Viewer) -> None:
    service = opened(viewer, "jupyter")
    with ended_here(viewer, service) as port, kernel(port, service) as ask:
        told(ask("shell", "execute_request", code("1 + 1")), "2")
        told(ask("shell", "execute_request", code(FORK)), "said by a child")
        reply = next(one for one in ask("control", "debug_request", DEBUG) if one["msg_type"] == "debug_reply")
        assert not reply["content"]["success"]
        assert listening(agent) == {service.port}
        folder = secret_of(agent).parent
        sockets = [path for path in folder.iterdir() if path.is_socket() and path.name.startswith("kernel-")]
        assert len(sockets) == 6  # a kernel's five, and that of its child processes
        assert folder.stat().st_mode & 0o777 == 0o700
        children = family(agent)
    agent.kill()
    wait_for(lambda: all(ended(one) for one in children), "their end")
    assert not folder.exists()


def listening(agent: Agent) -> set[int]:
    """The ports on which the agent's services and all that they started listen."""
    inets = [one for child in family(agent) for one in asked(partial(child.net_connections, "inet")) or []]
    return {one.laddr.port for one in inets if one.status == "LISTEN"}


@contextmanager
def kernel(port: int, service: Service) -> Iterator[Ask]:
    """A kernel, as Jupyter's pages use one: all its answers to a message of a type on a channel."""
    websocket: Any = importlib.import_module("websocket")
    status, said = fetched(port, f"/api/kernels?token={service.token}", "POST")
    assert status == 201, said
    path = f"127.0.0.1:{port}/api/kernels/{json.loads(said)['id']}/channels?token={service.token}"
    with closing(websocket.create_connection(f"ws://{path}", timeout=BOUND_S)) as channels:

        def ask(channel: str, kind: str, content: dict[str, object]) -> Iterator[dict[str, Any]]:
            header = {"msg_id": uuid.uuid4().hex, "msg_type": kind, "version": "5.3", "session": "s", "username": "u"}
            message = {"channel": channel, "header": header, "parent_header": {}, "metadata": {}, "content": content}
            channels.send(json.dumps(message))
            while True:
                answer = json.loads(channels.recv())
                if answer["parent_header"].get("msg_id") == header["msg_id"]:
                    yield answer

        yield ask


def code(text: str) -> dict[str, object]:
    return {"code": text, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}


def told(answers: Iterator[dict[str, Any]], wanted: str) -> None:
    """Wait until a kernel shows this text."""
    for answer in answers:
        assert answer["msg_type"] != "error", answer
        content = answer["content"]
        if wanted in (content.get("text", "").strip(), content.get("data", {}).get("text/plain")):
            return


def test_who_is_not_the_agents_viewer_hears_nothing(agent: Agent, viewer: Viewer) -> None:
    """Neither on the agent's port nor on the service's: whoever comes to the node's address comes to these."""
    service = opened(viewer, "jupyter")
    found = agent.address()
    door = Endpoint("service", _beside(found, service), GetStatus())
    for words in (b"", b"GET /?token=" + service.token.encode() + b" HTTP/1.1\r\n\r\n", os.urandom(200)):
        with door.knock() as stranger:
            stranger.sendall(words)
            with suppress(OSError):  # it may have been hung up on already: these words are no greeting
                stranger.shutdown(socket.SHUT_WR)
            assert_nothing_of_ours(listen(stranger))
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with closing(door.channel(context, KeyPair.generate())) as channel:
        channel.hand_over(bytes(8), b"\0")
        wait_for(lambda: channel.greeting is Greeting.REFUSED, "the refusal")
        assert channel.take_in() == []
    context.term()


def _beside(agent: AgentAddress, service: Service) -> AgentAddress:
    return msgspec.structs.replace(agent, port=service.port, public_key=service.public_key)


def test_a_viewer_that_breaks_the_rules_of_streams_disturbs_nobody(agent: Agent, viewer: Viewer) -> None:
    service = opened(viewer, "jupyter")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with closing(Channel(context, "127.0.0.1", service.port, service.public_key, viewer.keys)) as wire:
        for number, message in enumerate((b"\1early", b"\2", b"\4\xff", b"\x09", b"", b"\0", b"\0")):
            wire.hand_over((number // 6 * 5).to_bytes(8, "big"), message)
        for message in [b"\1" + bytes(60 * 1024)] * 20:  # more than a window, and no request at all
            wire.hand_over((5).to_bytes(8, "big"), message)
        wait_for(lambda: (5).to_bytes(8, "big") in [number for number, said in wire.take_in() if said == b"\3"])
    context.term()
    with ended_here(viewer, service) as port:
        assert status(port, f"/api/status?token={service.token}") == 200


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
