"""What a person would write without Clew: import TensorFlow, read the data, do one step, look at the loss.

Prints the wall-clock times at which these were done, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

marks = {"→ Python started": time.time()}

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

marks["→ TensorFlow imported"] = time.time()


def line() -> tuple[tf.Tensor, tf.Tensor, list[tf.Variable]]:
    """The four points of linear-regression."""
    x, y = tf.constant([1.0, 2, 3, 4]), tf.constant([0.0, -1, -2, -3])
    return x, y, [tf.Variable(0.3), tf.Variable(-0.3)]


def images() -> tuple[tf.Tensor, tf.Tensor, list[tf.Variable]]:
    """MNIST's training images as rows of 784 numbers; random ones of the same size where it is absent."""
    path = Path(os.environ.get("CLEW_DATA", ""), "mnist.npz")
    if path.is_file():
        with np.load(path) as data:
            x, y = data["x_train"].reshape(-1, 784).astype(np.float32) / 256, data["y_train"].astype(np.int32)
    else:
        x, y = np.random.default_rng(1).random((60_000, 784), np.float32), np.zeros(60_000, np.int32)
    return tf.constant(x), tf.constant(y), [tf.Variable(tf.zeros([784, 10])), tf.Variable(tf.zeros([10]))]


softmax = sys.argv[1] == "softmax"
x, y, (weight, bias) = images() if softmax else line()
marks["→ data read"] = time.time()


def one_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """One step of gradient descent; the loss before it."""
    with tf.GradientTape() as tape:
        if softmax:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, tf.matmul(x, weight) + bias))
        else:
            loss = tf.reduce_sum(tf.square(weight * x + bias - y))
    for variable, gradient in zip((weight, bias), tape.gradient(loss, (weight, bias)), strict=True):
        variable.assign_sub((0.5 if softmax else 0.01) * gradient)
    return loss


step = tf.function(one_step)
loss = float(step(x[:100], y[:100]) if softmax else step(x, y))
marks["→ first step done, its loss read"] = time.time()
print(json.dumps(marks))
