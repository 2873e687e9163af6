"""The pyramid keeps every extreme, however many samples it holds and however they arrive."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.curves.pyramid import BLOCK, Pyramid, Steps
from clew_gui.plotting.curves.series import CachedView


def filled(values: FloatArray, pieces: int = 1) -> Pyramid:
    pyramid = Pyramid()
    first = 0
    for piece in np.array_split(values, pieces):
        pyramid.append_run(first, piece)
        first += piece.size
    return pyramid


@given(
    st.integers(1, 6000),
    st.integers(1, 300),
    st.integers(1, 40),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_a_view_has_the_extremes_of_all_samples_inside(
    samples: int, columns: int, pieces: int, logarithmic: bool, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(size=samples)
    pyramid = filled(values, pieces)
    edges = np.geomspace(0.5, samples + 1, columns + 1) if logarithmic else np.linspace(0, samples + 1, columns + 1)
    view = pyramid.view(edges)
    inside = values[1:] if logarithmic and samples > 1 else values
    if logarithmic and samples == 1:
        assert view.x.size == 0
        return
    assert view.low.min() == pytest.approx(inside.min()) or view.low.min() == values.min()
    assert view.high.max() == pytest.approx(inside.max()) or view.high.max() == values.max()
    assert np.all(view.low <= view.mean + 1e-12)
    assert np.all(view.mean <= view.high + 1e-12)
    assert np.all(np.diff(view.x) > 0)


def test_columns_finer_than_samples_are_the_samples() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    view = filled(values).view(np.linspace(0, 5, 51))
    assert view.x.tolist() == [0, 1, 2, 3, 4]
    assert view.mean.tolist() == values.tolist()
    assert view.samples.tolist() == [1] * 5


def test_one_spike_in_a_million_is_seen() -> None:
    values = np.zeros(1_000_000, np.float32)
    values[654_321] = 7.0
    pyramid = Pyramid(np.float32)
    pyramid.append_run(0, values)
    view = pyramid.view(np.linspace(0, 1_030_000, 901))
    assert view.high.max() == 7.0
    assert view.x[view.high.argmax()] == pytest.approx(654_321, abs=1500)
    assert pyramid.nbytes < 8 * values.size


def test_means_leave_out_what_is_not_finite() -> None:
    values = np.tile([1.0, np.nan, 3.0, np.inf], 4 * BLOCK)
    view = filled(values).view(np.array([0.0, 64.0, 256.0]))
    assert view.mean.tolist() == [2.0, 2.0]
    assert (view.low.min(), view.high.max()) == (1.0, 3.0)


def test_a_column_without_a_finite_value_is_left_out() -> None:
    view = filled(np.array([1.0, np.nan, np.nan, 2.0])).view(np.arange(0.0, 5.0))
    assert view.x.tolist() == [0.0, 3.0]


def test_huge_values_do_not_overflow_into_nothing() -> None:
    view = filled(np.full(64, 1.7e308)).view(np.array([0.0, 32.0, 64.0]))
    assert view.mean.tolist() == [1.7e308, 1.7e308]


def test_a_later_attempt_replaces_what_lies_behind_its_first_step() -> None:
    pyramid = filled(np.arange(1000.0))
    pyramid.append_run(600, np.full(10, -1.0))
    assert len(pyramid) == 610
    view = pyramid.view(np.linspace(0, 610, 62))
    assert view.high.max() == 599.0
    assert view.low.min() == -1.0


def test_a_truncated_pyramid_equals_one_that_never_had_the_rest() -> None:
    values = np.random.default_rng(1).normal(size=5000)
    long, short = filled(values), filled(values[:1234])
    assert long.truncate(1234.0)
    assert not long.truncate(1234.0)
    edges = np.linspace(0, 1300, 40)
    for mine, theirs in zip(long.view(edges), short.view(edges), strict=True):
        assert np.array_equal(mine, theirs)


def test_consecutive_steps_are_not_stored_and_gaps_are() -> None:
    steps = Steps()
    steps.extend_run(100.0, 50)
    assert steps.nbytes == 0
    assert steps.search(np.array([0.0, 100.0, 100.5, 149.0, 500.0])).tolist() == [0, 0, 1, 49, 50]
    steps.extend(np.array([200.0, 300.0]))
    assert len(steps) == 52
    assert (steps.at(49), steps.at(51)) == (149.0, 300.0)
    assert steps.take(np.array([0, 50])).tolist() == [100.0, 200.0]


def test_x_and_y_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="x has 2 values, y has 3"):
        Pyramid().append([1, 2], [1, 2, 3])


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 700), min_size=1, max_size=12))
def test_a_cached_view_follows_appends(seed: int, batches: list[int]) -> None:
    rng = np.random.default_rng(seed)
    pyramid, edges = Pyramid(), np.linspace(0, 9000, 211)
    cached, everything = CachedView(pyramid), np.empty(0)
    for size in batches:
        new = rng.normal(size=size)
        pyramid.append_run(everything.size, new)
        everything = np.concatenate((everything, new))
        view = cached.get(edges)
        assert cached.get(edges) is view
    assert (view.low.min(), view.high.max()) == (everything.min(), everything.max())
    assert np.array_equal(view.x, pyramid.view(edges).x)


def test_a_cached_view_notices_a_truncation() -> None:
    pyramid, edges = filled(np.arange(500.0)), np.linspace(0, 600, 100)
    cached = CachedView(pyramid)
    cached.get(edges)
    pyramid.append_run(100, np.zeros(400))
    assert cached.get(edges).high.max() == 99.0
