"""The memory of a batch: counted in the traced step, and what a process really takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import psutil
import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet, Split
from clew_agent.engine.footprint import image_bytes
from clew_agent.exercises.cnn import EXERCISE as CNN
from clew_agent.exercises.softmax import EXERCISE as SOFTMAX
from tests.exercises.training import make_engine

MB = 1e6


class Peak:
    bytes = 0


@contextmanager
def watched() -> Iterator[Peak]:
    """The most memory that this process has meanwhile."""
    me, peak, over = psutil.Process(), Peak(), threading.Event()

    def watch() -> None:
        while not over.wait(0.001):
            peak.bytes = max(peak.bytes, me.memory_info().rss)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def test_a_layer_keeps_its_images_and_its_scores(small_digits: DataSet) -> None:
    counted = {
        make_engine(SOFTMAX, {"steps": 2, "batch_size": size}, small_digits).parts.image_bytes for size in (20, 40)
    }
    images, scores = 4 * 784, 4 * 10
    assert len(counted) == 1, "it is the same for every batch"
    assert images + scores < counted.pop() < images + 8 * scores


@pytest.mark.parametrize("batch", [16, 60, 64, 128])
def test_a_batch_as_large_as_a_layer_is_counted_as_any_other(batch: int) -> None:
    wide, few = 64, 3
    shapes = [(wide, wide), (wide, few)]
    weights = [tf.Variable(tf.zeros(shape)) for shape in shapes]

    def step() -> None:
        images = tf.ones([batch, wide]) + 1
        scores = tf.nn.relu(images @ weights[0]) @ weights[1]
        for gradient, weight in zip(tf.gradients(tf.reduce_sum(scores), weights), weights, strict=True):
            weight.assign_sub(0.1 * gradient)

    graph = tf.function(step).get_concrete_function().graph
    counted = image_bytes(graph, batch, batch, shapes)
    assert 4 * 3 * wide < counted <= 4 * (4 * wide + 3 * few), "images, layer and gradients, each before it is needed"


def test_what_a_loop_keeps_is_not_counted() -> None:
    with tf.Graph().as_default() as graph:
        rows = tf.ones([4, 8]) + 1
        assert image_bytes(graph, 4, 4, ()) == 32
        tf.while_loop(lambda k, _: k < 3, lambda k, x: (k + 1, x * x), (tf.constant(0), rows))
    assert image_bytes(graph, 4, 4, ()) == 0


@pytest.fixture
def noise() -> DataSet:
    """600 images as large as MNIST's."""
    split = Split(np.random.default_rng(1).random((600, 784), np.float32), np.arange(600, dtype=np.int32) % 10)
    few = Split(split.x[:10], split.y[:10])
    shape = (28, 28, 1)
    return DataSet(
        name="noise", source="", sha256="", train=split, validation=few, test=few, image_shape=shape, classes=10
    )


def test_a_larger_batch_of_cnn_takes_about_what_was_counted(noise: DataSet) -> None:
    small, large = 50, 600
    with watched() as before:
        counted = make_engine(CNN, {"steps": 2, "batch_size": small}, noise).parts.image_bytes
    with watched() as after:
        make_engine(CNN, {"steps": 2, "batch_size": large}, noise)
    measured = (after.bytes - before.bytes) / (large - small)
    assert 0.5 < measured / counted < 2, "the machine's threads and free memory are in it as well"
