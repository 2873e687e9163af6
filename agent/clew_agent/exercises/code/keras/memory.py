"""What a network still knows of the first steps of a sequence, with Keras' own ``fit``: the tasks, the models and the
values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend. Keras' GRU has a second offset for each gate.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from clew_agent.exercises.code.parts import batches, make_optimizer

TASK = "adding"
LENGTH = 100
NOISE = 0.3
CELL = "simple"
KEEP = 1.0
UNITS = 32
OPTIMIZER = "adam"
LEARNING_RATE = 0.003
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 2000
SEED = 1

SYMBOLS, COPIED = 8, 4
"""Kinds of symbols, and how many of them a sequence asks for; two more kinds are nothing and the question."""
SIZES = {"train": 20000, "validation": 1000, "test": 1000}
ANSWERS, OUTPUTS = (COPIED, SYMBOLS) if TASK == "copying" else (1, 1)


def make_sets() -> dict[str, tuple[Any, Any]]:
    """Sequences and the answers at their ends for training, validation and test, drawn from the seed."""
    draw = np.random.default_rng(SEED)
    return {name: {"adding": adding, "copying": copying, "sine": sine}[TASK](draw, n) for name, n in SIZES.items()}


def adding(draw: Any, count: int) -> tuple[Any, Any]:
    """Numbers from 0 to 1, of which one in each half is marked; their sum."""
    half, rows = LENGTH // 2, np.arange(count)
    numbers, marks = draw.random((count, LENGTH), np.float32), np.zeros((count, LENGTH), np.float32)
    marks[rows, draw.integers(0, half, count)] = 1
    marks[rows, draw.integers(half, LENGTH, count)] = 1
    return np.stack([numbers, marks], 2), (numbers * marks).sum(1)[:, None, None]


def copying(draw: Any, count: int) -> tuple[Any, Any]:
    """Symbols, then nothing for a long time, then as many questions; the symbols in their order."""
    symbols = draw.integers(0, SYMBOLS, (count, COPIED)).astype("int32")
    x = np.full((count, LENGTH), SYMBOLS, "int32")
    x[:, :COPIED], x[:, -COPIED:] = symbols, SYMBOLS + 1
    return x, symbols


def sine(draw: Any, count: int) -> tuple[Any, Any]:
    """Waves of any period and phase with noise; the next value of each, without noise."""
    period = draw.uniform(8, 40, (count, 1))
    angle = draw.uniform(0, 2 * np.pi, (count, 1)) + 2 * np.pi * np.arange(LENGTH + 1) / period
    wave = np.sin(angle).astype(np.float32)
    noise = NOISE * draw.standard_normal((count, LENGTH), np.float32)
    return (wave[:, :-1] + noise)[:, :, None], wave[:, -1:, None]


class FirstState(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """The state before the first step, which is trained: the same for each of the sequences."""

    def build(self, _: Any) -> None:
        """It begins at zero."""
        self.state = self.add_weight(shape=(UNITS,), initializer="zeros", name="state")

    def call(self, x: Any) -> Any:
        """[sequences, units]."""
        return keras.ops.broadcast_to(self.state, (keras.ops.shape(x)[0], UNITS))


class Places(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Adds to each step a vector of its own, which is trained: without it, attention knows no order."""

    def build(self, _: Any) -> None:
        """The vectors."""
        self.places = self.add_weight(shape=(LENGTH, UNITS), initializer=draw_normal(0.5), name="places")

    def call(self, x: Any) -> Any:
        """[sequences, steps, units]."""
        return x + self.places


def draw_normal(deviation: float) -> Any:
    """Draws initial weights from a normal distribution that is cut at two deviations."""
    return keras.initializers.TruncatedNormal(stddev=deviation)


def offsets(shape: Any, dtype: Any = None) -> Any:
    """Initial offsets: KEEP for the gate that keeps the state, the others 0. GRU has that gate first, LSTM second."""
    first = UNITS if CELL == "lstm" else 0
    start = np.zeros(shape)
    start.reshape(-1)[first : first + UNITS] = KEEP
    return keras.ops.convert_to_tensor(start, dtype)


def recurrent(x: Any) -> Any:
    """What a cell that reads one step after the other has in its state at the last steps."""
    start = {
        "kernel_initializer": draw_normal((2 / (x.shape[2] + UNITS)) ** 0.5),
        "recurrent_initializer": draw_normal(UNITS**-0.5),
        "return_sequences": True,
    }
    layers = keras.layers
    if CELL == "simple":
        cell = layers.SimpleRNN(UNITS, **start)
    elif CELL == "gru":
        cell = layers.GRU(UNITS, bias_initializer=offsets, **start)
    else:
        cell = layers.LSTM(UNITS, bias_initializer=offsets, unit_forget_bias=False, **start)
    states = [FirstState()(x) for _ in range(2 if CELL == "lstm" else 1)]
    return cell(x, initial_state=states)[:, -ANSWERS:]


def attention(x: Any) -> Any:
    """What the last steps find when they look at all steps at once, with one head, and a hidden layer after it."""

    def dense(name: str, x: Any, bias: bool = False, activation: Any = None) -> Any:
        start = draw_normal(x.shape[2] ** -0.5)
        return keras.layers.Dense(UNITS, activation, use_bias=bias, kernel_initializer=start, name=name)(x)

    seen = keras.ops.tanh(Places(name="places")(dense("input", x)))
    asking = seen[:, -ANSWERS:]
    query, key, value = dense("query", asking), dense("key", seen), dense("value", seen)
    found = asking + keras.layers.Attention()([query * UNITS**-0.5, value, key])
    return dense("hidden", found, bias=True, activation="relu")


def make_model() -> Any:
    """The chosen network, and a layer for the answers at the last steps."""
    copies = TASK == "copying"
    sequences = keras.Input((LENGTH,), dtype="int32") if copies else keras.Input((LENGTH, 2 if TASK == "adding" else 1))
    x = keras.ops.one_hot(sequences, SYMBOLS + 2) if copies else sequences
    found = attention(x) if CELL == "attention" else recurrent(x)
    return keras.Model(sequences, keras.layers.Dense(OUTPUTS, kernel_initializer=draw_normal(UNITS**-0.5))(found))


def train(model: Any, sets: dict[str, tuple[Any, Any]]) -> tuple[float, float]:
    """The loss and the share of right answers of the test sequences, after the training."""
    copies = TASK == "copying"
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True) if copies else keras.losses.MeanSquaredError()
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), loss)
    model.fit(batches(*sets["train"], BATCH_SIZE, ORDER, SEED), steps_per_epoch=STEPS, shuffle=False, verbose=2)
    x, y = sets["test"]
    given = model.predict(x, batch_size=500, verbose=0)
    close = {"adding": 0.04, "sine": 0.1}
    right = given.argmax(2) == y if copies else np.abs(given - y) < close[TASK]
    found, share = float(loss(y, given)), float(np.mean(right))
    print(f"Test loss {found:.4f}, {100 * share:.2f} % right")
    return found, share


def main() -> tuple[float, float]:
    """Makes the sequences and the model, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    return train(make_model(), make_sets())


if __name__ == "__main__":
    main()
