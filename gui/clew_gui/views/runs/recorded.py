"""Runs read from their folders, without an agent: for pictures of the window and for a computer without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from clew_gui.session.intake import Changes
from clew_gui.session.job_model import JobModel, LinkState, LinkStatus, Place
from clew_gui.session.run_record import RunRecord
from clew_gui.session.runs import RunModel
from clew_gui.views.presentation.interfaces import RunLike
from clew_shared.base.problem import ProblemError, problem
from clew_shared.base.remedies import list_all
from clew_shared.journal.files import attempts, began
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.run_settings import NO_NOTE, RunNote
from clew_shared.spec import RunSpec, read_spec
from clew_shared.wire.messages import DisturbCluster


@dataclass(frozen=True)
class RunHeader:
    """The facts that are known without a run's history: its spec, and when it began."""

    spec: RunSpec
    folder: Path
    began: float


class HasSpec(Protocol):
    """A run, or its head."""

    @property
    def spec(self) -> RunSpec:
        """The spec that the run was started with."""


def read_heads(folders: Iterable[Path]) -> dict[str, RunHeader]:
    """The runs in these folders by id, in the order in which they began; folders that hold no run are left out."""
    found: dict[str, RunHeader] = {}
    for folder in folders:
        try:
            spec = read_spec(RunFolder(folder).latest_spec)
        except ProblemError:
            continue
        if attempts(folder):
            found[spec.run or folder.name] = RunHeader(spec, folder, began(folder))
    return dict(sorted(found.items(), key=lambda item: item[1].began))


def read_runs(heads: Mapping[str, RunHeader], record: RunRecord, exercise: str = "") -> dict[str, RunModel]:
    """The runs of ``exercise`` (empty: all), read in full. Numbers are those of ``record``; nothing is added to it."""
    numbers = record.number_all(heads, keep=False)
    found: dict[str, RunModel] = {}
    for run, head in heads.items():
        if exercise in ("", head.spec.exercise):
            with suppress(ProblemError):
                history = read_run(head.folder)
                spec = msgspec.structs.replace(head.spec, run=run)
                model = found[run] = RunModel(spec, numbers[run], head.folder, "This computer")
                model.history, model.note = history, record.notes.get(run, NO_NOTE)
    return found


def choose_run(runs: Mapping[str, HasSpec], wanted: str, exercise: str) -> str:
    """The id of the run to show: ``wanted``, or the one of ``exercise`` (empty: of any) that began last.

    ``wanted`` is an id, or ``latest``, or empty; empty is also the answer when there is nothing to show. Raises
    ``ProblemError`` for an id that is not there.
    """
    if wanted in runs:
        return wanted
    if wanted not in ("", "latest"):
        raise problem("run.unknown", f"There is no run {wanted!r}.", "", wanted, list_all("runs"))
    return next((run for run in reversed(list(runs)) if exercise in ("", runs[run].spec.exercise)), "")


RECORDED = LinkStatus(LinkState.RECORDED, 0.0, "recorded runs only")


class RecordedSession:
    """A session that only shows recorded runs, of one exercise or of all. Anyone who wants more of it gets a
    sentence."""

    def __init__(self, runs: Mapping[str, RunLike], link: LinkStatus = RECORDED) -> None:
        self.runs = runs
        self.jobs: Mapping[str, JobModel] = {}
        self.link = link

    def tick(self, budget: float = 0.008) -> Changes:
        """Returns no changes."""
        del budget
        return Changes()

    def call_on_news(self, bell: Callable[[], None]) -> None:
        """Does nothing, because there will be no news."""

    def _refuse(self) -> ProblemError:
        return problem(
            "session.recorded", "These runs are recorded; there is no agent to act on them.", "Open the window."
        )

    def start_run(self, spec: RunSpec, place: Place | None = None) -> str:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def start_runs(self, specs: Sequence[RunSpec], place: Place) -> Sequence[str]:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def continue_study(
        self, runs: Sequence[str], missing: Sequence[RunSpec], place: Place | None = None
    ) -> Sequence[str]:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def try_here(self, run: str) -> str:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def hold(self, place: Place) -> str:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def cancel(self, job: str) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def pause(self, run: str) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def unpause(self, run: str) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def stop(self, run: str, now: bool = False) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def set_live(self, run: str, name: str, value: float) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def disturb(self, request: DisturbCluster) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def continue_run(self, run: str, *, changes: Mapping[str, str | int] | None = None) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def move_run(self, run: str, place: int) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def annotate(self, run: str, note: RunNote) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def forget(self, run: str) -> None:
        """Refuses, because there is no agent."""
        raise self._refuse()

    def reload_exercises(self) -> None:
        """Does nothing, because there is no agent to read them."""

    def renew_agent(self) -> None:
        """Does nothing, because there is no agent."""

    def close(self) -> None:
        """Does nothing, because there is nothing to close."""
