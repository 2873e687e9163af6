"""The client's end of the wire, against a bare ROUTER that the test plays."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.wire import rendezvous as listening
from clew_agent.wire.rendezvous import ANYWHERE, LOOPBACK, PortRange, own_address, own_addresses, read_ports
from clew_agent.wire.server import GuardedRouter
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError
from clew_shared.wire.channel import Channel, Greeting, KeyPair
from clew_shared.wire.messages import (
    AgentAddress,
    AnyReply,
    AnyRequest,
    Done,
    Hello,
    Pause,
    Refused,
    Reply,
    Request,
    Stop,
    decode_reply,
    decode_request,
    encode,
    unknown_kind,
)
from tests.unit.anything import any_of

SERVER = KeyPair.generate()
CLIENT = KeyPair.generate()
BOUND_MS = 5000


class Server:
    """A ROUTER that lets every key in (no domain, no handler) and does nothing by itself."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.curve_server = True
        self.socket.curve_secretkey = SERVER.secret.encode()
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")

    def next(self) -> list[bytes]:
        assert self.socket.poll(BOUND_MS), "no request came"
        return self.socket.recv_multipart()


@pytest.fixture
def server() -> Iterator[Server]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    server = Server(context)
    yield server
    context.destroy(linger=0)


@pytest.fixture
def channel(server: Server) -> Iterator[Channel]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    channel = Channel(context, "127.0.0.1", server.port, SERVER.public, CLIENT)
    yield channel
    channel.close()
    context.destroy(linger=0)


def test_a_request_is_an_id_and_the_message(server: Server, channel: Channel) -> None:
    first, second = channel.send(Hello(client="test")), channel.send(Stop(run="r"))
    assert first != second
    _, request_id, payload = server.next()
    assert (request_id, decode_request(payload)) == (first, Hello(client="test"))
    assert decode_request(server.next()[2]) == Stop(run="r")
    assert channel.greeting is Greeting.ACCEPTED


def test_replies_come_with_the_ids_of_their_requests_in_any_order(server: Server, channel: Channel) -> None:
    ids = [channel.send(Hello()) for _ in range(3)]
    requests = [server.next() for _ in ids]
    for identity, request_id, _ in reversed(requests):
        server.socket.send_multipart([identity, request_id, encode(Done(run=request_id.hex()))])
    found: list[tuple[bytes, object]] = []
    while len(found) < 3:
        assert channel.socket.poll(BOUND_MS)
        found += channel.receive()
    assert found == [(one, Done(run=one.hex())) for one in reversed(ids)]


def test_request_waits_for_its_own_reply_and_keeps_the_others(server: Server, channel: Channel) -> None:
    early = channel.send(Hello(client="early"))

    def answer() -> None:
        for _ in range(2):
            identity, request_id, _ = server.next()
            server.socket.send_multipart([identity, request_id, encode(Done(run=request_id.hex()))])

    thread = threading.Thread(target=answer)
    thread.start()
    reply = channel.request(Hello(client="late"), timeout=5.0)
    thread.join()
    assert reply != Done(run=early.hex())
    assert channel.receive() == [(early, Done(run=early.hex()))]


def test_no_answer_is_a_problem_after_the_time(server: Server, channel: Channel) -> None:
    with pytest.raises(ProblemError, match=r"No answer within 0\.05 s"):
        channel.request(Hello(), timeout=0.05)


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"junk", msgspec.msgpack.encode({"t": "from the future"})])
def test_bytes_that_are_no_reply_reach_whoever_asked_as_a_refusal(
    payload: bytes, server: Server, channel: Channel
) -> None:
    request_id = channel.send(Hello())
    identity, _, _ = server.next()
    server.socket.send_multipart([identity, request_id, payload])
    server.socket.send_multipart([identity, b"one frame too many", b"a", b"b"])
    assert channel.socket.poll(BOUND_MS)
    ((found, reply),) = channel.receive()
    assert found == request_id
    assert isinstance(reply, Refused)
    assert reply.problem.code == "channel.reply"


def test_a_connection_that_ends_is_seen(server: Server, channel: Channel) -> None:
    seen = set()
    channel.send(Hello())
    server.next()
    seen.add(channel.greeting)
    server.socket.close()
    for _ in range(200):
        channel.socket.poll(20)
        seen.add(channel.greeting)
        if Greeting.GONE in seen:
            break
    assert seen == {Greeting.ACCEPTED, Greeting.GONE}


def test_a_thousand_requests_without_a_connection_are_enough() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    channel = Channel(context, "127.0.0.1", 1, SERVER.public, CLIENT)  # nobody listens on port 1
    with pytest.raises(ProblemError, match="no more requests"):
        [channel.send(Hello()) for _ in range(5000)]
    channel.close()
    context.destroy(linger=0)


# --- Where an agent listens: ports of a range that never collide, and an address that others can reach ----------------


@pytest.mark.parametrize(
    ("text", "ports"), [("5000-5010", (5000, 5010)), (" 5000 - 5000 ", (5000, 5000)), ("65535", (65535, 65535))]
)
def test_a_range_of_ports_is_read(text: str, ports: tuple[int, int]) -> None:
    assert read_ports(text) == PortRange(*ports)


@pytest.mark.parametrize("text", ["", "80", "1-70000", "5010-5000", "5000-", "a-b", "5000-5010-5020", "-5000", "٥٠٠٠"])
def test_what_is_no_range_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        read_ports(text)
    assert caught.value.problems[0].code == "ports.form"
    assert "50000-50100" in caught.value.problems[0].hint


def test_all_ports_of_a_range_are_tried_in_some_order() -> None:
    ports = PortRange(5000, 5039)
    orders = [ports.shuffled() for _ in range(5)]
    assert all(sorted(order) == list(range(5000, 5040)) for order in orders)
    assert len({tuple(order) for order in orders}) > 1


@pytest.fixture
def contexts() -> Iterator[list[zmq.Context[zmq.Socket[bytes]]]]:
    made: list[zmq.Context[zmq.Socket[bytes]]] = []
    yield made
    for context in made:
        context.destroy(linger=0)


def free_range(count: int) -> PortRange:
    """So many ports in a row that nobody uses just now."""
    for first in range(20_000, 30_000, count):
        taken = [socket.socket() for _ in range(count)]
        try:
            for port, one in enumerate(taken, first):
                one.bind(("", port))
        except OSError:
            continue
        else:
            return PortRange(first, first + count - 1)
        finally:
            for one in taken:
                one.close()
    raise AssertionError("no free ports")


def test_forty_agents_on_one_node_share_forty_ports_and_the_next_is_told_so(
    tmp_path: Path, contexts: list[zmq.Context[zmq.Socket[bytes]]]
) -> None:
    ports, folder = free_range(40), make_private(tmp_path / "allow")

    def listen() -> GuardedRouter:
        contexts.append(zmq.Context())
        return GuardedRouter(contexts[-1], folder, ANYWHERE, ports)

    routers = [listen() for _ in range(40)]
    assert {router.port for router in routers} == set(range(ports.first, ports.last + 1))
    with pytest.raises(ProblemError) as caught:
        listen()
    assert caught.value.problems[0].code == "ports.taken"
    assert str(ports) in caught.value.problems[0].text
    for router in routers:
        router.close()


def test_the_published_address_is_one_of_this_node() -> None:
    assert own_address({}) in (*own_addresses(), LOOPBACK)
    assert LOOPBACK not in own_addresses()


def test_the_interface_towards_the_login_node_counts_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "own_addresses", lambda: ("10.9.0.7", "10.77.1.11"))
    monkeypatch.setattr(listening, "addresses_of", lambda name: {"login": ("10.77.1.1",)}.get(name, ()))
    monkeypatch.setattr(listening, "interface_to", lambda far: "10.77.1.11" if far == "10.77.1.1" else "")
    assert own_address({"SLURM_SUBMIT_HOST": "login"}) == "10.77.1.11"
    assert own_address({"PBS_O_HOST": "login"}) == "10.77.1.11"
    assert own_address({"SLURM_SUBMIT_HOST": "elsewhere"}) == "10.9.0.7", "the first interface is better than none"


def test_else_what_the_nodes_name_stands_for_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "own_addresses", lambda: ("172.17.0.1", "10.77.1.11"))
    here = {socket.gethostname(): ("10.77.1.11",)}
    monkeypatch.setattr(listening, "addresses_of", lambda name: here.get(name, ()))
    assert own_address({}) == "10.77.1.11"


def test_a_node_with_nothing_but_loopback_has_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "own_addresses", tuple)
    assert own_address({"SLURM_SUBMIT_HOST": "localhost"}) == LOOPBACK


def test_nothing_is_sent_to_find_the_way() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listener:
        listener.bind((LOOPBACK, 0))
        assert listening.interface_to(LOOPBACK) == LOOPBACK


# --- Messages come back as they were sent, and bytes that are none are refused in one way only ------------------------

REQUESTS: tuple[type[Request], ...] = get_args(AnyRequest)
REPLIES: tuple[type[Reply], ...] = get_args(AnyReply)


@given(st.one_of([any_of(kind) for kind in REQUESTS]))
def test_every_request_comes_back(request_: Request) -> None:
    assert decode_request(encode(request_)) == request_


@given(st.one_of([any_of(kind) for kind in REPLIES]))
def test_every_reply_comes_back(reply: Reply) -> None:
    assert decode_reply(encode(reply)) == reply


@given(any_of(AgentAddress, finite=True))
def test_an_address_comes_back_from_its_file(address: AgentAddress) -> None:
    assert msgspec.json.decode(msgspec.json.encode(address), type=AgentAddress) == address


def test_tags_are_unique_on_each_side() -> None:
    for kinds in (REQUESTS, REPLIES):
        assert len({kind.__struct_config__.tag for kind in kinds}) == len(kinds)


def test_what_a_later_version_asks_for_has_a_name_and_nothing_else_has() -> None:
    assert unknown_kind(msgspec.msgpack.encode({"t": "teleport", "to": {"x": 1}})) == "teleport"
    for known in (encode(Pause(run="x")), msgspec.msgpack.encode({"t": "start"})):
        assert unknown_kind(known) == ""


@given(st.binary(max_size=300))
def test_bytes_that_are_no_request_have_no_name(data: bytes) -> None:
    assert unknown_kind(data) == ""
    assert unknown_kind(b"\x91" * 60_000) == ""


GOOD = encode(Pause(run="xy"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        GOOD[:-1],
        GOOD + b"\x00",
        GOOD.replace(b"xy", b"\xff\xfe"),
        GOOD.replace(b"pause", b"p\xffuse"),
        b"\x83" + GOOD[1:] + b"\xa4junk" + b"\x91" * 60_000,
        b"\xdf\xff\xff\xff\xff",
        msgspec.msgpack.encode({"t": "hologram"}),
        msgspec.msgpack.encode({"t": "pause"}),
        msgspec.msgpack.encode({"t": "pause", "run": 7}),
        msgspec.msgpack.encode({"run": "x"}),
        msgspec.msgpack.encode([1, 2]),
    ],
    ids=range(13),
)
def test_what_is_no_message_raises_one_kind_of_error(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        try:
            decode(data)
        except msgspec.DecodeError:
            continue


def test_fields_of_a_later_minor_version_are_ignored() -> None:
    later = msgspec.msgpack.encode({"t": "pause", "run": "x", "gently": True})
    assert decode_request(later) == Pause(run="x")
