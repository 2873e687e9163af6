"""An exercise's model on the devices of a strategy, with what training needs around it: step, evaluation, pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.engine.course import Course, Plan, live_specs
from clew_agent.engine.pictures import ForbiddenWrite, Pictures
from clew_agent.strategies.base import Strategy
from clew_agent.training.evaluation import Evaluator
from clew_agent.training.exercise import Exercise, Model, Samples, Setup
from clew_agent.training.order import make_order
from clew_agent.training.state import named_state
from clew_agent.training.step import BatchSource, TrainingStep
from clew_shared.base.problem import Problem, problem
from clew_shared.params import Params

LOSS_SCALE = 2.0**10
"""The factor by which the loss is enlarged and the gradients are reduced: with gradients of 16 bits small ones would
vanish."""


@dataclass(frozen=True)
class BuiltModel:
    """A model whose variables are made, all of them under our own names in ``state``, and its traced step."""

    model: Model
    state: Mapping[str, tf.Variable]
    step: TrainingStep
    evaluators: tuple[Evaluator, ...]

    @property
    def variables(self) -> dict[str, npt.NDArray[Any]]:
        """Copies of all weights, slots and moving averages by name."""
        return {name: variable.numpy() for name, variable in self.state.items()}

    def compile_evaluation(self) -> float:
        """Trace and compile what ``evaluate`` does, unless it is to do that itself; returns the seconds it took."""
        start = time.perf_counter()
        for evaluator in self.evaluators:
            evaluator.compile()
        return time.perf_counter() - start if self.evaluators else 0.0

    def evaluate(self) -> dict[str, float]:
        """Measure the held-out samples."""
        values: dict[str, float] = {}
        for evaluator in self.evaluators:
            values |= evaluator.evaluate()
        return values


class RunPlan:
    """What one run trains. It can be assembled again, on other devices, and has one course all the same.

    Raises ``ProblemError`` for an exercise or data that cannot be trained.
    """

    def __init__(
        self, exercise: Exercise[Any], settings: Params, seed: int, data: DataSet | None, precision: str
    ) -> None:
        self.exercise = exercise
        self.precision = precision
        self._settings = settings
        self._setup = Setup(settings, seed, data, fused=not exercise.jit)

    def assemble(self, strategy: Strategy) -> BuiltModel:
        """Makes the model and the step on the devices of ``strategy``."""
        exercise, setup, plan = self.exercise, self._setup, Plan.of(self._settings)
        with strategy.scope():
            model = exercise.build(setup)
            state = named_state(model)
        samples = _training_samples(model, setup.data)
        size = len(samples.x)
        batch_size = min(plan.batch_size or size, size)
        step = TrainingStep(
            model=model,
            source=BatchSource(samples, make_order(plan.order, size, samples.y, batch_size)),
            strategy=strategy,
            metrics=tuple(spec for spec in exercise.metrics if spec.per_step),
            live=tuple(spec.name for spec in live_specs(self._settings)),
            seed=setup.seed,
            batch_size=batch_size,
            loss_scale=LOSS_SCALE if self.precision == "float16" else 1.0,
            state=tuple(state.values()),
        )
        wanted = [spec.name for spec in exercise.metrics if not spec.per_step]
        return BuiltModel(model, state, step, _evaluators(model, wanted))

    def course(self, made: BuiltModel) -> Course:
        """The course of the run."""
        return Course(
            self._settings,
            self.exercise.metrics,
            len(made.step.source.arrays.x),
            made.step.batch_size,
            measured=sum(one.size for one in made.evaluators),
            watch=made.model.watch,
        )

    def pictures(self, made: BuiltModel, course: Course) -> Pictures:
        """The pictures of the run."""
        data = self._setup.data
        names = data.class_names if data is not None else ()
        return Pictures(
            course,
            self.exercise.pictures,
            made.model.pictures,
            trace=_traced,
            class_names=names,
            free=self.exercise.picture_seconds,
        )


def _traced(picture: str, function: Callable[[], Any]) -> Callable[[], Any]:
    """The function as a TensorFlow program. Raises ``ForbiddenWrite`` when it changes variables."""
    traced = tf.function(function, input_signature=[], autograph=False).get_concrete_function()
    graph = traced.graph.as_graph_def()
    nodes = [*graph.node, *(node for inner in graph.library.function for node in inner.node_def)]
    writes = sorted({node.op for node in nodes if node.op.startswith(("Assign", "ResourceApply"))})
    if writes:
        text = f"The picture {picture} changes a variable ({writes[0]}): training would depend on it."
        raise ForbiddenWrite(Problem("exercise.picture", text, "Only read variables there."))
    program: Callable[[], Any] = traced
    return program


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


def _evaluators(model: Model, wanted: list[str]) -> tuple[Evaluator, ...]:
    if model.evaluate is None:
        return ()
    sets = model.evaluation_sets.items()
    asked = {name: [metric for metric in wanted if metric.startswith(f"{name}_")] for name, _ in sets}
    return tuple(
        Evaluator(name, x, model.evaluate, asked[name], model.summarize) for name, x in sets if asked[name] and len(x.x)
    )
