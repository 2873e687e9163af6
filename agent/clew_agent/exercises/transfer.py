"""Transfer learning: what a network has learnt from many images helps where there are few. After CINECA's course."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import tensorflow as tf

from clew_agent import lesson
from clew_agent.training.weights import fit, read_weights, without_norms

LAYERS = ("conv1", "conv2", "dense", "output")
SOURCE = "cnn"
"""The part of the earlier run whose weights are taken."""


class TransferSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Where the weights come from, which layers are trained, and with how many images."""

    weights: Annotated[
        str,
        lesson.Knob(
            "Weights",
            "Folder of an earlier run of the exercise cnn, or an .npz file. Empty: begin from scratch.",
            "Transfer",
            runs_of="cnn",
        ),
    ] = ""
    retrained: Annotated[
        str,
        lesson.Knob(
            "Retrained",
            "The layers that are trained. The others keep the weights that they come with.",
            "Transfer",
            choices=lesson.choices(output="The last layer", dense="The last two layers", all="All layers"),
        ),
    ] = "all"
    images: Annotated[
        int,
        lesson.Knob(
            "Images",
            "Number of training images, from the beginning of the file.",
            "Transfer",
            ge=10,
            le=60_000,
            log=True,
        ),
    ] = 500
    confidence: Annotated[
        float, lesson.Knob("Confidence", "Below this probability the network gives no answer.", "Transfer", ge=0, le=1)
    ] = 0.9
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 1e-3
    batch_size: lesson.BatchSize = 50
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 50


class Transfer(lesson.Exercise[TransferSettings]):
    """The network of the exercise ``cnn``, with weights of an earlier run or with new ones."""

    id = "transfer"
    title = "Transfer learning"
    subtitle = "the last layers of a trained network"
    chapter = "Networks"
    course = "CINECA, best practices"
    minutes = 25
    summary = "Take the layers of a network that has read many images, and train the last ones with few."
    datasets = ("digits", "mnist", "fashion-mnist", "cifar10")
    revision = 1
    tries = "classes"
    jit = False  # XLA is up to twenty times slower for convolutions on a CPU

    def build(self, setup: lesson.Setup[TransferSettings]) -> lesson.Model:
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

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            logits = scores(batch.x)
            return {
                "loss": lesson.cross_entropy(logits, batch.y),
                **lesson.answers(logits, batch.y, options.confidence),
            }

        trained = {"output": LAYERS[3:], "dense": LAYERS[2:], "all": LAYERS}[options.retrained]
        variables = weights | offsets
        moved = {name: one for name, one in variables.items() if name.removesuffix("_offset") in trained}
        frozen = {name: one for name, one in variables.items() if name not in moved}
        few = lesson.Samples(data.train.x[: options.images], data.train.y[: options.images])
        pictures = {"confusion": lesson.answer_pictures(setup, scores, 1000)["confusion"]}
        model = lesson.classifier(setup, scores, moved, name=SOURCE, pictures=pictures)
        return replace(model, evaluate=evaluate, summarize=lesson.summarize_answers, state=frozen, train=few)

    metrics = (
        lesson.LOSS,
        lesson.ACCURACY,
        lesson.VALIDATION_LOSS,
        lesson.VALIDATION_ACCURACY,
        lesson.TEST_LOSS,
        lesson.TEST_ACCURACY,
        lesson.at_evaluation("test_precision", "Test precision", "higher", format="percent"),
        lesson.at_evaluation("test_recall", "Test recall", "higher", format="percent"),
        lesson.at_evaluation("test_f_score", "Test F-score", "higher", format="percent"),
        lesson.at_evaluation("test_coverage", "Coverage", "higher", format="percent"),
        lesson.at_evaluation("test_given_accuracy", "Accuracy of given answers", "higher", format="percent"),
    )
    plots = (
        *lesson.CLASSIFICATION_PLOTS,
        lesson.plot("given", "Coverage", "test_coverage", "test_given_accuracy", format="percent"),
    )
    pictures = (lesson.ConfusionMatrix("confusion", "Confusion of test images"),)
    baseline = "scratch"
    presets = (
        lesson.preset("scratch", "From scratch", "New weights in all layers.", data="digits"),
        lesson.tiny(steps=20),
    )
    goals = (
        lesson.goal(
            "few",
            "92 % with 50 steps",
            "test_accuracy >= 0.92 at step 50 on digits",
            lesson.needs(weights=lesson.other_than(""), images=lesson.at_most(500), batch_size=lesson.at_most(50)),
            question=1,
        ),
    )
    goal_details = {"few": "On the small digits, with the layers of an earlier run."}


EXERCISE = Transfer()
