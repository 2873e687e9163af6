"""Generalisation: what a network makes of images that it has not seen. After Jülich's and CINECA's courses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson

HARD = lesson.needs(images=lesson.at_most(1000), wrong_labels=lesson.at_least(0.1))
LAYERS = 2
VOTES = ("one network wrong", "the vote wrong", "put right by the vote", "unlike the vote")
JUDGED = 2000
"""Training images whose error is measured: as they are, without dropout or augmentation."""


class GeneralisationSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """How much there is to learn from, and what keeps the network from learning it by heart."""

    images: Annotated[
        int,
        lesson.size(
            "Training images",
            "How many images there are to learn from. Which ones is decided by the seed.",
            20,
            50_000,
            "Data",
        ),
    ] = 1000
    wrong_labels: Annotated[
        float,
        lesson.share(
            "Wrong labels",
            "Share of the training images that get another label, drawn at random: what a network can only learn by"
            " heart. Validation and test images keep theirs.",
            "Data",
        ),
    ] = 0.1
    folds: Annotated[
        int,
        lesson.number(
            "Folds",
            "Cross-validation: the images are cut into so many parts, of which one validates and the others train."
            " Seed 1 holds out the first part, seed 2 the second, and so on. 0: the data set's own validation images.",
            0,
            20,
            "Data",
        ),
    ] = 0
    networks: Annotated[
        int,
        lesson.number(
            "Networks",
            "How many networks are trained side by side, each with the images and initial weights of a seed of its own:"
            " the run's and the next ones. They vote on each validation image; errors and losses are their means.",
            1,
            9,
            "Network",
            shown_when=lesson.Condition("folds", ("0", "1")),
        ),
    ] = 1
    augmentation: Annotated[
        bool,
        lesson.Knob(
            "Augmentation", "Shift, turn and scale each training image a little, differently in every step.", "Data"
        ),
    ] = False
    units: Annotated[int, lesson.size("Units", "Units of each of the two hidden layers.", 1, 2048, "Network")] = 256
    l2: lesson.L2Penalty = 0.0
    dropout: Annotated[
        float,
        lesson.share("Dropout", "Share of the hidden units that is switched off at random in each step.", "Network"),
    ] = 0.0
    batch_norm: lesson.BatchNormalisation = False
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 1e-3
    batch_size: lesson.BatchSize = 50
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 2000
    evaluate_every: lesson.EvaluateEvery = 50


def error(of: str, label: str) -> lesson.MetricSpec:
    """The share of wrong answers in one set of images."""
    return lesson.at_evaluation(f"{of}_error", label, "lower", format="percent")


class Generalisation(lesson.Exercise[GeneralisationSettings]):
    """Two hidden layers and few images: the error on these against that on others."""

    id = "generalisation"
    title = "Generalisation"
    subtitle = "learned, or learned by heart"
    chapter = "Networks"
    course = "Jülich, deep learning on JURECA; CINECA, best practices"
    minutes = 40
    summary = "Train with few images, see the training error leave the validation error behind, and close the gap."
    datasets = ("mnist", "digits", "fashion-mnist")
    revision = 1
    tries = "classes"
    # Not compiled by XLA (jit), which cannot move images.

    def build(self, setup: lesson.Setup[GeneralisationSettings]) -> lesson.Model:
        """Networks of dense layers side by side, as a rule one; each remedy acts in training alone."""
        options, data = setup.settings, setup.require_data()
        features, count = data.train.x.shape[1], options.networks if options.folds < 2 else 1
        networks = [Network(setup, number) for number in range(count)]
        found = [few_images(data, options, network.seed) for network in networks]
        held_out, labels = found[0][1], [tf.constant(train.y) for train, _ in found]
        train = lesson.Samples(np.concatenate([own.x for own, _ in found], 1), found[0][0].y)

        def seen(batch: lesson.Batch) -> list[tuple[Network, tf.Tensor, tf.Tensor]]:
            """Each network with its own images and labels where it trains, with the same as the others elsewhere."""
            if batch.x.shape[1] == features:
                return [(network, batch.x, batch.y) for network in networks]
            images = tf.split(batch.x, count, 1)
            return [(networks[k], images[k], tf.gather(labels[k], batch.index)) for k in range(count)]

        def loss(batch: lesson.Batch, context: lesson.StepContext) -> lesson.Loss:
            """The sum, so that each network learns as it would alone. What is recorded is the mean."""
            total = tf.add_n([network.loss(x, y, batch, context) for network, x, y in seen(batch)])
            return lesson.Loss(total, {"loss": total / count})

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            """Means over the networks, and what becomes of their answers when they vote."""
            scored = [(network.scores(x), y) for network, x, y in seen(batch)]
            right = tf.add_n([lesson.correct(scores, y) for scores, y in scored]) / count
            vote = voted([scores for scores, _ in scored])
            alike = tf.add_n([lesson.correct(scores, vote) for scores, _ in scored]) / count
            return {
                "loss": tf.add_n([lesson.cross_entropy(scores, y) for scores, y in scored]) / count,
                "error": 1 - right,
                "accuracy": right,
                "vote": tf.cast(tf.not_equal(vote, batch.y), tf.float32),
                "disagreement": 1 - alike,
            }

        def scores(x: tf.Tensor) -> tf.Tensor:
            return tf.add_n([network.scores(x) for network in networks]) / count

        shown = lesson.Batch(tf.constant(held_out.x), tf.constant(held_out.y), tf.range(len(held_out.x)))
        x, y = shown.x[:500], shown.y[:500]

        def votes() -> tf.Tensor:
            means = {name: tf.reduce_mean(values) for name, values in evaluate(shown).items()}
            return tf.stack([means["error"], means["vote"], means["error"] - means["vote"], means["disagreement"]])

        pictures: dict[str, Callable[[], object]] = {
            "mistakes": lambda: lesson.mistakes(
                lesson.as_images(x, data), y, voted([network.scores(x) for network in networks])
            ),
            "weights": lambda: tf.reshape(networks[0].layers[0].weights, [-1]),
            "spread": lambda: lesson.weights_of(networks[0].layers),
        }
        if count > 1:
            pictures["votes"] = votes
        sets = {
            "train": lesson.Samples(train.x[:JUDGED], train.y[:JUDGED]),
            "validation": held_out,
            "test": lesson.Samples(data.test.x, data.test.y),
        }
        variables = {name: one for network in networks for name, one in network.variables.items()}
        return lesson.Model(
            parts=[lesson.Part("network", variables, loss, setup.optimizer())],
            train=train,
            evaluate=evaluate,
            evaluation_sets=sets,
            state={name: one for network in networks for name, one in network.averages.items()},
            pictures=pictures,
            scores=scores,
        )

    metrics = (
        lesson.LOSS,
        lesson.at_evaluation("train_loss", "Loss of training images", "lower"),
        lesson.VALIDATION_LOSS,
        lesson.TEST_LOSS,
        error("train", "Training error"),
        error("validation", "Validation error"),
        lesson.at_evaluation("validation_vote", "Error of the vote", "lower", format="percent"),
        lesson.at_evaluation("validation_disagreement", "Answers unlike the vote", format="percent"),
        error("test", "Test error"),
        lesson.VALIDATION_ACCURACY,
        lesson.TEST_ACCURACY,
    )
    plots = (
        lesson.plot("error", "Error", "validation_error", "train_error", "validation_vote", format="percent"),
        lesson.plot("loss", "Loss", "validation_loss", "train_loss", log=True),
    )
    pictures = (
        lesson.Gallery("mistakes", "Wrong answers to validation images"),
        lesson.HistogramPlot("weights", "Weights of the first layer", log_y=True),
        lesson.Distributions("spread", "Weights of each layer over the steps"),
        lesson.Bars("votes", "Answers of the networks to validation images", labels=VOTES),
    )
    picture_seconds = 1.0
    baseline = "nothing"
    presets = (
        lesson.preset("nothing", "No remedy", "1000 images that are learned by heart."),
        lesson.preset("l2", "L2 penalty", "Large weights cost something.", l2=1e-3),
        lesson.preset("dropout", "Dropout", "No unit can rely on another one.", dropout=0.5),
        lesson.preset("augmentation", "Augmentation", "No image comes twice.", augmentation=True),
        lesson.preset("batch-norm", "Batch normalisation", "Each batch adds noise.", batch_norm=True),
        lesson.preset("early", "Early stopping", "Stop soon after validation was best.", patience=3),
        lesson.preset("folds", "Five folds", "With the seeds 1 to 5.", folds=5),
        lesson.tiny(steps=100, images=200, units=64, networks=3),
    )
    goals = (
        lesson.goal("mnist", "Test error 6 %", "test_error <= 0.06 on mnist", HARD),
        lesson.goal("digits", "Test error 8.5 % on the small digits", "test_error <= 0.085 on digits", HARD),
    )
    goal_details = {
        "mnist": "At the end of the run, with 1000 images and wrong labels among them. Combine remedies.",
        "digits": "At the end of the run, with 1000 images and wrong labels among them. Combine remedies.",
    }
    races = (
        lesson.race(
            "remedies",
            "Race of remedies",
            "validation_error",
            2000,
            "All lanes have the same 1000 images, and one of them only a quarter of these: what helps most?",
            lesson.lane("nothing"),
            lesson.lane("L2 penalty", l2=1e-3),
            lesson.lane("dropout", dropout=0.5),
            lesson.lane("augmentation", augmentation=True),
            lesson.lane("batch normalisation", batch_norm=True),
            lesson.lane("a quarter of the images", images=250),
        ),
    )


class Network:
    """Two hidden layers with the initial weights of a seed: the run's own for ``number`` 0, then the next ones."""

    def __init__(self, setup: lesson.Setup[GeneralisationSettings], number: int) -> None:
        options, data = setup.settings, setup.require_data()
        self.seed, self._options, self._shape = setup.seed + number, options, data.image_shape
        sizes = [data.train.x.shape[1], *[options.units] * LAYERS, data.classes]
        self.layers = lesson.dense_layers(replace(setup, seed=self.seed), "layer", sizes, tf.identity)
        self._norms = [lesson.BatchNorm.make(options.units) for _ in range(LAYERS) if options.batch_norm]
        named = {f"norm{place}": norm for place, norm in enumerate(self._norms, 1)}
        own = f"network{number + 1}_" if number else ""
        self.variables = {
            f"{own}{name}": one for name, one in {**lesson.variables_of(self.layers), **lesson.trained(named)}.items()
        }
        self.averages = {f"{own}{name}": one for name, one in lesson.averages(named).items()}

    def scores(
        self, x: tf.Tensor, training: lesson.Batch | None = None, context: lesson.StepContext | None = None
    ) -> tf.Tensor:
        """float32 [batch, classes]."""
        for place, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            if self._norms:
                norm = self._norms[place]
                x = norm.predict(x) if training is None else norm.train(x, training)
            x = tf.nn.relu(x)
            if context is not None:
                x = lesson.dropout(x, self._options.dropout, context, f"dropout{place}")
        return self.layers[-1](x)

    def loss(self, x: tf.Tensor, y: tf.Tensor, batch: lesson.Batch, context: lesson.StepContext) -> tf.Tensor:
        """The loss of a batch that these images and labels are of."""
        options, own = self._options, replace(context, seed=self.seed)
        if options.augmentation:
            x = tf.reshape(lesson.augment(tf.reshape(x, [-1, *self._shape]), own), tf.shape(x))
        value = batch.mean(lesson.cross_entropy(self.scores(x, batch, own), y))
        if options.l2:
            value += options.l2 * tf.add_n([tf.reduce_sum(tf.square(layer.weights)) for layer in self.layers])
        return value


def voted(scores: Sequence[tf.Tensor]) -> tf.Tensor:
    """The class that most networks answer, int32 [batch]; where there are several, the one with the largest mean
    probability. This is the main prediction of Domingos ("A unified bias-variance decomposition", ICML 2000): what is
    wrong with it is bias, and variance is how often single networks answer something else."""
    votes = tf.add_n([tf.one_hot(tf.argmax(one, 1), one.shape[1]) for one in scores])
    probability = tf.add_n([tf.nn.softmax(one) for one in scores]) / len(scores)
    return tf.argmax(votes + probability / 2, 1, tf.int32)


def few_images(
    data: lesson.DataSet, options: GeneralisationSettings, seed: int
) -> tuple[lesson.Samples, lesson.Samples]:
    """The images that train, and those that validate.

    Each seed draws its own: fewer images are the beginning of more, but which labels are wrong, and how, is drawn for
    each number of images. With folds all seeds draw the same images, and each holds out another part of them. Raises
    ``ProblemError`` where there are not so many.
    """
    count, folds = options.images, options.folds
    lesson.check_images(data, count)
    draw = np.random.default_rng(0 if folds > 1 else seed)
    drawn = draw.permutation(len(data.train))[:count]
    x, right = data.train.x[drawn], data.train.y[drawn]
    other = (right + draw.integers(1, data.classes, count)) % data.classes
    y = np.where(draw.random(count) < options.wrong_labels, other, right).astype(np.int32)
    if folds < 2:
        return lesson.Samples(x, y), lesson.Samples(data.validation.x, data.validation.y)
    kept, held_out = fold(count, folds, (seed - 1) % folds)
    return lesson.Samples(x[kept], y[kept]), lesson.Samples(x[held_out], right[held_out])


def fold(count: int, folds: int, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of the images that train, and of those in the fold with this ``number`` (from 0)."""
    parts = np.array_split(np.arange(count), folds)
    return np.concatenate([part for place, part in enumerate(parts) if place != number]), parts[number]


EXERCISE = Generalisation()
