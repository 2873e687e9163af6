"""The terminal of a program on this computer."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from clew_gui.ssh.connection import Size
from clew_gui.ssh.terminals import ProcessTerminal

LATE = """
import os, signal, sys, time, tty

print("ready", flush=True)
time.sleep(0.3)
signal.signal(signal.SIGWINCH, lambda *_: print(os.get_terminal_size(), flush=True))
tty.setraw(0)
print(os.read(0, 1), flush=True)
"""
"""Like ``ssh`` behind a master: the command's first words may come before it listens to signals and makes its terminal
raw."""


def late() -> ProcessTerminal:
    terminal = ProcessTerminal([sys.executable, "-c", LATE], Size(columns=80, rows=24))
    said = b""
    while not said.endswith(b"\n"):
        said += terminal.recv(4096)
    return terminal


@pytest.mark.unix("a pseudo-terminal")
def test_a_size_that_changes_before_the_program_listens_arrives() -> None:
    with closing(late()) as terminal:
        terminal.resize(Size(columns=120, rows=50))
        terminal.send(b"x")
        assert terminal.exit_status(20.0) == 0
        assert b"columns=120, lines=50" in terminal.recv(4096)


@pytest.mark.unix("a pseudo-terminal")
def test_a_key_that_is_typed_before_the_terminal_is_raw_arrives_as_it_is() -> None:
    with closing(late()) as terminal:
        terminal.send(b"\x03")
        assert terminal.exit_status(20.0) == 0
        assert b"\\x03" in terminal.recv(4096)
