"""The same steps by hand in NumPy, gradients written out: what arithmetic alone costs. No metrics are kept."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tests.bench.measure import Timing
from tests.bench.work import Work

Round = Callable[[], Timing]


def numpy_round(exercise: str, work: Work, _: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    return {"linear-regression": _linear, "softmax": _softmax}[exercise](work)


def _linear(work: Work) -> Round:
    x, y = np.array([1, 2, 3, 4], np.float32), np.array([0, -1, -2, -3], np.float32)

    def run() -> Timing:
        weight, bias = np.float32(0.3), np.float32(-0.3)
        rate = np.float32(0.02)  # twice the rate: the 2 of the gradient
        begin = time.perf_counter()
        for _ in range(work.steps):
            error = weight * x + bias - y
            weight, bias = weight - rate * error.dot(x), bias - rate * error.sum()
        seconds = time.perf_counter() - begin
        return Timing(work.steps, seconds, float(np.sum((weight * x + bias - y) ** 2)))

    return run


def _softmax(work: Work) -> Round:
    def run() -> Timing:
        weight, bias = np.zeros((784, 10), np.float32), np.zeros(10, np.float32)
        begin = time.perf_counter()
        for step in range(work.steps):
            first = step * work.batch_size % len(work.x)
            x, y = (array[first : first + work.batch_size] for array in (work.x, work.one_hot))
            scores = x @ weight + bias
            powers = np.exp(scores - scores.max(1, keepdims=True))
            gradient = (powers / powers.sum(1, keepdims=True) - y) / work.batch_size
            weight -= 0.5 * (x.T @ gradient)
            bias -= 0.5 * gradient.sum(0)
        seconds = time.perf_counter() - begin
        right = np.argmax(work.test_x @ weight + bias, 1) == np.argmax(work.test_one_hot, 1)
        return Timing(work.steps, seconds, float(right.mean()))

    return run
