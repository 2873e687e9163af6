"""Ranges, ticks and the words on them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.charts.kit.ticks import (
    Span,
    XUnit,
    images_tick_text,
    keep_span,
    linear_ticks,
    log_tick_text,
    log_ticks,
    seconds_text,
    seconds_tick_text,
    settled_span,
    value_text,
    x_span,
    x_ticks,
)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.9079, "percent", "90.79 %"),
        (1.0, "percent", "100.00 %"),
        (0.30149, "number", "0.301"),
        (2.30258, "number", "2.30"),
        (41.26, "number", "41.3"),
        (1893.04, "number", "1,893"),
        (0.00123456, "number", "0.00123"),
        (5.72e-11, "number", "5.72e-11"),
        (-1.0, "number", "-1.00"),
        (1e150, "number", "1.00e150"),
        (0.0, "number", "0"),
        (math.nan, "percent", "NaN"),
        (-math.inf, "number", "-∞"),
    ],
)
def test_values_as_people_read_them(value: float, form: Literal["number", "percent"], text: str) -> None:
    assert value_text(value, form) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.417, "0.42 s"), (41.26, "41.3 s"), (59.96, "60.0 s"), (725, "12:05"), (11_240, "3:07:20")]
)
def test_durations(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def texts(ticks: tuple[object, ...]) -> list[str]:
    return [getattr(tick, "text", "") for tick in ticks]


@pytest.mark.parametrize(
    ("low", "high", "form", "expected"),
    [
        (0.832, 0.93, "percent", ["84 %", "86 %", "88 %", "90 %", "92 %"]),
        (0.0, 1.06, "percent", ["0", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (0.873, 0.925, "percent", ["88 %", "89 %", "90 %", "91 %", "92 %"]),
        (-1.1, 1.05, "number", ["-1.0", "-0.5", "0", "0.5", "1.0"]),
        (0.0, 26_000.0, "number", ["0", "5,000", "10,000", "15,000", "20,000", "25,000"]),
    ],
)
def test_linear_ticks(low: float, high: float, form: Literal["number", "percent"], expected: list[str]) -> None:
    assert texts(linear_ticks(Span(low, high), 6, form)) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.235, 0.9, ["0.3", "0.4", "0.6", "0.8"]),
        (1e-6, 200.0, ["1e-6", "0.0001", "0.01", "1", "100"]),
        (1e-11, 200.0, ["1e-10", "1e-8", "1e-6", "0.0001", "0.01", "1", "100"]),
        (0.26, 0.31, ["0.26", "0.27", "0.28", "0.29", "0.3", "0.31"]),
        (0.262, 0.281, ["0.265", "0.27", "0.275", "0.28"]),
        (30.0, 250.0, ["30", "40", "60", "80", "100", "150", "200"]),
    ],
)
def test_log_ticks(low: float, high: float, expected: list[str]) -> None:
    assert texts(log_ticks(Span(math.log10(low), math.log10(high)), 6)) == expected


@given(st.floats(-300, 300), st.floats(1e-3, 600), st.integers(2, 6))
def test_log_ticks_never_fail_and_stay_inside(low: float, size: float, at_most: int) -> None:
    span = Span(low, min(low + size, 305.0))
    if span.size <= 0:
        return
    ticks = log_ticks(span, at_most)
    assert len(ticks) <= at_most + 1
    assert all(span.low - 1e-6 <= tick.at <= span.high + 1e-6 for tick in ticks)
    assert sorted(tick.at for tick in ticks) == [tick.at for tick in ticks]


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 8))
def test_linear_ticks_are_few_distinct_and_inside(low: float, size: float, at_most: int) -> None:
    span = Span(low, low + size)
    if span.size < 1e-9 * abs(low):
        return
    ticks = linear_ticks(span, at_most)
    assert len(ticks) <= at_most + 1
    slack = 1e-6 * span.size
    assert all(span.low - slack <= tick.at <= span.high + slack for tick in ticks)


def test_log_labels_do_not_touch_on_a_short_axis() -> None:
    ticks = log_ticks(Span(-1.0, 1.0), 6, least_gap=0.3)
    assert all(b.at - a.at >= 0.3 for a, b in pairwise(ticks))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "1"), (0.25, "0.25"), (150.0, "150"), (1e-4, "0.0001"), (1e-5, "1e-5"), (1e-9, "1e-9"), (2e8, "2e8")],
)
def test_log_labels(value: float, text: str) -> None:
    assert log_tick_text(value) == text


def test_ticks_of_time_and_images() -> None:
    assert texts(x_ticks(Span(0, 140), 6, XUnit.SECONDS, False)) == ["0", "0:30", "1:00", "1:30", "2:00"]
    assert texts(x_ticks(Span(0, 0.9), 5, XUnit.SECONDS, False)) == ["0", "0.2 s", "0.4 s", "0.6 s", "0.8 s"]
    assert images_tick_text(500_000, 500_000) == "0.5\u202fM"
    assert seconds_tick_text(7200, 3600) == "2:00:00"
    assert texts(x_ticks(Span(0, 3.4), 8, XUnit.STEP, False)) == ["0", "1", "2", "3"]
    assert texts(x_ticks(Span(20, 32), 5, XUnit.STEP, False)) == ["20", "25", "30"], "no step 27.5"


def test_the_planned_end_fixes_the_x_axis_and_without_a_plan_it_grows_in_steps() -> None:
    assert x_span(10, 25_000, False, 1) == Span(0, 25_750)
    assert len({x_span(n, 0, False, 1) for n in range(1000, 1060)}) <= 2
    logarithmic = x_span(10_000, 10_000, True, 1)
    assert logarithmic.low == 0
    assert 4 < logarithmic.high < 4.1


def test_the_first_approach_is_cut_where_it_would_dwarf_the_rest() -> None:
    x = np.arange(200.0)
    accuracy = 0.92 - 0.8 * np.exp(-x / 8)
    span = settled_span(accuracy, "higher", log=False)
    assert span is not None
    assert 0.6 < span.low < 0.92
    assert settled_span(accuracy, "none", log=False) == Span(accuracy.min(), accuracy.max())


def test_a_diverged_run_does_not_squeeze_the_others() -> None:
    weights = np.concatenate((np.linspace(0.3, -1, 100), 3.0 ** np.arange(60)))
    span = settled_span(weights, "none", log=False)
    assert span is not None
    assert span.high < 50
    losses = np.concatenate((np.linspace(1, -10, 100), np.linspace(1, 300, 60)))
    span = settled_span(losses, "lower", True, np.array([1.0, 1.0]))
    assert span is not None
    assert span.high <= 5


@pytest.mark.parametrize(("values", "low", "high"), [([0.5], 0.45, 0.55), ([0.0, 0.0], -1.0, 1.0), ([], None, None)])
def test_one_value_gets_a_range_too(values: list[float], low: float | None, high: float | None) -> None:
    span = settled_span(np.array(values), "none", log=False)
    assert (span.low, span.high) == pytest.approx((low, high)) if span is not None else low is None


def test_a_value_axis_keeps_still_while_it_fits() -> None:
    first = keep_span(None, Span(0.0, 1.0))
    assert keep_span(first, Span(0.02, 1.01)) is first
    assert keep_span(first, Span(0.0, 2.0)).contains(Span(0.0, 2.0))
    assert keep_span(first, Span(0.0, 0.3)).size < 0.5
