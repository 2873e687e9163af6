"""Finds the runs of a study that are finished, so that they are not done again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from clew_gui.commands.context import OK
from clew_gui.commands.output.study_tables import StudyResult
from clew_gui.session.kept_studies import bare
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec
from clew_shared.study.study import StudySpec


class FinishedRun(NamedTuple):
    """One run of a study with its end as an exit status. ``asked``: a person asked for the end of the study."""

    result: StudyResult
    status: int = OK
    asked: bool = False


def finished_runs(places: Places, study: StudySpec, card: ExerciseCard) -> list[Path]:
    """The folders of this study's finished runs on this computer, in the order in which they were made."""
    folders = places.runs.iterdir() if study.study and places.runs.is_dir() else ()
    return sorted((one for one in folders if is_of(one, study, card) and is_finished(one, study.timed)), key=made)


def made(folder: Path) -> float:
    """Returns when the folder was made, to sort by."""
    return folder.stat().st_mtime


def is_of(folder: Path, study: StudySpec, card: ExerciseCard) -> bool:
    """Whether it holds a run of the study; what cannot be read holds none."""
    try:
        spec = read_spec(RunFolder(folder).spec)
    except ProblemError:
        return False
    return spec.study == study.study and spec.exercise == card.id


def is_finished(folder: Path, timed: bool) -> bool:
    """Whether its run is finished; if it is ``timed``, in one attempt: another may have had other devices."""
    count = len(attempts(folder))
    return (count == 1 or (count > 1 and not timed)) and read_run(folder).fold.state is RunState.FINISHED


def is_same(kept: RunSpec, wanted: RunSpec, card: ExerciseCard) -> bool:
    """Whether a kept run is one that is wanted, the exercise's file included."""
    return bare(kept, card) == bare(wanted, card)
