"""Whether a process that was seen earlier still runs. Process ids are used again, so an id is not enough."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import psutil

from clew_shared.base import operating_system

_SAME_S = 5.0
"""Seconds by which two readings of when a process began may differ after the clock was set."""
_YOUNGER_S = 60.0
"""Seconds: a process that began this much later than one that was seen is another one, unless the clock was set in
between."""


def began(pid: int | None = None) -> float:
    """Returns when process ``pid`` (default: this one) began, in seconds since 1970. Raises ``psutil.Error``."""
    return psutil.Process(pid).create_time()


def still_runs(pid: int, start: float) -> bool:
    """Whether process ``pid`` that began at ``start`` (seconds since 1970) runs."""
    with suppress(psutil.Error):
        return abs(began(pid) - start) < _SAME_S
    return False


def still_runs_since(pid: int, seen: float, is_it: Callable[[Collection[Path]], bool]) -> bool:
    """Whether process ``pid`` that ran at ``seen`` (seconds since 1970) runs, and is no zombie.

    One that looks younger is it only if ``is_it`` says so of the files that it has open: somebody may have set the
    clock in between, but most such processes are others that have got the same number. On Windows no files are known:
    there it is another.
    """
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.create_time() <= seen + _YOUNGER_S or is_it(operating_system.open_files(pid))
    return False
