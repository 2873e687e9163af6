"""What cannot be resumed exactly is refused before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf

from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.random import StepContext
from clew_agent.training.settings import TrainingSettings
from clew_shared.base.problem import ProblemError
from clew_shared.cards import MetricSpec
from tests.exercises.training import make_engine, train

Forward = Callable[[tf.Tensor], tf.Tensor]


class Toy(Exercise[TrainingSettings]):
    """One weight; what happens to the input on the way is the test's."""

    id = "toy"
    title = "Toy"
    Settings = TrainingSettings
    metrics: ClassVar[tuple[MetricSpec, ...]] = (MetricSpec(name="loss", label="Loss"),)

    def __init__(self, forward: Forward) -> None:
        self._forward = forward

    def build(self, setup: Setup[TrainingSettings]) -> Model:
        weight = tf.Variable(2.0)

        def loss(batch: Batch, _: StepContext) -> Loss:
            return Loss(batch.mean(tf.square(weight * self._forward(batch.x) - batch.y)))

        part = Part("toy", {"weight": weight}, loss, setup.optimizer())
        return Model([part], train=Samples(np.ones([4, 3], np.float32), np.ones([4, 3], np.float32)))


def dropout() -> Forward:
    layer = keras.layers.Dropout(0.5)
    return lambda x: layer(x, training=True)


def forgotten_variable() -> Forward:
    hidden = tf.Variable(1.0, name="hidden_scale")
    return lambda x: x * hidden.assign_add(0.1)


def inside_a_branch(draw: Forward) -> Forward:
    return lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: draw(x), lambda: x)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (dropout(), r"own generator \(.*seed_generator.*\), which no checkpoint restores"),
        (forgotten_variable(), r"variable \(hidden_scale.*\) of no part"),
        (lambda x: x + tf.random.uniform(tf.shape(x)), "RandomUniform"),
        (inside_a_branch(lambda x: x + tf.random.normal(tf.shape(x))), "RandomStandardNormal"),
        (inside_a_branch(dropout()), "own generator"),
    ],
    ids=["Keras dropout", "forgotten variable", "random op", "random op in a branch", "Keras dropout in a branch"],
)
def test_hidden_state_and_randomness_are_refused(forward: Forward, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        make_engine(Toy(forward), {}).compile()


def test_an_honest_step_passes() -> None:
    engine = make_engine(Toy(lambda x: x), {"steps": 3})
    assert train(engine)["loss"].tolist() == sorted(train(make_engine(Toy(lambda x: x), {"steps": 3}))["loss"])[::-1]


def test_a_promised_metric_that_no_loss_gives_is_refused() -> None:
    class Promising(Toy):
        metrics = (*Toy.metrics, MetricSpec(name="gain", label="Gain"))

    with pytest.raises(ProblemError, match=r"promises gain .* give only loss"):
        make_engine(Promising(lambda x: x), {}).compile()


def test_a_run_without_samples_is_refused() -> None:
    class Empty(Toy):
        def build(self, setup: Setup[TrainingSettings]) -> Model:
            return Model(
                super().build(setup).parts, train=Samples(np.ones([0, 3], np.float32), np.ones([0, 3], np.float32))
            )

    with pytest.raises(ProblemError, match="no training samples"):
        make_engine(Empty(lambda x: x), {}).compile()


def test_values_that_are_no_numbers_are_reported_once_and_training_goes_on() -> None:
    values: dict[str, Any] = {"learning_rate": 100.0, "steps": 60}
    engine = make_engine(Toy(lambda x: x), values)
    reported = []
    while not engine.done:
        reported.append(engine.run_block().nonfinite)
    first = next(step for step in reported if step is not None)
    assert engine.step == 60
    assert engine.course.diverged_at == first > 0
