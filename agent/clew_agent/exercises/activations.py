"""Activations in a deep network: why gradients vanish on the way to the first layer. After IT4Innovations' course."""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

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
from clew_shared.cards import Bars, Distributions, Goal, Lane, MetricSpec, PlotSpec, Preset, RaceSpec, Requirement
from clew_shared.params import Choice, Knob

ASKED = "A ReLU switches about half of its units off. Why does it need weights that are √2 times as large as tanh's?"
GUIDE = f"""\
## Find out where the gradient gets lost

A network learns by its gradient, which goes from the loss back to the first layer. Each layer multiplies it by its
weights and by the slope of its activation. A sigmoid's slope is 0.25 at most, and the usual initial weights do not make
up for that, so six layers leave very little. This exercise trains the same network, with the same initial weights and
images, with four activations.

## What to do

1. Press **Run** with sigmoids. What accuracy does a network have that gives the same answer to every image?
2. Choose ReLU and run again. Compare the first layer's gradient norm in both runs.
3. Reduce the number of layers with sigmoids until the network learns. How many can it have?
4. Start the *Activation race* with 20 layers. Then start it again with *Initial weights: He*. Which of the four would
   you take for 20 layers now?
5. With 20 layers of ReLU try weights that are too small, and weights that are too large. Look at the gradient norm of
   each layer in both runs.
6. Switch *Skip connections* on: 20 layers of sigmoids, then of ReLU with each of the initial weights. Which weights
   work best now?

## What to watch

*Gradient norm of each layer* shows the length of the gradient from the first layer to the last. With sigmoids it falls
by about the same factor from layer to layer: on a logarithmic axis the bars are a staircase.

## Questions

- Why do the last layer's weights change while the accuracy stays the same?
- What is tanh's largest slope, and why is that better than a sigmoid's?
- {ASKED}
- With a skip connection a layer's derivative is 1 plus that of the layer itself. What does that do to a product of 20
  of them?

> **Hint: numbers to compare with**
> With the seeds 1 to 3 on MNIST and 2000 steps, six layers of sigmoids ended at 9.6 to 11.4 % of the test images and
> ReLU at 95.7 to 96.6 %, each in under 30 seconds on two busy cores. With seed 1 the first layer's gradient norm, as a
> mean over the run, was 0.00035 and 1.03: a factor of 3,000.

> **Hint: numbers for 20 layers**
> 1000 steps with Glorot's weights and the seeds 1 to 3: sigmoids 10.1 to 10.3 %, tanh 94.2 to 95.0 %, ReLU 54.7 to 74.9
> %, leaky ReLU 58.7 to 73.6 %. With He's: tanh 94.6 to 94.8 %, ReLU 88.5 to 93.8 %, leaky ReLU 94.0 to 94.7 %. ReLU
> with weights that are too small stays at chance (11.4 %): the gradient norm of its first layer is 0. With weights that
> are too large, neither ReLU nor tanh gets away from it (9.8 %). 2000 steps with He's weights: leaky ReLU 95.9 to 96.3
> %, ReLU 95.1 to 96.0 %, tanh 94.9 to 96.3 %: which of the three is best, no single run can tell.

> **Hint: how large initial weights should be**
> Each layer should pass on signals about as large as those that it gets, and gradients likewise. For tanh, which is
> steepest at 0, that is Glorot's √(2/(n+m)) (Glorot and Bengio, 2010). ReLU loses half of the signal, and He's √(2/n)
> makes up for it (He et al., 2015).

> **Hint: numbers for skip connections**
> They bring 20 layers of sigmoids from 10 to 90.2 to 90.7 % in 1000 steps (seeds 1 to 3): the gradient has a way past
> each of them (He et al., 2016). ReLU now learns best with weights that are too small, 95.7 to 96.5 %, because at the
> start each layer then hands on nearly what it gets. With Glorot's or He's weights each layer of ReLU makes the signal
> larger, and after 20 of them the loss becomes NaN.

> **Hint: what a better optimizer can do**
> Adam divides each gradient by its usual size, so it moves the first layer even where the gradient is small. Try it
> with sigmoids.
"""

DEEP = (
    Requirement("layers", least=20),
    Requirement("skip", (False,)),
    Requirement("activation", ("relu", "leaky-relu")),
    Requirement("steps", most=2000),
)
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
    guide = GUIDE
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
            text="95 % with 20 layers of ReLU",
            metric="test_accuracy",
            op=">=",
            value=0.95,
            detail="At the end of a run of 2,000 steps or fewer. Which initial weights get there?",
            data="mnist",
            requires=DEEP,
            question=ASKED,
        ),
        Goal(
            id="digits",
            text="90 % on the small digits with 20 layers of ReLU",
            metric="test_accuracy",
            op=">=",
            value=0.9,
            detail="At the end of a run of 2,000 steps or fewer. Which initial weights and which rate get there?",
            data="digits",
            requires=DEEP,
        ),
    )
    races = (
        RaceSpec(
            id="activations",
            title="Activation race",
            steps=1000,
            metric="validation_accuracy",
            help="The same weights, images and rate: which activations learn at all?",
            lanes=tuple(Lane(name=name, values={"activation": name}) for name in ACTIVATIONS),
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
