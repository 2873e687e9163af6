"""The memory of a batch: counted in the traced step, and what a process really takes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.engine.footprint import image_bytes
from clew_agent.exercises.softmax import EXERCISE as SOFTMAX
from tests.exercises.training import make_engine

# Peaks in a process of its own: one in which other tests have trained has free memory that it takes first.
TRAIN_TWICE = """
import sys
from pathlib import Path
import numpy as np
from clew_agent.datasets.dataset import DataSet, Split
from clew_agent.exercises.cnn import EXERCISE
from tests.exercises.training import make_engine

def peak():
    words = Path("/proc/self/status").read_text().split()
    return 1024 * int(words[words.index("VmHWM:") + 1])

split = Split(np.random.default_rng(1).random((600, 784), np.float32), np.arange(600, dtype=np.int32) % 10)
few = Split(split.x[:10], split.y[:10])
noise = DataSet(
    name="noise", source="", sha256="", train=split, validation=few, test=few, image_shape=(28, 28, 1), classes=10
)
for batch_size in map(int, sys.argv[1:]):
    print(make_engine(EXERCISE, {"steps": 2, "batch_size": batch_size}, noise).parts.image_bytes, peak())
"""


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


def test_a_larger_batch_of_cnn_takes_about_what_was_counted() -> None:
    small, large = 50, 600
    words = [sys.executable, "-c", TRAIN_TWICE, str(small), str(large)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=True)
    (counted, before), (_, after) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert 0.5 < (after - before) / (large - small) / counted < 2, "threads and free memory are in it as well"
