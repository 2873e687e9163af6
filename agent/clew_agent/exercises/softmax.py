"""Softmax regression on MNIST: one layer from 784 pixels to 10 digits. BSC guided lab, exercise 2."""

from __future__ import annotations

import tensorflow as tf

from clew_agent.lesson.cards import at_most, goal, lane, needs, preset, race
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Setup
from clew_agent.training.images import around_grey, as_images, mistakes
from clew_agent.training.judging import CLASSIFICATION_METRICS, CLASSIFICATION_PLOTS
from clew_agent.training.layers import correct, cross_entropy
from clew_agent.training.random import StepContext
from clew_agent.training.settings import BatchSettings, BatchSize, LearningRate, OptimizerName, Steps
from clew_shared.cards import ConfusionMatrix, Gallery, ImageGrid

SLIDES = needs(optimizer="sgd", learning_rate=0.5, schedule="constant", batch_size=100, order="file", steps=500)


BUDGET = needs(steps=at_most(500), batch_size=at_most(100))


class SoftmaxSettings(BatchSettings, frozen=True, kw_only=True):
    """The slides' values: one pass over the 50,000 training images."""

    optimizer: OptimizerName = "sgd"
    learning_rate: LearningRate = 0.5
    batch_size: BatchSize = 100
    steps: Steps = 500


class Softmax(Exercise[SoftmaxSettings]):
    """784 pixels, 10 digits, one matrix between them."""

    id = "softmax"
    title = "Softmax on MNIST"
    subtitle = "one layer, 784 to 10"
    chapter = "Convergence"
    course = "BSC guided lab, exercise 2"
    minutes = 20
    summary = "Train a single layer on handwritten digits, reproduce 90.79 % and beat it."
    Settings = SoftmaxSettings
    datasets = ("mnist", "digits", "fashion-mnist", "cifar10")
    jit = True
    revision = 1
    tries = "classes"
    seedless = needs(order="file")
    metrics = CLASSIFICATION_METRICS
    plots = CLASSIFICATION_PLOTS
    pictures = (
        ImageGrid("weights", "Weights of each digit", columns=5),
        Gallery("mistakes", "Wrong answers"),
        ConfusionMatrix("confusion", "Confusion of test images"),
    )
    baseline = "slides"
    presets = (
        preset("slides", "Slides' values", "Gradient descent, rate 0.5, 500 steps: 90.79 %."),
        preset("adam", "Adam", "The same images, Adam.", optimizer="adam", learning_rate=0.003),
        preset(
            "long",
            "Longer, shuffled",
            "Twenty passes in a new order each time.",
            steps=10_000,
            order="shuffle",
            schedule="cosine",
        ),
        preset("tiny", "Tiny", "The built-in small digits.", data="digits", steps=100),
    )
    goals = (
        goal(
            "slides",
            "90.79 %",
            "test_accuracy = 0.9079 ± 0.0002",
            "The slides' test accuracy, with the slides' values.",
            data="mnist",
            requires=SLIDES,
        ),
        goal(
            "better",
            "A point better than 90.79 %",
            "test_accuracy >= 0.9179",
            "At the end of a run that sees no more images than the slides'. Choose by the validation accuracy.",
            data="mnist",
            requires=BUDGET,
        ),
        goal(
            "digits",
            "90 % on the small digits",
            "test_accuracy >= 0.9",
            "The slides' values reach 88.33 %.",
            data="digits",
            requires=BUDGET,
        ),
        goal(
            "fashion",
            "83 % on Fashion-MNIST",
            "test_accuracy >= 0.83",
            "The slides' values reach 80.88 %.",
            data="fashion-mnist",
            question=1,
        ),
        goal(
            "cifar10",
            "35 % on CIFAR-10",
            "test_accuracy >= 0.35",
            "A single layer reads little more of colour photographs. Try a smaller rate.",
            data="cifar10",
            question=1,
        ),
    )
    races = (
        race(
            "optimizers",
            "Optimizer race",
            "validation_accuracy",
            500,
            "Which optimizer recognises the most validation images after one pass over the training images?",
            lane("SGD", optimizer="sgd", learning_rate=0.5),
            lane("Momentum", optimizer="momentum", learning_rate=0.05),
            lane("Nesterov", optimizer="nesterov", learning_rate=0.05),
            lane("Adagrad", optimizer="adagrad", learning_rate=0.05),
            lane("RMSprop", optimizer="rmsprop", learning_rate=0.001),
            lane("Adam", optimizer="adam", learning_rate=0.003),
        ),
    )

    def build(self, setup: Setup[SoftmaxSettings]) -> Model:
        """A matrix and an offset, both zero at the start."""
        data = setup.require_data()
        W = tf.Variable(tf.zeros([data.train.x.shape[1], data.classes]), name="W")
        b = tf.Variable(tf.zeros([data.classes]), name="b")

        def scores(x: tf.Tensor) -> tf.Tensor:
            return tf.matmul(x, W) + b

        def loss(batch: Batch, _: StepContext) -> Loss:
            logits = scores(batch.x)
            value = batch.mean(cross_entropy(logits, batch.y))
            return Loss(value, {"accuracy": batch.mean(correct(logits, batch.y))})

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            logits = scores(batch.x)
            return {"loss": cross_entropy(logits, batch.y), "accuracy": correct(logits, batch.y)}

        x, y = tf.constant(data.test.x[:1000]), tf.constant(data.test.y[:1000])

        def answers() -> tf.Tensor:
            return tf.argmax(scores(x), 1, tf.int32)

        pictures = {
            "weights": lambda: (around_grey(as_images(tf.transpose(W), data)), tf.range(data.classes)),
            "mistakes": lambda: mistakes(as_images(x, data), y, answers()),
            "confusion": lambda: tf.math.confusion_matrix(y, answers(), data.classes),
        }
        part = Part("softmax", {"W": W, "b": b}, loss, setup.optimizer())
        sets = setup.held_out()
        return Model(parts=[part], evaluate=evaluate, evaluation_sets=sets, pictures=pictures, scores=scores)


EXERCISE = Softmax()
