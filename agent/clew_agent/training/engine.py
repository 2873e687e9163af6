"""Trains one exercise with TensorFlow, in blocks of steps. Knows no journal, no socket and no process: the trainer
calls it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.engine.base import StepParts
from clew_agent.engine.blocks import BlockSizer, TrainedBlock
from clew_agent.strategies.base import Strategy, copies
from clew_agent.strategies.registry import make_strategy
from clew_agent.strategies.single import Single
from clew_agent.training import state
from clew_agent.training.assembly import RunPlan
from clew_agent.training.exercise import Exercise, Model
from clew_agent.training.runtime import run_operations_plainly
from clew_agent.training.state import check_resumable
from clew_agent.training.step import BlockProgram, capacity
from clew_agent.training.timing import measure_parts
from clew_shared.journal.events import Event
from clew_shared.params import Params, build
from clew_shared.spec import RunSpec

WARM_UP_STEPS, WARM_UP_S = (1, 1, 8, 64), 0.0015
"""Steps of the calls that warm up; one after the first that lasts longer than ``WARM_UP_S`` seconds is the last.
Several processes must do the same calls, whatever each of them measures: the first two."""

BlockSteps = Callable[[int], int]
"""Chooses the size of the next block from the room that is left, for tests."""
Lead = Callable[[int, int, Sequence[float]], None]
"""Has the run's other processes do a block too: its first step, how many, and the live values."""


class Engine:
    """The engine (``engine.base.TrainingEngine``) of one run of ``exercise``, in step on the devices of ``strategy``.

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
        recipe = RunPlan(exercise, settings, seed, data, precision)
        self._strategy = strategy or Single()
        self._made = recipe.assemble(self._strategy)
        self.course = recipe.course(self._made)
        self.parts = StepParts()
        step = self._made.step
        plain = self._strategy.whole and precision == "float32"  # XLA leaves no graph to rewrite
        self._program = BlockProgram(step, capacity(self.steps, step), exercise.jit and plain)
        self._sizer = BlockSizer(self._program.capacity)
        self._pictures = recipe.pictures(self._made, self.course)
        self._block_steps = block_steps or self._sizer.next
        self._lead = lead

    @property
    def model(self) -> Model:
        """The model that the exercise has built."""
        return self._made.model

    @property
    def steps(self) -> int:
        """Steps that the whole run will have."""
        return self.course.steps

    @property
    def step(self) -> int:
        """The next step, which is how many updates have been done."""
        return self.course.step

    @property
    def done(self) -> bool:
        """Whether nothing is left to train: all steps done, or stopped early."""
        return self.course.done

    @property
    def replicas(self) -> int:
        """Returns how many replicas compute each step together."""
        return self._strategy.replicas

    @property
    def logical_devices(self) -> bool:
        """Whether the replicas are parts of one processor."""
        return self.replicas > 1 and not any(
            "GPU" in own.device for variable in self._made.state.values() for own in copies(variable)
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
            return self._made.variables

    def compile(self) -> float:
        """Trace and compile the steps and warm up; returns the seconds it took. No step has been done afterwards.

        The first steps that a process computes are up to thirty times slower (threads start, kernels choose their
        form), so some are computed here and undone. The last ones show how many the first block may take. Raises
        ``ProblemError`` when the exercise could not be resumed exactly.
        """
        start = time.perf_counter()
        check_resumable(self._program.trace(), self._made.state, spread=not self._strategy.whole)
        self._program(0, 0, self.course.live_values)
        self._warm_up()
        return time.perf_counter() - start

    def _warm_up(self) -> None:
        kept = [(own, tf.identity(own)) for variable in self._made.state.values() for own in copies(variable)]
        alone = self._strategy.processes == 1
        for number, steps in enumerate(WARM_UP_STEPS if alone else WARM_UP_STEPS[:2]):
            count, start = min(steps, self._program.capacity), time.perf_counter()
            self._program(self.step, count, self.course.live_values)
            seconds = time.perf_counter() - start
            self._sizer.expect(count, seconds)
            if number and seconds > WARM_UP_S:
                break
        for own, value in kept:
            own.assign(value)

    def measure_parts(self) -> None:
        """Measure the times that ``parts`` holds; after ``compile``, in all processes of the run."""
        self.parts = measure_parts(self._made.step)

    def compile_evaluation(self) -> float:
        """Trace and compile what ``evaluate`` does, unless it is to do that itself; returns the seconds it took."""
        return self._made.compile_evaluation()

    def compile_pictures(self) -> float:
        """Trace and compile the run's pictures; returns the seconds it took, 0 when there are none."""
        return self._pictures.compile()

    def run_block(self, until: int | None = None) -> TrainedBlock:
        """Train the next block, which ends at the latest where an evaluation, a checkpoint or the run's end is due.

        ``until`` is a later step than the next one, at which the block ends in any case.
        """
        first, live = self.step, self.course.live_values
        room = min(self.course.room(until, self._pictures.places()), self._program.capacity)
        count = max(1, min(self._block_steps(room), room))
        start = time.perf_counter()
        if self._lead is not None:
            self._lead(first, count, live.tolist())
        rows = self._program(first, count, live)
        seconds = time.perf_counter() - start
        self._sizer.record(count, seconds)
        return self.course.trained(rows, seconds)

    def follow(self, first: int, count: int, live: Sequence[float]) -> None:
        """Does, in a process that is led, the block that the leading one does just now."""
        self.course.live_values[:] = live
        self._program(first, count, self.course.live_values)
        self.course.step = first + count

    def evaluate(self) -> dict[str, float]:
        """Measure the held-out samples; may stop the run early."""
        with self._settled():
            values = self._made.evaluate()
        self.course.evaluated(values)
        return values

    def take_pictures(self, *, last: bool = False) -> Iterator[Event]:
        """The pictures that are due now, as events; with ``last`` all that were not taken at this step yet."""
        if not self._pictures.due(last=last):
            return iter(())
        with self._settled():
            return iter(tuple(self._pictures.take(last=last)))

    def save(self, folder: Path) -> None:
        """Write everything that the run needs to go on into ``folder``."""
        self._strategy.settle(tuple(self._made.state.values()))
        state.save({**self._made.state, **state.as_variables(self.course.saved())}, folder)

    def restore(self, folder: Path) -> None:
        """Go on from what ``save`` wrote. Raises ``ProblemError`` when it does not fit this run."""
        progress = state.as_variables(self.course.progress())
        state.restore({**self._made.state, **progress}, folder)
        self.course.go_on_from(state.as_arrays(progress))

    def _settled(self) -> AbstractContextManager[object]:
        return self._strategy.settled(tuple(self._made.state.values()))


def make_engine(
    exercise: Exercise[Any],
    spec: RunSpec,
    data: DataSet | None,
    joined: Callable[[], None] = lambda: None,
    lead: Lead | None = None,
) -> Engine:
    """Makes the engine that ``spec`` asks for; ``joined`` is called when this process belongs to the run's cluster."""
    strategy = make_strategy(spec.strategy, spec.devices, spec.options, spec.nodes)
    joined()
    run_operations_plainly()
    settings = build(exercise.Settings, spec.params)
    return Engine(exercise, settings, spec.seed, data, strategy=strategy, precision=spec.precision, lead=lead)
