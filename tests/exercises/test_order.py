"""Which samples a step takes: permutations that need no memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.engine.course import steps_per_epoch
from clew_agent.training.order import BalancedOrder, FileOrder, Order, ShuffledOrder, bits, permute


def picked(order: Order, step: int, seed: int = 5) -> npt.NDArray[np.int64]:
    """The indices of ``step`` that count."""
    pick = order.pick(tf.constant(step, tf.int64), seed)
    index: npt.NDArray[np.int64] = pick.index.numpy()
    return index if pick.weight is None else index[pick.weight.numpy() > 0]


def epoch(order: FileOrder | ShuffledOrder, number: int, seed: int = 5) -> npt.NDArray[np.int64]:
    steps = steps_per_epoch(order.samples, order.batch)
    return np.concatenate([picked(order, step, seed) for step in range(number * steps, (number + 1) * steps)])


def test_file_order_takes_samples_as_they_come_and_begins_anew() -> None:
    order = FileOrder(samples=10, batch=4)
    batches = [picked(order, step).tolist() for step in range(4)]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]


@given(samples=st.integers(1, 300), key=st.integers(-(2**63), 2**63 - 1))
def test_permute_is_a_permutation_of_any_size(samples: int, key: int) -> None:
    index = tf.range(samples, dtype=tf.int64)
    places = permute(index, samples, bits(samples), tf.constant(key, tf.int64)).numpy()
    assert sorted(places) == list(range(samples))


@pytest.mark.parametrize("jit", [False, True])
def test_an_epoch_in_shuffled_order_shows_every_sample_once(jit: bool) -> None:
    order = ShuffledOrder(samples=103, batch=10)
    pick = tf.function(lambda *numbers: order.pick(*numbers).index, jit_compile=jit, autograph=False)
    step, seed = tf.constant(3, tf.int64), tf.constant(5, tf.int64)
    np.testing.assert_array_equal(pick(step, seed), order.pick(step, 5).index)
    first, second = epoch(order, 0), epoch(order, 1)
    assert sorted(first) == sorted(second) == list(range(103))
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, epoch(order, 0, seed=6))


def test_shuffling_spreads_samples_evenly() -> None:
    """Over many epochs each sample comes first about equally often: chi-squared of 9 degrees of freedom, far tail."""
    order = ShuffledOrder(samples=10, batch=1)
    epochs = tf.range(0, 10_000, 10, dtype=tf.int64)
    pick = tf.function(lambda: tf.map_fn(lambda step: order.pick(step, 1).index[0], epochs), autograph=False)
    first = pick().numpy()
    counts = np.bincount(first, minlength=10)
    assert ((counts - 100) ** 2 / 100).sum() < 40


def test_balanced_batches_hold_each_class_equally_often() -> None:
    labels = np.array([0] * 50 + [1] * 7 + [2] * 3, np.int32)
    order = BalancedOrder(labels, batch=9)
    batches = [picked(order, step) for step in range(20)]
    assert all(np.bincount(labels[batch], minlength=3).tolist() == [3, 3, 3] for batch in batches)
    zeros = [index for batch in batches for index in batch if labels[index] == 0]
    assert sorted(zeros[:50]) == list(range(50))  # every sample once before any comes again
    twos = [index for batch in batches for index in batch if labels[index] == 2]
    assert all(sorted(twos[at : at + 3]) == [57, 58, 59] for at in range(0, 60, 3))


def test_balanced_batches_that_classes_do_not_divide_differ_by_one() -> None:
    labels = np.arange(30, dtype=np.int32) % 3
    counts = [np.bincount(labels[picked(BalancedOrder(labels, 10), step)], minlength=3) for step in range(6)]
    assert all(count.max() - count.min() <= 1 for count in counts)
