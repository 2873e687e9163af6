"""A plane, two classes and a few units with Keras' own ``fit``: the points, the model and the values of the exercise,
in a file that runs by itself.

It needs TensorFlow, or Keras with another backend.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from clew_agent.exercises.code.parts import batches, initial_weights, make_optimizer

SHAPE = "xor"
OWN = ""
POINTS = 200
NOISE = 0.05
LAYERS = 1
UNITS = 4
ACTIVATION = "tanh"
INITIAL = "glorot"
L2 = 0.0
OPTIMIZER = "adam"
LEARNING_RATE = 0.03
MOMENTUM = 0.9
BATCH_SIZE = 10
ORDER = "shuffle"  # or "file"
STEPS = 2000
SEED = 1


def make_sets() -> dict[str, tuple[Any, Any]]:
    """Points for training, validation and test, drawn from the seed; a person's own points are all three."""
    if SHAPE == "own":
        table = np.array([[float(one) for one in point.split(",")] for point in OWN.split()])
        return dict.fromkeys(("train", "validation", "test"), (table[:, :2], table[:, 2].astype(int)))
    draw, sets = np.random.default_rng(SEED), {}
    for name, count in {"train": POINTS, "validation": 500, "test": 500}.items():
        y = np.arange(count) % 2
        x = MAKERS[SHAPE](draw, y)
        sets[name] = x + NOISE * draw.standard_normal((count, 2)), y
    return sets


def turned(radius: Any, angle: Any) -> Any:
    """Points at these distances from the middle, in these directions."""
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def xor(draw: Any, y: Any) -> Any:
    """A square in four quarters: class 1 where x and y have different signs."""
    x, up = draw.uniform(0.05, 1, (2, len(y)))
    side = draw.choice([-1.0, 1.0], len(y))
    return np.stack([side * x, side * np.where(y == 1, -up, up)], 1)


def circles(draw: Any, y: Any) -> Any:
    """A disc of class 1, and a ring of class 0 around it."""
    radius = np.where(y == 1, 0.45 * np.sqrt(draw.random(len(y))), draw.uniform(0.7, 1, len(y)))
    return turned(radius, draw.uniform(0, 2 * np.pi, len(y)))


def moons(draw: Any, y: Any) -> Any:
    """Two half circles that reach into each other."""
    x = turned(0.6, draw.uniform(0, np.pi, len(y)))
    return np.where((y == 1)[:, None], [0.3, 0.15] - x, x - [0.3, 0.15])


def spirals(draw: Any, y: Any) -> Any:
    """Two arms around each other, one and a half turns each."""
    along = np.sqrt(draw.uniform(0.01, 1, len(y)))
    return turned(along, 3 * np.pi * along + np.pi * y)


def blobs(draw: Any, y: Any) -> Any:
    """Two normal distributions with their middles at (-0.4, -0.4) and (0.4, 0.4)."""
    return np.where(y == 1, 0.4, -0.4)[:, None] + 0.2 * draw.standard_normal((len(y), 2))


MAKERS = {"xor": xor, "circles": circles, "moons": moons, "spirals": spirals, "blobs": blobs}


def make_model() -> Any:
    """Hidden layers, then one unit: the logarithm of the odds that a point is of class 1."""

    def layer(units: int, activation: Any) -> Any:
        penalty = keras.regularizers.L2(L2) if L2 else None
        start = initial_weights(INITIAL)
        return keras.layers.Dense(units, activation, kernel_initializer=start, kernel_regularizer=penalty)

    bend = ACTIVATION.replace("-", "_")  # Keras' leaky ReLU has the slope 0.2, too
    hidden = [layer(UNITS, bend) for _ in range(LAYERS)]
    return keras.Sequential([keras.Input((2,)), *hidden, layer(1, None)])


def train(model: Any, sets: dict[str, tuple[Any, Any]]) -> tuple[float, float]:
    """Loss and accuracy of the test points after the training. The loss is without the penalty."""
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), loss)
    model.fit(batches(*sets["train"], BATCH_SIZE, ORDER, SEED), steps_per_epoch=STEPS, shuffle=False, verbose=2)
    x, y = sets["test"]
    odds = model.predict(x, batch_size=500, verbose=0)
    found, accuracy = float(loss(y[:, None], odds)), float(np.mean((odds[:, 0] > 0) == y))
    print(f"Test loss {found:.4f}, test accuracy {100 * accuracy:.2f} %")
    return found, accuracy


def main() -> tuple[float, float]:
    """Makes the points and the model, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    return train(make_model(), make_sets())


if __name__ == "__main__":
    main()
