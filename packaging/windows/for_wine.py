"""Wine cannot list named pipes, which paramiko does to find an SSH agent, and takes no snapshots of processes."""

from __future__ import annotations

import os
from typing import Any

_listdir = os.listdir


def getppid() -> int:
    """See ``os.getppid``, which takes a snapshot."""
    import psutil

    return int(psutil.Process().ppid()) or os.getpid()  # what Linux has started has no parent here


def listdir(path: Any = ".") -> list[Any]:
    """See ``os.listdir``; no named pipes."""
    return [] if isinstance(path, str) and path.lower().startswith("\\\\.\\pipe") else _listdir(path)


os.getppid, os.listdir = getppid, listdir
