"""Inception v3 on parameter servers, synthetic images or a folder. NCSA, TensorFlow on Blue Waters, part two."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from clew_agent import lesson
from clew_agent.exercises.devices.imagenet_bench import LARGE_PROBLEM, ImagenetBench, ImageSettings, named, samples_of
from clew_agent.strategies import parameter_server, single

SIZE, SMALLEST = 299, 75
ON_SERVERS = lesson.needs(LARGE_PROBLEM, strategy=parameter_server.CARD.id, workers=lesson.at_least(2))


class InceptionPsSettings(ImageSettings, frozen=True, kw_only=True):
    """A short run."""

    optimizer: lesson.OptimizerName = "momentum"
    learning_rate: lesson.LearningRate = 0.01
    batch_size: lesson.BatchSize = 16
    steps: lesson.Steps = 50


class _BatchStatistics(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Batch normalisation by the batch's own statistics, without moving averages that nobody could keep in step."""

    def __init__(self, epsilon: float = 1e-3, **options: Any) -> None:
        super().__init__(**options)
        self.epsilon = epsilon

    def build(self, shape: Any) -> None:
        self.beta = self.add_weight(shape=(shape[-1],), initializer="zeros", name="beta")

    def call(self, x: Any, training: bool | None = None, mask: Any = None) -> Any:
        mean, variance = tf.nn.moments(x, list(range(len(x.shape) - 1)))
        return tf.nn.batch_normalization(x, mean, variance, self.beta, None, self.epsilon)


class InceptionPs(lesson.Exercise[InceptionPsSettings]):
    """One network of the ImageNet competition, its weights on servers."""

    id = "inception-ps"
    title = "Inception on a cluster"
    subtitle = "24 million weights on servers"
    chapter = "Many devices"
    course = "NCSA, TensorFlow on Blue Waters, part two"
    minutes = 40
    summary = "Train Inception v3 with a server and some workers, and find what limits it."
    revision = 1

    def build(self, setup: lesson.Setup[InceptionPsSettings]) -> lesson.Model:
        """Keras' Inception v3 with batch statistics."""
        options = setup.settings
        size = options.image_size or SIZE
        if size < SMALLEST:
            text = f"Images of {size} × {size} pixels are too small for this network."
            raise lesson.problem("exercise.size", text, f"Choose at least {SMALLEST}.", "image_size")
        samples, classes, read = samples_of(options, size, setup.seed)
        keras.utils.set_random_seed(setup.seed)
        plain = keras.applications.InceptionV3(
            weights=None, input_shape=(size, size, 3), classes=classes, classifier_activation=None
        )
        network = keras.models.clone_model(plain, clone_function=_with_batch_statistics)

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            logits = network(read(batch.x), training=True)
            value = batch.mean(lesson.cross_entropy(logits, batch.y))
            return lesson.Loss(value, {"accuracy": batch.mean(lesson.correct(logits, batch.y))})

        part = lesson.Part("inception3", named(network.trainable_variables), loss, setup.optimizer())
        return lesson.Model(parts=[part], train=samples)

    metrics = ImagenetBench.metrics
    plots = ImagenetBench.plots
    presets = (
        lesson.preset("usual", "Clew's values", "Synthetic images of 299 × 299 pixels."),
        lesson.preset(
            "tiny", "Tiny", "Small images, a minute on a laptop.", image_size=75, classes=4, batch_size=8, steps=6
        ),
    )
    goals = (lesson.goal("learns", "The network learns: loss below 6", "best loss <= 6.0", ON_SERVERS, question=1),)
    goal_details = {
        "learns": "A guess among 1,000 classes has a loss of 6.9. The second pass over the 256 images is below that."
    }
    strategies = (parameter_server.CARD, single.CARD)


def _with_batch_statistics(layer: Any) -> Any:
    if isinstance(layer, keras.layers.BatchNormalization):
        return _BatchStatistics(layer.epsilon, name=layer.name)
    return layer.__class__.from_config(layer.get_config())


EXERCISE = InceptionPs()
