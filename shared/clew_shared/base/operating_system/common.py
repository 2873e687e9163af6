"""What is the same on all systems, about this process and others."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Child(Protocol):
    """A process that this one has started: what of ``subprocess.Popen`` its guard or its chief needs."""

    @property
    def pid(self) -> int:
        """Its id."""

    def poll(self) -> int | None:
        """Its exit code when it has ended (negative: the signal that ended it), else None."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it has not ended."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it at once."""

    def wait(self, timeout: float) -> int:
        """Its exit code, as soon as it has ended. Raises ``subprocess.TimeoutExpired`` after so many seconds."""


def wait_or_kill(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for a process that ends by itself; end it if that takes longer than so many seconds."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def flush_output() -> None:
    """Write out what has been printed; a closed or full output is no error."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # Windows programs without a console have none
            with suppress(OSError, ValueError):
                stream.flush()


def print_to(path: Path) -> None:
    """Adds whatever this process prints from now on, also from C libraries, to the file ``path``."""
    _print_into(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666))


def silence() -> None:
    """Discards whatever this process prints from now on, also from C libraries: its log file is being recorded."""
    _print_into(os.open(os.devnull, os.O_WRONLY))


def _print_into(target: int) -> None:
    flush_output()
    for descriptor in (1, 2):
        os.dup2(target, descriptor)
    os.close(target)


def host_name() -> str:
    """The node's own name."""
    return platform.node()


def is_alive(pid: int) -> bool:
    """Whether a process with this id exists and has not ended (a zombie has)."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def set_title(title: str) -> None:
    """Has ``ps`` show this title. A site may lack the package for it: titles are for people."""
    with suppress(ImportError):
        from setproctitle import setproctitle

        setproctitle(title)


def exit_at_once(code: int) -> None:
    """End this process without any clean-up; its guard does the rest."""
    os._exit(code)
