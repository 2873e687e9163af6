"""Locks on files. The system releases each one when its process ends, however it ends, so none can be stale."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from clew_shared.base import operating_system
from clew_shared.base.problem import os_refused, problem

_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""Error numbers that systems give when another process has the lock."""


_LONGEST_HOLDER = 200
_WAIT_S = 60.0
"""Seconds to wait for a lock that is kept for one write only: a program that takes longer was stopped within it."""
_LOOK_S = 0.01


@contextmanager
def exclusive(file: IO[bytes]) -> Iterator[None]:
    """Wait until no other program is within this for the same file; each stays for one write only. What was written
    within has left this program at the end. Where the file system has no locks, there is no waiting.

    Raises ``ProblemError`` after a minute."""
    try:
        deadline = time.monotonic() + _WAIT_S
        while not lock_now(file.fileno()):
            if time.monotonic() > deadline:
                text = f"Another program has kept {file.name} locked for a minute."
                raise problem("private.lock", text, "End other programs of Clew's, and try again.", str(file.name))
            time.sleep(_LOOK_S)
    except OSError:
        pass
    try:
        yield
        file.flush()
    finally:
        with suppress(OSError):
            operating_system.unlock(file.fileno())


def lock_now(handle: int) -> bool:
    """Lock the open file without waiting, until it is closed; children inherit the lock. False when another has it.

    Raises ``OSError`` on a file system that has no locks.
    """
    return _succeeds(operating_system.lock, handle)


def lock_for_process(handle: int) -> bool:
    """Lock the open file for this process alone: no child inherits it. False when another process has it.

    The system releases it when the process ends, or closes *any* handle of that file. Raises ``OSError`` on a file
    system that has no locks.
    """
    return _succeeds(operating_system.lock_for_process, handle)


class LockFile:
    """An exclusive lock on a file of this computer's own disk, kept until ``release`` or the end of the process. The
    file says who has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def acquire(self) -> bool:
        """Take the lock without waiting; False when another process has it. Raises ``ProblemError`` when there is no
        locking, for without it two agents could serve the same runs."""
        handle = -1
        hint = "Set XDG_RUNTIME_DIR to a folder of your own on this computer's own disk."
        try:
            with os_refused("private.lock", f"{self._path} cannot be locked", hint, str(self._path)):
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT | operating_system.OPEN_FLAGS, 0o600)
                if lock_now(handle):
                    self._handle, handle = handle, -1
                    self._write_holder()
        finally:
            if handle >= 0:
                os.close(handle)
        return self._handle >= 0

    def _write_holder(self) -> None:
        words = f"process {os.getpid()} of {operating_system.host_name()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        with suppress(OSError):  # a full disk
            os.truncate(self._handle, 0)
            os.write(self._handle, words.encode())

    def holder(self) -> str:
        """Says who has the lock, or had it last: process, computer and since when; empty if that is not known."""
        with suppress(OSError):
            return self._path.read_bytes()[:_LONGEST_HOLDER].decode("utf-8", "replace")
        return ""

    def remove(self) -> None:
        """Let go, and remove the file: only where those who take it afterwards find that nothing is to be done."""
        self.release()
        with suppress(OSError):
            self._path.unlink()

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
