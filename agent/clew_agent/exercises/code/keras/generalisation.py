"""What a network makes of images that it has not seen, with Keras' own ``fit``: the model and the values of the
exercise, in a file that runs by itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz. Augmentation shifts, turns and scales one
after the other, and so interpolates three times.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from clew_agent.exercises.code.parts import batches, dense, make_optimizer, read_data

DATA = "mnist.npz"
IMAGES = 1000
WRONG_LABELS = 0.1
FOLDS = 0
AUGMENTATION = False
UNITS = 256
L2 = 0.0
DROPOUT = 0.0
BATCH_NORM = False
OPTIMIZER = "adam"
LEARNING_RATE = 0.001
MOMENTUM = 0.9
BATCH_SIZE = 50
ORDER = "shuffle"  # or "file"
PATIENCE = 0
STEPS = 2000
EVALUATE_EVERY = 50
SEED = 1


def few_images(data: Any) -> tuple[Any, Any]:
    """The images that train, some of them with a wrong label, and those that validate: the data's own, or one fold."""
    (x, y), validation, _ = data
    draw = np.random.default_rng(0 if FOLDS > 1 else SEED)
    drawn = draw.permutation(len(x))[:IMAGES]
    x, right = x[drawn], y[drawn].astype("int32")
    other = (right + draw.integers(1, 10, IMAGES)) % 10
    y = np.where(draw.random(IMAGES) < WRONG_LABELS, other, right)
    if FOLDS < 2:
        return (x, y), validation
    held_out = np.array_split(np.arange(IMAGES), FOLDS)[(SEED - 1) % FOLDS]
    return (np.delete(x, held_out, 0), np.delete(y, held_out)), (x[held_out], right[held_out])


def make_model(shape: tuple[int, ...]) -> Any:
    """Two hidden layers and ten outputs; each remedy acts in training alone."""
    layers = keras.layers
    penalty = {"kernel_regularizer": keras.regularizers.L2(L2) if L2 else None}
    images = x = keras.Input(shape)
    if AUGMENTATION:
        outside = {"fill_mode": "constant"}
        x = layers.RandomTranslation(2 / shape[0], 2 / shape[1], **outside)(x)
        x = layers.RandomRotation(10 / 360, **outside)(x)
        x = layers.RandomZoom(0.1, **outside)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = dense(x, UNITS, **penalty)
        if BATCH_NORM:
            x = layers.BatchNormalization()(x)
        x = layers.Dropout(DROPOUT)(layers.ReLU()(x))
    return keras.Model(images, dense(x, 10, **penalty))


def train(model: Any, data: Any) -> dict[str, float]:
    """The errors after the training, which ends early if the validation accuracy no longer rises."""
    known, held_out = few_images(data)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM), loss, metrics=["accuracy"])
    feed = batches(known[0], known[1], BATCH_SIZE, ORDER, SEED)
    every = EVALUATE_EVERY or max(STEPS // 20, 1)
    stop = keras.callbacks.EarlyStopping("val_accuracy", mode="max", patience=PATIENCE or STEPS)
    more = {"shuffle": False, "validation_data": held_out, "callbacks": [stop], "verbose": 2}
    if every <= STEPS:
        model.fit(feed, steps_per_epoch=every, epochs=STEPS // every, **more)
    if STEPS % every and not model.stop_training:
        model.fit(feed, steps_per_epoch=STEPS % every, **more)
    sets = {"training": [one[:2000] for one in known], "validation": held_out, "test": data[2]}
    errors = {name: 1 - model.evaluate(*one, batch_size=1000, verbose=0)[1] for name, one in sets.items()}
    print(", ".join(f"{name} error {100 * error:.2f} %" for name, error in errors.items()))
    return errors


def main() -> dict[str, float]:
    """Reads the images, makes the model, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    return train(make_model(data[0][0].shape[1:]), data)


if __name__ == "__main__":
    main()
