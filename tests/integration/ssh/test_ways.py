"""Whole ways to a server: what leads there, what is agreed on, and what Clew cannot do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from clew_gui.ssh.connection import Hop, SshFiles, route_words
from clew_gui.ssh.dial import dial
from clew_gui.ssh.kept_logins import KeptLogins
from clew_gui.ssh.paramiko_connection import dial_paramiko
from clew_gui.ssh.prompts import AskOnce, Prompter, PromptKind
from clew_gui.ssh.transport import SshTransport
from tests.integration.ssh.conftest import hop_to, trust
from tests.integration.ssh.people import Person
from tests.integration.ssh.servers import PASSPHRASE, School, SshServer
from tests.integration.ssh.test_contract import refused
from tests.integration.ssh.test_dead_links import until

pytestmark = pytest.mark.needs("sshd")


def route(hops: Sequence[Hop], files: SshFiles, person: Prompter | None = None) -> str:
    connection = dial(hops, AskOnce(person or Person({})), files)
    try:
        assert connection.run("echo in").stdout == b"in\n"
        return route_words(connection.passed)
    finally:
        connection.close()


def test_usually_it_is_paramiko_and_the_key_is_named(server: SshServer, files: SshFiles) -> None:
    trust(files, server)
    assert route([hop_to(server, "user")], files) == f"student@login (key {server.school.key('user')})"


@pytest.mark.parametrize(("has", "taken"), [((), "-gcm@"), (("Ciphers aes192-ctr,aes256-ctr",), "-ctr")])
def test_a_cipher_that_authenticates_by_itself_comes_first_where_the_server_has_one(
    start: Callable[..., SshServer], files: SshFiles, has: tuple[str, ...], taken: str
) -> None:
    server = start(*has)
    trust(files, server)
    with closing(dial_paramiko(hop_to(server, "user"), files, AskOnce(Person({})))) as connection:
        assert connection.run("echo in").stdout == b"in\n"
        link: Any = connection.link
        assert taken in link.remote_cipher
        assert taken in link.local_cipher


@pytest.mark.parametrize("passphrase", ["", PASSPHRASE])
@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ec"])
def test_a_key_in_pkcs8_form(
    server: SshServer, files: SshFiles, school: School, tmp_path: Path, kind: str, passphrase: str
) -> None:
    trust(files, server)
    makers: dict[str, Callable[[], Any]] = {
        "ed25519": ed25519.Ed25519PrivateKey.generate,
        "rsa": lambda: rsa.generate_private_key(65537, 2048),
        "ec": lambda: ec.generate_private_key(ec.SECP384R1()),
    }
    key = makers[kind]()
    lock = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    (school.keys / "pkcs8").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    (school.keys / "pkcs8.pub").write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    school.allow("pkcs8")
    (school.keys / "pkcs8.pub").unlink()
    person = Person({PromptKind.PASSPHRASE: PASSPHRASE} if passphrase else {})
    assert route([hop_to(server, "pkcs8")], files, person) == f"student@login (key {school.key('pkcs8')})"
    assert len(person.asked) == bool(passphrase)


@pytest.mark.parametrize("kept", [False, True])
def test_a_proxy_command_is_the_way(server: SshServer, files: SshFiles, tmp_path: Path, kept: bool) -> None:
    trust(files, server)
    relay = tmp_path / "relay.py"
    relay.write_text(_RELAY)
    command = f"{sys.executable} {relay} %h %p {tmp_path}/said"
    hop = msgspec.structs.replace(hop_to(server, "locked" if kept else "user"), proxy_command=command)
    keeping = msgspec.structs.replace(files, keep_login_s=600 if kept else 0)
    person = Person({PromptKind.PASSPHRASE: PASSPHRASE} if kept else {})
    for _ in range(2):
        with closing(dial([hop], AskOnce(person), keeping)) as connection:
            assert connection.run("cat; echo in", stdin=bytes(1_000_000)).stdout == bytes(1_000_000) + b"in\n"
    assert (tmp_path / "said").read_text() == "on\n" * 2  # one found that a person is needed, the other stayed
    assert len(person.asked) == kept
    KeptLogins(keeping).clear()
    until(lambda: not [one for one in psutil.process_iter() if str(relay) in _words(one)], "it goes on")


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_proxy_command_that_fails_says_why(server: SshServer, files: SshFiles) -> None:
    hop = msgspec.structs.replace(hop_to(server, "user"), proxy_command="echo no way to %n >&2; exit 1")
    with refused("ssh.reach") as words:
        dial([hop], AskOnce(Person({})), files)
    assert "no way to login" in words[0]


_RELAY = """
import os, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
with open(sys.argv[3], "a") as said:
    said.write("on\\n")
def up():
    while data := os.read(0, 65536):
        sock.sendall(data)  # its end is not that of the command, as with some kinds of nc
threading.Thread(target=up, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
"""


@pytest.mark.parametrize(
    ("options", "offered"),
    [
        (("Ciphers chacha20-poly1305@openssh.com",), "cipher in common; the server offers chacha20-poly1305@openssh."),
        (("KexAlgorithms diffie-hellman-group14-sha1",), "key exchange in common; the server offers diffie-hellman-"),
        (("MACs umac-64@openssh.com", "Ciphers aes128-ctr"), "MAC in common; the server offers umac-64@openssh.com."),
        (("AuthenticationMethods gssapi-with-mic", "GSSAPIAuthentication yes"), "accepts only gssapi-with-mic (Kerb"),
        (("AuthenticationMethods hostbased", "HostbasedAuthentication yes"), "accepts only hostbased ("),
    ],
)
def test_a_server_that_clew_cannot_log_in_to_is_refused_with_what_to_do(
    start: Callable[..., SshServer], files: SshFiles, options: tuple[str, ...], offered: str
) -> None:
    server = start(*options)
    trust(files, server)
    with refused("ssh.incompatible") as words:
        dial([hop_to(server, "user")], AskOnce(Person({})), files)
    assert offered in words[0]
    assert "Ask the site" in words[0]


def test_an_rsa_key_whose_signatures_the_server_does_not_take_is_named(
    start: Callable[..., SshServer], files: SshFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a server that says so, and takes them by SHA-1 only."""
    monkeypatch.setattr(SshTransport, "preferred_pubkeys", ("rsa-of-today",))
    server = start("AuthenticationMethods publickey")
    trust(files, server)
    with refused("ssh.auth") as words:
        dial([hop_to(server, "old")], AskOnce(Person({})), files)
    assert "by SHA-1 only: use an ed25519 key" in words[0]


def test_what_the_configuration_asks_for_in_vain_is_said_at_a_failed_login(
    start: Callable[..., SshServer], files: SshFiles
) -> None:
    server = start("AuthenticationMethods publickey")
    trust(files, server)
    hop = msgspec.structs.replace(hop_to(server, "second"), unsupported="the SSH configuration sets pkcs11provider x")
    with refused("ssh.auth") as words:
        dial([hop], AskOnce(Person({})), files)
    assert "Perhaps it is because the SSH configuration sets pkcs11provider x." in words[0]
