"""The check of a whole request on this computer: whatever the agent would refuse of any of its runs is refused before
the first one starts and before anything is written. And what can be said then of the time they need."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from clew_gui.base.kept_spec import kept_spec
from clew_gui.commands.output.words import duration
from clew_gui.session.forecast import Earlier, seconds_each
from clew_gui.targets.local_agent import agent_program
from clew_shared.base.foreign import from_json
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import made
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, to_toml
from clew_shared.study.study import StudySpec, number_of_runs, study_runs, sweep_run
from clew_shared.study.sweep import Range
from clew_shared.wire.turns import RunsChecked, RunsToCheck

_CHECK_S = 60
"""Bound on looking at all runs and reading their files, on a slow network disk. The runs themselves check again."""


def check_here(places: Places, specs: Sequence[RunSpec], own: bool = False) -> None:
    """Ask the agent of this computer whether all of ``specs`` could start; ``own``: there are exercises of one's own.

    A single run without a file of data is not asked about: the agent refuses it before it writes anything, and sooner.
    Raises ``ProblemError`` with what is wrong, or when no Python with TensorFlow is known.
    """
    if len(specs) < 2 and not any(Path(spec.data).is_absolute() for spec in specs):
        return
    question = RunsToCheck(tuple(dict.fromkeys(to_toml(msgspec.structs.replace(spec, name="")) for spec in specs)), own)
    command = [*agent_program(places), "check"]
    with suppress(subprocess.TimeoutExpired, msgspec.DecodeError):
        asked = msgspec.json.encode(question)
        done = subprocess.run(command, input=asked, capture_output=True, timeout=_CHECK_S, check=False)
        answer: RunsChecked = from_json(done.stdout.strip().rpartition(b"\n")[2], RunsChecked)
        found = answer.problem
        if found is not None:
            raise ProblemError(found)


def check_study_here(places: Places, study: StudySpec, site: str | None, own: bool = False) -> None:
    """The same for all runs of a study; of one for a ``site`` its login node is asked when the job is sent."""
    if site is None:
        check_here(places, [run.spec for run in study_runs(study)] or list(_possible(study)), own)


def _possible(study: StudySpec) -> Iterator[RunSpec]:
    """Runs that a sampler may choose: each value, or both ends of a range, with the base's for all else."""
    for name, values in study.sweep.over.items() if study.sweep is not None else ():
        for value in (values.low, values.high) if isinstance(values, Range) else values:
            yield sweep_run(study, {name: value}).spec


# --- Forecast ---------------------------------------------------------------------------------------------------------


_READ = 20
"""The latest runs among which a finished one is looked for: a journal may be long."""


def forecast_lines(places: Places, study: StudySpec, card: ExerciseCard, done: int) -> list[str]:
    """Says what is left of a sweep and how long it will take."""
    if study.sweep is None:
        return []
    total = number_of_runs(study)
    planned = [run.spec for run in study_runs(study) or (sweep_run(study, {}),) * total]
    left = f"{total - done} of {total} runs are left" if done else f"{total} runs"
    each = seconds_each(planned, card, _earlier(places, card))
    if not each:
        return [f"{left}. How long they take is known after the first run."]
    return [f"{left}: about {duration(sum(each) * (total - done) / total)}, estimated from an earlier run."]


def _earlier(places: Places, card: ExerciseCard) -> Iterator[Earlier]:
    """The finished ones of the latest runs of the exercise on this computer, the latest first."""
    folders = sorted(places.runs.iterdir() if places.runs.is_dir() else (), key=made, reverse=True)
    known = ((folder, spec) for folder in folders if (spec := kept_spec(folder)) is not None)
    for folder, spec in islice((one for one in known if one[1].exercise == card.id), _READ):
        with suppress(ProblemError):
            history = read_run(folder)
            if history.fold.state is RunState.FINISHED:
                yield Earlier(spec, history)
