"""Streams over channels of paramiko."""

from __future__ import annotations

from typing import cast

import paramiko
import pytest

from clew_gui.ssh.paramiko.streams import ChannelStream
from clew_gui.ssh.paramiko.transport import SshTransport
from clew_shared.base.problem import ProblemError


class Ending:
    """A link whose thread has closed its channels and, unless it ``lives``, is about to end."""

    name, goodbye = "ssh test", ""

    def __init__(self, lives: bool) -> None:
        self._lives = lives
        self._active = True

    def is_active(self) -> bool:
        return self._active

    def join(self, timeout: float) -> None:
        self._active = self._lives


class Closed:
    """A channel without more data. ``eof_received`` is whether the server has said so."""

    def __init__(self, eof_received: bool) -> None:
        self.eof_received = eof_received

    def settimeout(self, timeout: float | None) -> None:
        pass

    def recv(self, limit: int) -> bytes:
        return b""


def stream(lives: bool, eof_received: bool) -> ChannelStream:
    link, channel = Ending(lives), Closed(eof_received)
    return ChannelStream(cast(SshTransport, link), cast(paramiko.Channel, channel), "student@login")


def test_a_link_that_closes_its_channels_a_moment_before_it_ends_is_lost() -> None:
    with pytest.raises(ProblemError) as caught:
        stream(lives=False, eof_received=False).recv(10)
    assert caught.value.problems[0].code == "ssh.lost"


@pytest.mark.parametrize("eof_received", [True, False])
def test_the_end_of_a_channel_is_not_that_of_its_link(eof_received: bool) -> None:
    assert stream(lives=True, eof_received=eof_received).recv(10) == b""
