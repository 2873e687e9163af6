"""A terminal over there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from threading import Timer

import pytest

from clew_gui.ssh.connection import UNKNOWN, Connection, Size, SshFiles, Terminal
from clew_shared.base.problem import ProblemError
from tests.integration.ssh.conftest import Dial, hop_to, trust
from tests.integration.ssh.servers import School, SshServer

pytestmark = pytest.mark.needs("sshd")
SIZE = Size(columns=91, rows=33)
WAIT_S = 20.0
PATIENCE_S = 120.0


def until(terminal: Terminal, words: bytes) -> bytes:
    """What it prints up to these words."""
    seen = b""
    with patience(terminal):
        while words not in seen:
            data = terminal.recv(4096)
            assert data, f"it ended without {words!r}: {seen!r}"
            seen += data
    return seen


def rest(terminal: Terminal) -> bytes:
    with patience(terminal):
        return b"".join(iter(lambda: terminal.recv(4096), b""))


@contextmanager
def patience(terminal: Terminal) -> Iterator[None]:
    """Close what says nothing for too long: reading from it then ends, and the test fails with what was read."""
    timer = Timer(PATIENCE_S, terminal.close)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.fixture
def opened(connection: Connection) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def make(command: str, size: Size | None = SIZE) -> Terminal:
        made.append(connection.terminal(command, "xterm-256color", size))
        return made[-1]

    yield make
    for one in made:
        one.close()
        one.close()


def test_a_command_sits_before_a_screen_of_this_size(opened: Callable[..., Terminal]) -> None:
    terminal = opened("tty; stty size; echo $TERM; exit 7")
    shown = rest(terminal).split()
    assert shown[0].startswith(b"/dev/pts/")
    assert shown[1:] == [b"33", b"91", b"xterm-256color"]
    assert terminal.exit_status(WAIT_S) == 7


def test_the_window_changes_its_size(opened: Callable[..., Terminal]) -> None:
    terminal = opened("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done")
    until(terminal, b"ready")
    terminal.resize(Size(columns=120, rows=50))
    assert b"50 120" in until(terminal, b"120")
    rest(terminal)
    assert terminal.exit_status(WAIT_S) == 0


def test_keys_are_typed_and_ctrl_c_reaches_the_command(opened: Callable[..., Terminal]) -> None:
    terminal = opened("trap 'echo caught; exit 5' INT; read line; echo got $line; while :; do sleep 0.05; done")
    terminal.send(b"hello\r")
    until(terminal, b"got hello")
    terminal.send(b"\x03")
    until(terminal, b"caught")
    rest(terminal)
    assert terminal.exit_status(WAIT_S) == 5


def test_what_the_login_shell_prints_is_shown(opened: Callable[..., Terminal], school: School) -> None:
    (school.home / ".bashrc").write_text("echo Welcome\n")
    shown = rest(opened("echo 'it is' on!"))
    # what comes before ssh has made its terminal raw gets a second return, which no screen shows
    assert shown.replace(b"\r\r\n", b"\r\n") == b"Welcome\r\nit is on!\r\n"


def test_without_a_screen_bytes_pass_unchanged_and_both_outputs_are_one(opened: Callable[..., Terminal]) -> None:
    terminal = opened("tty; cat; echo also >&2; exit 3", None)
    terminal.send(b"a\nb\x00c\x03")
    terminal.end()
    assert rest(terminal) == b"not a tty\na\nb\x00c\x03also\n"
    assert terminal.exit_status(WAIT_S) == 3


def test_closing_it_ends_the_command(opened: Callable[..., Terminal], school: School, connection: Connection) -> None:
    terminal = opened("trap 'echo over >~/end; exit' HUP; echo ready; while :; do sleep 0.05; done")
    until(terminal, b"ready")
    terminal.close()
    done = connection.run("until [ -s ~/end ]; do sleep 0.05; done; cat ~/end", timeout=WAIT_S)
    assert done.stdout == b"over\n"


def test_a_link_that_dies_ends_the_terminal(dial: Dial, start: Callable[..., SshServer], files: SshFiles) -> None:
    server = start()
    trust(files, server)
    connection = dial(hop_to(server, "user"))
    with closing(connection.terminal("echo ready; sleep 100", "xterm", SIZE)) as terminal:
        until(terminal, b"ready")
        server.kill_sessions()
        try:
            rest(terminal)
        except ProblemError as error:
            assert error.problems[0].code == "ssh.lost"
        assert terminal.exit_status(WAIT_S) == UNKNOWN
