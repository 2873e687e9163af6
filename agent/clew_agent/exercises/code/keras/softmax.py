"""Softmax on MNIST with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from typing import Any

import keras

from clew_agent.exercises.code.parts import batches, fit_classes, make_optimizer, read_data

DATA = "mnist.npz"
OPTIMIZER = "sgd"
LEARNING_RATE = 0.5
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "file"  # or "shuffle"
STEPS = 500
SEED = 1


def make_model(shape: tuple[int, ...]) -> Any:
    """One layer with ten outputs, all zero at the start."""
    layers = keras.layers
    return keras.Sequential([keras.Input(shape), layers.Flatten(), layers.Dense(10, kernel_initializer="zeros")])


def main() -> list[float]:
    """Reads the images, makes the model, trains and tests it; returns loss and accuracy of the test images."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    x, y = data[0]
    model, optimizer = make_model(x.shape[1:]), make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM)
    return fit_classes(model, data, optimizer, batches(x, y, BATCH_SIZE, ORDER, SEED), STEPS)


if __name__ == "__main__":
    main()
