"""Softmax regression on MNIST: one layer from 784 pixels to 10 digits. BSC guided lab, exercise 2."""

from __future__ import annotations

import tensorflow as tf

from clew_agent import lesson

SLIDES = lesson.needs(optimizer="sgd", learning_rate=0.5, schedule="constant", batch_size=100, order="file", steps=500)
BUDGET = lesson.needs(steps=lesson.at_most(500), batch_size=lesson.at_most(100))


class SoftmaxSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """The slides' values: one pass over the 50,000 training images."""

    optimizer: lesson.OptimizerName = "sgd"
    learning_rate: lesson.LearningRate = 0.5
    batch_size: lesson.BatchSize = 100
    steps: lesson.Steps = 500


class Softmax(lesson.Exercise[SoftmaxSettings]):
    """784 pixels, 10 digits, one matrix between them."""

    id = "softmax"
    title = "Softmax on MNIST"
    subtitle = "one layer, 784 to 10"
    chapter = "Convergence"
    course = "BSC guided lab, exercise 2"
    minutes = 20
    summary = "Train a single layer on handwritten digits, reproduce 90.79 % and beat it."
    datasets = ("mnist", "digits", "fashion-mnist", "cifar10")
    jit = True
    revision = 1
    plays = True
    tries = "classes"
    seedless = lesson.needs(order="file")

    def build(self, setup: lesson.Setup[SoftmaxSettings]) -> lesson.Model:
        """A matrix and an offset, both zero at the start."""
        data = setup.require_data()
        W = tf.Variable(tf.zeros([data.train.x.shape[1], data.classes]), name="W")
        b = tf.Variable(tf.zeros([data.classes]), name="b")

        def scores(x: tf.Tensor) -> tf.Tensor:
            return tf.matmul(x, W) + b

        def digits() -> tuple[tf.Tensor, tf.Tensor]:
            return lesson.around_grey(lesson.as_images(tf.transpose(W), data)), tf.range(data.classes)

        pictures = {"weights": digits, **lesson.answer_pictures(setup, scores, 1000)}
        return lesson.classifier(setup, scores, {"W": W, "b": b}, name="softmax", pictures=pictures)

    metrics = lesson.CLASSIFICATION_METRICS
    plots = lesson.CLASSIFICATION_PLOTS
    pictures = (lesson.ImageGrid("weights", "Weights of each digit", columns=5), *lesson.ANSWER_PICTURES)
    baseline = "slides"
    presets = (
        lesson.preset("slides", "Slides' values", "Gradient descent, rate 0.5, 500 steps: 90.79 %."),
        lesson.preset("adam", "Adam", "The same images, Adam.", optimizer="adam", learning_rate=0.003),
        lesson.preset(
            "long",
            "Longer, shuffled",
            "Twenty passes in a new order each time.",
            steps=10_000,
            order="shuffle",
            schedule="cosine",
        ),
        lesson.tiny(steps=100),
    )
    goals = (
        lesson.goal("slides", "90.79 %", "test_accuracy = 0.9079 ± 0.0002 on mnist", SLIDES),
        lesson.goal("better", "A point better than 90.79 %", "test_accuracy >= 0.9179 on mnist", BUDGET),
        lesson.goal("digits", "90 % on the small digits", "test_accuracy >= 0.9 on digits", BUDGET),
        lesson.goal("fashion", "83 % on Fashion-MNIST", "test_accuracy >= 0.83 on fashion-mnist", question=1),
        lesson.goal("cifar10", "35 % on CIFAR-10", "test_accuracy >= 0.35 on cifar10", question=1),
    )
    goal_details = {
        "slides": "The slides' test accuracy, with the slides' values.",
        "better": "At the end of a run that sees no more images than the slides'. Choose by the validation accuracy.",
        "digits": "The slides' values reach 88.33 %.",
        "fashion": "The slides' values reach 80.88 %.",
        "cifar10": "A single layer reads little more of colour photographs. Try a smaller rate.",
    }
    races = (
        lesson.optimizer_race(
            500,
            "Which optimizer recognises the most validation images after one pass over the training images?",
            [
                ("sgd", 0.5),
                ("momentum", 0.05),
                ("nesterov", 0.05),
                ("adagrad", 0.05),
                ("rmsprop", 0.001),
                ("adam", 0.003),
            ],
        ),
    )


EXERCISE = Softmax()
