"""Random numbers as functions of (seed, step, tag): nothing to store, nothing to restore, the same in every block size.

TensorFlow's usual random operations carry hidden state, so a run that was stopped and resumed would draw other
numbers. Here each draw is computed again from its key (``tf.random.stateless_*``, Philox: Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", SC 2011). Numbers that belong to samples are drawn for the whole global batch and
each replica takes its own rows: 1, 2 and 4 replicas drop the same units of the same images.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from clew_agent.strategies.base import Rows


def key(seed: int | tf.Tensor, tag: str) -> int | tf.Tensor:
    """``seed`` (below 2**31; int64 as a tensor) and a name as one 63-bit number: every tag has a stream of its own."""
    return (zlib.crc32(tag.encode()) & 0x7FFFFFFF) << 32 | seed


def uniform(shape: Sequence[int], seed: int | tf.Tensor, tag: str, step: tf.Tensor | int = 0) -> tf.Tensor:
    """float32 ``shape``, evenly from 0 (included) to 1 (not included)."""
    return _to_unit(
        tf.random.stateless_uniform(shape, _seed(seed, tag, step), None, None, dtype=tf.uint32, alg="philox")
    )


def normal(shape: Sequence[int], seed: int | tf.Tensor, tag: str, step: tf.Tensor | int = 0) -> tf.Tensor:
    """float32 ``shape``, normal with mean 0 and standard deviation 1 (Box and Muller, 1958).

    Not TensorFlow's own, for the reason given in ``_to_unit``.
    """
    length, turn = tf.unstack(uniform([2, *shape], seed, tag, step))
    return tf.sqrt(-2 * tf.math.log(1 - length)) * tf.cos(2 * math.pi * turn)


def truncated_normal(shape: Sequence[int], seed: int, tag: str) -> tf.Tensor:
    """float32 ``shape``, normal with mean 0 and deviation 1, drawn again beyond two deviations: for initial weights."""
    return tf.random.stateless_truncated_normal(shape, _seed(seed, tag, 0), alg="philox")


def _to_unit(bits: tf.Tensor) -> tf.Tensor:
    """The lower 23 bits of each uint32 as the fraction of a float32 in [1, 2), minus 1.

    That is what TensorFlow's own kernel does. XLA takes other bits of the same number, so that one device (with XLA)
    and several (without) would draw different numbers.
    """
    fraction = tf.bitwise.bitwise_and(bits, tf.constant(0x7FFFFF, tf.uint32))
    return tf.bitcast(tf.bitwise.bitwise_or(fraction, tf.constant(0x3F800000, tf.uint32)), tf.float32) - 1


def _seed(seed: int | tf.Tensor, tag: str, step: tf.Tensor | int) -> tf.Tensor:
    return tf.stack([tf.convert_to_tensor(key(seed, tag), tf.int64), tf.cast(step, tf.int64)])


@dataclass(frozen=True)
class StepContext:
    """The values that a loss may depend on besides its batch: the step, the live values and random numbers keyed by the
    step.

    ``step`` is a scalar int64 tensor, ``live`` holds the hyperparameters that may change while the run trains (scalar
    float64 tensors). ``part`` and ``repetition`` keep the streams of a GAN's parts and of repeated updates apart.
    """

    seed: int | tf.Tensor
    step: tf.Tensor
    live: Mapping[str, tf.Tensor]
    rows: Rows
    part: str = ""
    repetition: int = 0

    def uniform(self, shape: Sequence[int], tag: str) -> tf.Tensor:
        """float32 ``shape`` in [0, 1), the same on every replica."""
        return uniform(shape, self.seed, self._tag(tag), self.step)

    def normal(self, shape: Sequence[int], tag: str) -> tf.Tensor:
        """float32 ``shape``, standard normal, the same on every replica."""
        return normal(shape, self.seed, self._tag(tag), self.step)

    def sample_uniform(self, shape: Sequence[int], tag: str) -> tf.Tensor:
        """float32 [rows, *shape] in [0, 1): each sample of the global batch has its own, no matter which replica
        computes it."""
        return self._own_rows(self.uniform([self.rows.total, *shape], tag))

    def sample_normal(self, shape: Sequence[int], tag: str) -> tf.Tensor:
        """float32 [rows, *shape], standard normal: each sample of the global batch has its own, no matter which replica
        computes it."""
        return self._own_rows(self.normal([self.rows.total, *shape], tag))

    def _tag(self, tag: str) -> str:
        return f"{self.part}/{self.repetition}/{tag}"

    def _own_rows(self, drawn: tf.Tensor) -> tf.Tensor:
        if self.rows.count == self.rows.total:
            return drawn
        place = self.rows.first + tf.range(self.rows.count)
        return tf.gather(drawn, tf.minimum(place, self.rows.total - 1))  # fillers count nothing: any number will do
