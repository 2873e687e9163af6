"""What this node is and has: its devices, and a lock that ends with the process that holds it. No TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path

from clew_agent.posix import POSIX

_NVIDIA = Path("/proc/driver/nvidia/gpus")


def devices(nvidia: Path = _NVIDIA) -> tuple[str, ...]:
    """The node's devices in words, the processor first: ``2 CPU cores``, ``NVIDIA H100``.

    The NVIDIA driver's own files are read, because asking it through a program takes a second or more.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = f"{cores} CPU core{'s' if cores > 1 else ''}"
    return (words, *(name for path in sorted(nvidia.glob("*/information")) if (name := _model(path))))


def _model(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("Model:")), "")


class Lock:
    """An exclusive lock on a file of this node's own disk. The system lets go of it when the process ends, however it
    ends, so a stale lock cannot exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = -1

    def acquire(self) -> bool:
        """Take the lock without waiting; False when another process has it."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            _lock(handle)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def release(self) -> None:
        """Let go; the file stays, because removing it would let two others each lock a file of that name."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


if POSIX:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
