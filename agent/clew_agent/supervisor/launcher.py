"""Starts guards and sealers for the supervisor, checks whether processes live, and kills runs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from clew_agent.processes.guard_mark import guard_pid
from clew_agent.processes.nursery_messages import GuardEnded, Started, StartRefused
from clew_agent.processes.run_starter import RunStarter
from clew_agent.supervisor.tracked_run import TrackedRun
from clew_shared.base import operating_system
from clew_shared.base.process_identity import still_runs_since

_log = logging.getLogger(__name__)

GUARD = (sys.executable, "-P", "-m", "clew_agent", "guard")
SEALER = (sys.executable, "-P", "-m", "clew_agent.processes.sealer")
UNKNOWN_EXIT = -1
"""The exit code given for a guard that nobody waited for, because its parent had gone."""
_GONE_FOR_S = 2.0
"""Seconds for which neither trainer nor guard must have been seen before a run is taken for left alone."""
_ASK_EVERY_S = 1.0
_MARKED_AFTER_S = 5.0
"""Seconds after which a guard has said that it is one."""
_END_S = 5.0


class _Warm:
    """A run that the starter was asked to start; its guard's parent is ``parent``. ``pid`` is the guard, 0 until that
    is known."""

    def __init__(self, folder: Path, attempt: int, environment: Mapping[str, str], parent: int | None) -> None:
        self.folder = folder
        self.attempt = attempt
        self.environment = environment
        self.parent = parent
        self.pid = 0
        self.unwanted = False
        """Whether someone has asked for its end while the starter had not answered."""
        self.since = time.monotonic()

    def has_ended(self) -> bool:
        """Whether its guard has ended, seen from outside."""
        unmarked = time.monotonic() - self.since > _MARKED_AFTER_S and guard_pid(self.folder) is None
        return not operating_system.is_alive(self.pid) or unmarked


class Launcher:
    """Starts the processes that work on runs, and keeps them by run. Guards are in sessions of their own: they survive
    the supervisor.

    With a ``starter`` runs begin as it does that, and as fresh interpreters when it cannot.
    """

    def __init__(
        self,
        home: Path,
        guard: Sequence[str] = GUARD,
        exercises: Path | None = None,
        starter: RunStarter | None = None,
    ) -> None:
        self._guard = [*guard]
        self._exercises = exercises
        self._starter = starter
        self._environment = os.environ | {"CLEW_HOME": str(home)}
        self._guards: dict[str, subprocess.Popen[bytes]] = {}
        self._warm: dict[str, _Warm] = {}
        self._sealers: dict[str, subprocess.Popen[bytes]] = {}
        self._gone_since: dict[str, float] = {}
        self._next_ask = 0.0

    def __len__(self) -> int:
        return len(self._guards) + len(self._warm) + len(self._sealers)

    def has(self, run: str) -> bool:
        """Whether a child works on this run."""
        return run in self._guards or run in self._warm or run in self._sealers

    def is_sealing(self, run: str) -> bool:
        """Whether all that is left to do is to have its journal sealed."""
        return run in self._sealers

    def expect_more(self) -> None:
        """Have the starter prepare for a run that follows soon."""
        if self._starter is not None:
            self._starter.expect_more()

    def start(self, folder: Path, attempt: int, environment: Mapping[str, str] | None = None, run: str = "") -> None:
        """Start the guard of an attempt, which starts its trainer, both with ``environment`` beside the agent's own.

        Raises ``OSError`` when the system refuses.
        """
        starter, run = self._starter, run or folder.name
        wanted = _Warm(folder, attempt, environment or {}, starter.pid if starter is not None else None)
        if starter is not None and starter.start(folder, attempt, self._exercises, wanted.environment):
            self._warm[run] = wanted
        else:
            self._start_fresh(run, wanted)

    def _start_fresh(self, run: str, wanted: _Warm) -> None:
        extra = ["--exercises", str(self._exercises)] if self._exercises else []
        command = [*self._guard, str(wanted.folder), "--attempt", str(wanted.attempt), *extra]
        self._guards[run] = self._popen(command, wanted.environment)

    def reap(self) -> list[tuple[str, int]]:
        """The runs whose guard or sealer has ended since the last call, with its exit code."""
        ended = self._hear_starter()
        for children in (self._guards, self._sealers):
            done = [(run, code) for run, child in children.items() if (code := child.poll()) is not None]
            for run, _ in done:
                del children[run]
            ended += done
        return ended

    def _hear_starter(self) -> list[tuple[str, int]]:
        ended: list[tuple[str, int]] = []
        for reply in self._starter.receive() if self._starter is not None else ():
            found = ((run, warm) for run, warm in self._warm.items() if str(warm.folder) == reply.folder)
            run, warm = next(found, ("", None))
            if warm is None:
                continue
            match reply:
                case Started():
                    warm.pid = reply.pid
                    if warm.unwanted:
                        self._end_unwanted(run, warm)
                case StartRefused():
                    ended += self._fall_back(run, warm, reply.reason)
                case GuardEnded() if reply.pid == warm.pid:  # not the guard of an attempt that was killed before
                    del self._warm[run]
                    ended.append((run, reply.exit_code))
        return ended + self._reap_orphans()

    def _fall_back(self, run: str, warm: _Warm, reason: str) -> list[tuple[str, int]]:
        if warm.unwanted:
            self._end_unwanted(run, warm)
            return []
        del self._warm[run]
        _log.info("Run %s begins in a fresh interpreter: %s", run, reason)
        try:
            self._start_fresh(run, warm)
        except OSError as error:
            _log.error("Run %s cannot be started: %s", run, error)
            return [(run, UNKNOWN_EXIT)]
        return []

    def _end_unwanted(self, run: str, warm: _Warm) -> None:
        del self._warm[run]
        _end(warm.pid or guard_pid(warm.folder) or 0)
        self.seal(run, warm.folder, warm.attempt, "--stopped")

    def _reap_orphans(self) -> list[tuple[str, int]]:
        """Returns the runs whose guards have ended and whose parent has gone: nobody reports their end."""
        parent = self._starter.pid if self._starter is not None else None
        orphans = [(run, warm) for run, warm in self._warm.items() if warm.pid and warm.parent != parent]
        gone = [run for run, warm in orphans if warm.has_ended()]
        for run in gone:
            del self._warm[run]
        return [(run, UNKNOWN_EXIT) for run in gone]

    def kill(self, tracked: TrackedRun, attempt: int) -> None:
        """End a run at once, whatever its processes are doing, and have its journal say STOPPED.

        What the starter was asked for ends when it has answered: it may be starting it just now.
        """
        warm = self._warm.get(tracked.run)
        if warm is not None and not warm.pid and self._starter is not None:
            warm.unwanted = True
            self._starter.interrupt()
            return
        self._warm.pop(tracked.run, None)
        child = self._guards.pop(tracked.run, None)
        guard = child.pid if child is not None else guard_pid(tracked.folder.path) or (warm.pid if warm else 0)
        _end(guard, [tracked.pid] if tracked.live and is_trainer(tracked) else [])
        if child is not None:
            child.wait(timeout=_END_S)  # SIGKILL cannot be refused; a bound for a dead disk
        self.seal(tracked.run, tracked.folder.path, attempt, "--stopped")

    def seal(self, run: str, folder: Path, attempt: int, how: str) -> None:
        """Have the end of a run's journal written by a program of its own."""
        if run not in self._sealers:
            command = [*SEALER, str(folder), "--attempt", str(attempt), how]
            self._sealers[run] = self._popen(command)

    def seal_the_dead(self, live: Sequence[TrackedRun]) -> None:
        """Seal the journals of live runs of which neither guard nor trainer is left. Asks the system once a second."""
        now = time.monotonic()
        if now < self._next_ask:
            return
        self._next_ask = now + _ASK_EVERY_S
        others = (tracked for tracked in live if not self.has(tracked.run))
        alone = {tracked.run: tracked for tracked in others if not is_trainer(tracked)}
        left = {run: tracked for run, tracked in alone.items() if not is_guarded(tracked)}
        self._gone_since = {run: self._gone_since.get(run, now) for run in left}
        for run, since in self._gone_since.items():
            if now - since >= _GONE_FOR_S or left[run].boot not in ("", operating_system.boot_id()):
                self.seal(run, left[run].folder.path, left[run].attempt, "--lost")

    def _popen(self, command: list[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        _log.info("Starting %s", " ".join(command[1:]))
        env = self._environment | dict(environment or {})
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=env, **operating_system.own_session())

    def close(self, wait: float = 0.0) -> None:
        """Leave the guards alone. Sealers are short: they are waited for, ``wait`` seconds each at most.

        What the starter was asked for and has not said to have begun begins in fresh interpreters. Where it has begun,
        the second guard finds the first one and goes.
        """
        if self._starter is not None:
            self._starter.close()
        for run, warm in [(run, warm) for run, warm in self._warm.items() if not warm.pid]:
            self._fall_back(run, warm, "The agent ends.")
        for child in self._sealers.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(wait)
        for child in [*self._guards.values(), *self._sealers.values()]:
            child.returncode = child.poll() or 0  # they outlive this process on purpose; no ResourceWarning for it


def is_guarded(tracked: TrackedRun) -> bool:
    """Whether someone watches over the run, be it before its journal begins or after its trainer's end."""
    return guard_pid(tracked.folder.path) is not None


def is_trainer(tracked: TrackedRun) -> bool:
    """Whether the process that the journal names still lives; a later process with the same id is not it."""
    if not tracked.pid or tracked.boot not in ("", operating_system.boot_id()):
        return False
    journal = tracked.folder.journal(tracked.attempt).resolve()
    return still_runs_since(tracked.pid, tracked.started, lambda files: journal in files)


def _held_family(guard: int) -> list[int]:
    """A guard and its descendants. It is held first: it must not start another one meanwhile."""
    with suppress(psutil.Error):
        process = psutil.Process(guard)
        process.suspend()
        return [guard, *(child.pid for child in process.children(recursive=True))]
    return []


def _end(guard: int, others: Sequence[int] = ()) -> None:
    """Kill a guard (0: there is none) with all that it has started, and ``others``."""
    pids = [*_held_family(guard), *others] if guard else others
    for pid in dict.fromkeys(pids):
        operating_system.kill_group(pid)
    if guard:
        _wait_for_end(guard)


def _wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + _END_S
    while operating_system.is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
