"""Is it the right server? What is asked, refused and remembered."""

from __future__ import annotations

import base64
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from clew_gui.ssh.connection import SshFiles
from clew_gui.ssh.dial import dial as dial_as_wanted
from clew_gui.ssh.host_keys import vouches
from clew_gui.ssh.prompts import AskOnce, NobodyToAsk, PromptKind
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


def certified(school: School, tmp_path: Path, *extra: str, key: str = "host_ed25519") -> tuple[str, str]:
    """The option of a server with a certificate for its usual key, and the authority's key as a line has it."""
    authority, public = tmp_path / "ca", tmp_path / "host.pub"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(authority)], check=True)
    public.write_text(Path(f"{school.key(key)}.pub").read_text())
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-h", "-I", "host", *(extra or _FOR_IT), str(public)]
    subprocess.run(sign, check=True)
    return f"HostCertificate {tmp_path / 'host-cert.pub'}", " ".join(
        authority.with_suffix(".pub").read_text().split()[:2]
    )


_FOR_IT = ("-n", "127.0.0.1")


@pytest.mark.parametrize(
    ("names", "before", "key"),
    [
        ("127.0.0.1", "", "host_ed25519"),
        ("*", "", "host_rsa"),
        ("[127.0.0.1]:*", "", "host_ecdsa"),
        ("*", "host_other", "host_ed25519"),
    ],
)
def test_a_server_with_an_authority_is_known_as_ssh_knows_it(
    start: Callable[..., SshServer],
    files: SshFiles,
    school: School,
    tmp_path: Path,
    names: str,
    before: str,
    key: str,
) -> None:
    """Also after its own key has changed."""
    if not Path(school.key(key)).exists():
        school.make_key(key, "ecdsa")
    option, authority = certified(school, tmp_path, key=key)
    server = start(option, host_key=key)
    known = server.known_line(before) if before else ""
    files.known_hosts.write_text(f"{known}@cert-authority {names} {authority}\n")
    person = Person({})
    connection = dial_as_wanted([hop_to(server, "user")], AskOnce(person), files)
    assert connection.run("id -un").stdout == b"student\n"
    assert connection.passed == (("student@login", f"key {school.key('user')}"),)
    connection.close()


STRANGE = {
    "its time is over": (*_FOR_IT, "-V", "20200101:20200102"),
    "its time has not come": (*_FOR_IT, "-V", "20990101:20990102"),
    "it is another server's": ("-n", "login.example.org"),
    "it has a condition": (*_FOR_IT, "-O", "critical:unheard-of@example.org=1"),
}


@pytest.mark.parametrize("strange", [*STRANGE, "its authority is another one", "its authority is revoked"])
def test_a_certificate_that_is_not_valid_vouches_for_nothing(
    start: Callable[..., SshServer], files: SshFiles, school: School, tmp_path: Path, strange: str
) -> None:
    option, authority = certified(school, tmp_path, *STRANGE.get(strange, ()))
    server = start(option)
    if strange == "its authority is another one":
        authority = Path(f"{school.key('second')}.pub").read_text().strip()
    revoked = f"@revoked * {authority}\n" if strange == "its authority is revoked" else ""
    files.known_hosts.write_text(f"{revoked}@cert-authority * {authority}\n")
    person = Person({PromptKind.CONFIRM: "no"})
    with refused("ssh.hostkey.refused"):
        dial_as_wanted([hop_to(server, "user")], AskOnce(person), files)
    assert server.fingerprint() in person.asked[0].details
    shows_none = any("shows no valid certificate" in line for line in person.asked[0].details)
    assert shows_none is (strange != "its authority is revoked")


def test_a_users_certificate_and_one_signed_with_sha1_are_none_of_a_server(
    start: Callable[..., SshServer], files: SshFiles, school: School, tmp_path: Path
) -> None:
    """``ssh-keygen`` makes them, and sshd would not show them; the check itself must refuse them."""
    authority, public = tmp_path / "ca", tmp_path / "host.pub"
    subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", str(authority)], check=True)
    public.write_text(Path(f"{school.key('host_ed25519')}.pub").read_text())
    signer = base64.b64decode(authority.with_suffix(".pub").read_text().split()[1])
    found = {}
    for kind, extra in (("host", ["-h"]), ("user", []), ("SHA-1", ["-h", "-t", "ssh-rsa"])):
        sign = ["ssh-keygen", "-q", "-s", str(authority), *extra, "-I", "x", "-n", "login", str(public)]
        subprocess.run(sign, check=True)
        blob = base64.b64decode((tmp_path / "host-cert.pub").read_text().split()[1])
        found[kind] = vouches([signer], blob, "login")
        assert not vouches([signer], blob[:-1] + bytes([blob[-1] ^ 1]), "login"), "its signature is another one"
    assert found == {"host": True, "user": False, "SHA-1": False}


def test_a_key_that_is_known_without_a_port_is_known_at_each(dial: Dial, server: SshServer, files: SshFiles) -> None:
    """As in OpenSSH; another key without a port says nothing about a server at another one."""
    own, other = (
        server.known_line(key).replace(f"[127.0.0.1]:{server.port}", "127.0.0.1") for key in ("", "host_other")
    )
    files.known_hosts.write_text(own)
    dial(hop_to(server, "user"), Person({}))
    files.known_hosts.write_text(other)
    person = Person({PromptKind.CONFIRM: "yes"})
    dial(hop_to(server, "user"), person)
    assert person.kinds == [PromptKind.CONFIRM]


def test_a_hashed_name_is_known(dial: Dial, server: SshServer, files: SshFiles) -> None:
    trust(files, server)
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(files.known_hosts)], check=True, capture_output=True)
    assert "127.0.0.1" not in files.known_hosts.read_text()
    dial(hop_to(server, "user"), Person({}))


def test_an_alias_stands_for_a_node_whose_name_changes(dial: Dial, server: SshServer, files: SshFiles) -> None:
    hop = msgspec.structs.replace(hop_to(server, "user"), host_key_alias="nodes.cluster")
    dial(hop, Person({PromptKind.CONFIRM: "yes"}))
    assert files.known_hosts.read_text().startswith("nodes.cluster ssh-ed25519 ")
    dial(hop, Person({}))
