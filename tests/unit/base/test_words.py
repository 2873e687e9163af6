"""States and numbers as the window and the commands say them."""

from __future__ import annotations

import math

import pytest

from clew_gui.base import state_words
from clew_gui.base.state_words import queue_place
from clew_shared.base import number_words
from clew_shared.base.number_words import in_bytes, ordinal
from clew_shared.journal.lifecycle import RunState


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.9079, "percent", "90.79 %"),
        (0.26749, "number", "0.2675"),
        (0.000123456, "number", "0.0001235"),
        (1.23456e-7, "number", "1.23e-07"),
        (math.nan, "percent", "NaN"),
        (math.inf, "number", "∞"),
        (-math.inf, "percent", "-∞"),
    ],
)
def test_values(value: float, form: str, text: str) -> None:
    assert number_words.quantity(value, form) == text


@pytest.mark.parametrize(
    ("speed", "text"),
    [
        (None, ""),
        (0.0, ""),
        (math.nan, ""),
        (182.4, "182 steps/s"),
        (12_345.0, "12,345 steps/s"),
        (30.51, "30.5 steps/s"),
        (9.5, "9.50 steps/s"),
        (0.4213, "0.421 steps/s"),
    ],
)
def test_rates(speed: float | None, text: str) -> None:
    assert number_words.rate(speed) == text


def test_steps_of_batches_have_a_rate_of_samples() -> None:
    assert number_words.rate(3.45, 32) == "3.45 steps/s, 110 samples/s"
    assert number_words.rate(None, 32) == ""


def test_every_state_has_a_word() -> None:
    assert set(state_words.STATE_WORDS) == set(RunState)
    assert state_words.STATE_WORDS[RunState.TIMED_OUT] == "Timed out"


@pytest.mark.parametrize(
    ("value", "base", "form", "text"),
    [
        (0.91, 0.9, "percent", "+1.00 points"),
        (0.5, 0.75, "number", "-0.25"),
        (1.75e-21, 5.72e-11, "number", "×3.1e-11"),
        (40.0, 2.0, "number", "×20"),
        (-1.0, 1.0, "number", "-2"),
        (0.9, 0.01, "percent", "+89.00 points"),
        (0.5, 0.5, "number", "0"),
        (1e300, 5e-324, "number", ""),
        (5e-324, 1e300, "number", ""),
        (None, 0.5, "number", ""),
        (math.nan, 0.5, "number", ""),
    ],
)
def test_values_are_compared_by_a_difference_or_by_how_many_times_one_is_the_other(
    value: float | None, base: float | None, form: str, text: str
) -> None:
    assert number_words.difference(value, base, form) == text


# --- Words that window and commands share -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (102, "102nd"),
        (111, "111th"),
        (1013, "1013th"),
    ],
)
def test_ordinals(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(
    ("place", "text"), [(0, ""), (1, "next in the queue"), (2, "2nd in the queue"), (11, "11th in the queue")]
)
def test_places_in_the_queue(place: int, text: str) -> None:
    assert queue_place(place) == text


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (225_400, "225 kB"),
        (999_600, "1.0 MB"),
        (1_300_000, "1.3 MB"),
        (9_960_000, "10 MB"),
        (12_000_000_000, "12 GB"),
        (10**16, "10000 TB"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_bytes(size) == words
