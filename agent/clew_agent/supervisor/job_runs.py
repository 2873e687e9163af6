"""The work that an agent does for its batch job without being asked: it begins the runs in the job's folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from clew_agent.catalogue.catalogue import CatalogueSource
from clew_agent.node.allocation import Allocation
from clew_agent.supervisor.run_manager import RunManager
from clew_agent.trainer.spec_check import combine
from clew_shared.base.file_names import is_uuid
from clew_shared.base.problem import ProblemError, problem
from clew_shared.spec import RunSpec, read_spec

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_WHOLE_AFTER_S = 5.0
"""Age in seconds from which a spec that cannot be read is wrong; a younger one may be one that is still being
written."""
_ASK_EVERY_S = 5.0
"""Seconds between two looks whether the job was started again elsewhere: each is a look at a shared disk."""


class JobRunStarter:
    """Looks after the specs ``runs/<run>.toml`` in the folder of ``allocation``, also those that come later.

    ``overtaken`` says whether another agent serves this job now: the job was queued again while this node was cut off.
    """

    def __init__(
        self, allocation: Allocation, manager: RunManager, overtaken: Callable[[], bool] = lambda: False
    ) -> None:
        self.pending = allocation.runs is not None
        """Whether a spec still has to be handled; before the first check nobody knows."""
        self.over = False
        """Whether this agent has nothing to do here any more."""
        self._runs = allocation.runs
        self._incarnation = allocation.incarnation
        self._manager = manager
        self._overtaken = overtaken
        self._handled: set[str] = set()
        self._logged: set[str] = set()
        self._next_look = self._next_ask = 0.0
        self._named: frozenset[str] = frozenset()
        self._find()
        manager.awaited = self._awaits

    def turn(self, catalogue: CatalogueSource) -> None:
        """Begin what can begin now. Looks once a second, when the catalogue is ready."""
        now = time.monotonic()
        if now >= self._next_ask:
            self._next_ask = now + _ASK_EVERY_S
            self.over = self.over or self._overtaken()
        if now >= self._next_look and catalogue.ready() and not self.over:
            self._next_look = now + _LOOK_EVERY_S
            self.pending = self._look(catalogue)

    def _awaits(self, run: str) -> bool:
        name = f"{run}.toml"
        is_due = name in self._named and name not in self._handled
        return is_due and not self.over and not self._manager.is_handled(run, self._incarnation)

    def _find(self) -> bool:
        """Note which runs the folder names; False when it cannot be read now."""
        try:
            found = self._runs.glob("[!.]*.toml") if self._runs is not None else ()
            self._named = frozenset(path.name for path in found)
        except OSError as error:
            self._say("folder", f"The job's folder cannot be read: {error}.")
            return False
        return True

    def _look(self, catalogue: CatalogueSource) -> bool:
        if not self._find():
            return self.pending
        waiting = [name for name in sorted(self._named) if name not in self._handled]
        for name in waiting:
            try:
                self._handle(name, catalogue)
            except OSError as error:  # it is tried again at the next check
                self._say(name, f"The run {name} of this job cannot be begun now: {error}.")
        return any(name not in self._handled for name in waiting)

    def _handle(self, name: str, catalogue: CatalogueSource) -> None:
        path = (self._runs or Path()) / name
        if not is_uuid(path.stem):
            self._handled.add(name)
            _log.error("%s names no run: the file name must be the run's UUID.", path)
            return
        try:
            begun = self._manager.begin(_read(path), catalogue.get(), self._incarnation)
        except ProblemError as error:
            found = combine(error.problems)
            if found.code.startswith("spec.") and time.time() - path.stat().st_mtime < _WHOLE_AFTER_S:
                return
            _log.error("The run %s of this job is refused: %s", path.stem, found)
            self._manager.refuse(path.stem, path.read_bytes(), found, self._incarnation)
            begun = True
        if begun:
            self._handled.add(name)

    def _say(self, what: str, words: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("%s", words)


def _read(path: Path) -> RunSpec:
    """The spec in the file, whose name is the run's. Raises ``ProblemError``."""
    spec = read_spec(path)
    if spec.run not in ("", path.stem):
        hint = "Give the file the run's name."
        raise problem("spec.run", f"{path} is the spec of another run, {spec.run[:64]!r}.", hint, "run")
    return msgspec.structs.replace(spec, run=path.stem)
