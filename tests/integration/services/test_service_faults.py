"""The way to a service when a link is cut or descriptors run out: nothing is done twice, nothing hangs, all goes on."""

from __future__ import annotations

import errno
import http.client
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from unittest.mock import Mock

import pytest
import zmq

from clew_agent.services.process import START_LIMIT_S
from clew_agent.services.streams import StreamServer
from clew_agent.wire.server import GuardedRouter
from clew_gui.nodes import service_end, services
from clew_gui.nodes.service_end import ServiceEnd
from clew_gui.nodes.services import OpenedService, ServiceNews
from clew_gui.ssh.connection import Stream
from clew_gui.ssh.tunnel import Tunnel
from clew_shared.base import operating_system
from clew_shared.base.problem import problem
from clew_shared.wire.channel import Greeting, KeyPair, Wire, allow
from clew_shared.wire.messages import AgentAddress, Service
from tests.guards import LogBook
from tests.integration.agents import BOUND_S, wait_for
from tests.integration.faults.proxy import Proxy

WAITS = r"A page of a service waits, port \d+: Too many open files\. It is tried again\."
NONE_LEFT = OSError(errno.EMFILE, "Too many open files")


class Program(ThreadingMixIn, UnixStreamServer):
    """A service that keeps what was put there, and answers who asks for anything when it ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Request)
        self.heard: list[str] = []
        self.asked = threading.Event()
        self.ended = threading.Event()


class _Request(BaseHTTPRequestHandler):
    server: Program

    def do_PUT(self) -> None:
        self.server.heard.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.asked.set()
        self.server.ended.wait(BOUND_S)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Nothing."""


class Way:
    """From a browser's port to a program: ``ServiceEnd``, a link that can be cut, ``StreamServer``."""

    def __init__(self, folder: Path, parts: ExitStack) -> None:
        self.keys = KeyPair.generate()
        allow(folder / "allow", "viewer", self.keys.public)
        self.program = Program(folder / "p")
        serving = threading.Thread(target=self.program.serve_forever, args=(0.02,))
        serving.start()
        for undo in (self.program.server_close, serving.join, self.program.shutdown, self.program.ended.set):
            parts.callback(undo)
        self.door = parts.enter_context(closing(StreamServer(folder / "allow", "127.0.0.1", None, folder / "p")))
        self.door.start()
        self.link = parts.enter_context(closing(Proxy()))
        self.link.target = self.door.port
        self.end = parts.enter_context(closing(ServiceEnd(self.link.port, self.door.public_key, self.keys)))

    def put(self, path: str) -> http.client.HTTPConnection:
        """Send a request; the answer is still to be read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.end.port, timeout=BOUND_S)
        connection.request("PUT", path)
        return connection

    def knock(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.end.port), timeout=BOUND_S)

    def fail_again(self) -> None:
        """Return when the link has taken a few further connections and hung up."""
        wanted = self.link.unanswered + 3
        wait_for(lambda: self.link.unanswered >= wanted, "another try")


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    with ExitStack() as parts:
        yield Way(tmp_path, parts)


def answered(connection: http.client.HTTPConnection) -> int:
    with closing(connection):
        return connection.getresponse().status


# --- A cut ------------------------------------------------------------------------------------------------------------


def test_what_is_asked_during_a_cut_is_done_once_and_answered(way: Way) -> None:
    """A tunnel's port goes on taking connections while nobody is behind it."""
    assert answered(way.put("/before")) == 200
    way.link.target = 0
    way.link.cut()
    way.fail_again()
    asked = [way.put(f"/{number}") for number in range(3)]
    way.fail_again()
    way.link.target = way.door.port
    assert [answered(one) for one in asked] == [200] * 3
    assert answered(way.put("/after")) == 200
    assert sorted(way.program.heard) == ["/0", "/1", "/2", "/after", "/before"]


class AcceptedBetweenLooks(Wire):
    """A connection whose handshake ends just after someone has looked for it the first time."""

    @property
    def greeting(self) -> Greeting:
        found = super().greeting
        self.monitor.poll(round(BOUND_S * 1000) if found is Greeting.NONE else 0)
        return found


def test_a_connection_that_is_accepted_between_two_looks_breaks_nothing_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_end, "Wire", AcceptedBetweenLooks)
    with ExitStack() as parts:
        assert answered(Way(tmp_path, parts).put("/first")) == 200


def test_what_a_cut_broke_off_ends_while_the_link_is_still_away(way: Way) -> None:
    with way.knock() as page:
        page.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert way.program.asked.wait(BOUND_S)
        way.link.target = 0
        way.link.cut()
        with pytest.raises(ConnectionResetError):
            page.recv(1)


def test_what_an_abandoned_wire_still_had_to_send_never_arrives(way: Way) -> None:
    way.link.target = 0
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wire = Wire(context, "127.0.0.1", way.link.port, way.door.public_key, way.keys)
    for message in (b"\0", b"\1PUT /late HTTP/1.1\r\n\r\n"):
        assert wire.hand_over(bytes(8), message)
    way.fail_again()
    wire.abandon()
    way.link.target = way.door.port
    context.term()  # what lingers has been sent then
    assert answered(way.put("/after")) == 200
    assert way.program.heard == ["/after"]


# --- No descriptor is left --------------------------------------------------------------------------------------------


def test_a_stream_that_finds_no_descriptor_at_the_door_breaks_off_alone(
    way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(operating_system, "connect_locally", Mock(side_effect=NONE_LEFT))
        with way.knock() as page, pytest.raises(ConnectionResetError):
            page.recv(1)
    assert way.door.alive
    assert answered(way.put("/after")) == 200


class Short:
    """Makes a thing, but raises ``error`` the first time."""

    def __init__(self, make: Callable[..., object], error: Exception) -> None:
        self._make, self._error = make, error
        self.tries = 0

    def __call__(self, *words: object, **named: object) -> object:
        self.tries += 1
        if self.tries == 1:
            raise self._error
        return self._make(*words, **named)


def test_a_broken_link_is_dialled_again_when_there_are_descriptors(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(way.put("/before")) == 200
    short = Short(Wire, zmq.ZMQError(errno.EMFILE))
    monkeypatch.setattr(service_end, "Wire", short)
    way.link.cut()
    wait_for(lambda: short.tries, "a new connection")
    assert answered(way.put("/after")) == 200


def test_an_end_that_cannot_be_made_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    listeners: list[socket.socket] = []
    create = socket.create_server

    def created(address: tuple[str, int], backlog: int) -> socket.socket:
        listeners.append(create(address, backlog=backlog))
        return listeners[0]

    monkeypatch.setattr(socket, "create_server", created)
    monkeypatch.setattr(service_end, "Wire", Short(Wire, zmq.ZMQError(errno.EMFILE)))
    with pytest.raises(zmq.ZMQError):
        ServiceEnd(1, KeyPair.generate().public, KeyPair.generate())
    assert [one.fileno() for one in listeners] == [-1]


class Refusing:
    """A listener that finds no descriptor for whoever knocks, the first ``times``."""

    def __init__(self, listener: socket.socket, times: float) -> None:
        self._listener, self._times = listener, times
        self.tries = 0

    def accept(self) -> tuple[socket.socket, object]:
        self.tries += 1
        if self.tries <= self._times:
            raise NONE_LEFT
        return self._listener.accept()

    def fileno(self) -> int:
        return self._listener.fileno()

    def close(self) -> None:
        self._listener.close()


def refuse(way: Way, monkeypatch: pytest.MonkeyPatch, times: float, rest: float) -> Refusing:
    listener = Refusing(way.end._listener, times)
    monkeypatch.setattr(way.end, "_listener", listener)
    monkeypatch.setattr(service_end, "_REST_S", rest)
    return listener


def test_who_knocks_while_no_descriptor_is_left_is_not_asked_in_at_every_turn(
    way: Way, monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    expect_logs(WAITS)
    with way.knock() as page:
        page.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert way.program.asked.wait(BOUND_S)
        listener = refuse(way, monkeypatch, math.inf, rest=3600.0)
        turns: list[int] = []
        honest = way.end._turn

        def counted() -> None:
            turns.append(listener.tries)
            honest()

        monkeypatch.setattr(way.end, "_turn", counted)
        with way.knock():
            wait_for(lambda: turns.count(1) > 3, "further turns")
            way.program.ended.set()
            assert page.recv(1) == b"", "those who are in are served: the program hung up"
        assert listener.tries == 1


def test_who_waited_comes_in_when_there_are_descriptors_and_that_was_said_once(
    way: Way, monkeypatch: pytest.MonkeyPatch, expect_logs: LogBook
) -> None:
    expect_logs(WAITS)
    listener = refuse(way, monkeypatch, 3, rest=0.001)
    assert answered(way.put("/late")) == 200
    assert listener.tries == 4
    assert len(expect_logs.records) == 1
    listener.tries = 0
    assert answered(way.put("/later")) == 200
    assert len(expect_logs.records) == 2, "it had been over meanwhile"


class Node:
    """A node whose agent only knows of one service."""

    def __init__(self, folder: Path, router: GuardedRouter) -> None:
        self.tunnels: list[Tunnel] = []
        self._allow_list = folder
        self._address = AgentAddress(
            agent="a",
            host="node1",
            boot="b",
            pid=1,
            generation=1,
            address="127.0.0.1",
            port=router.port,
            public_key=router.public_key,
            allow_list=str(folder),
        )

    def find(self) -> AgentAddress:
        return self._address

    def authorize(self, name: str, public_key: str) -> bool:
        allow(self._allow_list, name, public_key)
        return True

    def while_absent(self) -> str:
        return ""

    def tunnel(self, port: int) -> Tunnel:
        self.tunnels.append(Tunnel(nowhere))
        return self.tunnels[-1]


def nowhere() -> Stream:
    raise problem("test.nowhere", "Nobody is there.")


@contextmanager
def node_with(service: Service, folder: Path) -> Iterator[Node]:
    """Its agent answers every request with ``service``."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = GuardedRouter(context, folder)
    ended = threading.Event()

    def answer() -> None:
        while not ended.is_set():
            for who, number, _ in router.poll(0.02):
                router.reply(who, number, service)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield Node(folder, router)
    finally:
        ended.set()
        thread.join()
        router.close()
        context.term()


@pytest.mark.parametrize("error", [NONE_LEFT, zmq.ZMQError(errno.EMFILE)])
@pytest.mark.parametrize("place", ["ServiceEnd", "Channel"])
def test_a_service_is_tried_again_when_there_was_no_descriptor(
    place: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, place, Short(getattr(services, place), error))
    service = Service(kind="jupyter", port=1, public_key=KeyPair.generate().public, token="t", page="/", name="Jupyter")
    news: list[ServiceNews] = []
    with node_with(service, tmp_path / "allow") as node:
        with closing(OpenedService(node, lambda: False, news.append)):
            wait_for(lambda: news and news[-1].url, "the address")
            assert [len(tunnel) for tunnel in node.tunnels[:-1]] == [0] * (place == "ServiceEnd")
            assert not any(is_open(tunnel) for tunnel in node.tunnels[:-1])
        assert not is_open(node.tunnels[-1])
    assert any("Too many open files" in one.text for one in news)
    assert not any(one.over for one in news)


def is_open(tunnel: Tunnel) -> bool:
    try:
        socket.create_connection(("127.0.0.1", tunnel.port), timeout=BOUND_S).close()
    except OSError:
        return False
    return True


def test_a_program_that_starts_slowly_is_waited_for_as_long_as_its_agent_does() -> None:
    assert services.ANSWER_S > START_LIMIT_S
