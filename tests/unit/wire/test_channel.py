"""The client's end of the wire, against a bare ROUTER that the test plays."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import msgspec
import pytest
import zmq

from clew_shared.base.problem import ProblemError
from clew_shared.wire.channel import Channel, Greeting, KeyPair
from clew_shared.wire.messages import Done, Hello, Refused, Stop, decode_request, encode

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
