"""What begins runs faster than a fresh interpreter, which imports TensorFlow first: a nursery where processes can be
copied, elsewhere a standby process that has imported it. Who begins a run does not know which of them it is."""

from __future__ import annotations

import logging
import math
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from clew_agent.processes.nursery_messages import GuardEnded, Started, StartRefused
from clew_shared.base import operating_system

_log = logging.getLogger(__name__)

IDLE_S = 600.0
"""Seconds without a run after which the process that is kept ends: all that time it holds TensorFlow in memory."""
_BACK_OFF_S = 5.0
"""Seconds before the next process after one that came to nothing; twice as many after each."""
MOST_FAILURES = 5
"""After so many in a row that came to nothing, all runs begin as fresh interpreters."""


class RunStarter(ABC):
    """Keeps a process warm while someone may want to start a run, and starts guard and trainer of a run by it.

    ``name`` is what logs call the process that ``command`` starts.
    """

    def __init__(self, name: str, home: Path, command: Sequence[str], idle: float) -> None:
        self.kept: subprocess.Popen[bytes] | None = None
        """The process that is kept now; there is at most one."""
        self._name = name
        self._home = home
        self._command = [*command]
        self._idle = idle
        self._needed = time.monotonic()
        self._expected = -math.inf
        self._leaving: list[subprocess.Popen[bytes]] = []
        """Those that were let go and have not ended yet."""
        self._failures = 0
        self._not_before = 0.0

    @property
    @abstractmethod
    def pid(self) -> int | None:
        """The process that is the guards' parent, if there is one now. If it changes, nobody reports their ends."""

    def tend(self, needed: bool) -> None:
        """Keep one for ``idle`` seconds after it was ``needed``. To be called at every turn."""
        now = time.monotonic()
        if needed:
            self._needed = now
        if now - self._needed > self._idle or not self._has_room():
            if self.kept is not None and not self._is_busy():
                _log.info("The %s ends: nobody has needed it for %.0f s, or memory is short.", self._name, self._idle)
                self._drop()
        elif self.kept is None and self._failures < MOST_FAILURES and now >= self._not_before and self._may_begin():
            try:
                self.kept = self._begin()
            except OSError as error:
                _log.warning("The %s cannot be started: %s", self._name, error)
                self._failed()

    @abstractmethod
    def start(self, folder: Path, attempt: int, exercises: Path | None, environment: Mapping[str, str]) -> bool:
        """Ask for guard and trainer of an attempt; ``receive`` returns the result. False: it needs a fresh
        interpreter."""

    @abstractmethod
    def receive(self) -> list[Started | StartRefused | GuardEnded]:
        """Returns what has happened since the last call."""

    def expect_more(self) -> None:
        """Runs are tried one after the other: for some seconds the next one counts more than the one that trains."""
        self._expected = time.monotonic()

    @abstractmethod
    def interrupt(self) -> None:
        """Do not let anyone who wants the end of a run wait for an import."""

    def close(self, wait: float = 5.0) -> None:
        """End what no run has been given to; runs go on."""
        self._drop()
        for process in self._leaving:
            operating_system.wait_or_kill(process, wait)

    @abstractmethod
    def _begin(self) -> subprocess.Popen[bytes]:
        """Starts the process to keep. Raises ``OSError``."""

    def _has_room(self) -> bool:
        return True

    def _may_begin(self) -> bool:
        return True

    def _is_busy(self) -> bool:
        return False

    def _failed(self) -> None:
        self._failures += 1
        self._not_before = time.monotonic() + _BACK_OFF_S * 2 ** (self._failures - 1)

    def _drop(self, kill: bool = False) -> None:
        process, self.kept = self.kept, None
        if process is not None:
            if kill:
                process.kill()
            self._leaving.append(process)

    def _reap_leaving(self) -> None:
        self._leaving = [process for process in self._leaving if process.poll() is None]
