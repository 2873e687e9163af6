"""The interfaces that the window needs from a session: a live one, a recorded one for pictures, or a fake one in
tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from clew_gui.jobs.job import JobNews
from clew_gui.session.intake import Changes
from clew_gui.session.job_model import JobModel, LinkStatus, Place
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.run_settings import RunNote
from clew_shared.spec import RunSpec
from clew_shared.wire.messages import DisturbCluster


class RunLike(Protocol):
    """One run as the viewer knows it."""

    @property
    def id(self) -> str:
        """The run's UUID."""

    @property
    def number(self) -> int:
        """1, 2, …; kept for good."""

    @property
    def index(self) -> int:
        """The number of its curve style."""

    @property
    def spec(self) -> RunSpec:
        """The spec that it was started with."""

    @property
    def note(self) -> RunNote:
        """The note that a person wrote about it."""

    @property
    def history(self) -> History:
        """The contents of its journal so far."""

    @property
    def state(self) -> RunState:
        """The run's state."""

    @property
    def reason(self) -> str:
        """The reason for its state, in words."""

    @property
    def queue(self) -> int:
        """The run's place in the queue, from 1; 0 if it does not wait."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that it has or had; none while that is not known."""

    @property
    def link_stale(self) -> bool:
        """Whether the link to it is silent."""

    @property
    def catching_up(self) -> float | None:
        """Share of the journal that is here, 0 to 1, while an old part is still being fetched."""

    @property
    def reading(self) -> float | None:
        """Share of this computer's copy that has been read, 0 to 1, while the state of the run is not known."""

    @property
    def folder(self) -> Path:
        """The viewer's own copy of its journal."""

    @property
    def where(self) -> str:
        """The machine it runs on, in words."""

    @property
    def job(self) -> JobNews | None:
        """The latest news of its job on a site; None for a run of this computer."""


class SessionLike(Protocol):
    """The calls the window makes. None of them may block."""

    @property
    def runs(self) -> Mapping[str, RunLike]:
        """Returns all runs by id."""

    @property
    def jobs(self) -> Mapping[str, JobModel]:
        """All jobs on sites by UUID."""

    @property
    def link(self) -> LinkStatus:
        """The link to this computer's agent."""

    def tick(self, budget: float = 0.008) -> Changes:
        """Take in what arrived, for at most ``budget`` seconds."""

    def call_on_news(self, bell: Callable[[], None]) -> None:
        """Call ``bell``, from any thread, when there is something for ``tick`` again."""

    def start_run(self, spec: RunSpec, place: Place | None = None) -> str:
        """Ask for a run, on a site when there is a place; its id."""

    def start_runs(self, specs: Sequence[RunSpec], place: Place) -> Sequence[str]:
        """Ask for several runs in one job on a site; their ids."""

    def continue_study(
        self, runs: Sequence[str], missing: Sequence[RunSpec], place: Place | None = None
    ) -> Sequence[str]:
        """Go on with runs of a study that ended early, and begin the missing ones; the ids of all."""

    def try_here(self, run: str) -> str:
        """A short run of the same settings on this computer, while that one waits elsewhere; its id."""

    def hold(self, place: Place) -> str:
        """Take an allocation and keep it; the job."""

    def cancel(self, job: str) -> None:
        """End a job with all its runs, or give back an allocation."""

    def pause(self, run: str) -> None:
        """Pause after the current block."""

    def unpause(self, run: str) -> None:
        """Go on after a pause."""

    def stop(self, run: str, now: bool = False) -> None:
        """End it, after the current block or at once."""

    def set_live(self, run: str, name: str, value: float) -> None:
        """Change a live hyperparameter."""

    def disturb(self, request: DisturbCluster) -> None:
        """Slow or end a process of a parameter-server run, or add a worker."""

    def continue_run(self, run: str, *, changes: Mapping[str, str | int] | None = None) -> None:
        """Go on from the last checkpoint as a new attempt, with ``changes`` of its devices or nodes."""

    def move_run(self, run: str, place: int) -> None:
        """Put a waiting run at a place of the queue, 1 being the next."""

    def annotate(self, run: str, note: RunNote) -> None:
        """Keep a name, a note and tags of a run."""

    def forget(self, run: str) -> None:
        """Take it out of the list for good."""

    def reload_exercises(self) -> None:
        """Read the files of the folder of own exercises again."""

    def renew_agent(self) -> None:
        """Start the agent again with the present settings; runs go on."""

    def close(self) -> None:
        """End the link; runs go on."""
