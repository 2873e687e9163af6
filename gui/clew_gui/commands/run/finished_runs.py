"""The runs of a study: those that are finished are not done again, the others in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.commands.context import OK
from clew_gui.commands.output.study_tables import StudyResult
from clew_gui.session.kept_studies import bare, typed_spec
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec
from clew_shared.study.study import StudyRun, StudySpec, number_of_runs


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


# --- Plan -------------------------------------------------------------------------------------------------------------
# The runs of a study in their order, each with what there is of it already.


class PlannedRun(NamedTuple):
    """One run of a study. ``folder`` is that of a run which is it already; ``finished``: nothing is left to do."""

    run: StudyRun
    folder: Path | None = None
    finished: bool = False


def known_run(folder: Path, finished: bool = False) -> PlannedRun:
    """A run that there is already, of which only the spec is known."""
    return PlannedRun(StudyRun("", None, read_spec(RunFolder(folder).spec)), folder, finished)


def plan_run(run: StudyRun, card: ExerciseCard, known: list[PlannedRun]) -> PlannedRun:
    """Matches a run of the study with the first of ``known`` that is the same, which is taken out of them."""
    wanted = run._replace(spec=typed_spec(run.spec, card))
    found = next((one for one in known if is_same(one.run.spec, wanted.spec, card)), None)
    if found is None:
        return PlannedRun(wanted)
    known.remove(found)
    return found._replace(run=wanted)


def result_of(run: StudyRun, folder: Path, history: History) -> StudyResult:
    """The result of a run of the study that is in ``folder``."""
    return StudyResult(run.title, run.value, msgspec.structs.replace(run.spec, run=folder.name), folder, history)


def do_runs(
    study: StudySpec,
    plan: Iterable[PlannedRun],
    carry_out: Callable[[PlannedRun, str], FinishedRun],
    say: Callable[[str], None],
    finished: list[FinishedRun],
) -> None:
    """Does the runs in the order of their plan, as far as nobody stops the study, and adds each to ``finished``;
    ``carry_out`` does one under a heading."""
    kind, total = "lane" if study.lanes else "run", number_of_runs(study)
    for number, one in enumerate(plan, start=1):
        title = one.run.title
        if one.finished and one.folder is not None:
            finished.append(FinishedRun(result_of(one.run, one.folder, read_run(one.folder))))
            say(f"{title}: finished before, in {one.folder}")
            continue
        finished.append(carry_out(one, f"{study.title or study.study}, {kind} {number} of {total}: {title}"))
        if finished[-1].asked:
            break
