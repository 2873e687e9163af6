"""Activations in a deep network: why gradients vanish on the way to the first layer. After IT4Innovations' course."""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent.lesson.cards import at_least, at_most, goal, lane, needs, preset, race
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Setup
from clew_agent.training.judging import (
    ACCURACY,
    CLASSIFICATION_PLOTS,
    LOSS,
    TEST_ACCURACY,
    TEST_LOSS,
    VALIDATION_ACCURACY,
    VALIDATION_LOSS,
)
from clew_agent.training.layers import (
    Activation,
    Dense,
    correct,
    cross_entropy,
    dense,
    leaky_relu,
    through,
    variables_of,
    weights_of,
)
from clew_agent.training.random import StepContext
from clew_agent.training.settings import (
    BatchSettings,
    BatchSize,
    InitialWeights,
    LearningRate,
    OptimizerName,
    OrderName,
    Steps,
)
from clew_shared.cards import Bars, Distributions, MetricSpec, PlotSpec
from clew_shared.params import Choice, Knob

DEEP = needs(layers=at_least(20), skip=False, activation=("relu", "leaky-relu"), steps=at_most(2000))
"""With skip connections sigmoids learn as well, and tanh learns with the usual weights."""
ACTIVATIONS: dict[str, Activation] = {
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "leaky-relu": leaky_relu,
}
LOOKED_AT = 1000
"""Training images whose gradient the picture shows."""


class ActivationsSettings(BatchSettings, frozen=True, kw_only=True):
    """How deep the network is and what bends its layers."""

    activation: Annotated[
        str,
        Knob(
            "Activation",
            "What each unit makes of the sum of its inputs.",
            "Network",
            choices=(
                Choice("sigmoid", "Sigmoid"),
                Choice("tanh", "tanh"),
                Choice("relu", "ReLU"),
                Choice("leaky-relu", "Leaky ReLU"),
            ),
        ),
    ] = "sigmoid"
    layers: Annotated[int, Knob("Layers", "Hidden layers, all of the same size.", "Network", ge=1, le=30)] = 6
    units: Annotated[int, Knob("Units", "Units of each hidden layer.", "Network", ge=1, le=2048, log=True)] = 100
    initial: InitialWeights = "glorot"
    skip: Annotated[
        bool,
        Knob("Skip connections", "Each hidden layer but the first adds what it gets to what it makes.", "Network"),
    ] = False
    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 0.1
    batch_size: BatchSize = 100
    order: OrderName = "shuffle"
    steps: Steps = 2000


class Activations(Exercise[ActivationsSettings]):
    """Six hidden layers; the length of each layer's gradient is recorded."""

    id = "activations"
    title = "Activations"
    subtitle = "vanishing gradients in a deep network"
    chapter = "Networks"
    course = "IT4Innovations, deep-learning training on GPUs"
    minutes = 20
    summary = "Train a deep network with sigmoid, tanh and ReLU, and see where the gradient gets lost."
    Settings = ActivationsSettings
    datasets = ("mnist", "digits")
    revision = 1
    tries = "classes"
    jit = True
    metrics = (
        LOSS,
        ACCURACY,
        MetricSpec(name="layer1_gradient", label="First layer's gradient norm"),
        MetricSpec(name="output1_gradient", label="Last layer's gradient norm"),
        VALIDATION_LOSS,
        VALIDATION_ACCURACY,
        TEST_LOSS,
        TEST_ACCURACY,
    )
    plots = (
        *CLASSIFICATION_PLOTS,
        PlotSpec(id="gradients", title="Gradient norms", metrics=("layer1_gradient", "output1_gradient"), log=True),
    )
    pictures = (
        Bars("gradients", "Gradient norm of each layer", log=True),
        Distributions("weights", "Weights of each layer over the steps"),
    )
    picture_seconds = 1.0
    baseline = "sigmoid"
    presets = (
        preset("sigmoid", "Sigmoid", "Six layers, of which the first learns nothing."),
        preset("tanh", "tanh", "A slope of up to 1.", activation="tanh"),
        preset("relu", "ReLU", "A slope of 1, or of 0.", activation="relu"),
        preset("leaky-relu", "Leaky ReLU", "No unit is ever quite off.", activation="leaky-relu"),
        preset("tiny", "Tiny", "The built-in small digits.", data="digits", steps=100, activation="relu"),
    )
    goals = (
        goal(
            "deep",
            "95 % with 20 layers of ReLU",
            "test_accuracy >= 0.95",
            "At the end of a run of 2,000 steps or fewer. Which initial weights get there?",
            data="mnist",
            requires=DEEP,
            question=3,
        ),
        goal(
            "digits",
            "90 % on the small digits with 20 layers of ReLU",
            "test_accuracy >= 0.9",
            "At the end of a run of 2,000 steps or fewer. Which initial weights and which rate get there?",
            data="digits",
            requires=DEEP,
        ),
    )
    races = (
        race(
            "activations",
            "Activation race",
            "validation_accuracy",
            1000,
            "The same weights, images and rate: which activations learn at all?",
            *(lane(name, activation=name) for name in ACTIVATIONS),
        ),
    )

    def build(self, setup: Setup[ActivationsSettings]) -> Model:
        """Equal layers in a row, then ten scores."""
        options, data = setup.settings, setup.require_data()
        bend = ACTIVATIONS[options.activation]
        layers: list[Dense] = []
        inputs = data.train.x.shape[1]
        for number in range(1, options.layers + 1):
            layers.append(dense(setup, f"layer{number}", (inputs, options.units), bend, options.initial))
            inputs = options.units
        layers.append(dense(setup, "output1", (inputs, data.classes), tf.identity, options.initial))

        def scores(x: tf.Tensor) -> tf.Tensor:
            if not options.skip:
                return through(layers, x)
            first, *middle, last = layers
            x = first(x)
            for layer in middle:
                x += layer(x)
            return last(x)

        def loss(batch: Batch, _: StepContext) -> Loss:
            logits = scores(batch.x)
            value = batch.mean(cross_entropy(logits, batch.y))
            return Loss(value, {"accuracy": batch.mean(correct(logits, batch.y))})

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            logits = scores(batch.x)
            return {"loss": cross_entropy(logits, batch.y), "accuracy": correct(logits, batch.y)}

        def gradients() -> tf.Tensor:
            """The length of the gradient of each layer's weights, from the first layer to the last."""
            x, y = tf.constant(data.train.x[:LOOKED_AT]), tf.constant(data.train.y[:LOOKED_AT])
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(cross_entropy(scores(x), y))
            return tf.stack([tf.norm(one) for one in tape.gradient(value, [layer.weights for layer in layers])])

        part = Part("network", variables_of(layers), loss, setup.optimizer())
        pictures = {"gradients": gradients, "weights": lambda: weights_of(layers)}
        sets = setup.held_out()
        return Model(parts=[part], evaluate=evaluate, evaluation_sets=sets, pictures=pictures, scores=scores)


EXERCISE = Activations()
