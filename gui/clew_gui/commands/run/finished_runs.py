"""The runs of a study: those that are finished are not done again, the others in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from clew_gui.commands.context import OK
from clew_gui.commands.output.study_tables import StudyResult
from clew_gui.session.kept_studies import KnownRun, KnownRuns, typed_spec
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts, made
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from clew_shared.study.study import StudyRun, StudySpec, number_of_runs


class FinishedRun(NamedTuple):
    """One run of a study with its end as an exit status. ``asked``: a person asked for the end of the study."""

    result: StudyResult
    status: int = OK
    asked: bool = False


def runs_of(places: Places, study: StudySpec, card: ExerciseCard) -> list[Path]:
    """The folders of this study's runs on this computer, in the order in which they were made."""
    folders = places.runs.iterdir() if study.study and places.runs.is_dir() else ()
    return sorted((one for one in folders if is_of(one, study, card)), key=made)


def finished_runs(places: Places, study: StudySpec, card: ExerciseCard) -> list[KnownRun]:
    """This study's finished runs on this computer."""
    folders = (folder for folder in runs_of(places, study, card) if is_finished(folder, study.timed))
    return [known_run(folder, RunState.FINISHED) for folder in folders]


def known_run(folder: Path, state: RunState) -> KnownRun:
    """The run in ``folder``."""
    return KnownRun(folder.name, read_spec(RunFolder(folder).spec), state)


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


# --- Plan -------------------------------------------------------------------------------------------------------------
# The runs of a study in their order, each with what there is of it already.


class PlannedRun(NamedTuple):
    """One run of a study, and the run that it is already, if there is one."""

    run: StudyRun
    known: KnownRun | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.known is not None and self.known.state is RunState.FINISHED


def plan_run(run: StudyRun, card: ExerciseCard, known: KnownRuns) -> PlannedRun:
    """A run of the study with the one of ``known`` that is the same."""
    wanted = run._replace(spec=typed_spec(run.spec, card))
    return PlannedRun(wanted, known.take(wanted.spec))


def result_of(run: StudyRun, folder: Path, history: History) -> StudyResult:
    """The result of a run of the study that is in ``folder``."""
    return StudyResult(run.title, run.value, msgspec.structs.replace(run.spec, run=folder.name), folder, history)


def do_runs(
    study: StudySpec,
    plan: Iterable[PlannedRun],
    folders: Path,
    carry_out: Callable[[PlannedRun, str], FinishedRun],
    say: Callable[[str], None],
    finished: list[FinishedRun],
) -> None:
    """Does the runs in the order of their plan, as far as nobody stops the study, and adds each to ``finished``;
    ``carry_out`` does one under a heading. ``folders`` has those that are known."""
    kind, total = "lane" if study.lanes else "run", number_of_runs(study)
    for number, one in enumerate(plan, start=1):
        title = one.run.title
        if one.known is not None and one.finished:
            folder = folders / one.known.id
            finished.append(FinishedRun(result_of(one.run, folder, read_run(folder))))
            say(f"{title}: finished before, in {folder}")
            continue
        finished.append(carry_out(one, f"{study.title or study.study}, {kind} {number} of {total}: {title}"))
        if finished[-1].asked:
            break
