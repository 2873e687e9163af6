"""The two processes of a standby where none can be copied: a guard, and its trainer, which imports TensorFlow.

Each reads one line from its standard input: the run. The guard hands it on to its trainer. Where the input ends
instead, who would send the run has gone, and they end as well. So they need neither sockets nor signals.
"""

from __future__ import annotations

import argparse
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from clew_agent.node.exit_codes import STOPPED
from clew_agent.processes.guard import spawn, trainer_environment, watch_request
from clew_agent.processes.nursery_messages import ROOM_FOR_TITLES, StartGuard, as_line, from_line
from clew_shared.base import operating_system
from clew_shared.base.terminal import prepare_output
from clew_shared.journal.run_folder import RunFolder

if TYPE_CHECKING:
    from clew_agent.processes.nursery import WarmImports

TRAINER = (sys.executable, "-P", "-m", "clew_agent.processes.standby_process", "trainer")
_UNUSED = 0
"""Exit code of a standby that no run was given to."""
_BEGIN_S = 120.0
"""Seconds after which a trainer that has its run and no journal counts as hanging: all that time it may import."""
_END_S = 5.0


def main(argv: Sequence[str] | None = None) -> int:
    """``python -m clew_agent.processes.standby_process guard|trainer``: returns the exit code for how the run ended."""
    parser = argparse.ArgumentParser(prog="clew-agent standby")
    parser.add_argument("role", choices=("guard", "trainer"))
    parser.add_argument("--room", help="is not read: it makes room for the titles of processes")
    options = parser.parse_args(argv)
    prepare_output()
    return be_trainer() if options.role == "trainer" else be_guard()


# --- The guard --------------------------------------------------------------------------------------------------------


def be_guard() -> int:
    """Have a trainer prepare itself, wait for a run, give it to it and watch over it."""
    operating_system.restore_sigchld()
    operating_system.set_title("clew-agent guard standby")
    waiting = WaitingTrainer()
    request = from_line(sys.stdin.buffer.readline())
    if request is None:
        waiting.close()
        return _UNUSED

    def start(folder: RunFolder, attempt: int, exercises: Path | None) -> operating_system.Child:
        return waiting.take(request, lambda: spawn(folder, attempt, exercises))

    return watch_request(request, start)


class WaitingTrainer:
    """A trainer that prepares itself for a run which nobody has asked for yet. Raises ``OSError`` when the system
    refuses a process."""

    def __init__(self) -> None:
        words = [*TRAINER, "--room", ROOM_FOR_TITLES]
        # What the import prints belongs to no run. If it fails, a fresh trainer fails as well, and prints into its log.
        nowhere = subprocess.DEVNULL
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=nowhere,
            stderr=nowhere,
            env=trainer_environment(),
            **operating_system.own_session(),
        )

    def take(self, request: StartGuard, fresh: Callable[[], operating_system.Child]) -> operating_system.Child:
        """Gives it the run; returns it, or a ``fresh`` trainer if it has died."""
        try:
            self._end_input(as_line(request))
        except OSError:
            return fresh()
        return HandedOver(self._process, RunFolder(Path(request.folder)).journal(request.attempt), fresh)

    def close(self) -> None:
        """No run comes any more: it has nothing to save."""
        self._process.kill()
        self._process.wait()
        with suppress(OSError):
            self._end_input()

    def _end_input(self, line: bytes = b"") -> None:
        if self._process.stdin is not None:
            with self._process.stdin:
                self._process.stdin.write(line)


class HandedOver:
    """A trainer that has waited and now has a run. If it ends or hangs before it begins the journal, without having
    been asked to stop, a ``fresh`` one takes its place."""

    def __init__(
        self, trainer: subprocess.Popen[bytes], journal: Path, fresh: Callable[[], operating_system.Child]
    ) -> None:
        self._child: operating_system.Child = trainer
        self._journal = journal
        self._fresh = fresh
        self._replaceable = True
        self._deadline = time.monotonic() + _BEGIN_S

    @property
    def pid(self) -> int:
        """The process that has the run."""
        return self._child.pid

    def poll(self) -> int | None:
        """Its exit code when it has ended, else None."""
        code = self._child.poll()
        if not self._replaceable:
            return code
        late = code is None and time.monotonic() > self._deadline
        if (code is None and not late) or code == STOPPED:
            return code
        self._replaceable = False
        if self._journal.exists():
            return code
        if late:
            self._child.kill()
            self._child.wait(_END_S)
        if not self._journal.exists():  # in the last moment
            self._child = self._fresh()
        return self._child.poll()

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it has not ended. It may end by that before it listens."""
        self._replaceable = False
        self._child.send_signal(sig)

    def terminate(self) -> None:
        """Ask it to end."""
        self._replaceable = False
        self._child.terminate()

    def kill(self) -> None:
        """End it at once."""
        self._replaceable = False
        self._child.kill()

    def wait(self, timeout: float) -> int:
        """Its exit code, as soon as it has ended. Raises ``subprocess.TimeoutExpired`` after so many seconds."""
        return self._child.wait(timeout)


# --- The trainer ------------------------------------------------------------------------------------------------------


def be_trainer() -> int:
    """Import TensorFlow, wait for a run and train it."""
    operating_system.end_before_others()  # when memory runs out, what nobody uses goes first
    asked: list[int] = []
    with operating_system.stop_requests(asked.append):
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(lines,), name="request", daemon=True).start()
        warm = _warm_up(lines)
        operating_system.set_title("clew-agent trainer standby")
        request = from_line(lines.get())
        if request is None or asked:
            return STOPPED if asked else _UNUSED
        request.take_environment()
        folder = RunFolder(Path(request.folder))
        operating_system.set_title(f"clew-agent trainer {folder.path} --attempt {request.attempt}")
        operating_system.print_to(folder.log)
        return warm.train(folder, request.attempt, request.exercises_folder(), copies=False, asked=asked)


def _listen(lines: queue.SimpleQueue[bytes]) -> None:
    operating_system.wait_for_input(sys.stdin.fileno())
    line = sys.stdin.buffer.readline()
    if not line:  # nobody can send a run any more: it need not import to the end either
        operating_system.exit_at_once(_UNUSED)
    lines.put(line)


def _warm_up(lines: queue.SimpleQueue[bytes]) -> WarmImports:
    """Do what can be done beforehand; as soon as a run is there, only what it needs."""
    from clew_agent.processes.nursery import WarmImports  # late: the guard needs none of it

    warm = WarmImports()
    if lines.empty():
        warm.keep_data()
    return warm


if __name__ == "__main__":
    sys.exit(main())
