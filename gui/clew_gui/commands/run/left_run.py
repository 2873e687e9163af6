"""Runs of a study that go on although the program that started them was killed: they are waited for, not done twice."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from clew_gui.commands.context import OK
from clew_gui.session.study_runner import StudyRunner
from clew_shared.base import operating_system
from clew_shared.base.problem import ProblemError
from clew_shared.base.process_identity import still_runs_since
from clew_shared.journal.events import Attempt
from clew_shared.journal.history import History
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.wire.turns import RunEnded

_SEAL_S = 3.0
"""A guard seals the journal of a trainer that died within a tenth of a second, unless it hangs."""


class LeftRun(NamedTuple):
    """A run that trains on this computer, and the beginning of its last attempt."""

    folder: Path
    begun: Attempt


def left_runs(runner: StudyRunner) -> Iterator[LeftRun]:
    """The runs of a study that train on this computer now."""
    for folder in (runner.folders / run for run in runner.runs()):
        with suppress(ProblemError):
            if (found := left_run(folder, read_run(folder))) is not None:
                yield found


def left_run(folder: Path, history: History) -> LeftRun | None:
    """The run in ``folder`` if it trains on this computer now."""
    begun = history.begun if not history.fold.done else None
    return LeftRun(folder, begun) if begun is not None and _runs(begun, folder) else None


def trains_here(folder: Path) -> bool:
    """Whether the run in ``folder`` trains on this computer now; one that cannot be read is not known to."""
    with suppress(ProblemError):
        return left_run(folder, read_run(folder)) is not None
    return False


def _runs(begun: Attempt, folder: Path) -> bool:
    here = begun.host == socket.gethostname() and begun.pid > 0
    journal = RunFolder(folder).journal(begun.attempt)
    return here and still_runs_since(begun.pid, begun.time, lambda files: journal in files)


class LeftAgent:
    """The agent of a left run: another program's child, found by its id. It is asked as an ``AgentProgram`` is."""

    def __init__(self, left: LeftRun) -> None:
        self._left = left
        self._ended = 0.0

    def wait(self, seconds: float) -> RunEnded | None:
        """Wait for the end of the run, at most that many seconds."""
        time.sleep(seconds)
        if _runs(self._left.begun, self._left.folder):
            return None
        self._ended = self._ended or time.monotonic()
        with suppress(ProblemError):
            if read_run(self._left.folder).fold.done:
                return RunEnded(OK)
        return RunEnded(OK) if time.monotonic() - self._ended > _SEAL_S else None

    def ask_to_stop(self) -> None:
        """Asks the agent to stop, as Ctrl+C does."""
        if _runs(self._left.begun, self._left.folder):
            operating_system.ask_to_stop(self._left.begun.pid)

    def kill(self) -> None:
        """End it at once."""
        if _runs(self._left.begun, self._left.folder):
            operating_system.kill_process(self._left.begun.pid)
