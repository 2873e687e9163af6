"""Runs a program in a terminal of its own: a pseudo-terminal, on Windows a pseudo-console."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

ROWS, COLUMNS = 30, 100


class Screen:
    """What the program in the terminal shows; ``enter`` types there."""

    def __init__(self, reading: int, typing: int) -> None:
        self._reading, self._typing = reading, typing
        self._shown = b""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="screen")
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError):  # EIO: nobody has the other end any more
            while data := os.read(self._reading, 4096):
                with self._changed:
                    self._shown += data
                    self._changed.notify_all()

    def enter(self, keys: str) -> None:
        """Type."""
        os.write(self._typing, keys.encode())

    def until(self, words: str, within_s: float = 60.0) -> str:
        """Returns what has been shown as soon as ``words`` are among it, or the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: words.encode() in self._shown, within_s)
            return self._shown.decode(errors="replace")

    def close(self) -> None:
        """Read to the end, which must be near."""
        self._thread.join()


if sys.platform == "win32":
    import ctypes
    import msvcrt
    from ctypes import wintypes

    _PSEUDOCONSOLE, _EXTENDED = 0x20016, 0x80000

    class _Startup(ctypes.Structure):
        """STARTUPINFOEXW, of which only size and attributes are used."""

        _fields_ = (
            ("size", wintypes.DWORD),
            ("others", ctypes.c_byte * 100),
            ("attributes", ctypes.c_void_p),
        )

    class _Process(ctypes.Structure):
        _fields_ = (
            ("process", wintypes.HANDLE),
            ("thread", wintypes.HANDLE),
            ("ids", wintypes.DWORD * 2),
        )

    def own_terminal() -> tuple[TextIO, TextIO]:
        """The terminal of this process. Its standard input and output are those of whoever started it."""
        # While it runs; not by pathlib, which takes these names for files of the current folder.
        keys = open("CONIN$", encoding="utf-8")  # noqa: PTH123, SIM115
        return keys, open("CONOUT$", "w", encoding="utf-8")  # noqa: PTH123

    @contextmanager
    def in_terminal(command: Sequence[str]) -> Iterator[Screen]:
        """Start the program; at the end it is waited for."""
        kernel = ctypes.WinDLL("kernel32", use_last_error=True)
        (theirs, typing), (reading, writing) = os.pipe(), os.pipe()
        console, size, started = ctypes.c_void_p(), ctypes.c_size_t(), _Process()
        ends = [wintypes.HANDLE(msvcrt.get_osfhandle(one)) for one in (theirs, writing)]
        code = kernel.CreatePseudoConsole(wintypes.DWORD(ROWS << 16 | COLUMNS), *ends, 0, ctypes.byref(console))
        assert code == 0, code
        kernel.InitializeProcThreadAttributeList(None, 1, 0, ctypes.byref(size))
        attributes = ctypes.create_string_buffer(size.value)
        assert kernel.InitializeProcThreadAttributeList(attributes, 1, 0, ctypes.byref(size))
        assert kernel.UpdateProcThreadAttribute(
            attributes, 0, ctypes.c_size_t(_PSEUDOCONSOLE), console, ctypes.c_size_t(8), None, None
        )
        startup = _Startup(size=ctypes.sizeof(_Startup), attributes=ctypes.addressof(attributes))
        words = ctypes.create_unicode_buffer(subprocess.list2cmdline(command))
        assert kernel.CreateProcessW(
            None, words, None, None, False, _EXTENDED, None, None, ctypes.byref(startup), ctypes.byref(started)
        ), ctypes.get_last_error()
        os.close(theirs)
        os.close(writing)
        screen = Screen(reading, typing)
        try:
            yield screen
        finally:
            kernel.WaitForSingleObject(started.process, 60_000)
            kernel.ClosePseudoConsole(console)
            screen.close()
            for handle in (started.process, started.thread):
                kernel.CloseHandle(wintypes.HANDLE(handle))
            os.close(reading)
            os.close(typing)

else:
    import fcntl
    import pty
    import struct
    import termios

    def own_terminal() -> tuple[TextIO, TextIO]:
        """The terminal of this process."""
        return sys.stdin, sys.stdout

    @contextmanager
    def in_terminal(command: Sequence[str]) -> Iterator[Screen]:
        """Start the program; at the end it is waited for."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        os.close(theirs)
        screen = Screen(ours, ours)
        try:
            yield screen
        finally:
            process.wait(60)
            screen.close()
            os.close(ours)
