"""Terminals on Linux and macOS: the one that the program belongs to, and those that it makes for others."""

from __future__ import annotations

import sys

assert sys.platform != "win32"  # noqa: S101  # for mypy, which reads no further for Windows

import errno
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from clew_shared.base.operating_system.posix import wait_within

RESIZED: signal.Signals | None = signal.SIGWINCH
"""The signal that says that the terminal has another size."""
TERMINAL = "/dev/tty"
"""The name under which any program finds the terminal that it belongs to."""


def has_terminal(device: str = TERMINAL) -> bool:
    """Whether this program belongs to a terminal, whatever its standard input and output are joined to."""
    try:
        with Path(device).open("rb", buffering=0):
            return True
    except OSError:
        return False


def ask_on_terminal(device: str, question: str, echo: bool, within_s: float) -> str | None:
    """Ask on the terminal that is called ``device``. ``echo``: the answer is seen while it is typed. None after Ctrl-C
    or Ctrl-D, which do not end the program meanwhile, or if nothing came within ``within_s`` seconds. Raises
    ``OSError`` when there is no such terminal."""
    with Path(device).open("r+b", buffering=0) as terminal:
        with _keys_as_characters(terminal.fileno(), echo):
            terminal.write(question.encode())  # not sooner: what is typed before the switch is thrown away
            answer = _typed_line(terminal, within_s)
        if not echo:
            terminal.write(b"\n")
        return answer


@contextmanager
def _keys_as_characters(handle: int, echo: bool) -> Iterator[None]:
    before = termios.tcgetattr(handle)
    now = termios.tcgetattr(handle)
    now[3] &= ~termios.ISIG
    if not echo:
        now[3] &= ~termios.ECHO
    termios.tcsetattr(handle, termios.TCSAFLUSH, now)
    try:
        yield
    finally:
        termios.tcsetattr(handle, termios.TCSAFLUSH, before)


def _typed_line(terminal: IO[bytes], within_s: float) -> str | None:
    typed = b""
    while not typed.endswith(b"\n"):
        data = terminal.read(1024) if wait_within([terminal.fileno()], within_s) else b""
        if not data:
            return None
        typed += data
    return None if b"\x03" in typed else typed.decode(errors="replace").rstrip("\r\n")


# --- Joined to one elsewhere ------------------------------------------------------------------------------------------


def terminal_size(handle: int, out: int) -> os.terminal_size | None:
    """The size of the terminal in which this program is, which ``handle`` reads from and ``out`` writes to; None when
    it is in none."""
    return os.get_terminal_size(out) if os.isatty(handle) and os.isatty(out) else None


@contextmanager
def raw_terminal(handle: int, out: int) -> Iterator[None]:
    """No key has a meaning of its own meanwhile; what was typed ahead stays."""
    before = termios.tcgetattr(handle)
    try:
        _undisturbed(lambda: tty.setraw(handle, termios.TCSADRAIN))
        yield
    finally:
        _undisturbed(lambda: termios.tcsetattr(handle, termios.TCSADRAIN, before))
        sys.stdout.flush()


def _undisturbed(change: Callable[[], object]) -> None:
    """Change the terminal, again when a signal came meanwhile: a closed window sends two at once, and Python repeats
    other calls of the system by itself, but not these."""
    while True:
        try:
            change()
        except termios.error as error:
            if error.args[0] == errno.EINTR:
                continue
            raise
        return


def read_input(handle: int, limit: int) -> bytes | None:
    """Returns what there is to read: empty at its end, None when it is nothing that counts."""
    return os.read(handle, limit)


@contextmanager
def woken_by_signals(ringing: int) -> Iterator[None]:
    """Python itself writes into the descriptor ``ringing`` as soon as a signal comes: its handlers wait for the main
    thread, which may sleep when another thread got it. The descriptor no longer waits for its reader."""
    os.set_blocking(ringing, False)
    before = signal.set_wakeup_fd(ringing, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
