"""known_hosts files, read line by line; OpenSSH's own ssh-keygen is the judge where it can be."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paramiko.message import Message

from clew_gui.ssh.host_keys import HostKey, HostKeyVerdict, check_host_key, keys_of, lookup_name, matches, read_known
from clew_gui.ssh.transport import SshTransport


def key(name: str = "ssh-ed25519", body: bytes = b"x" * 32) -> HostKey:
    return HostKey(name, struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(body)) + body)


def line(hosts: str, what: HostKey, marker: str = "") -> str:
    return f"{marker} {hosts} {what.type} {base64.b64encode(what.blob).decode()} a comment".strip() + "\n"


@pytest.mark.parametrize(
    ("patterns", "name", "fits"),
    [
        ("login", "login", True),
        ("login", "login2", False),
        ("a,login,b", "login", True),
        ("*.bsc.es", "mt1.bsc.es", True),
        ("*.bsc.es,!mt1.bsc.es", "mt1.bsc.es", False),
        ("mt?.bsc.es", "mt1.bsc.es", True),
        ("LOGIN", "login", True),
        ("[login]:2222", "[login]:2222", True),
        ("login", "[login]:2222", False),
        ("[login]:2222", "login", False),
        ("[lo]gin", "login", False),
        ("[login]:*", "[login]:2222", True),
        ("!login", "login", False),
        ("|1|bad", "login", False),
    ],
)
def test_which_names_a_line_is_about(patterns: str, name: str, fits: bool) -> None:
    assert matches(patterns.split(","), name) is fits


def test_a_port_of_its_own_stands_in_brackets() -> None:
    assert lookup_name("Login") == "login"
    assert lookup_name("login", 2222) == "[login]:2222"


def test_known_changed_unknown_revoked() -> None:
    mine, other, rsa = key(), key(body=b"y" * 32), key("ssh-rsa")
    lines = read_known(line("login", mine) + line("old", other) + line("login", rsa, "@revoked"))
    assert check_host_key(lines, "login", mine) is HostKeyVerdict.KNOWN
    assert check_host_key(lines, "login", other) is HostKeyVerdict.CHANGED
    assert check_host_key(lines, "login", rsa) is HostKeyVerdict.REVOKED
    assert check_host_key(lines, "new", mine) is HostKeyVerdict.UNKNOWN
    assert check_host_key(lines, "old", rsa) is HostKeyVerdict.CHANGED


def test_an_authority_is_left_alone() -> None:
    lines = read_known(line("*", key(), "@cert-authority"))
    assert check_host_key(lines, "login", key()) is HostKeyVerdict.UNKNOWN
    assert keys_of(lines, "login") == []


@given(st.text())
def test_whatever_stands_in_the_file_it_is_read(text: str) -> None:
    good = line("login", key())
    assert check_host_key(read_known(f"{text}\n{good}"), "login", key()) in (
        HostKeyVerdict.KNOWN,
        HostKeyVerdict.REVOKED,
    )


@given(st.binary(max_size=200))
def test_a_key_that_does_not_begin_with_its_type_is_none(body: bytes) -> None:
    text = f"login ssh-ed25519 {base64.b64encode(body).decode()}\n"
    assert all(known.key.blob.startswith(b"\x00\x00\x00\x0bssh-ed25519") for known in read_known(text))


@pytest.mark.unix("ssh-keygen")
def test_hashed_names_and_fingerprints_are_openssh_s(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"], check=True)
    name, blob, _ = (tmp_path / "k.pub").read_text().split(" ", 2)
    file = tmp_path / "known_hosts"
    file.write_text(f"login {name} {blob}\n[login]:2222 {name} {blob}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    lines = read_known(file.read_text(), "here")
    assert [known.place for known in keys_of(lines, "login")] == ["here:1"]
    assert len(keys_of(lines, "[login]:2222")) == 1
    assert keys_of(lines, "other") == []
    told = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "k.pub"], check=True, capture_output=True, text=True)
    assert lines[0].key.fingerprint == told.stdout.split()[1]


# --- New keys ---------------------------------------------------------------------------------------------------------

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
