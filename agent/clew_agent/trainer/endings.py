"""What ends a run before its last step: it does worse than the other runs of its study did, or a range test is over.

Each trainer decides for its own run, from the journals of the others beside it. So nobody has to coordinate a sweep: it
works in a job on a site while no viewer is there, with runs side by side, and after an interruption.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from clew_agent.engine.course import Course
from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import MetricSpec
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import LEARNING_RATE
from clew_shared.reading import read_run
from clew_shared.spec import Pruning, RateRange, RunSpec, read_spec

if TYPE_CHECKING:
    import optuna

_LOOKS = 20
"""Number of times in a run that a metric of each step is compared: its mean since the last time."""
_COMPARED = 4
"""Number of runs that must have finished before another one is ended by their median."""
_WARM_UP = 0.1
"""Share of the steps in which no run is ended: the first ones say little."""
_NAMES = {"median": "median pruner", "halving": "successive-halving pruner"}
_LOST = 4.0
"""The multiple of its lowest value at which the loss ends a range test, as is usual (fast.ai's finder)."""
Reports = dict[int, float]
"""The values that are compared, by step."""
Columns = Mapping[str, npt.NDArray[np.floating[Any]]]
"""The metrics of a block's steps, by name."""


class Ending(Protocol):
    """Decides after each block whether a run ends before its last step."""

    def begin_block(self, until: int | None) -> int | None:
        """Called before a block that ends at step ``until`` at the latest; returns where it is to end then."""

    def trained(self, first: int, columns: Columns) -> None:
        """Take in the metrics of steps from ``first`` on."""

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Take in values measured on held-out data."""

    def reason(self) -> str:
        """Says why the run ends now; empty when it goes on."""


def endings(folder: RunFolder, spec: RunSpec, metrics: Sequence[MetricSpec], course: Course) -> tuple[Ending, ...]:
    """What may end the run of ``spec`` early. Raises ``ProblemError`` where Optuna is asked for and not installed."""
    found: list[Ending] = [RateTest(spec.rate_range, course)] if spec.rate_range is not None else []
    pruning = spec.pruning
    if pruning is not None:
        compared = (metric for metric in metrics if metric.name == pruning.metric)
        found += [EarlyEnd(folder, spec, pruning, metric, course) for metric in compared]
    return tuple(found)


class EarlyEnd:
    """Ends a run of a study whose ``metric`` is worse than that of the others was at the same step. Raises
    ``ProblemError`` where Optuna is not installed."""

    def __init__(self, folder: RunFolder, spec: RunSpec, pruning: Pruning, metric: MetricSpec, course: Course) -> None:
        self._folder, self._spec, self._pruning, self._steps = folder, spec, pruning, course.steps
        self._metric, self._higher, self._per_step = metric.name, metric.better == "higher", metric.per_step
        self._window = max(1, self._steps // _LOOKS)
        self._mine: Reports = {}
        self._sum, self._count = 0.0, 0
        self._read: dict[Path, Reports] = {}
        self._looked = 0
        _optuna()

    def begin_block(self, until: int | None) -> int | None:
        """Leaves the block as it is."""
        return until

    def trained(self, first: int, columns: Columns) -> None:
        """Take in the metric of steps from ``first`` on."""
        if not self._per_step or self._metric not in columns:
            return
        for step, value in enumerate(columns[self._metric].tolist(), start=first + 1):
            self._sum, self._count = self._sum + value, self._count + 1
            if step % self._window == 0:
                self._mine[step] = self._sum / self._count
                self._sum, self._count = 0.0, 0

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Take in values measured on held-out data."""
        if not self._per_step and self._metric in values:
            self._mine[step] = values[self._metric]

    def reason(self) -> str:
        """Says why the run ends now; empty when it goes on. Looks at the others only when there is something to
        compare."""
        last = max(self._mine, default=0)
        if last <= self._looked or last >= self._steps:
            return ""
        since, self._looked = self._looked, last
        others = self._others()
        if not should_prune(self._pruning.pruner, self._mine, others, self._higher, self._steps, since):
            return ""
        return self._words(last, [one[last] for one in others if last in one])

    def _words(self, step: int, others: Sequence[float]) -> str:
        value = self._mine[step]
        said = f"{self._metric} {value:.4g}" if math.isfinite(value) else f"no finite {self._metric}"
        finite = [one for one in others if math.isfinite(one)]
        middle = f", the median of {len(finite)} others {statistics.median(finite):.4g}" if finite else ""
        return f"Stopped early after {step:,} steps by the {_NAMES[self._pruning.pruner]}: {said}{middle}."

    def _others(self) -> list[Reports]:
        """Returns the reports of the runs of this study, beside this one, that have finished."""
        for path in sorted(self._folder.path.parent.iterdir()):
            if path not in self._read and path != self._folder.path:
                with suppress(ProblemError, OSError):
                    self._look_at(path)
        return [one for one in self._read.values() if one]

    def _look_at(self, path: Path) -> None:
        spec = read_spec(RunFolder(path).spec)
        if (spec.study, spec.exercise) != (self._spec.study, self._spec.exercise):
            self._read[path] = {}
            return
        history = read_run(path)
        if history.fold.state is RunState.FINISHED:
            self._read[path] = reports(history, self._metric, self._window if self._per_step else 0)


class RateTest:
    """The learning rates of a range test, block by block: a function of the step, so a continued run has the same."""

    def __init__(self, rates: RateRange, course: Course) -> None:
        self._rates, self._course = rates, course
        self._lowest, self._smooth = math.inf, math.nan
        self._lost = False

    def begin_block(self, until: int | None) -> int:
        """Set the rate of the next step; up to which step it lasts."""
        step, steps = self._course.step, self._course.steps
        self._course.set_live(LEARNING_RATE, self._rates.rate(step, steps))
        change = self._rates.next_change(step, steps)
        return change if until is None else min(until, change)

    def trained(self, first: int, columns: Columns) -> None:
        """Check whether higher rates would show nothing more: the loss is no number, or many times its lowest value."""
        loss = float(next(iter(columns.values())).mean())
        self._smooth = loss if math.isnan(self._smooth) else 0.7 * self._smooth + 0.3 * loss
        self._lowest = min(self._lowest, self._smooth)
        self._lost = not math.isfinite(loss) or (self._lowest > 0 and self._smooth > _LOST * self._lowest)

    def evaluated(self, step: int, values: Mapping[str, float]) -> None:
        """Does nothing: the loss of each step says enough."""

    def reason(self) -> str:
        """Says why the run ends now; empty when it goes on."""
        step = self._course.step
        return (
            f"Stopped early after {step:,} steps: the loss grew too far at the last learning rates."
            if self._lost
            else ""
        )


def reports(history: History, metric: str, window: int) -> Reports:
    """Returns what a run reported: each evaluation, or means over ``window`` steps if that is not 0."""
    column = history.column(metric)
    if not window:
        return dict(zip(column.steps.tolist(), column.values.tolist(), strict=True))
    whole = len(column.values) // window
    means = column.values[: whole * window].reshape(whole, window).mean(axis=1) if whole else column.values[:0]
    return {window * (k + 1): float(mean) for k, mean in enumerate(means)}


def should_prune(name: str, mine: Reports, others: Sequence[Reports], higher: bool, steps: int, since: int = 0) -> bool:
    """Whether Optuna's pruner ends a run with these reports, at one later than ``since``. The others are shown to it
    again, because it keeps what it compares with in its own study."""
    if any(step > since and not math.isfinite(value) for step, value in mine.items()):
        return True
    optuna = _optuna()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = (
        optuna.pruners.MedianPruner(n_startup_trials=_COMPARED, n_warmup_steps=round(_WARM_UP * steps))
        if name == "median"
        else optuna.pruners.SuccessiveHalvingPruner(min_resource=max(1, steps // 9), reduction_factor=3)
    )
    study = optuna.create_study(pruner=pruner, direction="maximize" if higher else "minimize")
    for one in others:
        trial = study.ask()
        _report(trial, one)
        last = one[max(one)]
        if math.isfinite(last):
            study.tell(trial, last)
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
    return _report(study.ask(), mine, since)


def _report(trial: optuna.trial.Trial, values: Reports, since: int = 0) -> bool:
    """Report them in turn; whether one after ``since`` ends the run."""
    ends = False
    for step in sorted(step for step, value in values.items() if math.isfinite(value)):
        trial.report(values[step], step)
        ends = (trial.should_prune() and step > since) or ends
    return ends


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError:
        hint = f"Install it where the run trains. {how_to_install('optuna')}. Or leave the pruner out."
        text = "Ending runs early needs Optuna, which is not installed."
        raise problem("spec.pruning", text, hint, "pruning") from None
    return optuna
