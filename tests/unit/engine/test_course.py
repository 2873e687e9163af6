"""When a run measures its held-out samples, if nobody says so."""

from __future__ import annotations

import pytest

from clew_agent.engine.course import Course
from clew_agent.training.settings import BatchSettings, Steps


class Settings(BatchSettings, frozen=True, kw_only=True):
    steps: Steps = 1


@pytest.mark.parametrize(
    ("steps", "measured", "times"),
    [
        (1000, 20_000, 20),  # as many as a curve needs: 400,000 samples measured, 100,000 trained
        (500, 20_000, 10),
        (200, 20_000, 5),
        (20, 20_000, 5),
        (20, 360, 20),
        (3, 20_000, 3),
    ],
)
def test_measuring_takes_no_longer_than_training_unless_a_curve_would_have_too_few_points(
    steps: int, measured: int, times: int
) -> None:
    course = Course(Settings(steps=steps, batch_size=100), (), samples=60_000, samples_per_step=100, measured=measured)
    assert course.evaluates
    assert len(range(0, steps, course.evaluation_interval)) == times


def test_each_epoch_ends_with_a_measurement_and_what_is_asked_for_counts() -> None:
    course = Course(Settings(steps=3000, batch_size=100), (), samples=1000, samples_per_step=100, measured=10**6)
    assert course.evaluation_interval == 10
    asked = Settings(steps=3000, batch_size=100, evaluate_every=7)
    assert Course(asked, (), samples=1000, samples_per_step=100, measured=10**6).evaluation_interval == 7
