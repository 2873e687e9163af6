"""The CNN on MNIST with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

DATA = "mnist.npz"
OPTIMIZER = "adam"
LEARNING_RATE = 0.0001
MOMENTUM = 0.9
BATCH_SIZE = 50
ORDER = "file"  # or "shuffle"
DROPOUT = 0.5
BATCH_NORM = False
STEPS = 1000
SEED = 1


def read_data(path: str) -> tuple[Any, Any, Any]:
    """Images from 0 to 1, divided by 256 as in the courses, and labels: five sixths of the training images train, the
    others validate, and the test images test."""
    with np.load(path) as file:
        x, y, x_test, y_test = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    x, x_test = (one[..., np.newaxis].astype("float32") / 256 for one in (x, x_test))
    part = len(x) * 5 // 6
    return (x[:part], y[:part]), (x[part:], y[part:]), (x_test, y_test)


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


def fit_classes(model: Any, data: Any, optimizer: Any, feed: Iterator[Any], steps: int) -> list[float]:
    """Trains and tests a model with ten outputs; returns loss and accuracy of the test images."""
    _, validation, test = data
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, metrics=["accuracy"])
    model.fit(feed, steps_per_epoch=steps, shuffle=False, validation_data=validation, verbose=2)
    found: list[float] = model.evaluate(*test, batch_size=1000, verbose=0)
    print(f"Test loss {found[0]:.4f}, test accuracy {100 * found[1]:.2f} %")
    return found


def make_model(shape: tuple[int, ...]) -> Any:
    """Two convolutions with pooling, a dense layer with dropout, ten outputs; offsets begin at 0.1."""
    layers = keras.layers
    start = {
        "kernel_initializer": keras.initializers.TruncatedNormal(stddev=0.1),
        "bias_initializer": keras.initializers.Constant(0.1),
    }
    model = keras.Sequential([keras.Input(shape)])
    for one in (layers.Conv2D(32, 5, padding="same", **start), layers.Conv2D(64, 5, padding="same", **start)):
        add_bent(model, one)
        model.add(layers.MaxPooling2D(padding="same"))
    model.add(layers.Flatten())
    add_bent(model, layers.Dense(1024, **start))
    model.add(layers.Dropout(DROPOUT))
    model.add(layers.Dense(10, **start))
    return model


def add_bent(model: Any, layer: Any) -> None:
    """A layer, batch normalisation if it is chosen, and ReLU."""
    model.add(layer)
    if BATCH_NORM:
        model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.ReLU())


def main() -> list[float]:
    """Reads the images, makes the model, trains and tests it; returns loss and accuracy of the test images."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    x, y = data[0]
    model, optimizer = make_model(x.shape[1:]), make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM)
    return fit_classes(model, data, optimizer, batches(x, y, BATCH_SIZE, ORDER, SEED), STEPS)


if __name__ == "__main__":
    main()
