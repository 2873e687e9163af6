"""known_hosts files, read line by line; OpenSSH's own ssh-keygen is the judge where it can be."""

from __future__ import annotations

import base64
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.ssh.host_keys import HostKey, HostKeyVerdict, check_host_key, keys_of, lookup_name, matches, read_known


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
