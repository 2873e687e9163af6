"""Recurrent networks: an image read row by row, by a simple RNN, a GRU or an LSTM. After IT4Innovations' course."""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent import lesson

LOOKED_AT = 500
"""Training images whose gradient the picture shows."""
SHORT = lesson.needs(steps=lesson.at_most(2000), units=lesson.at_most(64))


class RnnSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """The cell, and how much it can remember."""

    cell: Annotated[
        str,
        lesson.Knob(
            "Cell",
            "How the state goes from one row to the next.",
            "Network",
            choices=lesson.choices(simple="Simple RNN", gru="GRU", lstm="LSTM"),
        ),
    ] = "simple"
    units: Annotated[int, lesson.size("Units", "Numbers in the state.", 1, 1024, "Network")] = 64
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 1e-3
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 1000


class Rnn(lesson.Exercise[RnnSettings]):
    """28 rows of 28 pixels, one after the other, and an answer after the last."""

    id = "rnn"
    title = "Recurrent networks"
    subtitle = "an image, row by row"
    chapter = "Networks"
    course = "IT4Innovations, deep-learning training on GPUs"
    minutes = 25
    summary = "Read images as sequences, and see what a network with gates remembers of the first rows."
    datasets = ("mnist", "digits")
    revision = 1
    tries = "classes"

    def build(self, setup: lesson.Setup[RnnSettings]) -> lesson.Model:
        """The weights of all gates side by side in one matrix for the row and one for the state."""
        options, data = setup.settings, setup.require_data()
        height, width, channels = data.image_shape
        row, units, gates = width * channels, options.units, lesson.GATES[options.cell]
        variables = {
            "row": setup.truncated_normal("row", [row, gates * units], stddev=row**-0.5),
            "state": setup.truncated_normal("state", [units, gates * units], stddev=units**-0.5),
            "offset": tf.Variable(tf.zeros([gates * units]), name="offset"),
            "output": setup.truncated_normal("output", [units, data.classes], stddev=units**-0.5),
            "output_offset": tf.Variable(tf.zeros([data.classes]), name="output_offset"),
        }
        keep = 1 if options.cell == "lstm" else None  # its forget gate begins open (Jozefowicz et al., 2015)
        step = lesson.recurrent_cell(options.cell, variables["state"], keep, variables["offset"])

        def states(x: tf.Tensor) -> list[tf.Tensor]:
            """What the network has read after each row: ``height`` tensors [batch, units]."""
            rows = tf.unstack(tf.reshape(x, [-1, height, row]), axis=1)
            state = (tf.zeros([tf.shape(x)[0], units]),) * lesson.STATES[options.cell]
            read = []
            for one in rows:
                state = step(tf.matmul(one, variables["row"]), state)
                read.append(state[0])
            return read

        def answer(read: tf.Tensor) -> tf.Tensor:
            return tf.matmul(read, variables["output"]) + variables["output_offset"]

        def scores(x: tf.Tensor) -> tf.Tensor:
            return answer(states(x)[-1])

        def gradients() -> tf.Tensor:
            """How much the loss depends on the state after each row: the length of its gradient, 1 after the last."""
            x, y = tf.constant(data.train.x[:LOOKED_AT]), tf.constant(data.train.y[:LOOKED_AT])
            with tf.GradientTape() as tape:
                read = states(x)
                value = tf.reduce_mean(lesson.cross_entropy(answer(read[-1]), y))
            norms = tf.stack([tf.norm(one) for one in tape.gradient(value, read)])
            return norms / norms[-1]

        return lesson.classifier(setup, scores, variables, name="rnn", pictures={"gradients": gradients})

    metrics = (
        lesson.LOSS,
        lesson.ACCURACY,
        lesson.each_step("rnn_gradient", "Gradient norm"),
        *lesson.HELD_OUT_METRICS,
    )
    plots = (*lesson.CLASSIFICATION_PLOTS, lesson.plot("gradient", "Gradient norm", "rnn_gradient", log=True))
    pictures = (lesson.Bars("gradients", "Gradient norm of the state after each row", log=True),)
    baseline = "simple"
    presets = (
        lesson.preset("simple", "Simple RNN", "The state goes through one tanh."),
        lesson.preset("gru", "GRU", "Two gates: keep the state, or reset it.", cell="gru"),
        lesson.preset("lstm", "LSTM", "Three gates and a memory of its own.", cell="lstm"),
        lesson.tiny(steps=100, units=32, cell="gru", learning_rate=0.005),
    )
    goals = (
        lesson.goal("read", "97 %", "test_accuracy >= 0.97 on mnist", SHORT),
        lesson.goal("digits", "88 % on the small digits", "test_accuracy >= 0.88 on digits", question=2),
    )
    goal_details = {
        "read": "At the end of a run of 2,000 steps or fewer. Which cell and which rate get there?",
        "digits": "With another cell or a larger rate.",
    }
    races = (
        lesson.race(
            "cells",
            "Cell race",
            "validation_accuracy",
            500,
            "The same rows, rate and number of units: which cell reads best?",
            lesson.lane("Simple RNN", cell="simple"),
            lesson.lane("GRU", cell="gru"),
            lesson.lane("LSTM", cell="lstm"),
        ),
    )


EXERCISE = Rnn()
