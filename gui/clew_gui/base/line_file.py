"""A file of lines to which several programs append at once; nothing in it is ever changed or removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from clew_shared.base import operating_system
from clew_shared.base.file_lock import exclusive
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError


class LineFile:
    """Appends and reads the lines of a file that several programs share. ``path`` need not be there yet. A line that is
    still being written, or was torn, is left for later or skipped by readers; what is appended after a torn line begins
    on a new line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._torn = False

    def new_lines(self) -> list[bytes]:
        """The whole lines since the last call, without their ends; all of them when the file was replaced."""
        try:
            with self.path.open("rb") as file:
                if file.seek(0, os.SEEK_END) < self._read:  # somebody removed it
                    self._read = 0
                file.seek(self._read)
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            data, self._read = b"", 0
        whole = data.rfind(b"\n") + 1
        self._read += whole
        self._torn = whole < len(data)
        return data[:whole].splitlines()

    def mark(self) -> tuple[int, int]:
        """A value that changes with every line that anybody appends; zeros while there is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0)
        return (found.st_size, found.st_mtime_ns)

    def append(self, line: bytes, lasting: bool = True) -> None:
        """Add ``line``, which has no end of line in it. Raises ``OSError`` if the disk refuses, also a part of it.

        Not ``lasting``: it returns before the disk has it; ``settle`` waits for that later.
        """
        try:
            make_private(self.path.parent)
        except ProblemError as error:
            raise OSError(str(error)) from error
        data = (b"\n" if self._torn else b"") + line + b"\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "wb", buffering=0) as file:
            with exclusive(file):  # on a disk of the network two programs that append at once overwrite each other
                written = os.write(handle, data)
            if lasting:
                operating_system.sync(handle)
        if written < len(data):
            self._torn = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def settle(self) -> None:
        """Wait until what was appended survives a power cut. Raises ``OSError`` if the disk refuses."""
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            operating_system.sync(handle)
        finally:
            os.close(handle)
