"""One network with batch after batch size, with Keras' own ``fit``: the model and the values of the exercise, in a file
that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

import time
from typing import Any

import keras

from clew_agent.exercises.code.parts import batches, make_optimizer, read_data

DATA = "mnist.npz"
OPTIMIZER = "sgd"
LEARNING_RATE = 0.1
SCALE_RATE = False
SAMPLES = 50000
HIDDEN = 256
LARGEST = 2048
SEED = 1
SIZES = (1, 8, 32, 128, 512, 2048)
RATE_AT = 32


def make_model(pixels: int) -> Any:
    """A hidden layer of rectified linear units, and ten outputs."""

    def layer(units: int, activation: Any, variance: float) -> Any:
        start = keras.initializers.TruncatedNormal(stddev=variance**0.5)
        return keras.layers.Dense(units, activation, kernel_initializer=start)

    return keras.Sequential(
        [keras.Input((pixels,)), layer(HIDDEN, "relu", 2 / pixels), layer(10, None, 1 / HIDDEN)],
    )


def measure(data: Any, size: int) -> tuple[float, float]:
    """The seconds that a sample took with this batch size, and the accuracy of the test images."""
    (x, y), _, test = data
    steps = max(round(SAMPLES / size), 1)
    keras.utils.set_random_seed(SEED)
    model = make_model(x.shape[1])
    rate = LEARNING_RATE * (size / RATE_AT if SCALE_RATE else 1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(OPTIMIZER, rate), loss, metrics=["accuracy"])
    feed = batches(x, y, size, "shuffle", SEED)
    model.fit(feed, steps_per_epoch=1, shuffle=False, verbose=0)  # the first step takes the time of the compilation
    begun = time.perf_counter()
    model.fit(feed, steps_per_epoch=max(steps - 1, 1), shuffle=False, verbose=0)
    seconds = time.perf_counter() - begun
    _, accuracy = model.evaluate(*test, batch_size=1000, verbose=0)
    return seconds / (max(steps - 1, 1) * size), accuracy


def main() -> dict[int, tuple[float, float]]:
    """One training after the other, the smallest batches first."""
    data = tuple((x.reshape(len(x), -1), y) for x, y in read_data(DATA))
    found = {}
    for size in SIZES:
        if size <= min(LARGEST, len(data[0][0])):
            found[size] = measure(data, size)
            print(
                f"Batch size {size}: {1e6 * found[size][0]:.2f} µs a sample, {100 * found[size][1]:.2f} % of the images"
            )
    return found


if __name__ == "__main__":
    main()
