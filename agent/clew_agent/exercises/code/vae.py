"""A variational autoencoder with Keras' own ``fit``: the model and the values of the exercise, in a file that runs by
itself.

It needs TensorFlow, or Keras with another backend, and the file mnist.npz.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

DATA = "mnist.npz"
CODE = 2
HIDDEN = 512
RECONSTRUCTION_WEIGHT = 1.0
KL_WEIGHT = 1.0
OPTIMIZER = "adam"
LEARNING_RATE = 0.002
MOMENTUM = 0.9
SCHEDULE = "cosine"  # or "constant"
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 5000
SEED = 1


def read_data(path: str) -> tuple[Any, Any, Any]:
    """Images from 0 to 1, divided by 256 as in the courses, and labels: five sixths of the training images train, the
    others validate, and the test images test."""
    with np.load(path) as file:
        x, y, x_test, y_test = (file[name] for name in ("x_train", "y_train", "x_test", "y_test"))
    x, x_test = (one[..., np.newaxis].astype("float32") / 256 for one in (x, x_test))
    part = len(x) * 5 // 6
    return (x[:part], y[:part]), (x[part:], y[part:]), (x_test, y_test)


def batches(x: Any, y: Any, size: int, order: str, seed: int) -> Iterator[tuple[Any, Any]]:
    """Batch after batch without end, in the order of the file or in another one for each pass."""
    draw, places = np.random.default_rng(seed), np.empty(0, np.int64)
    while True:
        while len(places) < size:
            places = np.append(places, np.arange(len(x)) if order == "file" else draw.permutation(len(x)))
        now, places = places[:size], places[size:]
        yield x[now], y[now]


def dense(x: Any, units: int, activation: Any = None, **others: Any) -> Any:
    """A layer whose initial weights have Glorot's deviation, cut at two of them."""
    start = keras.initializers.TruncatedNormal(stddev=(2 / (x.shape[1] + units)) ** 0.5)
    return keras.layers.Dense(units, activation, kernel_initializer=start, **others)(x)


def make_optimizer(name: str, rate: Any, momentum: float = 0.9) -> Any:
    """Keras' optimizer of that name; momentum and Nesterov's are SGD with a momentum."""
    if name in ("momentum", "nesterov"):
        return keras.optimizers.SGD(rate, momentum=momentum, nesterov=name == "nesterov")
    optimizer = keras.optimizers.get(name)
    optimizer.learning_rate = rate
    return optimizer


def kl(_: Any, encoded: Any) -> Any:
    """The KL term of each image: how far the distribution of its code is from the standard normal one."""
    mean, log_variance = keras.ops.split(encoded, 2, axis=1)
    return 0.5 * keras.ops.sum(keras.ops.square(mean) + keras.ops.exp(log_variance) - 1 - log_variance, axis=1)


def reconstruction(x: Any, scores: Any) -> Any:
    """The reconstruction term of each image: the cross-entropy of all its pixels."""
    return keras.ops.sum(keras.ops.binary_crossentropy(x, scores, from_logits=True), axis=1)


def draw(encoded: Any) -> Any:
    """A code from the distribution that the encoder gives."""
    mean, log_variance = keras.ops.split(encoded, 2, axis=1)
    return mean + keras.ops.exp(log_variance / 2) * keras.random.normal(keras.ops.shape(mean))


def chain(x: Any, *sizes: int) -> Any:
    """Layers of these sizes, ReLU between them."""
    for number, units in enumerate(sizes, 1):
        x = dense(x, units, "relu" if number < len(sizes) else None)
    return x


def make_model(pixels: int) -> Any:
    """Two hidden layers each way, the one next to the pixels twice as large. Its outputs are the terms' inputs."""
    images = keras.Input((pixels,))
    encoded = chain(images, HIDDEN, max(HIDDEN // 2, 1), 2 * CODE)
    drawn = chain(keras.layers.Lambda(draw, output_shape=(CODE,))(encoded), max(HIDDEN // 2, 1), HIDDEN, pixels)
    return keras.Model(images, [drawn, encoded])


def train(model: Any, data: Any) -> float:
    """The bound of a test image (minus ELBO) after the training, with both weights 1."""
    x, _, x_test = (one[0].reshape(len(one[0]), -1) for one in data)
    rate = LEARNING_RATE if SCHEDULE == "constant" else keras.optimizers.schedules.CosineDecay(LEARNING_RATE, STEPS)
    weights = [RECONSTRUCTION_WEIGHT, KL_WEIGHT]
    model.compile(make_optimizer(OPTIMIZER, rate, MOMENTUM), [reconstruction, kl], loss_weights=weights)
    feed = ((now, (now, now)) for now, _ in batches(x, x, BATCH_SIZE, ORDER, SEED))
    model.fit(feed, steps_per_epoch=STEPS, shuffle=False, verbose=2)
    scores, encoded = model.predict(x_test, batch_size=1000, verbose=0)
    terms = [float(keras.ops.mean(one)) for one in (reconstruction(x_test, scores), kl(x_test, encoded))]
    print(f"Test bound {sum(terms):.1f} nats: {terms[0]:.1f} for the reconstruction, {terms[1]:.1f} for KL")
    return sum(terms)


def main() -> float:
    """Reads the images, makes the model, trains and tests it."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    return train(make_model(data[0][0][0].size), data)


if __name__ == "__main__":
    main()
