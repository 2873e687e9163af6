"""Steps in the other units of the x axis, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.charts.curves.model import from_steps, knows, to_steps
from clew_gui.charts.curves.pixel_columns import CurveMaker, CurveRequest, Grid, KeptColumns, broken
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_shared.journal.events import Attempt, Diverged
from clew_shared.journal.history import History
from clew_shared.journal.pyramid import Sample
from clew_shared.spec import RateRange, RunSpec, to_toml
from tests.recording import record


@pytest.fixture
def history() -> History:
    history = History()
    record(history, "loss", 0, np.linspace(2, 1.5, 100), batch=(100, 55_000), clock=(2.0, 2.0))
    record(history, "loss", 100, np.linspace(1.5, 1, 100), batch=(100, 55_000), clock=(3.0, 1.0))
    return history


@pytest.mark.parametrize(
    ("unit", "step", "x"),
    [
        (XUnit.STEP, 150, 150.0),
        (XUnit.EPOCH, 550, 1.0),
        (XUnit.IMAGES, 150, 15_000.0),
        (XUnit.SECONDS, 0, 0.0),
        (XUnit.SECONDS, 50, 1.0),
        (XUnit.SECONDS, 150, 2.5),
        (XUnit.SECONDS, 400, 6.0),
    ],
)
def test_units_of_x(history: History, unit: XUnit, step: float, x: float) -> None:
    assert from_steps(history, np.array([step], np.float64), unit) == pytest.approx([x])
    assert to_steps(history, np.array([x]), unit) == pytest.approx([step])


def test_a_range_test_is_shown_over_its_rates() -> None:
    history, spec = History(), RunSpec(exercise="softmax", rate_range=RateRange(0.001, 10.0))
    history.feed(
        1, Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="", steps=200, spec=to_toml(spec))
    )
    assert knows(history, XUnit.RATE)
    steps, rates = np.array([0.0, 50.0, 100.0, 200.0]), [0.001, 0.01, 0.1, 10.0]
    assert from_steps(history, steps, XUnit.RATE) == pytest.approx(rates)
    assert to_steps(history, np.array(rates), XUnit.RATE) == pytest.approx(steps)


def test_a_run_without_batches_has_no_epochs_and_one_without_points_no_time() -> None:
    history = History()
    assert [unit for unit in XUnit if knows(history, unit)] == [XUnit.STEP]
    record(history, "loss", 0, [1.0])
    assert [unit for unit in XUnit if knows(history, unit)] == [XUnit.STEP, XUnit.SECONDS]


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 10)), min_size=1, max_size=20))
def test_the_clock_runs_forward_and_back(stretches: list[tuple[int, float]]) -> None:
    history, first, now = History(), 0, 0.0
    for count, seconds in stretches:
        now += seconds
        record(history, "loss", first, np.zeros(count), clock=(now, seconds))
        first += count
    steps = np.arange(1.0, first + 1)
    assert np.all(np.diff(from_steps(history, steps, XUnit.SECONDS)) > 0)
    there = to_steps(history, from_steps(history, steps, XUnit.SECONDS), XUnit.SECONDS)
    assert there == pytest.approx(steps, abs=1e-3 * first)


def test_a_resumed_run_overwrites_the_clock() -> None:
    history = History()
    record(history, "loss", 0, np.zeros(100), clock=(1.0, 1.0))
    record(history, "loss", 100, np.zeros(100), clock=(2.0, 1.0))
    again = Attempt(format=1, run="", attempt=2, exercise="", spec_sha256="", steps=200, start_step=100, resumes=1)
    history.feed(2, again)
    record(history, "loss", 100, np.zeros(50), clock=(5.0, 5.0), attempt=2)
    assert from_steps(history, np.array([100.0, 150.0]), XUnit.SECONDS) == pytest.approx([1.0, 6.0])


def test_clocks_that_disagree_a_little_do_not_turn_a_curve_back() -> None:
    history = History()
    record(history, "loss", 0, np.zeros(10), clock=(1.0, 1.0))
    record(history, "loss", 10, np.zeros(10), clock=(1.5, 0.7))  # it would have begun before the other one ended
    assert np.all(np.diff(from_steps(history, np.arange(0.0, 20.0, 0.25), XUnit.SECONDS)) >= 0)


def test_the_clock_of_a_resumed_run_that_records_other_metrics_is_that_of_all_its_steps() -> None:
    history = History()
    record(history, "loss", 0, np.zeros(100), clock=(10.0, 10.0))
    history.feed(2, Attempt(format=1, run="", attempt=2, exercise="", spec_sha256="", start_step=100, resumes=1))
    for first in (100, 200, 300):  # more steps than the first attempt had, at last
        now = float(first - 100)
        record(history, ("loss", "accuracy"), first, np.zeros(100), clock=(now + 100.0, 100.0), attempt=2)
        known = from_steps(history, np.array([1.0, 51.0, 101.0, first + 100.0]), XUnit.SECONDS)
        assert known == pytest.approx([0.1, 5.1, 11.0, now + 110.0])


# --- The columns of a growing curve: after an append only the last ones are read again --------------------------------


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 700), min_size=1, max_size=12))
def test_kept_columns_follow_appends(seed: int, batches: list[int]) -> None:
    rng = np.random.default_rng(seed)
    history, edges, everything = History(), np.linspace(0, 9000, 211), np.empty(0)
    kept: KeptColumns | None = None
    for size in batches:
        new = rng.normal(size=size)
        record(history, "loss", everything.size, new, dtype="float64")
        everything = np.concatenate((everything, new))
        curve = history.pyramid("loss")
        assert curve is not None
        kept = kept or KeptColumns(curve)
        assert kept.curve is curve
        view = kept.get(edges)
        assert kept.get(edges) is view
    assert curve is not None
    assert (view.low.min(), view.high.max()) == (everything.min(), everything.max())
    assert np.array_equal(view.x, curve.view(edges).x)


def test_kept_columns_notice_a_cut() -> None:
    history, edges = History(), np.linspace(0, 600, 100)
    record(history, "loss", 0, np.arange(500.0))
    curve = history.pyramid("loss")
    assert curve is not None
    kept = KeptColumns(curve)
    kept.get(edges)
    history.feed(
        2, Attempt(format=1, run="", attempt=2, exercise="", spec_sha256="", steps=1, start_step=100, resumes=1)
    )
    record(history, "loss", 100, np.zeros(400), attempt=2)
    assert kept.get(edges).high.max() == 99.0


def test_a_curve_is_broken_where_its_own_value_is_no_number() -> None:
    history = History()
    record(history, "loss", 0, [5.0, 1.0, np.inf, np.nan])
    history.feed(1, Diverged(metric="accuracy", value="NaN", step=2))
    assert broken(history, "loss") == Sample(2.0, np.inf)
    assert broken(history, "accuracy") is None
    record(history, "accuracy", 0, [0.5, 0.5])
    assert broken(history, "accuracy") is None, "its values end before"


def test_a_curve_over_epochs_follows_a_batch_size_that_a_later_attempt_changed() -> None:
    history, maker, grid = History(), CurveMaker(), Grid(XUnit.EPOCH, log=False, span=Span(0.0, 10.0), columns=100)
    request = CurveRequest("r", "loss", log_y=False, window=1.0)
    record(history, "loss", 0, np.arange(10.0), batch=(100, 1000))
    before = maker.make(history, request, grid)
    assert before is not None
    assert before.x[-1] == 0.9
    record(history, "loss", 10, np.arange(10.0), batch=(200, 1000))
    after = maker.make(history, request, grid)
    assert after is not None
    assert np.array_equal(after.x, np.arange(20) * 0.2)
