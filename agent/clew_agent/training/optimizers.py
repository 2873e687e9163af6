"""Keras' optimizers, fed with a learning rate that may change at any step without a new compilation, and the schedules
of that rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from clew_agent.training.settings import TrainingSettings

Schedule = Callable[[tf.Tensor], tf.Tensor]
"""Computes the factor (scalar float64) from the step (scalar int64)."""


def constant(step: tf.Tensor) -> tf.Tensor:
    """Returns 1 at every step."""
    return tf.ones_like(step, tf.float64)


def step_down(every: int, factor: float) -> Schedule:
    """Multiply by ``factor`` after each ``every`` steps."""
    return lambda step: tf.pow(tf.constant(factor, tf.float64), tf.cast(step // every, tf.float64))


def exponential(every: int, factor: float) -> Schedule:
    """Decays by the same factor, spread evenly over the steps."""
    return lambda step: tf.pow(tf.constant(factor, tf.float64), tf.cast(step, tf.float64) / every)


def cosine(steps: int) -> Schedule:
    """Follows half a cosine from 1 to 0 in ``steps`` steps (Loshchilov and Hutter, "SGDR", ICLR 2017, without
    restarts)."""
    return lambda step: 0.5 * (1 + tf.cos(math.pi * tf.minimum(tf.cast(step, tf.float64) / steps, 1)))


def warm_up(over: int, then: Schedule = constant) -> Schedule:
    """Rise evenly to 1 at step ``over - 1``, then go on with ``then``, which counts its own steps from there."""

    def factor(step: tf.Tensor) -> tf.Tensor:
        rising = tf.cast(step + 1, tf.float64) / over
        return tf.where(step < over, rising, then(tf.maximum(step - over, 0)))

    return factor


def make_schedule(settings: TrainingSettings) -> Schedule:
    """The schedule that ``settings`` describes."""
    after_warm_up = max(1, settings.steps - settings.warmup_steps)
    return {
        "constant": constant,
        "step": step_down(settings.decay_every, settings.decay_factor),
        "exponential": exponential(settings.decay_every, settings.decay_factor),
        "cosine": cosine(settings.steps),
        "warmup": warm_up(settings.warmup_steps),
        "warmup-cosine": warm_up(settings.warmup_steps, cosine(after_warm_up)),
    }[settings.schedule]


# --- Optimizers -------------------------------------------------------------------------------------------------------
# Keras' optimizers, fed with a rate that may change at any step without a new compilation.
#
# A Keras optimizer asks a callable for its rate at every update. ``Rate`` is that callable: schedule(step) times the
# live base rate, in float64, so a rate of 0.01 stays exactly 0.01 for variables in float64.


ADAMW_DECAY = 0.004
"""Keras' default weight decay of AdamW."""


class Rate:
    """The learning rate of one optimizer: ``schedule`` times the live hyperparameter called ``name``."""

    def __init__(self, name: str = "learning_rate", schedule: Schedule = constant) -> None:
        self.name = name
        self._schedule = schedule
        self._now: tf.Tensor | None = None

    def set(self, step: tf.Tensor, live: Mapping[str, tf.Tensor]) -> None:
        """Fix the rate for the updates of ``step``, which are about to be computed or traced."""
        base = live[self.name]
        self._now = base if self._schedule is constant else base * self._schedule(step)

    def __call__(self) -> tf.Tensor:
        """The rate (scalar float64) of the step that was set last."""
        if self._now is None:
            raise RuntimeError("the rate was asked for before the first step was set")
        return self._now


class _FusedUpdate:
    """Adam's update as TensorFlow's single kernel: one pass over the weights, which saves 3 to 10 % of a CNN's step."""

    beta_1: float
    beta_2: float
    epsilon: float
    iterations: Any
    _momentums: list[Any]
    _velocities: list[Any]
    _get_variable_index: Callable[[Any], int]

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Does one update by the same formula as Keras: w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) +
        epsilon)."""
        kind = variable.dtype
        index = self._get_variable_index(variable)
        time = tf.cast(self.iterations.value + 1, kind)
        beta_1, beta_2 = tf.constant(self.beta_1, kind), tf.constant(self.beta_2, kind)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=beta_1**time,
            beta2_power=beta_2**time,
            lr=tf.cast(learning_rate, kind),
            beta1=beta_1,
            beta2=beta_2,
            epsilon=tf.constant(self.epsilon, kind),
            grad=tf.cast(gradient, kind),
        )


class FusedAdam(_FusedUpdate, keras.optimizers.Adam):  # type: ignore[misc]  # Keras has no types
    """Keras' Adam with the fused kernel."""


class FusedAdamW(_FusedUpdate, keras.optimizers.AdamW):  # type: ignore[misc]  # Keras has no types
    """Keras' AdamW with the fused kernel."""


class Optimizer:
    """A Keras optimizer together with the rate it is fed with."""

    def __init__(self, rule: Any, rate: Rate) -> None:
        self.rule = rule
        self.rate = rate


def make_optimizer(
    name: str,
    rate: Rate,
    *,
    momentum: float = 0.9,
    weight_decay: float | None = None,
    fused: bool = False,
) -> Optimizer:
    """The optimizer called ``name`` (``settings.OPTIMIZERS``); ``fused`` takes the single kernel where there is one.

    ``weight_decay`` is decoupled from the gradient as in AdamW (Loshchilov and Hutter, ICLR 2019), for every optimizer.
    """
    rules = keras.optimizers
    common: dict[str, Any] = {"learning_rate": rate, "weight_decay": weight_decay or None}
    if name == "adamw":
        common["weight_decay"] = ADAMW_DECAY if weight_decay is None else weight_decay
    makers: dict[str, Callable[[], Any]] = {
        "sgd": lambda: rules.SGD(**common),
        "momentum": lambda: rules.SGD(momentum=float(momentum), **common),
        "nesterov": lambda: rules.SGD(momentum=float(momentum), nesterov=True, **common),
        "adagrad": lambda: rules.Adagrad(**common),
        "adadelta": lambda: rules.Adadelta(**common),
        "rmsprop": lambda: rules.RMSprop(**common),
        "adam": lambda: (FusedAdam if fused else rules.Adam)(**common),
        "adamw": lambda: (FusedAdamW if fused else rules.AdamW)(**common),
        "nadam": lambda: rules.Nadam(**common),
        "ftrl": lambda: rules.Ftrl(**common),
        "lion": lambda: rules.Lion(**common),
    }
    return Optimizer(makers[name](), rate)
