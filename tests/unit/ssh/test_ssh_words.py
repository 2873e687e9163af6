"""The marks around a command's output; key files; ways to a site."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew_gui.sites.hops import named_keys, way_to
from clew_gui.sites.site import Site
from clew_gui.ssh.config import SshHost
from clew_gui.ssh.connection import Hop, after_mark, marked, new_mark, skip_noise, unmarked
from clew_gui.ssh.keys import describe_key
from clew_shared.base.problem import ProblemError

# --- Marks ---


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
@settings(max_examples=40)
def test_any_command_arrives_as_it_is(word: str) -> None:
    mark = new_mark()
    for shell in filter(shutil.which, ("bash", "sh", "csh", "tcsh", "zsh", "fish")):
        done = subprocess.run([shell, "-c", marked(["printf", "%s", word], mark)], capture_output=True, check=True)
        assert unmarked(0, done.stdout, done.stderr, mark, "t").stdout == word.encode()


@pytest.mark.unix("a shell of a site")
def test_a_line_keeps_its_meaning() -> None:
    mark = new_mark()
    line = "for i in 1 2; do\n  echo $i!\ndone; exit 4"
    done = subprocess.run(["sh", "-c", marked(line, mark)], capture_output=True, check=False)
    assert done.returncode == 4
    assert after_mark(done.stdout, mark) == b"1!\n2!\n"


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 7))
def test_noise_is_skipped_however_it_is_cut(noise: bytes, rest: bytes, size: int) -> None:
    mark = new_mark()
    whole = noise + mark + rest
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    begun = skip_noise(lambda _: parts.pop(0) if parts else b"", mark, "t")
    assert begun + b"".join(parts) == rest


def test_noise_without_an_end_is_given_up() -> None:
    with pytest.raises(ProblemError) as caught:
        skip_noise(lambda size: b"x" * size, new_mark(), "student@login")
    assert caught.value.problems[0].code == "ssh.shell"


# --- Key files ---


@pytest.mark.unix("ssh-keygen")
@pytest.mark.parametrize(
    ("kind", "more", "key_type"),
    [
        ("ed25519", [], "ssh-ed25519"),
        ("ecdsa", [], "ecdsa-sha2-nistp256"),
        ("ecdsa", ["-b", "521"], "ecdsa-sha2-nistp521"),
        ("rsa", ["-b", "2048"], "ssh-rsa"),
        ("rsa", ["-b", "2048", "-m", "PEM"], ""),
    ],
)
@pytest.mark.parametrize("passphrase", ["", "battery-staple"])
def test_a_key_file_is_known_without_opening_it(
    tmp_path: Path, kind: str, more: list[str], key_type: str, passphrase: str
) -> None:
    path = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", kind, *more, "-N", passphrase, "-f", str(path)]
    subprocess.run(command, check=True)
    found = describe_key(path.read_bytes(), str(path))
    assert (found.type, found.encrypted) == (key_type, bool(passphrase))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("PuTTY-User-Key-File-2: ssh-rsa\n", "ssh.key.ppk"),
        ("ssh-ed25519 AAAA student\n", "ssh.key"),
        ("hello\n", "ssh.key"),
        ("", "ssh.key"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "ssh.key"),
    ],
)
def test_what_is_no_key_is_named(text: str, code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        describe_key(text.encode(), "/k")
    assert caught.value.problems[0].code == code


# --- The way to a site ---


def config(**entries: SshHost) -> dict[str, SshHost]:
    return entries


def test_a_site_alone_is_one_hop() -> None:
    site = Site(host="login", user="student", port=2222, key="/k", fingerprints=("SHA256:x",))
    (hop,) = way_to(site, lambda name: SshHost(name=name, host=name))
    assert hop == Hop(name="login", host="login", user="student", port=2222, keys=("/k",), fingerprints=("SHA256:x",))


def test_the_configuration_completes_it() -> None:
    entries = config(
        cluster=SshHost(name="cluster", host="login.example.org", user="u", port=23, jump=("me@gate:24", "inner")),
        gate=SshHost(name="gate", host="gate.example.org", jump=("outer",), proxy_command="nc"),
        inner=SshHost(name="inner", host="10.0.0.2", user="i"),
        outer=SshHost(name="outer", host="outer.example.org"),
    )
    hops = way_to(Site(host="cluster", user="student"), entries.__getitem__)
    assert [(hop.login, hop.host, hop.port) for hop in hops[1:]] == [
        ("me", "gate.example.org", 24),
        ("i", "10.0.0.2", 22),
        ("student", "login.example.org", 23),
    ]
    assert hops[0].host == "outer.example.org"
    assert not any(hop.proxy_command for hop in hops)


def test_a_circle_is_named() -> None:
    with pytest.raises(ProblemError) as caught:
        way_to(Site(host="a", jump=("b",)), lambda name: SshHost(name=name, host=name, jump=("b",)))
    assert caught.value.problems[0].code == "ssh.circle"


def test_hops_are_addresses_as_a_terminal_has_them() -> None:
    jump = ("ssh://u@site@gate:24", "me@[fd77::1]:2206", "fd77::2", "[fe80::1%eth0]", "%r@odd!")
    hops = way_to(Site(host="login", jump=jump), lambda name: SshHost(name=name))
    assert [(hop.user, hop.host, hop.port) for hop in hops[:-1]] == [
        ("u@site", "gate", 24),
        ("me", "fd77::1", 2206),
        ("", "fd77::2", 22),
        ("", "fe80::1%eth0", 22),
        ("", "%r@odd!", 22),
    ]


def test_keys_that_nobody_asked_for_are_no_named_keys(tmp_path: Path) -> None:
    mine = tmp_path / "id_course"
    mine.touch()
    assert named_keys(("~/.ssh/id_rsa", "~/.ssh/id_ecdsa", "~/.ssh/id_ed25519")) == ()
    assert named_keys((str(mine), str(tmp_path / "gone"))) == (str(mine),)
