"""When one device updates its weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from clew_agent.datasets.dataset import DataSet
from clew_agent.exercises import cnn
from clew_agent.strategies.single import Single
from clew_agent.training.engine import Engine
from clew_shared.params import build
from tests.exercises.training import AtOnce, train


def test_an_update_waits_for_the_gradient_before_it() -> None:
    """Until then the weights are still read, and TensorFlow copies what is read while it is updated."""
    taken: list[Any] = []
    rule = SimpleNamespace(apply=lambda gradients, _: taken.extend(gradients))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor) -> None:
        rows = tf.IndexedSlices(tf.exp(x), tf.range(2), tf.constant([2]))
        Single().apply(rule, [tf.sin(x), None, rows, tf.cos(x)], [])

    step.get_concrete_function(tf.TensorSpec([2]))
    first, nothing, rows, last = taken
    assert nothing is None
    waits = [[one.type for one in tensor.op.control_inputs] for tensor in (first, rows.values, last)]
    assert waits == [[], ["Sin"], ["Exp"]]


def test_the_bits_are_those_of_updates_at_once(small_digits: DataSet) -> None:
    settings = build(cnn.CnnSettings, {"steps": 4, "batch_size": 20, "batch_norm": True})
    ours, theirs = (Engine(cnn.EXERCISE, settings, 1, small_digits, strategy=one()) for one in (Single, AtOnce))
    for engine in (ours, theirs):
        engine.compile()
    metrics, expected = train(ours), train(theirs)
    assert all(np.array_equal(metrics[name], values) for name, values in expected.items())
    assert all(np.array_equal(ours.variables[name], values) for name, values in theirs.variables.items())
