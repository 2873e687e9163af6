"""The course of a run: where it is, what was changed on the way, and what is due. It counts; an engine computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from clew_agent.engine.blocks import BlockUpdates, TrainedBlock
from clew_shared.base.problem import ProblemError, problem
from clew_shared.cards import MetricSpec
from clew_shared.params import Params, ParamSpec, describe, live_value

EVALUATIONS = 20
"""Number of times that held-out data are measured in a run that does not say otherwise: enough points for a curve."""
_FEWEST = 5
"""Number of times that a run measures them though it trains so little that this takes longer than training."""
_MEASURED_FOR_EACH_TRAINED = 4
"""Held-out samples that are measured for each that is trained: a step does about three times the work of measuring,
and so measuring takes about as long as training, whatever the network. A rule of numbers and not of time: when a run
measures does not depend on the computer, and trained again it does so at the same steps."""


@dataclass(frozen=True)
class Plan:
    """Length and rhythm of a run. ``batch_size`` 0: the whole set; ``evaluate_every`` None:
    ``Course.evaluation_interval`` says how often."""

    steps: int
    batch_size: int = 0
    order: str = "file"
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    patience: int = 0

    @staticmethod
    def of(settings: Params) -> Plan:
        """Makes the plan that ``settings`` describe; fields that an exercise does not offer keep the plan's own
        defaults."""
        names = ("steps", "batch_size", "order", "evaluate_every", "checkpoint_every", "patience")
        return Plan(**{name: getattr(settings, name) for name in names if hasattr(settings, name)})


def steps_per_epoch(samples: int, batch: int) -> int:
    """Batches until every sample has been seen, the last one perhaps filled up."""
    return -(-samples // batch)


def live_specs(settings: Params) -> tuple[ParamSpec, ...]:
    """The hyperparameters that may change while the run trains, in the order of their values in a checkpoint."""
    return tuple(spec for spec in describe(type(settings)) if spec.live)


class Course:
    """The course of one run with these ``settings`` and the exercise's ``metrics``.

    ``samples`` are those of the training set, ``samples_per_step`` those of one step. ``measured`` are the
    held-out samples of an evaluation, 0: there is none; ``watch`` is the evaluated metric for early stopping, better
    when higher.
    """

    def __init__(
        self,
        settings: Params,
        metrics: Sequence[MetricSpec],
        samples: int,
        samples_per_step: int,
        *,
        measured: int = 0,
        watch: str = "",
    ) -> None:
        self.plan = Plan.of(settings)
        self.per_step = tuple(spec for spec in metrics if spec.per_step)
        self.samples_per_epoch = samples
        self.samples_per_step = samples_per_step
        self._measured = measured
        self._watch = watch
        self._live_specs = {spec.name: spec for spec in live_specs(settings)}
        self.live_values = np.array([float(getattr(settings, name)) for name in self._live_specs], np.float64)
        """The values of ``live``, in order."""
        self.step = 0
        """The next step, which is how many updates have been done."""
        self.clock = 0.0
        """Seconds that the blocks of this attempt took."""
        self._trained = 0
        self._evaluated_at = self._saved_at = self._diverged_at = -1
        self._waited = 0
        self._best = -np.inf

    @property
    def steps(self) -> int:
        """Steps that the whole run will have."""
        return self.plan.steps

    @property
    def done(self) -> bool:
        """Whether nothing is left to train: all steps done, or stopped early."""
        return self.step >= self.steps or self.stopped_early

    @property
    def stopped_early(self) -> bool:
        """Whether the watched metric has not become better for as many evaluations as the settings allow (0: any)."""
        return 0 < self.plan.patience <= self._waited

    @property
    def diverged_at(self) -> int | None:
        """The first step of the run with a value that is no finite number. Training goes on all the same."""
        return self._diverged_at if self._diverged_at >= 0 else None

    @property
    def pace(self) -> float:
        """Returns the mean seconds of a step of this attempt."""
        return self.clock / max(self._trained, 1)

    @property
    def epoch(self) -> int:
        """Returns the steps of an epoch."""
        return steps_per_epoch(self.samples_per_epoch, self.samples_per_step)

    @property
    def evaluates(self) -> bool:
        """Whether there are held-out data to measure."""
        return self._measured > 0

    @property
    def evaluation_interval(self) -> int:
        """Returns the steps between two evaluations: as asked for; else about ``EVALUATIONS`` times in a run, less
        often where that would take longer than training, and after each epoch at the latest."""
        if self.plan.evaluate_every:
            return self.plan.evaluate_every
        affordable = _MEASURED_FOR_EACH_TRAINED * self.steps * self.samples_per_step // max(self._measured, 1)
        times = min(EVALUATIONS, max(_FEWEST, affordable))
        return min(self.epoch, max(1, -(-self.steps // times)))

    def room(self, until: int | None = None, places: Iterable[int] = ()) -> int:
        """Steps until something is due between blocks: at ``until``, or at one of more ``places``.

        Raises ``RuntimeError`` when no step is left.
        """
        intervals = [every for every in (self.plan.checkpoint_every,) if every is not None]
        if self.evaluates:
            intervals.append(self.evaluation_interval)
        ends = [self.steps, *places] if until is None else [self.steps, *places, until]
        room = min([end - self.step for end in ends] + [every - self.step % every for every in intervals])
        if room < 1:
            raise RuntimeError(f"all {self.steps} steps are done")
        return room

    def trained(
        self, rows: npt.NDArray[np.floating[Any]], seconds: float, updates: BlockUpdates | None = None
    ) -> TrainedBlock:
        """Counts a block of steps whose metrics are ``rows`` [count, metrics]; returns it."""
        first, count = self.step, len(rows)
        self.step += count
        self.clock += seconds
        self._trained += count
        columns = tuple(rows[:, place].astype(spec.dtype) for place, spec in enumerate(self.per_step))
        return TrainedBlock(first, count, columns, seconds, self._nonfinite(first, rows), updates)

    def _nonfinite(self, first: int, rows: npt.NDArray[np.floating[Any]]) -> int | None:
        finite = np.isfinite(rows)
        if finite.all():
            return None
        step = first + int(np.argmin(finite.all(axis=1)))
        if self._diverged_at < 0:
            self._diverged_at = step
        return step

    def evaluation_due(self) -> bool:
        """Whether held-out samples are to be measured now, before the next block."""
        if not self.evaluates or self.step == 0 or self._evaluated_at == self.step:
            return False
        return self.step >= self.steps or self.step % self.evaluation_interval == 0

    def evaluated(self, values: Mapping[str, float]) -> None:
        """Counts an evaluation. The run stops early after ``patience`` in a row that bring no better value."""
        self._evaluated_at = self.step
        if self.plan.patience and self._watch in values:
            value = values[self._watch]
            self._waited = 0 if value > self._best else self._waited + 1
            self._best = max(self._best, value)

    def checkpoint_due(self) -> bool:
        """Whether the settings ask for a checkpoint now. Checkpoints on a stop are the loop's decision."""
        every = self.plan.checkpoint_every
        return every is not None and self.step > 0 and self.step % every == 0 and self._saved_at != self.step

    @property
    def live(self) -> dict[str, float]:
        """The live hyperparameters as the next block will use them."""
        return dict(zip(self._live_specs, self.live_values.tolist(), strict=True))

    def set_live(self, name: str, value: object) -> None:
        """Change a live hyperparameter from the next block's first step on. Raises ``ProblemError``."""
        number, found = live_value([*self._live_specs.values()], name, value)
        if found is not None:
            raise ProblemError(found)
        if not isinstance(number, int | float):
            raise problem("live.kind", f"{name!r} is not a number.", where=name)
        self.live_values[list(self._live_specs).index(name)] = number

    def saved(self) -> dict[str, npt.NDArray[Any]]:
        """Counts a checkpoint of this step; returns what it must hold of the course, by name (-1: never)."""
        self._saved_at = self.step
        return self.progress()

    def progress(self) -> dict[str, npt.NDArray[Any]]:
        """The course as arrays by name, for a checkpoint."""
        counters = {
            "step": self.step,
            "evaluated_at": self._evaluated_at,
            "saved_at": self._saved_at,
            "diverged_at": self._diverged_at,
            "waited": self._waited,
        }
        values: dict[str, npt.NDArray[Any]] = {name: np.array(value, np.int64) for name, value in counters.items()}
        values |= {"best": np.array(self._best, np.float64), "live": self.live_values}
        return {f"progress/{name}": value for name, value in values.items()}

    def go_on_from(self, progress: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes over the ``progress`` of a checkpoint."""

        def counter(name: str) -> int:
            return int(progress[f"progress/{name}"])

        self.step, self._evaluated_at, self._saved_at = map(counter, ("step", "evaluated_at", "saved_at"))
        self._diverged_at, self._waited = counter("diverged_at"), counter("waited")
        self._best = float(progress["progress/best"])
        self.live_values = np.array(progress["progress/live"], np.float64)
