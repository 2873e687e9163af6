"""Autoencoders: a network that draws an image from a few numbers. After CINECA's course."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import Rows
from clew_agent.training import random
from clew_agent.training.exercise import Batch, Coder, Exercise, Loss, Model, Part, Setup
from clew_agent.training.images import as_images, in_rows
from clew_agent.training.layers import Layers, dense_layers, through, variables_of
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, OrderName, Steps
from clew_shared.cards import Goal, ImageGrid, MetricSpec, PlotSpec, Preset, Requirement
from clew_shared.params import Choice, Condition, Knob

LINEAR = "Without activations, what would the network learn at best?"
DEEPER = "What can three layers each way do that one cannot?"
GUIDE = f"""\
## Draw an image from a few numbers

An *encoder* reduces the 784 pixels of an image to a short code, and a *decoder* draws the image again from the code.
They are trained together, and nobody gives them labels: the target is the image itself. Principal components (PCA) are
the best code that linear layers can make. Every evaluation compares the network with PCA of the same size.

## What to do

1. Press **Run**: 32 numbers, one layer each way. By what factor is its error smaller than that of PCA?
2. Make the code smaller, down to 2. What do the reconstructions lose first?
3. *Sparse*: the code is larger, but each unit costs in proportion to its value (L1), so most are switched off. Raise
   the penalty until the images suffer.
4. *Denoising*: the network sees noise and has to draw the clean image.
5. *Contractive*: it costs when the code changes with the image. Compare *Slope of the code* with a penalty of 0 and
   with the preset's. What does the error say to that?
6. *Deep*, without and with greedy pre-training. Does it help to train the layers one after the other first?

## What to watch

*Originals and reconstructions* shows test images and below each what the network draws. With noise there is a third row
in the middle: what the network gets to see. *Slope of the code* says how far the code of a test image moves when a
little noise is added to the image, divided by the deviation of the noise. During pre-training the loss is that of one
pair of layers, so it jumps when the next pair begins.

## Questions

- {LINEAR}
- {DEEPER}
- Why can a code with more numbers than the image has pixels be useful?

> **Hint: numbers to compare with**
> With seed 1 on MNIST and 5000 steps, the undercomplete network ended at a test error of 0.0096, and PCA with 32
> components has 0.0167: a factor of 1.7, after 25 seconds on two busy cores. *Denoising* with 128 numbers reached a
> factor of 2.6. The preset *Sparse* ended with 30 % of its units active. *Contractive* ended at a slope of 6.6 and an
> error of 0.0096; with a penalty of 0 at 9.7 and 0.0084, and with 0.001 at 3.2 and 0.0175.

> **Hint: does pre-training help?**
> In 2006 it made deep networks possible, because initial weights were badly chosen and sigmoids let the gradient
> vanish. With today's initial weights and ReLU it may only take steps away from training the whole network. Compare
> *Deep* with *Deep, pre-trained*: both have 5000 steps in all. With the seeds 1 to 3 on MNIST the first ended at a
> factor of 2.7 to 2.8, the second at 1.8 to 2.1.
"""

SHOWN, COLUMNS = 20, 10
NUDGE = 0.01
"""Deviation of the noise by which an image is changed to see what its code makes of that."""
WITH_PENALTY = ("sparse", "contractive")
CLEAN = (Requirement("kind", ("undercomplete", "deep")),)
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
    guide = GUIDE
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
        Preset(name="undercomplete", title="Undercomplete", help="One layer to the code, one back."),
        Preset(
            name="sparse",
            title="Sparse",
            help="256 numbers, of which few are active.",
            values={"kind": "sparse", "code": 256, "penalty": 0.03},
        ),
        Preset(
            name="denoising",
            title="Denoising",
            help="Clean images from noisy ones.",
            values={"kind": "denoising", "code": 128},
        ),
        Preset(name="deep", title="Deep", help="Three layers each way.", values={"kind": "deep"}),
        Preset(
            name="greedy",
            title="Deep, pre-trained",
            help="Pair by pair first.",
            values={"kind": "deep", "pretraining": 500},
        ),
        Preset(
            name="contractive",
            title="Contractive",
            help="A code that hardly changes with the image.",
            values={"kind": "contractive", "code": 128, "penalty": 1e-4},
        ),
        Preset(
            name="tiny",
            title="Tiny",
            help="The built-in small digits.",
            values={"steps": 300, "code": 4, "evaluate_every": 100},
            data="digits",
        ),
    )
    goals = (
        Goal(
            id="twice",
            text="Half of PCA's error",
            metric="test_gain",
            op=">=",
            value=2.0,
            detail="What do more layers bring?",
            data="mnist",
            requires=(*CLEAN, Requirement("code", (32,))),
            question=DEEPER,
        ),
        Goal(
            id="pca",
            text="Better than PCA",
            metric="test_gain",
            op=">=",
            value=1.0,
            detail="A smaller test error than PCA with a code of the same size.",
            requires=(*CLEAN, Requirement("code", least=4)),
            question=LINEAR,
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
