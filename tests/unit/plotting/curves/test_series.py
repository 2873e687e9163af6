"""Curves by run and metric, their units of x, and what is remembered of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_gui.plotting.axes.ticks import XUnit
from clew_gui.plotting.curves.series import PlottedSeries, RunClock, Sample, SeriesStore
from clew_gui.plotting.table import extract, write_csv


def test_a_series_remembers_last_best_and_first_bad_value() -> None:
    series = PlottedSeries(np.float64)
    series.append(0, [5.0, 1.0, 3.0])
    series.append(3, [np.nan, 4.0, np.inf])
    assert series.last == Sample(4.0, 4.0)
    assert series.lowest == Sample(1.0, 1.0)
    assert series.highest == Sample(0.0, 5.0)
    assert series.first_bad == 3.0


def test_a_later_attempt_wins_also_for_the_extremes() -> None:
    series = PlottedSeries(np.float64)
    series.append(0, [5.0, 1.0, np.nan, 0.5])
    series.append(2, [2.0])
    assert (series.lowest, series.last, series.first_bad, len(series)) == (Sample(1.0, 1.0), Sample(2.0, 2.0), None, 3)


def test_evaluations_are_sparse_and_steps_are_not() -> None:
    evaluations, steps = PlottedSeries(np.float64), PlottedSeries(np.float32)
    evaluations.append([0, 100, 200], [0.1, 0.5, 0.6])
    steps.append(0, np.zeros(50))
    assert evaluations.sparse
    assert not steps.sparse
    assert evaluations.at(150.0) == Sample(100.0, 0.5)
    assert evaluations.at(-1.0) is None
    assert evaluations.neighbour(100.0, after=True) == Sample(100.0, 0.5)
    assert evaluations.neighbour(100.0, after=False) == Sample(0.0, 0.1)


@pytest.fixture
def store() -> SeriesStore:
    store = SeriesStore()
    store.append("a", "loss", 0, np.linspace(2, 1, 200))
    store.set_scale("a", batch_size=100, samples_per_epoch=55_000)
    store.add_clock("a", first=0, count=100, clock=2.0, seconds=2.0, wall=1002.0)
    store.add_clock("a", first=100, count=100, clock=3.0, seconds=1.0, wall=1013.0)
    return store


@pytest.mark.parametrize(
    ("unit", "step", "x"),
    [
        (XUnit.STEP, 150, 150.0),
        (XUnit.EPOCH, 550, 1.0),
        (XUnit.IMAGES, 150, 15_000.0),
        (XUnit.SECONDS, 50, 1.0),
        (XUnit.SECONDS, 150, 2.5),
        (XUnit.SECONDS, 400, 6.0),
    ],
)
def test_units_of_x(store: SeriesStore, unit: XUnit, step: float, x: float) -> None:
    assert store.from_steps("a", np.array([step], np.float64), unit) == pytest.approx([x])
    assert store.to_steps("a", np.array([x]), unit) == pytest.approx([step])


def test_a_run_without_batches_has_no_epochs() -> None:
    store = SeriesStore()
    store.append("b", "loss", 0, [1.0])
    assert store.knows("b", XUnit.STEP)
    assert not any(store.knows("b", unit) for unit in (XUnit.EPOCH, XUnit.IMAGES, XUnit.SECONDS))
    with pytest.raises(ValueError, match="run b has no epoch"):
        store.from_steps("b", np.array([1.0]), XUnit.EPOCH)


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 10)), min_size=1, max_size=20))
def test_the_clock_runs_forward_and_back(stretches: list[tuple[int, float]]) -> None:
    clock, first, now = RunClock(), 0, 0.0
    for count, seconds in stretches:
        now += seconds
        clock.add(first, count, now, seconds)
        first += count
    steps = np.arange(0.0, first + 1)
    assert np.all(np.diff(clock.seconds(steps)) > 0)
    assert clock.steps(clock.seconds(steps)) == pytest.approx(steps, abs=1e-3 * first)


def test_a_resumed_run_overwrites_the_clock() -> None:
    clock = RunClock()
    clock.add(0, 100, 1.0, 1.0)
    clock.add(100, 100, 2.0, 1.0)
    clock.add(100, 50, 6.0, 5.0)
    assert clock.seconds(np.array([150.0])) == pytest.approx([6.0])


def test_what_is_forgotten(store: SeriesStore) -> None:
    store.append("a", "accuracy", [0, 100], [0.1, 0.9])
    store.truncate("a", None, 100)
    assert store.last_step("a") == 99.0
    assert [len(series) for name in store.metrics("a") if (series := store.get("a", name))] == [100, 1]
    store.drop("a")
    assert store.runs() == ()
    assert store.get("a", "loss") is None


def test_the_table_has_every_value(store: SeriesStore, tmp_path: Path) -> None:
    store.append("b", "loss", [0, 0.5], [np.nan, 0.1], np.float32)
    rows = write_csv(tmp_path / "curves.csv", extract(store, ["a", "b"], ["loss", "none"], {"a": "7  Warm start"}))
    lines = (tmp_path / "curves.csv").read_text().splitlines()
    assert rows == 202
    assert lines[0] == "run,step,metric,value,wall_time,name"
    assert lines[1] == "a,0,loss,2.0,1000.000000,7  Warm start"
    assert lines[150].startswith("a,149,loss,1.2512562,1012.49")
    assert lines[-2:] == ["b,0,loss,nan,,", "b,0.5,loss,0.1,,"]


def test_a_table_that_cannot_be_written_leaves_nothing(store: SeriesStore, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OSError, match=r"folder\.csv"):
        write_csv(tmp_path / "folder.csv", extract(store, ["a"], ["loss"]))
    assert [path.name for path in tmp_path.iterdir() if path.name != "clew-home"] == ["folder.csv"]
