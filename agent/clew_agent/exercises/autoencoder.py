"""Autoencoders: a network that draws an image from a few numbers. After CINECA's course."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson

SHOWN, COLUMNS = 20, 10
NUDGE = 0.01
"""Deviation of the noise by which an image is changed to see what its code makes of that."""
WITH_PENALTY = ("sparse", "contractive")
CLEAN = lesson.needs(kind=("undercomplete", "deep"))
"""Of noisy images PCA has to draw the noise as well, so it loses without a contest."""
TWICE = lesson.needs(CLEAN, code=32)
AS_PCA = lesson.needs(CLEAN, code=lesson.at_least(4))


class AutoencoderSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """What kind of autoencoder, and how many numbers its code has."""

    kind: Annotated[
        str,
        lesson.Knob(
            "Kind",
            "What keeps the network from copying the image.",
            "Network",
            choices=lesson.choices(
                undercomplete="Undercomplete",
                sparse="Sparse",
                denoising="Denoising",
                deep="Deep",
                contractive="Contractive",
            ),
        ),
    ] = "undercomplete"
    code: Annotated[int, lesson.size("Code", "Numbers that an image is reduced to.", 1, 1024, "Network")] = 32
    penalty: Annotated[
        float,
        lesson.number(
            "Penalty",
            "This times the cost of the code is added to the loss. Sparse: the mean absolute value of its units (L1)."
            " Contractive: the squared norm of its derivative by the pixels.",
            0,
            10,
            "Network",
            shown_when=lesson.Condition("kind", WITH_PENALTY),
        ),
    ] = 1e-3
    noise: Annotated[
        float,
        lesson.number(
            "Noise",
            "Deviation of the noise that is added to each pixel. The target is the image without it.",
            0,
            2,
            "Network",
            shown_when=lesson.Condition("kind", ("denoising",)),
        ),
    ] = 0.3
    pretraining: Annotated[
        int,
        lesson.number(
            "Pre-training",
            "Steps for each pair of layers alone, from the outside in, before all are trained together.",
            0,
            100_000,
            "Network",
            unit="steps",
            shown_when=lesson.Condition("kind", ("deep",)),
        ),
    ] = 0
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 2e-3
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 5000


class Autoencoder(lesson.Exercise[AutoencoderSettings]):
    """An encoder from the pixels to the code, a decoder back, and PCA of the same size beside them."""

    id = "autoencoder"
    title = "Autoencoder"
    subtitle = "784 pixels through 32 numbers"
    chapter = "Networks"
    course = "CINECA, autoencoders"
    minutes = 30
    summary = "Reduce an image to a few numbers, draw it again from them, and beat principal components."
    datasets = ("mnist", "digits", "fashion-mnist", "cifar10")
    revision = 1
    plays = True
    tries = "code"
    jit = True

    def build(self, setup: lesson.Setup[AutoencoderSettings]) -> lesson.Model:
        """Layers to the code and the same sizes back, a last sigmoid because pixels are between 0 and 1."""
        options, data = setup.settings, setup.require_data()
        pixels = data.train.x.shape[1]
        network = Network(setup, pixels)
        pca = cache(lambda: principal_components(data.train.x, options.code))  # only evaluation waits for it

        def error(x: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
            return tf.reduce_mean(tf.square(x - target), 1)

        def together(x: tf.Tensor, batch: lesson.Batch) -> lesson.Loss:
            code = network.encode(x)
            value = batch.mean(error(network.decode(code), batch.x))
            if options.kind in WITH_PENALTY:
                value += options.penalty * batch.mean(network.cost(code))
            return lesson.Loss(
                value, {"active": batch.mean(tf.reduce_mean(tf.cast(tf.abs(code) > 0.01, tf.float32), 1))}
            )

        def noisy(x: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
            return x + options.noise * noise if options.kind == "denoising" else x

        def loss(batch: lesson.Batch, context: lesson.StepContext) -> lesson.Loss:
            whole = together(noisy(batch.x, context.sample_normal([pixels], "noise")), batch)
            if options.kind != "deep" or not options.pretraining:
                return whole
            alone = [batch.mean(error(*pair)) for pair in pairs(network.encoder, network.decoder, batch.x)]
            stage = tf.minimum(context.step // options.pretraining, len(alone))
            value = tf.reduce_sum(tf.stack([*alone, whole.value]) * tf.one_hot(stage, len(alone) + 1))
            return lesson.Loss(value, whole.metrics)

        fixed = lesson.random.normal([1000, pixels], setup.seed, "noise of the evaluation")

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            noise = tf.gather(fixed, batch.index % 1000)
            x = noisy(batch.x, noise)
            code = network.encode(x)
            moved = network.encode(x + NUDGE * noise) - code
            errors = {"error": error(network.decode(code), batch.x), "pca": error(pca()(x), batch.x)}
            return {**errors, "slope": tf.norm(moved, axis=1) / NUDGE}

        def gain(means: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
            return {"gain": float(means["pca"] / means["error"])}

        def reconstructions() -> tf.Tensor:
            """Images, what the network gets to see of them, and what it draws."""
            originals = tf.constant(data.test.x[:SHOWN])
            x = noisy(originals, fixed[:SHOWN])
            sets = (originals, x, network.decode(network.encode(x)))
            shown = sets if options.kind == "denoising" else sets[::2]
            return lesson.in_rows(COLUMNS, *(lesson.as_images(tf.clip_by_value(one, 0, 1), data) for one in shown))

        part = lesson.Part("autoencoder", network.variables, loss, setup.optimizer())
        return lesson.Model(
            parts=[part],
            evaluate=evaluate,
            summarize=gain,
            evaluation_sets=setup.held_out(),
            pictures={"reconstructions": reconstructions},
            coder=lesson.Coder(options.code, network.decode, network.encode),
        )

    metrics = (
        lesson.each_step("loss", "Training loss", "lower"),
        lesson.each_step("active", "Active units", format="percent"),
        lesson.at_evaluation("validation_error", "Validation error", "lower"),
        lesson.at_evaluation("test_error", "Test error", "lower"),
        lesson.at_evaluation("test_pca", "PCA's test error"),
        lesson.at_evaluation("test_gain", "PCA's error / own error", "higher"),
        lesson.at_evaluation("test_slope", "Slope of the code"),
    )
    plots = (
        lesson.plot("error", "Squared error of a pixel", "loss", "test_error", "test_pca", log=True),
        lesson.plot("active", "Active units of the code", "active", format="percent"),
        lesson.plot("slope", "Slope of the code", "test_slope", log=True),
    )
    pictures = (lesson.ImageGrid("reconstructions", "Originals, below them reconstructions", columns=COLUMNS),)
    baseline = "undercomplete"
    presets = (
        lesson.preset("undercomplete", "Undercomplete", "One layer to the code, one back."),
        lesson.preset(
            "sparse", "Sparse", "256 numbers, of which few are active.", kind="sparse", code=256, penalty=0.03
        ),
        lesson.preset("denoising", "Denoising", "Clean images from noisy ones.", kind="denoising", code=128),
        lesson.preset("deep", "Deep", "Three layers each way.", kind="deep"),
        lesson.preset("greedy", "Deep, pre-trained", "Pair by pair first.", kind="deep", pretraining=500),
        lesson.preset(
            "contractive",
            "Contractive",
            "A code that hardly changes with the image.",
            kind="contractive",
            code=128,
            penalty=1e-4,
        ),
        lesson.tiny(steps=300, code=4, evaluate_every=100),
    )
    goals = (
        lesson.goal("twice", "Half of PCA's error", "test_gain >= 2.0 on mnist", TWICE, question=2),
        lesson.goal("pca", "Better than PCA", "test_gain >= 1.0", AS_PCA, question=1),
    )
    goal_details = {
        "twice": "What do more layers bring?",
        "pca": "A smaller test error than PCA with a code of the same size.",
    }


class Network:
    """The layers to the code and back. A contractive one goes back by the same weights (tied): else small weights on
    the way there and large ones on the way back would escape the penalty."""

    def __init__(self, setup: lesson.Setup[AutoencoderSettings], pixels: int) -> None:
        options = self._options = setup.settings
        sizes = [pixels, 512, 128, options.code] if options.kind == "deep" else [pixels, options.code]
        bend_code = {"sparse": tf.nn.relu, "contractive": tf.sigmoid}.get(options.kind, tf.identity)
        self.encoder = lesson.dense_layers(setup, "encoder", sizes, tf.nn.relu, bend_code)
        self.decoder = lesson.dense_layers(setup, "decoder", sizes[::-1], tf.nn.relu, tf.sigmoid)
        self.variables = lesson.variables_of((*self.encoder, *self.decoder))
        self._tied = options.kind == "contractive"
        if self._tied:
            del self.variables["decoder1"]

    def encode(self, x: tf.Tensor) -> tf.Tensor:
        """float32 [batch, code]."""
        return lesson.through(self.encoder, x)

    def decode(self, code: tf.Tensor) -> tf.Tensor:
        """float32 [batch, pixels]."""
        if self._tied:
            weights, offset = self.encoder[0].weights, self.decoder[0].offset
            return tf.sigmoid(tf.matmul(code, weights, transpose_b=True) + offset)
        return lesson.through(self.decoder, code)

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


def pairs(encoder: lesson.Layers, decoder: lesson.Layers, x: tf.Tensor) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Greedy pre-training: of each layer and the one that undoes it, what comes out and what went in.

    The layers outside of the pair are used as they are (Hinton and Salakhutdinov, Science 2006; Bengio et al., 2007).
    """
    for layer, undoes in zip(encoder, reversed(decoder), strict=True):
        inside = layer(x)
        yield undoes(inside), x
        x = tf.stop_gradient(inside)


def principal_components(x: lesson.Rows, size: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """The best that a linear code of ``size`` numbers can do for ``x`` [samples, pixels]: rows there and back again."""
    mean = x.mean(0)
    axes = np.linalg.eigh((x - mean).T @ (x - mean))[1][:, -size:]  # the largest variances come last
    return lambda rows: tf.matmul(tf.matmul(rows - mean, axes), axes, transpose_b=True) + mean


EXERCISE = Autoencoder()
