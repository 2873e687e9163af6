"""The console on Windows: the one that the program belongs to. It makes none for others (ConPTY), nor joins its own."""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # noqa: S101  # for mypy, which reads the rest for Windows only

import ctypes
import msvcrt
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from ctypes import wintypes
from typing import NoReturn, TextIO

__all__ = [
    "JOINS_TERMINALS",
    "RESIZED",
    "TERMINAL",
    "ask_on_terminal",
    "has_terminal",
    "make_terminal",
    "raw_terminal",
    "resize_terminal",
    "takes_single_keys",
    "woken_by_signals",
]

JOINS_TERMINALS = False
RESIZED: signal.Signals | None = None
TERMINAL = "CONIN$"
_SCREEN = "CONOUT$"
_POLL_S = 0.02
_KEPT_MODES = 0xFFFF & ~0x0007
"""Without ENABLE_PROCESSED_INPUT, ENABLE_LINE_INPUT and ENABLE_ECHO_INPUT."""
_NO_TERMINALS = "on Windows Clew makes no terminals"


def has_terminal(device: str = TERMINAL) -> bool:
    """Whether this program belongs to a console, whatever its standard input and output are joined to."""
    try:
        with open(device, encoding="utf-8"):  # noqa: PTH123  # pathlib takes it for a file of the current folder
            return True
    except OSError:
        return False


def ask_on_terminal(device: str, question: str, echo: bool, within_s: float) -> str | None:
    """Ask on the console. ``echo``: the answer is seen while it is typed. None after Ctrl-C, Ctrl-D or Ctrl-Z, which do
    not end the program meanwhile, or if nothing came within ``within_s`` seconds. Raises ``OSError`` when there is no
    console."""
    with (
        open(device, encoding="utf-8") as keys,  # noqa: PTH123
        open(_SCREEN, "w", encoding="utf-8") as screen,  # noqa: PTH123
        _keys_as_characters(msvcrt.get_osfhandle(keys.fileno())),
    ):
        _show(screen, question)
        answer = _typed_line(screen if echo else None, within_s)
        _show(screen, "\n")
        return answer


def _show(screen: TextIO, text: str) -> None:
    screen.write(text)
    screen.flush()


@contextmanager
def _keys_as_characters(handle: int) -> Iterator[None]:
    kernel, before = ctypes.windll.kernel32, wintypes.DWORD()
    kernel.GetConsoleMode(wintypes.HANDLE(handle), ctypes.byref(before))
    kernel.SetConsoleMode(wintypes.HANDLE(handle), before.value & _KEPT_MODES)
    try:
        yield
    finally:
        kernel.SetConsoleMode(wintypes.HANDLE(handle), before)


def _typed_line(screen: TextIO | None, within_s: float) -> str | None:
    typed, deadline = "", time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not msvcrt.kbhit():
            time.sleep(_POLL_S)
            continue
        key = msvcrt.getwch()
        if key in "\r\n":
            return typed
        if key in "\x03\x04\x1a":
            return None
        if key in "\x00\xe0":  # an arrow or function key, in two parts
            msvcrt.getwch()
            continue
        shown = "\b \b" * bool(typed) if key == "\b" else key
        typed = typed[:-1] if key == "\b" else typed + key
        if screen is not None:
            _show(screen, shown)
    return None


def raw_terminal(handle: int) -> AbstractContextManager[None]:
    """Raises ``OSError``."""
    raise OSError(_NO_TERMINALS)


@contextmanager
def woken_by_signals(ringing: int) -> Iterator[None]:
    """Python can write into sockets only here: whoever waits looks by itself."""
    yield


def make_terminal(rows: int, columns: int) -> NoReturn:
    """Raises ``OSError``."""
    raise OSError(_NO_TERMINALS)


def resize_terminal(handle: int, rows: int, columns: int) -> None:
    """Raises ``OSError``."""
    raise OSError(_NO_TERMINALS)


def takes_single_keys(handle: int) -> bool:
    """Whether the program in the terminal has made it raw."""
    return True
