"""The supervisor's hands: starts guards and sealers, sees whether processes live, ends a run at once."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from clew_agent import posix
from clew_agent.tracked_run import TrackedRun

_log = logging.getLogger(__name__)

GUARD = (sys.executable, "-P", "-m", "clew_agent", "guard")
SEALER = (sys.executable, "-P", "-m", "clew_agent.sealer")
_GONE_FOR_S = 5.0
"""So long may a guard take to seal after its trainer's death before both are taken for gone."""
_ASK_EVERY_S = 1.0


class Launcher:
    """Children of the supervisor by run. Guards are in sessions of their own: they survive it."""

    def __init__(self, home: Path, guard: Sequence[str] = GUARD, exercises: Path | None = None) -> None:
        self._guard = [*guard]
        self._extra = ["--exercises", str(exercises)] if exercises else []
        self._environment = os.environ | {"CLEW_HOME": str(home)}
        self._guards: dict[str, subprocess.Popen[bytes]] = {}
        self._sealers: dict[str, subprocess.Popen[bytes]] = {}
        self._gone_since: dict[str, float] = {}
        self._foreign: dict[str, psutil.Process] = {}
        """Guards that other programs started, as long as their runs live."""
        self._next_ask = 0.0

    def __len__(self) -> int:
        return len(self._guards) + len(self._sealers)

    def has(self, run: str) -> bool:
        """Whether a child works on this run."""
        return run in self._guards or run in self._sealers

    def start(self, folder: Path, attempt: int, environment: Mapping[str, str] | None = None) -> None:
        """Start the guard of an attempt, which starts its trainer, both with ``environment`` beside the agent's own.

        Raises ``OSError`` when the system refuses.
        """
        command = [*self._guard, str(folder), "--attempt", str(attempt), *self._extra]
        self._guards[folder.name] = self._popen(command, environment)

    def reap(self) -> list[tuple[str, int]]:
        """The runs whose guard or sealer has ended since the last call, with its exit code."""
        ended = []
        for children in (self._guards, self._sealers):
            done = [(run, code) for run, child in children.items() if (code := child.poll()) is not None]
            for run, _ in done:
                del children[run]
            ended += done
        return ended

    def kill(self, tracked: TrackedRun, attempt: int) -> None:
        """End a run at once, whatever its processes are doing, and have its journal say STOPPED."""
        guard = self._guards.pop(tracked.run, None)
        pids = _held_children(guard.pid) if guard is not None else []
        if tracked.live and tracked.boot in ("", posix.boot_id()) and is_trainer(tracked):
            foreign = _guard_of(tracked.pid)
            pids += [tracked.pid] if foreign is None else [foreign.pid, tracked.pid]
        if guard is not None:
            guard.kill()
            guard.wait(timeout=5)  # SIGKILL cannot be refused; a bound for a dead disk
        for pid in dict.fromkeys(pids):
            _kill_group(pid)
        self.seal(tracked, attempt, "--stopped")

    def seal(self, tracked: TrackedRun, attempt: int, how: str) -> None:
        """Have the end of a run's journal written by a program of its own."""
        if tracked.run not in self._sealers:
            command = [*SEALER, str(tracked.folder.path), "--attempt", str(attempt), how]
            self._sealers[tracked.run] = self._popen(command)

    def seal_the_dead(self, live: Sequence[TrackedRun]) -> None:
        """Seal the journals of live runs of which neither guard nor trainer is left. Asks the system once a second."""
        now = time.monotonic()
        if now < self._next_ask:
            return
        self._next_ask = now + _ASK_EVERY_S
        others = [tracked for tracked in live if not self.has(tracked.run)]
        orphans = [tracked for tracked in others if not is_trainer(tracked)]
        self._note_guards([tracked for tracked in others if tracked not in orphans], {one.run for one in live})
        suspects = {one.run: one for one in orphans if not self._watched(one.run) and not _has_guard(one.run)}
        self._gone_since = {run: self._gone_since.get(run, now) for run in suspects}
        for run, since in self._gone_since.items():
            if now - since >= _GONE_FOR_S or suspects[run].boot not in ("", posix.boot_id()):
                self.seal(suspects[run], suspects[run].attempt, "--lost")

    def _note_guards(self, training: Sequence[TrackedRun], live: set[str]) -> None:
        """Remember who watches trainers that this supervisor did not start: when they die, he writes the end."""
        self._foreign = {run: guard for run, guard in self._foreign.items() if run in live}
        for tracked in training:
            guard = _guard_of(tracked.pid)
            if guard is not None:
                self._foreign[tracked.run] = guard

    def _watched(self, run: str) -> bool:
        guard = self._foreign.get(run)
        with suppress(psutil.Error):
            return guard is not None and guard.is_running() and guard.status() != psutil.STATUS_ZOMBIE
        return False

    def _popen(self, command: list[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        _log.info("Starting %s", " ".join(command[1:]))
        env = self._environment | dict(environment or {})
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=env, **posix.own_session())

    def close(self, wait: float = 0.0) -> None:
        """Leave the guards alone. Sealers are short: they are waited for, ``wait`` seconds each at most."""
        for child in self._sealers.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(wait)
        for child in [*self._guards.values(), *self._sealers.values()]:
            child.returncode = child.poll() or 0  # they outlive this process on purpose; no ResourceWarning for it


def is_trainer(tracked: TrackedRun) -> bool:
    """Whether the process that the journal names still lives; a later process with the same id is not it."""
    if not tracked.pid or tracked.boot not in ("", posix.boot_id()):
        return False
    try:
        process = psutil.Process(tracked.pid)
        younger = process.create_time() > tracked.started + 60.0  # clocks are corrected now and then
        return process.status() != psutil.STATUS_ZOMBIE and not younger
    except psutil.Error:
        return False


def _held_children(pid: int) -> list[int]:
    """The descendants of a process, which is held first: it must not start another one behind our back."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        process.suspend()
        return [child.pid for child in process.children(recursive=True)]
    return []


def _guard_of(trainer: int) -> psutil.Process | None:
    """The parent of a trainer when it is a guard, be it the program ``guard`` or a headless ``run``."""
    with suppress(psutil.Error):
        parent = psutil.Process(trainer).parent()
        if parent is not None and {"guard", "run"} & {*parent.cmdline()}:
            return parent
    return None


def _has_guard(run: str) -> bool:
    """Whether a guard or sealer that another program started works on the run; asked only when its trainer is gone."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if any(word in ("guard", "clew_agent.sealer") for word in words) and any(run in word for word in words):
            return True
    return False


def _kill_group(pid: int) -> None:
    """Kill the process and, where it leads one, its whole group."""
    with suppress(OSError, AttributeError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
    with suppress(psutil.Error):
        psutil.Process(pid).kill()
