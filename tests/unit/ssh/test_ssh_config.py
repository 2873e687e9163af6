"""The user's SSH configuration: hosts that are offered, and the same answers with and without OpenSSH."""

from __future__ import annotations

import getpass
import os
import socket
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from clew_gui.sites.hops import way_to
from clew_gui.sites.site import Site
from clew_gui.ssh.config import SshHost, look_up, offered_hosts, parse_line, resolve
from clew_gui.ssh.connection import Hop
from clew_gui.ssh.proxy_command import ProxyCommand

CONFIG = """\
# the course
Include conf.d/*.conf
Host login cluster !bad *.example.org
    HostName login.example.org
    User=student
    Port = 2222
    IdentityFile ~/.ssh/id_course
    IdentityFile "~/.ssh/id with blank"
    ProxyJump me@gate:2200,second
    IdentitiesOnly yes

Match exec "false"
    User nobody

Host node?
    ProxyCommand ssh -W %h:%p login
    HostKeyAlias nodes

Host *
    User everybody
    ServerAliveInterval 30
"""
INCLUDED = "Host other 'quoted name'\n  HostName 10.0.0.7\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "a.conf").write_text(INCLUDED)
    path = tmp_path / "config"
    path.write_text(CONFIG)
    path.chmod(0o600)
    return path


def test_hosts_are_offered_with_those_of_included_files_and_never_patterns(config: Path) -> None:
    assert offered_hosts(config) == ("other", "login", "cluster")
    assert offered_hosts(config.parent / "absent") == ()


def test_the_first_value_counts_and_keys_add_up(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_gui.ssh.config.run_ssh", lambda _: None)  # as without OpenSSH
    assert resolve("login", config) == SshHost(
        name="login",
        host="login.example.org",
        user="student",
        port=2222,
        keys=("~/.ssh/id_course", "~/.ssh/id with blank"),
        identities_only=True,
        jump=("me@gate:2200", "second"),
        unsupported=f'{config} has `Match exec "false"`, which only ssh itself can judge',
    )
    node = resolve("node7", config)
    assert (node.user, node.proxy_command, node.host_key_alias) == ("everybody", "ssh -W %h:%p login", "nodes")
    assert resolve("unheard-of", config).user == "everybody"


@pytest.mark.needs("ssh")
@pytest.mark.parametrize("name", ["login", "cluster", "bad.example.org", "node7", "other", "unheard-of"])
def test_ssh_itself_says_the_same(config: Path, name: str) -> None:
    text = CONFIG.replace("Include conf.d/*.conf", f"Include {config.parent}/conf.d/a.conf")
    config.write_text(text)  # with -F, ssh looks for relative names in ~/.ssh
    (config.parent / "conf.d" / "a.conf").write_text("Host other\n  HostName 10.0.0.7\n")
    ours, theirs = look_up(name, config), resolve(name, config)
    for field in ("host", "port", "jump", "proxy_command", "user", "identities_only", "host_key_alias"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert [Path(key).name for key in ours.keys] == [Path(key).name for key in theirs.keys][: len(ours.keys)]


@pytest.mark.needs("ssh")
def test_ssh_itself_is_asked_first(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text('Match host login exec "true"\n  User knows-exec\nHost *\n  User reads-lines\n')
    config.chmod(0o600)
    assert (resolve("login", config).user, look_up("login", config).user) == ("knows-exec", "reads-lines")


def test_a_name_that_is_no_host_is_not_given_to_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew_gui.ssh.config.run_ssh", pytest.fail)
    assert resolve("-oProxyCommand=touch x").host == "-oProxyCommand=touch x"


def test_an_include_in_a_host_acts_for_that_host_alone_and_ends_with_its_file(config: Path) -> None:
    part = config.parent / "conf.d" / "a.conf"
    part.write_text("User inner\nHost nobody\n  Port 7\nHost *\n  HostKeyAlias deep\n")
    config.write_text(f"Host one\n  Include {part}\n  Port 99\nHost *\n  User outer\n")
    assert (look_up("one", config).user, look_up("one", config).port, look_up("one", config).host_key_alias) == (
        "inner",
        99,
        "deep",
    )
    assert (look_up("two", config).user, look_up("two", config).host_key_alias) == ("outer", "")


@pytest.mark.unix("a FIFO")
def test_an_included_fifo_is_not_waited_for(config: Path) -> None:
    os.mkfifo(config.parent / "conf.d" / "b.conf")
    config.write_text("Include conf.d/*.conf\nHost after\n")
    assert "after" in offered_hosts(config)


def test_files_that_include_each_other_come_to_an_end(config: Path) -> None:
    (config.parent / "conf.d" / "a.conf").write_text(f"Include {config}\nHost inner\n")
    assert "inner" in offered_hosts(config)


def test_odd_lines() -> None:
    assert parse_line("  Port=22 ").arguments == ("22",)  # type: ignore[union-attr]
    assert parse_line('IdentityFile "open') is None
    assert parse_line("#x") is None


def read(tmp_path: Path, text: str, name: str = "login") -> SshHost:
    config = tmp_path / "config"
    config.write_text(text)
    config.chmod(0o600)
    return look_up(name, config)


@pytest.mark.parametrize("by_ssh", [False, pytest.param(True, marks=pytest.mark.needs("ssh"))])
def test_tokens_and_variables_in_names_of_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_ssh: bool
) -> None:
    monkeypatch.setenv("LAB", "course")
    text = (
        "Host tok\n HostName login.example.org\n User anna\n Port 2200\n IdentityFile %d/.ssh/keys/id_%r_%n_%p\n"
        " IdentityFile ~/${LAB}/%h%%\n CertificateFile %d/%r.pub\n UserKnownHostsFile %d/known_%n\n"
        " IdentityFile /nowhere/${UNSET_HERE}\n GlobalKnownHostsFile /site/known_hosts\n"
    )
    ours = read(tmp_path, text, "tok")
    found = resolve("tok", tmp_path / "config") if by_ssh else ours
    home = str(Path.home())
    keys = [key.replace("~", home) for key in found.keys if "UNSET" not in key]
    assert keys == [f"{home}/.ssh/keys/id_anna_tok_2200", f"{home}/course/login.example.org%"]
    assert found.certificates == (f"{home}/anna.pub",)
    assert [name.replace("~", home) for name in found.known_hosts[:1]] == [f"{home}/known_tok"]
    assert "/nowhere/${UNSET_HERE}" in ours.keys
    assert found.known_hosts[1:] == ("/site/known_hosts",)


@pytest.mark.needs("ssh")
@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("Host login\n ProxyCommand ssh -W %h:%p gate\nHost *\n ProxyJump other\n", "proxy_command"),
        ("Host login\n ProxyJump gate\nHost *\n ProxyCommand ssh -W %h:%p other\n", "jump"),
        ("Host login\n ProxyJump none\nHost *\n ProxyCommand nc %h %p\n", "jump"),
        ("Match host login\n User a\nMatch host other\n User b\n", "user"),
        ("Host login\n HostName in.example.org\nMatch host *.example.org user %u\n Port 99\n", "port"),
        ("Host login\n HostName in.example.org\nMatch originalhost log* host in.*\n Port 99\n", "port"),
        ("Match !host login\n User a\nHost *\n User b\n", "user"),
        ("Host login\n User anna\nMatch user anna\n Port 7\n", "port"),
        ("Match originalhost other,login\n Port 7 # a comment\n", "port"),
        ('Host login\n IdentityFile "/a b/#1" # mine\n', "keys"),
    ],
)
def test_without_ssh_the_answer_is_that_of_ssh(text: str, field: str, tmp_path: Path) -> None:
    text = text.replace("%u", getpass.getuser())
    ours, theirs = read(tmp_path, text), resolve("login", tmp_path / "config")
    for one in {field, "jump", "proxy_command"}:
        assert getattr(ours, one) == getattr(theirs, one), one
    assert ours.unsupported == ""


def test_brackets_in_a_pattern_are_letters_and_cost_no_more(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host log[i]n\n  User odd\nHost " + "[" * 100_000 + "\n  User never\nHost *\n  User usual\n")
    assert look_up("login", path).user == "usual"
    assert look_up("log[i]n", path).user == "odd"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('Match exec "true"\n User anna\n', 'has `Match exec "true"`, which only ssh itself can judge'),
        ("Match host log* localnetwork 10.0.0.0/8\n ProxyJump gate\n", "localnetwork"),
        ("Match final\n IdentityFile ~/.ssh/other\n", "Match final"),
        ("CanonicalizeHostname yes\n", "has `CanonicalizeHostname yes`"),
        ("CanonicalizeHostname no\n", ""),
        ("Host login\n PKCS11Provider /usr/lib/opensc.so\n", "sets pkcs11provider"),
        ("Host *\n BindAddress 10.0.0.1\n", "sets bindaddress 10.0.0.1"),
        ('Match exec "true"\n ServerAliveInterval 3\n', ""),
        ("Host *\n AddressFamily any\n IdentityAgent SSH_AUTH_SOCK\n", ""),
    ],
)
def test_what_only_ssh_can_do_or_judge_is_named(text: str, reason: str, tmp_path: Path) -> None:
    found = read(tmp_path, text).unsupported
    assert reason in found
    assert bool(found) == bool(reason)


@pytest.mark.needs("ssh")
def test_the_defaults_of_ssh_ask_for_nothing_that_only_ssh_can_do(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("Host login\n User anna\n")
    assert resolve("login", tmp_path / "config").unsupported == ""
    (tmp_path / "config").write_text("Host login\n PKCS11Provider /usr/lib/opensc.so\n")
    assert "pkcs11provider /usr/lib/opensc.so" in resolve("login", tmp_path / "config").unsupported


@pytest.mark.unix("sockets in the file system")
@pytest.mark.parametrize("by_ssh", [False, pytest.param(True, marks=pytest.mark.needs("ssh"))])
@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("~/%n.sock", "~/login.sock"),
        ("none", "none"),
        ("SSH_AUTH_SOCK", ""),
        ("$AGENT_OF_TEST", "/run/agent"),
        ("", ""),
    ],
)
def test_an_agent_that_the_configuration_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, address: str, by_ssh: bool
) -> None:
    monkeypatch.setenv("AGENT_OF_TEST", "/run/agent")
    ours = read(tmp_path, f"Host login\n IdentityAgent {value}\n" if value else "Host login\n")
    found = resolve("login", tmp_path / "config") if by_ssh else ours
    assert found.agent.replace(str(Path.home()), "~") == address
    assert not found.unsupported


def test_what_clew_does_not_do_reaches_the_hop_and_a_missing_key_is_named(tmp_path: Path) -> None:
    entry = SshHost(name="login", keys=(str(tmp_path / "gone"), "~/.ssh/id_rsa"), unsupported="the file says so")
    (hop,) = way_to(Site(host="login"), lambda _: entry)
    assert (hop.keys, hop.missing_keys, hop.unsupported) == ((), (str(tmp_path / "gone"),), "the file says so")


def test_an_account_without_a_name_is_told_that_its_configuration_was_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nobody)
    path = tmp_path / "config"
    path.write_text("Match user student\n  Port 99\nHost lab\n  User student\n  IdentityFile /keys/%u%h\n")
    found = look_up("lab", path)
    assert (found.host, found.user) == ("lab", "")
    assert "this account has no name" in found.unsupported


# --- A ProxyCommand as a socket, with programs that any system has ----------------------------------------------------

ECHO = """
import sys
while data := sys.stdin.buffer.raw.read(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
print("end of", *sys.argv[1:])
"""
"""Sends back what it gets, and when that has ended its arguments."""


def through(path: Path, text: str, *arguments: str) -> ProxyCommand:
    path.write_text(text)
    command = subprocess.list2cmdline([sys.executable, str(path), *arguments])
    return ProxyCommand(Hop(host="10.0.0.7", port=2222, user="anna", name="lab", proxy_command=command))


def test_bytes_go_both_ways_and_one_end_may_close_first(tmp_path: Path) -> None:
    with closing(through(tmp_path / "echo.py", ECHO, "%r@%h:%p", "%n", "100%%")) as sock:
        data = bytes(range(256)) * 20_000

        def send() -> None:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        got = b"".join(iter(lambda: sock.recv(65536), b""))
        sender.join()
    assert got[: len(data)] == data
    assert got[len(data) :].split() == b"end of anna@10.0.0.7:2222 lab 100%".split()


def test_closing_it_ends_the_command_and_what_that_has_started(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])"
    sock = through(tmp_path / "lingers.py", f"{child}; print('on', flush=True); time.sleep(1000)")
    assert sock.recv(2) == b"on"
    started = psutil.Process(sock._process.pid).children(recursive=True)
    assert started
    sock.close()
    assert not psutil.wait_procs(started, 20.0)[1]


@pytest.mark.parametrize("words", ["no route to lab", ""])
def test_one_that_ends_is_an_end_and_has_its_last_words(tmp_path: Path, words: str) -> None:
    sock = through(tmp_path / "fails.py", f"import sys; sys.exit('first\\n' + {words!r} if {words!r} else 1)")
    assert sock.recv(10) == b""
    sock.close()
    sock.close()
    assert sock.words == words
