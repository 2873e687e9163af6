"""My exercise: what is the question that it answers?"""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Setup
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, LearningRate, Steps
from clew_shared.cards import ConfusionMatrix, Goal, MetricSpec, PlotSpec, Preset
from clew_shared.params import Knob

GUIDE = """\
## What to do

1. Run it as it is.
2. Change one thing, and run it again.

> **Hint: what to watch**
> The test accuracy, not the training accuracy.
"""


class MyExerciseSettings(BatchSettings, frozen=True, kw_only=True):
    """Optimizer, rate and batches come from BatchSettings. Each field here is a line in the form and an option."""

    learning_rate: LearningRate = 0.1
    steps: Steps = 500
    hidden: Annotated[int, Knob("Hidden units", "Size of the layer in the middle.", ge=1, le=10_000)] = 50


class MyExercise(Exercise[MyExerciseSettings]):
    """Pixels, a hidden layer, one score for each class."""

    id = "my-exercise"
    title = "My exercise"
    minutes = 15
    summary = "One sentence that says what a student learns."
    guide = GUIDE
    Settings = MyExerciseSettings
    datasets = ("mnist", "digits")
    jit = True
    metrics = (
        MetricSpec(name="loss", label="Training loss", better="lower"),
        MetricSpec(name="accuracy", label="Training accuracy", better="higher", format="percent"),
        MetricSpec(name="test_accuracy", label="Test accuracy", per_step=False, better="higher", format="percent"),
    )
    plots = (
        PlotSpec(id="loss", title="Loss", metrics=("loss",), log=True),
        PlotSpec(id="accuracy", title="Accuracy", metrics=("accuracy", "test_accuracy"), format="percent"),
    )
    pictures = (ConfusionMatrix("confusion", "Answers to 500 test images"),)
    presets = (Preset(name="tiny", title="Tiny", values={"steps": 60, "hidden": 20}, data="digits"),)
    goals = (Goal(id="good", text="90 %", metric="test_accuracy", op=">=", value=0.9),)

    def build(self, setup: Setup[MyExerciseSettings]) -> Model:
        """Make the variables, and say how they answer, learn and are tested."""
        data, hidden = setup.require_data(), setup.settings.hidden
        pixels = data.train.x.shape[1]
        W1 = setup.truncated_normal("W1", [pixels, hidden], stddev=pixels**-0.5)
        b1 = tf.Variable(tf.zeros([hidden]), name="b1")
        W2 = setup.truncated_normal("W2", [hidden, data.classes], stddev=hidden**-0.5)
        b2 = tf.Variable(tf.zeros([data.classes]), name="b2")

        def scores(x: tf.Tensor) -> tf.Tensor:
            return tf.matmul(tf.nn.relu(tf.matmul(x, W1) + b1), W2) + b2

        def right(batch: Batch) -> tf.Tensor:
            return tf.cast(tf.equal(tf.argmax(scores(batch.x), 1, tf.int32), batch.y), tf.float32)

        def loss(batch: Batch, _: StepContext) -> Loss:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(batch.y, scores(batch.x))
            return Loss(batch.mean(each), {"accuracy": batch.mean(right(batch))})

        x, y = data.test.x[:500], data.test.y[:500]

        def confusion() -> tf.Tensor:
            return tf.math.confusion_matrix(y, tf.argmax(scores(x), 1), data.classes)

        variables = {"W1": W1, "b1": b1, "W2": W2, "b2": b2}
        return Model(
            parts=[Part("network", variables, loss, setup.optimizer())],
            evaluate=lambda batch: {"accuracy": right(batch)},
            evaluation_sets=setup.held_out(),
            pictures={"confusion": confusion},
        )


EXERCISE = MyExercise()
