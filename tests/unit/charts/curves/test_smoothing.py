"""The moving average over columns equals the one over samples, and smooth curves are left alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.charts.curves.pixel_columns import ema, is_noisy, smoothed, window_for
from clew_gui.charts.kit.layout import FloatArray
from clew_shared.journal.history import History
from clew_shared.journal.pyramid import Pyramid
from tests.recording import record


def ema_by_sample(values: FloatArray, window: float) -> FloatArray:
    """The definition, one sample after the other."""
    a, total, weight, result = 2 / (window + 1), 0.0, 0.0, []
    for value in values:
        total = (1 - a) * total + a * value
        weight = (1 - a) * weight + a
        result.append(total / weight)
    return np.array(result)


@given(st.integers(2, 200), st.floats(1.5, 5000), st.integers(0, 2**32 - 1))
def test_one_sample_per_column_is_the_plain_average(size: int, window: float, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=size)
    smoothed = ema(values, np.ones(size, np.int64), window)
    assert smoothed == pytest.approx(ema_by_sample(values, window), rel=1e-9, abs=1e-9)


@given(st.lists(st.integers(1, 40), min_size=2, max_size=60), st.floats(1.5, 300), st.integers(0, 2**32 - 1))
def test_columns_of_many_samples_count_as_many(counts: list[int], window: float, seed: int) -> None:
    means = np.random.default_rng(seed).normal(size=len(counts))
    by_sample = ema_by_sample(np.repeat(means, counts), window)[np.cumsum(counts) - 1]
    assert ema(means, np.array(counts), window) == pytest.approx(by_sample, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("amount", "total", "window"),
    [(0.0, 25_000, 1.0), (0.6, 500, 29.0), (0.6, 25_000, 274.4), (1.0, 1024, 512.0), (0.5, 1, 1.0)],
)
def test_the_slider_fits_short_and_long_runs(amount: float, total: float, window: float) -> None:
    assert window_for(amount, total) == pytest.approx(window, rel=0.01)


def test_the_window_does_not_creep_while_a_run_grows() -> None:
    assert len({window_for(0.6, total) for total in range(4097, 8192, 100)}) == 1


def test_what_is_noisy() -> None:
    x = np.arange(400.0)
    noise = np.random.default_rng(0).normal(size=400)
    assert is_noisy(np.exp(-x / 50) + 0.05 * noise)
    assert not is_noisy(np.exp(-x / 50))
    assert not is_noisy(np.full(400, 3.0))
    assert not is_noisy(np.array([1.0, 2.0, 1.0]))
    assert is_noisy((-1.0) ** x * 1e308)


def recorded(values: FloatArray) -> Pyramid:
    history = History()
    record(history, "loss", 0, values, dtype="float64")
    curve = history.pyramid("loss")
    assert curve is not None
    return curve


def shown(curve: Pyramid, edges: FloatArray, window: float, log: bool = False) -> tuple[FloatArray, FloatArray]:
    """Places and heights of the line."""
    columns = curve.view(edges)
    return columns.x, smoothed(curve, columns, edges, window, log)


def test_the_average_does_not_depend_on_the_zoom() -> None:
    rng = np.random.default_rng(3)
    curve = recorded(np.exp(-np.arange(20_000) / 4000) + rng.normal(0, 0.1, 20_000))
    whole, part = np.linspace(0, 20_000, 801), np.linspace(9000, 10_000, 801)
    at = np.interp(9600, *shown(curve, whole, 400))
    assert np.interp(9600, *shown(curve, part, 400)) == pytest.approx(at, abs=0.01)


def test_on_a_log_axis_the_average_follows_what_the_axis_shows() -> None:
    steps = np.arange(1000.0)
    curve = recorded(10 ** (-steps / 50) * (1.5 + np.cos(steps)))
    edges = np.linspace(0, 1000, 501)
    x, line = shown(curve, edges, 60, log=True)
    late = x > 300
    lag = np.log10(line[late]) + x[late] / 50
    assert np.all(np.abs(lag - lag.mean()) < 0.1)
    assert np.all(lag < 1.0)
    assert np.log10(shown(curve, edges, 60)[1][late][-1]) + x[late][-1] / 50 > 5


def test_zero_has_no_logarithm_and_is_held_at_the_smallest_value() -> None:
    _, line = shown(recorded(np.array([1.0, 0.1, 0.0, 0.1] * 10)), np.linspace(0, 40, 41), 5, log=True)
    assert np.all(np.isfinite(line))
    assert np.all(line > 0)
    _, nothing = shown(recorded(np.zeros(40)), np.linspace(0, 40, 41), 5, log=True)
    assert np.all(nothing == 0)
