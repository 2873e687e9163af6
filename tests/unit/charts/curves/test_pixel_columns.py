"""The columns of a growing curve: after an append only the last ones are read again."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.charts.curves.pixel_columns import CurveMaker, CurveRequest, Grid, KeptColumns, broken
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_shared.journal.events import Attempt, Diverged
from clew_shared.journal.history import History
from clew_shared.journal.pyramid import Sample
from tests.recording import record


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
