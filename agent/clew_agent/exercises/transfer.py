"""Transfer learning: what a network has learnt from many images helps where there are few. After CINECA's course."""

from __future__ import annotations

from typing import Annotated

import tensorflow as tf

from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.judging import (
    ACCURACY,
    CLASSIFICATION_PLOTS,
    LOSS,
    TEST_ACCURACY,
    TEST_LOSS,
    VALIDATION_ACCURACY,
    VALIDATION_LOSS,
    answers,
    summarize_answers,
)
from clew_agent.training.layers import correct, cross_entropy
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, OrderName, Steps
from clew_agent.training.weights import fit, read_weights, without_norms
from clew_shared.cards import ConfusionMatrix, Goal, MetricSpec, PlotSpec, Preset, Requirement
from clew_shared.params import Choice, Knob

ASKED = "The first layers stay as they are. Why do they fit images from other pens and another scanner?"
GUIDE = f"""\
## Begin with what another network has learnt

A network that has read 50,000 images has learnt what strokes and corners look like. With few images of your own, it is
better to take its layers and train only the last ones. This exercise has the network of the exercise *CNN on MNIST*,
and 500 images of another data set.

## What to do

1. Press **Run** with the preset *From scratch*: 50 steps with 500 images of the small digits, also if the other
   exercises use MNIST.
2. Train *CNN on MNIST* with a rate of 0.001 on MNIST.
3. Choose that run under *Weights*, then *The last two layers*, and run again with the same budget.
4. Compare *The last layer*, *The last two layers* and *All layers*. Which is best with 100 images, which with 1000?
5. Raise the *Confidence*. How many images get no answer, and how many of the given answers are right?

## What to watch

*Coverage* is the share of test images that get an answer at the confidence that you ask for. *Confusion* shows which
digits are taken for which. Training, validation and test images are kept apart: choose values by the validation
accuracy.

## Questions

- {ASKED}
- When would you rather give no answer?

> **Hint: what a weights file is**
> The folder of a run, one of its checkpoints, or an `.npz` file with arrays called `conv1`, `conv1_offset`, `conv2`,
> `conv2_offset`, `dense` and `dense_offset`. On a cluster, the path must exist on the node. Nothing is downloaded.
> Batch normalisation of the earlier run becomes part of its weights, which changes none of its answers.

> **Hint: numbers to compare with**
> With the seeds 1 to 3, the digits and 50 steps, the network from scratch read 85.7 to 87.7 % of the test images. With
> layers from 1000 steps of *CNN on MNIST* at a rate of 0.001 it read 85.7 to 88.0 % (last layer retrained), 91.7 to
> 94.3 % (last two) and 92.0 to 93.7 % (all): between these two nothing can be told.
"""

LAYERS = ("conv1", "conv2", "dense", "output")
SOURCE = "cnn"
"""The part of the earlier run whose weights are taken."""


class TransferSettings(BatchSettings, frozen=True, kw_only=True):
    """Where the weights come from, which layers are trained, and with how many images."""

    weights: Annotated[
        str,
        Knob(
            "Weights",
            "Folder of an earlier run of the exercise cnn, or an .npz file. Empty: begin from scratch.",
            "Transfer",
            runs_of="cnn",
        ),
    ] = ""
    retrained: Annotated[
        str,
        Knob(
            "Retrained",
            "The layers that are trained. The others keep the weights that they come with.",
            "Transfer",
            choices=(
                Choice("output", "The last layer"),
                Choice("dense", "The last two layers"),
                Choice("all", "All layers"),
            ),
        ),
    ] = "all"
    images: Annotated[
        int,
        Knob(
            "Images",
            "Number of training images, from the beginning of the file.",
            "Transfer",
            ge=10,
            le=60_000,
            log=True,
        ),
    ] = 500
    confidence: Annotated[
        float,
        Knob("Confidence", "Below this probability the network gives no answer.", "Transfer", ge=0, le=1),
    ] = 0.9
    optimizer: OptimizerName = "adam"
    learning_rate: LearningRate = 1e-3
    batch_size: BatchSize = 50
    order: OrderName = "shuffle"
    steps: Steps = 50


class Transfer(Exercise[TransferSettings]):
    """The network of the exercise ``cnn``, with weights of an earlier run or with new ones."""

    id = "transfer"
    title = "Transfer learning"
    subtitle = "the last layers of a trained network"
    chapter = "Networks"
    course = "CINECA, best practices"
    minutes = 25
    summary = "Take the layers of a network that has read many images, and train the last ones with few."
    guide = GUIDE
    Settings = TransferSettings
    datasets = ("digits", "mnist", "fashion-mnist", "cifar10")
    revision = 1
    tries = "classes"
    jit = False  # XLA is up to twenty times slower for convolutions on a CPU
    metrics = (
        LOSS,
        ACCURACY,
        VALIDATION_LOSS,
        VALIDATION_ACCURACY,
        TEST_LOSS,
        TEST_ACCURACY,
        MetricSpec(name="test_precision", label="Test precision", per_step=False, better="higher", format="percent"),
        MetricSpec(name="test_recall", label="Test recall", per_step=False, better="higher", format="percent"),
        MetricSpec(name="test_f_score", label="Test F-score", per_step=False, better="higher", format="percent"),
        MetricSpec(name="test_coverage", label="Coverage", per_step=False, better="higher", format="percent"),
        MetricSpec(
            name="test_given_accuracy",
            label="Accuracy of given answers",
            per_step=False,
            better="higher",
            format="percent",
        ),
    )
    plots = (
        *CLASSIFICATION_PLOTS,
        PlotSpec(id="given", title="Coverage", metrics=("test_coverage", "test_given_accuracy"), format="percent"),
    )
    pictures = (ConfusionMatrix("confusion", "Confusion of test images"),)
    baseline = "scratch"
    presets = (
        Preset(name="scratch", title="From scratch", data="digits", help="New weights in all layers."),
        Preset(name="tiny", title="Tiny", values={"steps": 20}, data="digits", help="The built-in small digits."),
    )
    goals = (
        Goal(
            id="few",
            text="92 % with 50 steps",
            metric="test_accuracy",
            op=">=",
            value=0.92,
            which="at",
            step=50,
            detail="On the small digits, with the layers of an earlier run.",
            data="digits",
            requires=(
                Requirement("weights", other_than=("",)),
                Requirement("images", most=500),
                Requirement("batch_size", most=50),
            ),
            question=ASKED,
        ),
    )

    def build(self, setup: Setup[TransferSettings]) -> Model:
        """Two convolutions, a dense layer and ten scores, of the same shapes as in ``cnn.py``."""
        options, data = setup.settings, setup.require_data()
        height, width, channels = data.image_shape
        flat = (height + 3) // 4 * ((width + 3) // 4) * 64
        units = {"conv1": 32, "conv2": 64, "dense": 1024, "output": data.classes}
        shapes = {
            "conv1": (5, 5, channels, 32),
            "conv2": (5, 5, 32, 64),
            "dense": (1024, flat),
            "output": (data.classes, 1024),
        }
        weights = {name: setup.truncated_normal(name, shape, stddev=0.1) for name, shape in shapes.items()}
        offsets = {f"{name}_offset": tf.Variable(tf.fill([count], 0.1)) for name, count in units.items()}
        if options.weights:
            kept = {name: one for name, one in (weights | offsets).items() if not name.startswith("output")}
            found = without_norms(read_weights(options.weights, SOURCE), LAYERS, options.weights)
            fit(kept, found, options.weights)

        def layer(name: str, x: tf.Tensor) -> tf.Tensor:
            images, w = len(x.shape) == 4, weights[name]
            y = tf.nn.conv2d(x, w, 1, "SAME") if images else tf.matmul(x, w, transpose_b=True)
            return tf.nn.bias_add(y, offsets[f"{name}_offset"])

        def scores(x: tf.Tensor) -> tf.Tensor:
            x = tf.reshape(x, [-1, height, width, channels])
            for name in ("conv1", "conv2"):
                x = tf.nn.max_pool2d(tf.nn.relu(layer(name, x)), 2, 2, "SAME")
            return layer("output", tf.nn.relu(layer("dense", tf.reshape(x, [-1, flat]))))

        def loss(batch: Batch, _: StepContext) -> Loss:
            logits = scores(batch.x)
            value = batch.mean(cross_entropy(logits, batch.y))
            return Loss(value, {"accuracy": batch.mean(correct(logits, batch.y))})

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            logits = scores(batch.x)
            return {"loss": cross_entropy(logits, batch.y), **answers(logits, batch.y, options.confidence)}

        test = data.test

        def confusion() -> tf.Tensor:
            """How many test images of each class (row) got each answer (column)."""
            given = tf.argmax(scores(tf.constant(test.x[:1000])), 1, tf.int32)
            return tf.math.confusion_matrix(tf.constant(test.y[:1000]), given, data.classes)

        trained = {"output": LAYERS[3:], "dense": LAYERS[2:], "all": LAYERS}[options.retrained]
        variables = weights | offsets
        moved = {name: one for name, one in variables.items() if name.removesuffix("_offset") in trained}
        frozen = {name: one for name, one in variables.items() if name not in moved}
        few = Samples(data.train.x[: options.images], data.train.y[: options.images])
        part = Part(SOURCE, moved, loss, setup.optimizer())
        return Model(
            parts=[part],
            evaluate=evaluate,
            summarize=summarize_answers,
            evaluation_sets=setup.held_out(),
            state=frozen,
            train=few,
            pictures={"confusion": confusion},
            scores=scores,
        )


EXERCISE = Transfer()
