"""Perceptron: its points are what they are called, its gradients are those of NumPy, and XOR needs a hidden layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from clew_agent.exercises.perceptron import EDGE, EXERCISE, GRID, LOOKED_AT, RANGE, PerceptronSettings, make_sets, xor
from clew_agent.strategies.base import Rows
from clew_agent.training.exercise import Batch, Model, Setup
from clew_agent.training.random import StepContext
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import find_card, load_builtin
from clew_shared.goal_settings import unmet
from clew_shared.params import Value, build, defaults
from tests.exercises.training import make_engine, train

CONTEXT = StepContext(1, tf.constant(0, tf.int64), {}, Rows(1, 1))
Array = npt.NDArray[np.floating[Any]]


def made(**values: Value) -> Model:
    return EXERCISE.build(Setup(build(PerceptronSettings, values), 1))


def points(shape: str, seed: int = 1) -> tuple[Array, npt.NDArray[np.generic]]:
    """The test points without noise."""
    test = make_sets(build(PerceptronSettings, {"shape": shape, "noise": 0.0}), seed)["test"]
    return test.x.astype(np.float64), test.y


# --- Points -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["xor", "circles", "moons", "spirals", "blobs"])
def test_half_of_the_points_are_of_each_class_and_each_seed_has_its_own(shape: str) -> None:
    x, y = points(shape)
    assert np.bincount(y.astype(np.int64)).tolist() == [250, 250]
    assert not np.array_equal(x, points(shape, 2)[0])
    if shape != "blobs":
        assert np.abs(x).max() <= 1


def test_the_classes_lie_as_they_are_called() -> None:
    x, y = points("xor")
    np.testing.assert_array_equal(y, x[:, 0] * x[:, 1] < 0)
    x, y = points("circles")
    np.testing.assert_array_equal(y, np.hypot(*x.T) < 0.575)
    x, y = points("spirals")
    radius = np.hypot(*x.T)
    angle = np.arctan2(x[:, 1], x[:, 0]) - 3 * np.pi * radius
    np.testing.assert_allclose(np.cos(angle), np.where(y == 1, -1, 1), atol=1e-5)


def test_the_best_line_for_xor_is_right_where_the_hint_says() -> None:
    """All lines in small steps: which shares of the four quarters are on the right side of the best one?"""
    train_set = make_sets(build(PerceptronSettings, {"points": 5000}), 1)["train"]
    x, y = train_set.x.astype(np.float64), train_set.y
    angles = np.linspace(0, 2 * np.pi, 90, endpoint=False)
    along = x @ np.stack([np.cos(angles), np.sin(angles)])
    right = (along[:, :, None] > np.linspace(0, 1, 50)) == (y == 1)[:, None, None]
    best = right.reshape(len(x), -1)[:, right.mean(0).argmax()]
    quarter = 2 * (x[:, 0] > 0) + (x[:, 1] > 0)
    shares = sorted(float(best[quarter == one].mean()) for one in range(4))
    assert shares[0] < 0.1
    assert 0.7 < shares[1] < 0.9, "about four fifths of the corner"
    assert shares[2] > 0.9, "nearly all of two quarters"
    assert float(best.mean()) == pytest.approx(2 / 3, abs=0.03)


def test_ones_own_points_train_and_test_the_network_and_are_of_both_classes() -> None:
    sets = make_sets(build(PerceptronSettings, {"shape": "own", "own": "0.5,-1,1  0,0.25,0"}), 1)
    for name in ("train", "validation", "test"):
        assert sets[name].x.tolist() == [[0.5, -1], [0, 0.25]]
        assert sets[name].y.tolist() == [1, 0]
    with pytest.raises(ProblemError, match="There are no points of your own yet"):
        build(PerceptronSettings, {"shape": "own"})
    with pytest.raises(ProblemError, match="Your own points are all of one class") as found:
        build(PerceptronSettings, {"shape": "own", "own": "0,0,1 0.5,0,1"})
    assert found.value.problems[0].hint == "Set at least one point of each class."


def test_no_goal_is_about_ones_own_points_and_each_says_so() -> None:
    card = find_card(load_builtin().exercises, "perceptron")
    values = defaults(card.params) | {"shape": "own", "own": "0,0,0 1,1,1"}
    said = {unmet(goal, [values], card, {}) for goal in card.goals}
    assert said == {"points is Your own"}


# --- Network ----------------------------------------------------------------------------------------------------------

BENDS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (np.tanh, lambda a: 1 - np.tanh(a) ** 2),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), lambda a: np.exp(-a) / (1 + np.exp(-a)) ** 2),
    "relu": (lambda a: np.maximum(a, 0), lambda a: (a > 0) * 1.0),
    "linear": (lambda a: a, np.ones_like),
}


def backpropagated(model: Model, activation: str, x: Array, y: Array, l2: float) -> list[Array]:
    """The gradients of the mean cross-entropy and the penalty, layer by layer as the slides have them."""
    bend, slope = BENDS[activation]
    variables = [one.numpy().astype(np.float64) for one in model.parts[0].variables.values()]
    weights, offsets = variables[::2], variables[1::2]
    sums, values = [], [x]
    for w, b in zip(weights, offsets, strict=True):
        sums.append(values[-1] @ w + b)
        values.append(bend(sums[-1]))
    delta = (1 / (1 + np.exp(-sums[-1])) - y[:, None]) / len(x)
    found: list[Array] = []
    for k in reversed(range(len(weights))):
        found[:0] = [values[k].T @ delta + 2 * l2 * weights[k], delta.sum(0)]
        delta = delta @ weights[k].T * slope(sums[k - 1]) if k else delta
    return found


@pytest.mark.parametrize("activation", list(BENDS))
@pytest.mark.parametrize("layers", [0, 1, 3])
def test_gradients_are_those_of_backpropagation_by_hand(activation: str, layers: int) -> None:
    model = made(activation=activation, layers=layers, units=3, l2=0.01)
    assert model.train is not None
    x, y = model.train.x[:20].astype(np.float32), model.train.y[:20].astype(np.int32)
    with tf.GradientTape() as tape:
        loss = model.parts[0].loss(Batch(tf.constant(x), tf.constant(y), tf.range(20)), CONTEXT).value
    found = tape.gradient(loss, list(model.parts[0].variables.values()))
    for one, expected in zip(
        found, backpropagated(model, activation, x.astype(np.float64), y.astype(np.float64), 0.01), strict=True
    ):
        np.testing.assert_allclose(one, expected, atol=1e-6)


def test_no_line_gets_more_than_two_thirds_of_xor() -> None:
    """The best one cuts a corner off; of 20,000 points."""
    y = np.arange(20_000) % 2
    x = xor(np.random.default_rng(1), y)
    best = 0.0
    for angle in np.linspace(0, np.pi, 24, endpoint=False):
        along = x @ [np.cos(angle), np.sin(angle)]
        shares = [np.mean((along > at) == y) for at in np.linspace(-1.4, 1.4, 29)]
        best = max(best, *shares, *(1 - share for share in shares))
    assert best == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.parametrize("activation", ["linear", "tanh"])
def test_hidden_units_get_xor_if_they_bend(activation: str) -> None:
    engine = make_engine(EXERCISE, {"activation": activation, "steps": 1000})
    train(engine)
    accuracy = engine.evaluate()["test_accuracy"]
    assert (accuracy > 0.95) == (activation == "tanh"), accuracy
    assert accuracy > 0.95 or accuracy < 0.7


def test_units_that_begin_alike_stay_alike() -> None:
    model = made(initial="zero", activation="sigmoid", points=15)
    variables = list(model.parts[0].variables.values())
    assert model.train is not None
    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = model.parts[0].loss(Batch(model.train.x, model.train.y, tf.range(15)), CONTEXT).value
        for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(slope)
    weights = variables[0].numpy()
    assert np.abs(weights).max() > 0
    np.testing.assert_allclose(weights, np.repeat(weights[:, :1], 4, 1), rtol=1e-5)


# --- Pictures ---------------------------------------------------------------------------------------------------------


def test_the_answer_is_shown_where_its_point_is() -> None:
    """The map's upper left is the plane's."""
    model = made(layers=0)
    weights, offset = (one.numpy() for one in model.parts[0].variables.values())
    values, x, y = model.pictures["answer"]()
    assert model.train is not None
    np.testing.assert_array_equal(x, model.train.x)
    np.testing.assert_array_equal(y, model.train.y)
    middle = EDGE * (1 - 1 / values.shape[1])
    for row, column, at in ((0, 0, (-middle, middle)), (0, -1, (middle, middle)), (-1, 0, (-middle, -middle))):
        expected = 1 / (1 + np.exp(-(at @ weights + offset)))
        np.testing.assert_allclose(values[0, row, column], expected[0], rtol=1e-5)


def test_each_unit_has_a_map_in_the_row_of_its_layer() -> None:
    assert made(units=5).pictures["units"]().shape[:1] == (5,)
    assert made(units=5, layers=2).pictures["units"]().shape[:2] == (2, 5)
    assert "units" not in made(layers=0).pictures
    for activation in ("tanh", "sigmoid", "relu", "linear"):
        values = made(activation=activation).pictures["units"]().numpy()
        assert values.min() >= 0
        assert values.max() <= 1


@pytest.mark.parametrize(
    ("across", "up", "names"), [(1, 2, ("layer1", "layer1")), (3, 9, ("layer1_offset", "output_offset"))]
)
def test_the_loss_surface_has_the_loss_where_the_two_weights_are(across: int, up: int, names: tuple[str, str]) -> None:
    model = made(units=2, across=across, up=up, l2=0.01)
    variables, step = model.parts[0].variables, 2 * RANGE / (GRID - 1)
    places = ((0, 0), (1, 0)) if across == 1 else ((0,), (0,))
    for name, place, value in zip(names, places, (3 * step, -2 * step), strict=True):
        changed = variables[name].numpy()
        changed[place] = value
        variables[name].assign(changed)
    losses, present = model.pictures["loss"]()
    np.testing.assert_allclose(present, [3 * step, -2 * step])
    assert model.train is not None
    x, y = tf.constant(model.train.x[:LOOKED_AT]), tf.constant(model.train.y[:LOOKED_AT])
    expected = model.parts[0].loss(Batch(x, y, tf.range(LOOKED_AT)), CONTEXT).value
    middle = GRID // 2
    np.testing.assert_allclose(losses[middle - 2, middle + 3], expected, rtol=1e-5)


def test_a_weight_that_the_network_does_not_have_is_refused() -> None:
    made(units=2, up=9)
    with pytest.raises(ProblemError, match="has 9 weights and offsets, so it has no weight 10") as found:
        made(units=2, up=10)
    assert found.value.problems[0].hint == "Choose a number from 1 to 9."
