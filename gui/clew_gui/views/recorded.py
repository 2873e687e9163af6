"""Runs read from their folders, without an agent: for pictures of the window and for a computer without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from clew_gui.session.job_record import JobRecord
from clew_gui.views.ports import RunLike
from clew_shared.history import History, read_run
from clew_shared.lifecycle import RunState
from clew_shared.problem import Problem, ProblemError, problem
from clew_shared.runfolder import RunFolder
from clew_shared.spec import RunSpec, read_spec


@dataclass(frozen=True)
class RecordedRun:
    """One run as its folder tells it."""

    id: str
    number: int
    index: int
    spec: RunSpec
    history: History
    folder: Path
    where: str = "This computer"
    link_stale: bool = False
    catching_up: float | None = None
    reading: float | None = None
    queue: int = 0
    devices: tuple[str, ...] = ()

    @property
    def state(self) -> RunState:
        """Where the journal ends."""
        return self.history.fold.state

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self.history.fold.reason


@dataclass(frozen=True)
class RecordedLink:
    """There is no link, and none is missing."""

    state: str = "RECORDED"
    since: float = 0.0
    text: str = "recorded runs only"
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoChanges:
    """Nothing ever changes."""

    points: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    new: frozenset[str] = frozenset()
    link: bool = False
    problems: tuple[Problem, ...] = ()


def read_folders(folders: Iterable[Path], record: JobRecord) -> dict[str, RecordedRun]:
    """The runs in these folders by id, in the order in which they began; folders that hold no run are left out.

    Their numbers are those of ``record``, to which nothing is added.
    """
    found: dict[str, tuple[RunSpec, History, Path]] = {}
    for folder in folders:
        try:
            spec, history = read_spec(RunFolder(folder).spec), read_run(folder)
        except ProblemError:
            continue
        found[spec.run or folder.name] = spec, history, folder
    begun = dict(sorted(found.items(), key=lambda item: item[1][1].fold.first_started))
    numbers = record.number_all(begun, keep=False)
    return {
        run: RecordedRun(run, numbers[run], numbers[run] - 1, spec, history, folder)
        for run, (spec, history, folder) in begun.items()
    }


def choose_run(runs: Mapping[str, RunLike], wanted: str, exercise: str) -> str:
    """The id of the run to show: ``wanted``, or the one of ``exercise`` (empty: of any) that began last.

    ``wanted`` is an id, or ``latest``, or empty; empty is also the answer when there is nothing to show. Raises
    ``ProblemError`` for an id that is not there.
    """
    if wanted in runs:
        return wanted
    if wanted not in ("", "latest"):
        raise problem("run.unknown", f"There is no run {wanted!r}.", "`clew runs` lists them.", wanted)
    return next((run for run in reversed(list(runs)) if exercise in ("", runs[run].spec.exercise)), "")


class RecordedSession:
    """A session that only looks back. Whoever wants more of it gets a sentence."""

    def __init__(self, folders: Iterable[Path], record: JobRecord) -> None:
        self.runs: Mapping[str, RunLike] = read_folders(folders, record)
        self.link = RecordedLink()

    def tick(self, budget: float = 0.008) -> NoChanges:
        """Nothing arrives."""
        del budget
        return NoChanges()

    def call_on_news(self, bell: Callable[[], None]) -> None:
        """There will be none."""

    def _refuse(self) -> ProblemError:
        return problem("session.recorded", "These runs are recorded; no agent is there to act.", "Open the window.")

    def start_run(self, spec: RunSpec) -> str:
        """Refused."""
        raise self._refuse()

    def pause(self, run: str) -> None:
        """Refused."""
        raise self._refuse()

    def unpause(self, run: str) -> None:
        """Refused."""
        raise self._refuse()

    def stop(self, run: str, now: bool = False) -> None:
        """Refused."""
        raise self._refuse()

    def set_live(self, run: str, name: str, value: float) -> None:
        """Refused."""
        raise self._refuse()

    def continue_run(self, run: str) -> None:
        """Refused."""
        raise self._refuse()

    def move_run(self, run: str, place: int) -> None:
        """Refused."""
        raise self._refuse()

    def forget(self, run: str) -> None:
        """Refused."""
        raise self._refuse()

    def close(self) -> None:
        """Nothing to close."""
