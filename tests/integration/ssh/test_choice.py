"""Which way of speaking SSH is taken, by itself, and that it is said."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.dialler import dial
from clew_gui.ssh.paramiko.connection import dial_paramiko
from clew_gui.ssh.prompts import AskOnce, Prompter, PromptKind
from tests.integration.ssh.conftest import hop_to, trust
from tests.integration.ssh.people import Person
from tests.integration.ssh.servers import School, SshServer
from tests.integration.ssh.test_contract import refused

pytestmark = pytest.mark.needs("sshd")


def route(hops: Sequence[Hop], files: SshFiles, person: Prompter | None = None) -> str:
    connection = dial(hops, AskOnce(person or Person({})), files)
    try:
        assert connection.run("echo in").stdout == b"in\n"
        return connection.route
    finally:
        connection.close()


def test_usually_it_is_paramiko_and_the_key_is_named(server: SshServer, files: SshFiles) -> None:
    trust(files, server)
    assert route([hop_to(server, "user")], files) == f"student@login (key {server.school.key('user')})"


@pytest.mark.parametrize(
    "strange",
    [
        ("Ciphers chacha20-poly1305@openssh.com",),
        ("KexAlgorithms curve25519-sha256",),
        ("KexAlgorithms diffie-hellman-group14-sha1", "HostKeyAlgorithms ssh-ed25519"),
    ],
)
def test_what_paramiko_cannot_speak_goes_through_the_systems_ssh(
    start: Callable[..., SshServer], files: SshFiles, school: School, strange: tuple[str, ...]
) -> None:
    config = files.runtime / "config"  # as a person who must reach such a server has it
    config.write_text("Host login\n  KexAlgorithms +diffie-hellman-group14-sha1\n")
    server = start(*strange)
    trust(files, server)
    found = route([hop_to(server, "user")], msgspec.structs.replace(files, ssh_config=str(config)))
    assert found.startswith("student@login (the system's ssh, because the server speaks only methods")


@pytest.mark.parametrize(("has", "taken"), [((), "-gcm@"), (("Ciphers aes192-ctr,aes256-ctr",), "-ctr")])
def test_a_cipher_that_authenticates_by_itself_comes_first_where_the_server_has_one(
    start: Callable[..., SshServer], files: SshFiles, has: tuple[str, ...], taken: str
) -> None:
    server = start(*has)
    trust(files, server)
    with closing(dial_paramiko(hop_to(server, "user"), files, AskOnce(Person({})))) as connection:
        assert connection.run("echo in").stdout == b"in\n"
        link: Any = connection._link
        assert taken in link.remote_cipher
        assert taken in link.local_cipher


def test_a_key_that_paramiko_does_not_read(server: SshServer, files: SshFiles, school: School) -> None:
    trust(files, server)
    if not (school.keys / "pkcs8").exists():
        school.make_key("pkcs8", "rsa", extra=["-m", "PKCS8"])
    school.allow("user", "pkcs8")
    assert "the system's ssh, because" in route([hop_to(server, "pkcs8")], files)


def test_a_proxy_command_is_for_the_systems_ssh(server: SshServer, files: SshFiles, tmp_path: Path) -> None:
    trust(files, server)
    relay = tmp_path / "relay.py"
    relay.write_text(_RELAY)
    hop = msgspec.structs.replace(hop_to(server, "user"), proxy_command=f"{sys.executable} {relay} %h %p")
    assert "because the way there is a ProxyCommand" in route([hop], files)


_RELAY = """
import os, socket, sys, threading
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def up():
    while data := os.read(0, 65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_RDWR)  # also when ssh was killed before its farewell
threading.Thread(target=up, daemon=True).start()
while data := sock.recv(65536):
    os.write(1, data)
"""


def test_all_hops_go_the_same_way(start: Callable[..., SshServer], server: SshServer, files: SshFiles) -> None:
    strange = start("Ciphers chacha20-poly1305@openssh.com")
    trust(files, server, strange)
    found = route([hop_to(server, "user"), hop_to(strange, "user", name="node1")], files)
    assert found.startswith("student@login (the system's ssh, because")
    assert found.endswith("then student@node1 (the system's ssh)")


def test_without_a_system_ssh_it_is_said(start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("Ciphers chacha20-poly1305@openssh.com")
    trust(files, server)
    with refused("ssh.incompatible") as words:
        dial([hop_to(server, "user")], AskOnce(Person({})), msgspec.structs.replace(files, ssh="no-such-ssh"))
    assert "Install OpenSSH" in words[0]


def test_what_not_even_that_speaks_is_named(start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("KexAlgorithms diffie-hellman-group14-sha1")
    trust(files, server)
    with refused("ssh.incompatible") as words:
        dial([hop_to(server, "user")], AskOnce(Person({})), files)
    assert "diffie-hellman-group14-sha1" in words[0]


def test_a_wrong_password_is_no_reason_to_try_the_other(
    server: SshServer, files: SshFiles, way_count: list[str]
) -> None:
    trust(files, server)
    with refused("ssh.password"):
        dial([hop_to(server)], AskOnce(Person({PromptKind.PASSWORD: "wrong"})), files)
    assert not way_count


@pytest.fixture
def way_count(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows when the system's ssh is taken."""
    taken: list[str] = []

    def never(*_: object) -> None:
        taken.append("system")

    monkeypatch.setattr("clew_gui.ssh.dialler.dial_system", never)
    return taken
