"""An autoencoder with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

DATA = "mnist.npz"
KIND = "undercomplete"  # or "sparse", "denoising", "deep"
CODE = 32
PENALTY = 0.001
NOISE = 0.3
OPTIMIZER = "adam"
LEARNING_RATE = 0.002
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 5000
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


def dense(x: Any, units: int, activation: Any = None, **others: Any) -> Any:
    """A layer whose initial weights have Glorot's deviation, cut at two of them."""
    start = keras.initializers.TruncatedNormal(stddev=(2 / (x.shape[1] + units)) ** 0.5)
    return keras.layers.Dense(units, activation, kernel_initializer=start, **others)(x)


def make_optimizer(name: str, rate: Any, momentum: float = 0.9) -> Any:
    """Keras' optimizer of that name; momentum and Nesterov's are SGD with a momentum."""
    if name in ("momentum", "nesterov"):
        return keras.optimizers.SGD(rate, momentum=momentum, nesterov=name == "nesterov")
    optimizer = keras.optimizers.get(name)
    optimizer.learning_rate = rate
    return optimizer


def penalty(_: Any, code: Any) -> Any:
    """The cost of each image's units that are switched on (L1); nothing if the kind is not *sparse*."""
    return (PENALTY if KIND == "sparse" else 0) * keras.ops.mean(keras.ops.abs(code), axis=1)


def make_model(pixels: int) -> Any:
    """Layers to the code and the same sizes back, a last sigmoid because pixels are between 0 and 1."""
    inside = [512, 128] if KIND == "deep" else []
    images = x = keras.Input((pixels,))
    if KIND == "denoising":
        x = keras.layers.GaussianNoise(NOISE)(x)
    for units in inside:
        x = dense(x, units, "relu")
    x = code = dense(x, CODE, "relu" if KIND == "sparse" else None)
    for units in reversed(inside):
        x = dense(x, units, "relu")
    return keras.Model(images, [dense(x, pixels, "sigmoid"), code])


def train(model: Any, data: Any) -> float:
    """The squared error of a test image's pixel after the training. With *denoising* the images have noise."""
    x, _, x_test = (one[0].reshape(len(one[0]), -1) for one in data)
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), ["mse", penalty])
    feed = ((now, (now, now)) for now, _ in batches(x, x, BATCH_SIZE, ORDER, SEED))
    model.fit(feed, steps_per_epoch=STEPS, shuffle=False, verbose=2)
    noise = NOISE * np.random.default_rng(SEED).normal(size=x_test.shape) if KIND == "denoising" else 0
    drawn, _ = model.predict(x_test + noise, batch_size=1000, verbose=0)
    error = float(np.mean(np.square(drawn - x_test)))
    print(f"Test error {error:.5f}")
    return error


def main() -> float:
    """Reads the images, makes the model, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    return train(make_model(data[0][0][0].size), data)


if __name__ == "__main__":
    main()
