"""The last layers of a trained network with Keras' own ``fit``: the model and the values of the exercise, in a file
that runs by itself.

It needs TensorFlow, and scikit-learn for its digits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

from clew_agent.exercises.code.parts import batches, make_optimizer, read_data

DATA = "digits"  # or "mnist.npz"
WEIGHTS = ""
RETRAINED = "all"
IMAGES = 500
CONFIDENCE = 0.9
OPTIMIZER = "adam"
LEARNING_RATE = 0.001
MOMENTUM = 0.9
BATCH_SIZE = 50
ORDER = "shuffle"  # or "file"
STEPS = 50
SEED = 1

LAYERS = ("conv1", "conv2", "dense", "output")


def read_digits() -> tuple[Any, Any, Any]:
    """The digits of scikit-learn, enlarged three times with a border of two pixels: 1200 train, 297 validate, 300
    test."""
    found = load_digits()
    centres = np.clip((np.arange(24) + 0.5) / 3 - 0.5, 0, 7)
    between = np.maximum(0, 1 - np.abs(centres[:, None] - np.arange(8)))
    large = np.rint(between @ found.images @ between.T * (255 / 16))
    x = np.pad(large, ((0, 0), (2, 2), (2, 2)))[..., np.newaxis].astype("float32") / 256
    y = found.target
    return (x[:1200], y[:1200]), (x[1200:1497], y[1200:1497]), (x[1497:], y[1497:])


def make_model(shape: tuple[int, ...]) -> Any:
    """Two convolutions with pooling, a dense layer, ten outputs; offsets begin at 0.1."""
    layers = keras.layers
    start = {
        "kernel_initializer": keras.initializers.TruncatedNormal(stddev=0.1),
        "bias_initializer": keras.initializers.Constant(0.1),
    }
    model = keras.Sequential(
        [
            keras.Input(shape),
            layers.Conv2D(32, 5, padding="same", activation="relu", name="conv1", **start),
            layers.MaxPooling2D(padding="same"),
            layers.Conv2D(64, 5, padding="same", activation="relu", name="conv2", **start),
            layers.MaxPooling2D(padding="same"),
            layers.Flatten(),
            layers.Dense(1024, "relu", name="dense", **start),
            layers.Dense(10, name="output", **start),
        ]
    )
    trained = {"output": LAYERS[3:], "dense": LAYERS[2:], "all": LAYERS}[RETRAINED]
    for name in LAYERS:
        model.get_layer(name).trainable = name in trained
    return model


def read_weights(path: str) -> dict[str, Any]:
    """The arrays of an .npz file, or of the last checkpoint in the folder of a run, by name."""
    if path.endswith(".npz"):
        return dict(np.load(path))
    place = max(Path(path).glob("checkpoints/[0-9]*"), default=Path(path))
    reader, end = tf.train.load_checkpoint(str(place / "state")), "/.ATTRIBUTES/VARIABLE_VALUE"
    names = {key.removesuffix(end).replace(".S", "/"): key for key in reader.get_variable_to_shape_map()}
    return {
        name.rpartition("/")[2]: reader.get_tensor(names[name]) for name in names if name.startswith("weights/cnn/")
    }


def take_weights(model: Any, path: str) -> None:
    """Gives all layers but the last their weights from there, where a dense layer has a row for each unit."""
    found = read_weights(path)
    if "conv1_gamma" in found:
        raise SystemExit(f"{path} has batch normalisation, which this script leaves out.")
    for name in LAYERS[:-1]:
        weights = found[name].T if name == "dense" else found[name]
        model.get_layer(name).set_weights([weights, found[f"{name}_offset"]])


def train(model: Any, data: Any) -> dict[str, float]:
    """What the model makes of the test images after the training with few others."""
    (x, y), validation, (x_test, y_test) = data
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), loss, metrics=["accuracy"])
    feed = batches(x[:IMAGES], y[:IMAGES], BATCH_SIZE, ORDER, SEED)
    model.fit(feed, steps_per_epoch=STEPS, shuffle=False, validation_data=validation, verbose=2)
    scores = model.predict(x_test, batch_size=1000, verbose=0)
    right, sure = scores.argmax(1) == y_test, np.array(keras.ops.softmax(scores)).max(1) >= CONFIDENCE
    found = {
        "loss": float(loss(y_test, scores)),
        "accuracy": float(np.mean(right)),
        "coverage": float(np.mean(sure)),
        "given_accuracy": float(np.sum(right & sure) / max(np.sum(sure), 1)),
    }
    print(
        f"Test loss {found['loss']:.4f}, test accuracy {100 * found['accuracy']:.2f} %. {100 * found['coverage']:.2f} %"
        f" of the images got an answer, of which {100 * found['given_accuracy']:.2f} % were right"
    )
    return found


def main() -> dict[str, float]:
    """Reads the images, makes the model, takes over weights if there are some, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    data = read_digits() if DATA == "digits" else read_data(DATA)
    model = make_model(data[0][0].shape[1:])
    if WEIGHTS:
        take_weights(model, WEIGHTS)
    return train(model, data)


if __name__ == "__main__":
    main()
