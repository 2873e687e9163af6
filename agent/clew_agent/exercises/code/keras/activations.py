"""A deep network of equal layers with Keras' own ``fit``: the model and the values of the exercise, in a file that runs
by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from typing import Any

import keras

from clew_agent.exercises.code.parts import batches, fit_classes, initial_weights, make_optimizer, read_data

DATA = "mnist.npz"
ACTIVATION = "sigmoid"
LAYERS = 6
UNITS = 100
INITIAL = "glorot"
SKIP = False
OPTIMIZER = "sgd"
LEARNING_RATE = 0.1
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 2000
SEED = 1


def layer(units: int, activation: Any = None) -> Any:
    """A layer with the initial weights that are chosen."""
    return keras.layers.Dense(units, activation, kernel_initializer=initial_weights(INITIAL))


def make_model(shape: tuple[int, ...]) -> Any:
    """Equal layers in a row, each but the first with a way around it if that is chosen, then ten outputs."""
    bend = ACTIVATION.replace("-", "_")  # Keras' leaky ReLU has the slope 0.2, too
    images = keras.Input(shape)
    x = layer(UNITS, bend)(keras.layers.Flatten()(images))
    for _ in range(LAYERS - 1):
        made = layer(UNITS, bend)(x)
        x = keras.layers.add([x, made]) if SKIP else made
    return keras.Model(images, layer(10)(x))


def main() -> list[float]:
    """Reads the images, makes the model, trains and tests it; returns loss and accuracy of the test images."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    x, y = data[0]
    model, optimizer = make_model(x.shape[1:]), make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM)
    return fit_classes(model, data, optimizer, batches(x, y, BATCH_SIZE, ORDER, SEED), STEPS)


if __name__ == "__main__":
    main()
