"""Loop against vector operations: the same products in Python, NumPy, TensorFlow and XLA. After Jülich's course."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent import lesson
from clew_agent.strategies import single
from clew_agent.strategies.mirrored import compute_devices, several_devices

REPEATS_LAST_S = 0.003
"""So long one measurement lasts at least: far above the clock's own steps, far below what a person notices."""
LARGE = lesson.needs(largest=lesson.at_least(1_000_000))
TOLERANCE = 1e-9
"""All numbers are positive float64: whatever the order of the sums, results differ by less (n times 1e-16)."""

Array = npt.NDArray[np.float64]
Call = Callable[[], Array]


class VectorizeSettings(lesson.Params, frozen=True, kw_only=True):
    """What is computed, how far, and how often each time is taken."""

    operation: Annotated[
        str,
        lesson.Knob(
            "Operation",
            "What is computed. Of a matrix-vector product with n x n numbers the size is n times n.",
            choices=lesson.choices(dot="Dot product", matvec="Matrix-vector product"),
        ),
    ] = "dot"
    largest: Annotated[
        int, lesson.size("Largest size", "Number of multiplications in the largest product.", 10, 10_000_000)
    ] = 1_000_000
    repeats: Annotated[int, lesson.size("Repeats", "How often each time is measured. The median counts.", 1, 1000)] = 7


@dataclass(frozen=True)
class Implementation:
    """One way to compute the product of ``a`` ([n] or [rows, n]) and ``b`` [n].

    ``prepare`` brings the numbers to where they are used, which is not measured, and gives the call that is.
    """

    name: str
    prepare: Callable[[Array, Array], Call]


class Vectorize(lesson.Measurement[VectorizeSettings]):
    """Time of one product against its size, for each implementation."""

    id = "vectorize"
    title = "Vectorise"
    subtitle = "loop, NumPy, TensorFlow, XLA"
    chapter = "Many devices"
    course = "Jülich, parallel and scalable machine learning"
    minutes = 10
    summary = "Compute the same products by a loop and by libraries, and see what vector operations bring."
    revision = 1

    def measure(self, setup: lesson.Setup[VectorizeSettings]) -> Iterator[lesson.Event | None]:
        """Size by size, each implementation in turn; the results of one size are compared before the next."""
        chosen = setup.settings
        sizes = sizes_to(chosen.largest)
        yield lesson.Schema(id=0, metrics=self.metrics, steps=len(sizes))
        devices = lesson.devices_in_words([device.name for device in compute_devices()])
        yield lesson.Log(text=f"TensorFlow computes on {devices}.")
        generator = np.random.default_rng(setup.seed)
        for step, size in enumerate(sizes, 1):
            a, b = operands(chosen.operation, size, generator)
            seconds: dict[str, float] = {}
            results: dict[str, Array] = {}
            for one in implementations():
                call = one.prepare(a, b)
                results[one.name] = call()
                yield None
                seconds[one.name] = seconds_per_call(call, chosen.repeats)
                yield lesson.points(one.name, a.size, seconds[one.name], "Multiplications", "Time per call", y_unit="s")
            compare(results, a.size)
            yield lesson.Evaluation(step=step, values=gains(seconds))
        yield lesson.Log(
            text=f"At {a.size:,} multiplications, against the loop: {in_words(seconds)}. All results are the same."
        )

    metrics = (
        lesson.at_evaluation("numpy_gain", "Gain of NumPy", "higher", unit="×"),
        lesson.at_evaluation("tensorflow_gain", "Gain of TensorFlow", "higher", unit="×"),
        lesson.at_evaluation("xla_gain", "Gain of XLA", "higher", unit="×"),
    )
    measured = (lesson.lines("time", "Time per call", log_x=True, log_y=True),)
    strategies = (
        single.CARD,
        several_devices("One more line: each device computes a part of the rows, or of the sum."),
    )
    presets = (
        lesson.preset("dot", "Dot product", "Two vectors, up to a million numbers."),
        lesson.preset("matvec", "Matrix times vector", "A square matrix, up to 1,000 rows.", operation="matvec"),
        lesson.preset("tiny", "Tiny", "Up to 10,000 numbers.", largest=10_000, repeats=3),
    )
    goals = (
        lesson.goal("numpy", "NumPy 20 times as fast", "numpy_gain >= 20", LARGE, question=1, quiet=True),
        lesson.goal(
            "tensorflow", "TensorFlow 20 times as fast", "tensorflow_gain >= 20", LARGE, question=1, quiet=True
        ),
    )
    goal_details = {
        "numpy": "As the Python loop, at the largest size.",
        "tensorflow": "As the Python loop, at the largest size.",
    }


# The products


def sizes_to(largest: int) -> list[int]:
    """10, 100, … and ``largest`` itself."""
    return [*(10**power for power in range(1, math.ceil(math.log10(largest)))), largest]


def operands(operation: str, size: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Random numbers from 0 to 1 for about ``size`` multiplications: two vectors, or a square matrix and a vector."""
    if operation == "dot":
        return generator.random(size), generator.random(size)
    side = max(round(size**0.5), 1)
    return generator.random((side, side)), generator.random(side)


def implementations() -> list[Implementation]:
    """All that can be compared here; the one over several devices only where there are several."""
    found = [
        Implementation("Python loop", loop),
        Implementation("Loop over NumPy", indexing_loop),
        Implementation("NumPy", lambda a, b: lambda: np.asarray(a @ b)),
        Implementation("TensorFlow", lambda a, b: compiled(product, a, b)),
        Implementation("XLA", lambda a, b: compiled(product, a, b, jit=True)),
    ]
    devices = [device.name for device in compute_devices()]
    if len(devices) > 1:
        found.append(Implementation(f"{len(devices)} devices", lambda a, b: spread(devices, a, b)))
    return found


def loop(a: Array, b: Array) -> Call:
    """One multiplication after the other, in plain Python."""
    rows, vector = [row.tolist() for row in np.atleast_2d(a)], b.tolist()
    return lambda: multiplied(rows, vector)


def indexing_loop(a: Array, b: Array) -> Call:
    """The same loop, which takes each number out of a NumPy array: Jülich's slides time this one."""
    rows = np.atleast_2d(a)
    return lambda: multiplied(rows, b)


def multiplied(rows: Sequence[Sequence[float]] | Array, vector: Sequence[float] | Array) -> Array:
    """One multiplication after the other."""
    sums = []
    for row in rows:
        total = 0.0
        for i in range(len(vector)):
            total += row[i] * vector[i]
        sums.append(total)
    return np.array(sums)


def product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """A vector or a matrix times a vector."""
    return tf.reduce_sum(a * b) if a.shape.rank == 1 else tf.linalg.matvec(a, b)


def compiled(work: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], a: Array, b: Array, jit: bool = False) -> Call:
    """``work`` as a TensorFlow function; the numbers are on the device before it is called, the result is fetched."""
    function = tf.function(work, jit_compile=jit, autograph=False).get_concrete_function(
        tf.TensorSpec(a.shape, tf.float64), tf.TensorSpec(b.shape, tf.float64)
    )
    on_device = tf.constant(a), tf.constant(b)
    return lambda: np.asarray(function(*on_device).numpy())


def spread(devices: list[str], a: Array, b: Array) -> Call:
    """Each device computes a part of the rows (of a dot product: of the sum), and keeps its part of the numbers."""
    vector = a.ndim == 1
    parts = []
    for name, own_a, own_b in zip(
        devices,
        np.array_split(a, len(devices)),
        np.array_split(b, len(devices)) if vector else [b] * len(devices),
        strict=True,
    ):
        with tf.device(name):
            parts.append((name, tf.identity(tf.constant(own_a)), tf.identity(tf.constant(own_b))))

    def work() -> tf.Tensor:
        results = []
        for name, own_a, own_b in parts:
            with tf.device(name):
                results.append(product(own_a, own_b))
        return tf.add_n(results) if vector else tf.concat(results, 0)

    function = tf.function(work, autograph=False).get_concrete_function()
    return lambda: np.asarray(function().numpy())


# Times


def seconds_per_call(call: Call, repeats: int) -> float:
    """The median over ``repeats`` measurements. Each makes as many calls as last ``REPEATS_LAST_S``; the first calls,
    in which threads begin and caches fill, do not count."""
    count = 1
    while (taken := timed(call, count)) < REPEATS_LAST_S:
        count = max(2 * count, int(1.2 * count * REPEATS_LAST_S / max(taken, 1e-9)) if taken > 1e-4 else 8 * count)
    return median(timed(call, count) for _ in range(repeats)) / count


def timed(call: Call, count: int) -> float:
    """Seconds of ``count`` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def compare(results: Mapping[str, Array], size: int) -> None:
    """Raise ``ProblemError`` unless all ``results`` are the same but for rounding."""
    (first, expected), *others = results.items()
    for name, result in others:
        if not np.allclose(np.ravel(result), np.ravel(expected), rtol=TOLERANCE, atol=0):
            away = float(np.max(np.abs(np.ravel(result) / np.ravel(expected) - 1)))
            text = f"With {size:,} multiplications {name} and {first} differ by {away:.1e} of the result."
            hint = f"Rounding explains at most {TOLERANCE:g}. Check the libraries on this machine."
            raise lesson.problem("vectorize.differs", text, hint, name)


def gains(seconds: Mapping[str, float]) -> dict[str, float]:
    """How many times as fast as the loop each library is, by metric."""
    known = {"numpy_gain": "NumPy", "tensorflow_gain": "TensorFlow", "xla_gain": "XLA"}
    return {metric: seconds["Python loop"] / seconds[name] for metric, name in known.items()}


def in_words(seconds: Mapping[str, float]) -> str:
    """How fast each is beside the loop."""
    others = [name for name in seconds if name != "Python loop"]
    return ", ".join(f"{name} {seconds['Python loop'] / seconds[name]:,.1f} times as fast" for name in others)


EXERCISE = Vectorize()
