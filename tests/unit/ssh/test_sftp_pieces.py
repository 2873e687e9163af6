"""A file in pieces, from servers that answer as the protocol allows and OpenSSH never does."""

from __future__ import annotations

import errno
import random
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import paramiko
import pytest
from paramiko.sftp import CMD_ATTRS, CMD_DATA, CMD_STATUS

from clew_gui.ssh.channels import AHEAD, CHUNK, ChannelStream, _Pieces
from clew_gui.ssh.transport import SshTransport
from clew_shared.base.problem import ProblemError

CONTENT = random.Random(11).randbytes(3 * AHEAD * CHUNK // 2 + 5)
OK, END, DENIED = 0, 1, 3


class Server:
    """Stands for paramiko's client: ``size`` bytes of ``CONTENT``, ``most`` an answer, in an order by chance."""

    def __init__(self, size: int, most: int = CHUNK) -> None:
        self.size, self.most = size, most
        self.refuses: tuple[int, int] | None = None
        self.under_way = 0
        self._dice = random.Random(12)
        self._waiting: deque[tuple[Any, int, int, int]] = deque()
        self._number = 0

    def _async_request(self, reader: Any, _kind: int, _handle: bytes, at: int, length: int) -> int:
        self._number += 1
        self._waiting.append((reader, self._number, at, length))
        self.under_way = max(self.under_way, len(self._waiting))
        return self._number

    def _read_response(self) -> None:
        self._waiting.rotate(self._dice.randrange(len(self._waiting)))
        reader, number, at, length = self._waiting.popleft()
        message = paramiko.Message()
        data = CONTENT[at : min(at + min(length, self.most), self.size)]
        if self.refuses:
            kind, code = self.refuses
            message.add_int(code)
            message.add_string("no")
        elif data:
            kind = CMD_DATA
            message.add_string(data)
        else:
            kind = CMD_STATUS
            message.add_int(END)
            message.add_string("the end")
        message.rewind()
        reader._async_response(kind, message, number)

    def _convert_status(self, message: paramiko.Message) -> None:
        code = message.get_int()
        if code == END:
            raise EOFError
        if code != OK:
            raise OSError(errno.EACCES, "no")


def read(server: Server, start: int, end: int) -> bytes:
    return _Pieces(server, b"handle", start, end).read()  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [CHUNK, 10_000])
def test_any_order_and_short_answers_make_the_same_file(most: int) -> None:
    server = Server(len(CONTENT), most)
    assert read(server, 100, len(CONTENT)) == CONTENT[100:]
    assert server.under_way == AHEAD


@pytest.mark.parametrize("size", [0, 99, 100, 101, CHUNK, 70 * CHUNK + 1])
def test_a_file_that_has_become_shorter_ends_where_it_ends(size: int) -> None:
    assert read(Server(size), 100, len(CONTENT)) == CONTENT[100:size]


def test_nothing_is_asked_for_where_there_is_nothing() -> None:
    server = Server(50)
    assert read(server, 50, 50) == b""
    assert read(server, 60, 50) == b""
    assert server.under_way == 0


@pytest.mark.parametrize(
    ("answer", "error"),
    [((CMD_STATUS, DENIED), OSError), ((CMD_STATUS, OK), paramiko.SFTPError), ((CMD_ATTRS, OK), paramiko.SFTPError)],
)
def test_a_refusal_is_no_end_of_the_file(answer: tuple[int, int], error: type[Exception]) -> None:
    server = Server(len(CONTENT))
    server.refuses = answer
    with pytest.raises(error):
        read(server, 0, len(CONTENT))


# --- Streams over channels of paramiko --------------------------------------------------------------------------------


class Ending(SshTransport):
    """A link whose thread has closed its channels and, unless it ``lives``, is about to end."""

    def __init__(self, sock: socket.socket, lives: bool) -> None:
        super().__init__(sock, "test")
        self.active, self._lives = True, lives

    def join(self, timeout: float | None = None) -> None:
        self.active = self._lives


class Closed:
    """A channel without more data. ``eof_received`` is whether the server has said so."""

    def __init__(self, eof_received: bool) -> None:
        self.eof_received = eof_received

    def settimeout(self, timeout: float | None) -> None:
        pass

    def recv(self, limit: int) -> bytes:
        return b""


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours


def stream(sock: socket.socket, lives: bool, eof_received: bool) -> ChannelStream:
    return ChannelStream(Ending(sock, lives), cast(paramiko.Channel, Closed(eof_received)), "student@login")


def test_a_link_that_closes_its_channels_a_moment_before_it_ends_is_lost(sock: socket.socket) -> None:
    with pytest.raises(ProblemError) as caught:
        stream(sock, lives=False, eof_received=False).recv(10)
    assert caught.value.problems[0].code == "ssh.lost"


@pytest.mark.parametrize("eof_received", [True, False])
def test_the_end_of_a_channel_is_not_that_of_its_link(sock: socket.socket, eof_received: bool) -> None:
    assert stream(sock, lives=True, eof_received=eof_received).recv(10) == b""
