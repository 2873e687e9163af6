"""A variational autoencoder: a code from which new images can be drawn. After CINECA's course."""

from __future__ import annotations

from statistics import NormalDist
from typing import Annotated

import numpy as np
import tensorflow as tf

from clew_agent.lesson.cards import goal, needs, preset
from clew_agent.training import random
from clew_agent.training.exercise import Batch, Coder, Exercise, Loss, Model, Part, Setup
from clew_agent.training.images import as_images, in_rows
from clew_agent.training.layers import dense_layers, through, variables_of
from clew_agent.training.random import StepContext
from clew_agent.training.settings import (
    BatchSettings,
    BatchSize,
    LearningRate,
    OptimizerName,
    OrderName,
    ScheduleName,
    Steps,
)
from clew_shared.cards import ImageGrid, MetricSpec, PlotSpec, Scatter
from clew_shared.params import Knob

SIDE = 20
"""Images in each row and column of the manifold."""
SCATTERED = 2000
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""How much of an attribute vector is added to a code."""
TWO_NUMBERS = needs(code=2)
"""More numbers make the bound smaller without making a better picture of the plane."""


class VaeSettings(BatchSettings, frozen=True, kw_only=True):
    """The code and the two terms of the loss."""

    code: Annotated[
        int, Knob("Code", "Numbers in the code. The pictures show the first two.", "Network", ge=2, le=64)
    ] = 2
    hidden: Annotated[
        int,
        Knob(
            "Hidden units",
            "Size of the layers next to the pixels; the others have half of it.",
            "Network",
            ge=1,
            le=4096,
        ),
    ] = 512
    reconstruction_weight: Annotated[
        float, Knob("Reconstruction weight", "How much it counts that the image comes back.", "Loss", ge=0, le=100)
    ] = 1.0
    kl_weight: Annotated[
        float,
        Knob("KL weight", "How much it counts that the codes follow a normal distribution.", "Loss", ge=0, le=100),
    ] = 1.0
    optimizer: OptimizerName = "adam"
    learning_rate: LearningRate = 2e-3
    schedule: ScheduleName = "cosine"
    batch_size: BatchSize = 100
    order: OrderName = "shuffle"
    steps: Steps = 5000


class Vae(Exercise[VaeSettings]):
    """An encoder that gives a mean and a deviation for each number of the code, and a decoder."""

    id = "vae"
    title = "Variational autoencoder"
    subtitle = "a code that can be drawn from"
    chapter = "Generative"
    course = "CINECA, variational autoencoders"
    minutes = 40
    summary = "Put all digits on a plane, and draw those that nobody wrote."
    Settings = VaeSettings
    datasets = ("mnist", "digits", "fashion-mnist")
    revision = 1
    tries = "code"
    jit = True
    metrics = (
        MetricSpec(name="loss", label="Training loss", better="lower", unit="nats"),
        MetricSpec(name="reconstruction", label="Reconstruction term", better="lower", unit="nats"),
        MetricSpec(name="kl", label="KL term", unit="nats"),
        MetricSpec(name="validation_loss", label="Validation loss", per_step=False, better="lower", unit="nats"),
        MetricSpec(name="test_loss", label="Test loss", per_step=False, better="lower", unit="nats"),
        MetricSpec(name="test_bound", label="Test bound", per_step=False, better="lower", unit="nats"),
        MetricSpec(name="test_reconstruction", label="Test reconstruction", per_step=False, unit="nats"),
        MetricSpec(name="test_kl", label="Test KL", per_step=False, unit="nats"),
    )
    plots = (
        PlotSpec(id="loss", title="Loss of an image", metrics=("loss", "test_loss")),
        PlotSpec(id="bound", title="Bound of a test image (minus ELBO)", metrics=("test_bound",)),
        PlotSpec(id="reconstruction", title="Reconstruction term", metrics=("reconstruction", "test_reconstruction")),
        PlotSpec(id="kl", title="KL term", metrics=("kl", "test_kl")),
    )
    pictures = (
        ImageGrid("manifold", "Manifold", columns=SIDE),
        Scatter("codes", "Codes of test images"),
        ImageGrid("between", "From one digit to another", columns=10),
        ImageGrid("attributes", "One image, with more and more of each class", columns=len(SHARES)),
        ImageGrid("reconstructions", "Originals, below them reconstructions", columns=10),
    )
    baseline = "both"
    presets = (
        preset("both", "Both terms", "Reconstruction and KL."),
        preset("reconstruction-only", "Reconstruction only", "Codes wherever they like.", kl_weight=0.0),
        preset("kl-only", "KL only", "Codes that say nothing.", reconstruction_weight=0.0),
        preset("tiny", "Tiny", "The built-in small digits.", data="digits", steps=300, evaluate_every=100),
    )
    goals = (
        goal(
            "bound",
            "Test bound below 150",
            "test_bound <= 150.0",
            "Reconstruction and KL, both with weight 1.",
            data="mnist",
            requires=TWO_NUMBERS,
            question=3,
        ),
        goal(
            "digits",
            "Test bound below 220",
            "test_bound <= 220.0",
            "On the small digits.",
            data="digits",
            requires=TWO_NUMBERS,
            question=3,
        ),
        goal(
            "fashion",
            "Test bound below 265",
            "test_bound <= 265.0",
            "On Fashion-MNIST.",
            data="fashion-mnist",
            requires=TWO_NUMBERS,
            question=3,
        ),
    )

    def build(self, setup: Setup[VaeSettings]) -> Model:
        """Two hidden layers each way, the one next to the pixels twice as large."""
        options, data = setup.settings, setup.require_data()
        pixels, hidden = data.train.x.shape[1], (options.hidden, max(options.hidden // 2, 1))
        encoder = dense_layers(setup, "encoder", [pixels, *hidden, 2 * options.code], tf.nn.relu)
        decoder = dense_layers(setup, "decoder", [options.code, *reversed(hidden), pixels], tf.nn.relu)

        def encode(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Of each code the mean and the logarithm of the variance, both [batch, code]."""
            mean, log_variance = tf.split(through(encoder, x), 2, 1)
            return mean, log_variance

        def decode(code: tf.Tensor) -> tf.Tensor:
            return tf.sigmoid(through(decoder, code))

        def terms(x: tf.Tensor, drawn: tf.Tensor) -> dict[str, tf.Tensor]:
            """Both terms and the weighted loss of each image, in nats. ``drawn`` is a standard normal code."""
            mean, log_variance = encode(x)
            scores = through(decoder, mean + tf.exp(log_variance / 2) * drawn)
            reconstruction = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(x, scores), 1)
            kl = 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(log_variance) - 1 - log_variance, 1)
            loss = options.reconstruction_weight * reconstruction + options.kl_weight * kl
            return {"loss": loss, "reconstruction": reconstruction, "kl": kl}

        def loss(batch: Batch, context: StepContext) -> Loss:
            found = terms(batch.x, context.sample_normal([options.code], "code"))
            means = {name: batch.mean(values) for name, values in found.items()}
            return Loss(means["loss"], means)

        fixed = random.normal([1000, options.code], setup.seed, "code of the evaluation")

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            found = terms(batch.x, tf.gather(fixed, batch.index % 1000))
            return {**found, "bound": found["reconstruction"] + found["kl"]}

        test = data.test

        def codes() -> tuple[tf.Tensor, tf.Tensor]:
            return encode(tf.constant(test.x[:SCATTERED]))[0], tf.constant(test.y[:SCATTERED])

        def manifold() -> tf.Tensor:
            """Images at the quantiles of the normal distribution, so that each stands for as many codes."""
            at = [NormalDist().inv_cdf((place + 0.5) / SIDE) for place in range(SIDE)]
            grid = np.zeros([SIDE * SIDE, options.code], np.float32)
            grid[:, 0], grid[:, 1] = np.tile(at, SIDE), -np.repeat(at, SIDE)
            return as_images(decode(tf.constant(grid)), data)

        def between() -> tf.Tensor:
            """From one test image to another, in ten steps along the straight line between their codes."""
            first, last = tf.split(encode(tf.constant(test.x[:20]))[0], 2)
            share = np.linspace(0, 1, 10, dtype=np.float32)[None, :, None]
            return as_images(
                decode(tf.reshape(first[:, None] * (1 - share) + last[:, None] * share, [-1, options.code])), data
            )

        def reconstructions() -> tf.Tensor:
            x = tf.constant(test.x[:20])
            return in_rows(10, as_images(x, data), as_images(decode(encode(x)[0]), data))

        part = Part("vae", variables_of((*encoder, *decoder)), loss, setup.optimizer())
        return Model(
            parts=[part],
            evaluate=evaluate,
            evaluation_sets=setup.held_out(),
            pictures={
                "manifold": manifold,
                "codes": lambda: (codes()[0][:, :2], codes()[1]),
                "between": between,
                "attributes": lambda: as_images(decode(with_attributes(*codes(), data.classes)), data),
                "reconstructions": reconstructions,
            },
            coder=Coder(options.code, decode, lambda x: encode(x)[0]),
        )


def with_attributes(codes: tf.Tensor, classes: tf.Tensor, count: int) -> tf.Tensor:
    """The first of ``codes`` [images, code] plus ``SHARES`` of the attribute vector of each of ``count`` classes: the
    mean code of the class minus that of all images (as Larsen et al. have it, ICML 2016). A class without images has
    none."""
    known = tf.math.unsorted_segment_sum(tf.ones_like(codes[:, :1]), classes, count) > 0
    means = tf.math.unsorted_segment_mean(codes, classes, count)
    vectors = tf.where(known, means - tf.reduce_mean(codes, 0), 0.0)
    moved = codes[0] + vectors[:, None] * tf.constant(SHARES)[None, :, None]
    return tf.reshape(moved, [-1, codes.shape[1]])


EXERCISE = Vae()
