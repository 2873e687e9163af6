"""Schedules as tables of (step, factor)."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from clew_agent.training.optimizers import make_schedule
from clew_agent.training.settings import SCHEDULES, TrainingSettings

NUMBERS: dict[str, Any] = {"steps": 100, "decay_every": 10, "decay_factor": 0.5, "warmup_steps": 20}
TABLE = {
    "constant": {0: 1.0, 99: 1.0},
    "step": {0: 1.0, 9: 1.0, 10: 0.5, 19: 0.5, 20: 0.25},
    "exponential": {0: 1.0, 5: 0.5**0.5, 10: 0.5, 20: 0.25},
    "cosine": {0: 1.0, 50: 0.5, 25: 0.8535533905932737, 100: 0.0, 150: 0.0},
    "warmup": {0: 0.05, 9: 0.5, 19: 1.0, 20: 1.0, 99: 1.0},
    "warmup-cosine": {0: 0.05, 19: 1.0, 20: 1.0, 60: 0.5, 100: 0.0},
}


def test_the_table_covers_every_schedule() -> None:
    assert list(TABLE) == [choice.value for choice in SCHEDULES]


@pytest.mark.parametrize("name", TABLE)
def test_the_factor_is_a_function_of_the_step(name: str) -> None:
    schedule = make_schedule(TrainingSettings(schedule=name, **NUMBERS))
    seen = {step: float(schedule(tf.constant(step, tf.int64))) for step in TABLE[name]}
    assert seen == pytest.approx(TABLE[name], abs=1e-15)


def test_a_warm_up_longer_than_the_run_never_ends() -> None:
    schedule = make_schedule(TrainingSettings(schedule="warmup-cosine", steps=10, warmup_steps=20))
    assert float(schedule(tf.constant(9, tf.int64))) == pytest.approx(0.5)
