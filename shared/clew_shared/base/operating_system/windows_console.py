"""The console on Windows: the one that the program belongs to. It makes none for others (ConPTY)."""

from __future__ import annotations

import sys

assert sys.platform == "win32"  # noqa: S101  # for mypy, which reads the rest for Windows only

import ctypes
import msvcrt
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import wintypes
from typing import TextIO

RESIZED: signal.Signals | None = None
TERMINAL = "CONIN$"
_SCREEN = "CONOUT$"
_POLL_S = 0.02
_LINES = 0x0002
"""ENABLE_LINE_INPUT"""
_MEANINGS = 0x0001 | _LINES | 0x0004
"""ENABLE_PROCESSED_INPUT, ENABLE_LINE_INPUT and ENABLE_ECHO_INPUT"""
_RAW_INPUT = 0x0008 | 0x0200
"""ENABLE_WINDOW_INPUT: another size is an event. ENABLE_VIRTUAL_TERMINAL_INPUT: arrows and other keys come as a
terminal sends them."""
_RAW_OUTPUT = 0x0001 | 0x0004 | 0x0008
"""ENABLE_PROCESSED_OUTPUT, ENABLE_VIRTUAL_TERMINAL_PROCESSING and DISABLE_NEWLINE_AUTO_RETURN"""
_UTF_8 = 65001
_KEY_EVENT, _ALT = 1, 0x12
_END = "\x1a"
"""Ctrl-Z, which ends a console's input."""

_kernel = ctypes.WinDLL("kernel32", use_last_error=True)


class _Event(ctypes.Structure):
    """INPUT_RECORD, read as that of a key."""

    _fields_ = (
        ("kind", wintypes.WORD),
        ("down", wintypes.BOOL),
        ("times", wintypes.WORD),
        ("key", wintypes.WORD),
        ("scan", wintypes.WORD),
        ("character", wintypes.WCHAR),
        ("control", wintypes.DWORD),
    )


_kernel.GetConsoleMode.argtypes = [wintypes.HANDLE, wintypes.LPDWORD]
_kernel.SetConsoleMode.argtypes = [wintypes.HANDLE, wintypes.DWORD]
_kernel.ReadConsoleInputW.argtypes = [
    wintypes.HANDLE, ctypes.POINTER(_Event), wintypes.DWORD, wintypes.LPDWORD,
]  # fmt: skip


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
        _mode(keys.fileno(), without=_MEANINGS),
    ):
        _show(screen, question)
        answer = _typed_line(screen if echo else None, within_s)
        _show(screen, "\n")
        return answer


def _show(screen: TextIO, text: str) -> None:
    screen.write(text)
    screen.flush()


@contextmanager
def _mode(handle: int, without: int = 0, more: int = 0) -> Iterator[None]:
    console, before = msvcrt.get_osfhandle(handle), _mode_of(handle)
    _kernel.SetConsoleMode(console, before & ~without | more)
    try:
        yield
    finally:
        _kernel.SetConsoleMode(console, before)


def _mode_of(handle: int) -> int:
    """The mode of a console; -1 for anything else."""
    found = wintypes.DWORD()
    return found.value if _kernel.GetConsoleMode(msvcrt.get_osfhandle(handle), ctypes.byref(found)) else -1


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


def terminal_size(handle: int, out: int) -> os.terminal_size | None:
    """The size of the console in which this program is, which ``handle`` reads from and ``out`` writes to; None when
    it is in none."""
    if _mode_of(handle) >= 0:
        with suppress(OSError):
            return os.get_terminal_size(out)
    return None


@contextmanager
def raw_terminal(handle: int, out: int) -> Iterator[None]:
    """No key has a meaning of its own meanwhile, and what is written is as other terminals have it: UTF-8, with their
    escape sequences."""
    page = _kernel.GetConsoleOutputCP()
    with _mode(handle, without=_MEANINGS, more=_RAW_INPUT), _mode(out, more=_RAW_OUTPUT):
        _kernel.SetConsoleOutputCP(_UTF_8)
        try:
            yield
        finally:
            _kernel.SetConsoleOutputCP(page)


def read_input(handle: int, limit: int) -> bytes | None:
    """Returns what there is to read: empty at its end, None when it is nothing that counts, such as a key let go."""
    mode = _mode_of(handle)
    if mode < 0:
        return os.read(handle, limit)
    typed = _typed_characters(handle, limit // 4)
    if mode & _LINES:  # the console would wait for the whole line
        typed = typed.replace("\r", "\n")
        for character in typed:
            msvcrt.putwch(character)
        if _END in typed:
            return typed.partition(_END)[0].encode()
    return typed.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode() or None


def _typed_characters(handle: int, limit: int) -> str:
    """What was typed: half characters, of those that have two."""
    events, count = (_Event * limit)(), wintypes.DWORD()
    _kernel.ReadConsoleInputW(msvcrt.get_osfhandle(handle), events, limit, ctypes.byref(count))
    keys = [one for one in events[: count.value] if one.kind == _KEY_EVENT and one.character != "\0"]
    # A character that is typed by its number comes when Alt is let go.
    return "".join(one.character * max(one.times, 1) for one in keys if one.down or one.key == _ALT)


@contextmanager
def woken_by_signals(ringing: int) -> Iterator[None]:
    """Python can write into sockets only here: whoever waits looks by itself."""
    yield
