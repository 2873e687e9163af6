"""Softmax on MNIST with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

DATA = "mnist.npz"
OPTIMIZER = "sgd"
LEARNING_RATE = 0.5
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "file"
STEPS = 500
SEED = 1


def read_data() -> tuple[Any, Any, Any]:
    """Images from 0 to 1 and labels: the first 50,000 train, the other 10,000 validate, and 10,000 test."""
    with np.load(DATA) as file:
        x, y, x_test, y_test = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    x, x_test = (one.reshape(len(one), -1).astype("float32") / 255 for one in (x, x_test))
    part = len(x) * 5 // 6
    return (x[:part], y[:part]), (x[part:], y[part:]), (x_test, y_test)


def batches(x: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Batch after batch without end, in the order of the file or in another one for each pass."""
    draw, places = np.random.default_rng(SEED), np.empty(0, np.int64)
    while True:
        while len(places) < BATCH_SIZE:
            places = np.append(places, np.arange(len(x)) if ORDER == "file" else draw.permutation(len(x)))
        now, places = places[:BATCH_SIZE], places[BATCH_SIZE:]
        yield x[now], y[now]


def make_model(pixels: int) -> Any:
    """One layer with ten outputs, all zero at the start."""
    return keras.Sequential([keras.Input((pixels,)), keras.layers.Dense(10, kernel_initializer="zeros")])


def make_optimizer() -> Any:
    """Keras' optimizer of that name; momentum and Nesterov's are SGD with a momentum."""
    if OPTIMIZER in ("momentum", "nesterov"):
        return keras.optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM, nesterov=OPTIMIZER == "nesterov")
    return keras.optimizers.get({"class_name": OPTIMIZER, "config": {"learning_rate": LEARNING_RATE}})


def main() -> list[float]:
    """Train and test; returns loss and accuracy of the test images."""
    keras.utils.set_random_seed(SEED)
    train, validation, test = read_data()
    model = make_model(train[0].shape[1])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(), loss, metrics=["accuracy"])
    model.fit(batches(*train), steps_per_epoch=STEPS, shuffle=False, validation_data=validation, verbose=2)
    found: list[float] = model.evaluate(*test, batch_size=1000, verbose=0)
    print(f"Test loss {found[0]:.4f}, test accuracy {100 * found[1]:.2f} %")
    return found


if __name__ == "__main__":
    main()
