"""Keras ``Model.fit``: as one writes it first, and tuned as far as its options go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.bench.work import Round, Work

# What was fastest among steps_per_execution 1, 20, 50, 100, 500, jit_compile "auto" and False, arrays and tf.data.
_TUNED: dict[str, dict[str, Any]] = {
    "linear-regression": {"steps_per_execution": 100},
    "softmax": {"steps_per_execution": 50},
    "cnn": {"steps_per_execution": 20, "jit_compile": False},
}


def keras_round(exercise: str, work: Work, tuned: bool) -> Round:
    """A function that fits ``work.steps`` steps from fresh weights."""
    model, optimizer, loss, metrics = MODELS[exercise]()
    model.compile(optimizer, loss=loss, metrics=metrics, **(_TUNED[exercise] if tuned else {}))
    fit, result = (
        _fit_line(model, work) if exercise == "linear-regression" else _fit_images(model, work, exercise, tuned)
    )
    weights = model.get_weights()

    def fresh() -> None:
        model.set_weights(weights)
        for variable in model.optimizer.variables:
            variable.assign(tf.zeros_like(variable) if "learning_rate" not in variable.path else variable)

    return work.round(fresh, lambda _: fit(), lambda _: result())


def _fit_line(model: Any, work: Work) -> tuple[Callable[[], object], Callable[[], float]]:
    x, y = np.array([[1], [2], [3], [4]], np.float32), np.array([[0], [-1], [-2], [-3]], np.float32)
    data = tf.data.Dataset.from_tensors((x, y)).repeat()
    return (
        lambda: model.fit(data, epochs=1, steps_per_epoch=work.steps, verbose=0),
        lambda: float(np.sum((model.predict_on_batch(x) - y) ** 2)),
    )


def _fit_images(model: Any, work: Work, exercise: str, tuned: bool) -> tuple[Callable[[], object], Callable[[], float]]:
    shape = (-1, 28, 28, 1) if exercise == "cnn" else (-1, 784)
    order = np.concatenate([work.batch(step) for step in range(work.steps)])
    x, y, test_x = work.x[order].reshape(shape), work.one_hot[order], work.test_x.reshape(shape)

    def accuracy() -> float:
        return work.accuracy(model.predict_on_batch(test_x))

    if not tuned:
        return lambda: model.fit(x, y, batch_size=work.batch_size, shuffle=False, verbose=0), accuracy
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(work.batch_size, drop_remainder=True).prefetch(2)
    return lambda: model.fit(data, verbose=0), accuracy


def _line() -> tuple[Any, Any, Any, list[str]]:
    def squares(y: Any, out: Any) -> Any:
        return tf.reduce_sum(tf.square(y - out))

    layer = keras.layers.Dense(
        1, kernel_initializer=keras.initializers.Constant(0.3), bias_initializer=keras.initializers.Constant(-0.3)
    )
    return keras.Sequential([keras.Input((1,)), layer]), keras.optimizers.SGD(0.01), squares, []


def _single_layer() -> tuple[Any, Any, Any, list[str]]:
    model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, kernel_initializer="zeros")])
    return model, keras.optimizers.SGD(0.5), keras.losses.CategoricalCrossentropy(from_logits=True), ["accuracy"]


def _convolutional() -> tuple[Any, Any, Any, list[str]]:
    layers = keras.layers
    options = {
        "kernel_initializer": keras.initializers.TruncatedNormal(stddev=0.1),
        "bias_initializer": keras.initializers.Constant(0.1),
    }
    convolution = {"padding": "same", "activation": "relu", **options}
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 5, **convolution),
            layers.MaxPool2D(),
            layers.Conv2D(64, 5, **convolution),
            layers.MaxPool2D(),
            layers.Flatten(),
            layers.Dense(1024, activation="relu", **options),
            layers.Dropout(0.5),
            layers.Dense(10, **options),
        ]
    )
    return model, keras.optimizers.Adam(1e-4), keras.losses.CategoricalCrossentropy(from_logits=True), ["accuracy"]


MODELS = {"linear-regression": _line, "softmax": _single_layer, "cnn": _convolutional}
