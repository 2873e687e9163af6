"""A line through four points with Keras' own ``fit``: the model and the values of the exercise, in a file that runs
by itself.

It needs TensorFlow, or Keras with another backend.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from clew_agent.exercises.code.parts import batches, make_optimizer

POINTS = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([[0.0], [-1.0], [-2.0], [-3.0]])
OPTIMIZER = "sgd"
LEARNING_RATE = 0.01
MOMENTUM = 0.9
STEPS = 1000


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
