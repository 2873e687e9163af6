"""A generative adversarial network: one network draws, another judges. After CINECA's course."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson

DRAWN = 1000
"""Samples by which the classes are counted."""
CLEAR, ENOUGH = 0.9, 0.02
"""A sample counts for a class when the classifier is so sure; a class is there when it has such a share of samples."""

LONG_ENOUGH = lesson.needs(steps=lesson.at_least(2000))
"""After some hundred steps the classifier reads digits in smears."""
STRONG = lesson.needs(LONG_ENOUGH, discriminator_steps=lesson.at_least(5), dropout=0.0)


class GanSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Both networks, and how they take turns."""

    generator_loss: Annotated[
        str,
        lesson.Knob(
            "Generator's loss",
            "Saturating: make log(1 - D) small. Non-saturating: make -log(D) small.",
            "Game",
            choices=lesson.choices(non_saturating="Non-saturating", saturating="Saturating"),
        ),
    ] = "non-saturating"
    discriminator_steps: Annotated[
        int,
        lesson.number(
            "Discriminator's steps",
            "Updates of the discriminator in each step, each with real images of its own.",
            1,
            20,
            "Game",
        ),
    ] = 1
    generator_steps: Annotated[
        int, lesson.number("Generator's steps", "Updates of the generator in each step.", 1, 20, "Game")
    ] = 1
    noise: Annotated[
        int, lesson.number("Noise", "Random numbers from which an image is drawn.", 1, 1000, "Network")
    ] = 64
    dropout: Annotated[
        float, lesson.share("Dropout", "Share of the discriminator's units that is switched off.", "Network")
    ] = 0.3
    optimizer: lesson.OptimizerName = "rmsprop"
    learning_rate: lesson.LearningRate = 2e-3
    batch_size: lesson.BatchSize = 100
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 5000


class Gan(lesson.Exercise[GanSettings]):
    """Two parts that are trained in turn, and a classifier beside them that says what was drawn."""

    id = "gan"
    title = "GAN"
    subtitle = "generator against discriminator"
    chapter = "Generative"
    course = "CINECA, generative networks"
    minutes = 45
    summary = "Let two networks play against each other until one of them draws digits."
    datasets = ("mnist", "digits", "fashion-mnist")
    revision = 1
    tries = "code"
    jit = True

    def build(self, setup: lesson.Setup[GanSettings]) -> lesson.Model:
        """A generator from noise to pixels, a discriminator from pixels to one score, a small classifier."""
        options, data = setup.settings, setup.require_data()
        pixels = data.train.x.shape[1]
        generator = lesson.dense_layers(setup, "generator", [options.noise, 256, pixels], lesson.leaky_relu, tf.sigmoid)
        discriminator = lesson.dense_layers(setup, "discriminator", [pixels, 128, 1], lesson.leaky_relu)
        classifier = lesson.dense_layers(setup, "classifier", [pixels, 128, data.classes], tf.nn.relu)

        def judged(images: tf.Tensor, context: lesson.StepContext, tag: str) -> tf.Tensor:
            """The discriminator's score of each image: above 0 it says real."""
            x = images
            for layer in discriminator[:-1]:
                x = lesson.dropout(layer(x), options.dropout, context, f"{tag}/{layer.name}")
            return discriminator[-1](x)[:, 0]

        def draw(context: lesson.StepContext) -> tf.Tensor:
            return lesson.through(generator, context.sample_normal([options.noise], "noise"))

        def discriminator_loss(batch: lesson.Batch, context: lesson.StepContext) -> lesson.Loss:
            real, drawn = judged(batch.x, context, "real"), judged(draw(context), context, "drawn")
            answers = {"real": batch.mean(tf.sigmoid(real)), "drawn": batch.mean(tf.sigmoid(drawn))}
            return lesson.Loss(batch.mean(tf.nn.softplus(-real) + tf.nn.softplus(drawn)), answers)

        def generator_loss(batch: lesson.Batch, context: lesson.StepContext) -> lesson.Loss:
            score = judged(draw(context), context, "drawn")
            saturating = options.generator_loss == "saturating"
            return lesson.Loss(batch.mean(-tf.nn.softplus(score) if saturating else tf.nn.softplus(-score)))

        def classifier_loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            logits = lesson.through(classifier, batch.x)
            return lesson.Loss(
                batch.mean(lesson.cross_entropy(logits, batch.y)),
                {"accuracy": batch.mean(lesson.correct(logits, batch.y))},
            )

        def answers(z: tf.Tensor) -> tf.Tensor:
            """What the classifier reads in the images drawn from the noise ``z``: [batch, classes] of 0 and 1."""
            answer = tf.nn.softmax(lesson.through(classifier, lesson.through(generator, z)))
            return tf.cast(answer > CLEAR, tf.float32)

        def classes(means: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, float]:
            return {"classes": float(np.sum(means["answers"] >= ENOUGH)), "clear": float(np.sum(means["answers"]))}

        noise = lesson.random.normal([DRAWN, options.noise], setup.seed, "noise of the evaluation")

        parts = [
            lesson.Part(
                "discriminator",
                lesson.variables_of(discriminator),
                discriminator_loss,
                setup.optimizer(),
                options.discriminator_steps,
                fresh_batches=True,
            ),
            lesson.Part(
                "generator", lesson.variables_of(generator), generator_loss, setup.optimizer(), options.generator_steps
            ),
            lesson.Part("classifier", lesson.variables_of(classifier), classifier_loss, setup.optimizer()),
        ]
        drawn = lesson.Samples(noise.numpy(), np.zeros(DRAWN, np.int32))
        return lesson.Model(
            parts=parts,
            evaluate=lambda batch: {"answers": answers(batch.x)},  # here a sample is noise
            summarize=classes,
            evaluation_sets={"samples": drawn},
            pictures={
                "samples": lambda: lesson.as_images(lesson.through(generator, noise[:100]), data),
                "classes": lambda: tf.reduce_sum(answers(noise), 0),
            },
            coder=lesson.Coder(options.noise, lambda code: lesson.through(generator, code)),
        )

    metrics = (
        lesson.each_step("discriminator_loss", "Discriminator's loss"),
        lesson.each_step("generator_loss", "Generator's loss"),
        lesson.each_step("real", "D(x)", format="percent"),
        lesson.each_step("drawn", "D(G(z))", format="percent"),
        lesson.each_step("generator_gradient", "Generator's gradient norm"),
        lesson.each_step("accuracy", "Classifier's training accuracy", format="percent"),
        lesson.at_evaluation("samples_classes", "Classes among 1,000 samples", "higher"),
        lesson.at_evaluation("samples_clear", "Clear samples", "higher", format="percent"),
    )
    plots = (
        lesson.plot("losses", "Losses", "discriminator_loss", "generator_loss"),
        lesson.plot("answers", "Discriminator's answers", "real", "drawn", format="percent"),
        lesson.plot("gradient", "Generator's gradient norm", "generator_gradient", log=True),
        lesson.plot("classes", "Classes drawn", "samples_classes"),
    )
    pictures = (
        lesson.ImageGrid("samples", "Samples from the same noise", columns=10),
        lesson.Bars("classes", f"Clear samples of each class among {DRAWN:,}"),
    )
    baseline = "course"
    presets = (
        lesson.preset("course", "Course's values", "RMSprop, one step each."),
        lesson.preset("oscillation", "Oscillation", "A rate that overshoots.", learning_rate=0.03, dropout=0.0),
        lesson.preset(
            "mode-collapse",
            "Mode collapse",
            "A fast generator that draws few classes.",
            optimizer="adam",
            learning_rate=0.005,
            dropout=0.0,
        ),
        lesson.preset(
            "vanishing-gradient",
            "Vanishing gradient",
            "A discriminator that is always sure.",
            generator_loss="saturating",
            discriminator_steps=5,
            dropout=0.0,
        ),
        lesson.tiny(steps=300, evaluate_every=100),
    )
    goals = (
        lesson.goal("classes", "9 of 10 classes", "samples_classes >= 9", LONG_ENOUGH, question=1),
        lesson.goal(
            "strong", "9 of 10 classes against a strong discriminator", "samples_classes >= 9", STRONG, question=2
        ),
    )
    goal_details = {
        "classes": "As the small classifier reads 1,000 samples.",
        "strong": "As in *Vanishing gradient*, but repaired.",
    }


EXERCISE = Gan()
