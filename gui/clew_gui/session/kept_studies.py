"""The sweeps that were started on this computer, one TOML file each, and what of one is done, under way and missing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_shared.base.file_lock import LockFile
from clew_shared.base.file_names import why_unsafe
from clew_shared.base.places import Places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import check
from clew_shared.spec import RunSpec
from clew_shared.study.study import StudySpec, read_study, study_runs, to_toml

_STUDIES = uuid.UUID("5d1b6a9c-2f0e-4f0a-9a63-2a1d0f6f7b11")
"""The namespace of the locks' names: a study's own name may be anything."""


def study_file(places: Places, name: str) -> Path:
    """Returns the file of the study of this name."""
    return places.studies / f"{name}.toml"


def keep_study(places: Places, study: StudySpec) -> Path:
    """Write the study before its first run is asked for; its file. Raises ``ProblemError``."""
    path = study_file(places, study.study)
    if why := why_unsafe(f"{study.study}.toml"):
        text = f"A study cannot be called {study.study!r}: {why}."
        raise problem("study.name", text, "Choose another name.", "study")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(to_toml(study), encoding="utf-8", newline="\n")
    except OSError as error:
        text = f"The study cannot be kept in {path}: {error.strerror or error}."
        raise problem("study.keep", text, "Make room, or move CLEW_HOME.", str(path)) from None
    return path


def kept_study(places: Places, name: str) -> StudySpec | None:
    """The study of this name; None when it was not kept here, or cannot be read."""
    path = study_file(places, name)
    try:
        return read_study(path) if name and path.is_file() else None
    except ProblemError:
        return None


class KnownRun(NamedTuple):
    """A run that there is already."""

    id: str
    spec: RunSpec
    state: RunState


class KnownRuns:
    """The runs of a study that there are: each is one run of its plan at most, finished ones before those at work."""

    def __init__(self, runs: Iterable[KnownRun], card: ExerciseCard) -> None:
        self._card = card
        self._left: dict[bytes, list[KnownRun]] = {}
        for known in sorted(runs, key=lambda run: _order(run.state)):
            self._left.setdefault(_key(known.spec, card), []).append(known)

    def take(self, spec: RunSpec) -> KnownRun | None:
        """The run that does what ``spec`` says, the exercise's file included; it is not given again."""
        same = self._left.get(_key(spec, self._card))
        return same.pop(0) if same else None


class Progress(NamedTuple):
    """A study's runs: finished ones, those at work, those that wait for their turn, those that ended otherwise and can
    go on, and what was never asked for."""

    finished: tuple[str, ...]
    at_work: tuple[str, ...]
    waiting: tuple[str, ...]
    ended: tuple[str, ...]
    missing: tuple[RunSpec, ...]

    @property
    def total(self) -> int:
        """Returns how many runs the study has."""
        return sum(map(len, self))

    @property
    def under_way(self) -> tuple[str, ...]:
        """Returns the runs that are at work or wait."""
        return (*self.at_work, *self.waiting)


def progress(study: StudySpec, card: ExerciseCard, runs: Iterable[KnownRun]) -> Progress:
    """Matches each run of the study with one of ``runs``, preferably a finished one, then one under way: none is done
    twice."""
    left = KnownRuns((run for run in runs if run.spec.study == study.study), card)
    missing: list[RunSpec] = []
    found: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
    finished, at_work, waiting, ended = found
    for planned in study_runs(study):
        run = left.take(planned.spec)
        if run is None:
            missing.append(planned.spec)
        else:
            found[_order(run.state)].append(run.id)
    return Progress(tuple(finished), tuple(at_work), tuple(waiting), tuple(ended), tuple(missing))


def _order(state: RunState) -> int:
    if state in TERMINAL:
        return 0 if state is RunState.FINISHED else 3
    return 2 if state is RunState.QUEUED else 1


def _key(spec: RunSpec, card: ExerciseCard) -> bytes:
    # All fields: by itself a spec leaves out only those that are their very default, not those that are equal to it.
    return msgspec.json.encode(msgspec.structs.asdict(bare(spec, card)), order="sorted")


def typed_spec(spec: RunSpec, card: ExerciseCard) -> RunSpec:
    """The spec with values of the right kind; those that the exercise does not know stay as they are."""
    typed, _ = check(card.params, spec.params)
    return msgspec.structs.replace(spec, params={name: typed.get(name, value) for name, value in spec.params.items()})


def bare(spec: RunSpec, card: ExerciseCard) -> RunSpec:
    """The spec without what says nothing about its work, its id, its name and whose it is: equal for runs that do the
    same, also when the student gave a name meanwhile, or another version of Clew would call it otherwise."""
    return msgspec.structs.replace(typed_spec(spec, card), run="", name="", student="")


def study_lock(places: Places, name: str) -> LockFile:
    """The lock of the one program that does a study's runs one after the other, between which none is under way."""
    make_private(places.private)
    return LockFile(places.private / f"study-{uuid.uuid5(_STUDIES, name)}.lock")


def is_done_elsewhere(places: Places, name: str) -> bool:
    """Whether a program, such as a command in a terminal, is doing this study's runs."""
    try:
        lock = study_lock(places, name)
        free = lock.acquire()
    except ProblemError:  # no folder for locks: then nobody has one
        return False
    lock.release()
    return not free
