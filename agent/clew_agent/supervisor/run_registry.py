"""The registry of all runs of this agent's home: found at the start without delaying it, followed while they live."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from clew_agent.supervisor.tracked_run import TrackedRun
from clew_shared.base.file_names import is_uuid
from clew_shared.base.problem import ProblemError, problem
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, read_spec

_LOOK_EVERY_S = 1.0
_ADOPT_FOR_S = 0.01
"""Seconds that one turn of the loop may spend on runs that existed before."""

_RESTING_AT_ONCE = 200
"""Ended runs that are looked at in a second: each costs two questions to a file system that may be far away."""


class RunRegistry:
    """The tracked runs by id. ``version`` grows with every change that a viewer's list shows.

    A folder belongs to the agent of a ``job`` when its latest journal names that job; to an agent outside of jobs
    (``job`` empty) when it names this host and no job; and in any case when the agent itself made it or waits to go on
    with it (``mine``). Its name must be a UUID, and its spec readable. All else on a shared file system is left alone.

    ``asked_for``: it has no other runs than those that somebody asks for. ``out`` is the folder of its only run, if
    that is not in ``folder`` under its name.
    """

    def __init__(
        self,
        folder: Path,
        mine: Callable[[str], bool],
        job: str = "",
        asked_for: bool = False,
        out: Path | None = None,
    ) -> None:
        self._folder = folder
        self._asked_for = asked_for
        self._out = out
        self.version = 1
        self.runs: dict[str, TrackedRun] = {}
        self._mine = mine
        self._job = job
        self._claimed: dict[str, int] = {}
        """Runs of others that were taken over, and the latest attempt then."""
        self._followed: set[str] = set()
        """The runs whose journals may grow, and the agent's own; the others rest, and there may be thousands."""
        self._resting: dict[str, None] = {}
        """The runs that rest, in the order in which they are looked at."""
        self._unread: deque[str] = deque()
        self._foreign: set[str] = set()
        self._next_look = 0.0

    @property
    def unread(self) -> bool:
        """Whether runs wait to be adopted."""
        return bool(self._unread)

    def place(self, run: str) -> RunFolder:
        """The folder of a run."""
        return RunFolder(self._out or self._folder / run)

    def get(self, run: str) -> TrackedRun:
        """The run. Raises ``ProblemError`` when there is none of that id (which may be any text)."""
        if self._asked_for and run not in self.runs:
            self.claim(run)
        if run not in self.runs and run in self._unread:
            self._unread.remove(run)
            self._adopt(run)
        if run not in self.runs:
            raise problem("run.unknown", f"This agent has no run {run[:64]!r}.", "It may have been removed.")
        return self.runs[run]

    def find(self, run: str) -> TrackedRun | None:
        """The run, or None."""
        try:
            return self.get(run)
        except ProblemError:
            return None

    def add(self, tracked: TrackedRun) -> None:
        """Follow a run that the agent has just made."""
        self.runs[tracked.run] = tracked
        self._followed.add(tracked.run)
        self.touch()

    def remove(self, run: str) -> None:
        """Forgets a run whose folder has gone."""
        del self.runs[run]
        self._followed.discard(run)
        self._resting.pop(run, None)
        self.touch()

    def claim(self, run: str) -> TrackedRun | None:
        """Returns the run, no matter who made it, as this agent's own from now on; None when it has no journal and
        was not to begin here."""
        found = self.runs.get(run) if self._asked_for else self.find(run)
        if found is not None:
            return found
        folder = self.place(run)
        if not (self._out or is_uuid(run)) or not (folder.attempts() or self._mine(run)):
            return None
        tracked = self._read(folder, run)
        self._foreign.discard(run)
        self._claimed[run] = tracked.attempt
        self.add(tracked)
        return tracked

    def touch(self) -> None:
        """Notes that something changed that the list shows."""
        self.version += 1

    def live(self) -> Iterator[TrackedRun]:
        """The runs of this node whose journals may grow."""
        return (tracked for tracked in self._awake() if tracked.live and not tracked.elsewhere)

    def refresh(self) -> None:
        """Does one turn: reads what grew, adopts a few waiting runs, and looks for new folders now and then."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY_S
            self.look_for_folders()
        while self._unread and time.monotonic() < now + _ADOPT_FOR_S:
            with suppress(OSError):  # it is found again at the next check
                self._adopt(self._unread.popleft())
        for tracked in self._awake():
            if tracked.refresh():
                self.touch()
            if not self._ours(tracked):
                self._leave(tracked)
            elif not (tracked.live or tracked.has_more or self._mine(tracked.run)):
                self._followed.discard(tracked.run)
                self._resting[tracked.run] = None

    def has_more(self) -> bool:
        """Whether some journal has more to read than one turn allowed."""
        return any(tracked.has_more for tracked in self._awake())

    def _awake(self) -> list[TrackedRun]:
        return [self.runs[run] for run in self._followed]

    def look_for_folders(self) -> None:
        """Drop runs whose folders have gone, and let new folders wait to be adopted."""
        if self._asked_for:
            return
        try:
            names = {path.name for path in self._folder.iterdir()}
        except FileNotFoundError:
            names = set()
        except OSError:
            return  # a shared file system that stumbles, or no descriptor left: nothing is removed for that
        for run in [run for run in self.runs if run not in names and not self.runs[run].cancelled]:
            self.remove(run)  # someone removed its folder
        self._look_at_resting()
        known = self.runs.keys() | self._foreign | set(self._unread)
        self._unread.extend(sorted(name for name in names - known if is_uuid(name)))

    def _look_at_resting(self) -> None:
        """Looks at the runs that rest: someone else may have continued one of them, from a command line."""
        for run in list(islice(self._resting, _RESTING_AT_ONCE)):
            del self._resting[run]
            if run not in self.runs or run in self._followed:
                continue
            if self.runs[run].refresh():
                self._followed.add(run)
                self.touch()
            else:
                self._resting[run] = None

    def _adopt(self, run: str) -> None:
        """Follow an existing run, unless it is another node's. Without a journal it is looked at again later."""
        folder = self.place(run)
        if not folder.attempts() and not self._mine(run):
            return
        try:
            tracked = self._read(folder, run)
        except ProblemError:
            self._foreign.add(run)
            return
        if self._ours(tracked):
            self.add(tracked)
        elif tracked.fold.attempt:
            self._foreign.add(run)

    def _read(self, folder: RunFolder, run: str) -> TrackedRun:
        """Raises ``ProblemError`` when its spec cannot be read, unless it was refused for that in a job's name."""
        try:
            spec = read_spec(folder.latest_spec)
        except ProblemError:
            if not self._job:
                raise
            spec = RunSpec(exercise="", run=run)
        tracked = TrackedRun(folder, spec, run)
        tracked.adopt()
        tracked.refresh()
        return tracked

    def _ours(self, tracked: TrackedRun) -> bool:
        """Whether the run is this agent's. Before a journal's first frame has come, nothing is known, and its run
        belongs to nobody's job."""
        claimed = self._asked_for or tracked.attempt <= self._claimed.get(tracked.run, 0)
        if claimed or self._mine(tracked.run) or tracked.cancelled:
            return True
        return tracked.job == self._job and (bool(self._job) or not tracked.elsewhere)

    def _leave(self, tracked: TrackedRun) -> None:
        """Leaves the run to another agent, which goes on with it."""
        del self.runs[tracked.run]
        self._followed.discard(tracked.run)
        self._foreign.add(tracked.run)
        self.touch()
