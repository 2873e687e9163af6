"""The runs that a viewer knows: each with its spec, its curves, and the evidence from which its state is folded."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.jobs.job import JobStatus
from clew_gui.jobs.job_book import JobBook
from clew_gui.session.links.mirror import Mirror
from clew_gui.session.run_record import RunLine, RunRecord
from clew_gui.session.run_state import CATCHING_UP_BYTES, Evidence, is_complete, shown_state
from clew_gui.session.summaries import RunSummary
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError, did_you_mean, problem
from clew_shared.base.remedies import list_all
from clew_shared.journal.files import attempts, began
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunFold, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.run_settings import NO_NOTE, RunNote
from clew_shared.spec import MAX_NAME, RunSpec, from_toml, read_spec, without_study
from clew_shared.wire.messages import RunStatus

_NOT_BEGUN = RunFold()
"""The fold of every run of which nothing was read: a window knows thousands."""


class RunModel:
    """A run as the viewer knows it. Changed by ``Session.tick`` only. ``number`` is kept for good; ``index`` picks the
    curve's style.

    ``where`` is the machine in words, ``site`` its name among the sites (empty: this computer).
    """

    def __init__(self, spec: RunSpec, number: int, folder: Path, where: str) -> None:
        self.id = spec.run
        self.spec = spec
        self.number = number
        self.index = number - 1
        self.folder = folder
        self.where = where
        self._history: History | None = None
        self.note = RunNote()
        self.link_stale = False
        self.logged_out = False
        """Nobody is logged in on the site of its job, so that nothing of it comes."""
        self.status: RunStatus | None = None
        """The agent's latest status; None if it does not know the run, or has not been asked yet."""
        self.refused = ""
        self.never_arrived = False
        """The agent does not know it and there is no journal: its request was lost with an earlier window."""
        self.link = ""
        """The job through whose link it comes; empty for this computer's."""
        self.elsewhere = False
        """Whether it is no run of this computer: the agent here does not know it, and need not."""
        self.site = ""
        self.job: JobStatus | None = None
        """The news of the latest job that it was given to; None for a run of this computer."""
        self.follows_on = False
        """An earlier job had it before this one: what its journal says may be that one's end."""
        self.settled = False
        """Whether its job is over, and all that it left of the journals is here."""
        self.copied = 0
        """Bytes of this computer's copy when the run was found, which are read first."""
        self.summary: RunSummary | None = None
        """What an earlier program found in that copy."""
        self.version = 0
        """Counts what arrived of it."""
        self._have: dict[int, tuple[int, int]] = {}
        self._read = 0

    @property
    def history(self) -> History:
        """Returns what was taken in of its journal."""
        if self._history is None:
            self._history = History()
        return self._history

    @history.setter
    def history(self, history: History) -> None:
        self._history = history

    @property
    def summed_up(self) -> RunSummary | None:
        """What is known of it until its copy here has been read; None from then on."""
        return self.summary if self.summary is not None and self._read < self.copied else None

    @property
    def fold(self) -> RunFold:
        """Returns the fold of its journal, without making a history where nothing was read."""
        if (summary := self.summed_up) is not None:
            return summary.fold
        return self._history.fold if self._history is not None else _NOT_BEGUN

    @property
    def at_rest(self) -> bool:
        """Whether its journal has its end, and neither an agent nor a job says otherwise."""
        return self.fold.done and self.job is None and (self.status is None or self.status.state in TERMINAL)

    @property
    def evidence(self) -> Evidence:
        """Returns everything that its state is derived from."""
        return Evidence(
            fold=self.fold,
            status=self.status,
            job=self.job,
            follows_on=self.follows_on,
            settled=self.settled,
            refused=self.refused,
            never_arrived=self.never_arrived,
            coming=self.catching_up is not None,
            ahead=self._is_ahead,
        )

    @property
    def state(self) -> RunState:
        """Returns the state that ``shown_state`` derives."""
        return shown_state(self.evidence)[0]

    @property
    def reason(self) -> str:
        """Returns the reason in words; empty if there is nothing to say."""
        return shown_state(self.evidence)[1]

    @property
    def complete(self) -> bool:
        """Whether it has ended, and all of its journal has been taken in."""
        return is_complete(self.evidence)

    @property
    def unread(self) -> bool:
        """Whether its journal was found here and not read yet, and no agent or job has it still to do: mostly it ended
        long ago."""
        over = self.status is None or self.status.state in TERMINAL
        return bool(self.copied) and not self.fold.attempt and self.job is None and over

    @property
    def withdrawn(self) -> bool:
        """Whether it ended in the agent's queue, before it began: there is no journal to come."""
        listed = self.status
        return not self.fold.attempt and listed is not None and listed.state in TERMINAL and not listed.size

    @property
    def _is_ahead(self) -> bool:
        """Whether more of the journal is here than there was when the agent spoke last: the rest came as files."""
        status = self.status
        if status is None or not self.link_stale:
            return False
        have, _ = self._have.get(status.attempt, (0, 0))
        return status.attempt < self.fold.attempt or status.size < have

    @property
    def queue(self) -> int:
        """Returns its place in the agent's queue, from 1; 0 if it does not wait."""
        return self.status.queue if self.status is not None else 0

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the devices that it has or had, as far as the agent reports them."""
        return self.status.devices if self.status is not None else ()

    @property
    def catching_up(self) -> float | None:
        """Share of the journals that has been taken in, 0 to 1, while much of them is still to come; else None."""
        size = sum(size for _, size in self._have.values())
        return self._read / size if size - self._read > CATCHING_UP_BYTES else None

    @property
    def reading(self) -> float | None:
        """Share of this computer's copy that has been read, while that goes on and the agent does not say that it
        trains: what was read so far shows an old state."""
        ended = self.status is None or self.status.state in TERMINAL
        return self._read / self.copied if ended and self._read < self.copied else None

    def took(self, attempt: int, have: int, size: int) -> None:
        """Note how much of an attempt's journal has been taken in."""
        before = self._have.get(attempt, (0, 0))
        self._have[attempt] = (max(have, before[0]), max(size, before[1]))
        self._read += self._have[attempt][0] - before[0]

    def restart(self) -> None:
        """Discards what was taken in; it comes again."""
        self._history = self.summary = None
        self._have.clear()
        self._read = 0


# --- Run table --------------------------------------------------------------------------------------------------------
# All runs that a viewer knows, with their numbers and the jobs that they were given to.


class RunTable:
    """The table of all runs. ``models`` by id, in the order in which they were found, ``by_exercise`` the same by
    exercise. ``here`` is this computer in words; ``book`` None: no run was given to a job."""

    def __init__(self, places: Places, record: RunRecord, book: JobBook | None, here: str) -> None:
        self.models: dict[str, RunModel] = {}
        self.by_exercise: dict[str, dict[str, RunModel]] = {}
        self._unkept: dict[str, RunModel] = {}
        """Those whose number is not theirs for good."""
        self.record = record
        self._places = places
        self._book = book
        self._here = here

    def mirror(self, run: str) -> Mirror:
        """Returns this computer's copy of the run."""
        return Mirror(self._places.mirrors / run)

    def add(self, spec: RunSpec, lasting: bool = True, kept: bool = True) -> RunModel:
        """The model of a run that is new here. Raises ``OSError`` if the disk refuses to keep its number. One that is
        not ``kept`` has the next free number, for as long as it is free."""
        number = self.record.number(spec.run, lasting) if kept else self.record.next_number
        for other in self._unkept.values():
            if other.number == number and kept:
                other.number = self.record.next_number
        where = self.record.where.get(spec.run, "")
        model = RunModel(spec, number, self._places.mirrors / spec.run, where or self._here)
        model.elsewhere = bool(where)
        model.note = self.record.notes.get(spec.run, model.note)
        model.refused = self.record.refused.get(spec.run, "")
        if not kept:
            self._unkept[model.id] = model
        self.keep(model)
        self.place(model)
        return model

    def keep(self, model: RunModel) -> None:
        """Puts a run into the table."""
        self.models[model.id] = self.by_exercise.setdefault(model.spec.exercise, {})[model.id] = model

    def number(self, run: str) -> None:
        """Gives a run its number for good. Raises ``OSError`` if the disk refuses."""
        self.models[run].number = self.record.number(run)
        self._unkept.pop(run, None)

    def drop(self, run: str) -> None:
        """Takes a run out of the table."""
        self._unkept.pop(run, None)
        del self.by_exercise[self.models.pop(run).spec.exercise][run]

    def place(self, model: RunModel) -> None:
        """Note in the model which job it was given to last, if to any."""
        job = self._book.job_of(model.id) if self._book is not None else ""
        if not job or self._book is None:
            return
        model.elsewhere = True
        model.site, model.where = self._book.order(job).site, self._book.title(job)
        model.job, model.status = self._book.news(job), None
        model.settled = self.record.settled.get(model.id) == job
        model.follows_on = self._book.went_with(model.id, but=job)

    def settle(self, model: RunModel, job: str) -> None:
        """Notes that all that the job left of the run is here; if that cannot be written, it is looked for again next
        time. Another job may have the run by now."""
        if model.job is None or model.job.job == job:
            model.settled, model.status = True, None
        with suppress(OSError):
            self.record.add(RunLine(run=model.id, job=job))


# --- Recorded runs ----------------------------------------------------------------------------------------------------
# Runs read from their folders, without an agent: for pictures of the window, for a computer without TensorFlow, and to
# be played by the slider.


DEMONSTRATION = "demo:"


def demonstrations() -> dict[str, Path]:
    """The recorded runs that come with Clew, by name."""
    place = Path(str(files("clew_gui").joinpath("demonstrations")))
    return {path.name: path for path in sorted(place.glob("*")) if attempts(path)}


def find_demonstration(name: str) -> Path:
    """The folder of a demonstration. Raises ``ProblemError`` for a name that no demonstration has."""
    known = demonstrations()
    if name not in known:
        hint = did_you_mean(name, known) or f"There are: {', '.join(known) or 'none'}."
        raise problem("replay.demo", f"There is no demonstration {name!r}.", hint, name)
    return known[name]


def read_recording(folder: Path) -> tuple[RunSpec, History]:
    """A run that has ended, as a recording of it: another run, which reaches no goal and cannot be handed in. Raises
    ``ProblemError`` where it cannot be read or has not ended."""
    history = read_run(folder)
    fold = history.fold
    spec = from_toml(fold.spec) if fold.spec else read_spec(RunFolder(folder).latest_spec)
    if fold.state not in TERMINAL:
        raise problem(
            "replay.live", f"The run in {folder} has not ended.", "Open the window to follow it.", str(folder)
        )
    fold.replay_of = fold.run
    history.checkpoints.clear()  # they are the run's own: nothing can be tried or continued with them
    run = str(uuid.uuid5(uuid.NAMESPACE_URL, str(folder)))
    name = f"Recorded: {spec.name or fold.run[:8]}"[:MAX_NAME]
    return without_study(spec, run=run, name=name), history


class RunHeader(NamedTuple):
    """The facts that are known without a run's history: its spec, and when it began."""

    spec: RunSpec
    folder: Path
    began: float


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


def choose_run(runs: Mapping[str, RunHeader], wanted: str, exercise: str) -> str:
    """The id of the run to show: ``wanted``, or the one of ``exercise`` (empty: of any) that began last.

    ``wanted`` is an id, or ``latest``, or empty; empty is also the answer when there is nothing to show. Raises
    ``ProblemError`` for an id that is not there.
    """
    if wanted in runs:
        return wanted
    if wanted not in ("", "latest"):
        raise problem("run.unknown", f"There is no run {wanted!r}.", "", wanted, list_all("runs"))
    return next((run for run in reversed(list(runs)) if exercise in ("", runs[run].spec.exercise)), "")
