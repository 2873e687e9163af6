"""One program at a time at a file that several keep: whoever has it to itself can look and write in one go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def alone(file: IO[bytes]) -> Iterator[None]:
    """Wait until no other program is within this for the same file; each stays for one write only. What was written
    within has left this program at the end. Where the file system has no locks, nobody is waited for."""
    with suppress(OSError):
        _lock(file.fileno())
    try:
        yield
        file.flush()
    finally:
        with suppress(OSError):
            _unlock(file.fileno())


if os.name == "posix":
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)

else:
    import msvcrt

    _FAR = 1 << 40
    """Windows locks bytes, and nobody else can read them: one far behind the content is locked."""

    def _lock(handle: int) -> None:
        _at_far_byte(handle, msvcrt.LK_LOCK)  # type: ignore[attr-defined,unused-ignore]

    def _unlock(handle: int) -> None:
        _at_far_byte(handle, msvcrt.LK_UNLCK)  # type: ignore[attr-defined,unused-ignore]

    def _at_far_byte(handle: int, mode: int) -> None:
        place = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, mode, 1)  # type: ignore[attr-defined,unused-ignore]
        finally:
            os.lseek(handle, place, os.SEEK_SET)
