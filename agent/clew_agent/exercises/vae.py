"""A variational autoencoder: a code from which new images can be drawn. After CINECA's course."""

from __future__ import annotations

from statistics import NormalDist
from typing import Annotated

import numpy as np
import tensorflow as tf

from clew_agent import lesson

SIDE = 20
"""Images in each row and column of the manifold."""
SCATTERED = 2000
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""How much of an attribute vector is added to a code."""
TWO_NUMBERS = lesson.needs(code=2)
"""More numbers make the bound smaller without making a better picture of the plane."""


class VaeSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """The code and the two terms of the loss."""

    code: Annotated[
        int, lesson.number("Code", "Numbers in the code. The pictures show the first two.", 2, 64, "Network")
    ] = 2
    hidden: Annotated[
        int,
        lesson.number(
            "Hidden units", "Size of the layers next to the pixels; the others have half of it.", 1, 4096, "Network"
        ),
    ] = 512
    reconstruction_weight: Annotated[
        float, lesson.number("Reconstruction weight", "How much it counts that the image comes back.", 0, 100, "Loss")
    ] = 1.0
    kl_weight: Annotated[
        float,
        lesson.number("KL weight", "How much it counts that the codes follow a normal distribution.", 0, 100, "Loss"),
    ] = 1.0
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 2e-3
    schedule: lesson.ScheduleName = "cosine"
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 5000


class Vae(lesson.Exercise[VaeSettings]):
    """An encoder that gives a mean and a deviation for each number of the code, and a decoder."""

    id = "vae"
    title = "Variational autoencoder"
    subtitle = "a code that can be drawn from"
    chapter = "Generative"
    course = "CINECA, variational autoencoders"
    minutes = 40
    summary = "Put all digits on a plane, and draw those that nobody wrote."
    datasets = ("mnist", "digits", "fashion-mnist")
    revision = 1
    plays = True
    tries = "code"
    jit = True

    def build(self, setup: lesson.Setup[VaeSettings]) -> lesson.Model:
        """Two hidden layers each way, the one next to the pixels twice as large."""
        options, data = setup.settings, setup.require_data()
        pixels, hidden = data.train.x.shape[1], (options.hidden, max(options.hidden // 2, 1))
        encoder = lesson.dense_layers(setup, "encoder", [pixels, *hidden, 2 * options.code], tf.nn.relu)
        decoder = lesson.dense_layers(setup, "decoder", [options.code, *reversed(hidden), pixels], tf.nn.relu)

        def encode(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            """Of each code the mean and the logarithm of the variance, both [batch, code]."""
            mean, log_variance = tf.split(lesson.through(encoder, x), 2, 1)
            return mean, log_variance

        def decode(code: tf.Tensor) -> tf.Tensor:
            return tf.sigmoid(lesson.through(decoder, code))

        def terms(x: tf.Tensor, drawn: tf.Tensor) -> dict[str, tf.Tensor]:
            """Both terms and the weighted loss of each image, in nats. ``drawn`` is a standard normal code."""
            mean, log_variance = encode(x)
            scores = lesson.through(decoder, mean + tf.exp(log_variance / 2) * drawn)
            reconstruction = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(x, scores), 1)
            kl = 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(log_variance) - 1 - log_variance, 1)
            loss = options.reconstruction_weight * reconstruction + options.kl_weight * kl
            return {"loss": loss, "reconstruction": reconstruction, "kl": kl}

        def loss(batch: lesson.Batch, context: lesson.StepContext) -> lesson.Loss:
            found = terms(batch.x, context.sample_normal([options.code], "code"))
            means = {name: batch.mean(values) for name, values in found.items()}
            return lesson.Loss(means["loss"], means)

        fixed = lesson.random.normal([1000, options.code], setup.seed, "code of the evaluation")

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
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
            return lesson.as_images(decode(tf.constant(grid)), data)

        def between() -> tf.Tensor:
            """From one test image to another, in ten steps along the straight line between their codes."""
            first, last = tf.split(encode(tf.constant(test.x[:20]))[0], 2)
            share = np.linspace(0, 1, 10, dtype=np.float32)[None, :, None]
            return lesson.as_images(
                decode(tf.reshape(first[:, None] * (1 - share) + last[:, None] * share, [-1, options.code])), data
            )

        def reconstructions() -> tf.Tensor:
            x = tf.constant(test.x[:20])
            return lesson.in_rows(10, lesson.as_images(x, data), lesson.as_images(decode(encode(x)[0]), data))

        part = lesson.Part("vae", lesson.variables_of((*encoder, *decoder)), loss, setup.optimizer())
        return lesson.Model(
            parts=[part],
            evaluate=evaluate,
            evaluation_sets=setup.held_out(),
            pictures={
                "manifold": manifold,
                "codes": lambda: (codes()[0][:, :2], codes()[1]),
                "between": between,
                "attributes": lambda: lesson.as_images(decode(with_attributes(*codes(), data.classes)), data),
                "reconstructions": reconstructions,
            },
            coder=lesson.Coder(options.code, decode, lambda x: encode(x)[0]),
        )

    metrics = (
        lesson.each_step("loss", "Training loss", "lower", unit="nats"),
        lesson.each_step("reconstruction", "Reconstruction term", "lower", unit="nats"),
        lesson.each_step("kl", "KL term", unit="nats"),
        lesson.at_evaluation("validation_loss", "Validation loss", "lower", unit="nats"),
        lesson.at_evaluation("test_loss", "Test loss", "lower", unit="nats"),
        lesson.at_evaluation("test_bound", "Test bound", "lower", unit="nats"),
        lesson.at_evaluation("test_reconstruction", "Test reconstruction", unit="nats"),
        lesson.at_evaluation("test_kl", "Test KL", unit="nats"),
    )
    plots = (
        lesson.plot("loss", "Loss of an image", "loss", "test_loss"),
        lesson.plot("bound", "Bound of a test image (minus ELBO)", "test_bound"),
        lesson.plot("reconstruction", "Reconstruction term", "reconstruction", "test_reconstruction"),
        lesson.plot("kl", "KL term", "kl", "test_kl"),
    )
    pictures = (
        lesson.ImageGrid("manifold", "Manifold", columns=SIDE),
        lesson.Scatter("codes", "Codes of test images"),
        lesson.ImageGrid("between", "From one digit to another", columns=10),
        lesson.ImageGrid("attributes", "One image, with more and more of each class", columns=len(SHARES)),
        lesson.ImageGrid("reconstructions", "Originals, below them reconstructions", columns=10),
    )
    baseline = "both"
    presets = (
        lesson.preset("both", "Both terms", "Reconstruction and KL."),
        lesson.preset("reconstruction-only", "Reconstruction only", "Codes wherever they like.", kl_weight=0.0),
        lesson.preset("kl-only", "KL only", "Codes that say nothing.", reconstruction_weight=0.0),
        lesson.tiny(steps=300, evaluate_every=100),
    )
    goals = (
        lesson.goal("bound", "Test bound below 150", "test_bound <= 150.0 on mnist", TWO_NUMBERS, question=3),
        lesson.goal("digits", "Test bound below 220", "test_bound <= 220.0 on digits", TWO_NUMBERS, question=3),
        lesson.goal("fashion", "Test bound below 265", "test_bound <= 265.0 on fashion-mnist", TWO_NUMBERS, question=3),
    )
    goal_details = {
        "bound": "Reconstruction and KL, both with weight 1.",
        "digits": "On the small digits.",
        "fashion": "On Fashion-MNIST.",
    }


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
