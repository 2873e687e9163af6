"""Streams over channels of paramiko."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import cast

import paramiko
import pytest

from clew_gui.ssh.channels import ChannelStream
from clew_gui.ssh.transport import SshTransport
from clew_shared.base.problem import ProblemError


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
