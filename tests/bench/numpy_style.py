"""The same steps by hand in NumPy, gradients written out: what arithmetic alone costs. No metrics are kept."""

from __future__ import annotations

import numpy as np

from tests.bench.work import Floats, Round, Work


def numpy_round(exercise: str, work: Work, _: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    return {"linear-regression": _linear, "softmax": _softmax}[exercise](work)


def _linear(work: Work) -> Round:
    x, y = np.array([1, 2, 3, 4], np.float32), np.array([0, -1, -2, -3], np.float32)
    rate = np.float32(0.02)  # twice the rate: the 2 of the gradient

    def train(line: tuple[np.float32, np.float32]) -> Floats:
        weight, bias = line
        for _ in range(work.steps):
            error = weight * x + bias - y
            weight, bias = weight - rate * error.dot(x), bias - rate * error.sum()
        return weight * x + bias - y

    return work.round(lambda: (np.float32(0.3), np.float32(-0.3)), train, lambda error: float(np.sum(error**2)))


def _softmax(work: Work) -> Round:
    def train(layer: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        weight, bias = layer
        for step in range(work.steps):
            first = step * work.batch_size % len(work.x)
            x, y = (array[first : first + work.batch_size] for array in (work.x, work.one_hot))
            scores = x @ weight + bias
            powers = np.exp(scores - scores.max(1, keepdims=True))
            gradient = (powers / powers.sum(1, keepdims=True) - y) / work.batch_size
            weight -= 0.5 * (x.T @ gradient)
            bias -= 0.5 * gradient.sum(0)
        return weight, bias

    return work.round(
        lambda: (np.zeros((784, 10), np.float32), np.zeros(10, np.float32)),
        train,
        lambda layer: work.accuracy(work.test_x @ layer[0] + layer[1]),
    )
