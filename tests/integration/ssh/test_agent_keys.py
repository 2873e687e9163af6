"""The keys of ssh-agent: which are offered, in which order, and that a full agent closes no door."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from clew_gui.ssh.connection import SshFiles
from clew_gui.ssh.keys import MOST_KEYS
from clew_gui.ssh.prompts import AskOnce, NobodyToAsk, PromptKind
from tests.integration.ssh.conftest import Dial, dial_by, hop_to, trust
from tests.integration.ssh.people import Agent, Person, SecurityKeyAgent, well_informed
from tests.integration.ssh.servers import PASSPHRASE, PASSWORD, USER, School, SshServer
from tests.integration.ssh.test_contract import refused

pytestmark = pytest.mark.needs("sshd")

AGENT_KEYS = tuple(f"agent{number}" for number in range(9))


@pytest.fixture
def known(server: SshServer, files: SshFiles) -> SshServer:
    """The usual server, whose key is known."""
    trust(files, server)
    return server


def test_a_key_of_the_agent_needs_no_file(dial: Dial, known: SshServer, agent: Callable[..., Agent]) -> None:
    agent(known.school.key("user"))
    person = Person({})
    dial(hop_to(known), person)
    assert not person.asked


def test_an_agent_that_the_configuration_names_is_asked_instead_of_the_usual_one(
    dial: Dial, known: SshServer, agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent(known.school.key("user"))
    address = os.environ["SSH_AUTH_SOCK"]
    monkeypatch.setenv("SSH_AUTH_SOCK", "/nowhere")
    dial(replace(hop_to(known), agent=address), Person({}))
    monkeypatch.setenv("SSH_AUTH_SOCK", address)
    with refused("ssh.noprompt"):
        dial(replace(hop_to(known), agent="none"), NobodyToAsk())


def test_the_agent_signs_for_a_locked_key(
    dial: Dial, known: SshServer, agent: Callable[..., Agent], school: School, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    shutil.copy(school.keys / "locked", opened)
    change = ["ssh-keygen", "-q", "-p", "-P", PASSPHRASE, "-N", "", "-f", str(opened)]
    subprocess.run(change, check=True, capture_output=True)
    agent(str(opened))
    person = Person({})
    dial(hop_to(known, "locked"), person)
    assert not person.asked


def test_a_public_key_stands_for_the_one_in_the_agent(
    dial: Dial, known: SshServer, agent: Callable[..., Agent], school: School
) -> None:
    agent(*map(school.key, AGENT_KEYS), school.key("user"))
    before = known.said("Failed publickey")
    dial(hop_to(known, "user.pub"), Person({}))
    assert known.said("Failed publickey") == before


@pytest.mark.parametrize("named", [False, True])
def test_a_security_key_signs_through_the_agent(
    dial: Dial, known: SshServer, files: SshFiles, school: School, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    address = files.runtime / "agent"
    with closing(SecurityKeyAgent(address)) as agent:
        monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
        (school.keys / "yubi.pub").write_text(agent.public)
        school.allow("yubi")
        connection = dial(hop_to(known, *(["yubi.pub"] if named else [])), Person({}))
        assert connection.run("id -un").stdout == b"student\n"
        connection.close()


def connections(server: SshServer) -> int:
    """How many there were in which somebody tried to log in."""
    return len(set(re.findall(rf"for {USER} from 127\.0\.0\.1 port (\d+)", server.log.read_text())))


@pytest.fixture
def usual(start: Callable[..., SshServer], files: SshFiles, agent: Callable[..., Agent], school: School) -> SshServer:
    """A server that hangs up after six refusals, as most do, and an agent with nine wrong keys."""
    agent(*map(school.key, AGENT_KEYS))
    server = start()
    trust(files, server)
    return server


def test_nine_keys_of_the_agent_leave_room_for_a_password_and_a_mistake(dial: Dial, usual: SshServer) -> None:
    answers = iter(["wrong", PASSWORD])
    person = Person({PromptKind.PASSWORD: lambda: next(answers)})
    assert dial(hop_to(usual), person).run("echo in").stdout == b"in\n"
    assert person.kinds == [PromptKind.PASSWORD] * 2
    assert usual.said("Failed publickey") == MOST_KEYS
    assert not usual.said("Too many authentication")
    assert connections(usual) == 1


def test_nine_keys_of_the_agent_leave_room_for_the_files_with_the_usual_names(
    way: str, usual: SshServer, files: SshFiles, school: School
) -> None:
    """The one that the agent holds as well is among those of the agent; the one that fits comes last."""
    keys = tuple(school.keys / name for name in ("agent8", "second", "user"))
    person = Person({})
    connection = dial_by(way, hop_to(usual), replace(files, default_keys=keys), AskOnce(person))
    connection.close()
    assert not person.asked
    assert not usual.said("Too many authentication")
    assert connections(usual) == 1
    known = subprocess.run(["ssh-keygen", "-lf", f"{keys[0]}.pub"], capture_output=True, text=True, check=True)
    assert usual.said(f"ED25519 {known.stdout.split()[1]}")


def test_two_keys_of_one_comment_are_two_keys(
    dial: Dial, known: SshServer, agent: Callable[..., Agent], school: School
) -> None:
    agent(school.key("twin0"), school.key("twin1"))
    school.allow("twin1")
    person = Person({})
    dial(hop_to(known), person)
    assert not person.asked


def test_where_nothing_but_keys_counts_more_of_the_agent_are_offered(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles, agent: Callable[..., Agent], school: School
) -> None:
    agent(*map(school.key, AGENT_KEYS[:5]), school.key("user"))
    server = start("AuthenticationMethods publickey")
    trust(files, server)
    person = Person({})
    dial(hop_to(server), person)
    assert not person.asked


@pytest.mark.parametrize(("patience", "left"), [(6, ""), (1, "not 5 more of the agent")])
def test_keys_that_were_not_offered_are_counted(
    dial: Dial,
    start: Callable[..., SshServer],
    files: SshFiles,
    agent: Callable[..., Agent],
    school: School,
    patience: int,
    left: str,
) -> None:
    agent(*map(school.key, AGENT_KEYS))
    server = start(f"AuthenticationMethods publickey\nMaxAuthTries {patience}")
    trust(files, server)
    with refused("ssh.auth") as words:
        dial(hop_to(server), Person({}))
    assert left in words[0]
    assert ("more of the agent" in words[0]) == bool(left)


@pytest.fixture
def strict(start: Callable[..., SshServer], files: SshFiles, agent: Callable[..., Agent], school: School) -> SshServer:
    """A server that hangs up after two wrong keys, and an agent with nine of them."""
    agent(*map(school.key, AGENT_KEYS))
    server = start("MaxAuthTries 2")
    trust(files, server)
    return server


def test_the_key_asked_for_comes_before_those_of_the_agent(dial: Dial, strict: SshServer) -> None:
    dial(hop_to(strict, "user"), Person({}))
    assert not strict.said("Failed publickey")


def test_a_full_agent_does_not_close_the_door_for_a_password(dial: Dial, strict: SshServer) -> None:
    person = well_informed()
    dial(hop_to(strict), person)
    assert person.kinds == [PromptKind.PASSWORD]


def test_an_agent_that_never_answers_is_passed_over(
    dial: Dial, known: SshServer, files: SshFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clew_gui.ssh.keys._AGENT_S", 0.2)
    address = files.runtime / "agent"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(address))
        silent.listen(1)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
        dial(hop_to(known, "user"), Person({}))
