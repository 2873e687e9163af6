"""Locks on files. The system releases each one when its process ends, however it ends, so none can be stale."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from clew_shared.base.problem import problem

_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""Error numbers that systems give when another process has the lock."""


@contextmanager
def exclusive(file: IO[bytes]) -> Iterator[None]:
    """Wait until no other program is within this for the same file; each stays for one write only. What was written
    within has left this program at the end. Where the file system has no locks, there is no waiting."""
    with suppress(OSError):
        _wait_for_lock(file.fileno())
    try:
        yield
        file.flush()
    finally:
        with suppress(OSError):
            _unlock(file.fileno())


def lock_now(handle: int) -> bool:
    """Lock the open file without waiting, until it is closed; children inherit the lock. False when another has it.

    Raises ``OSError`` on a file system that has no locks.
    """
    return _succeeds(_lock, handle)


def lock_for_process(handle: int) -> bool:
    """Lock the open file for this process alone: no child inherits it. False when another process has it.

    The system releases it when the process ends, or closes *any* handle of that file. Raises ``OSError`` on a file
    system that has no locks.
    """
    return _succeeds(_lock_for_process, handle)


class LockFile:
    """An exclusive lock on a file of this computer's own disk, kept until ``release`` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def acquire(self) -> bool:
        """Take the lock without waiting; False when another process has it. Raises ``ProblemError`` when there is no
        locking, for without it two agents could serve the same runs."""
        handle = -1
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            if lock_now(handle):
                self._handle, handle = handle, -1
        except OSError as error:
            hint = "Set XDG_RUNTIME_DIR to a folder of your own on this computer's own disk."
            text = f"{self._path} cannot be locked: {error.strerror or error}."
            raise problem("private.lock", text, hint, str(self._path)) from None
        finally:
            if handle >= 0:
                os.close(handle)
        return self._handle >= 0

    def release(self) -> None:
        """Let go; the file stays, because removing it would let two others each lock a file of that name."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


def _succeeds(lock: Callable[[int], None], handle: int) -> bool:
    try:
        lock(handle)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


if os.name == "posix":
    import fcntl

    def _wait_for_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)

    def _unlock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_UN)

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_for_process(handle: int) -> None:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    _FAR = 1 << 40
    """Windows locks bytes, and then nobody else can read them: one far after the content is locked."""

    def _wait_for_lock(handle: int) -> None:
        _at_far_byte(handle, msvcrt.LK_LOCK)  # type: ignore[attr-defined,unused-ignore]

    def _unlock(handle: int) -> None:
        _at_far_byte(handle, msvcrt.LK_UNLCK)  # type: ignore[attr-defined,unused-ignore]

    def _lock(handle: int) -> None:
        _at_far_byte(handle, msvcrt.LK_NBLCK)  # type: ignore[attr-defined,unused-ignore]

    _lock_for_process = _lock

    def _at_far_byte(handle: int, mode: int) -> None:
        place = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, mode, 1)  # type: ignore[attr-defined,unused-ignore]
        finally:
            os.lseek(handle, place, os.SEEK_SET)
