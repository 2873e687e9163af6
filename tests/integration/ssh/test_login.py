"""Who is let in, what is asked on the way, and what is said to who is not, with real servers."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec
import pytest

from clew_gui.ssh.connection import Hop, SshFiles
from clew_gui.ssh.prompts import AskOnce, NobodyToAsk, ProgramPrompter, PromptKind
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.people import Agent, Person, current_code, well_informed
from tests.integration.ssh.servers import PASSPHRASE, PASSWORD, USER, SshServer
from tests.integration.ssh.test_contract import refused

pytestmark = pytest.mark.needs("sshd")


@pytest.fixture
def known(server: SshServer, files: SshFiles) -> SshServer:
    """The usual server, whose key is known."""
    trust(files, server)
    return server


# --- Keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["user", "old"])
def test_a_key_asks_nothing(dial: Dial, known: SshServer, key: str) -> None:
    person = Person({})
    connection = dial(hop_to(known, key), person)
    assert connection.run("id -un").stdout == b"student\n"
    assert [title for title, _ in connection.passed] == ["student@login"]
    assert not person.asked


@pytest.mark.parametrize(("kind", "held"), [("ed25519", False), ("rsa", False), ("ecdsa", False), ("ed25519", True)])
def test_a_certificate_under_any_name_opens_the_door_for_its_key(
    dial: Dial,
    start: Callable[..., SshServer],
    files: SshFiles,
    agent: Callable[..., Agent],
    tmp_path: Path,
    kind: str,
    held: bool,
) -> None:
    """The server knows the authority, and not the key; a certificate of another key is passed over."""
    key, authority = tmp_path / "certonly", tmp_path / "ca"
    for path, type_ in ((key, kind), (authority, "ed25519"), (tmp_path / "other", "ed25519")):
        subprocess.run(["ssh-keygen", "-q", "-t", type_, "-N", "", "-f", str(path)], check=True)
    for path in (tmp_path / "other", key):
        sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "id", "-n", USER, f"{path}.pub"]
        subprocess.run(sign, check=True)
    certificates = tuple(str(tmp_path / f"{name}.pub") for name in ("yesterday", "today"))
    for path, certificate in zip((tmp_path / "other", key), certificates, strict=True):
        path.with_name(f"{path.name}-cert.pub").rename(certificate)
    server = start("AuthenticationMethods publickey", f"TrustedUserCAKeys {authority}.pub")
    trust(files, server)
    if held:
        agent(str(key))
    hop = msgspec.structs.replace(hop_to(server), keys=(str(key),))
    with refused("ssh.auth"):
        dial(hop, NobodyToAsk())
    person = Person({})
    connection = dial(msgspec.structs.replace(hop, certificates=certificates), person)
    assert connection.run("id -un").stdout == b"student\n"
    assert not person.asked


def test_a_locked_key_asks_for_its_passphrase_once(dial: Dial, known: SshServer) -> None:
    person = well_informed()
    asker = AskOnce(person)
    dial(hop_to(known, "locked"), asker)
    dial(hop_to(known, "locked"), asker)
    assert person.kinds == [PromptKind.PASSPHRASE]
    assert person.asked[0].title == known.school.key("locked")


def test_a_wrong_passphrase_is_asked_again(dial: Dial, known: SshServer) -> None:
    answers = iter(["wrong", PASSPHRASE])
    person = Person({PromptKind.PASSPHRASE: lambda: next(answers)})
    dial(hop_to(known, "locked"), person)
    assert person.kinds == [PromptKind.PASSPHRASE] * 2
    assert person.asked[1].again


def test_a_key_of_putty_is_answered_with_what_to_do(dial: Dial, known: SshServer, tmp_path: Path) -> None:
    key = tmp_path / "key.ppk"
    key.write_text("PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\n")
    hop = Hop(host="127.0.0.1", port=known.port, user=USER, keys=(str(key),))
    with refused("ssh.key.ppk") as words:
        dial(hop)
    assert "Export OpenSSH key" in words[0]


def test_a_key_that_is_not_there_is_named(dial: Dial, known: SshServer) -> None:
    with refused("ssh.key") as words:
        dial(hop_to(known, "no-such-key"))
    assert "no-such-key" in words[0]


def test_a_key_that_the_server_does_not_know_is_refused(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles
) -> None:
    server = start("AuthenticationMethods publickey")
    trust(files, server)
    person = Person({})
    with refused("ssh.auth") as words:
        dial(hop_to(server, "second"), person)
    assert "second" in words[0]
    assert "publickey" in words[0]
    assert not person.asked


# --- Passwords and codes --------------------------------------------------------------------------------------------


def test_a_password_is_asked_once_and_names_the_keys_that_did_not_help(dial: Dial, known: SshServer) -> None:
    person = well_informed()
    asker = AskOnce(person)
    for _ in range(2):
        dial(msgspec.structs.replace(hop_to(known, "second"), missing_keys=("/gone/key",)), asker)
    (asked,) = person.asked
    assert (asked.kind, asked.title, asked.echo) == (PromptKind.PASSWORD, "student@login", False)
    assert asked.details[0] == f"Did not let you in: key /gone/key (not there), key {known.school.key('second')}."


def test_a_server_that_takes_only_the_password_method(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles
) -> None:
    server = start("AuthenticationMethods password")
    trust(files, server)
    person = well_informed()
    dial(hop_to(server), person)
    assert person.kinds == [PromptKind.PASSWORD]


def test_a_wrong_password_is_asked_again_and_the_right_one_kept(dial: Dial, known: SshServer) -> None:
    answers = iter(["wrong", PASSWORD])
    person = Person({PromptKind.PASSWORD: lambda: next(answers)})
    asker = AskOnce(person)
    dial(hop_to(known), asker)
    dial(hop_to(known), asker)
    assert person.kinds == [PromptKind.PASSWORD] * 2
    assert [bool(prompt.again) for prompt in person.asked] == [False, True]


def test_a_password_that_stays_wrong_is_refused(dial: Dial, known: SshServer) -> None:
    person = Person({PromptKind.PASSWORD: "wrong"})
    with refused("ssh.password") as words:
        dial(hop_to(known), person)
    assert "student@login" in words[0]
    assert len(person.asked) <= 3  # the same answer once more is not tried for ever


@pytest.mark.parametrize("options", [(), ("KbdInteractiveAuthentication no",), ("MaxAuthTries 1",)])
def test_a_wrong_password_of_a_program_is_tried_once(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """It answers the same each time, and after some failures a site locks the account."""
    server = start(*options)
    trust(files, server)
    program = tmp_path / "askpass"
    program.write_text("#!/bin/sh\necho wrong\n")
    program.chmod(0o755)
    with refused("ssh.password"):
        dial(hop_to(server), ProgramPrompter(str(program)))
    assert server.said("Failed password") + server.said("Failed keyboard-interactive") == 1


def test_where_nobody_can_be_asked_no_password_is_tried(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles
) -> None:
    server = start()
    trust(files, server)
    with refused("ssh.noprompt"):
        dial(hop_to(server), NobodyToAsk())
    assert server.said("Failed password") + server.said("Failed keyboard-interactive") == 0


def test_key_password_and_code_in_one_login(dial: Dial, start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("AuthenticationMethods publickey,keyboard-interactive:pam", otp=True)
    trust(files, server)
    person = well_informed()
    connection = dial(hop_to(server, "user"), person)
    assert person.kinds == [PromptKind.PASSWORD, PromptKind.CODE]
    assert "One-time password" in person.asked[1].text
    assert person.asked[0].text.strip(": ") == "Password"
    assert not any(prompt.again for prompt in person.asked)
    assert connection.asks_codes
    assert connection.run("echo in").stdout == b"in\n"


def test_a_wrong_code_is_refused_as_a_code(dial: Dial, start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("AuthenticationMethods keyboard-interactive:pam", otp=True)
    trust(files, server)
    person = Person({PromptKind.PASSWORD: PASSWORD, PromptKind.CODE: "000000"})
    with refused("ssh.code") as words:
        dial(hop_to(server), person)
    assert "code" in words[0]


def test_a_code_that_was_used_is_asked_again(dial: Dial, start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start("AuthenticationMethods keyboard-interactive:pam", otp=True)
    trust(files, server)
    answers = iter(["000000"])
    person = Person({PromptKind.PASSWORD: PASSWORD, PromptKind.CODE: lambda: next(answers, None) or current_code()})
    dial(hop_to(server), person)
    assert person.kinds.count(PromptKind.CODE) == 2


@pytest.mark.parametrize(
    "rubbish", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n" + bytes(range(256)) * 40, b""]
)
def test_something_that_is_no_ssh_server(dial: Dial, rubbish: bytes, impatient: None) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock:
                    sock.sendall(rubbish)

    thread = threading.Thread(target=serve)
    thread.start()
    hop = Hop(host="127.0.0.1", port=int(listener.getsockname()[1]), user=USER, name="login")
    with pytest.raises(ProblemError) as caught:
        dial(hop, Person({}), timeout=10.0)
    assert "login" in str(caught.value) or "127.0.0.1" in str(caught.value)
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


# --- Nobody, and nobody willing -------------------------------------------------------------------------------------


def test_cancelling_ends_the_login(dial: Dial, known: SshServer) -> None:
    with refused("ssh.cancelled"):
        dial(hop_to(known), Person({PromptKind.PASSWORD: None}))


def test_nobody_to_ask_says_what_to_do(dial: Dial, known: SshServer) -> None:
    with refused("ssh.noprompt") as words:
        dial(hop_to(known), NobodyToAsk())
    assert "a password" in words[0]
    assert "SSH_ASKPASS" in words[0]


def test_a_port_where_no_server_listens(dial: Dial, server: SshServer) -> None:
    with refused("ssh.reach") as words:
        dial(hop_to(server, "user", port=1))
    assert "no SSH server listens" in words[0]


def test_an_address_with_a_zone_is_dialled(dial: Dial) -> None:
    with pytest.raises(ProblemError) as caught:
        dial(Hop(host="fe80::7%lo", port=9, user="student"), Person({}))
    assert caught.value.problems[0].code in ("ssh.reach", "ssh.name")


def test_a_name_that_does_not_exist(dial: Dial) -> None:
    with refused("ssh.name"):
        dial(Hop(host="no-such-host.invalid", user=USER))


@pytest.fixture
def crowded(start: Callable[..., SshServer], files: SshFiles) -> Iterator[tuple[SshServer, socket.socket]]:
    """A server that lets one log in at a time, and somebody who takes for ever."""
    server = start("MaxStartups 1:100:1", "LoginGraceTime 60")
    trust(files, server)
    with ExitStack() as stack:
        greeting, slow = b"", None
        while slow is None or not greeting.startswith(b"SSH-"):  # the look whether it listens counts as well at first
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            greeting = slow.recv(100)
        yield server, slow


def test_a_server_that_takes_no_newcomers(
    dial: Dial, crowded: tuple[SshServer, socket.socket], impatient: None
) -> None:
    with refused("ssh.busy") as words:
        dial(hop_to(crowded[0], "user"))
    assert "too many logins" in words[0]


def test_a_crowd_at_the_door_is_waited_for(dial: Dial, crowded: tuple[SshServer, socket.socket]) -> None:
    server, slow = crowded
    before = server.said("drop connection")

    def make_room() -> None:
        while server.said("drop connection") == before:
            time.sleep(0.01)
        slow.close()

    helper = threading.Thread(target=make_room)
    helper.start()
    assert dial(hop_to(server, "user")).run("echo in").stdout == b"in\n"
    helper.join()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy servers are dialled again at once."""
    monkeypatch.setattr("clew_gui.ssh.errors.BUSY_PAUSES_S", (0.01, 0.01))


def test_the_hop_behind_has_the_same_password_asked_once_each(
    dial: Dial, known: SshServer, start: Callable[..., SshServer], files: SshFiles
) -> None:
    inner = start()
    trust(files, inner)
    person = well_informed()
    asker = AskOnce(person)
    outer = dial(hop_to(known), asker)
    outer.hop(hop_to(inner, name="node1")).close()
    outer.hop(hop_to(inner, name="node1")).close()
    assert [prompt.title for prompt in person.asked] == ["student@login", "student@node1"]
