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

from clew_agent.node.devices import CHOICE, GIVEN
from clew_agent.processes.guard import trainer_environment
from clew_agent.processes.nursery_messages import (
    OWN_ENVIRONMENT,
    ROOM_FOR_TITLES,
    TITLES_ENVIRONMENT,
    GuardEnded,
    Started,
    StartRefused,
    as_line,
    start_request,
)
from clew_agent.processes.run_starter import IDLE_S, RunStarter
from clew_shared.base import operating_system

_log = logging.getLogger(__name__)

STANDBY = (sys.executable, "-P", "-m", "clew_agent.processes.standby_process", "guard")
LEAST_MEMORY = 1536 << 20
"""Bytes of memory that must be available, three times what a standby holds; with less there is none."""
REST_S = 0.5
"""Seconds without a run in training before the next standby begins, unless there are cores to spare: its import keeps
one busy for some seconds."""
_SPARE_CORES = 4
_EXPECTED_S = 10.0
"""Seconds for which more runs are expected: meanwhile the next standby does not wait for the present run to end."""
_LATE = {GIVEN, *OWN_ENVIRONMENT, *CHOICE}
"""The variables that no library reads before a run computes, so that a run's own values come early enough."""


class StandbyKeeper(RunStarter):
    """Keeps at most one standby without a run, and the guards of those that have one."""

    def __init__(self, home: Path, command: Sequence[str] = STANDBY, idle: float = IDLE_S) -> None:
        super().__init__("standby", home, command, idle)
        self._environment: Mapping[str, str] = {}
        self._given: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        """The run's folder and the guard, by process."""
        self._started: list[Started] = []
        self._trained = -math.inf

    @property
    def pid(self) -> int:
        """This process: the guards are its own children."""
        return os.getpid()

    def tend(self, needed: bool) -> None:
        """Keep one for ``idle`` seconds after it was ``needed``, as long as memory is not short."""
        if self._given:
            self._trained = time.monotonic()
        self._forget_dead()
        super().tend(needed)

    def _has_room(self) -> bool:
        return psutil.virtual_memory().available >= LEAST_MEMORY

    def _may_begin(self) -> bool:
        now = time.monotonic()
        rests = now - self._trained >= REST_S or now - self._expected < _EXPECTED_S
        return rests or operating_system.usable_cores() >= _SPARE_CORES

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [*self._command, "--room", ROOM_FOR_TITLES]
        self._environment = trainer_environment() | TITLES_ENVIRONMENT | {"CLEW_HOME": str(self._home)}
        return subprocess.Popen(command, stdin=subprocess.PIPE, env=self._environment, **operating_system.own_session())

    def start(self, folder: Path, attempt: int, exercises: Path | None, environment: Mapping[str, str]) -> bool:
        """Give the run to the standby; False when there is none, or its environment is another one."""
        self._forget_dead()
        request = start_request(folder, attempt, exercises, environment)
        wanted = {name: value for name, value in request.environment.items() if name not in _LATE}
        standby = self.kept
        if standby is None or standby.stdin is None or not wanted.items() <= self._environment.items():
            return False
        try:
            standby.stdin.write(as_line(request))
            standby.stdin.close()
        except OSError:  # it has just died
            return False
        self.kept, self._failures = None, 0
        self._given[standby.pid] = str(folder), standby
        self._started.append(Started(folder=str(folder), pid=standby.pid))
        return True

    def receive(self) -> list[Started | StartRefused | GuardEnded]:
        """The runs that were given away and the guards that have ended since the last call."""
        self._reap_leaving()
        found: list[Started | StartRefused | GuardEnded] = [*self._started]
        self._started = []
        for pid, (folder, guard) in list(self._given.items()):
            code = guard.poll()
            if code is not None:
                del self._given[pid]
                found.append(GuardEnded(folder=folder, pid=pid, exit_code=code))
        return found

    def interrupt(self) -> None:
        """Does nothing: the guard of a run that was handed over is already there."""

    def close(self, wait: float = 5.0) -> None:
        """End the standby without a run; the others outlive this process."""
        super().close(wait)
        for _, guard in self._given.values():
            guard.returncode = guard.poll() or 0  # on purpose; no ResourceWarning for it

    def _forget_dead(self) -> None:
        if self.kept is not None and self.kept.poll() is not None:
            _log.warning("The standby has ended with exit code %s.", self.kept.returncode)
            self._failed()
            self._drop()

    def _drop(self, kill: bool = False) -> None:
        if self.kept is not None and self.kept.stdin is not None:
            with suppress(OSError):
                self.kept.stdin.close()  # it ends with that, and so does its trainer
        super()._drop(kill)
