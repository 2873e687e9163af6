"""Bandwidth and arithmetic: how fast this device moves numbers and computes with them, and where networks are.

After Jülich's and CINECA's courses. Copy and triad are J. D. McCalpin's, "Memory bandwidth and machine balance in
current high performance computers", 1995; the roofline is S. Williams, A. Waterman and D. Patterson, "Roofline: an
insightful visual performance model for multicore architectures", Communications of the ACM 52, 2009.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import tensorflow as tf

from clew_agent import lesson

LEAST_S = 0.005
"""So long one measurement lasts at least: far above the clock's own steps."""
LONGEST_S = 10.0
"""A product that would take longer is left out: a measurement cannot be stopped while one goes on."""
SMALLEST = 2**14
"""Bytes of the smallest vector."""
GROWTH = 4
_FLOAT = 4
LARGE = lesson.needs(megabytes=lesson.at_least(64), rows=lesson.at_least(1024))
KILO, GIGA = 2**10, 1e9
RATE = 0.01


class BandwidthSettings(lesson.Params, frozen=True, kw_only=True):
    """How large vectors and matrices become, and how many images the networks take at once."""

    megabytes: Annotated[int, lesson.size("Largest vector", "It must not fit into a cache.", 1, 4096, unit="MB")] = 256
    rows: Annotated[int, lesson.size("Largest matrix", "Rows and columns of the largest product.", 32, 16_384)] = 2048
    batch_size: Annotated[int, lesson.size("Batch size", "Images in one step of the networks.", 1, 4096)] = 1
    repeats: Annotated[
        int, lesson.number("Repeats", "How often each time is measured. The fastest counts.", 1, 100)
    ] = 7


class Layer(NamedTuple):
    """A dense layer, or a convolution with ``width`` × ``width`` windows at ``places`` places of an image."""

    inputs: int
    outputs: int
    width: int = 1
    places: int = 1

    @property
    def weights(self) -> int:
        """Returns how many numbers its matrix or its kernel has."""
        return self.width**2 * self.inputs * self.outputs


NETWORKS = {
    "Softmax": (Layer(784, 10),),
    "Dense": (Layer(784, 1024), Layer(1024, 1024), Layer(1024, 10)),
    "CNN": (Layer(1, 32, 5, 784), Layer(32, 64, 5, 196), Layer(3136, 1024), Layer(1024, 10)),
}
"""The networks of ``softmax`` and ``cnn``, and one of dense layers."""


def operations(layers: Sequence[Layer], batch: int) -> int:
    """Multiplications and additions of a step: each layer's outputs, the gradient of its weights, and but for the first
    one that of its inputs."""
    products = [layer.weights * layer.places for layer in layers]
    return 2 * batch * (3 * sum(products) - products[0])


def traffic(layers: Sequence[Layer], batch: int) -> int:
    """Bytes that the same products and the update of the weights read and write, if nothing stays in a cache."""
    total = 0
    for number, layer in enumerate(layers):
        inner = number > 0
        taken, given = batch * layer.places * layer.inputs, batch * layer.places * layer.outputs
        forward, of_weights = taken + layer.weights + given, taken + given + layer.weights
        of_inputs = given + layer.weights + taken if inner else 0
        total += forward + of_weights + of_inputs + 3 * layer.weights
    return _FLOAT * total


class Bandwidth(lesson.Measurement[BandwidthSettings]):
    """GB/s and GFLOP/s by size, and the roofline that they make."""

    id = "bandwidth"
    title = "Bandwidth"
    subtitle = "and this machine's roofline"
    chapter = "Many devices"
    course = "Jülich and CINECA, what a node can do"
    minutes = 15
    summary = "Measure how fast this device moves numbers and multiplies them, and see what holds back a network."
    revision = 1

    def measure(self, setup: lesson.Setup[BandwidthSettings]) -> Iterator[lesson.Event | None]:
        """The vectors from small to large, then the matrices, then the networks."""
        chosen = setup.settings
        yield lesson.Schema(id=0, metrics=self.metrics, steps=3)
        yield lesson.Log(text=f"Computes on {device()}.")
        rates: dict[str, list[float]] = {"Copy": [], "Triad": []}
        for size in sizes(SMALLEST, chosen.megabytes * KILO * KILO, GROWTH):
            a, b = tf.ones([size // _FLOAT]), tf.ones([size // _FLOAT])
            rates["Copy"].append(2 * size / (yield from seconds(copy, a, [], chosen.repeats)) / GIGA)
            rates["Triad"].append(3 * size / (yield from seconds(triad, a, [b], chosen.repeats, jit=True)) / GIGA)
            for name, found in rates.items():
                yield lesson.points(name, size, found[-1], "Size of the vector", "Bandwidth", x_unit="B", y_unit="GB/s")
        bandwidth, fastest = rates["Triad"][-1], max(rates["Triad"])
        yield lesson.Evaluation(step=1, values={"bandwidth": bandwidth, "cache_gain": fastest / bandwidth})
        speeds: list[float] = []
        for rows in sizes(32, chosen.rows, 2):
            if speeds and (expected := 2 * rows**3 / GIGA / speeds[-1]) > LONGEST_S:
                yield lesson.Log(
                    text=f"A product of {rows:,} rows would take {expected:,.0f} s here, so it is left out."
                )
                break
            a, c = tf.fill([rows, rows], 1 / rows), tf.ones([rows, rows])
            speeds.append(2 * rows**3 / (yield from seconds(product, c, [a], chosen.repeats)) / GIGA)
            yield lesson.points("Product", rows, speeds[-1], "Rows", "Arithmetic", y_unit="GFLOP/s")
        peak = max(speeds)
        yield lesson.Evaluation(step=2, values={"peak": peak, "ridge": peak / bandwidth})
        yield roof(bandwidth, peak)
        shares = {}
        for name, layers in NETWORKS.items():
            count, moved = operations(layers, chosen.batch_size), traffic(layers, chosen.batch_size)
            each = yield from seconds(network(layers, chosen.batch_size, setup), tf.zeros([]), [], chosen.repeats)
            speed, intensity = count / each / GIGA, count / moved
            shares[f"{name.lower()}_share"] = speed / peak
            yield lesson.points(name, intensity, speed, "Operations for each byte", "Arithmetic", y_unit="GFLOP/s")
        yield lesson.Evaluation(step=3, values=shares)

    metrics = (
        lesson.at_evaluation("bandwidth", "Memory bandwidth", "higher", unit="GB/s"),
        lesson.at_evaluation("peak", "Arithmetic", "higher", unit="GFLOP/s"),
        lesson.at_evaluation("ridge", "Ridge", unit="FLOP/B"),
        lesson.at_evaluation("cache_gain", "Cache against memory", "higher", unit="×"),
        *(
            lesson.at_evaluation(f"{name.lower()}_share", f"{name}, of the arithmetic", "higher", format="percent")
            for name in NETWORKS
        ),
    )
    measured = (
        lesson.lines("bandwidth", "Bandwidth", "Copy", "Triad", log_x=True),
        lesson.lines("product", "Matrix product", "Product", log_x=True),
        lesson.lines("roofline", "Roofline", "Roof", *NETWORKS, log_x=True, log_y=True),
    )
    presets = (
        lesson.preset("usual", "Clew's values", "Vectors up to 256 MB, matrices up to 2,048 rows."),
        lesson.preset("tiny", "Tiny", "A few seconds; 4 MB may fit into a cache.", megabytes=4, rows=256, repeats=2),
    )
    goals = (
        lesson.goal("dense", "Dense at half of the arithmetic", "dense_share >= 0.5", LARGE, question=1, quiet=True),
        lesson.goal("cnn", "CNN at half of the arithmetic", "cnn_share >= 0.5", LARGE, question=1, quiet=True),
    )
    goal_details = dict.fromkeys(
        ("dense", "cnn"),
        "Half as many operations a second as the best matrix product. Give the device enough to do at once.",
    )


def sizes(first: int, last: int, factor: int) -> list[int]:
    """``first``, ``factor`` times as much and so on, and ``last`` itself."""
    if last <= first:
        return [last]
    return [*(first * factor**k for k in range(math.ceil(math.log(last / first, factor) - 1e-9))), last]


def device() -> str:
    """Where TensorFlow puts an operation here."""
    return str(tf.ones([1]).device).rpartition("device:")[2].replace(":", " ")


# What is measured. Each takes what it gave before, so that nothing of it can be left out or done in advance.


Work = Callable[..., tf.Tensor]
"""Computes from what it gave last, and from other tensors, what it gives next."""


def copy(a: tf.Tensor) -> tf.Tensor:
    """b = a: TensorFlow itself would share it."""
    return tf.raw_ops.DeepCopy(x=a)


def triad(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """a = b + s · a, compiled, so that it is one pass."""
    return b + 0.5 * a


def product(c: tf.Tensor, a: tf.Tensor) -> tf.Tensor:
    """C = A · C; the rows of A add up to 1, so that the numbers stay as they are."""
    return tf.matmul(a, c)


def make_network(
    layers: Sequence[Layer], setup: lesson.Setup[Any]
) -> tuple[list[tf.Variable], Callable[[tf.Tensor], tf.Tensor]]:
    """The weights of these layers, and what makes scores of images; there is a pooling after each convolution."""
    weights = []
    for number, layer in enumerate(layers, 1):
        window = [layer.width, layer.width] if layer.places > 1 else []
        deviation = (2 / (layer.width**2 * layer.inputs)) ** 0.5
        weights.append(setup.truncated_normal(f"layer{number}", [*window, layer.inputs, layer.outputs], deviation))

    def scores(x: tf.Tensor) -> tf.Tensor:
        for number, (layer, one) in enumerate(zip(layers, weights, strict=True), 1):
            if layer.places > 1:
                x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, one, 1, "SAME")), 2, 2, "SAME")
            else:
                x = tf.matmul(tf.reshape(x, [-1, layer.inputs]), one)
                x = x if number == len(layers) else tf.nn.relu(x)
        return x

    return weights, scores


def network(layers: Sequence[Layer], batch: int, setup: lesson.Setup[BandwidthSettings]) -> Work:
    """A step of gradient descent of these layers, on images that are always the same; gives its loss."""
    weights, scores = make_network(layers, setup)
    first = layers[0]
    side = math.isqrt(first.places)
    images = tf.ones([batch, side, side, first.inputs] if first.places > 1 else [batch, first.inputs])
    labels = tf.range(batch) % layers[-1].outputs

    def step(_: tf.Tensor) -> tf.Tensor:
        return lesson.descend(lambda: tf.reduce_mean(lesson.cross_entropy(scores(images), labels)), weights, RATE)

    return step


def seconds(
    work: Work, first: tf.Tensor, others: Sequence[tf.Tensor], repeats: int, *, jit: bool = False
) -> Generator[None, None, float]:
    """The seconds of one ``work``, the fastest of some measurements: many in a row in one call, beginning with
    ``first``. It may be stopped between two calls."""

    def run(count: tf.Tensor, state: tf.Tensor, *given: tf.Tensor) -> tf.Tensor:
        def body(k: tf.Tensor, last: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return k + 1, work(last, *given)

        begin = (tf.constant(0), state)
        return tf.while_loop(lambda k, _: k < count, body, begin, parallel_iterations=1)[1]

    call = tf.function(run, jit_compile=jit, autograph=False)

    def timed(count: int) -> float:
        start = perf_counter()
        tf.reshape(call(tf.constant(count), first, *others), [-1])[0].numpy()
        return perf_counter() - start

    def fastest(count: int, tries: int) -> Generator[None, None, float]:
        found = math.inf
        for _ in range(tries):
            found = min(found, timed(count))
            yield None
        return found

    timed(1)
    yield None
    count = 1
    while (taken := (yield from fastest(count, 2))) < LEAST_S:  # one alone may be long because others compute
        count = max(2 * count, int(1.2 * count * LEAST_S / max(taken, 1e-9)) if taken > LEAST_S / 10 else 8 * count)
    return (yield from fastest(count, repeats)) / count


def roof(bandwidth: float, peak: float) -> lesson.Series:
    """What the device can do at most with so many operations for each byte."""
    x = 4.0 ** np.arange(-2, 6)
    x = np.unique(np.append(x, peak / bandwidth))
    y = np.minimum(peak, bandwidth * x)
    return lesson.points("Roof", x, y, "Operations for each byte", "Arithmetic", y_unit="GFLOP/s")


EXERCISE = Bandwidth()
