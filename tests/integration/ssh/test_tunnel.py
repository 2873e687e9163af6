"""A loopback port that leads through SSH: many streams, slow readers, half-closed ends, and nothing left."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
import zmq

from clew_gui.ssh.connection import Connection, SshFiles
from clew_gui.ssh.tunnel import Tunnel
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.servers import SshServer
from tests.integration.ssh.test_contract import echo
from tests.integration.ssh.test_dead_links import until

__all__ = ["echo"]

pytestmark = pytest.mark.needs("sshd")


@contextmanager
def tunnel_to(connection: Connection, port: int) -> Iterator[Tunnel]:
    tunnel = Tunnel(lambda: connection.connect("127.0.0.1", port))
    try:
        yield tunnel
    finally:
        tunnel.close()


def ask(port: int, data: bytes) -> bytes:
    """Send, say that this was all, and read to the end."""
    with socket.create_connection(("127.0.0.1", port)) as sock:

        def send() -> None:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        answer = b""
        while got := sock.recv(65536):
            answer += got
        sender.join()
    return answer


def test_what_goes_in_comes_out_and_one_end_may_close_first(connection: Connection, echo: int) -> None:
    data = random.Random(5).randbytes(2_000_000)
    with tunnel_to(connection, echo) as tunnel:
        assert ask(tunnel.port, data) == data + b"(end)"
        until(lambda: len(tunnel) == 0, "the stream is still there")


def test_many_streams_at_once(connection: Connection, echo: int) -> None:
    answers: dict[int, bytes] = {}
    with tunnel_to(connection, echo) as tunnel:

        def one(number: int) -> None:
            answers[number] = ask(tunnel.port, b"%d" % number * 1000)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: b"%d" % number * 1000 + b"(end)" for number in range(20)}


def test_only_this_computer_reaches_it(connection: Connection, echo: int) -> None:
    with tunnel_to(connection, echo) as tunnel:
        assert tunnel.address == "127.0.0.1"


def test_a_reader_that_does_not_read_stops_the_sender(connection: Connection) -> None:
    """Back-pressure: what is on its way stays bounded, and nothing of it is lost."""
    listener = socket.create_server(("127.0.0.1", 0))
    sent = 0
    total = 60_000_000

    def pour() -> None:
        nonlocal sent
        sock, _ = listener.accept()
        with sock:
            piece = bytes(65536)
            while sent < total:
                sock.sendall(piece)
                sent += len(piece)

    source = threading.Thread(target=pour)
    source.start()
    with tunnel_to(connection, listener.getsockname()[1]) as tunnel:
        sock = socket.create_connection(("127.0.0.1", tunnel.port))
        until(lambda: sent > 0 and _stands_still(lambda: sent), "it never stopped")
        assert sent < total
        got = 0
        while data := sock.recv(1 << 20):
            got += len(data)
        assert got == sent >= total
        sock.close()
    source.join()
    listener.close()


def _stands_still(value: Callable[[], int]) -> bool:
    before = value()
    time.sleep(0.5)
    return value() == before


def test_a_far_end_that_refuses_is_a_reset_and_a_reason(connection: Connection) -> None:
    with tunnel_to(connection, 1) as tunnel:
        with socket.create_connection(("127.0.0.1", tunnel.port)) as sock, pytest.raises(ConnectionResetError):
            sock.recv(10)
        assert tunnel.problem is not None
        assert tunnel.problem.code == "ssh.connect"


def test_closing_it_ends_every_stream(connection: Connection, echo: int) -> None:
    with tunnel_to(connection, echo) as tunnel:
        socks = [socket.create_connection(("127.0.0.1", tunnel.port)) for _ in range(5)]
        for sock in socks:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
        tunnel.close()
        for sock in socks:
            assert sock.recv(1) == b""
            sock.close()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", tunnel.port))
    assert connection.run("echo fine").stdout == b"fine\n"


def test_a_link_that_dies_ends_the_streams(dial: Dial, echo: int, server: SshServer, files: SshFiles) -> None:
    trust(files, server)
    connection = dial(hop_to(server, "user"))
    with tunnel_to(connection, echo) as tunnel:
        with socket.create_connection(("127.0.0.1", tunnel.port)) as sock:
            sock.sendall(b"x")
            assert sock.recv(1) == b"x"
            connection.close()
            with suppress(ConnectionResetError):
                assert sock.recv(1) == b""
        until(lambda: len(tunnel) == 0, "the stream is still there")


def test_zeromq_speaks_through_it(connection: Connection) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as far, context.socket(zmq.DEALER) as near:
        for sock in (far, near):
            sock.linger = 0
            sock.rcvtimeo = 20_000
        port = far.bind_to_random_port("tcp://127.0.0.1")
        with tunnel_to(connection, port) as tunnel:
            near.connect(f"tcp://127.0.0.1:{tunnel.port}")
            for size in (1, 1000, 1_000_000):
                near.send(bytes(size))
                name, data = far.recv_multipart()
                far.send_multipart([name, data])
                assert near.recv() == bytes(size)
            near.close()
