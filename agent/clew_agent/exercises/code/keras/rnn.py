"""Images read row by row with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by
itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz. Keras' GRU has a second offset
for each gate.
"""

from __future__ import annotations

from typing import Any

import keras

from clew_agent.exercises.code.parts import batches, fit_classes, make_optimizer, read_data

DATA = "mnist.npz"
CELL = "simple"
UNITS = 64
OPTIMIZER = "adam"
LEARNING_RATE = 0.001
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 1000
SEED = 1


def make_model(shape: tuple[int, ...]) -> Any:
    """A cell that reads one row of the image after the other, and ten outputs after the last."""
    layers, (rows, pixels, _) = keras.layers, shape
    cell = {"simple": layers.SimpleRNN, "gru": layers.GRU, "lstm": layers.LSTM}[CELL]

    def draw(inputs: int) -> Any:
        return keras.initializers.TruncatedNormal(stddev=inputs**-0.5)

    return keras.Sequential(
        [
            keras.Input(shape),
            layers.Reshape((rows, pixels)),
            cell(UNITS, kernel_initializer=draw(pixels), recurrent_initializer=draw(UNITS)),
            layers.Dense(10, kernel_initializer=draw(UNITS)),
        ]
    )


def main() -> list[float]:
    """Reads the images, makes the model, trains and tests it; returns loss and accuracy of the test images."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    x, y = data[0]
    model, optimizer = make_model(x.shape[1:]), make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM)
    return fit_classes(model, data, optimizer, batches(x, y, BATCH_SIZE, ORDER, SEED), STEPS)


if __name__ == "__main__":
    main()
