"""The same steps in JAX: all steps in one ``lax.scan`` with every step's metrics, of ``cnn`` one jitted step a call."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tests.bench.work import Round, Work

jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")


def jax_round(exercise: str, work: Work, _: bool) -> Round:
    """A function that trains ``work.steps`` steps from fresh weights."""
    return {"linear-regression": _linear, "softmax": _softmax, "cnn": _cnn}[exercise](work)


def _linear(work: Work) -> Round:
    x, y = jnp.array([1.0, 2, 3, 4]), jnp.array([0.0, -1, -2, -3])

    def loss(weights: Any) -> Any:
        return jnp.sum((weights[0] * x + weights[1] - y) ** 2)

    def step(weights: Any, _: Any) -> tuple[Any, Any]:
        value, gradient = jax.value_and_grad(loss)(weights)
        return weights - 0.01 * gradient, (value, weights)

    steps = jax.jit(lambda weights: jax.lax.scan(step, weights, None, length=work.steps))
    return work.round(
        lambda: jnp.array([0.3, -0.3]), lambda fresh: _with_metrics(steps(fresh)), lambda weights: float(loss(weights))
    )


def _with_metrics(trained: tuple[Any, Any]) -> Any:
    weights, metrics = trained
    jax.tree.map(np.asarray, metrics)
    return weights


def _softmax(work: Work) -> Round:
    batches = len(work.x) // work.batch_size
    x = jnp.asarray(work.x).reshape(batches, work.batch_size, 784)
    y = jnp.asarray(work.one_hot).reshape(batches, work.batch_size, 10)

    def loss(weights: Any, x: Any, y: Any) -> tuple[Any, Any]:
        scores = x @ weights[0] + weights[1]
        right = jnp.mean(jnp.argmax(scores, 1) == jnp.argmax(y, 1))
        return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(scores), 1)), right

    def train(weights: Any, x: Any, y: Any) -> tuple[Any, Any]:
        def step(weights: Any, number: Any) -> tuple[Any, Any]:
            place = number % batches
            values, gradients = jax.value_and_grad(loss, has_aux=True)(weights, x[place], y[place])
            return tuple(w - 0.5 * g for w, g in zip(weights, gradients, strict=True)), values

        return jax.lax.scan(step, weights, jnp.arange(work.steps))  # type: ignore[no-any-return]

    steps = jax.jit(train)
    return work.round(
        lambda: (jnp.zeros((784, 10)), jnp.zeros(10)),
        lambda fresh: _with_metrics(steps(fresh, x, y)),
        lambda weights: work.accuracy(work.test_x @ np.asarray(weights[0]) + np.asarray(weights[1])),
    )


def _scores(p: Any, images: Any, key: Any = None) -> Any:
    def layer(x: Any, weight: Any, bias: Any) -> Any:
        form = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=form) + bias)
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME")

    x = layer(layer(images, p[0], p[1]), p[2], p[3])
    x = jax.nn.relu(x.reshape(-1, 3136) @ p[4] + p[5])
    if key is not None:
        x = jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x * 2, 0)
    return x @ p[6] + p[7]


def _cnn(work: Work) -> Round:
    x, y = jnp.asarray(work.x).reshape(-1, 28, 28, 1), jnp.asarray(work.one_hot)
    test_x, scores = jnp.asarray(work.test_x).reshape(-1, 28, 28, 1), jax.jit(_scores)

    def loss(p: Any, x: Any, y: Any, key: Any) -> Any:
        return -jnp.mean(jnp.sum(y * jax.nn.log_softmax(_scores(p, x, key)), 1))

    def step(state: Any, number: Any, x: Any, y: Any) -> Any:
        p, m, v, key = state
        key, mask = jax.random.split(key)
        first = number * work.batch_size % len(work.x)
        batch = [jax.lax.dynamic_slice_in_dim(array, first, work.batch_size) for array in (x, y)]
        g = jax.grad(loss)(p, *batch, mask)
        m, v = [0.9 * a + 0.1 * b for a, b in zip(m, g, strict=True)], _squares(v, g)
        rate = 1e-4 * jnp.sqrt(1 - 0.999 ** (number + 1.0)) / (1 - 0.9 ** (number + 1.0))
        return [a - rate * b / (jnp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v, strict=True)], m, v, key

    compiled = jax.jit(step, donate_argnums=0)

    def fresh() -> Any:
        p = _initial()
        return p, [jnp.zeros_like(a) for a in p], [jnp.zeros_like(a) for a in p], jax.random.key(1)

    def train(state: Any) -> Any:
        for number in range(work.steps):
            state = compiled(state, number, x, y)
        return jax.block_until_ready(state)

    return work.round(fresh, train, lambda state: work.accuracy(scores(state[0], test_x)))


def _squares(v: Any, g: Any) -> list[Any]:
    return [0.999 * a + 0.001 * b * b for a, b in zip(v, g, strict=True)]


def _initial() -> list[Any]:
    shapes = ((5, 5, 1, 32), (5, 5, 32, 64), (3136, 1024), (1024, 10))
    keys = jax.random.split(jax.random.key(0), len(shapes))
    drawn = [0.1 * jax.random.truncated_normal(key, -2, 2, shape) for key, shape in zip(keys, shapes, strict=True)]
    return [part for weight in drawn for part in (weight, jnp.full(weight.shape[-1], 0.1))]
