"""A training step by hand has TensorFlow's numbers: those of the perceptron's own network with the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from clew_agent.exercises.perceptron import EXERCISE, PerceptronSettings
from clew_agent.strategies.base import Rows
from clew_agent.training.exercise import Batch, Exercise, Setup
from clew_agent.training.random import StepContext
from clew_gui.study.by_hand import TURNS, Point, StepsByHand, indexed, one_pass, updated
from clew_shared.cards import ByHand
from clew_shared.params import build


def network_of(exercise: Exercise[Any]) -> ByHand:
    assert exercise.by_hand is not None
    return exercise.by_hand


NETWORK = network_of(EXERCISE)
NAMES = [indexed("g", number) for number in range(1, 10)]


def numbered(arrays: list[npt.NDArray[Any]]) -> list[float]:
    """Two layers' weights and offsets in the order in which they are numbered."""
    hidden, offsets, output, offset = arrays
    return [*np.concatenate([hidden, offsets[None]]).T.ravel().tolist(), *output.ravel().tolist(), *offset.tolist()]


@pytest.mark.parametrize("point", NETWORK.points)
def test_loss_and_gradients_are_tensorflows(point: Point) -> None:
    model = EXERCISE.build(Setup(build(PerceptronSettings, {"units": 2}), 1))
    w = np.array(NETWORK.weights, np.float32)
    variables = list(model.parts[0].variables.values())
    for variable, values in zip(variables, (w[:6].reshape(2, 3)[:, :2].T, w[[2, 5]], w[6:8, None], w[8:]), strict=True):
        variable.assign(values)
    assert numbered([one.numpy() for one in variables]) == w.tolist()
    x, y, kind = point
    batch = Batch(tf.constant([[x, y]]), tf.constant([kind]), tf.range(1))
    with tf.GradientTape() as tape:
        loss = model.parts[0].loss(batch, StepContext(1, tf.constant(0, tf.int64), {}, Rows(1, 1))).value
    expected = numbered([one.numpy() for one in tape.gradient(loss, variables)])
    lines = {line.name: line.value for line in one_pass(NETWORK.weights, point, NETWORK.rate)}
    assert lines["L"] == pytest.approx(float(loss), abs=1e-6)
    np.testing.assert_allclose([lines[name] for name in NAMES], expected, atol=1e-6)
    after = updated(one_pass(NETWORK.weights, point, NETWORK.rate))
    np.testing.assert_allclose(after, np.array(NETWORK.weights) - NETWORK.rate * np.array(expected), atol=1e-6)


def test_playing_on_learns_xor() -> None:
    walk = StepsByHand(NETWORK)
    first, last = (walk.at(steps * len(TURNS) + 1).loss for steps in (0, 100))
    assert first > 0.6
    assert last < 0.1
