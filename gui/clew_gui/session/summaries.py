"""What lists and filters need of kept runs. A run that is over is read once: what was found is kept in one file for all
of them, which can be deleted."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec

from clew_gui.base.kept_spec import kept_spec
from clew_gui.study.goals import check_goal
from clew_gui.study.usage import usage_results
from clew_shared import __version__
from clew_shared.base.foreign import from_msgpack, read_file
from clew_shared.base.places import Places
from clew_shared.base.private_files import write_private
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts, began, journal_path
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunFold
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec

_MAX_BYTES = 256 << 20
"""A hundred times what a course leaves: a larger file was not written by Clew."""


class RunSummary(msgspec.Struct, frozen=True):
    """A run without its curves: its ``fold``, the ``results`` by metric (the best value, or the last one where neither
    side is better), its spec (None if that cannot be read), and the goals that it ``reached`` by the exercise's file
    with the hash ``judged_by``; empty if nobody judged it."""

    fold: RunFold
    results: dict[str, float]
    spec: RunSpec | None
    judged_by: str = ""
    reached: tuple[str, ...] = ()


class _Look(msgspec.Struct, frozen=True, array_like=True):
    """The signs by which a journal that has changed is noticed, for each attempt: number, bytes, when it was changed
    (nanoseconds). ``folder``: when a file came into the folder last, or left it."""

    folder: int
    journals: tuple[tuple[int, int, int], ...]


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    look: _Look
    summary: RunSummary


class _Kept(msgspec.Struct, frozen=True):
    """The file. Another version of Clew may sum up differently: it begins anew."""

    version: str
    runs: dict[str, _Entry]


def results_of(history: History) -> dict[str, float]:
    """The results of a run by metric: the best value, the last one where neither side is better; also what it used of
    its machines."""
    found = {name: _result(history, name) for name in history.recorded()}
    return usage_results(history) | {name: value for name, value in found.items() if value is not None}


def _result(history: History, metric: str) -> float | None:
    best = history.best(metric)
    return best.value if best is not None else history.last(metric)


class Summaries:
    """The summaries of kept runs by folder. A journal counts, never what was kept of it: each is looked at for a change
    before its summary is used. ``cards`` are the exercises by whose goals runs are judged."""

    def __init__(self, places: Places, cards: Iterable[ExerciseCard] = ()) -> None:
        self.cards = {card.id: card for card in cards}
        self._path = places.home / "summaries.msgpack"
        self._seen: dict[str, _Entry] = {}
        self._is_new = False

    @cached_property
    def _runs(self) -> dict[str, _Entry]:
        return _read(self._path)

    def of(self, folder: Path) -> RunSummary:
        """The summary of the run in ``folder``. Raises ``ProblemError`` if it has no journal that can be read."""
        entry = self._valid(folder)
        if entry is None:
            look = _look_at(folder)
            history = read_run(folder)
            summary = self._sum_up(history, history.fold, kept_spec(folder))
            if look is None or summary.spec is None or not (history.fold.sealed and history.fold.done):
                return summary  # it may change, or somebody may mend its spec
            entry = self._keep(folder, look, summary)
        self._seen[str(folder)] = entry
        return entry.summary

    def _keep(self, folder: Path, look: _Look, summary: RunSummary) -> _Entry:
        self._is_new = True
        entry = self._seen[str(folder)] = _Entry(look, summary)
        return entry

    def _sum_up(self, history: History, fold: RunFold, spec: RunSpec | None) -> RunSummary:
        card = self.cards.get(spec.exercise) if spec is not None else None
        goals = card.goals if card is not None else ()
        reached = tuple(goal.id for goal in goals if check_goal(goal, history, card, spec).reached)
        return RunSummary(fold, results_of(history), spec, card.source_hash if card is not None else "", reached)

    def take(self, folder: Path, history: History, spec: RunSpec) -> None:
        """Sums up a run that was read already, if it is over."""
        if self.instead(folder) is None and history.fold.sealed and history.fold.done:
            look = _look_at(folder)
            if look is not None:
                fold = msgspec.structs.replace(history.fold)  # the run may go on
                self._keep(folder, look, self._sum_up(history, fold, spec))

    def instead(self, folder: Path) -> RunSummary | None:
        """The summary with which the run need not be read before somebody looks at it; None if it must be."""
        entry = self._valid(folder)
        if entry is None or entry.summary.spec is None:
            return None
        card = self.cards.get(entry.summary.spec.exercise)
        return entry.summary if entry.summary.judged_by == (card.source_hash if card is not None else "") else None

    def started(self, folder: Path) -> float:
        """When the run began, as wall-clock seconds since 1970; 0 if its journal does not say."""
        entry = self._valid(folder)
        return entry.summary.fold.first_started if entry is not None else began(folder)

    def save(self) -> None:
        """Keeps what was read anew, and forgets runs that are gone. If the disk refuses, it is read again next time."""
        if self._is_new:
            kept = {key: entry for key, entry in self._runs.items() if key in self._seen or Path(key).is_dir()}
            with suppress(OSError):
                write_private(self._path, msgspec.msgpack.encode(_Kept(__version__, kept | self._seen)), lasting=False)
            self._is_new = False

    def _valid(self, folder: Path) -> _Entry | None:
        entry = self._runs.get(str(folder))
        if entry is None:
            return None
        now = _look_at(folder, tuple(number for number, _, _ in entry.look.journals))
        if now is not None and now != entry.look:
            now = _look_at(folder)  # a file came, or left
        same = now is not None and now.journals == entry.look.journals
        return entry if same else None


def _look_at(folder: Path, numbers: tuple[int, ...] | None = None) -> _Look | None:
    """How the journals look now; None if they cannot be looked at. ``numbers``: the attempts, where they are known."""
    try:
        changed = folder.stat().st_mtime_ns  # before the rest: what comes meanwhile is noticed next time
        states = [(n, journal_path(folder, n).stat()) for n in (attempts(folder) if numbers is None else numbers)]
    except OSError:
        return None
    return _Look(changed, tuple((number, state.st_size, state.st_mtime_ns) for number, state in states))


def _read(path: Path) -> dict[str, _Entry]:
    with suppress(OSError, ValueError):  # a file of somebody else's, or a torn one
        kept: _Kept = from_msgpack(read_file(path, _MAX_BYTES), _Kept)
        return kept.runs if kept.version == __version__ else {}
    return {}
