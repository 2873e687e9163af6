"""A long-lived link exchanges new keys now and then, and what the server sends meanwhile is answered afterwards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import paramiko
import pytest
from paramiko.message import Message

from clew_gui.ssh.transport import SshTransport

_WAIT_S = 30.0
_GLOBAL_REQUEST, _OPEN, _OPEN_SUCCESS, _CLOSE, _CHANNEL_REQUEST = 80, 90, 91, 97, 98
_ANSWERS = {_CLOSE: 97, _CHANNEL_REQUEST: 100, _GLOBAL_REQUEST: 82, _OPEN: 92, _OPEN_SUCCESS: 97}
"""The number of the message that answers each; the last one opens a channel that nobody waits for any more."""


class Everyone(paramiko.ServerInterface):
    """Lets everyone in."""

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.common.OPEN_SUCCEEDED


class Server(paramiko.Transport):
    """A server that says something when the client asks for new keys, before it has exchanged them itself."""

    says: Callable[[], Message]

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.add_server_key(paramiko.ECDSAKey.generate())
        self.exchanges = 0
        self.heard: list[tuple[int, int]] = []
        """The number of each message of the client's, and the number of exchanges before it."""
        self.answered = threading.Condition()
        anything: Any = self
        anything._handler_table[paramiko.common.MSG_KEXINIT] = self._say_first
        self._read = anything.packetizer.read_message
        anything.packetizer.read_message = self._read_and_note

    def _log(self, level: int, msg: Any, *args: Any) -> None:
        """Nobody reads it."""

    def _say_first(self, message: Message) -> None:
        anything: Any = self
        self.exchanges += 1
        if self.exchanges > 1:
            anything._send_message(self.says())
        anything._negotiate_keys(message)

    def _read_and_note(self) -> tuple[int, Message]:
        kind, message = self._read()
        with self.answered:
            self.heard.append((kind, self.exchanges))
            self.answered.notify_all()
        return kind, message

    def waits_for(self, *kinds: int) -> list[int]:
        """What came after the new keys were asked for, of these kinds, once there are as many."""

        def after() -> list[int]:
            return [kind for kind, exchanges in self.heard if exchanges > 1 and kind in kinds]

        with self.answered:
            self.answered.wait_for(lambda: len(after()) >= len(kinds), _WAIT_S)
            return after()


@pytest.fixture
def ends() -> Iterator[tuple[SshTransport, Server]]:
    """A client that is logged in, and its server."""
    ours, theirs = socket.socketpair()
    client, server = SshTransport(ours, "test"), Server(theirs)
    server.start_server(threading.Event(), Everyone())
    client.start_client(timeout=_WAIT_S)
    client.auth_none("student")
    client.clear_to_send_timeout = 2.0  # so that a failure is seen soon
    yield client, server
    client.end()
    server.close()
    server.join(_WAIT_S)


@pytest.mark.parametrize("kind", _ANSWERS)
def test_what_arrives_while_keys_are_exchanged_is_answered_with_the_new_ones(
    ends: tuple[SshTransport, Server], kind: int
) -> None:
    client, server = ends
    channel = client.open_session(timeout=_WAIT_S)
    there = server.accept(_WAIT_S)
    assert there is not None

    def says() -> Message:
        message = Message()
        message.add_byte(bytes([kind]))
        if kind in (_CLOSE, _CHANNEL_REQUEST):
            message.add_int(channel.chanid)
        if kind == _OPEN:
            message.add_string("x11")
        if kind in (_OPEN, _OPEN_SUCCESS):
            for number in (99, there.chanid, 1 << 20, 1 << 15):
                message.add_int(number)
        if kind in (_GLOBAL_REQUEST, _CHANNEL_REQUEST):
            message.add_string("keepalive@openssh.com")
            message.add_boolean(True)
        return message

    server.says = says
    client.renegotiate_keys()
    # 21: the new keys are in use. A close is answered with another one, which may be there by now.
    assert server.waits_for(21, _ANSWERS[kind])[:2] == [21, _ANSWERS[kind]]
    assert client.ping(_WAIT_S)
    assert client.open_session(timeout=_WAIT_S).active
