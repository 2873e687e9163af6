"""TensorFlow's ``tf.distribute`` as its own guide writes it, over two devices, without Clew.

Plain: a distributed dataset and one compiled call for each step. Tuned: many steps in one compiled loop, samples
gathered by index, each replica its rows; nothing is recorded but the last loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from clew_agent.training.runtime import configure
from tests.bench.keras_style import MODELS
from tests.bench.work import Round, Work

DEVICES = 2


def distribute_round(exercise: str, work: Work, tuned: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    configure(devices=DEVICES)
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{number}" for number in range(DEVICES)])
    labels = tf.argmax(work.one_hot, 1, tf.int32)
    shape = (-1, 28, 28, 1) if exercise == "cnn" else (-1, 784)
    samples = tf.reshape(tf.constant(work.x), shape)
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model, optimizer, *_ = MODELS[exercise]()
        optimizer.build(model.trainable_variables)
    initial = [variable.numpy() for variable in (*model.variables, *optimizer.variables)]

    def replica(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            loss = tf.reduce_sum(each) / work.batch_size
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    def step(x: Any, y: Any) -> tf.Tensor:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=(x, y)), axis=None)

    train = _loop(strategy, replica, samples, labels, work) if tuned else _calls(strategy, step, samples, labels, work)

    def fresh() -> None:
        for variable, value in zip((*model.variables, *optimizer.variables), initial, strict=True):
            variable.assign(value)

    test_x = tf.reshape(tf.constant(work.test_x), shape)
    run = work.round(fresh, lambda _: train(), lambda _: work.accuracy(model(test_x, training=False)))
    run()
    return run


def _calls(strategy: Any, step: Any, samples: Any, labels: Any, work: Work) -> Callable[[], None]:
    data = tf.data.Dataset.from_tensor_slices((samples, labels)).batch(work.batch_size, drop_remainder=True)
    spread = strategy.experimental_distribute_dataset(data.repeat().prefetch(2))
    call = tf.function(step)

    def train() -> None:
        batches = iter(spread)
        for _ in range(work.steps):
            loss = call(*next(batches))
        loss.numpy()

    return train


def _loop(strategy: Any, replica: Any, samples: Any, labels: Any, work: Work) -> Callable[[], None]:
    own = work.batch_size // DEVICES

    @tf.function  # type: ignore[untyped-decorator]
    def steps(count: tf.Tensor) -> tf.Tensor:
        last = tf.constant(0.0)
        for number in tf.range(count):

            def rows() -> tf.Tensor:
                place = tf.distribute.get_replica_context().replica_id_in_sync_group
                index = (number * work.batch_size + place * own + tf.range(own)) % len(work.x)  # noqa: B023
                return replica(tf.gather(samples, index), tf.gather(labels, index))

            last = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(rows), axis=None)
        return last

    return lambda: steps(tf.constant(work.steps)).numpy()
