"""What this node is: its processor, and a lock that ends with the process that holds it. No TensorFlow."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from clew_agent.node.posix import POSIX
from clew_shared.base.problem import problem

_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""What systems say of a lock that another process has."""


def processor() -> str:
    """The processor in words, as far as this process may use it: ``2 CPU cores``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{cores} CPU core{'s' if cores > 1 else ''}"


class Lock:
    """An exclusive lock on a file of this node's own disk. The system lets go of it when the process ends, however it
    ends, so a stale lock cannot exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def acquire(self) -> bool:
        """Take the lock without waiting; False when another process has it. Raises ``ProblemError`` when there is no
        locking, for without it two agents could serve the same runs."""
        handle = -1
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            if _succeeds(_lock, handle):
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


def lock_for_process(handle: int) -> bool:
    """Lock the open file for this process alone: no child inherits it. False when another process has it.

    The system lets go when the process ends, or closes *any* handle of that file. Raises ``OSError`` on a file system
    that has no locks.
    """
    return _succeeds(_lock_for_process, handle)


def _succeeds(lock: Callable[[int], None], handle: int) -> bool:
    try:
        lock(handle)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


if POSIX:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_for_process(handle: int) -> None:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    _FAR = 1 << 20
    """Windows locks bytes, and nobody else can read them: one far behind the content is locked."""

    def _lock(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        os.lseek(handle, 0, os.SEEK_SET)

    _lock_for_process = _lock
