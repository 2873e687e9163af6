"""The courses' own style: a TensorFlow 1 graph, one ``session.run`` with the batch fed in for every step.

Without ``metrics`` only the training operation is fetched, as the courses do; with them also what Clew records of
every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.bench.work import Round, Work

v1 = tf.compat.v1


def course_round(exercise: str, work: Work, metrics: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    v1.disable_eager_execution()
    return {"linear-regression": _linear, "softmax": _softmax, "cnn": _cnn}[exercise](work, metrics)


def _round(work: Work, fetches: Any, feed: Callable[[int], dict[Any, Any]], result: Any, held_out: Any) -> Round:
    session, init = v1.Session(), v1.global_variables_initializer()

    def train(_: object) -> None:
        for step in range(work.steps):
            session.run(fetches, feed(step))

    return work.round(lambda: session.run(init), train, lambda _: float(session.run(result, held_out)))


def _linear(work: Work, metrics: bool) -> Round:
    weight, bias = v1.Variable([0.3], dtype=tf.float32), v1.Variable([-0.3], dtype=tf.float32)
    x, y = v1.placeholder(tf.float32), v1.placeholder(tf.float32)
    loss = tf.reduce_sum(tf.square(weight * x + bias - y))
    train = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
    feed = {x: np.array([1, 2, 3, 4], np.float32), y: np.array([0, -1, -2, -3], np.float32)}
    fetches = [train, loss, weight, bias] if metrics else train
    return _round(work, fetches, lambda _: feed, loss, feed)


def _softmax(work: Work, metrics: bool) -> Round:
    x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.float32, [None, 10])
    weight, bias = v1.Variable(tf.zeros([784, 10])), v1.Variable(tf.zeros([10]))
    probability = tf.nn.softmax(tf.matmul(x, weight) + bias)
    loss = tf.reduce_mean(-tf.reduce_sum(y * tf.math.log(probability), axis=[1]))
    train = v1.train.GradientDescentOptimizer(0.5).minimize(loss)
    accuracy = _accuracy(probability, y)
    fetches = [train, loss, accuracy] if metrics else train

    def feed(step: int) -> dict[Any, Any]:
        part = work.batch(step)
        return {x: work.x[part], y: work.one_hot[part]}

    return _round(work, fetches, feed, accuracy, {x: work.test_x, y: work.test_one_hot})


def _cnn(work: Work, metrics: bool) -> Round:
    x, y = v1.placeholder(tf.float32, [None, 784]), v1.placeholder(tf.float32, [None, 10])
    keep = v1.placeholder(tf.float32)
    hidden = _pooled(tf.reshape(x, [-1, 28, 28, 1]), [5, 5, 1, 32])
    hidden = _pooled(hidden, [5, 5, 32, 64])
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 3136]), _weight([3136, 1024])) + _bias(1024))
    logits = tf.matmul(v1.nn.dropout(hidden, keep), _weight([1024, 10])) + _bias(10)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = v1.train.AdamOptimizer(1e-4).minimize(loss)
    accuracy = _accuracy(logits, y)
    fetches = [train, loss, accuracy] if metrics else train

    def feed(step: int) -> dict[Any, Any]:
        part = work.batch(step)
        return {x: work.x[part], y: work.one_hot[part], keep: 0.5}

    return _round(work, fetches, feed, accuracy, {x: work.test_x, y: work.test_one_hot, keep: 1.0})


def _accuracy(scores: Any, one_hot: Any) -> Any:
    return tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), tf.argmax(one_hot, 1)), tf.float32))


def _weight(shape: list[int]) -> Any:
    return v1.Variable(tf.random.truncated_normal(shape, stddev=0.1))


def _bias(size: int) -> Any:
    return v1.Variable(tf.constant(0.1, shape=[size]))


def _pooled(images: Any, shape: list[int]) -> Any:
    convolved = tf.nn.conv2d(images, _weight(shape), strides=[1, 1, 1, 1], padding="SAME")
    return tf.nn.max_pool2d(tf.nn.relu(convolved + _bias(shape[-1])), 2, 2, "SAME")
