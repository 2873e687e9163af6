"""A generative adversarial network: one network draws, another judges. After CINECA's course."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.lesson.cards import at_least, goal, needs, preset
from clew_agent.training import random
from clew_agent.training.exercise import Batch, Coder, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.images import as_images
from clew_agent.training.layers import (
    correct,
    cross_entropy,
    dense_layers,
    dropout,
    leaky_relu,
    through,
    variables_of,
)
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, OrderName, Steps
from clew_shared.cards import Bars, ImageGrid, MetricSpec, PlotSpec
from clew_shared.params import Choice, Knob

DRAWN = 1000
"""Samples by which the classes are counted."""
CLEAR, ENOUGH = 0.9, 0.02
"""A sample counts for a class when the classifier is so sure; a class is there when it has such a share of samples."""


LONG_ENOUGH = needs(steps=at_least(2000))
"""After some hundred steps the classifier reads digits in smears."""


class GanSettings(BatchSettings, frozen=True, kw_only=True):
    """Both networks, and how they take turns."""

    generator_loss: Annotated[
        str,
        Knob(
            "Generator's loss",
            "Saturating: make log(1 - D) small. Non-saturating: make -log(D) small.",
            "Game",
            choices=(Choice("non-saturating", "Non-saturating"), Choice("saturating", "Saturating")),
        ),
    ] = "non-saturating"
    discriminator_steps: Annotated[
        int,
        Knob(
            "Discriminator's steps",
            "Updates of the discriminator in each step, each with real images of its own.",
            "Game",
            ge=1,
            le=20,
        ),
    ] = 1
    generator_steps: Annotated[
        int, Knob("Generator's steps", "Updates of the generator in each step.", "Game", ge=1, le=20)
    ] = 1
    noise: Annotated[int, Knob("Noise", "Random numbers from which an image is drawn.", "Network", ge=1, le=1000)] = 64
    dropout: Annotated[
        float, Knob("Dropout", "Share of the discriminator's units that is switched off.", "Network", ge=0, lt=1)
    ] = 0.3
    optimizer: OptimizerName = "rmsprop"
    learning_rate: LearningRate = 2e-3
    batch_size: BatchSize = 100
    order: OrderName = "shuffle"
    steps: Steps = 5000


class Gan(Exercise[GanSettings]):
    """Two parts that are trained in turn, and a classifier beside them that says what was drawn."""

    id = "gan"
    title = "GAN"
    subtitle = "generator against discriminator"
    chapter = "Generative"
    course = "CINECA, generative networks"
    minutes = 45
    summary = "Let two networks play against each other until one of them draws digits."
    Settings = GanSettings
    datasets = ("mnist", "digits", "fashion-mnist")
    revision = 1
    tries = "code"
    jit = True
    metrics = (
        MetricSpec(name="discriminator_loss", label="Discriminator's loss"),
        MetricSpec(name="generator_loss", label="Generator's loss"),
        MetricSpec(name="real", label="D(x)", format="percent"),
        MetricSpec(name="drawn", label="D(G(z))", format="percent"),
        MetricSpec(name="generator_gradient", label="Generator's gradient norm"),
        MetricSpec(name="accuracy", label="Classifier's training accuracy", format="percent"),
        MetricSpec(name="samples_classes", label="Classes among 1,000 samples", per_step=False, better="higher"),
        MetricSpec(name="samples_clear", label="Clear samples", per_step=False, better="higher", format="percent"),
    )
    plots = (
        PlotSpec(id="losses", title="Losses", metrics=("discriminator_loss", "generator_loss")),
        PlotSpec(id="answers", title="Discriminator's answers", metrics=("real", "drawn"), format="percent"),
        PlotSpec(id="gradient", title="Generator's gradient norm", metrics=("generator_gradient",), log=True),
        PlotSpec(id="classes", title="Classes drawn", metrics=("samples_classes",)),
    )
    pictures = (
        ImageGrid("samples", "Samples from the same noise", columns=10),
        Bars("classes", f"Clear samples of each class among {DRAWN:,}"),
    )
    baseline = "course"
    presets = (
        preset("course", "Course's values", "RMSprop, one step each."),
        preset("oscillation", "Oscillation", "A rate that overshoots.", learning_rate=0.03, dropout=0.0),
        preset(
            "mode-collapse",
            "Mode collapse",
            "A fast generator that draws few classes.",
            optimizer="adam",
            learning_rate=0.005,
            dropout=0.0,
        ),
        preset(
            "vanishing-gradient",
            "Vanishing gradient",
            "A discriminator that is always sure.",
            generator_loss="saturating",
            discriminator_steps=5,
            dropout=0.0,
        ),
        preset("tiny", "Tiny", "The built-in small digits.", data="digits", steps=300, evaluate_every=100),
    )
    goals = (
        goal(
            "classes",
            "9 of 10 classes",
            "samples_classes >= 9",
            "As the small classifier reads 1,000 samples.",
            requires=(*LONG_ENOUGH, *needs()),
            question=1,
        ),
        goal(
            "strong",
            "9 of 10 classes against a strong discriminator",
            "samples_classes >= 9",
            "As in *Vanishing gradient*, but repaired.",
            requires=(*LONG_ENOUGH, *needs(discriminator_steps=at_least(5), dropout=0.0)),
            question=2,
        ),
    )

    def build(self, setup: Setup[GanSettings]) -> Model:
        """A generator from noise to pixels, a discriminator from pixels to one score, a small classifier."""
        options, data = setup.settings, setup.require_data()
        pixels = data.train.x.shape[1]
        generator = dense_layers(setup, "generator", [options.noise, 256, pixels], leaky_relu, tf.sigmoid)
        discriminator = dense_layers(setup, "discriminator", [pixels, 128, 1], leaky_relu)
        classifier = dense_layers(setup, "classifier", [pixels, 128, data.classes], tf.nn.relu)

        def judged(images: tf.Tensor, context: StepContext, tag: str) -> tf.Tensor:
            """The discriminator's score of each image: above 0 it says real."""
            x = images
            for layer in discriminator[:-1]:
                x = dropout(layer(x), options.dropout, context, f"{tag}/{layer.name}")
            return discriminator[-1](x)[:, 0]

        def draw(context: StepContext) -> tf.Tensor:
            return through(generator, context.sample_normal([options.noise], "noise"))

        def discriminator_loss(batch: Batch, context: StepContext) -> Loss:
            real, drawn = judged(batch.x, context, "real"), judged(draw(context), context, "drawn")
            answers = {"real": batch.mean(tf.sigmoid(real)), "drawn": batch.mean(tf.sigmoid(drawn))}
            return Loss(batch.mean(tf.nn.softplus(-real) + tf.nn.softplus(drawn)), answers)

        def generator_loss(batch: Batch, context: StepContext) -> Loss:
            score = judged(draw(context), context, "drawn")
            saturating = options.generator_loss == "saturating"
            return Loss(batch.mean(-tf.nn.softplus(score) if saturating else tf.nn.softplus(-score)))

        def classifier_loss(batch: Batch, _: StepContext) -> Loss:
            logits = through(classifier, batch.x)
            return Loss(batch.mean(cross_entropy(logits, batch.y)), {"accuracy": batch.mean(correct(logits, batch.y))})

        def answers(z: tf.Tensor) -> tf.Tensor:
            """What the classifier reads in the images drawn from the noise ``z``: [batch, classes] of 0 and 1."""
            answer = tf.nn.softmax(through(classifier, through(generator, z)))
            return tf.cast(answer > CLEAR, tf.float32)

        def classes(means: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
            return {"classes": float(np.sum(means["answers"] >= ENOUGH)), "clear": float(np.sum(means["answers"]))}

        noise = random.normal([DRAWN, options.noise], setup.seed, "noise of the evaluation")

        parts = [
            Part(
                "discriminator",
                variables_of(discriminator),
                discriminator_loss,
                setup.optimizer(),
                options.discriminator_steps,
                fresh_batches=True,
            ),
            Part("generator", variables_of(generator), generator_loss, setup.optimizer(), options.generator_steps),
            Part("classifier", variables_of(classifier), classifier_loss, setup.optimizer()),
        ]
        drawn = Samples(noise.numpy(), np.zeros(DRAWN, np.int32))
        return Model(
            parts=parts,
            evaluate=lambda batch: {"answers": answers(batch.x)},  # here a sample is noise
            summarize=classes,
            evaluation_sets={"samples": drawn},
            pictures={
                "samples": lambda: as_images(through(generator, noise[:100]), data),
                "classes": lambda: tf.reduce_sum(answers(noise), 0),
            },
            coder=Coder(options.noise, lambda code: through(generator, code)),
        )


EXERCISE = Gan()
