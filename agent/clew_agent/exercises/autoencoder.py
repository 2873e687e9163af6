"""Autoencoders: a network that draws an image from a few numbers. After CINECA's course."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import Rows
from clew_agent.lesson.cards import at_least, goal, needs, preset
from clew_agent.training import random
from clew_agent.training.exercise import Batch, Coder, Exercise, Loss, Model, Part, Setup
from clew_agent.training.images import as_images, in_rows
from clew_agent.training.layers import Layers, dense_layers, through, variables_of
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, OrderName, Steps
from clew_shared.cards import ImageGrid, MetricSpec, PlotSpec
from clew_shared.params import Choice, Condition, Knob

SHOWN, COLUMNS = 20, 10
NUDGE = 0.01
"""Deviation of the noise by which an image is changed to see what its code makes of that."""
WITH_PENALTY = ("sparse", "contractive")
CLEAN = needs(kind=("undercomplete", "deep"))
"""Of noisy images PCA has to draw the noise as well, so it loses without a contest."""


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
                Choice("contractive", "Contractive"),
            ),
        ),
    ] = "undercomplete"
    code: Annotated[int, Knob("Code", "Numbers that an image is reduced to.", "Network", ge=1, le=1024, log=True)] = 32
    penalty: Annotated[
        float,
        Knob(
            "Penalty",
            "This times the cost of the code is added to the loss. Sparse: the mean absolute value of its units (L1)."
            " Contractive: the squared norm of its derivative by the pixels.",
            "Network",
            ge=0,
            le=10,
            shown_when=Condition("kind", WITH_PENALTY),
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
    course = "CINECA, autoencoders"
    minutes = 30
    summary = "Reduce an image to a few numbers, draw it again from them, and beat principal components."
    Settings = AutoencoderSettings
    datasets = ("mnist", "digits", "fashion-mnist", "cifar10")
    revision = 1
    tries = "code"
    jit = True
    metrics = (
        MetricSpec(name="loss", label="Training loss", better="lower"),
        MetricSpec(name="active", label="Active units", format="percent"),
        MetricSpec(name="validation_error", label="Validation error", per_step=False, better="lower"),
        MetricSpec(name="test_error", label="Test error", per_step=False, better="lower"),
        MetricSpec(name="test_pca", label="PCA's test error", per_step=False),
        MetricSpec(name="test_gain", label="PCA's error / own error", per_step=False, better="higher"),
        MetricSpec(name="test_slope", label="Slope of the code", per_step=False),
    )
    plots = (
        PlotSpec(id="error", title="Squared error of a pixel", metrics=("loss", "test_error", "test_pca"), log=True),
        PlotSpec(id="active", title="Active units of the code", metrics=("active",), format="percent"),
        PlotSpec(id="slope", title="Slope of the code", metrics=("test_slope",), log=True),
    )
    pictures = (ImageGrid("reconstructions", "Originals, below them reconstructions", columns=COLUMNS),)
    baseline = "undercomplete"
    presets = (
        preset("undercomplete", "Undercomplete", "One layer to the code, one back."),
        preset("sparse", "Sparse", "256 numbers, of which few are active.", kind="sparse", code=256, penalty=0.03),
        preset("denoising", "Denoising", "Clean images from noisy ones.", kind="denoising", code=128),
        preset("deep", "Deep", "Three layers each way.", kind="deep"),
        preset("greedy", "Deep, pre-trained", "Pair by pair first.", kind="deep", pretraining=500),
        preset(
            "contractive",
            "Contractive",
            "A code that hardly changes with the image.",
            kind="contractive",
            code=128,
            penalty=1e-4,
        ),
        preset("tiny", "Tiny", "The built-in small digits.", data="digits", steps=300, code=4, evaluate_every=100),
    )
    goals = (
        goal(
            "twice",
            "Half of PCA's error",
            "test_gain >= 2.0",
            "What do more layers bring?",
            data="mnist",
            requires=(*CLEAN, *needs(code=32)),
            question=2,
        ),
        goal(
            "pca",
            "Better than PCA",
            "test_gain >= 1.0",
            "A smaller test error than PCA with a code of the same size.",
            requires=(*CLEAN, *needs(code=at_least(4))),
            question=1,
        ),
    )

    def build(self, setup: Setup[AutoencoderSettings]) -> Model:
        """Layers to the code and the same sizes back, a last sigmoid because pixels are between 0 and 1."""
        options, data = setup.settings, setup.require_data()
        pixels = data.train.x.shape[1]
        network = Network(setup, pixels)
        pca = principal_components(data.train.x, options.code)

        def error(x: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.square(x - target), 1)

        def together(x: tf.Tensor, batch: Batch) -> Loss:
            code = network.encode(x)
            value = batch.mean(error(network.decode(code), batch.x))
            if options.kind in WITH_PENALTY:
                value += options.penalty * batch.mean(network.cost(code))
            return Loss(value, {"active": batch.mean(tf.reduce_mean(tf.cast(tf.abs(code) > 0.01, tf.float32), 1))})

        def noisy(x: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
            return x + options.noise * noise if options.kind == "denoising" else x

        def loss(batch: Batch, context: StepContext) -> Loss:
            whole = together(noisy(batch.x, context.sample_normal([pixels], "noise")), batch)
            if options.kind != "deep" or not options.pretraining:
                return whole
            alone = [batch.mean(error(*pair)) for pair in pairs(network.encoder, network.decoder, batch.x)]
            stage = tf.minimum(context.step // options.pretraining, len(alone))
            value = tf.reduce_sum(tf.stack([*alone, whole.value]) * tf.one_hot(stage, len(alone) + 1))
            return Loss(value, whole.metrics)

        fixed = random.normal([1000, pixels], setup.seed, "noise of the evaluation")

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            noise = tf.gather(fixed, batch.index % 1000)
            x = noisy(batch.x, noise)
            code = network.encode(x)
            moved = network.encode(x + NUDGE * noise) - code
            errors = {"error": error(network.decode(code), batch.x), "pca": error(pca(x), batch.x)}
            return {**errors, "slope": tf.norm(moved, axis=1) / NUDGE}

        def gain(means: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
            return {"gain": float(means["pca"] / means["error"])}

        def reconstructions() -> tf.Tensor:
            """Images, what the network gets to see of them, and what it draws."""
            originals = tf.constant(data.test.x[:SHOWN])
            x = noisy(originals, fixed[:SHOWN])
            sets = (originals, x, network.decode(network.encode(x)))
            shown = sets if options.kind == "denoising" else sets[::2]
            return in_rows(COLUMNS, *(as_images(tf.clip_by_value(one, 0, 1), data) for one in shown))

        part = Part("autoencoder", network.variables, loss, setup.optimizer())
        return Model(
            parts=[part],
            evaluate=evaluate,
            summarize=gain,
            evaluation_sets=setup.held_out(),
            pictures={"reconstructions": reconstructions},
            coder=Coder(options.code, network.decode, network.encode),
        )


class Network:
    """The layers to the code and back. A contractive one goes back by the same weights (tied): else small weights on
    the way there and large ones on the way back would escape the penalty."""

    def __init__(self, setup: Setup[AutoencoderSettings], pixels: int) -> None:
        options = self._options = setup.settings
        sizes = [pixels, 512, 128, options.code] if options.kind == "deep" else [pixels, options.code]
        bend_code = {"sparse": tf.nn.relu, "contractive": tf.sigmoid}.get(options.kind, tf.identity)
        self.encoder = dense_layers(setup, "encoder", sizes, tf.nn.relu, bend_code)
        self.decoder = dense_layers(setup, "decoder", sizes[::-1], tf.nn.relu, tf.sigmoid)
        self.variables = variables_of((*self.encoder, *self.decoder))
        self._tied = options.kind == "contractive"
        if self._tied:
            del self.variables["decoder1"]

    def encode(self, x: tf.Tensor) -> tf.Tensor:
        """float32 [batch, code]."""
        return through(self.encoder, x)

    def decode(self, code: tf.Tensor) -> tf.Tensor:
        """float32 [batch, pixels]."""
        if self._tied:
            weights, offset = self.encoder[0].weights, self.decoder[0].offset
            return tf.sigmoid(tf.matmul(code, weights, transpose_b=True) + offset)
        return through(self.decoder, code)

    def cost(self, code: tf.Tensor) -> tf.Tensor:
        """What the penalty is for, of each image's code, float32 [batch]."""
        if self._options.kind == "sparse":
            return tf.reduce_mean(tf.abs(code), 1)
        return contraction(self.encoder[0].weights, code)


def contraction(weights: tf.Tensor, code: tf.Tensor) -> tf.Tensor:
    """Of each image the squared Frobenius norm of the derivative of its ``code`` [batch, units], one layer of sigmoids,
    by the pixels (Rifai et al., "Contractive auto-encoders", ICML 2011). ``weights`` are [pixels, units]."""
    slopes = tf.square(code * (1 - code))
    return tf.reduce_sum(slopes * tf.reduce_sum(tf.square(weights), 0), 1)


def pairs(encoder: Layers, decoder: Layers, x: tf.Tensor) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Greedy pre-training: of each layer and the one that undoes it, what comes out and what went in.

    The layers outside of the pair are used as they are (Hinton and Salakhutdinov, Science 2006; Bengio et al., 2007).
    """
    for layer, undoes in zip(encoder, reversed(decoder), strict=True):
        inside = layer(x)
        yield undoes(inside), x
        x = tf.stop_gradient(inside)


def principal_components(x: Rows, size: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """The best that a linear code of ``size`` numbers can do for ``x`` [samples, pixels]: rows there and back again."""
    mean = x.mean(0)
    axes = np.linalg.eigh((x - mean).T @ (x - mean))[1][:, -size:]  # the largest variances come last
    return lambda rows: tf.matmul(tf.matmul(rows - mean, axes), axes, transpose_b=True) + mean


EXERCISE = Autoencoder()
