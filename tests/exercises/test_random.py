"""Random numbers are functions of seed, step and tag."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from clew_agent.strategies.base import Rows
from clew_agent.training.random import StepContext, key, truncated_normal


def context(*, seed: int = 1, step: int = 0, part: str = "", repetition: int = 0) -> StepContext:
    return StepContext(seed, tf.constant(step, tf.int64), {}, Rows(4, 4), part, repetition)


def test_the_same_key_gives_the_same_numbers_and_any_other_key_others() -> None:
    base = context().uniform([100], "mask").numpy()
    np.testing.assert_array_equal(base, context().uniform([100], "mask"))
    others = [context(seed=2), context(step=1), context(part="critic"), context(repetition=1)]
    drawn = [other.uniform([100], "mask").numpy() for other in others] + [context().uniform([100], "noise").numpy()]
    assert all(np.intersect1d(base, numbers).size < 3 for numbers in drawn)


def test_distributions_have_their_moments() -> None:
    even, bell = context().uniform([100_000], "a").numpy(), context().normal([100_000], "a").numpy()
    cut = truncated_normal([100_000], 1, "weights").numpy()
    assert 0 <= even.min() < 0.001
    assert 0.999 < even.max() < 1
    np.testing.assert_allclose([even.mean(), bell.mean(), bell.std(), cut.mean()], [0.5, 0, 1, 0], atol=0.02)
    assert np.abs(cut).max() <= 2


def test_one_device_with_xla_and_several_without_draw_the_same_numbers() -> None:
    """And even numbers are those of TensorFlow's own kernel, as in runs of earlier versions."""
    shape, seed = [51, 30], [key(1, "/0/noise"), 0]
    even, bell = context().uniform(shape, "noise"), context().normal(shape, "noise")
    np.testing.assert_array_equal(
        tf.function(lambda: context().uniform(shape, "noise"), jit_compile=True, autograph=False)(), even
    )
    compiled = tf.function(lambda: context().normal(shape, "noise"), jit_compile=True, autograph=False)
    np.testing.assert_allclose(compiled(), bell, atol=2e-6)
    np.testing.assert_array_equal(tf.random.stateless_uniform(shape, seed, alg="philox"), even)
