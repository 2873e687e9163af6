"""The mark of a run's guard: a file that the guard keeps locked as long as it lives.

The lock belongs to one process, is not inherited by its trainer, and ends with it, however it ends. So neither clocks
nor process ids that are used a second time can mislead anyone who looks for a run that nobody watches any more.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from clew_shared.base import operating_system
from clew_shared.base.file_lock import lock_for_process
from clew_shared.base.places import find_places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError

_PATIENCE_S = 1.0
"""Seconds for which a guard tries to get the lock: someone who looks holds it for a moment."""
_RETRY_S = 0.01


class GuardMark:
    """The mark of the run in ``folder``; ``take`` it, and ``release`` it when the run is sealed."""

    def __init__(self, folder: Path) -> None:
        self._path = mark_path(folder)
        self._handle = -1

    def take(self) -> bool:
        """Say that this process is the run's guard; False when another one is.

        Where no mark can be made (no folder of one's own, no room, no locks) a run is watched over without one.
        """
        try:
            make_private(make_private(self._path.parent.parent) / self._path.parent.name)
            forget_dead()
            taken = self._wait()
        except (OSError, ProblemError):
            return True
        if taken:
            with suppress(OSError):
                os.truncate(self._handle, 0)
                os.write(self._handle, str(os.getpid()).encode("ascii"))
        return taken

    def _wait(self) -> bool:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._try():
            if time.monotonic() > deadline:
                return False
            time.sleep(_RETRY_S)
        return True

    def _try(self) -> bool:
        """Lock the file that has the mark's name; a lock on a file that someone has just removed does not count."""
        handle = _open(self._path, os.O_CREAT)
        try:
            if lock_for_process(handle) and _has_name(handle, self._path):
                self._handle, handle = handle, -1
        finally:
            if handle >= 0:
                os.close(handle)
        return self._handle >= 0

    def release(self) -> None:
        """Releases the lock: the run has its seal, or never began."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            operating_system.give_up_locked(self._path, handle)


def mark_path(folder: Path) -> Path:
    """The mark's file, on the node's own disk; the same for every spelling of the run's folder."""
    name = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:32]
    return find_places().private / "guards" / f"{name}.lock"


def guard_pid(folder: Path) -> int | None:
    """The process that watches over the run in ``folder``; None when there is none on this node, 0 when there is one
    that could not write down which."""
    with suppress(OSError):
        handle = _open(mark_path(folder))
        try:
            if not lock_for_process(handle):
                return int(os.read(handle, 20) or b"0")
        except ValueError:
            return 0
        finally:
            os.close(handle)
    return None


def forget(folder: Path) -> None:
    """Remove the mark of a guard that died before it could do that itself; a living one keeps it."""
    _forget(mark_path(folder))


def forget_dead() -> None:
    """Remove the marks of all guards that were killed."""
    for path in (find_places().private / "guards").glob("*.lock"):
        _forget(path)


def _forget(path: Path) -> None:
    with suppress(OSError):
        handle = _open(path)
        if _is_locked_now(handle):
            operating_system.give_up_locked(path, handle)
        else:
            os.close(handle)


def _is_locked_now(handle: int) -> bool:
    with suppress(OSError):
        return lock_for_process(handle)
    return False


def _has_name(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | flags | operating_system.OPEN_FLAGS, 0o600)
