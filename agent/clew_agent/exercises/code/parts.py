"""Functions that several scripts use. A script that is written out has those that it needs in itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow.compat.v1 as tf


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


def initial_weights(name: str) -> Any:
    """Draws the initial weights that are called so, from a normal distribution that is cut at two deviations."""
    start = keras.initializers
    return {
        "glorot": start.GlorotNormal,
        "he": start.HeNormal,
        "small": lambda: start.VarianceScaling(1 / 16, "fan_avg"),
        "large": lambda: start.VarianceScaling(9, "fan_avg"),
        "zero": start.Zeros,
    }[name]()


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


def session_optimizer(name: str, rate: float, momentum: float) -> Any:
    """TensorFlow 1's optimizer of that name."""
    if name in ("momentum", "nesterov"):
        return tf.train.MomentumOptimizer(rate, momentum, use_nesterov=name == "nesterov")
    return {
        "sgd": tf.train.GradientDescentOptimizer,
        "adagrad": tf.train.AdagradOptimizer,
        "adadelta": tf.train.AdadeltaOptimizer,
        "rmsprop": tf.train.RMSPropOptimizer,
        "adam": tf.train.AdamOptimizer,
        "ftrl": tf.train.FtrlOptimizer,
    }[name](rate)
