"""Is it the right server? Both implementations ask, refuse and remember alike."""

from __future__ import annotations

import stat
from collections.abc import Callable

import msgspec
import pytest

from clew_gui.ssh.connection import SshFiles
from clew_gui.ssh.prompts import NobodyToAsk, PromptKind
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.people import Person
from tests.integration.ssh.servers import School, SshServer
from tests.integration.ssh.test_contract import refused

pytestmark = pytest.mark.needs("sshd")


def test_an_unknown_server_is_asked_about_once(dial: Dial, server: SshServer, files: SshFiles) -> None:
    person = Person({PromptKind.CONFIRM: "yes"})
    dial(hop_to(server, "user"), person)
    dial(hop_to(server, "user"), person)
    assert person.kinds == [PromptKind.CONFIRM]
    assert server.fingerprint() in person.asked[0].details
    assert stat.S_IMODE(files.known_hosts.stat().st_mode) == 0o600


def test_the_fingerprint_itself_is_a_yes(dial: Dial, server: SshServer) -> None:
    dial(hop_to(server, "user"), Person({PromptKind.CONFIRM: server.fingerprint()}))


@pytest.mark.parametrize("answer", ["no", "", "SHA256:other"])
def test_no_is_no(dial: Dial, server: SshServer, files: SshFiles, answer: str) -> None:
    before = server.said("Accepted")
    with refused("ssh.hostkey.refused") as words:
        dial(hop_to(server, "user"), Person({PromptKind.CONFIRM: answer}))
    assert server.fingerprint() in words[0]
    assert not files.known_hosts.exists() or not files.known_hosts.read_text()
    assert server.said("Accepted") == before


def test_nobody_there_to_compare_it(dial: Dial, server: SshServer) -> None:
    with refused("ssh.noprompt"):
        dial(hop_to(server, "user"), NobodyToAsk())


def test_the_sites_fingerprints_are_a_hint_and_no_trust(dial: Dial, server: SshServer) -> None:
    hop = msgspec.structs.replace(hop_to(server, "user"), fingerprints=(server.fingerprint(),))
    person = Person({PromptKind.CONFIRM: "no"})
    with refused("ssh.hostkey.refused"):
        dial(hop, person)
    assert "one of the fingerprints" in person.asked[0].details[-1]


def test_another_key_than_before_is_refused_and_nothing_sent(dial: Dial, server: SshServer, files: SshFiles) -> None:
    files.known_hosts.write_text(server.known_line("host_other"))
    log = len(server.log.read_text())
    person = Person({})
    with refused("ssh.hostkey.changed") as words:
        dial(hop_to(server, "user"), person)
    assert server.fingerprint() in words[0]
    assert server.fingerprint("host_other") in words[0]
    assert "known_hosts:1" in words[0]
    assert not person.asked
    assert "student" not in server.log.read_text()[log:]


def test_a_server_with_two_keys_is_asked_for_the_one_that_is_known(
    dial: Dial, start: Callable[..., SshServer], files: SshFiles, school: School
) -> None:
    server = start(f"HostKey {school.key('host_ed25519')}", host_key="host_rsa")
    trust(files, server)
    dial(hop_to(server, "user"), Person({}))


def test_a_revoked_key_is_refused(dial: Dial, server: SshServer, files: SshFiles) -> None:
    files.known_hosts.write_text("@revoked " + server.known_line())
    with refused("ssh.hostkey.revoked"):
        dial(hop_to(server, "user"), Person({PromptKind.CONFIRM: "yes"}))


def test_lines_that_nobody_can_read_do_no_harm(dial: Dial, server: SshServer, files: SshFiles) -> None:
    other = server.known_line("host_other").split(" ", 1)[1]
    files.known_hosts.write_text(
        f"# a comment\n\nrubbish\n@cert-authority *.example.org {other}@revoked elsewhere {other}"
        f"host ssh-new AAAA\nhost ssh-rsa not/base64!\n@unknown x y z\n{server.known_line()}"
    )
    dial(hop_to(server, "user"), Person({}))


def test_a_hashed_name_is_known(dial: Dial, server: SshServer, files: SshFiles) -> None:
    import subprocess

    trust(files, server)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(files.known_hosts)], check=True, capture_output=True)
    assert "127.0.0.1" not in files.known_hosts.read_text()
    dial(hop_to(server, "user"), Person({}))


def test_an_alias_stands_for_a_node_whose_name_changes(dial: Dial, server: SshServer, files: SshFiles) -> None:
    hop = msgspec.structs.replace(hop_to(server, "user"), host_key_alias="nodes.cluster")
    dial(hop, Person({PromptKind.CONFIRM: "yes"}))
    assert files.known_hosts.read_text().startswith("nodes.cluster ssh-ed25519 ")
    dial(hop, Person({}))
