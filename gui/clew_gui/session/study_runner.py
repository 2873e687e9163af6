"""The runs of a study: which are there already, which are missing, and how the missing ones are done in their order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from clew_gui.study.ranking import Better, stand
from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import ExerciseCard
from clew_shared.journal.files import attempts, made
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value, check
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, read_spec
from clew_shared.study.study import StudyRun, StudySpec, number_of_runs, study_runs, sweep_run
from clew_shared.study.sweep import Point, Range, Sweep, Values, draw, tidy, typed

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


class StudyResult(NamedTuple):
    """One run of a study with what its journal says. ``status`` is its end as an exit status; ``asked``: a person asked
    for the end of the study."""

    title: str
    value: Value
    spec: RunSpec
    folder: Path
    history: History
    status: int = 0
    asked: bool = False


class PlannedRun(NamedTuple):
    """One run of a study, and the run that it is already, if there is one."""

    run: StudyRun
    known: KnownRun | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.known is not None and self.known.state is RunState.FINISHED

    def result(self, folder: Path, history: History, status: int = 0, asked: bool = False) -> StudyResult:
        """What came of it in ``folder``."""
        spec = msgspec.structs.replace(self.run.spec, run=folder.name)
        return StudyResult(self.run.title, self.run.value, spec, folder, history, status, asked)


class StudyRunner:
    """Does the runs of ``study``. ``folders`` holds those that there are, by id; ``say`` is for people."""

    def __init__(self, study: StudySpec, card: ExerciseCard, folders: Path, say: Callable[[str], None]) -> None:
        self.study, self.card, self.folders = study, card, folders
        self.results: list[StudyResult] = []
        """What became of each run so far, up to where a person stopped the study."""
        self._say = say

    # --- What there is ------------------------------------------------------------------------------------------------

    def runs(self) -> list[str]:
        """The study's runs in ``folders``, in the order in which they were made."""
        found = self.folders.iterdir() if self.study.study and self.folders.is_dir() else ()
        return [folder.name for folder in sorted((one for one in found if self.has(one.name)), key=made)]

    def has(self, run: str) -> bool:
        """Whether it is a run of the study; one that cannot be read is not."""
        try:
            spec = read_spec(RunFolder(self.folders / run).spec)
        except ProblemError:
            return False
        return spec.study == self.study.study and spec.exercise == self.card.id

    def is_finished(self, run: str) -> bool:
        """Whether the run has finished; if it is timed, in one attempt: another may have had other devices."""
        count = len(attempts(self.folders / run))
        whole = count == 1 or (count > 1 and not self.study.timed)
        return whole and read_run(self.folders / run).fold.state is RunState.FINISHED

    def known(self, run: str, state: RunState) -> KnownRun:
        """The run as it counts for the plan."""
        return KnownRun(run, read_spec(RunFolder(self.folders / run).spec), state)

    def finished(self) -> list[KnownRun]:
        """The study's runs in ``folders`` that need not be done again."""
        return [self.known(run, RunState.FINISHED) for run in self.runs() if self.is_finished(run)]

    # --- What is to be done -------------------------------------------------------------------------------------------

    def plan(self, known: Iterable[KnownRun]) -> Iterator[PlannedRun]:
        """The runs of the study, each when it is due, with the one of ``known`` that is the same."""
        left = KnownRuns(known, self.card)
        for run in self._in_turn():
            wanted = run._replace(spec=typed_spec(run.spec, self.card))
            yield PlannedRun(wanted, left.take(wanted.spec))

    def _in_turn(self) -> Iterator[StudyRun]:
        """The runs of the study; a sampler looks at the results so far."""
        study, sweep = self.study, self.study.sweep
        if sweep is None or not sweep.sampled:
            yield from study_runs(study)
            return
        metric = next((one for one in self.card.metrics if one.name == study.metric), None)
        better: Better = "higher" if metric is not None and metric.better == "higher" else "lower"
        tried: list[tuple[Point, float | None]] = []
        for _ in range(sweep.count):
            point, begun = next_point(sweep, self.card, better, tried), len(self.results)
            yield from (sweep_run(study, point, seed) for seed in sweep.seeds or (None,))
            bests = [stand("", one.history, study.metric, better, None).best for one in self.results[begun:]]
            good = [best for best in bests if best is not None]
            tried.append((point, sum(good) / len(good) if good and len(good) == len(bests) else None))

    def do(self, plan: Iterable[PlannedRun], carry_out: Callable[[PlannedRun, str], StudyResult]) -> list[StudyResult]:
        """Does what is left of the plan in its order, as far as nobody stops it; ``carry_out`` does one run under a
        heading. Returns ``results``."""
        study, kind = self.study, "lane" if self.study.lanes else "run"
        for number, one in enumerate(plan, start=1):
            title = one.run.title
            if one.known is not None and one.finished:
                folder = self.folders / one.known.id
                self.results.append(one.result(folder, read_run(folder)))
                self._say(f"{title}: finished before, in {folder}")
                continue
            heading = f"{study.title or study.study}, {kind} {number} of {number_of_runs(study)}: {title}"
            self.results.append(carry_out(one, heading))
            if self.results[-1].asked:
                break
        return self.results


# --- The same run -----------------------------------------------------------------------------------------------------
# Which run does what a study asks for: each is one of its runs at most.


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
    return msgspec.structs.replace(typed_spec(spec, card), run="", name="", student="", course="")


# --- Sampler ----------------------------------------------------------------------------------------------------------
# The next point of a sweep whose points depend on earlier results, as Optuna's TPE sampler proposes it. The sampler is
# made again for each point, from the results so far and a seed. So a sweep that is continued proposes the same points
# for the same results, and no state has to be kept beside the runs.


_TRIES = 20
"""A sampler may propose a point that was there before, which would give the same result."""


def next_point(sweep: Sweep, card: ExerciseCard, better: Better, tried: Sequence[tuple[Point, float | None]]) -> Point:
    """A point that is not among those of ``tried``, which have their results (None: no finite one).

    Raises ``ProblemError`` when Optuna is not installed, and when no other point is to be found.
    """
    known = [point for point, _ in tried]
    for again in range(_TRIES):
        found = _proposed(sweep, card, better, tried, sweep.draw + len(tried) + 100_003 * again)
        if found not in known:
            return found
    text = f"After {len(tried)} points the sampler proposes only points that were tried."
    raise problem("sweep.exhausted", text, "Take a smaller count, or a grid.", "count")


def _proposed(
    sweep: Sweep, card: ExerciseCard, better: Better, tried: Sequence[tuple[Point, float | None]], seed: int
) -> Point:
    try:
        import optuna
    except ImportError:
        hint = f"{how_to_install('optuna')}. Or take the method random."
        raise problem("sweep.optuna", "The method tpe needs Optuna, which is not installed.", hint, "method") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=len(sweep.over) > 1)
    study = optuna.create_study(sampler=sampler, direction="minimize" if better == "lower" else "maximize")
    whole = {param.name for param in card.params if param.type.python is int}
    space = {name: _distribution(values, name in whole) for name, values in sweep.over.items()}
    for point, value in tried:
        state = optuna.trial.TrialState.COMPLETE if value is not None else optuna.trial.TrialState.FAIL
        study.add_trial(optuna.create_trial(params=point, distributions=space, value=value, state=state))
    chosen: dict[str, Any] = study.ask(space).params
    return typed({name: tidy(value) if isinstance(value, float) else value for name, value in chosen.items()}, card)


def _distribution(values: Values, whole: bool) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(values, Range):
        return CategoricalDistribution(values)
    if whole:
        return IntDistribution(round(values.low), round(values.high), log=values.log)
    # Rounding to a few figures may leave the interval by a hair.
    low, high = (float(draw(values, share) or 0.0) for share in (0.0, 1.0))
    return FloatDistribution(min(low, values.low), max(high, values.high), log=values.log)
