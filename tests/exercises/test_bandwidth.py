"""Bandwidth and roofline: TensorFlow computes what is counted, and does what is timed as often as it says."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from clew_agent.exercises.devices import bandwidth
from clew_agent.exercises.devices.bandwidth import (
    EXERCISE,
    NETWORKS,
    BandwidthSettings,
    copy,
    network,
    operations,
    product,
    roof,
    seconds,
    sizes,
    traffic,
    triad,
)
from clew_agent.training.exercise import Setup
from clew_shared.journal.events import Evaluation, Event, Log, Schema, Series
from clew_shared.params import Value, build

SMALL: dict[str, Value] = {"megabytes": 1, "rows": 64, "batch_size": 2, "repeats": 1}
BATCH = 3


def setup(**values: Value) -> Setup[BandwidthSettings]:
    return Setup(build(BandwidthSettings, SMALL | values), 1)


def whole_of(measuring: Generator[None, None, float]) -> float:
    """What is returned at the end; it can be stopped before each call but the first."""
    for stops in range(1000):
        try:
            next(measuring)
        except StopIteration as end:
            assert stops >= 5
            return float(end.value)
    raise AssertionError


@pytest.fixture(scope="module")
def measured() -> list[Event]:
    return [event for event in EXERCISE.measure(setup()) if event is not None]


def products(name: str) -> list[Any]:
    """The matrix products and convolutions that TensorFlow traces for a step of a network."""
    step = network(NETWORKS[name], BATCH, setup())
    graph = tf.function(step, autograph=False).get_concrete_function(tf.TensorSpec([], name="state")).graph
    found = [one for one in graph.get_operations() if one.type.startswith(("MatMul", "Conv2D"))]
    return [one for one in found if one.outputs[0].consumers()]  # what nobody uses is not computed


def elements(tensor: tf.Tensor) -> int:
    return int(math.prod(tensor.shape.as_list()))


def count(one: Any) -> int:
    """The multiplications and additions of one of them, by the shapes in the graph."""
    if one.type == "MatMul":
        inner = one.inputs[0].shape[0 if one.get_attr("transpose_a") else 1]
        return 2 * elements(one.outputs[0]) * int(inner)
    kernel, given = {
        "Conv2D": lambda: (one.inputs[1].shape, one.outputs[0]),
        "Conv2DBackpropInput": lambda: (one.inputs[1].shape, one.inputs[2]),
        "Conv2DBackpropFilter": lambda: (one.outputs[0].shape, one.inputs[2]),
    }[one.type]()
    return 2 * elements(given) * int(math.prod(kernel.as_list()[:3]))


@pytest.mark.parametrize("name", NETWORKS)
def test_operations_are_those_of_the_graph(name: str) -> None:
    assert operations(NETWORKS[name], BATCH) == sum(map(count, products(name)))


@pytest.mark.parametrize("name", NETWORKS)
def test_traffic_is_what_the_products_read_and_write_and_the_update(name: str) -> None:
    numbers = [one for op in products(name) for one in (*op.inputs, *op.outputs) if one.dtype == tf.float32]
    weights = sum(layer.weights for layer in NETWORKS[name])
    assert traffic(NETWORKS[name], BATCH) == 4 * (sum(map(elements, numbers)) + 3 * weights)


def test_each_step_is_one_of_training() -> None:
    step = network(NETWORKS["Dense"], BATCH, setup())
    losses = [float(step(tf.zeros([]))) for _ in range(4)]
    assert losses[-1] < losses[0]


def test_the_work_is_what_it_is_called() -> None:
    a, b = tf.constant([1.0, 2.0]), tf.constant([3.0, 5.0])
    assert copy(a).numpy().tolist() == [1.0, 2.0]
    assert triad(a, b).numpy().tolist() == [3.5, 6.0]
    mean = tf.fill([4, 4], 0.25)
    np.testing.assert_allclose(product(tf.ones([4, 4]), mean), np.ones([4, 4]))


@pytest.mark.parametrize("jit", [False, True])
def test_the_time_of_one_is_that_of_all_by_their_number(jit: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = tf.Variable(0)

    def work(state: tf.Tensor) -> tf.Tensor:
        done.assign_add(1)
        return state + 1

    def clock() -> float:
        return float(done) * 1e-4

    monkeypatch.setattr(bandwidth, "perf_counter", clock)
    assert whole_of(seconds(work, tf.zeros([2]), [], 2, jit=jit)) == pytest.approx(1e-4)
    assert int(done) >= 3 * bandwidth.LEAST_S / 1e-4, "a call lasts long enough, and there were three"


def test_everything_is_measured(measured: list[Event]) -> None:
    series = {event.name for event in measured if isinstance(event, Series)}
    assert series == {name for plot in EXERCISE.measured for name in plot.series}
    values = [event.values for event in measured if isinstance(event, Evaluation)]
    assert {name for one in values for name in one} == {metric.name for metric in EXERCISE.metrics}
    assert all(value > 0 for one in values for value in one.values())
    assert [event.steps for event in measured if isinstance(event, Schema)] == [len(values)]


def test_a_product_that_would_take_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "LONGEST_S", 0.0)
    found = [event for event in EXERCISE.measure(setup(rows=16_384)) if event is not None]
    assert sum(isinstance(event, Series) and event.name == "Product" for event in found) == 1
    assert any(isinstance(event, Log) and "so it is left out" in event.text for event in found)
    assert any(isinstance(event, Evaluation) and event.step == 3 for event in found)


def test_the_roof_is_the_bandwidth_up_to_the_ridge_and_the_arithmetic_beyond() -> None:
    found = roof(10.0, 50.0)
    x, y = np.frombuffer(found.x, "<f8"), np.frombuffer(found.y, "<f8")
    assert 5.0 in x
    np.testing.assert_allclose(y, np.where(x < 5, 10 * x, 50.0))


@pytest.mark.parametrize(
    ("first", "last", "factor", "found"),
    [(16, 256, 4, [16, 64, 256]), (16, 300, 4, [16, 64, 256, 300]), (32, 32, 2, [32]), (64, 32, 2, [32])],
)
def test_sizes_grow_by_a_factor_up_to_the_last(first: int, last: int, factor: int, found: list[int]) -> None:
    assert sizes(first, last, factor) == found
