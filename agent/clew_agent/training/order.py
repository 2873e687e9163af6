"""Picks the samples that make up the batch of a step: a function of (seed, step), computed inside the compiled block.

There is no iterator whose position would have to be saved. ``file`` takes the samples as they come, ``shuffle`` a new
permutation in each epoch, ``balanced`` gives every class the same share of each batch.

The permutation is computed index by index, by a Feistel network over the smallest power of two that holds all
indices; a result outside is sent through again until it falls inside ("cycle walking": Black and Rogaway, "Ciphers
with arbitrary finite domains", CT-RSA 2002). TensorFlow's own ``index_shuffle`` does the same but cannot be compiled
by XLA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from clew_agent.engine.course import steps_per_epoch
from clew_agent.training.random import key

ROUNDS = 8
_MIX = (
    0x7FEB352D,
    0x846CA68B,
)  # "lowbias32" of C. Wellons' hash prospector: every input bit flips half the output bits


class Pick(NamedTuple):
    """The samples of one batch: ``index`` int64 [batch], and float32 ``weight`` [batch], None when all weigh 1."""

    index: tf.Tensor
    weight: tf.Tensor | None = None


class Order(Protocol):
    """Gives each step its samples."""

    def pick(self, step: tf.Tensor, seed: int | tf.Tensor) -> Pick:
        """The samples of ``step`` (scalar int64)."""


@dataclass(frozen=True)
class FileOrder:
    """Samples as they are in the file, epoch after epoch.

    Where the batch size does not divide the ``samples``, an epoch's last batch is filled up with samples of weight 0,
    so that every epoch shows each sample exactly once and every batch has the same shape.
    """

    samples: int
    batch: int

    def pick(self, step: tf.Tensor, seed: int | tf.Tensor) -> Pick:
        """The samples of ``step``."""
        position, weight = _position(step, self.samples, self.batch)
        return Pick(position, weight)


@dataclass(frozen=True)
class ShuffledOrder:
    """A new permutation of all ``samples`` in every epoch; the last batch as in ``FileOrder``."""

    samples: int
    batch: int

    def pick(self, step: tf.Tensor, seed: int | tf.Tensor) -> Pick:
        """The samples of ``step``."""
        position, weight = _position(step, self.samples, self.batch)
        epoch = step // steps_per_epoch(self.samples, self.batch)
        index = permute(position, self.samples, bits(self.samples), _epoch_key(seed, "shuffle", epoch))
        return Pick(index, weight)


@dataclass(frozen=True, eq=False)
class BalancedOrder:
    """The order that takes every class in turn; within a class its samples in a new permutation each time they have all
    been used.

    ``labels`` is int [samples]. Rare classes come round more often: an "epoch" then is just as many batches as for
    the others.
    """

    labels: npt.NDArray[np.generic]
    batch: int

    def pick(self, step: tf.Tensor, seed: int | tf.Tensor) -> Pick:
        """The samples of ``step``."""
        by_class = np.argsort(self.labels, kind="stable").astype(np.int64)
        _, counts = np.unique(self.labels, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        widths = np.array([bits(int(count)) for count in counts], np.int64)

        slot = step * self.batch + tf.range(self.batch, dtype=tf.int64)
        kind, turn = slot % len(counts), slot // len(counts)
        count, start, width = (tf.gather(tf.constant(table, tf.int64), kind) for table in (counts, starts, widths))
        keys = _epoch_key(seed, "balanced", (turn // count) * len(counts) + kind)
        place = permute(turn % count, count, width, keys)
        return Pick(tf.gather(tf.constant(by_class), start + place))


def make_order(name: str, samples: int, labels: npt.NDArray[np.generic], batch: int) -> Order:
    """The order called ``name`` ("file", "shuffle" or "balanced"); only the last looks at the ``labels``."""
    if name == "balanced":
        return BalancedOrder(labels, batch)
    if name == "shuffle":
        return ShuffledOrder(samples, batch)
    return FileOrder(samples, batch)


def bits(samples: int) -> int:
    """Width of the smallest power of two that holds ``samples`` indices; at least 2, one bit for each half."""
    return max(2, (samples - 1).bit_length())


def permute(index: tf.Tensor, samples: tf.Tensor | int, width: tf.Tensor | int, keys: tf.Tensor) -> tf.Tensor:
    """Returns where ``index`` (int64 [n], below ``samples``) goes in the permutation that ``keys`` (int64) selects.

    ``samples``, ``width`` (``bits(samples)``) and ``keys`` are scalars or one value per index.
    """
    limit = tf.cast(tf.broadcast_to(samples, tf.shape(index)), tf.uint32)
    start = _feistel(tf.cast(index, tf.uint32), width, keys)

    def walk(value: tf.Tensor) -> tuple[tf.Tensor]:
        return (tf.where(value < limit, value, _feistel(value, width, keys)),)

    (inside,) = tf.while_loop(lambda value: tf.reduce_any(value >= limit), walk, (start,))
    return tf.cast(inside, tf.int64)


def _feistel(value: tf.Tensor, width: tf.Tensor | int, keys: tf.Tensor) -> tf.Tensor:
    """Does one pass through the network: each half in turn is changed by a hash of the other, which can be undone."""
    low_bits = tf.cast(width // 2, tf.uint32)
    high_bits = tf.cast(width, tf.uint32) - low_bits
    one = tf.constant(1, tf.uint32)
    low_mask = tf.bitwise.left_shift(one, low_bits) - one
    high_mask = tf.bitwise.left_shift(one, high_bits) - one
    low = tf.bitwise.bitwise_and(value, low_mask)
    high = tf.bitwise.right_shift(value, low_bits)
    key_low = tf.cast(tf.bitwise.bitwise_and(keys, 0xFFFFFFFF), tf.uint32)
    key_high = tf.cast(tf.bitwise.right_shift(keys, tf.constant(32, keys.dtype)), tf.uint32)
    for number in range(0, ROUNDS, 2):
        low = _xor(low, tf.bitwise.bitwise_and(_hash(high, key_low, number), low_mask))
        high = _xor(high, tf.bitwise.bitwise_and(_hash(low, key_high, number + 1), high_mask))
    return tf.bitwise.bitwise_or(tf.bitwise.left_shift(high, low_bits), low)


def _hash(value: tf.Tensor, keys: tf.Tensor, number: int) -> tf.Tensor:
    salt = tf.constant((number + 1) * 0x9E3779B9 & 0xFFFFFFFF, tf.uint32)
    mixed = _xor(value, keys) + salt
    for shift, factor in zip((16, 15), _MIX, strict=True):
        mixed = _xor(mixed, tf.bitwise.right_shift(mixed, tf.constant(shift, tf.uint32))) * tf.constant(
            factor, tf.uint32
        )
    return _xor(mixed, tf.bitwise.right_shift(mixed, tf.constant(16, tf.uint32)))


def _xor(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(a, b)


def _position(step: tf.Tensor, samples: int, batch: int) -> tuple[tf.Tensor, tf.Tensor | None]:
    place = step % steps_per_epoch(samples, batch) * batch + np.arange(batch, dtype=np.int64)
    if samples % batch == 0:
        return place, None
    inside = place < samples
    return tf.where(inside, place, tf.zeros_like(place)), tf.cast(inside, tf.float32)


def _epoch_key(seed: int | tf.Tensor, tag: str, epoch: tf.Tensor) -> tf.Tensor:
    """A 64-bit key for each epoch; the multiplier (2**64 over the golden ratio) spreads small numbers over all bits."""
    golden = tf.constant(0x9E3779B97F4A7C15 - 2**64, tf.int64)
    return tf.bitwise.bitwise_xor(tf.convert_to_tensor(key(seed, tag), tf.int64), (epoch + 1) * golden)
