"""A line through four points with Keras' own ``fit``: the model and the values of the exercise, in a file that runs
by itself.

It needs TensorFlow, or Keras with another backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

POINTS = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[0.0], [-1.0], [-2.0], [-3.0]])
OPTIMIZER = "sgd"
LEARNING_RATE = 0.01
MOMENTUM = 0.9
STEPS = 1000


def batches(x: Any, y: Any, size: int, order: str, seed: int) -> Iterator[tuple[Any, Any]]:
    """Batch after batch without end, in the order of the file or in another one for each pass."""
    draw, places = np.random.default_rng(seed), np.empty(0, np.int64)
    while True:
        while len(places) < size:
            places = np.append(places, np.arange(len(x)) if order == "file" else draw.permutation(len(x)))
        now, places = places[:size], places[size:]
        yield x[now], y[now]


def make_optimizer(name: str, rate: Any, momentum: float = 0.9) -> Any:
    """Keras' optimizer of that name; momentum and Nesterov's are SGD with a momentum."""
    if name in ("momentum", "nesterov"):
        return keras.optimizers.SGD(rate, momentum=momentum, nesterov=name == "nesterov")
    optimizer = keras.optimizers.get(name)
    optimizer.learning_rate = rate
    return optimizer


def make_model() -> Any:
    """y = W x + b, from the slides' W and b, in float64."""
    start = {
        "kernel_initializer": keras.initializers.Constant(0.3),
        "bias_initializer": keras.initializers.Constant(-0.3),
    }
    return keras.Sequential([keras.Input((1,), dtype="float64"), keras.layers.Dense(1, dtype="float64", **start)])


def main() -> tuple[float, float]:
    """Trains on all four points in each step; returns W and b."""
    model = make_model()
    loss = keras.losses.MeanSquaredError(reduction="sum", dtype="float64")
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), loss)
    model.fit(batches(*POINTS, len(POINTS[0]), "file", 0), steps_per_epoch=STEPS, shuffle=False, verbose=0)
    W, b = (float(one.item()) for one in model.get_weights())
    print(f"W = {W:.6f}, b = {b:.6f}, loss {model.evaluate(*POINTS, verbose=0):.3g}")
    return W, b


if __name__ == "__main__":
    main()
