"""Trains one exercise in blocks of steps. Knows no journal, no socket and no process: the trainer calls it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.strategies.base import Strategy, copies
from clew_agent.strategies.single import Single
from clew_agent.training import state
from clew_agent.training.evaluation import Evaluator
from clew_agent.training.exercise import Exercise, Model, Samples, Setup
from clew_agent.training.order import make_order, steps_per_epoch
from clew_agent.training.pictures import Pictures
from clew_agent.training.state import EarlyStopping, Plan, TrainingProgress, check_resumable, named_state
from clew_agent.training.step import BatchSource, BlockProgram, BlockSizer, TrainingStep, capacity
from clew_agent.training.timing import StepParts, measure_parts
from clew_shared.base.problem import problem
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Event
from clew_shared.params import Params, convert, describe

WARM_UP_STEPS, WARM_UP_S = (1, 1, 8, 64), 0.0015
"""Steps of the calls that warm up; one after the first that lasts longer than ``WARM_UP_S`` seconds is the last.
Several processes must do the same calls, whatever each of them measures: the first two."""

EVALUATIONS = 20
"""Number of times that held-out data are measured in a run that does not say otherwise: enough points for a curve."""
LOSS_SCALE = 2.0**10
"""The factor by which the loss is enlarged and the gradients are reduced: with gradients of 16 bits small ones would
vanish."""

BlockSteps = Callable[[int], int]
"""Chooses the size of the next block from the room that is left, for tests."""
Lead = Callable[[int, int, Sequence[float]], None]
"""Has the run's other processes do a block too: its first step, how many, and the live values."""


@dataclass(frozen=True)
class BlockUpdates:
    """The gradients that came back, with one value for each, in the order in which the servers took them;
    little-endian, as in ``Updates``."""

    steps: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int32]
    ended: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float32]
    staleness: npt.NDArray[np.int32]
    accepted: npt.NDArray[np.uint8]
    moved: int


@dataclass(frozen=True)
class TrainedBlock:
    """Steps ``first`` to ``first + count - 1``: one array [count] for each of the engine's ``per_step`` metrics.

    ``seconds`` is what the steps took. ``nonfinite`` is the first step with a value that is no finite number, or None.
    ``updates``: the gradients that came back meanwhile, under parameter servers.
    """

    first: int
    count: int
    values: tuple[npt.NDArray[np.floating[Any]], ...]
    seconds: float
    nonfinite: int | None = None
    updates: BlockUpdates | None = None


class Engine:
    """The engine of one run of ``exercise``: make it, ``compile``, then ``run_block`` until ``done``, evaluating and
    saving when due.

    Same exercise, settings, seed and data give the same bits, whatever the sizes of the blocks and however often the
    run was saved and restored. Raises ``ProblemError`` for an exercise or data that cannot be trained.
    """

    def __init__(
        self,
        exercise: Exercise[Any],
        settings: Params,
        seed: int,
        data: DataSet | None = None,
        *,
        strategy: Strategy | None = None,
        precision: str = "float32",
        block_steps: BlockSteps | None = None,
        lead: Lead | None = None,
    ) -> None:
        self.plan = Plan.of(settings)
        self.per_step: tuple[MetricSpec, ...] = tuple(spec for spec in exercise.metrics if spec.per_step)
        self._exercise, self._setup = exercise, Setup(settings, seed, data, fused=not exercise.jit)
        self._precision = precision
        self._live_specs = {spec.name: spec for spec in describe(type(settings)) if spec.live}
        self._progress = TrainingProgress([float(getattr(settings, name)) for name in self._live_specs])
        self.parts = StepParts()
        self._assemble(strategy or Single())
        self._clock, self._trained = 0.0, 0
        self._pictures = Pictures(
            exercise.pictures,
            self.model.pictures,
            evaluation=self._evaluation_interval(),
            epoch=steps_per_epoch(self.samples_per_epoch, self.samples_per_step),
            steps=self.steps,
            evaluates=bool(self._evaluators),
            class_names=data.class_names if data is not None else (),
        )
        self._stopping = EarlyStopping(self.plan.patience, self.model.watch)
        self._block_steps = block_steps or self._sizer.next
        self._lead = lead

    def _assemble(self, strategy: Strategy) -> None:
        """Make the model and the step on the devices of ``strategy``."""
        self._strategy, exercise, setup = strategy, self._exercise, self._setup
        with strategy.scope():
            self.model = exercise.build(setup)
            self._state = named_state(self.model)
        samples = _training_samples(self.model, setup.data)
        self.samples_per_epoch = size = len(samples.x)
        self.batch_size = min(self.plan.batch_size or size, size)
        step = TrainingStep(
            model=self.model,
            source=BatchSource(samples, make_order(self.plan.order, size, samples.y, self.batch_size, setup.seed)),
            strategy=strategy,
            metrics=self.per_step,
            live=tuple(self._live_specs),
            seed=setup.seed,
            batch_size=self.batch_size,
            loss_scale=LOSS_SCALE if self._precision == "float16" else 1.0,
            state=tuple(self._state.values()),
        )
        self._prepare(step)
        self._evaluators = _evaluators(self.model, [spec.name for spec in exercise.metrics if not spec.per_step])

    def _prepare(self, step: TrainingStep) -> None:
        self._traced = step
        plain = self._strategy.whole and self._precision == "float32"  # XLA leaves no graph to rewrite
        self._program = BlockProgram(step, capacity(self.steps, step), self._exercise.jit and plain)
        self._sizer = BlockSizer(self._program.capacity)

    @property
    def steps(self) -> int:
        """Steps that the whole run will have."""
        return self.plan.steps

    @property
    def samples_per_step(self) -> int:
        """Returns how many samples one step takes."""
        return self.batch_size

    @property
    def step(self) -> int:
        """The next step, which is how many updates have been done."""
        return self._progress.step

    @property
    def done(self) -> bool:
        """Whether nothing is left to train: all steps done, or stopped early."""
        return self.step >= self.steps or self.stopped_early

    @property
    def stopped_early(self) -> bool:
        """Whether the watched metric has not become better for as many evaluations as the settings allow."""
        return self._stopping.exhausted(self._progress)

    @property
    def diverged_at(self) -> int | None:
        """The first step of the run with a value that is no finite number. Training goes on all the same."""
        return self._progress.diverged_at if self._progress.diverged_at >= 0 else None

    @property
    def live(self) -> dict[str, float]:
        """The live hyperparameters as the next block will use them."""
        return dict(zip(self._live_specs, self._progress.live.tolist(), strict=True))

    @property
    def replicas(self) -> int:
        """Returns how many replicas compute each step together."""
        return self._strategy.replicas

    @property
    def logical_devices(self) -> bool:
        """Whether the replicas are parts of one processor."""
        return self.replicas > 1 and not any(
            "GPU" in own.device for variable in self._state.values() for own in copies(variable)
        )

    @property
    def reduced_bytes(self) -> int:
        """Bytes of gradients that each replica gives away in one step; known after ``compile``."""
        return self._strategy.reduced_bytes

    def trace(self) -> Any:
        """The block of steps as TensorFlow has traced it."""
        return self._program.trace()

    @property
    def traces(self) -> int:
        """Returns how many times the block was traced: 1, whatever has been run."""
        return self._program.traces

    @property
    def variables(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of all weights, slots and moving averages by name."""
        with self._settled():
            return {name: variable.numpy() for name, variable in self._state.items()}

    def compile(self) -> float:
        """Trace and compile the steps and warm up; returns the seconds it took. No step has been done afterwards.

        The first steps that a process computes are up to thirty times slower (threads start, kernels choose their
        form), so some are computed here and undone. The last ones show how many the first block may take. Raises
        ``ProblemError`` when the exercise could not be resumed exactly.
        """
        start = time.perf_counter()
        check_resumable(self._program.trace(), self._state, spread=not self._strategy.whole)
        self._program(0, 0, self._progress.live)
        self._warm_up()
        return time.perf_counter() - start

    def measure_parts(self) -> None:
        """Measure what ``parts`` holds; after ``compile``, in all processes of the run."""
        self.parts = measure_parts(self._traced)

    def compile_evaluation(self) -> float:
        """Trace and compile what ``evaluate`` does, unless it is to do that itself; returns the seconds it took."""
        start = time.perf_counter()
        for evaluator in self._evaluators:
            evaluator.compile()
        return time.perf_counter() - start if self._evaluators else 0.0

    def compile_pictures(self) -> float:
        """Trace and compile the run's pictures; returns the seconds it took, 0 when there are none."""
        start = time.perf_counter()
        self._pictures.compile()
        return time.perf_counter() - start if self._pictures else 0.0

    def run_block(self, until: int | None = None) -> TrainedBlock:
        """Train the next block, which ends at the latest where an evaluation, a checkpoint or the run's end is due.

        ``until`` is a later step than the next one, at which the block ends in any case.
        """
        first = self.step
        room = min(self._room(), self._program.capacity, self.steps if until is None else until - first)
        if room < 1:
            raise RuntimeError(f"all {self.steps} steps are done")
        count = max(1, min(self._block_steps(room), room))
        start = time.perf_counter()
        if self._lead is not None:
            self._lead(first, count, self._progress.live.tolist())
        rows = self._program(first, count, self._progress.live)
        seconds = time.perf_counter() - start
        return self._trained_block(rows, seconds)

    def _trained_block(
        self, rows: npt.NDArray[np.floating[Any]], seconds: float, updates: BlockUpdates | None = None
    ) -> TrainedBlock:
        """Count the steps whose metrics are ``rows`` [count, metrics]."""
        first, count = self.step, len(rows)
        self._sizer.record(count, seconds)
        self._progress.step += count
        self._clock += seconds
        self._trained += count
        columns = tuple(rows[:, place].astype(spec.dtype) for place, spec in enumerate(self.per_step))
        return TrainedBlock(first, count, columns, seconds, self._nonfinite(first, rows), updates)

    def follow(self, first: int, count: int, live: Sequence[float]) -> None:
        """Does, in a process that is led, the block that the leading one does just now."""
        self._progress.live[:] = live
        self._program(first, count, self._progress.live)
        self._progress.step = first + count

    def evaluation_due(self) -> bool:
        """Whether held-out samples are to be measured now, before the next block."""
        if not self._evaluators or self.step == 0 or self._progress.evaluated_at == self.step:
            return False
        return self.step >= self.steps or self.step % self._evaluation_interval() == 0

    def evaluate(self) -> dict[str, float]:
        """Measure the held-out samples; may stop the run early."""
        values: dict[str, float] = {}
        with self._settled():
            for evaluator in self._evaluators:
                values |= evaluator.evaluate()
        self._progress.evaluated_at = self.step
        self._stopping.note(values, self._progress)
        return values

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        """The pictures that are due now, as events; with ``last`` all that were not taken at this step yet."""
        if not self._pictures.due(self.step, last=last):
            return iter(())
        with self._settled():
            if last:
                return iter(tuple(self._pictures.take_last(self.step)))
            return iter(tuple(self._pictures.take(self.step, self._clock, self._clock / max(self._trained, 1))))

    def checkpoint_due(self) -> bool:
        """Whether the settings ask for a checkpoint now. Checkpoints on a stop are the caller's decision."""
        every = self.plan.checkpoint_every
        return every is not None and self.step > 0 and self.step % every == 0 and self._progress.saved_at != self.step

    def set_live(self, name: str, value: object) -> None:
        """Change a live hyperparameter from the next block's first step on. Raises ``ProblemError``."""
        if name not in self._live_specs:
            known = ", ".join(self._live_specs) or "none"
            raise problem(
                "live.unknown", f"{name!r} cannot be changed while the run trains.", f"Live values: {known}.", name
            )
        number, found = convert(self._live_specs[name], value)
        if found is not None:
            raise problem(found.code, found.text, found.hint, name)
        if not isinstance(number, int | float):
            raise problem("live.kind", f"{name!r} is not a number.", where=name)
        self._progress.live[list(self._live_specs).index(name)] = number

    def save(self, folder: Path) -> None:
        """Write everything that the run needs to go on into ``folder``."""
        self._progress.saved_at = self.step
        self._strategy.settle(tuple(self._state.values()))
        state.save(self._state | self._progress.variables(), folder)

    def restore(self, folder: Path) -> None:
        """Go on from what ``save`` wrote. Raises ``ProblemError`` when it does not fit this run."""
        progress = self._progress.variables()
        state.restore(self._state | progress, folder)
        self._progress.read(progress)

    def _warm_up(self) -> None:
        kept = [(own, tf.identity(own)) for variable in self._state.values() for own in copies(variable)]
        alone = self._strategy.processes == 1
        for number, steps in enumerate(WARM_UP_STEPS if alone else WARM_UP_STEPS[:2]):
            count, start = min(steps, self._program.capacity), time.perf_counter()
            self._program(self.step, count, self._progress.live)
            seconds = time.perf_counter() - start
            self._sizer.expect(count, seconds)
            if number and seconds > WARM_UP_S:
                break
        for own, value in kept:
            own.assign(value)

    def _settled(self) -> AbstractContextManager[object]:
        return self._strategy.settled(tuple(self._state.values()))

    def _room(self) -> int:
        """Steps until something is due between blocks."""
        intervals = [every for every in (self.plan.checkpoint_every,) if every is not None]
        if self._evaluators:
            intervals.append(self._evaluation_interval())
        due = (place - self.step for place in self._pictures.places(self.step))
        return min([self.steps - self.step, *(every - self.step % every for every in intervals), *due])

    def _evaluation_interval(self) -> int:
        """Returns the steps between two evaluations: as asked for; else about ``EVALUATIONS`` times in a run, and after
        each epoch at the latest."""
        epoch = steps_per_epoch(self.samples_per_epoch, self.samples_per_step)
        return self.plan.evaluate_every or min(epoch, max(1, -(-self.steps // EVALUATIONS)))

    def _nonfinite(self, first: int, rows: npt.NDArray[np.floating[Any]]) -> int | None:
        finite = np.isfinite(rows)
        if finite.all():
            return None
        step = first + int(np.argmin(finite.all(axis=1)))
        if self._progress.diverged_at < 0:
            self._progress.diverged_at = step
        return step


def _training_samples(model: Model, data: DataSet | None) -> Samples:
    if model.train is not None:
        samples = model.train
    elif data is not None:
        samples = Samples(data.train.x, data.train.y)
    else:
        raise problem("exercise.data", "The run has no training samples.", "Choose mnist or digits.", "data")
    if not len(samples.x):
        raise problem("exercise.empty", "The data set has no training samples.", "Choose another one.", "data")
    return samples


def _evaluators(model: Model, wanted: list[str]) -> list[Evaluator]:
    if model.evaluate is None:
        return []
    sets = model.evaluation_sets.items()
    asked = {name: [metric for metric in wanted if metric.startswith(f"{name}_")] for name, _ in sets}
    return [
        Evaluator(name, x, model.evaluate, asked[name], model.summarize) for name, x in sets if asked[name] and len(x.x)
    ]
