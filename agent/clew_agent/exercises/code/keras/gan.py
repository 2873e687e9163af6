"""A generative adversarial network in Keras' own ``fit``: the networks and the values of the exercise, in a file that
runs by itself. Two networks that are trained in turn are more than a loss, so the model has its own ``train_step``.

It needs TensorFlow and the file mnist.npz.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from clew_agent.exercises.code.parts import batches, dense, make_optimizer, read_data

DATA = "mnist.npz"
GENERATOR_LOSS = "non-saturating"
DISCRIMINATOR_STEPS = 1
GENERATOR_STEPS = 1
NOISE = 64
DROPOUT = 0.3
OPTIMIZER = "rmsprop"
LEARNING_RATE = 0.002
MOMENTUM = 0.9
BATCH_SIZE = 100
ORDER = "shuffle"  # or "file"
STEPS = 5000
SEED = 1

SAMPLES, CLEAR, ENOUGH = 1000, 0.9, 0.02
"""The classes are counted in so many samples. One is clear if the classifier is so sure, and a class is there if it has
such a share of all."""


def chain(inputs: int, hidden: int, outputs: int, bend: str, last: Any = None, dropout: float = 0) -> Any:
    """A hidden layer and a last one."""
    given = keras.Input((inputs,))
    x = keras.layers.Dropout(dropout)(dense(given, hidden, bend))
    return keras.Model(given, dense(x, outputs, last))


def draw_noise(count: int) -> Any:
    """Random numbers for so many images."""
    return keras.random.normal((count, NOISE))


class Gan(keras.Model):  # type: ignore[misc]  # Keras has no types
    """The generator draws images from noise, the discriminator scores them: above 0 it says real. The classifier, which
    has no part in the game, learns the labels and reads what is drawn."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.generator = chain(NOISE, 256, pixels, "leaky_relu", "sigmoid")  # Keras' slope is 0.2
        self.discriminator = chain(pixels, 128, 1, "leaky_relu", dropout=DROPOUT)
        self.classifier = chain(pixels, 128, 10, "relu")
        self.rules = [make_optimizer(OPTIMIZER, LEARNING_RATE, MOMENTUM) for _ in range(3)]
        for rule, network in zip(self.rules, (self.discriminator, self.generator, self.classifier), strict=True):
            rule.build(network.trainable_variables)
        self.built = True

    def train_step(self, data: Any) -> dict[str, Any]:
        """One step: updates of the discriminator, each with real images of its own, then of the generator."""
        x, y = data
        real = tf.unstack(tf.reshape(x, [DISCRIMINATOR_STEPS, BATCH_SIZE, -1]))
        of_discriminator = [self.update(0, self.discriminator, self.judge, one) for one in real]
        of_generator = [self.update(1, self.generator, self.fool) for _ in range(GENERATOR_STEPS)]
        self.update(2, self.classifier, self.read, real[0], y[:BATCH_SIZE])
        return {"discriminator_loss": of_discriminator[0], "generator_loss": of_generator[0]}

    def update(self, place: int, network: Any, compute: Any, *given: Any) -> Any:
        """One update of this network; returns its loss."""
        with tf.GradientTape() as tape:
            loss = compute(*given)
        variables = network.trainable_variables
        self.rules[place].apply(tape.gradient(loss, variables), variables)
        return loss

    def judge(self, real: Any) -> Any:
        """The discriminator's loss: real images are to have high scores, drawn ones low ones."""
        drawn = self.generator(draw_noise(BATCH_SIZE))
        scores = [self.discriminator(one, training=True) for one in (real, drawn)]
        return tf.reduce_mean(tf.nn.softplus(-scores[0]) + tf.nn.softplus(scores[1]))

    def fool(self) -> Any:
        """The generator's loss: what it draws is to have high scores."""
        score = self.discriminator(self.generator(draw_noise(BATCH_SIZE)), training=True)
        saturating = GENERATOR_LOSS == "saturating"
        return tf.reduce_mean(-tf.nn.softplus(score) if saturating else tf.nn.softplus(-score))

    def read(self, x: Any, y: Any) -> Any:
        """The classifier's loss."""
        return tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, self.classifier(x), from_logits=True))


def train(game: Any, data: Any) -> tuple[int, float]:
    """How many classes are drawn after the training, and the share of clear samples."""
    x, y = data[0]
    game.compile()
    feed = batches(x.reshape(len(x), -1), y, DISCRIMINATOR_STEPS * BATCH_SIZE, ORDER, SEED)
    game.fit(feed, steps_per_epoch=STEPS, shuffle=False, verbose=2)
    sure = keras.ops.softmax(game.classifier(game.generator(draw_noise(SAMPLES))))
    shares = np.mean(np.array(sure) > CLEAR, axis=0)
    print(f"{np.sum(shares >= ENOUGH)} classes, {100 * np.sum(shares):.1f} % of the samples are clear")
    return int(np.sum(shares >= ENOUGH)), float(np.sum(shares))


def main() -> tuple[int, float]:
    """Reads the images, makes the networks, trains them and counts what they draw."""
    keras.utils.set_random_seed(SEED)
    data = read_data(DATA)
    return train(Gan(data[0][0][0].size), data)


if __name__ == "__main__":
    main()
