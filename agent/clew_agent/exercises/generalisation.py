"""Generalisation: what a network makes of images that it has not seen. After Jülich's and CINECA's courses."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.training.exercise import Batch, Exercise, Loss, Model, Part, Samples, Setup
from clew_agent.training.images import as_images, augment, mistakes
from clew_agent.training.judging import LOSS, TEST_ACCURACY, TEST_LOSS, VALIDATION_ACCURACY, VALIDATION_LOSS
from clew_agent.training.layers import (
    BatchNorm,
    correct,
    cross_entropy,
    dense_layers,
    dropout,
    variables_of,
    weights_of,
)
from clew_agent.training.random import StepContext
from clew_agent.training.settings import (
    BatchSettings,
    BatchSize,
    EvaluateEvery,
    LearningRate,
    OptimizerName,
    OrderName,
    Steps,
)
from clew_shared.base.problem import problem
from clew_shared.cards import (
    Distributions,
    Gallery,
    Goal,
    HistogramPlot,
    Lane,
    MetricSpec,
    PlotSpec,
    Preset,
    RaceSpec,
    Requirement,
)
from clew_shared.params import Knob

GUIDE = """\
## Learned, or learned by heart

What counts is the error on images that the network has never seen. A large network can learn a few images by heart,
the wrongly labelled ones as well: the training error goes to 0, and the validation error stays where it is. Here 1000
images train a network with 269,322 weights, and every tenth image has a wrong label. What helps?

## What to do

1. Press **Run**. The training error goes to 0 although every tenth label is wrong. What happens to the validation
   error and the validation loss? The star marks the best step of the validation error: the *sweet spot*.
2. Start the *Race of remedies*. Each lane changes one thing. Which of them keeps the validation error down?
3. Set *Stop early after* to 3 evaluations and run again. What does that save, and what does it not?
4. Draw a learning curve: press *Sweep…* and try 100, 300 and 1000 training images, on MNIST 10,000 too, with the seeds
   1 to 3. In *Compare* choose *Scatter* and *Training images*, and look at the training error, then at the validation
   error. Would ten times as many images help?
5. See bias and variance: sweep *Units* over 4, 32 and 512, again with three seeds. *Compare* draws the mean of the
   seeds with a band around it. Each seed trains with other images, so the width of the band is the *variance*; what
   even the mean gets wrong is the *bias*. Which network has more of which?
6. Cross-validate: set *Folds* to 5 and sweep the *L2 penalty* over 0, 0.001 and 0.01 with the seeds 1 to 5, one for
   each fold. Choose by the mean of the validation error. Only then look at the test error.

## What to watch

*Error* has the training images as they are, without dropout or augmentation, and the validation images. The gap
between them is what the network knows by heart. With 10 % wrong labels a training error of 10 % is a good sign: the
network has not believed them.

## Questions

- The validation loss may double while the validation error stays the same. How can that be?
- Which remedies make the training error larger, and why is that no fault?
- Why do you choose by the validation error and not by the test error, and what is a fold still worth after you have
  looked at it a hundred times?
- With plain gradient descent, L2 and *Weight decay* can do the same. Why not with Adam?

> **Hint: numbers to compare with**
> With seed 1 on MNIST and 2000 steps the validation error ended at 13.7 % without a remedy, 13.2 % with an L2
> penalty of 0.001, 11.5 % with dropout, 8.1 % with augmentation, 13.8 % with batch normalisation, 26.5 % with 250
> images and 10.2 % with 4000. Without wrong labels it was 8.9 %. Each run took 13 to 30 seconds on two busy cores.

> **Hint: the sweet spot**
> Without a remedy, the validation loss is lowest at step 150, with an error of 12.0 %. *Stop early after* 3
> evaluations ended at step 300 with 14.1 %: it saved 1700 steps. Only a checkpoint of step 150 would have saved the
> rest.

> **Hint: more than one remedy**
> Augmentation, dropout and a small L2 penalty together brought the test error to 5.0 % on MNIST and to 7.7 % on the
> small digits. The training error was 10.1 and 11.3 %, which is about what is labelled wrongly.
"""

LAYERS = 2
JUDGED = 2000
"""Training images whose error is measured: as they are, without dropout or augmentation."""


class GeneralisationSettings(BatchSettings, frozen=True, kw_only=True):
    """How much there is to learn from, and what keeps the network from learning it by heart."""

    images: Annotated[
        int,
        Knob(
            "Training images",
            "How many images there are to learn from. Which ones is decided by the seed.",
            "Data",
            ge=20,
            le=50_000,
            log=True,
        ),
    ] = 1000
    wrong_labels: Annotated[
        float,
        Knob(
            "Wrong labels",
            "Share of the training images that get another label, drawn at random: what a network can only learn by"
            " heart. Validation and test images keep theirs.",
            "Data",
            ge=0,
            lt=1,
        ),
    ] = 0.1
    folds: Annotated[
        int,
        Knob(
            "Folds",
            "Cross-validation: the images are cut into so many parts, of which one validates and the others train."
            " Seed 1 holds out the first part, seed 2 the second, and so on. 0: the data set's own validation images.",
            "Data",
            ge=0,
            le=20,
        ),
    ] = 0
    augmentation: Annotated[
        bool,
        Knob("Augmentation", "Shift, turn and scale each training image a little, differently in every step.", "Data"),
    ] = False
    units: Annotated[
        int, Knob("Units", "Units of each of the two hidden layers.", "Network", ge=1, le=2048, log=True)
    ] = 256
    l2: Annotated[
        float,
        Knob(
            "L2 penalty",
            "The loss grows by this number times the sum of all squared weights. 0: none.",
            "Network",
            ge=0,
            le=1,
            log=True,
        ),
    ] = 0.0
    dropout: Annotated[
        float,
        Knob(
            "Dropout", "Share of the hidden units that is switched off at random in each step.", "Network", ge=0, lt=1
        ),
    ] = 0.0
    batch_norm: Annotated[
        bool, Knob("Batch normalisation", "Bring each layer's values to mean 0 and deviation 1.", "Network")
    ] = False
    optimizer: OptimizerName = "adam"
    learning_rate: LearningRate = 1e-3
    batch_size: BatchSize = 50
    order: OrderName = "shuffle"
    steps: Steps = 2000
    evaluate_every: EvaluateEvery = 50


def error(of: str, label: str) -> MetricSpec:
    """The share of wrong answers in one set of images."""
    return MetricSpec(name=f"{of}_error", label=label, per_step=False, better="lower", format="percent")


class Generalisation(Exercise[GeneralisationSettings]):
    """Two hidden layers and few images: the error on these against that on others."""

    id = "generalisation"
    title = "Generalisation"
    subtitle = "learned, or learned by heart"
    chapter = "Networks"
    course = "Jülich, deep learning on JURECA; CINECA, best practices"
    minutes = 40
    summary = "Train with few images, see the training error leave the validation error behind, and close the gap."
    guide = GUIDE
    Settings = GeneralisationSettings
    datasets = ("mnist", "digits", "fashion-mnist")
    revision = 1
    tries = "classes"
    jit = False  # XLA cannot move images
    metrics = (
        LOSS,
        MetricSpec(name="train_loss", label="Loss of training images", per_step=False, better="lower"),
        VALIDATION_LOSS,
        TEST_LOSS,
        error("train", "Training error"),
        error("validation", "Validation error"),
        error("test", "Test error"),
        VALIDATION_ACCURACY,
        TEST_ACCURACY,
    )
    plots = (
        PlotSpec(id="error", title="Error", metrics=("validation_error", "train_error"), format="percent"),
        PlotSpec(id="loss", title="Loss", metrics=("validation_loss", "train_loss"), log=True),
    )
    pictures = (
        Gallery("mistakes", "Wrong answers to validation images"),
        HistogramPlot("weights", "Weights of the first layer", log_y=True),
        Distributions("spread", "Weights of each layer over the steps"),
    )
    picture_seconds = 1.0
    baseline = "nothing"
    presets = (
        Preset(name="nothing", title="No remedy", help="1000 images that are learned by heart."),
        Preset(name="l2", title="L2 penalty", values={"l2": 1e-3}, help="Large weights cost something."),
        Preset(name="dropout", title="Dropout", values={"dropout": 0.5}, help="No unit can rely on another one."),
        Preset(name="augmentation", title="Augmentation", values={"augmentation": True}, help="No image comes twice."),
        Preset(
            name="batch-norm", title="Batch normalisation", values={"batch_norm": True}, help="Each batch adds noise."
        ),
        Preset(name="early", title="Early stopping", values={"patience": 3}, help="Stop where validation is best."),
        Preset(name="folds", title="Five folds", values={"folds": 5}, help="With the seeds 1 to 5."),
        Preset(
            name="tiny",
            title="Tiny",
            values={"steps": 100, "images": 200, "units": 64},
            data="digits",
            help="The built-in small digits.",
        ),
    )
    goals = (
        Goal(
            id="mnist",
            text="Test error 6 %",
            metric="test_error",
            op="<=",
            value=0.06,
            detail="At the end of the run, with 1000 images and wrong labels among them: one remedy is not enough.",
            data="mnist",
            requires=(Requirement("images", most=1000), Requirement("wrong_labels", least=0.1)),
        ),
        Goal(
            id="digits",
            text="Test error 8.5 % on the small digits",
            metric="test_error",
            op="<=",
            value=0.085,
            detail="At the end of the run, with 1000 images and wrong labels among them: one remedy is not enough.",
            data="digits",
            requires=(Requirement("images", most=1000), Requirement("wrong_labels", least=0.1)),
        ),
    )
    races = (
        RaceSpec(
            id="remedies",
            title="Race of remedies",
            steps=2000,
            metric="validation_error",
            help="All lanes have the same 1000 images, and one of them only a quarter of these: what helps most?",
            lanes=(
                Lane(name="nothing", values={}),
                Lane(name="L2 penalty", values={"l2": 1e-3}),
                Lane(name="dropout", values={"dropout": 0.5}),
                Lane(name="augmentation", values={"augmentation": True}),
                Lane(name="batch normalisation", values={"batch_norm": True}),
                Lane(name="a quarter of the images", values={"images": 250}),
            ),
        ),
    )

    def build(self, setup: Setup[GeneralisationSettings]) -> Model:
        """Dense layers; each remedy acts in training alone."""
        options, data = setup.settings, setup.require_data()
        features = data.train.x.shape[1]
        layers = dense_layers(setup, "layer", [features, *[options.units] * LAYERS, data.classes], tf.identity)
        norms = [BatchNorm.make(options.units) for _ in range(LAYERS) if options.batch_norm]
        train, held_out = few_images(data, options, setup.seed)

        def scores(x: tf.Tensor, training: Batch | None = None, context: StepContext | None = None) -> tf.Tensor:
            for place, layer in enumerate(layers[:-1]):
                x = layer(x)
                if norms:
                    x = norms[place].predict(x) if training is None else norms[place].train(x, training)
                x = tf.nn.relu(x)
                if context is not None:
                    x = dropout(x, options.dropout, context, f"dropout{place}")
            return layers[-1](x)

        def moved(x: tf.Tensor, context: StepContext) -> tf.Tensor:
            images = tf.reshape(x, [-1, *data.image_shape])
            return tf.reshape(augment(images, context), [-1, features])

        def loss(batch: Batch, context: StepContext) -> Loss:
            x = moved(batch.x, context) if options.augmentation else batch.x
            value = batch.mean(cross_entropy(scores(x, batch, context), batch.y))
            if options.l2:
                value += options.l2 * tf.add_n([tf.reduce_sum(tf.square(layer.weights)) for layer in layers])
            return Loss(value)

        def evaluate(batch: Batch) -> dict[str, tf.Tensor]:
            logits = scores(batch.x)
            right = correct(logits, batch.y)
            return {"loss": cross_entropy(logits, batch.y), "error": 1 - right, "accuracy": right}

        x, y = tf.constant(held_out.x[:500]), tf.constant(held_out.y[:500])
        pictures = {
            "mistakes": lambda: mistakes(as_images(x, data), y, tf.argmax(scores(x), 1, tf.int32)),
            "weights": lambda: tf.reshape(layers[0].weights, [-1]),
            "spread": lambda: weights_of(layers),
        }
        named = {f"norm{place}": norm for place, norm in enumerate(norms, 1)}
        trained = {f"{name}_{key}": one for name, norm in named.items() for key, one in norm.trained().items()}
        averages = {f"{name}_{key}": one for name, norm in named.items() for key, one in norm.averages().items()}
        sets = {
            "train": Samples(train.x[:JUDGED], train.y[:JUDGED]),
            "validation": held_out,
            "test": Samples(data.test.x, data.test.y),
        }
        part = Part("network", {**variables_of(layers), **trained}, loss, setup.optimizer())
        return Model(
            parts=[part],
            train=train,
            evaluate=evaluate,
            evaluation_sets=sets,
            state=averages,
            pictures=pictures,
            scores=scores,
        )


def few_images(data: DataSet, options: GeneralisationSettings, seed: int) -> tuple[Samples, Samples]:
    """The images that train, and those that validate.

    Each seed draws its own, of which fewer are the beginning of more. With folds all seeds draw the same images, and
    each holds out another part of them. Raises ``ProblemError`` where there are not so many.
    """
    count, folds = options.images, options.folds
    if count > len(data.train):
        text = f"There are {len(data.train):,} training images in {data.name}, fewer than the {count:,} asked for."
        raise problem("exercise.images", text, f"Ask for {len(data.train):,} images or fewer.", "images")
    draw = np.random.default_rng(0 if folds > 1 else seed)
    drawn = draw.permutation(len(data.train))[:count]
    x, right = data.train.x[drawn], data.train.y[drawn]
    other = (right + draw.integers(1, data.classes, count)) % data.classes
    y = np.where(draw.random(count) < options.wrong_labels, other, right).astype(np.int32)
    if folds < 2:
        return Samples(x, y), Samples(data.validation.x, data.validation.y)
    kept, held_out = fold(count, folds, (seed - 1) % folds)
    return Samples(x[kept], y[kept]), Samples(x[held_out], right[held_out])


def fold(count: int, folds: int, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The places of the images that train, and of those in the fold with this ``number`` (from 0)."""
    parts = np.array_split(np.arange(count), folds)
    return np.concatenate([part for place, part in enumerate(parts) if place != number]), parts[number]


EXERCISE = Generalisation()
