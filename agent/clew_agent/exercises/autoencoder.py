"""Autoencoders: a network that draws what it has seen from a few numbers. After IT4Innovations' and CINECA's courses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import tensorflow as tf

from clew_agent.training import random
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Setup
from clew_agent.training.images import as_images, in_rows
from clew_agent.training.layers import dense_layers, through, variables_of
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, OrderName, Steps
from clew_shared.cards import Goal, ImageGrid, MetricSpec, PlotSpec, Preset
from clew_shared.params import Choice, Condition, Knob

GUIDE = """\
GUIDE
"""

SHOWN, COLUMNS = 20, 10
CODED = ("undercomplete", "denoising", "deep")


class AutoencoderSettings(BatchSettings, frozen=True, kw_only=True):
    """What kind of autoencoder, and how many numbers its code has."""

    kind: Annotated[
        str,
        Knob(
            "Kind",
            "What keeps the network from copying the image.",
            "Network",
            choices=(
                Choice("undercomplete", "Undercomplete"),
                Choice("sparse", "Sparse"),
                Choice("denoising", "Denoising"),
                Choice("deep", "Deep"),
            ),
        ),
    ] = "undercomplete"
    code: Annotated[int, Knob("Code", "Numbers that an image is reduced to.", "Network", ge=1, le=1024, log=True)] = 32
    penalty: Annotated[
        float,
        Knob(
            "Penalty",
            "What each unit of the code costs while it is switched on.",
            "Network",
            ge=0,
            le=10,
            shown_when=Condition("kind", ("sparse",)),
        ),
    ] = 1e-3
    noise: Annotated[
        float,
        Knob(
            "Noise",
            "Deviation of the noise that is added to each pixel. The target is the image without it.",
            "Network",
            ge=0,
            le=2,
            shown_when=Condition("kind", ("denoising",)),
        ),
    ] = 0.3
    pretraining: Annotated[
        int,
        Knob(
            "Pre-training",
            "Steps for each pair of layers alone, from the outside in, before all are trained together.",
            "Network",
            unit="steps",
            ge=0,
            le=100_000,
            shown_when=Condition("kind", ("deep",)),
        ),
    ] = 0
    optimizer: OptimizerName = "adam"
    learning_rate: LearningRate = 2e-3
    batch_size: BatchSize = 100
    order: OrderName = "shuffle"
    steps: Steps = 5000


class Autoencoder(Exercise[AutoencoderSettings]):
    """An encoder from the pixels to the code, a decoder back, and PCA of the same size beside them."""

    id = "autoencoder"
    title = "Autoencoder"
    subtitle = "784 pixels through 32 numbers"
    chapter = "Networks"
    course = "IT4Innovations and CINECA, autoencoders"
    minutes = 30
    summary = "Reduce an image to a few numbers, draw it again from them, and beat principal components."
    guide = GUIDE
    Settings = AutoencoderSettings
    datasets = ("mnist", "fashion-mnist", "digits")
    jit = True
    metrics = (
        MetricSpec(name="loss", label="Training loss", better="lower"),
        MetricSpec(name="active", label="Active units", format="percent"),
        MetricSpec(name="validation_error", label="Validation error", per_step=False, better="lower"),
        MetricSpec(name="test_error", label="Test error", per_step=False, better="lower"),
        MetricSpec(name="test_pca", label="PCA's test error", per_step=False),
        MetricSpec(name="test_gain", label="PCA's error / own error", per_step=False, better="higher"),
    )
    plots = (
        PlotSpec(id="error", title="Squared error of a pixel", metrics=("loss", "test_error", "test_pca"), log=True),
        PlotSpec(id="active", title="Active units of the code", metrics=("active",), format="percent"),
    )
    pictures = (ImageGrid("reconstructions", "Originals and reconstructions", columns=COLUMNS),)
    baseline = "undercomplete"
    presets = (
        Preset(name="undercomplete", title="Undercomplete", help="One layer to the code, one back."),
        Preset(name="sparse", title="Sparse", values={"kind": "sparse", "code": 256}),
        Preset(name="denoising", title="Denoising", values={"kind": "denoising", "code": 128}),
        Preset(name="deep", title="Deep", values={"kind": "deep"}),
        Preset(name="greedy", title="Deep, pre-trained", values={"kind": "deep", "pretraining": 500}),
        Preset(name="tiny", title="Tiny", values={"steps": 300, "code": 16}, data="digits"),
    )
    goals = (
        Goal(id="pca", text="Better than PCA", metric="test_gain", op=">=", value=1.0, which="last"),
    )

    def build(self, setup: Setup[AutoencoderSettings]) -> Model:
        """Layers to the code and the same sizes back, a last sigmoid because pixels are between 0 and 1."""
        options, data = setup.settings, setup.require_data()
        pixels = data.train.x.shape[1]
        sizes = [pixels, 512, 128, options.code] if options.kind == "deep" else [pixels, options.code]
        bend_code = tf.nn.relu if options.kind == "sparse" else tf.identity
        encoder = dense_layers(setup, "encoder", sizes, tf.nn.relu, bend_code)
        decoder = dense_layers(setup, "decoder", sizes[::-1], tf.nn.relu, tf.sigmoid)
        pca = principal_components(data.train.x, options.code)

        def error(x: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.square(x - target), 1)

        def together(x: tf.Tensor, batch: Batch) -> Loss:
            code = through(encoder, x)
            value = batch.mean(error(through(decoder, code), batch.x))
            if options.kind == "sparse":
                value += options.penalty * batch.mean(tf.reduce_mean(tf.abs(code), 1))
            return Loss(value, {"active": batch.mean(tf.reduce_mean(tf.cast(tf.abs(code) > 0.01, tf.float32), 1))})

        def pair_alone(number: int, batch: Batch) -> tf.Tensor:
            """The loss of one encoder layer and the decoder layer that undoes it; layers outside stay as they are."""
            outside = tf.stop_gradient(through(encoder[:number], batch.x))
            return batch.mean(error(decoder[-1 - number](encoder[number](outside)), outside))

        def loss(batch: Batch, context: StepContext) -> Loss:
            x = batch.x
            if options.kind == "denoising":
                x += options.noise * context.sample_normal([pixels], "noise")
            whole = together(x, batch)
            if options.kind != "deep" or not options.pretraining:
                return whole
            losses = tf.stack([*(pair_alone(number, batch) for number in range(len(encoder))), whole.value])
            stage = tf.minimum(context.step // options.pretraining, len(encoder))
            return Loss(tf.reduce_sum(losses * tf.one_hot(stage, len(encoder) + 1)), whole.metrics)

        fixed = random.normal([1000, pixels], setup.seed, "noise of the evaluation")

        def seen(x: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
            return x + options.noise * tf.gather(fixed, index % 1000) if options.kind == "denoising" else x

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            x = seen(batch.x, batch.index)
            return {
                "error": error(through(decoder, through(encoder, x)), batch.x),
                "pca": error(pca(x), batch.x),
            }

        def gain(means: Mapping[str, np.ndarray]) -> dict[str, float]:
            return {"gain": float(means["pca"] / means["error"])}

        def reconstructions() -> tf.Tensor:
            originals = tf.constant(data.test.x[:SHOWN])
            x = seen(originals, tf.range(SHOWN))
            sets = (originals, *([x] if options.kind == "denoising" else []), through(decoder, through(encoder, x)))
            return in_rows(COLUMNS, *(as_images(tf.clip_by_value(one, 0, 1), data) for one in sets))

        part = Part("autoencoder", variables_of((*encoder, *decoder)), loss, setup.optimizer())
        return Model(
            parts=[part],
            evaluate=evaluate,
            summarize=gain,
            evaluation_sets=setup.held_out(),
            pictures={"reconstructions": reconstructions},
        )


def principal_components(x, size):
    """PCA."""
    mean = x.mean(0, dtype=np.float64)
    centred = x - mean.astype(np.float32)
    covariance = centred.T @ centred
    axes = np.linalg.eigh(covariance)[1][:, -size:].astype(np.float32)
    middle, axes = tf.constant(mean, tf.float32), tf.constant(axes)
    return lambda rows: tf.matmul(tf.matmul(rows - middle, axes), axes, transpose_b=True) + middle


EXERCISE = Autoencoder()
