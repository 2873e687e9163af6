"""The third exercise: the slides' accuracy on the real data, its options, and its pieces."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises.cnn import EXERCISE
from clew_agent.strategies.base import Rows
from clew_agent.training.exercise import Batch
from clew_agent.training.images import augment
from clew_agent.training.layers import BatchNorm, dropout
from clew_agent.training.random import StepContext
from tests.exercises.training import assert_same_bits, make_engine, race_records, train


def context(step: int, rows: Rows) -> StepContext:
    return StepContext(seed=7, step=tf.constant(step, tf.int64), live={}, rows=rows, part="cnn")


@pytest.mark.nightly
@pytest.mark.needs("real-mnist")
@pytest.mark.timeout(900)
def test_the_slides_values_give_the_known_accuracy(real_mnist: DataSet) -> None:
    engine = make_engine(EXERCISE, {}, real_mnist)
    train(engine)
    assert engine.step == 1000
    assert engine.evaluate()["test_accuracy"] == pytest.approx(0.9597, abs=0.007)


def test_the_digits_are_learnt_with_the_tiny_preset(small_digits: DataSet) -> None:
    (tiny,) = [preset for preset in EXERCISE.presets if preset.name == "tiny"]
    engine = make_engine(EXERCISE, tiny.values, small_digits)
    seen = train(engine)
    assert seen["loss"][-10:].mean() < seen["loss"][:5].mean() / 3
    assert engine.evaluate()["test_accuracy"] > 0.6


def test_every_lane_of_the_race_sees_the_same_batches(small_digits: DataSet) -> None:
    first, *others = race_records(EXERCISE, {"steps": 3, "batch_size": 16}, small_digits)
    assert len(others) == 4
    for record in others:
        assert_same_bits(record, first)
    assert len(set(first["loss"].tolist())) == 3, "batches differ from step to step"


def test_options_add_their_variables(small_digits: DataSet) -> None:
    engine = make_engine(EXERCISE, {"steps": 2, "batch_size": 4, "batch_norm": True}, small_digits)
    names = set(engine.variables)
    assert {"weights/cnn/conv1", "weights/cnn/dense_gamma", "state/conv2_mean", "slots/cnn/conv1/velocities"} <= names


def test_replicas_drop_the_same_units_as_one_device() -> None:
    x = tf.ones([8, 100])
    whole = dropout(x, 0.5, context(3, Rows(total=8, count=8)))
    halves = [dropout(x[:4], 0.5, context(3, Rows(total=8, count=4, first=first))) for first in (0, 4)]
    np.testing.assert_array_equal(whole, tf.concat(halves, 0))
    assert set(np.unique(whole)) == {0.0, 2.0}
    assert not np.array_equal(whole, dropout(x, 0.5, context(4, Rows(total=8, count=8))))


def test_augmentation_moves_images_and_leaves_them_alone_at_zero() -> None:
    images = tf.random.stateless_uniform([5, 28, 28, 1], [1, 2])
    same = augment(images, context(0, Rows(5, 5)), shift=0, degrees=0, zoom=0)
    np.testing.assert_allclose(same, images, atol=1e-5)
    moved = augment(images, context(0, Rows(5, 5)))
    assert moved.shape == images.shape
    assert not np.allclose(moved, images, atol=0.1)


def test_augmentation_turns_about_the_centre() -> None:
    """A dot in the middle of an image of odd size stays there however far the image is turned."""
    dot = np.zeros([3, 9, 9, 1], np.float32)
    dot[:, 4, 4, 0] = 1
    turned = augment(tf.constant(dot), context(1, Rows(3, 3)), shift=0, degrees=90, zoom=0.3)
    np.testing.assert_allclose(turned[:, 4, 4, 0], 1, atol=1e-5)


def test_batch_norm_equals_keras_and_ignores_samples_without_weight() -> None:
    import keras

    x = tf.random.stateless_normal([6, 4, 4, 3], [3, 4]) * 2 + 1
    ours, theirs = BatchNorm.make(3), keras.layers.BatchNormalization()
    batch = Batch(x, x, tf.range(6, dtype=tf.int64))
    np.testing.assert_allclose(ours.train(x, batch), theirs(x, training=True), atol=1e-5)
    np.testing.assert_allclose(ours.predict(x), theirs(x, training=False), atol=1e-5)

    filled = tf.concat([x, 100 + x[:2]], 0)
    weight = tf.constant([1.0] * 6 + [0.0] * 2)
    padded = BatchNorm.make(3).train(filled, Batch(filled, filled, tf.range(8, dtype=tf.int64), weight))
    np.testing.assert_allclose(padded[:6], BatchNorm.make(3).train(x, batch), atol=1e-5)
