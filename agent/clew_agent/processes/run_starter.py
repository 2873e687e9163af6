"""What begins runs faster than a fresh interpreter, which imports TensorFlow first: a nursery where processes can be
copied, elsewhere a standby process that has imported it. Who begins a run does not know which of them it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from clew_agent.processes.nursery_client import NURSERY, NurseryClient
from clew_agent.processes.nursery_messages import GuardEnded, Started, StartRefused
from clew_agent.processes.standby_keeper import StandbyKeeper
from clew_shared.base import operating_system


class RunStarter(Protocol):
    """Starts guard and trainer of a run, and says how the guard ended."""

    @property
    def pid(self) -> int | None:
        """The process that is the guards' parent, if there is one now. If it changes, nobody reports their ends."""

    def tend(self, needed: bool) -> None:
        """Prepare runs while someone may want to start one. To be called at every turn; ``needed``: someone asked for
        something."""

    def start(self, folder: Path, attempt: int, exercises: Path | None, environment: Mapping[str, str]) -> bool:
        """Ask for guard and trainer of an attempt; ``receive`` returns the result. False: it needs a fresh
        interpreter."""

    def receive(self) -> list[Started | StartRefused | GuardEnded]:
        """Returns what has happened since the last call."""

    def interrupt(self) -> None:
        """Do not let anyone who wants the end of a run wait for an import."""

    def close(self, wait: float = 5.0) -> None:
        """End what no run has been given to; runs go on."""


def may_fork(gpus: int) -> bool:
    """Whether a run may begin as a copy of a warm process here: on Linux, as long as no GPU is involved.

    Copies of a process that has loaded an NVIDIA driver's libraries have not been tried.
    """
    return operating_system.FORKS_SAFELY and not gpus


def make_starter(
    home: Path,
    gpus: int,
    fork: bool,
    watch: Callable[[int], None],
    unwatch: Callable[[int], None],
    at_once: bool = False,
) -> RunStarter:
    """The starter for this computer with so many ``gpus``; without ``fork`` the one for systems that have none.
    ``watch`` and ``unwatch`` get the socket that wakes the supervisor's loop. ``at_once``: the run that it is started
    for is there already, so a nursery prepares nothing for others first."""
    if fork and may_fork(gpus):
        return NurseryClient(home, watch, unwatch, (*NURSERY, "--bare") if at_once else NURSERY)
    return StandbyKeeper(home, computes=not gpus)
