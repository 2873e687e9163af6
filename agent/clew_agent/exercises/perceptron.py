"""Perceptron: two inputs, so that everything a network does can be seen. After IT4Innovations' course."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson
from clew_agent.exercises.activations import ACTIVATIONS

SMALL = lesson.needs(layers=lesson.at_most(1), units=lesson.at_most(3))
NOISY = lesson.needs(noise=lesson.at_least(0.05))
EDGE = 1.2
"""Half the side of the square that the pictures show."""
FINE, COARSE = 64, 32
"""Places on a side of the map of the answer, and of the map of a unit."""
SIZES = {"validation": 500, "test": 500}
RANGE, GRID, LOOKED_AT = 8.0, 25, 100
"""The loss surface: its weights go from minus to plus this, at so many places, for so many points."""

MADE = ("xor", "circles", "moons", "spirals", "blobs")
"""Points that are made from the seed."""
XOR = lesson.needs(lesson.needs(shape="xor"), SMALL, NOISY)
CIRCLES = lesson.needs(lesson.needs(shape="circles"), SMALL, NOISY)
SPIRALS = lesson.needs(shape="spirals", points=lesson.at_most(200), noise=lesson.at_least(0.05))


class PerceptronSettings(lesson.BatchSettings, frozen=True, kw_only=True):
    """Which points, and which network is to tell them apart."""

    shape: Annotated[
        str,
        lesson.Knob(
            "Points",
            "How the two classes lie in the plane.",
            "Data",
            choices=lesson.choices(
                xor="XOR",
                circles="Circles",
                moons="Moons",
                spirals="Two spirals",
                blobs="Gaussian blobs",
                own="Your own",
            ),
        ),
    ] = "xor"
    own: Annotated[
        str,
        lesson.Knob(
            "Own points",
            "Click for class 0, right-click for class 1; click on a point to remove it. As text: x,y,class for each."
            " They train and test the network.",
            "Data",
            shown_when=lesson.Condition("shape", ("own",)),
            plane=True,
        ),
    ] = ""
    points: Annotated[
        int,
        lesson.size(
            "Training points",
            "Half of them are of each class.",
            10,
            5000,
            "Data",
            shown_when=lesson.Condition("shape", MADE),
        ),
    ] = 200
    noise: Annotated[
        float,
        lesson.number(
            "Noise",
            "Standard deviation of what is added to each coordinate; the plane is 2 wide.",
            0,
            1,
            "Data",
            shown_when=lesson.Condition("shape", MADE),
        ),
    ] = 0.05
    layers: Annotated[
        int, lesson.number("Hidden layers", "0: the inputs go straight to the one unit that answers.", 0, 6, "Network")
    ] = 1
    units: Annotated[int, lesson.size("Units", "Units of each hidden layer.", 1, 32, "Network")] = 4
    activation: Annotated[
        str,
        lesson.Knob(
            "Activation",
            "What each hidden unit makes of the sum of its inputs.",
            "Network",
            choices=lesson.choices(
                tanh="tanh", sigmoid="Sigmoid", relu="ReLU", leaky_relu="Leaky ReLU", linear="None (linear)"
            ),
        ),
    ] = "tanh"
    initial: lesson.InitialWeights = "glorot"
    l2: lesson.L2Penalty = 0.0
    across: Annotated[
        int,
        lesson.number(
            "Weight across",
            "The weight along the horizontal axis of the loss surface. Weights are numbered layer by layer and unit by"
            " unit; of each unit first those of its inputs, then its offset.",
            1,
            10_000,
            lesson.SELDOM,
        ),
    ] = 1
    up: Annotated[
        int,
        lesson.number("Weight up", "The weight along the vertical axis of the loss surface.", 1, 10_000, lesson.SELDOM),
    ] = 2
    optimizer: lesson.OptimizerName = "adam"
    learning_rate: lesson.LearningRate = 0.03
    batch_size: Annotated[int, lesson.size("Batch size", "Number of points in one training step.", 1, 5000)] = 10
    order: lesson.OrderName = "shuffle"
    steps: lesson.Steps = 2000
    evaluate_every: lesson.EvaluateEvery = 40


class Perceptron(lesson.Exercise[PerceptronSettings]):
    """Layers of a few units, from a point in the plane to the probability that it is of class 1."""

    id = "perceptron"
    title = "Perceptron"
    subtitle = "a plane, two classes, a few units"
    chapter = "Networks"
    course = "IT4Innovations, deep-learning training on GPUs"
    minutes = 30
    summary = "Watch a small network bend the line between two classes, unit by unit and step by step."
    revision = 1
    plays = True
    jit = True

    def build(self, setup: lesson.Setup[PerceptronSettings]) -> lesson.Model:
        """Hidden layers, then one unit: the logarithm of the odds that a point is of class 1."""
        options = setup.settings
        layers = make_layers(setup)
        sets = make_sets(options, setup.seed)
        train = sets["train"]

        def judged(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            odds = lesson.through(layers, x)[:, 0]
            right = tf.cast(tf.equal(odds > 0, tf.equal(y, 1)), tf.float32)
            return cross_entropy(odds, y), right

        def loss(batch: lesson.Batch, _: lesson.StepContext) -> lesson.Loss:
            value, right = judged(batch.x, batch.y)
            return lesson.Loss(batch.mean(value) + penalty(options, layers), {"accuracy": batch.mean(right)})

        def evaluate(batch: lesson.Batch) -> dict[str, tf.Tensor]:
            value, right = judged(batch.x, batch.y)
            return {"loss": value, "accuracy": right}

        shown = tf.constant(train.x), tf.constant(train.y)
        pictures: dict[str, Callable[[], object]] = {
            "answer": lambda: (tf.reshape(tf.sigmoid(lesson.through(layers, plane(FINE))), [1, FINE, FINE]), *shown),
            "loss": loss_surface(options, layers, *(one[:LOOKED_AT] for one in shown)),
        }
        if options.layers:
            pictures["units"] = lambda: units_seen(layers[:-1], options.activation)
        part = lesson.Part("network", lesson.variables_of(layers), loss, setup.optimizer())
        held_out = {name: sets[name] for name in SIZES}
        return lesson.Model(parts=[part], train=train, evaluate=evaluate, evaluation_sets=held_out, pictures=pictures)

    metrics = lesson.CLASSIFICATION_METRICS
    plots = lesson.CLASSIFICATION_PLOTS
    pictures = (
        lesson.Plane("units", "What each unit sees", x=(-EDGE, EDGE), y=(-EDGE, EDGE), grows=("layers", "units")),
        lesson.Plane("answer", "Answer", x=(-EDGE, EDGE), y=(-EDGE, EDGE)),
        lesson.Surface("loss", "Loss over two weights", x=(-RANGE, RANGE), y=(-RANGE, RANGE)),
    )
    picture_seconds = 3.0
    baseline = "hidden"
    presets = (
        lesson.preset("hidden", "Four hidden units", "One hidden layer bends the line."),
        lesson.preset("line", "A line", "No hidden layer: one unit draws one line.", layers=0),
        lesson.preset(
            "spirals", "Two spirals", "A question for more than one layer.", shape="spirals", layers=2, units=8
        ),
        lesson.preset("tiny", "Tiny", "A second, to see that everything works.", steps=100),
    )
    goals = (
        lesson.goal("xor", "XOR with three units", "test_accuracy >= 0.95", XOR, question=1),
        lesson.goal("circles", "Enclose the disc with three lines", "test_accuracy >= 0.97", CIRCLES, question=4),
        lesson.goal("spirals", "97 % of two spirals", "test_accuracy >= 0.97", SPIRALS),
    )
    goal_details = {
        "xor": "95 % of the test points, in one hidden layer, at the end of the run.",
        "circles": "97 % of the test points, in one hidden layer, at the end of the run.",
        "spirals": "From 200 points, at the end of the run. Which network, and how does the rate have to change?",
    }
    by_hand = lesson.ByHand(
        weights=(0.7, 0.1, 0.3, -0.6, 1.0, 0.7, -0.8, -0.3, 0.4),
        points=((-1.0, -1.0, 0), (1.0, -1.0, 1), (1.0, 1.0, 0), (-1.0, 1.0, 1)),
        rate=0.5,
    )
    races = (
        lesson.race(
            "units",
            "Race of units",
            "validation_accuracy",
            2000,
            "The same points for all: how many units does it take?",
            *(lesson.lane(f"{units} units" if units > 1 else "1 unit", units=units) for units in (1, 2, 3, 4, 8)),
        ),
    )


# --- Network ----------------------------------------------------------------------------------------------------------


def make_layers(setup: lesson.Setup[PerceptronSettings]) -> lesson.Layers:
    """The hidden layers, and one unit that answers."""
    options = setup.settings
    bend = ACTIVATIONS.get(options.activation, tf.identity)
    sizes = [2, *[options.units] * options.layers]
    hidden = [
        lesson.dense(setup, f"layer{number}", (inputs, units), bend, options.initial)
        for number, (inputs, units) in enumerate(pairwise(sizes), 1)
    ]
    return (*hidden, lesson.dense(setup, "output", (sizes[-1], 1), tf.identity, options.initial))


def cross_entropy(odds: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Minus the logarithm of the probability of the right class, where ``odds`` are the logarithm of those of 1."""
    return tf.nn.softplus(tf.where(tf.equal(y, 1), -odds, odds))


def penalty(options: PerceptronSettings, layers: lesson.Layers) -> tf.Tensor | float:
    """What the weights themselves cost; the offsets cost nothing."""
    if not options.l2:
        return 0.0
    return options.l2 * tf.add_n([tf.reduce_sum(tf.square(layer.weights)) for layer in layers])


# --- Points -----------------------------------------------------------------------------------------------------------

Array = npt.NDArray[np.float64]


def make_sets(options: PerceptronSettings, seed: int) -> dict[str, lesson.Samples]:
    """Points for training, validation and test; those of one seed are always the same.

    A person's own points are all three.
    """
    if options.shape == "own":
        table = np.array(lesson.read_points(options.own))
        samples = lesson.Samples(table[:, :2].astype(np.float32), table[:, 2].astype(np.int32))
        return dict.fromkeys(("train", *SIZES), samples)
    draw = np.random.default_rng(seed)
    make = {"xor": xor, "circles": circles, "moons": moons, "spirals": spirals, "blobs": blobs}[options.shape]
    sets = {}
    for name, count in {"train": options.points, **SIZES}.items():
        y = np.arange(count) % 2
        x = make(draw, y) + options.noise * draw.standard_normal((count, 2))
        sets[name] = lesson.Samples(x.astype(np.float32), y.astype(np.int32))
    return sets


def xor(draw: np.random.Generator, y: npt.NDArray[np.int64]) -> Array:
    """A square in four quarters: class 1 where x and y have different signs."""
    x, up = draw.uniform(0.05, 1, (2, len(y)))
    side = draw.choice([-1.0, 1.0], len(y))
    return np.stack([side * x, side * np.where(y == 1, -up, up)], 1)


def circles(draw: np.random.Generator, y: npt.NDArray[np.int64]) -> Array:
    """A disc of class 1, and a ring of class 0 around it."""
    radius = np.where(y == 1, 0.45 * np.sqrt(draw.random(len(y))), draw.uniform(0.7, 1, len(y)))
    return _turned(radius, draw.uniform(0, 2 * math.pi, len(y)))


def moons(draw: np.random.Generator, y: npt.NDArray[np.int64]) -> Array:
    """Two half circles that reach into each other."""
    x = _turned(np.full(len(y), 0.6), draw.uniform(0, math.pi, len(y)))
    return np.where((y == 1)[:, None], [0.3, 0.15] - x, x - [0.3, 0.15])


def spirals(draw: np.random.Generator, y: npt.NDArray[np.int64]) -> Array:
    """Two arms around each other, one and a half turns each (after Lang and Witbrock, 1988)."""
    along = np.sqrt(draw.uniform(0.01, 1, len(y)))
    return _turned(along, 3 * math.pi * along + math.pi * y)


def blobs(draw: np.random.Generator, y: npt.NDArray[np.int64]) -> Array:
    """Two normal distributions with their middles at (-0.4, -0.4) and (0.4, 0.4)."""
    return np.where(y == 1, 0.4, -0.4)[:, None] + 0.2 * draw.standard_normal((len(y), 2))


def _turned(radius: Array, angle: Array) -> Array:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


# --- Pictures ---------------------------------------------------------------------------------------------------------


def plane(size: int) -> tf.Tensor:
    """The middles of ``size`` times ``size`` places in the square, float32 [places, 2], the highest row first."""
    middles = EDGE * ((2 * np.arange(size) + 1) / size - 1)
    x, y = np.meshgrid(middles, -middles)
    return tf.constant(np.stack([x.ravel(), y.ravel()], 1), tf.float32)


def units_seen(hidden: Sequence[lesson.Dense], activation: str) -> tf.Tensor:
    """What each unit gives at each place, as [layers, units, height, width]: 0.5 is 0, and of what has no end 0 and 1
    are the farthest from it."""
    x, found = plane(COARSE), []
    for layer in hidden:
        x = layer(x)
        if activation == "sigmoid":
            shown = x
        else:
            size = 1.0 if activation == "tanh" else tf.maximum(tf.reduce_max(tf.abs(x), 0), 1e-6)
            shown = 0.5 + 0.5 * x / size
        found.append(tf.reshape(tf.transpose(shown), [-1, COARSE, COARSE]))
    return tf.stack(found) if len(found) > 1 else found[0]


def loss_surface(
    options: PerceptronSettings, layers: lesson.Layers, x: tf.Tensor, y: tf.Tensor
) -> Callable[[], tuple[tf.Tensor, tf.Tensor]]:
    """The loss for each pair of the two chosen weights while all others are as they are, and where these two are.

    Raises ``ProblemError`` for a weight that the network does not have.
    """
    places = [place_of(layers, number, name) for name, number in (("across", options.across), ("up", options.up))]
    steps = np.linspace(-RANGE, RANGE, GRID, dtype=np.float32)
    grids = [one.ravel() for one in np.meshgrid(steps, steps)]  # the lowest row first, as a surface has it

    def taken() -> tuple[tf.Tensor, tf.Tensor]:
        matrices = [tf.concat([layer.weights, layer.offset[None]], 0) for layer in layers]
        present = tf.stack([matrices[layer][row, column] for layer, row, column in places])
        ways = [tf.repeat(matrix[None], GRID * GRID, 0) for matrix in matrices]
        for (layer, row, column), grid in zip(places, grids, strict=True):
            mark = np.zeros(matrices[layer].shape, np.float32)
            mark[row, column] = 1
            ways[layer] = ways[layer] * (1 - mark) + grid[:, None, None] * mark
        values = tf.repeat(x[None], GRID * GRID, 0)
        for one, way in zip(layers, ways, strict=True):
            values = one.activation(tf.matmul(values, way[:, :-1]) + way[:, -1:])
        losses = tf.reduce_mean(cross_entropy(values[:, :, 0], y), 1)
        if options.l2:
            losses += options.l2 * tf.add_n([tf.reduce_sum(tf.square(way[:, :-1]), [1, 2]) for way in ways])
        return tf.reshape(losses, [GRID, GRID]), present

    return taken


def place_of(layers: lesson.Layers, number: int, name: str) -> tuple[int, int, int]:
    """The layer of weight ``number`` (from 1 on), and its row and column there, where the last row are the offsets."""
    left = number - 1
    for layer, one in enumerate(layers):
        inputs, units = one.weights.shape
        if left < units * (inputs + 1):
            column, row = divmod(left, inputs + 1)
            return layer, row, column
        left -= units * (inputs + 1)
    count = number - 1 - left
    text = f"The network has {count} weights and offsets, so it has no weight {number}."
    raise lesson.problem("exercise.weight", text, f"Choose a number from 1 to {count}.", name)


EXERCISE = Perceptron()
