"""Curves drawn with braille dots."""

from __future__ import annotations

import numpy as np
import pytest

from clew_gui.commands.output.braille import plot

BLANK = " "


def dots(lines: tuple[str, ...]) -> int:
    return sum((ord(char) - 0x2800).bit_count() for line in lines for char in line if char != BLANK)


def test_a_falling_line_runs_from_the_upper_left_to_the_lower_right() -> None:
    picture = plot(np.array([0.0, 7.0]), np.array([1.0, 0.0]), width=4, height=2, last_step=7)
    assert picture.lines == ("⠑⢄  ", "  ⠑⢄")
    assert (picture.top, picture.bottom) == (1.0, 0.0)


def test_one_spike_among_ten_thousand_steps_is_drawn() -> None:
    values = np.zeros(10_000)
    values[4321] = 1.0
    picture = plot(np.arange(10_000.0), values, width=20, height=3, last_step=10_000)
    assert picture.lines[0].strip(BLANK), "the spike's top"
    assert len(picture.lines[0].strip(BLANK)) <= 2


def test_a_logarithmic_plot_makes_an_exponential_straight() -> None:
    steps = np.arange(8.0)
    straight = plot(steps, -steps, width=4, height=2, last_step=7)
    assert plot(steps, 10.0**-steps, width=4, height=2, last_step=7, log=True).lines == straight.lines


def test_a_run_that_has_only_begun_leaves_the_rest_empty() -> None:
    picture = plot(np.arange(10.0), np.arange(10.0), width=20, height=2, last_step=100)
    assert all(not line[3:].strip(BLANK) for line in picture.lines)


@pytest.mark.parametrize("values", [[], [np.nan, np.nan], [np.inf], [-1.0]])
def test_what_cannot_be_drawn_is_blank(values: list[float]) -> None:
    picture = plot(np.arange(float(len(values))), np.array(values), width=5, height=2, last_step=3, log=True)
    assert picture.lines == (BLANK * 5, BLANK * 5)
    assert np.isnan(picture.top)


def test_values_that_are_not_finite_leave_the_others_visible() -> None:
    picture = plot(np.arange(4.0), np.array([2.0, np.nan, np.inf, 1.0]), width=2, height=1, last_step=3)
    assert (picture.top, picture.bottom) == (2.0, 1.0)
    assert dots(picture.lines) >= 2


def test_a_constant_curve_is_one_line() -> None:
    picture = plot(np.arange(8.0), np.full(8, 3.0), width=4, height=2, last_step=7)
    assert picture.lines == ("⠉⠉⠉⠉", "    ")


def test_a_gap_in_the_journal_is_a_gap_in_the_curve_but_evaluations_are_joined() -> None:
    whole = np.arange(100.0)
    kept = np.r_[0:30, 70:100].astype(float)
    assert " " not in plot(whole, whole * 0 + 1, 50, 1, 100).lines[0].strip()
    assert " " * 10 in plot(kept, kept * 0 + 1, 50, 1, 100).lines[0].strip()
    lost = np.where((whole >= 30) & (whole < 70), np.nan, 1.0)
    assert " " * 10 in plot(whole, lost, 50, 1, 100).lines[0].strip()
    evaluated = np.array([0.0, 50.0, 99.0])
    assert " " not in plot(evaluated, evaluated * 0 + 1, 50, 1, 100).lines[0].strip()


def test_a_noisy_curve_is_a_line_between_its_bounds_and_no_block() -> None:
    steps = np.arange(6000, dtype=np.float64)
    noise = np.where(steps % 2 == 0, 1.0, -1.0)
    noise[3000] = 9.0
    picture = plot(steps, noise, width=30, height=8, last_step=6000)
    assert picture.top == 9.0
    assert sum(letter != " " for letter in picture.lines[0]) == 1, "one spike, and it is seen"
    full = sum(letter == "\u28ff" for line in picture.lines for letter in line)
    assert full == 0
