"""Activations in a deep network: why gradients vanish on the way to the first layer. After IT4Innovations' course."""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent import lesson

DEEP = lesson.needs(
    layers=lesson.at_least(20), skip=False, activation=("relu", "leaky-relu"), steps=lesson.at_most(2000)
)
"""With skip connections sigmoids learn as well, and tanh learns with the usual weights."""
ACTIVATIONS: dict[str, lesson.Activation] = {
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "leaky-relu": lesson.leaky_relu,
}
LOOKED_AT = 1000
"""Training images whose gradient the picture shows."""


class ActivationsSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """How deep the network is and what bends its layers."""

    activation: Annotated[
        str,
        lesson.Knob(
            "Activation",
            "What each unit makes of the sum of its inputs.",
            "Network",
            choices=lesson.choices(sigmoid="Sigmoid", tanh="tanh", relu="ReLU", leaky_relu="Leaky ReLU"),
        ),
    ] = "sigmoid"
    layers: Annotated[int, lesson.number("Layers", "Hidden layers, all of the same size.", 1, 30, "Network")] = 6
    units: Annotated[int, lesson.size("Units", "Units of each hidden layer.", 1, 2048, "Network")] = 100
    initial: lesson.InitialWeights = "glorot"
    skip: Annotated[
        bool,
        lesson.Knob(
            "Skip connections", "Each hidden layer but the first adds what it gets to what it makes.", "Network"
        ),
    ] = False
    optimizer: lesson.OptimizerName = "sgd"
    learning_rate: lesson.LearningRate = 0.1
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 2000


class Activations(lesson.Exercise[ActivationsSettings]):
    """Six hidden layers; the length of each layer's gradient is recorded."""

    id = "activations"
    title = "Activations"
    subtitle = "vanishing gradients in a deep network"
    chapter = "Networks"
    course = "IT4Innovations, deep-learning training on GPUs"
    minutes = 20
    summary = "Train a deep network with sigmoid, tanh and ReLU, and see where the gradient gets lost."
    datasets = ("mnist", "digits")
    revision = 1
    plays = True
    tries = "classes"
    jit = True

    def build(self, setup: lesson.Setup[ActivationsSettings]) -> lesson.Model:
        """Equal layers in a row, then ten scores."""
        options, data = setup.settings, setup.require_data()
        bend = ACTIVATIONS[options.activation]
        layers: list[lesson.Dense] = []
        inputs = data.train.x.shape[1]
        for number in range(1, options.layers + 1):
            layers.append(lesson.dense(setup, f"layer{number}", (inputs, options.units), bend, options.initial))
            inputs = options.units
        layers.append(lesson.dense(setup, "output1", (inputs, data.classes), tf.identity, options.initial))

        def scores(x: tf.Tensor) -> tf.Tensor:
            if not options.skip:
                return lesson.through(layers, x)
            first, *middle, last = layers
            x = first(x)
            for layer in middle:
                x += layer(x)
            return last(x)

        def gradients() -> tf.Tensor:
            """The length of the gradient of each layer's weights, from the first layer to the last."""
            x, y = tf.constant(data.train.x[:LOOKED_AT]), tf.constant(data.train.y[:LOOKED_AT])
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(lesson.cross_entropy(scores(x), y))
            return tf.stack([tf.norm(one) for one in tape.gradient(value, [layer.weights for layer in layers])])

        pictures = {"gradients": gradients, "weights": lambda: lesson.weights_of(layers)}
        return lesson.classifier(setup, scores, lesson.variables_of(layers), pictures=pictures)

    metrics = (
        lesson.LOSS,
        lesson.ACCURACY,
        lesson.each_step("layer1_gradient", "First layer's gradient norm"),
        lesson.each_step("output1_gradient", "Last layer's gradient norm"),
        *lesson.HELD_OUT_METRICS,
    )
    plots = (
        *lesson.CLASSIFICATION_PLOTS,
        lesson.plot("gradients", "Gradient norms", "layer1_gradient", "output1_gradient", log=True),
    )
    pictures = (
        lesson.Bars("gradients", "Gradient norm of each layer", log=True),
        lesson.Distributions("weights", "Weights of each layer over the steps"),
    )
    picture_seconds = 1.0
    baseline = "sigmoid"
    presets = (
        lesson.preset("sigmoid", "Sigmoid", "Six layers, of which the first learns nothing."),
        lesson.preset("tanh", "tanh", "A slope of up to 1.", activation="tanh"),
        lesson.preset("relu", "ReLU", "A slope of 1, or of 0.", activation="relu"),
        lesson.preset("leaky-relu", "Leaky ReLU", "No unit is ever quite off.", activation="leaky-relu"),
        lesson.tiny(steps=100, activation="relu"),
    )
    goals = (
        lesson.goal("deep", "95 % with 20 layers of ReLU", "test_accuracy >= 0.95 on mnist", DEEP, question=3),
        lesson.goal(
            "digits", "90 % on the small digits with 20 layers of ReLU", "test_accuracy >= 0.9 on digits", DEEP
        ),
    )
    goal_details = {
        "deep": "At the end of a run of 2,000 steps or fewer. Which initial weights get there?",
        "digits": "At the end of a run of 2,000 steps or fewer. Which initial weights and which rate get there?",
    }
    races = (
        lesson.race(
            "activations",
            "Activation race",
            "validation_accuracy",
            1000,
            "The same weights, images and rate: which activations learn at all?",
            *(lesson.lane(name, activation=name) for name in ACTIVATIONS),
        ),
    )


EXERCISE = Activations()
