"""Anomalies with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from clew_agent.exercises.code.parts import batches, dense, make_optimizer, read_data

DATA = "mnist.npz"
ANOMALY = 2
DEVIATIONS = 2.0
HIDDEN = 256
CODE = 4
OPTIMIZER = "adam"
LEARNING_RATE = 0.001
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 3000
SEED = 1


class Threshold(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Lets errors through and keeps, in training, moving averages of them and of their squares."""

    def build(self, _: Any) -> None:
        """Both averages begin at zero."""
        self.mean, self.square = (
            self.add_weight(shape=(), initializer="zeros", trainable=False, name=name) for name in ("mean", "square")
        )

    def call(self, errors: Any, training: bool = False) -> Any:
        """The errors."""
        if training:
            for average, now in ((self.mean, errors), (self.square, keras.ops.square(errors))):
                average.assign(average + 0.02 * (keras.ops.mean(now) - average))
        return errors

    def value(self) -> float:
        """Above this error a sample counts as an anomaly."""
        mean, square = float(self.mean), float(self.square)
        return float(mean + DEVIATIONS * max(square - mean**2, 0) ** 0.5)


def make_model(pixels: int) -> Any:
    """From images to the squared error of what the autoencoder draws of each."""
    images = keras.Input((pixels,))
    code = dense(dense(images, HIDDEN, "relu"), CODE)
    drawn = dense(dense(code, HIDDEN, "relu"), pixels, "sigmoid")
    errors = keras.ops.mean(keras.ops.square(drawn - images), axis=1)
    return keras.Model(images, Threshold(name="threshold")(errors))


def train(model: Any, data: Any) -> tuple[float, float, float]:
    """Precision, recall and F-score of the test images. All but the anomaly train."""
    (x, y), _, (x_test, y_test) = [(one.reshape(len(one), -1), labels) for one, labels in data]
    normal = x[y != ANOMALY]
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), lambda _, errors: errors)
    feed = batches(normal, normal, BATCH_SIZE, ORDER, SEED)
    model.fit(feed, steps_per_epoch=STEPS, shuffle=False, verbose=2)
    threshold = model.get_layer("threshold").value()
    flagged, positive = model.predict(x_test, batch_size=1000, verbose=0) > threshold, y_test == ANOMALY
    hits = np.sum(flagged & positive)
    precision, recall = (float(hits / max(np.sum(one), 1)) for one in (flagged, positive))
    f_score = float(2 * hits / max(np.sum(flagged) + np.sum(positive), 1))
    print(f"Threshold {threshold:.5f}: precision {precision:.4f}, recall {recall:.4f}, F-score {f_score:.4f}")
    return precision, recall, f_score


def main() -> tuple[float, float, float]:
    """Reads the images, makes the model, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    return train(make_model(data[0][0][0].size), data)


if __name__ == "__main__":
    main()
