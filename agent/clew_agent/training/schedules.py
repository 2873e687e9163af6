"""Learning-rate schedules: the factor by which the base rate is multiplied, as a function of the step alone.

Because nothing is remembered from step to step, a resumed run and a run cut into other blocks take the same rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

from clew_agent.training.settings import TrainingSettings

Schedule = Callable[[tf.Tensor], tf.Tensor]
"""From the step (scalar int64) to the factor (scalar float64)."""


def constant(step: tf.Tensor) -> tf.Tensor:
    """1 at every step."""
    return tf.ones_like(step, tf.float64)


def step_down(every: int, factor: float) -> Schedule:
    """Multiply by ``factor`` after each ``every`` steps."""
    return lambda step: tf.pow(tf.constant(factor, tf.float64), tf.cast(step // every, tf.float64))


def exponential(every: int, factor: float) -> Schedule:
    """The same decay, spread evenly over the steps."""
    return lambda step: tf.pow(tf.constant(factor, tf.float64), tf.cast(step, tf.float64) / every)


def cosine(steps: int) -> Schedule:
    """Half a cosine from 1 to 0 in ``steps`` steps (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts)."""
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
