"""A frame worked out without a pixel: curves, ranges, marks, read-out and words."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from clew_gui.charts.curves.model import PlotSetup, RunEvent, RunStyle, View, resolve_plots
from clew_gui.charts.curves.pixel_columns import Curve
from clew_gui.charts.curves.readout import prominent, read, summary
from clew_gui.charts.curves.scene import Room, Scene, SceneBuilder
from clew_gui.charts.kit.clip import drawable
from clew_gui.charts.kit.ticks import Span, XUnit
from clew_shared.cards import Goal, MetricSpec, PlotSpec
from clew_shared.journal.events import Checkpoint, Diverged, Live, Peer
from clew_shared.params import ParamSpec
from tests.recording import evaluate, record
from tests.simulated_cluster import as_updates

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


Runs = tuple[RunStyle, ...]


def one(*, selected: bool = False) -> RunStyle:
    """A run without values."""
    return RunStyle("1", "1  SGD 0.5", 0, selected=selected)


@pytest.fixture
def runs() -> Runs:
    runs = (one(), RunStyle("2", "2  SGD 0.1", 1, selected=True, live=True, steps=2000))
    rng = np.random.default_rng(0)
    for run, tau in zip(runs, (80.0, 160.0), strict=True):
        step, history, batch = np.arange(1000), run.history, (100, 55_000)
        losses = (2 * np.exp(-step / tau) + 0.3) * np.exp(rng.normal(0, 0.2, 1000))
        record(history, "loss", 0, losses, batch=batch)
        record(history, "accuracy", 0, 0.9 - 0.8 * np.exp(-step / tau) + rng.normal(0, 0.02, 1000), batch=batch)
        evaluate(history, "test_accuracy", step[::100], 0.91 - 0.8 * np.exp(-step[::100] / tau))
    return runs


def build(runs: Runs, setups: tuple[PlotSetup, ...], view: View | None = None) -> Scene:
    return SceneBuilder().build(setups, runs, view or View(), ROOM)


def curve_of(scene: Scene, run: str = "1", plot: int = 0) -> Curve:
    """A run's main curve."""
    found = scene.plots[plot].headline(run)
    assert found is not None
    return found


def test_a_card_becomes_plots(setups: tuple[PlotSetup, ...]) -> None:
    loss, accuracy = setups
    assert (loss.headline, loss.others, loss.better, loss.log) == ("loss", (), "lower", True)
    assert (accuracy.headline, accuracy.others, accuracy.better) == ("test_accuracy", ("accuracy",), "higher")
    assert accuracy.goals == GOALS
    without_goal = resolve_plots(PLOTS, (), METRICS)[1]
    assert (without_goal.headline, without_goal.others) == ("accuracy", ("test_accuracy",))
    assert accuracy.label("accuracy") == "batches"
    assert accuracy.label("unknown_metric") == "unknown metric"


def test_the_selected_run_is_drawn_last_and_every_step_counts(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    scene = build(runs, setups)
    loss = scene.plots[0]
    assert [d.run.run_id for d in loss.curves] == ["1", "2"]
    curve = loss.curves[0].curve
    recorded = runs[0].history.pyramid("loss")
    assert recorded is not None
    assert recorded.highest is not None
    assert 10 ** curve.raw_y.max() == pytest.approx(recorded.highest.value, rel=1e-6)
    assert not curve.exact
    assert scene.window > 1


def test_the_axis_reaches_to_the_planned_end_and_holds_the_goal(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    scene = build(runs, setups)
    assert scene.grid.span == Span(0, 2060)
    assert scene.plots[1].span.low < 0.9079 < scene.plots[1].span.high


def test_without_smoothing_the_means_of_the_columns_stand_before_all_values(
    runs: Runs, setups: tuple[PlotSetup, ...]
) -> None:
    scene = build(runs, setups, View(smoothing=0))
    curve, plot = scene.plots[0].curves[0].curve, scene.plots[0]
    assert curve.exact
    assert curve.x.size == curve.raw_x.size // 2
    both = curve.raw_y.reshape(-1, 2)
    assert np.all((both.min(axis=1) <= curve.y) & (curve.y <= both.max(axis=1)))
    assert plot.span.contains(Span(float(curve.raw_y.min()), float(curve.raw_y.max()))), "no value is out of sight"
    assert scene.legend == "Line: mean of each pixel. Faint: lowest to highest value."
    assert scene.number_words == "Number: the last value."


def test_the_foot_says_what_line_faint_line_and_number_are(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    scene = build(runs, setups)
    steps = f"{round(scene.window, -1):,.0f}"
    assert scene.legend.startswith(f"Line: mean over about {steps} steps. Faint: ")
    few = resolve_plots([msgspec.structs.replace(PLOTS[1], metrics=("test_accuracy",))], GOALS, METRICS)
    shown = SceneBuilder().build(few, runs, View(), Room(600, (140,)))
    assert shown.legend == "", "evaluations are drawn as they are"


def test_a_quiet_line_leaves_room_for_its_loud_values(setups: tuple[PlotSetup, ...]) -> None:
    run = one(selected=True)
    record(run.history, "loss", 0, 0.3 * np.exp(np.random.default_rng(1).normal(0, 0.05, 20_000)))
    plot = SceneBuilder().build(setups[:1], (run,), View(), Room(600, (140,))).plots[0]
    curve = plot.curves[0].curve
    shown = np.mean((curve.raw_y >= plot.span.low) & (curve.raw_y <= plot.span.high))
    assert shown > 0.9


def test_evaluations_keep_their_points_in_every_view(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    curve = curve_of(build(runs, setups), plot=1)
    assert curve.sparse
    assert curve.x.tolist() == list(range(0, 1000, 100))
    zoomed = curve_of(build(runs, setups, View(zoom=Span(310, 390))), plot=1)
    assert zoomed.x.tolist() == [300, 400]
    assert not zoomed.ends


@pytest.mark.parametrize(
    ("unit", "end"), [(XUnit.STEP, 2060.0), (XUnit.IMAGES, 206_000.0), (XUnit.EPOCH, 2060 * 100 / 55_000)]
)
def test_units(runs: Runs, setups: tuple[PlotSetup, ...], unit: XUnit, end: float) -> None:
    scene = build(runs, setups, View(unit=unit))
    assert scene.full.high == pytest.approx(end)
    assert scene.plots[0].curves


def test_runs_without_the_unit_are_named(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    alone = RunStyle("3", "3  Whole batch", 2)
    record(alone.history, "loss", 0, [1.0, 0.5])
    scene = build((runs[0], alone), setups, View(unit=XUnit.EPOCH))
    assert {d.run.run_id for d in scene.plots[0].curves} == {"1"}
    assert scene.notes == ("Not shown against epoch: 3  Whole batch.",)


def test_values_that_a_log_axis_cannot_hold_are_said(setups: tuple[PlotSetup, ...]) -> None:
    run = one()
    record(run.history, "loss", 0, [1.0, 0.1, 0.0, 0.0, 0.001])
    scene = build((run,), setups)
    curve = curve_of(scene)
    assert curve.x.tolist() == [0, 1, 4]
    assert scene.notes == ("A log axis cannot show values of 0 or less; they are left out.",)
    assert build((run,), setups, View(log_y=False)).notes == ()


def test_log_x_begins_at_the_first_step_behind_zero(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    scene = build(runs, setups, View(log_x=True))
    assert scene.full.low == 0.0
    assert scene.full.high > math.log10(2000)
    assert {"1", "10", "100", "1,000"} <= {tick.text for tick in scene.ticks}
    curve = curve_of(scene)
    assert 0 <= curve.x[0] < 0.01


def test_while_nothing_ran_the_expected_curve_is_shown(setups: tuple[PlotSetup, ...]) -> None:
    scene = build((one(),), setups)
    ghost = scene.plots[0].ghost
    assert scene.empty
    assert ghost is not None
    assert ghost[1].tolist() == pytest.approx([math.log10(2), math.log10(0.3)])
    assert scene.full == Span(0, 515)
    assert summary(scene) == "No run has values yet."


def test_where_a_run_stopped_giving_numbers(setups: tuple[PlotSetup, ...]) -> None:
    run = one()
    record(run.history, "loss", 0, [2.0, 20.0, 2e30, np.inf, np.nan, np.nan])
    scene = build((run,), setups)
    curve = curve_of(scene)
    assert curve.bad_x == 3
    assert "infinite from step 3" in summary(scene)


RATE = ParamSpec(name="learning_rate", label="Rate", kind="float", default=0.5, live=True)


def test_only_events_of_the_selected_run_are_marked(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    runs[0].history.feed(1, Checkpoint(step=10, folder="a", files=()))
    runs[1].history.feed(1, Live(name="learning_rate", value=0.25, step=500))
    runs[1].history.feed(1, Checkpoint(step=100, folder="a", files=()))
    builder = SceneBuilder()
    builder.params = (RATE,)
    found = builder.build(setups, runs, View(), ROOM).events
    assert found == (
        (RunEvent("2", 100, "Checkpoint"), 100.0),
        (RunEvent("2", 500, "Rate 0.25 from here"), 500.0),
    )
    assert build(runs[:1], setups).events == ((RunEvent("1", 10, "Checkpoint"), 10.0),)


@pytest.mark.parametrize("diverged", [1, 2])
@pytest.mark.parametrize("log", [True, False])
def test_runs_of_a_sweep_that_diverged_leave_the_axis_to_the_others(
    runs: Runs, setups: tuple[PlotSetup, ...], diverged: int, log: bool
) -> None:
    before = build(runs, setups, View(log_y=log)).plots[0].span
    more = [RunStyle(f"bad{k}", f"{3 + k}  SGD 9", 2 + k, selected=not k) for k in range(diverged)]
    for run in more:
        record(run.history, "loss", 0, 10.0 ** (0.3 * np.arange(1000)), dtype="float64")
        run.history.feed(1, Diverged(metric="loss", step=999, value="inf"))
    shown = (*(replace(run, selected=False) for run in runs), *more)
    scene = build(shown, setups, View(log_y=log))
    assert scene.plots[0].span.high <= before.high + 0.1 * before.size
    alone = build(tuple(more), setups, View(log_y=log)).plots[0].span
    assert alone.high > before.high, "on its own it shows how it diverged"


def test_what_was_done_to_workers_is_marked_where_it_happened(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    history = runs[0].history
    for step in (0, 20):
        update = {"steps": step, "workers": 0, "ended": step / 10, "seconds": 0.1, "staleness": 0, "accepted": 1}
        history.feed(1, as_updates({name: np.array([value]) for name, value in update.items()}, time=1000 + step / 10))
    for status, seconds in (("slowed", 0.5), ("killed", 1.0), ("replaced", 1.5), ("joined", 1.8)):
        history.feed(1, Peer(role="worker", index=1, host="", status=status, factor=5.0, time=1000 + seconds))
    assert [(event.text, x) for event, x in build(runs[:1], setups).events] == [
        ("Slowed worker 1: ×5", 5.0),
        ("Killed worker 1", 10.0),
        ("Started worker 1 again", 15.0),
    ]


def test_a_metric_that_no_curve_shows_is_marked_where_it_became_no_number(
    runs: Runs, setups: tuple[PlotSetup, ...]
) -> None:
    history = runs[0].history
    history.feed(1, Diverged(metric="gradient", value="inf", step=212))
    assert build(runs[:1], setups).events == ((RunEvent("1", 212, "Diverged at step 212", bad=True), 212.0),)
    record(history, "loss", 1000, [np.nan], batch=(100, 55_000))
    assert build(runs[:1], setups).events == (), "the curve itself shows that"


def test_of_several_runs_only_those_that_stand_out_keep_their_raw_curve(setups: tuple[PlotSetup, ...]) -> None:
    rng = np.random.default_rng(2)
    runs = tuple(RunStyle(str(k), f"run {k}", k, selected=k == 3) for k in range(4))
    for run in runs:
        record(run.history, "loss", 0, np.exp(rng.normal(0, 0.3, 5000)))
    scene = build(runs, setups)
    assert [d.run.run_id for d in scene.plots[0].curves if d.curve.raw_x.size] == ["3"]


@pytest.mark.parametrize(("spread", "drawn"), [(0.01, True), (0.5, False)])
def test_raw_values_that_would_tint_a_whole_plot_are_left_out(
    setups: tuple[PlotSetup, ...], spread: float, drawn: bool
) -> None:
    run, noise = one(selected=True), np.where(np.arange(2000) % 2, 1.0, -1.0)
    record(run.history, "accuracy", 0, 0.5 + spread * noise)
    evaluate(run.history, "test_accuracy", np.arange(0, 2000, 100), np.linspace(0.4, 0.9, 20))
    raw = {d.curve.metric for d in build((run,), setups).plots[1].curves if d.curve.raw_x.size}
    assert raw == ({"accuracy"} if drawn else set())


def test_a_share_without_a_better_side_is_not_magnified_until_it_is_noise() -> None:
    run, setups = one(), resolve_plots([PlotSpec(id="active", title="Active", metrics=("active",), format="percent")])
    record(run.history, "active", 0, np.linspace(0.99, 1.0, 100))
    span = SceneBuilder().build(setups, (run,), View(), Room(600, (140,))).plots[0].span
    assert span.high < 1.02
    assert span.size > 0.1


def test_unchanged_curves_are_not_made_again(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    builder = SceneBuilder()
    before = builder.build(setups, runs, View(), ROOM)
    record(runs[1].history, "loss", 1000, [0.3, 0.31], batch=(100, 55_000))
    after = builder.build(setups, runs, View(), ROOM)
    assert after.grid is before.grid
    assert after.plots[0].span is before.plots[0].span
    assert after.plots[0].headline("1") is before.plots[0].headline("1")
    assert after.plots[0].headline("2") is not before.plots[0].headline("2")


def test_the_read_out_says_what_the_curves_show(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    readout = read(build(runs, setups), 850.0)
    assert readout.heading == "Step 850, smoothed"
    assert readout.columns == ("loss", "test set", "batches")
    first, second = readout.rows
    assert float(first.values[0]) == pytest.approx(0.3, abs=0.05)
    assert first.values[1] == "91.00 %"
    assert first.points[1] is not None
    assert first.points[1][0] == 800.0
    assert second.run.selected
    assert first.values[2].startswith("90")
    assert read(build(runs, setups), 999.0).rows[0].values[0] != "–", "the last step has a value"
    assert readout.sentence().startswith("Step 850, smoothed. 1  SGD 0.5: loss 0.3")
    assert read(build(runs, setups), 1500.0).rows[0].values == ("–", "91.00 %", "–")
    two = resolve_plots((*PLOTS, PlotSpec(id="again", title="Again", metrics=("loss",))), GOALS, METRICS)
    scene = SceneBuilder().build(two, runs, View(), Room(600, (140, 140, 140)))
    assert read(scene, 850.0).columns == ("loss", "accuracy", "again"), "of many curves the labelled ones"


@pytest.mark.parametrize(
    ("unit", "x", "heading"),
    [
        (XUnit.EPOCH, 1.5, "Epoch 1.50"),
        (XUnit.IMAGES, 5000.0, "5,000 images"),
        (XUnit.SECONDS, 75.0, "1:15"),
    ],
)
def test_read_out_headings(runs: Runs, setups: tuple[PlotSetup, ...], unit: XUnit, x: float, heading: str) -> None:
    record(runs[0].history, "loss", 1000, np.ones(1000), batch=(100, 55_000), clock=(100.0, 100.0))
    assert read(build(runs, setups, View(unit=unit, smoothing=0)), x).heading == heading


def test_selected_pinned_and_live_runs_are_kept_when_not_all_fit() -> None:
    runs = tuple(RunStyle(str(k), str(k), k) for k in range(20))
    runs = (*runs[:9], replace(runs[9], pinned=True), *runs[10:18], replace(runs[18], live=True), *runs[19:])
    assert [run.run_id for run in prominent(runs, 4)] == ["0", "1", "9", "18"]
    assert prominent(runs, 20) == runs


def test_the_summary_names_last_and_best(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    text = summary(build(runs, setups))
    assert text.startswith("Training loss: 1  SGD 0.5 last 0.")
    assert "Accuracy: 1  SGD 0.5 last 91.00 % at step 900, best 91.00 % at step 900;" in text


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.6])
def test_where_a_part_of_the_journal_is_damaged_the_curve_has_a_gap(
    setups: tuple[PlotSetup, ...], log: bool, smoothing: float
) -> None:
    run, rng = one(), np.random.default_rng(1)
    for first, end in ((0, 1), (2, 400), (600, 1000)):
        record(run.history, "loss", first, rng.uniform(0.5, 1.5, end - first))
    evaluate(run.history, "test_accuracy", [0, 500, 999], [0.1, 0.5, 0.6])
    scene = build((run,), setups, View(log_x=log, smoothing=smoothing))
    curve = curve_of(scene)
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


# --- Replay -----------------------------------------------------------------------------------------------------------


def until(run: RunStyle, step: int) -> RunStyle:
    """The same run as it was when ``step`` was its last step."""
    then = replace(run, history=type(run.history)())
    for metric in ("loss", "accuracy", "test_accuracy"):
        column = run.history.column(metric)
        keep = column.steps <= step
        if metric == "test_accuracy":
            evaluate(then.history, metric, column.steps[keep], column.values[keep])
        else:
            record(then.history, metric, 0, column.values[keep], batch=(100, 55_000))
    return then


@pytest.mark.parametrize("unit", [XUnit.STEP, XUnit.EPOCH])
@pytest.mark.parametrize("log_x", [False, True])
def test_at_a_step_everything_is_as_it_was_then_and_the_axes_stay(
    runs: Runs, setups: tuple[PlotSetup, ...], unit: XUnit, log_x: bool
) -> None:
    live = runs[1:]  # its planned steps decide the axis and the smoothing of both
    now = build(live, setups, View(unit=unit, log_x=log_x))
    back = build(live, setups, View(unit=unit, log_x=log_x, until=437))
    then = build((until(live[0], 437),), setups, View(unit=unit, log_x=log_x, zoom=now.grid.span))
    assert back.until == 437
    assert back.number_words == "Number: the value at step 437."
    assert [plot.span for plot in back.plots] == [plot.span for plot in now.plots]
    assert back.grid.span == now.grid.span
    for mine, real in zip(back.plots, then.plots, strict=True):
        assert [d.curve.metric for d in mine.curves] == [d.curve.metric for d in real.curves]
        for one, other in zip(mine.curves, real.curves, strict=True):
            assert one.curve.last == other.curve.last
            assert one.curve.best == (None if other.curve.best is None else pytest.approx(other.curve.best))
            inside = other.curve.x < other.curve.x[-1] - now.grid.span.size / 300  # but for the last columns
            expected = np.interp(other.curve.x[inside], one.curve.x, one.curve.y)
            np.testing.assert_allclose(expected, other.curve.y[inside], rtol=1e-9)
            assert one.curve.x[-1] == pytest.approx(other.curve.x[-1], abs=now.grid.span.size / 300)
            assert one.curve.ends
    assert summary(back) == summary(then)


def test_before_its_first_evaluation_a_run_has_the_other_curve_as_its_first(
    runs: Runs, setups: tuple[PlotSetup, ...]
) -> None:
    late = RunStyle("3", "3  late", 2, steps=1000)
    record(late.history, "accuracy", 0, np.linspace(0, 1, 1000), batch=(100, 55_000))
    evaluate(late.history, "test_accuracy", [500, 999], [0.5, 0.9])
    back = build((late,), setups, View(until=300))
    assert [(d.curve.metric, d.headline) for d in back.plots[1].curves] == [("accuracy", True)]
    assert back.plots[1].curves[0].curve.last == pytest.approx(300 / 999)
    point = back.plots[1].curves[0].curve.end
    assert point is not None
    assert point[0] == pytest.approx(300)
    assert read(back, 600.0).rows[0].points == (None, None), "nothing is known yet of what comes"


def test_what_happened_later_is_not_there_yet(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    run = runs[1]
    run.history.feed(1, Live(step=200, name="learning_rate", value=0.05))
    run.history.feed(1, Live(step=600, name="learning_rate", value=0.01))
    broken = np.full(1000, np.nan)
    broken[:700] = 1.0
    bad = replace(one(selected=True), run_id="9")
    record(bad.history, "loss", 0, broken, batch=(100, 55_000))
    steps = [event.step for event, _ in build((run,), setups, View(until=300)).events]
    assert steps == [200]
    assert build((bad,), setups, View(until=300)).plots[0].curves[0].curve.bad_x is None
    assert "NaN" not in summary(build((bad,), setups, View(until=300)))
    assert build((bad,), setups, View(until=800)).plots[0].curves[0].curve.bad_x == 700
    assert build((bad,), setups, View(until=800)).plots[0].curves[0].curve.last == 1.0


def test_at_step_0_a_logarithmic_axis_has_no_curve_yet(runs: Runs, setups: tuple[PlotSetup, ...]) -> None:
    assert [len(plot.curves) for plot in build(runs, setups, View(log_x=True, until=0)).plots] == [0, 0]
    first = build(runs, setups, View(until=0)).plots[0].curves
    assert [d.curve.last for d in first] == [float(run.history.column("loss").values[0]) for run in runs]
