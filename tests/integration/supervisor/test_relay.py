"""``clew-agent relay``: bytes go both ways unchanged, to this node only, and it ends with either side."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integration.agent_runs import LIMIT_S, agent, command

DATA = bytes(range(256)) * 4096
"""A mebibyte of every value a byte can have, also line ends and what ends a terminal's input."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        yield server


@pytest.fixture
def relay(listener: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    words = command("relay", "127.0.0.1", listener.getsockname()[1])
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


def read(descriptor: int, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := os.read(descriptor, 1 << 16)):
        data += piece
    return data


def test_bytes_go_both_ways_unchanged(listener: socket.socket, relay: subprocess.Popen[bytes]) -> None:
    assert relay.stdin is not None
    assert relay.stdout is not None
    connection, _ = listener.accept()
    with connection:
        relay.stdin.write(DATA)
        relay.stdin.flush()
        assert read(connection.fileno(), len(DATA)) == DATA
        connection.sendall(DATA[::-1])
        assert read(relay.stdout.fileno(), len(DATA)) == DATA[::-1]


def test_it_ends_when_the_agent_hangs_up(listener: socket.socket, relay: subprocess.Popen[bytes]) -> None:
    connection, _ = listener.accept()
    connection.close()
    assert relay.wait(LIMIT_S) == 0


def test_it_ends_when_its_input_ends(listener: socket.socket, relay: subprocess.Popen[bytes]) -> None:
    assert relay.stdin is not None
    connection, _ = listener.accept()
    with connection:
        relay.stdin.close()
        assert relay.wait(LIMIT_S) == 0
        assert connection.recv(1) == b""


# --- Before an agent --------------------------------------------------------------------------------------------------

GREETING = b"\xff\0\0\0\0\0\0\0\1\x7f"


@pytest.fixture
def greeted(listener: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    """A relay to an agent whose greeting it has passed on."""
    words = command("relay", "--agent", "127.0.0.1", listener.getsockname()[1])
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        first, _ = listener.accept()
        with first:
            first.sendall(GREETING)
            assert process.stdout is not None
            assert read(process.stdout.fileno(), len(GREETING)) == GREETING
            assert first.recv(1) == b""  # it does not wait there for a viewer
        yield process
        process.kill()


def test_an_agent_is_kept_waiting_by_nobody_and_greets_once(
    listener: socket.socket, greeted: subprocess.Popen[bytes]
) -> None:
    assert greeted.stdin is not None
    assert greeted.stdout is not None
    listener.settimeout(0.2)
    with pytest.raises(TimeoutError):
        listener.accept()
    greeted.stdin.write(DATA[:10])
    greeted.stdin.flush()
    listener.settimeout(LIMIT_S)
    connection, _ = listener.accept()
    with connection:
        connection.sendall(GREETING[:4])
        connection.sendall(GREETING[4:] + DATA[:5])
        assert read(greeted.stdout.fileno(), 5) == DATA[:5]
        greeted.stdin.write(DATA[10:])
        greeted.stdin.flush()
        assert read(connection.fileno(), len(DATA)) == DATA


def test_what_took_the_agents_place_meanwhile_is_not_joined(
    listener: socket.socket, greeted: subprocess.Popen[bytes]
) -> None:
    assert greeted.stdin is not None
    assert greeted.stderr is not None
    greeted.stdin.write(GREETING)
    greeted.stdin.flush()
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"SSH-2.0-OpenSSH\r\n")
        assert greeted.wait(LIMIT_S) == 1
    assert b"something else answers there now" in greeted.stderr.read()


def test_a_way_that_nobody_takes_ends_with_its_input(greeted: subprocess.Popen[bytes]) -> None:
    assert greeted.stdin is not None
    greeted.stdin.close()
    assert greeted.wait(LIMIT_S) == 0


def test_another_nodes_address_is_refused() -> None:
    done = agent("relay", "192.0.2.1", 22)  # of the addresses that are reserved for documentation
    assert (done.returncode, done.stdout) == (2, "")
    assert "'192.0.2.1' is not an address of this node" in done.stderr


def test_where_nobody_listens_is_said(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    done = agent("relay", "localhost", port)
    assert done.returncode == 1
    assert "does not answer" in done.stderr


@pytest.mark.parametrize("words", [(), ("localhost",), ("localhost", "x"), ("localhost", "0"), ("localhost", "70000")])
def test_wrong_words_show_the_right_ones(words: tuple[str, ...]) -> None:
    done = agent("relay", *words)
    assert done.returncode == 2
    assert "usage: clew-agent relay [--agent] HOST PORT" in done.stderr


def test_it_begins_with_next_to_nothing() -> None:
    code = "import sys, clew_agent.cli.relay; print(sorted({m.split('.')[0] for m in sys.modules} & {*sys.argv[1:]}))"
    heavy = ["zmq", "numpy", "psutil", "tensorflow", "platformdirs", "tomli_w"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
