"""Activations in a deep network: why gradients vanish on the way to the first layer. After IT4Innovations' course."""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Setup
from clew_agent.training.judging import ACCURACY, ACCURACY_PLOT, LOSS, TEST_ACCURACY, VALIDATION_ACCURACY
from clew_agent.training.layers import (
    Activation,
    correct,
    cross_entropy,
    dense_layers,
    leaky_relu,
    through,
    variables_of,
)
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, OrderName, Steps
from clew_shared.cards import Bars, Goal, Lane, MetricSpec, PlotSpec, Preset, RaceSpec
from clew_shared.params import Choice, Knob

GUIDE = """\
## Find out where the gradient gets lost

A network learns by its gradient, which goes from the loss back to the first layer. Each layer multiplies it by the
slope of its activation. A sigmoid's slope is 0.25 at most, so six layers leave very little. This exercise trains the
same network, with the same initial weights and images, with four activations.

## What to do

1. Press **Run** with sigmoids. What accuracy does a network have that gives the same answer to every image?
2. Choose ReLU and run again. Compare the first layer's gradient norm in both runs.
3. Reduce the number of layers with sigmoids until the network learns. How many can it have?
4. Start the *Activation race*. Which of the four would you take for 20 layers?

## What to watch

*Gradient norm of each layer* shows the length of the gradient from the first layer to the last. With sigmoids it falls
by about the same factor from layer to layer: on a logarithmic axis the bars are a staircase.

## Questions

- Why do the last layer's weights change, and the accuracy does not?
- What is tanh's largest slope, and why is that better than a sigmoid's?

> **Hint: numbers to compare with**
> With seed 1 on MNIST and 2000 steps, sigmoids ended at 9.6 % of the test images and ReLU at 96.4 %, each in under
> 20 seconds on two cores. The first layer's gradient norm, as a mean over the run, was 0.00017 and 1.04: a factor of
> 6,000.

> **Hint: what a better optimizer can do**
> Adam divides each gradient by its usual size, so it moves the first layer even where the gradient is small. Try it
> with sigmoids.
"""

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
    guide = GUIDE
    Settings = ActivationsSettings
    datasets = ("mnist", "digits")
    earlier_hashes = (
        "09dab9570d0de05bbda7aeb81758314def77938f580c55d0b557950034d1d2ba",
        "61aa58c98d8dbc5996593c3a560f57f2b6ea99ae9f5b9fac7cd4abc35e4e91c8",
    )
    jit = True
    metrics = (
        LOSS,
        ACCURACY,
        MetricSpec(name="layer1_gradient", label="First layer's gradient norm"),
        MetricSpec(name="output1_gradient", label="Last layer's gradient norm"),
        VALIDATION_ACCURACY,
        TEST_ACCURACY,
    )
    plots = (
        PlotSpec(id="loss", title="Loss", metrics=("loss",), log=True),
        ACCURACY_PLOT,
        PlotSpec(id="gradients", title="Gradient norms", metrics=("layer1_gradient", "output1_gradient"), log=True),
    )
    pictures = (Bars("gradients", "Gradient norm of each layer", log=True),)
    baseline = "sigmoid"
    presets = (
        Preset(name="sigmoid", title="Sigmoid", help="Six layers, of which the first learns nothing."),
        Preset(name="tanh", title="tanh", values={"activation": "tanh"}, help="A slope of up to 1."),
        Preset(name="relu", title="ReLU", values={"activation": "relu"}, help="A slope of 1, or of 0."),
        Preset(
            name="leaky-relu",
            title="Leaky ReLU",
            values={"activation": "leaky-relu"},
            help="No unit is ever quite off.",
        ),
        Preset(
            name="tiny",
            title="Tiny",
            values={"steps": 100, "activation": "relu"},
            data="digits",
            help="The built-in small digits.",
        ),
    )
    goals = (
        Goal(
            id="deep",
            text="95 %",
            metric="test_accuracy",
            op=">=",
            value=0.95,
            which="best",
            detail="Six layers or more: which activation gets there?",
            data="mnist",
        ),
        Goal(
            id="digits",
            text="90 % on the small digits",
            metric="test_accuracy",
            op=">=",
            value=0.9,
            which="best",
            detail="Six layers or more. Sigmoids stay at chance.",
            data="digits",
        ),
    )
    races = (
        RaceSpec(
            id="activations",
            title="Activation race",
            steps=1000,
            metric="test_accuracy",
            help="The same weights, images and rate: who learns at all?",
            lanes=tuple(Lane(name=name, values={"activation": name}) for name in ACTIVATIONS),
        ),
    )

    def build(self, setup: Setup[ActivationsSettings]) -> Model:
        """Equal layers in a row, then ten scores."""
        options, data = setup.settings, setup.require_data()
        bend = ACTIVATIONS[options.activation]
        hidden = [data.train.x.shape[1], *[options.units] * options.layers]
        layers = dense_layers(setup, "layer", hidden, bend, bend)
        layers += dense_layers(setup, "output", [options.units, data.classes], bend)

        def scores(x: tf.Tensor) -> tf.Tensor:
            return through(layers, x)

        def loss(batch: Batch, _: StepContext) -> Loss:
            logits = scores(batch.x)
            value = batch.mean(cross_entropy(logits, batch.y))
            return Loss(value, {"accuracy": batch.mean(correct(logits, batch.y))})

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            return {"accuracy": correct(scores(batch.x), batch.y)}

        def gradients() -> tf.Tensor:
            """The length of the gradient of each layer's weights, from the first layer to the last."""
            x, y = tf.constant(data.train.x[:LOOKED_AT]), tf.constant(data.train.y[:LOOKED_AT])
            with tf.GradientTape() as tape:
                value = tf.reduce_mean(cross_entropy(scores(x), y))
            return tf.stack([tf.norm(one) for one in tape.gradient(value, [layer.weights for layer in layers])])

        part = Part("network", variables_of(layers), loss, setup.optimizer())
        pictures = {"gradients": gradients}
        return Model(parts=[part], evaluate=evaluate, evaluation_sets=setup.held_out(), pictures=pictures)


EXERCISE = Activations()
