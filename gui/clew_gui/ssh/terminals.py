"""A terminal on the other side: a command that runs as if in front of a screen, with either way of SSH.

Without a size there is none: the command gets plain pipes, and its two outputs come as one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from clew_gui.ssh.connection import Size
from clew_shared.base import operating_system

_END_S = 2.0
_RAW_S = 10.0
_POLL_S = 0.01

UNKNOWN = 255
"""The exit status of ``ssh`` if it does not know the command's."""


class ProcessTerminal:
    """A program of this computer with a terminal of its own: the system's ``ssh``, which passes everything on."""

    def __init__(self, command: Sequence[str], size: Size | None) -> None:
        self._sized = size is not None
        self._raw_by = time.monotonic() + _RAW_S if self._sized else 0.0
        if size is not None:
            self._handle, theirs = operating_system.make_terminal(size.rows, size.columns)
            reading = theirs
        else:
            (reading, into), (self._handle, theirs) = os.pipe(), os.pipe()
            self._into = into
        try:
            self._process = subprocess.Popen(
                command,
                stdin=reading,
                stdout=theirs,
                stderr=subprocess.DEVNULL if size is not None else theirs,
                **operating_system.own_session(),
            )
        finally:
            for handle in {reading, theirs}:
                os.close(handle)
        if size is not None:
            self._into = self._handle

    def recv(self, limit: int) -> bytes:
        """See ``Stream.recv``."""
        try:
            return os.read(self._handle, limit)
        except OSError:  # EIO: nobody has the other end any more
            return b""

    def send(self, data: bytes) -> None:
        """See ``Stream.send``. What nobody reads any more is dropped."""
        self._await_raw()
        with suppress(OSError):
            while data:
                data = data[os.write(self._into, data) :]

    def end(self) -> None:
        """See ``Stream.end``. A terminal has no such end but Ctrl+D."""
        if not self._sized:
            self._shut(self._into)

    def last_words(self) -> str:
        """See ``Stream.last_words``. Here they are on the screen."""
        return ""

    def resize(self, size: Size) -> None:
        """See ``Terminal.resize``."""
        if self._sized:
            with suppress(OSError):
                operating_system.resize_terminal(self._handle, size.rows, size.columns)
                self._await_raw()
                if operating_system.RESIZED is not None:
                    self._process.send_signal(operating_system.RESIZED)

    def _await_raw(self) -> None:
        """Waits until ``ssh`` has made its terminal raw, which may be after the command's first output: before that,
        the terminal itself would take Ctrl+C and echo the keys, and ``ssh`` would not hear that the size has
        changed."""
        while time.monotonic() < self._raw_by and self._process.poll() is None:
            if operating_system.takes_single_keys(self._handle):
                self._raw_by = 0.0
            else:
                time.sleep(_POLL_S)

    def exit_status(self, timeout: float) -> int:
        """See ``Terminal.exit_status``."""
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout)
            return code if code >= 0 else UNKNOWN
        return UNKNOWN

    def close(self) -> None:
        """See ``Stream.close``."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._shut(self._into)
        self._shut(self._handle)

    def _shut(self, handle: int) -> None:
        if handle >= 0:
            with suppress(OSError):
                os.close(handle)
        self._into = -1 if handle == self._into else self._into
        self._handle = -1 if handle == self._handle else self._handle
