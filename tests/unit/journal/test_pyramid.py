"""The pyramid keeps every extreme, however many samples it holds and however they arrive, and is cut with its curve."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from clew_shared.journal.buffer import Buffer
from clew_shared.journal.curves import CurveBlock, CurvePiece, Track
from clew_shared.journal.events import Attempt
from clew_shared.journal.history import History
from clew_shared.journal.pyramid import BLOCK, Pyramid, Sample, index_of
from tests.recording import evaluate, record

Floats = NDArray[np.float64]


def track(*metrics: str) -> Track:
    return Track(dict.fromkeys(metrics or ("loss",), "float64"))


def extend(grown: Track, steps: NDArray[np.int64], values: Floats) -> None:
    block = CurveBlock(len(steps), 1, 0.0, 0.0)
    grown.extend(CurvePiece(steps, np.zeros(len(steps)), dict.fromkeys(grown.values, values), [block]))


def filled(values: Floats, pieces: int = 1) -> Pyramid:
    """A pyramid over ``values`` of steps from 0 on that was read after each of the pieces in which they came."""
    grown = track()
    for steps in np.array_split(np.arange(len(values)), pieces):
        extend(grown, steps, values[steps])
        grown.pyramid("loss").view(np.array([0.0, 1.0]))
    return grown.pyramid("loss")


def at_steps(steps: list[int], values: list[float]) -> Pyramid:
    grown = track()
    extend(grown, np.array(steps), np.array(values))
    return grown.pyramid("loss")


def kept_beside(pyramid: Pyramid) -> int:
    """How many numbers a pyramid has beside the samples."""
    return sum(part.size for level in pyramid._levels for part in level.parts())


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
    values = np.zeros(1_000_000)
    values[654_321] = 7.0
    pyramid = filled(values)
    view = pyramid.view(np.linspace(0, 1_030_000, 901))
    assert view.high.max() == 7.0
    assert view.x[view.high.argmax()] == pytest.approx(654_321, abs=1500)
    assert pyramid.highest == Sample(654_321.0, 7.0)
    assert kept_beside(pyramid) < values.size / 3


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


# --- Single samples ---------------------------------------------------------------------------------------------------


@given(st.integers(1, 900), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_extremes_are_the_first_of_the_least_and_greatest_finite_values(size: int, pieces: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 30, size).astype(np.float64)
    values[rng.random(size) < 0.3] = rng.choice([np.nan, np.inf, -np.inf])
    pyramid, good = filled(values, pieces), np.flatnonzero(np.isfinite(values))
    if not good.size:
        assert (pyramid.lowest, pyramid.highest, pyramid.last) == (None, None, None)
        return
    low, high = good[values[good].argmin()], good[values[good].argmax()]
    assert pyramid.lowest == Sample(low, values[low])
    assert pyramid.highest == Sample(high, values[high])
    assert pyramid.last == Sample(good[-1], values[good[-1]])


def test_evaluations_are_sparse_and_steps_are_not() -> None:
    evaluations, steps = at_steps([0, 100, 200], [0.1, 0.5, 0.6]), filled(np.zeros(50))
    assert evaluations.sparse
    assert not steps.sparse
    assert evaluations.at(150.0) == Sample(100.0, 0.5)
    assert evaluations.at(-1.0) is None
    assert evaluations.neighbour(100.0, after=True) == Sample(100.0, 0.5)
    assert evaluations.neighbour(100.0, after=False) == Sample(0.0, 0.1)


def test_missing_stretches_of_a_dense_curve_are_gaps() -> None:
    steps = [*range(10), *range(15, 30)]
    assert at_steps(steps, [0.0] * 25).gaps().tolist() == [[9.0, 15.0]]
    assert filled(np.zeros(50)).gaps().size == 0
    assert at_steps([0, 100, 200], [0.1, 0.5, 0.6]).gaps().size == 0


@given(st.lists(st.integers(0, 60), unique=True, max_size=40), st.lists(st.floats(-5, 70), max_size=20))
def test_a_place_is_found_in_steps_with_and_without_gaps(steps: list[int], places: list[float]) -> None:
    known, x = np.array(sorted(steps), np.int64), np.array(places, np.float64)
    assert index_of(known, x).tolist() == [sum(step < place for step in known.tolist()) for place in places]
    huge = np.array([-1e300, 1e300])
    assert index_of(known, huge).tolist() == [0, len(steps)]


# --- Cuts -------------------------------------------------------------------------------------------------------------


def test_a_cut_pyramid_equals_one_that_never_had_the_rest() -> None:
    values = np.random.default_rng(1).normal(size=5000)
    long, short = track(), filled(values[:1234])
    extend(long, np.arange(5000), values)
    cut = long.pyramid("loss")
    edges = np.linspace(0, 1300, 40)
    cut.view(edges)
    long.cut(1234)
    assert len(cut) == 1234
    assert cut.cuts == 1
    for mine, theirs in zip(cut.view(edges), short.view(edges), strict=True):
        assert np.array_equal(mine, theirs)
    assert (cut.lowest, cut.highest, cut.last) == (short.lowest, short.highest, short.last)


def anew(history: History, metric: str) -> Pyramid:
    """A pyramid over what the history says the curve is."""
    column = history.column(metric)
    steps, values = Buffer(np.int64), Buffer[np.float64](np.float64)
    steps.extend(column.steps)
    values.extend(column.values)
    return Pyramid(steps, values)


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 300), st.booleans()), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
)
def test_a_history_s_pyramid_follows_attempts_that_begin_anywhere(
    attempts: list[tuple[int, int, bool]], seed: int
) -> None:
    history, rng, edges = History(), np.random.default_rng(seed), np.linspace(0, 800, 60)
    for number, (start, count, other) in enumerate(attempts, 1):
        start = min(start, history.last_step + 1) if number > 1 else 0
        begun = Attempt(
            format=1, run="", attempt=number, exercise="", spec_sha256="", steps=800, start_step=start,
            resumes=number - 1,
        )  # fmt: skip
        history.feed(number, begun)
        names = ("loss", "accuracy") if other else ("loss",)  # another schema has columns of its own
        record(history, names, start, rng.normal(size=count), attempt=number, dtype="float64")
        evaluate(history, "test", [start + count], [rng.normal()], attempt=number)
        for name in ("loss", "test"):
            found, right = history.pyramid(name), anew(history, name)
            assert found is not None
            assert np.array_equal(found.steps, right.steps)
            assert np.array_equal(found.values, right.values)
            for mine, theirs in zip(found.view(edges), right.view(edges), strict=True):
                np.testing.assert_allclose(mine, theirs)


def test_a_curve_in_two_schemas_is_one_pyramid_that_follows_both() -> None:
    history = History()
    record(history, "loss", 0, np.zeros(20))
    first = history.pyramid("loss")
    record(history, ("loss", "more"), 20, np.ones(10))
    joined = history.pyramid("loss")
    assert joined is not None
    assert joined is not first
    assert joined is history.pyramid("loss")
    assert joined.values.tolist() == [0.0] * 20 + [1.0] * 10
    assert history.pyramid("unknown") is None


def test_a_reader_that_asks_for_no_pyramid_pays_for_none() -> None:
    history = History()
    record(history, "loss", 0, np.zeros(10_000))
    assert not history._by_metric["loss"][0]._pyramids
    pyramid = history.pyramid("loss")
    assert pyramid is not None
    assert kept_beside(pyramid) == 0
    pyramid.view(np.array([0.0, 10_000.0]))
    assert kept_beside(pyramid) > 0
