"""The supervisor's end of a standby process: keeps one while someone may need it, and gives it a run.

Where no process can be copied, a guard and its trainer (``clew_agent.processes.standby_process``) begin before anyone
asks for their run. A run takes both, and the next pair begins when that disturbs no training. A pair that still imports
takes a run as well: it is ahead of a fresh one.
"""

from __future__ import annotations

import logging
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from clew_agent.node.devices import CHOICE
from clew_agent.processes.guard import trainer_environment
from clew_agent.processes.nursery_client import IDLE_S
from clew_agent.processes.nursery_messages import (
    ROOM_FOR_TITLES,
    TITLES_ENVIRONMENT,
    GuardEnded,
    Started,
    StartRefused,
    as_line,
    start_request,
)
from clew_agent.processes.standby import LATE, fits, has_spare_cores, suits
from clew_shared.base import operating_system

_log = logging.getLogger(__name__)

STANDBY = (sys.executable, "-P", "-m", "clew_agent.processes.standby_process", "guard")
LEAST_MEMORY = 1536 << 20
"""Bytes of memory that must be available, three times what a standby holds; with less there is none."""
REST_S = 0.5
"""Seconds without a run in training before the next standby begins, unless there are cores to spare."""
_LOOK_S = 0.2
"""Seconds between two looks at memory and processes."""
_BACK_OFF_S = 5.0
"""Seconds before the next standby after one that ended without a run; twice as many after each."""
_MOST_FAILURES = 5
"""After so many standbys in a row that ended without a run, no other is begun."""


class StandbyKeeper:
    """Keeps at most one standby without a run, and the guards of those that have one.

    ``computes``: its trainer also does what every run does alike. Not with GPUs: what computes on one takes memory of
    it, and a run on other devices could not have that trainer.
    """

    def __init__(
        self, home: Path, computes: bool = True, command: Sequence[str] = STANDBY, idle: float = IDLE_S
    ) -> None:
        self.waiting: subprocess.Popen[bytes] | None = None
        """The guard that has no run yet."""
        self._home = home
        self._computes = computes
        self._command = [*command]
        self._idle = idle
        self._late = LATE if computes else LATE | CHOICE
        self._environment: Mapping[str, str] = {}
        self._given: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        """The run's folder and the guard, by process."""
        self._started: list[Started] = []
        self._leaving: list[subprocess.Popen[bytes]] = []
        """Those that were let go and have not ended yet."""
        self._needed = time.monotonic()
        self._trained = self._not_before = -math.inf
        self._next_look = 0.0
        self._failures = 0

    @property
    def pid(self) -> int:
        """This process: the guards are its own children."""
        return os.getpid()

    def tend(self, needed: bool) -> None:
        """Keep one while someone may want to start a run: for ``idle`` seconds after it was ``needed``, and as long as
        memory is not short."""
        now = time.monotonic()
        if needed:
            self._needed = now
        if self._given:
            self._trained = now
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        self._forget_dead()
        wanted = now - self._needed <= self._idle and psutil.virtual_memory().available >= LEAST_MEMORY
        if self.waiting is not None and not wanted:
            _log.info("The standby ends: nobody has needed it for %.0f s, or memory is short.", self._idle)
            self._drop()
        elif self.waiting is None and wanted and self._may_begin(now):
            self._begin()

    def _may_begin(self, now: float) -> bool:
        undisturbed = now - self._trained >= REST_S or has_spare_cores()
        return undisturbed and self._failures < _MOST_FAILURES and now >= self._not_before

    def _begin(self) -> None:
        words = ["--compute"] if self._computes else []
        command = [*self._command, *words, "--room", ROOM_FOR_TITLES]
        self._environment = trainer_environment() | TITLES_ENVIRONMENT | {"CLEW_HOME": str(self._home)}
        try:
            self.waiting = subprocess.Popen(
                command, stdin=subprocess.PIPE, env=self._environment, **operating_system.own_session()
            )
        except OSError as error:
            _log.warning("A standby cannot be started: %s", error)
            self._failed()

    def start(self, folder: Path, attempt: int, exercises: Path | None, environment: Mapping[str, str]) -> bool:
        """Give the run to the standby; False when there is none for this run."""
        self._forget_dead()
        request = start_request(folder, attempt, exercises, environment)
        standby, held = self.waiting, self._environment
        if standby is None or standby.stdin is None or not suits(request, held, self._late):
            return False
        if self._computes and not fits(request, held):
            return False
        try:
            standby.stdin.write(as_line(request))
            standby.stdin.close()
        except OSError:  # it has just died
            return False
        self.waiting, self._failures = None, 0
        self._given[standby.pid] = str(folder), standby
        self._started.append(Started(folder=str(folder), pid=standby.pid))
        return True

    def receive(self) -> list[Started | StartRefused | GuardEnded]:
        """The runs that were given away and the guards that have ended since the last call."""
        self._leaving = [process for process in self._leaving if process.poll() is None]
        found: list[Started | StartRefused | GuardEnded] = [*self._started]
        self._started = []
        for pid, (folder, guard) in list(self._given.items()):
            code = guard.poll()
            if code is not None:
                del self._given[pid]
                found.append(GuardEnded(folder=folder, pid=pid, exit_code=code))
        return found

    def interrupt(self) -> None:
        """Nobody waits for an import: a run that was given away has its guard already."""

    def close(self, wait: float = 5.0) -> None:
        """End the standby without a run; the others outlive this process."""
        self._drop()
        for process in self._leaving:
            operating_system.wait_or_kill(process, wait)
        for _, guard in self._given.values():
            guard.returncode = guard.poll() or 0  # on purpose; no ResourceWarning for it

    def _forget_dead(self) -> None:
        if self.waiting is not None and self.waiting.poll() is not None:
            _log.warning("The standby has ended with exit code %s.", self.waiting.returncode)
            self._failed()
            self._drop()

    def _failed(self) -> None:
        self._failures += 1
        self._not_before = time.monotonic() + _BACK_OFF_S * 2 ** (self._failures - 1)

    def _drop(self) -> None:
        standby, self.waiting = self.waiting, None
        if standby is not None and standby.stdin is not None:
            with suppress(OSError):
                standby.stdin.close()  # it ends with that, and so does its trainer
            self._leaving.append(standby)
