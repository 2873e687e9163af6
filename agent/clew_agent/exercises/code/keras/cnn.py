"""The CNN on MNIST with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from typing import Any

import keras

from clew_agent.exercises.code.parts import batches, fit_classes, make_optimizer, read_data

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
