"""A line through a thousand points, on a parameter-server cluster. NCSA, TensorFlow on Blue Waters, part two."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from clew_agent import lesson
from clew_agent.strategies import parameter_server, single
from clew_agent.strategies.cluster_settings import ASYNC, BOUNDED, SYNC

# A thousand points near the line y = 3 x + 2.
SLOPE, OFFSET, NOISE, POINTS = 3.0, 2.0, 0.1, 1000

CLUSTER = lesson.needs(
    strategy=parameter_server.CARD.id,
    mode=(ASYNC, SYNC, BOUNDED),
    workers=lesson.at_least(2),
    steps=lesson.at_least(200),
)
"""On one device, or by one long step, a line is found without a cluster."""


class PsRegressionSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Slow enough to watch."""

    optimizer: lesson.OptimizerName = "sgd"
    learning_rate: lesson.LearningRate = 0.02
    batch_size: lesson.BatchSize = 10
    steps: lesson.Steps = 1000


class PsRegression(lesson.Exercise[PsRegressionSettings]):
    """W and b on a server, gradients from workers."""

    id = "ps-regression"
    title = "Regression on a cluster"
    subtitle = "one server, two workers"
    chapter = "Many devices"
    course = "NCSA, TensorFlow on Blue Waters, part two"
    minutes = 20
    summary = "Form a parameter-server cluster, see which process updates what, and what its loss does."
    revision = 1

    def build(self, setup: lesson.Setup[PsRegressionSettings]) -> lesson.Model:
        """Both are zero at the start."""
        draw = np.random.default_rng(setup.seed)
        x = draw.uniform(-1, 1, POINTS).astype(np.float32)
        y = (SLOPE * x + OFFSET + NOISE * draw.standard_normal(POINTS)).astype(np.float32)
        W, b = tf.Variable(0.0, name="W"), tf.Variable(0.0, name="b")

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            slope, offset = tf.identity(W), tf.identity(b)
            error = slope * batch.x + offset - batch.y
            return lesson.Loss(batch.mean(tf.square(error)), {"W": slope, "b": offset})

        return lesson.Model(
            parts=[lesson.Part("line", {"W": W, "b": b}, loss, setup.optimizer())], train=lesson.Samples(x, y)
        )

    metrics = (lesson.each_step("loss", "Loss", "lower"), lesson.each_step("W", "W"), lesson.each_step("b", "b"))
    plots = (lesson.plot("loss", "Loss", "loss", log=True), lesson.plot("weights", "W and b", "W", "b"))
    presets = (
        lesson.preset("usual", "Clew's values", "Gradient descent, rate 0.02, batches of ten points."),
        lesson.preset("tiny", "Tiny", "A few seconds of updates.", steps=60),
    )
    goals = (
        lesson.goal("W", "W is 3", f"W = {SLOPE} ± 0.05", CLUSTER, question=1),
        lesson.goal("b", "b is 2", f"b = {OFFSET} ± 0.05", CLUSTER, question=1),
    )
    goal_details = {"W": "Found to two digits.", "b": "Found to two digits."}
    strategies = (parameter_server.CARD, single.CARD)


EXERCISE = PsRegression()
