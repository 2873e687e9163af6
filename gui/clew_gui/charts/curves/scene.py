"""Computes everything that one frame shows before a pixel is drawn: ranges, ticks and curves of all plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from clew_gui.charts.curves.model import PlotSetup, RunEvent, RunStyle, View, from_steps, knows
from clew_gui.charts.curves.pixel_columns import Curve, CurveMaker, CurveRequest, Grid, broken, window_for
from clew_gui.charts.kit.layout import FloatArray
from clew_gui.charts.kit.ticks import (
    Span,
    Tick,
    XUnit,
    count_text,
    keep_span,
    linear_ticks,
    log_ticks,
    settled_span,
    span_of,
    x_span,
    x_ticks,
)
from clew_shared.journal.events import Live
from clew_shared.journal.history import disturbed_words
from clew_shared.params import ParamSpec, format_value

MANY: Final = 8
"""The number of runs above which lines are thin."""
_FAINT: Final = 3
"""The number of runs above which raw values are drawn only for runs that stand out: more of them hide each other."""
_LEAST_SHARE: Final = 0.1
"""The least range of an axis of shares none of which is better: changes within it are noise."""
_WALL: Final = 0.6
"""The part of an axis that raw values cover on average, from which on they say nothing."""
_SAMPLED: Final = 128
_CUT: Final = 0.02
"""The part of an axis by which a line must be beyond it to be called cut off."""
_EMPTY_SPAN: Final = {False: Span(0.0, 1.06), True: Span(-2.0, 0.5)}


@dataclass(frozen=True)
class Room:
    """Size of the plots in logical pixels: their common width, and each one's height."""

    width: int
    heights: tuple[int, ...]


Mark = Literal["dot", "square", "triangle", "ring"]
Line = tuple[FloatArray, FloatArray]
MARKS: Final[tuple[Mark, ...]] = ("dot", "square", "triangle", "ring")


@dataclass(frozen=True, eq=False)
class RunCurve:
    """A curve with the run it belongs to. ``headline`` curves carry the label, the marks and the heavy line."""

    run: RunStyle
    curve: Curve
    headline: bool


@dataclass(frozen=True, eq=False)
class PlotScene:
    """One plot: its value axis and curves, the selected run's last. ``log`` says that values are log10."""

    setup: PlotSetup
    log: bool
    span: Span
    ticks: tuple[Tick, ...]
    curves: tuple[RunCurve, ...]
    ghost: Line | None

    @property
    def cut(self) -> bool:
        """Whether a part of a line is out of sight."""
        low, high = self.span.low - _CUT * self.span.size, self.span.high + _CUT * self.span.size
        return any(((item.curve.y < low) | (item.curve.y > high)).any() for item in self.curves)

    def mark_of(self, metric: str) -> Mark:
        """The shape of a metric's points: each metric that is drawn as points in this plot has its own."""
        sparse = {item.curve.metric for item in self.curves if item.curve.sparse}
        order = [name for name in (self.setup.headline, *self.setup.others) if name in sparse]
        return MARKS[order.index(metric) % len(MARKS)] if metric in order else MARKS[0]

    def headline(self, run: str) -> Curve | None:
        """The labelled curve of a run."""
        return next((d.curve for d in self.curves if d.headline and d.run.run_id == run), None)

    def value(self, y: float) -> float:
        """An axis coordinate as value."""
        return 10.0**y if self.log else y


@dataclass(frozen=True, eq=False)
class Scene:
    """One frame. ``empty`` means that no run has a value yet; ``window`` is the smoothing in steps, 1 for none.
    ``until`` is the step at which everything is as it was then; None: as it is now."""

    grid: Grid
    full: Span
    ticks: tuple[Tick, ...]
    plots: tuple[PlotScene, ...]
    runs: tuple[RunStyle, ...]
    events: tuple[tuple[RunEvent, float], ...]
    window: float
    empty: bool
    notes: tuple[str, ...]
    until: int | None = None

    @property
    def legend(self) -> str:
        """Explains lines and faint lines, if noisy values are drawn; else empty."""
        noisy = [d.curve for plot in self.plots for d in plot.curves if d.curve.noisy and d.curve.raw_x.size]
        if not noisy:
            return ""
        mean = "of each pixel" if noisy[0].exact else f"over about {count_text(round(self.window, -1) or 1)} steps"
        return f"Line: mean {mean}. Faint: lowest to highest value."

    @property
    def number_words(self) -> str:
        """Explains the numbers at the right."""
        zoomed = self.grid.span.high < self.full.high
        number = "the value at the right edge" if zoomed else "the last value"
        return f"Number: {number if self.until is None else f'the value at step {count_text(self.until)}'}."

    @property
    def many(self) -> bool:
        """Whether so many runs are shown that lines are thin."""
        return len(self.runs) > MANY

    def x_value(self, x: float) -> float:
        """An axis coordinate in the unit of x."""
        return 10.0**x if self.grid.log else x


class SceneBuilder:
    """Builds scenes; remembers the last grid and the value axes so that both stay still while points arrive."""

    def __init__(self, params: Sequence[ParamSpec] = ()) -> None:
        self.planned = 1000.0
        """Steps on the axis while no run has values and nothing is expected."""
        self.params = params
        """The hyperparameters of the exercise, with their names for people."""
        self.sides: tuple[float, float] | None = None
        """The pixels that the last picture needed left of the plots and at its foot."""
        self._maker = CurveMaker()
        self._grid = Grid(XUnit.STEP, log=False, span=Span(0.0, 1.0), columns=1)
        self._spans: dict[str, tuple[View, tuple[str, ...], Span]] = {}

    def build(
        self, setups: Sequence[PlotSetup], runs: Sequence[RunStyle], view: View, room: Room, lifted: str = ""
    ) -> Scene:
        """The scene of ``runs`` in ``room``. ``lifted`` is the run under the pointer, drawn above the others."""
        self._maker.keep_only({run.run_id for run in runs})
        empty = not has_values(setups, runs)
        full = self._full_span(runs, setups, view, empty)
        span = view.zoom or full
        grid = Grid(view.unit, view.log_x, span, max(room.width, 16))
        if not self._grid.same(grid):
            self._grid = grid
        window = window_for(view.smoothing, max((self._length(run) for run in runs), default=0.0))
        plots = tuple(
            self._plot(setup, runs, view, window, height, lifted, empty)
            for setup, height in zip(setups, room.heights, strict=True)
        )
        return Scene(
            grid=self._grid,
            full=full,
            ticks=x_ticks(span, max(room.width // 96, 2), view.unit, view.log_x),
            plots=plots,
            runs=tuple(runs),
            events=tuple(self._placed(runs, setups, view.until)),
            window=window,
            empty=empty,
            notes=self._notes(plots, runs, view),
            until=view.until,
        )

    def _length(self, run: RunStyle) -> float:
        return max(_reached(run), float(run.steps) if run.live else 0.0)

    def _full_span(self, runs: Sequence[RunStyle], setups: Sequence[PlotSetup], view: View, empty: bool) -> Span:
        if empty:
            ghosts = [p for setup in setups if setup.ghost for p in setup.ghost.points]
            last = max((x for x, _ in ghosts), default=self.planned)
            return x_span(last, last, view.log_x, 1.0)
        known = [run for run in runs if knows(run.history, view.unit)]
        last = max((_in_unit(run, _reached(run), view.unit) for run in known), default=1.0)
        planned = max((_in_unit(run, self._length(run), view.unit) for run in known), default=1.0)
        first = min((_in_unit(run, 1.0, view.unit) for run in known), default=1.0)
        if view.unit is XUnit.SECONDS and any(run.live for run in known):
            last, planned = planned, 0.0  # the estimate of the end wavers: grow in coarse steps
        return x_span(last, planned, view.log_x, first)

    def _plot(
        self, setup: PlotSetup, runs: Sequence[RunStyle], view: View, window: float, high: int, lifted: str, empty: bool
    ) -> PlotScene:
        log = setup.log and view.log_y
        stays = setup.ghost is not None and setup.ghost.stays and view.unit is XUnit.STEP
        ghost = _ghost(setup, self._grid.log, log) if empty or stays else None
        drawn = [d for run in runs for d in self._curves(setup, run, log, window, len(runs), lifted)]
        drawn.sort(key=lambda d: (d.run.run_id == lifted, d.run.selected, d.headline))
        span = self._span(setup, view, log, drawn, ghost)
        curves = tuple(_without_wall(one, span) for one in drawn)
        if view.until is not None:  # the axes stay as they are while a person goes through the steps
            curves = tuple(self._as_then(curves, setup, log, window, view.until))
        return PlotScene(setup, log, span, _y_ticks(setup, span, log, high), curves, ghost)

    def _as_then(
        self, curves: Sequence[RunCurve], setup: PlotSetup, log: bool, window: float, until: int
    ) -> list[RunCurve]:
        """The curves as they were at step ``until``; the labelled one of a run that had none yet is its first one."""
        found = []
        for item in curves:
            better = setup.better if item.curve.metric == setup.headline else "none"
            request = CurveRequest(item.run.run_id, item.curve.metric, log, window, better)
            curve = self._maker.cut(item.run.history, item.curve, request, self._grid, until)
            if curve is not None:
                found.append(replace(item, curve=curve))
        named = {item.run.run_id for item in found if item.headline}
        for k, item in enumerate(found):
            if item.run.run_id not in named:
                named.add(item.run.run_id)
                found[k] = replace(item, headline=True)
        return found

    def _curves(
        self, setup: PlotSetup, run: RunStyle, log: bool, window: float, shown: int, lifted: str
    ) -> list[RunCurve]:
        stands_out = run.selected or run.run_id == lifted
        result = []
        for metric in setup.metrics:
            better = setup.better if metric == setup.headline else "none"
            raw = stands_out or (shown <= _FAINT and metric == setup.headline)
            request = CurveRequest(run.run_id, metric, log, window, better, raw)
            curve = self._maker.make(run.history, request, self._grid)
            if curve is not None:
                result.append(RunCurve(run, curve, metric == setup.headline))
        if result and not any(d.headline for d in result):  # nothing evaluated yet: the plain curve takes the lead
            result[0] = RunCurve(run, result[0].curve, True)
        return result

    def _span(self, setup: PlotSetup, view: View, log: bool, drawn: Sequence[RunCurve], ghost: Line | None) -> Span:
        if ghost is not None and not drawn:
            return keep_span(None, settled_span(ghost[1], "none", log) or _EMPTY_SPAN[log])
        chosen = dict(view.y_zoom).get(setup.id)
        if chosen is not None:
            return chosen
        if view.whole:
            return _whole_span(_heights(drawn, self._grid), setup, log)
        whole = view.zoom is None
        shown = tuple(dict.fromkeys(d.run.run_id for d in drawn))
        # what diverged would leave no room for the others
        drawn = [d for d in drawn if d.curve.metric not in d.run.history.first_nonfinite] or drawn
        starts = np.array([d.curve.y[0] for d in drawn if d.curve.y.size])
        better = setup.better if whole else "none"
        wanted = settled_span(_heights(drawn, self._grid), better, log, starts if whole and starts.size > 1 else None)
        if wanted is None:
            return _EMPTY_SPAN[log]
        chosen_run = [d for d in drawn if d.run.selected]  # the others may make an axis on which it cannot be seen
        own = settled_span(_heights(chosen_run, self._grid), better, log)
        wanted = _with_raw(wanted if own is None else wanted.union(own), drawn)
        if setup.format == "percent" and setup.better == "none" and wanted.size < _LEAST_SHARE and not log:
            wanted = Span(wanted.high - _LEAST_SHARE, wanted.high)
        if whole:
            wanted = _with_goals(wanted, setup, log)
            expected = ghost[1][np.isfinite(ghost[1])] if ghost is not None else np.empty(0)
            if expected.size:
                wanted = wanted.union(Span(float(expected.min()), float(expected.max())))
        kept, view = self._spans.get(setup.id), replace(view, until=None)
        old = kept[2] if kept is not None and kept[0] == view and kept[1] == shown else None
        span = keep_span(old, wanted)
        self._spans[setup.id] = (view, shown, span)
        return span

    def _placed(
        self, runs: Sequence[RunStyle], setups: Sequence[PlotSetup], until: int | None
    ) -> list[tuple[RunEvent, float]]:
        """The events of the selected run with their x, or of the only run shown."""
        chosen = [run for run in runs if run.selected] or list(runs if len(runs) == 1 else ())
        result, grid = [], self._grid
        for run in chosen:
            for event in run_events(run, setups, self.params) if knows(run.history, grid.unit) else ():
                x = _in_unit(run, event.step, grid.unit)
                at = (math.log10(x) if x > 0 else -math.inf) if grid.log else x
                if grid.span.low <= at <= grid.span.high and (until is None or event.step <= until):
                    result.append((event, at))
        return result

    def _notes(self, plots: Sequence[PlotScene], runs: Sequence[RunStyle], view: View) -> tuple[str, ...]:
        notes = []
        if any(d.curve.skipped for plot in plots for d in plot.curves):
            notes.append("A log axis cannot show values of 0 or less; they are left out.")
        setups = [plot.setup for plot in plots]
        without = [run.label for run in runs if has_values(setups, [run]) and not knows(run.history, view.unit)]
        if without:
            notes.append(f"Not shown against {view.unit.value}: {', '.join(without)}.")
        return tuple(notes)


def has_values(setups: Sequence[PlotSetup], runs: Sequence[RunStyle]) -> bool:
    """Whether any of the runs has a value in any of the plots."""
    return any(run.history.pyramid(metric) is not None for run in runs for plot in setups for metric in plot.metrics)


def _reached(run: RunStyle) -> float:
    """The last step with a value; 0 when there is none."""
    return float(max(run.history.last_step, 0))


def _in_unit(run: RunStyle, step: float, unit: XUnit) -> float:
    return float(from_steps(run.history, np.array([step]), unit)[0])


# --- Events -----------------------------------------------------------------------------------------------------------


def run_events(run: RunStyle, setups: Sequence[PlotSetup], params: Sequence[ParamSpec]) -> list[RunEvent]:
    """The events of a run in the order of steps. That a metric became NaN or infinite is one of them, unless a curve
    shows it."""
    history = run.history
    events = [RunEvent(run.run_id, event.step, live_words(params, event)) for event in history.live]
    events += [
        RunEvent(run.run_id, history.updates.step_at(peer.time), text.rstrip("."), bad=peer.status == "killed")
        for peer in history.peer_news
        if (text := disturbed_words(peer))
    ]
    end = history.fold.steps  # the state shows a checkpoint there
    events += [RunEvent(run.run_id, step, "Checkpoint") for step in history.checkpoints if not end or step < end]
    if history.first_nonfinite and not any(broken(history, name) for setup in setups for name in setup.metrics):
        step = min(history.first_nonfinite.values())
        events.append(RunEvent(run.run_id, step, f"Diverged at step {count_text(step)}", bad=True))
    return sorted(events, key=lambda event: event.step)


def live_words(params: Sequence[ParamSpec], event: Live) -> str:
    """A live change as a short sentence: "Learning rate 0.05 from here"."""
    label = next((spec.label for spec in params if spec.name == event.name), "")
    return f"{label or event.name.replace('_', ' ').capitalize()} {format_value(event.value)} from here"


# --- Ranges -----------------------------------------------------------------------------------------------------------


def _whole_span(heights: FloatArray, setup: PlotSetup, log: bool) -> Span:
    """Returns the span of all values and the goals, with some margin."""
    finite = heights[np.isfinite(heights)]
    if not finite.size:
        return _EMPTY_SPAN[log]
    return _with_goals(span_of([finite], False, air=0.0), setup, log).padded(0.05)


def _y_ticks(setup: PlotSetup, span: Span, log: bool, height: int) -> tuple[Tick, ...]:
    at_most = max(min(height // 34, 6), 2)
    if log:
        return log_ticks(span, at_most, setup.format, least_gap=18 * span.size / max(height, 1))
    return linear_ticks(span, at_most, setup.format)


def _ghost(setup: PlotSetup, log_x: bool, log: bool) -> Line | None:
    if setup.ghost is None:
        return None
    points = np.array(setup.ghost.points, np.float64).reshape(-1, 2)
    good = points[:, 0] > 0 if log_x else np.isfinite(points[:, 0])
    if log:  # a NaN stays: it ends one of several curves
        good &= (points[:, 1] > 0) | np.isnan(points[:, 1])
    x, y = points[good, 0], points[good, 1]
    return (np.log10(x) if log_x else x), (np.log10(y) if log else y)


def _heights(drawn: Sequence[RunCurve], grid: Grid) -> FloatArray:
    """Heights of all lines, sampled evenly over x so that a curve counts by its length, with their extremes.

    Of a curve that is not smoothed all values count."""
    at = np.linspace(grid.span.low, grid.span.high, _SAMPLED)
    parts = [np.empty(0)]
    for item in drawn:
        raw = item.curve.exact and item.curve.raw_x.size > 0
        x, y = (item.curve.raw_x, item.curve.raw_y) if raw else (item.curve.x, item.curve.y)
        inside = (x >= grid.span.low) & (x <= grid.span.high)
        if not inside.any():
            continue
        parts += [np.interp(at, x, y, left=np.nan, right=np.nan), np.array([y[inside].min(), y[inside].max()])]
        parts += [y[inside][-1:]]
    return np.concatenate(parts)


def _with_raw(span: Span, drawn: Sequence[RunCurve]) -> Span:
    """Widens the span for most of the raw curves while their main lines are in sight: otherwise the faint range of
    noisy values would fill the plot from border to border. Far spikes get marks instead."""
    for item in drawn:
        curve = item.curve
        if not curve.raw_x.size or not item.headline:
            continue
        main = np.interp(curve.raw_x, curve.x, curve.y) if curve.x.size else curve.raw_y
        near = curve.raw_y[(main >= span.low) & (main <= span.high)]
        if near.size:
            low, high = np.quantile(near, (0.02, 0.98))
            span = span.union(Span(float(low), float(high)))
    return span


def _without_wall(item: RunCurve, span: Span) -> RunCurve:
    """The curve without its raw values, if these go up and down over nearly all of an axis that was not made for them:
    they would be one tinted ground."""
    curve = item.curve
    if item.headline or curve.exact or curve.raw_y.size < 3:
        return item
    seen = np.clip(curve.raw_y, span.low, span.high)
    if 2 * np.nanmean(np.abs(np.diff(seen))) < _WALL * span.size:  # every other stretch goes up or down
        return item
    return replace(item, curve=replace(curve, raw_x=np.empty(0), raw_y=np.empty(0)))


def _with_goals(span: Span, setup: PlotSetup, log: bool) -> Span:
    for goal in setup.goals:
        if log and goal.value <= 0:
            continue
        at = math.log10(goal.value) if log else goal.value
        wider = span.union(Span(at, at))
        if setup.format == "percent" or wider.size <= (span.size + 1.5 if log else 3 * span.size):
            span = wider
    return span
