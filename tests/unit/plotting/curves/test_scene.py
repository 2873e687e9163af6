"""A frame worked out without a pixel: curves, ranges, marks, read-out and words."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from clew_gui.plotting.axes.clip import drawable
from clew_gui.plotting.axes.ticks import Span, XUnit
from clew_gui.plotting.curves.model import PlotSetup, RunEvent, RunStyle, View, resolve_plots
from clew_gui.plotting.curves.readout import prominent, read, summary
from clew_gui.plotting.curves.scene import Room, Scene, SceneBuilder
from clew_gui.plotting.curves.series import SeriesStore
from clew_shared.cards import Goal, MetricSpec, PlotSpec

METRICS = (
    MetricSpec(name="loss", label="loss", better="lower"),
    MetricSpec(name="accuracy", label="batches", better="higher", format="percent"),
    MetricSpec(name="test_accuracy", label="test set", per_step=False, better="higher", format="percent"),
)
PLOTS = (
    PlotSpec(id="loss", title="Training loss", metrics=("loss",), log=True, expected=((1, 2.0), (500, 0.3))),
    PlotSpec(id="accuracy", title="Accuracy", metrics=("accuracy", "test_accuracy"), format="percent"),
)
GOALS = (Goal(id="slides", text="90.79 %", metric="test_accuracy", op=">=", value=0.9079),)
ROOM = Room(600, (140, 140))


@pytest.fixture
def setups() -> tuple[PlotSetup, ...]:
    return resolve_plots(PLOTS, GOALS, METRICS)


@pytest.fixture
def store() -> SeriesStore:
    store = SeriesStore()
    rng = np.random.default_rng(0)
    for run, tau in (("1", 80.0), ("2", 160.0)):
        step = np.arange(1000)
        store.append(run, "loss", 0, (2 * np.exp(-step / tau) + 0.3) * np.exp(rng.normal(0, 0.2, 1000)))
        store.append(run, "accuracy", 0, 0.9 - 0.8 * np.exp(-step / tau) + rng.normal(0, 0.02, 1000))
        store.append(run, "test_accuracy", step[::100], 0.91 - 0.8 * np.exp(-step[::100] / tau))
        store.set_scale(run, 100, 55_000)
    return store


RUNS = (RunStyle("1", "1  SGD 0.5", 0), RunStyle("2", "2  SGD 0.1", 1, selected=True, live=True, steps=2000))


def build(store: SeriesStore, setups: tuple[PlotSetup, ...], view: View | None = None, **more: object) -> Scene:
    runs = more.get("runs", RUNS)
    events = more.get("events", ())
    assert isinstance(runs, tuple)
    assert isinstance(events, tuple)
    return SceneBuilder(store).build(setups, runs, events, view or View(), ROOM)


def test_a_card_becomes_plots(setups: tuple[PlotSetup, ...]) -> None:
    loss, accuracy = setups
    assert (loss.headline, loss.others, loss.better, loss.log) == ("loss", (), "lower", True)
    assert (accuracy.headline, accuracy.others, accuracy.better) == ("test_accuracy", ("accuracy",), "higher")
    assert accuracy.goals == GOALS
    without_goal = resolve_plots(PLOTS, (), METRICS)[1]
    assert (without_goal.headline, without_goal.others) == ("accuracy", ("test_accuracy",))
    assert accuracy.label("accuracy") == "batches"
    assert accuracy.label("unknown_metric") == "unknown metric"


def test_the_selected_run_is_drawn_last_and_every_step_counts(
    store: SeriesStore, setups: tuple[PlotSetup, ...]
) -> None:
    scene = build(store, setups)
    loss = scene.plots[0]
    assert [d.run.run_id for d in loss.curves] == ["1", "2"]
    curve = loss.curves[0].curve
    recorded = store.get("1", "loss")
    assert recorded is not None
    assert recorded.highest is not None
    assert 10 ** curve.raw_y.max() == pytest.approx(recorded.highest.value, rel=1e-6)
    assert not curve.exact
    assert scene.window > 1


def test_the_axis_reaches_to_the_planned_end_and_holds_the_goal(
    store: SeriesStore, setups: tuple[PlotSetup, ...]
) -> None:
    scene = build(store, setups)
    assert scene.grid.span == Span(0, 2060)
    assert scene.plots[1].span.low < 0.9079 < scene.plots[1].span.high


def test_without_smoothing_the_means_of_the_columns_stand_before_all_values(
    store: SeriesStore, setups: tuple[PlotSetup, ...]
) -> None:
    scene = build(store, setups, View(smoothing=0))
    curve, plot = scene.plots[0].curves[0].curve, scene.plots[0]
    assert curve.exact
    assert curve.x.size == curve.raw_x.size // 2
    both = curve.raw_y.reshape(-1, 2)
    assert np.all((both.min(axis=1) <= curve.y) & (curve.y <= both.max(axis=1)))
    assert plot.span.contains(Span(float(curve.raw_y.min()), float(curve.raw_y.max()))), "no value is out of sight"
    assert scene.legend == "Line: mean of each pixel. Faint: lowest to highest value. Number: the last value."


def test_the_foot_says_what_line_faint_line_and_number_are(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    scene = build(store, setups)
    steps = f"{round(scene.window, -1):,.0f}"
    assert scene.legend.startswith(f"Line: mean over about {steps} steps. Faint: ")
    few = resolve_plots([msgspec.structs.replace(PLOTS[1], metrics=("test_accuracy",))], GOALS, METRICS)
    shown = SceneBuilder(store).build(few, RUNS, (), View(), Room(600, (140,)))
    assert shown.legend == "", "evaluations are drawn as they are"


def test_a_quiet_line_leaves_room_for_its_loud_values(setups: tuple[PlotSetup, ...]) -> None:
    store = SeriesStore()
    noise = np.random.default_rng(1).normal(0, 0.05, 20_000)
    store.append("1", "loss", 0, 0.3 * np.exp(noise))
    runs = (RunStyle("1", "1", 0, selected=True),)
    plot = SceneBuilder(store).build(setups[:1], runs, (), View(), Room(600, (140,))).plots[0]
    curve = plot.curves[0].curve
    shown = np.mean((curve.raw_y >= plot.span.low) & (curve.raw_y <= plot.span.high))
    assert shown > 0.9


def test_evaluations_keep_their_points_in_every_view(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    curve = build(store, setups).plots[1].headline("1")
    assert curve is not None
    assert curve.sparse
    assert curve.x.tolist() == list(range(0, 1000, 100))
    zoomed = build(store, setups, View(zoom=Span(310, 390))).plots[1].headline("1")
    assert zoomed is not None
    assert zoomed.x.tolist() == [300, 400]
    assert not zoomed.ends


@pytest.mark.parametrize(
    ("unit", "end"), [(XUnit.STEP, 2060.0), (XUnit.IMAGES, 206_000.0), (XUnit.EPOCH, 2060 * 100 / 55_000)]
)
def test_units(store: SeriesStore, setups: tuple[PlotSetup, ...], unit: XUnit, end: float) -> None:
    scene = build(store, setups, View(unit=unit))
    assert scene.full.high == pytest.approx(end)
    assert scene.plots[0].curves


def test_runs_without_the_unit_are_named(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    store.add_clock("1", 0, 1000, 5.0, 5.0)
    scene = build(store, setups, View(unit=XUnit.SECONDS))
    assert {d.run.run_id for d in scene.plots[0].curves} == {"1"}
    assert scene.notes == ("Not shown against seconds: 2  SGD 0.1.",)


def test_values_that_a_log_axis_cannot_hold_are_said(setups: tuple[PlotSetup, ...]) -> None:
    store = SeriesStore()
    store.append("1", "loss", 0, [1.0, 0.1, 0.0, 0.0, 0.001])
    scene = build(store, setups, runs=RUNS[:1])
    curve = scene.plots[0].headline("1")
    assert curve is not None
    assert curve.x.tolist() == [0, 1, 4]
    assert scene.notes == ("A log axis cannot show values of 0 or less; they are left out.",)
    assert build(store, setups, View(log_y=False), runs=RUNS[:1]).notes == ()


def test_log_x_begins_at_the_first_step_behind_zero(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    scene = build(store, setups, View(log_x=True))
    assert scene.full.low == 0.0
    assert scene.full.high > math.log10(2000)
    assert {"1", "10", "100", "1,000"} <= {tick.text for tick in scene.ticks}
    curve = scene.plots[0].headline("1")
    assert curve is not None
    assert 0 <= curve.x[0] < 0.01


def test_while_nothing_ran_the_expected_curve_is_shown(setups: tuple[PlotSetup, ...]) -> None:
    scene = build(SeriesStore(), setups)
    ghost = scene.plots[0].ghost
    assert scene.empty
    assert ghost is not None
    assert ghost[1].tolist() == pytest.approx([math.log10(2), math.log10(0.3)])
    assert scene.full == Span(0, 515)
    assert summary(scene, SeriesStore()) == "No run has values yet."


def test_where_a_run_stopped_giving_numbers(setups: tuple[PlotSetup, ...]) -> None:
    store = SeriesStore()
    store.append("1", "loss", 0, [2.0, 20.0, 2e30, np.inf, np.nan, np.nan])
    scene = build(store, setups, runs=RUNS[:1])
    curve = scene.plots[0].headline("1")
    assert curve is not None
    assert curve.bad_x == 3
    assert "infinite from step 3" in summary(scene, store)


def test_only_events_of_the_selected_run_are_marked(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    events = (RunEvent("1", 10, "Checkpoint"), RunEvent("2", 500, "Learning rate halved"))
    assert build(store, setups, events=events).events == ((events[1], 500.0),)
    assert build(store, setups, events=events, runs=RUNS[:1]).events == ((events[0], 10.0),)


def test_with_many_runs_only_those_that_stand_out_keep_their_raw_curve(setups: tuple[PlotSetup, ...]) -> None:
    store = SeriesStore()
    rng = np.random.default_rng(2)
    for k in range(12):
        store.append(str(k), "loss", 0, np.exp(rng.normal(0, 0.3, 5000)))
    runs = tuple(RunStyle(str(k), f"run {k}", k, selected=k == 11) for k in range(12))
    scene = build(store, setups, runs=runs)
    assert scene.many
    assert [d.run.run_id for d in scene.plots[0].curves if d.curve.raw_x.size] == ["11"]


def test_unchanged_curves_are_not_made_again(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    builder = SceneBuilder(store)
    before = builder.build(setups, RUNS, (), View(), ROOM)
    store.append("2", "loss", 1000, [0.3, 0.31])
    after = builder.build(setups, RUNS, (), View(), ROOM)
    assert after.grid is before.grid
    assert after.plots[0].span is before.plots[0].span
    assert after.plots[0].headline("1") is before.plots[0].headline("1")
    assert after.plots[0].headline("2") is not before.plots[0].headline("2")


def test_the_read_out_says_what_the_curves_show(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    readout = read(build(store, setups), 850.0)
    assert readout.heading == "Step 850, smoothed"
    assert readout.columns == ("loss", "accuracy")
    first, second = readout.rows
    assert float(first.values[0]) == pytest.approx(0.3, abs=0.05)
    assert first.values[1] == "91.00 %"
    assert first.points[1] is not None
    assert first.points[1][0] == 800.0
    assert second.run.selected
    assert readout.sentence().startswith("Step 850, smoothed. 1  SGD 0.5: loss 0.3")
    assert read(build(store, setups), 1500.0).rows[0].values == ("–", "91.00 %")


@pytest.mark.parametrize(
    ("unit", "x", "heading"),
    [
        (XUnit.EPOCH, 1.5, "Epoch 1.50"),
        (XUnit.IMAGES, 5000.0, "5,000 images"),
        (XUnit.SECONDS, 75.0, "1:15"),
    ],
)
def test_read_out_headings(
    store: SeriesStore, setups: tuple[PlotSetup, ...], unit: XUnit, x: float, heading: str
) -> None:
    store.add_clock("1", 0, 1000, 100.0, 100.0)
    assert read(build(store, setups, View(unit=unit, smoothing=0)), x).heading == heading


def test_selected_pinned_and_live_runs_are_kept_when_not_all_fit() -> None:
    runs = tuple(RunStyle(str(k), str(k), k) for k in range(20))
    runs = (*runs[:9], replace(runs[9], pinned=True), *runs[10:18], replace(runs[18], live=True), *runs[19:])
    assert [run.run_id for run in prominent(runs, 4)] == ["0", "1", "9", "18"]
    assert prominent(runs, 20) == runs


def test_the_summary_names_last_and_best(store: SeriesStore, setups: tuple[PlotSetup, ...]) -> None:
    text = summary(build(store, setups), store)
    assert text.startswith("Training loss: 1  SGD 0.5 last 0.")
    assert "Accuracy: 1  SGD 0.5 last 91.00 % at step 900, best 91.00 % at step 900;" in text


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.6])
def test_where_a_part_of_the_journal_is_damaged_the_curve_has_a_gap(
    setups: tuple[PlotSetup, ...], log: bool, smoothing: float
) -> None:
    store = SeriesStore()
    steps = np.r_[0:1, 2:400, 600:1000]
    store.append("1", "loss", steps, np.random.default_rng(1).uniform(0.5, 1.5, steps.size))
    store.append("1", "test_accuracy", [0, 500, 999], [0.1, 0.5, 0.6])
    scene = build(store, setups, View(log_x=log, smoothing=smoothing), runs=RUNS[:1])
    curve = scene.plots[0].headline("1")
    assert curve is not None
    gap = np.array([399.0, 600.0])
    np.testing.assert_allclose(curve.gaps[-1], np.log10(gap) if log else gap)
    for x, y in (curve.line, curve.raw_line):
        assert (np.diff(x) >= 0).all()
        broken = x[np.isnan(y)]
        assert ((curve.gaps[-1, 0] < broken) & (broken < curve.gaps[-1, 1])).any() or not x.size
    assert np.isfinite(curve.y).all()
    _, drawn_y = drawable(*curve.line, scene.grid.span, scene.plots[0].span, 0.5)
    assert np.isnan(drawn_y).any()
    evaluated = [item.curve for plot in scene.plots for item in plot.curves if item.curve.metric == "test_accuracy"]
    assert all(not one.gaps.size for one in evaluated)
