"""The user's SSH configuration: hosts that are offered, and the same answers with and without OpenSSH."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.ssh.config import SshHost, look_up, offered_hosts, parse_line, parse_ssh_g, resolve

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


def no_ssh(command: object) -> None:
    """As on a computer without OpenSSH."""


def test_hosts_are_offered_with_those_of_included_files_and_never_patterns(config: Path) -> None:
    assert offered_hosts(config) == ("other", "login", "cluster")
    assert offered_hosts(config.parent / "absent") == ()


def test_the_first_value_counts_and_keys_add_up(config: Path) -> None:
    assert resolve("login", config, no_ssh) == SshHost(
        name="login",
        host="login.example.org",
        user="student",
        port=2222,
        keys=("~/.ssh/id_course", "~/.ssh/id with blank"),
        identities_only=True,
        jump=("me@gate:2200", "second"),
    )
    node = resolve("node7", config, no_ssh)
    assert (node.user, node.proxy_command, node.host_key_alias) == ("everybody", "ssh -W %h:%p login", "nodes")
    assert resolve("unheard-of", config, no_ssh).user == "everybody"


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


def test_a_name_that_is_no_host_is_not_given_to_ssh() -> None:
    def must_not_run(command: object) -> str:
        raise AssertionError(command)

    assert resolve("-oProxyCommand=touch x", None, must_not_run).host == "-oProxyCommand=touch x"


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


def test_files_that_include_each_other_come_to_an_end(config: Path) -> None:
    (config.parent / "conf.d" / "a.conf").write_text(f"Include {config}\nHost inner\n")
    assert "inner" in offered_hosts(config)


@given(st.text(max_size=80))
def test_any_line_is_read_or_passed_over(line: str) -> None:
    parse_line(line)
    parse_ssh_g("x", line)


def test_odd_lines() -> None:
    assert parse_line("  Port=22 ").arguments == ("22",)  # type: ignore[union-attr]
    assert parse_line('IdentityFile "open') is None
    assert parse_line("#x") is None
