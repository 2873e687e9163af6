"""My exercise: what is the question that it answers?"""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent import lesson

GUIDE = """\
## What to do

1. Run it as it is.
2. Change one thing, and run it again.

> **Hint: what to watch**
> The test accuracy, not the training accuracy.
"""


class MyExerciseSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Optimizer, rate and batches come from BatchSettings. Each field here is a line in the form and an option."""

    learning_rate: lesson.LearningRate = 0.1
    steps: lesson.Steps = 500
    hidden: Annotated[int, lesson.number("Hidden units", "Size of the layer in the middle.", 1, 10_000)] = 50


class MyExercise(lesson.Exercise[MyExerciseSettings]):
    """Pixels, a hidden layer, one score for each class."""

    id = "my-exercise"
    title = "My exercise"
    minutes = 15
    summary = "One sentence that says what a student learns."
    guide = GUIDE
    datasets = ("mnist", "digits")
    jit = True

    def build(self, setup: lesson.Setup[MyExerciseSettings]) -> lesson.Model:
        """Make the variables, and say how they answer."""
        data, hidden = setup.require_data(), setup.settings.hidden
        pixels = data.train.x.shape[1]
        W1 = setup.truncated_normal("W1", [pixels, hidden], stddev=pixels**-0.5)
        b1 = tf.Variable(tf.zeros([hidden]), name="b1")
        W2 = setup.truncated_normal("W2", [hidden, data.classes], stddev=hidden**-0.5)
        b2 = tf.Variable(tf.zeros([data.classes]), name="b2")

        def scores(x: tf.Tensor) -> tf.Tensor:
            return tf.matmul(tf.nn.relu(tf.matmul(x, W1) + b1), W2) + b2

        variables = {"W1": W1, "b1": b1, "W2": W2, "b2": b2}
        pictures = lesson.answer_pictures(setup, scores, 500)
        return lesson.classifier(setup, scores, variables, pictures=pictures)

    metrics = lesson.CLASSIFICATION_METRICS
    plots = lesson.CLASSIFICATION_PLOTS
    pictures = lesson.ANSWER_PICTURES
    presets = (lesson.tiny(steps=60, hidden=20),)
    goals = (lesson.goal("good", "90 %", "test_accuracy >= 0.9"),)


EXERCISE = MyExercise()
