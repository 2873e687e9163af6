"""Fused kernels against their Keras parents, and what the optimizers are fed with."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from clew_agent.training.optimizers import Optimizer, Rate, make_optimizer


def run(optimizer: Optimizer, kind: tf.DType, steps: int = 50) -> npt.NDArray[Any]:
    """Where 50 updates with ever other gradients bring three weights."""
    weights = tf.Variable([1.0, -2.0, 3.0], dtype=kind)
    optimizer.rule.build([weights])
    for step in range(steps):
        optimizer.rate.set(tf.constant(step, tf.int64), {"learning_rate": tf.constant(0.01, tf.float64)})
        optimizer.rule.apply([tf.sin(weights * (step + 1))], [weights])
    values: npt.NDArray[Any] = weights.numpy()
    return values


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize(("kind", "tolerance"), [(tf.float32, 1e-4), (tf.float64, 1e-6)])
def test_the_fused_kernel_equals_its_parent(name: str, kind: tf.DType, tolerance: float) -> None:
    """Keras rounds its own constants (0.9, 0.999) to float32 even for float64 variables, hence no better than 1e-6."""
    fused, parent = (make_optimizer(name, Rate(), weight_decay=0.01, fused=choice) for choice in (True, False))
    assert isinstance(fused.rule, type(parent.rule))
    assert type(fused.rule) is not type(parent.rule)
    np.testing.assert_allclose(run(fused, kind), run(parent, kind), rtol=tolerance)


def test_weight_decay_shrinks_weights_apart_from_the_gradient() -> None:
    weights = tf.Variable([2.0], dtype=tf.float64)
    optimizer = make_optimizer("sgd", Rate(), weight_decay=0.1)
    optimizer.rule.build([weights])
    optimizer.rate.set(tf.constant(0, tf.int64), {"learning_rate": tf.constant(0.5, tf.float64)})
    optimizer.rule.apply([tf.zeros([1], tf.float64)], [weights])
    assert weights.numpy().tolist() == pytest.approx([2.0 * (1 - 0.5 * 0.1)], rel=1e-8)


@pytest.mark.parametrize(("given", "used"), [(None, 0.004), (0.0, 0.0), (0.02, 0.02)])
def test_adamw_has_a_decay_of_its_own(given: float | None, used: float) -> None:
    assert make_optimizer("adamw", Rate(), weight_decay=given).rule.weight_decay == used
    assert keras.optimizers.AdamW().weight_decay == 0.004


def test_a_rate_that_was_never_set_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="before the first step"):
        Rate()()
