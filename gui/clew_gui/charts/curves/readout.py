"""Reads out what the crosshair shows: the values of every run at one x."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clew_gui.charts.curves.model import PlotSetup, RunStyle
from clew_gui.charts.curves.pixel_columns import best_until, broken, last_until
from clew_gui.charts.curves.scene import PlotScene, Scene
from clew_gui.charts.kit.ticks import XUnit, count_text, seconds_text, value_text
from clew_shared.journal.history import nonfinite_word
from clew_shared.journal.pyramid import Sample

ROWS: Final = 8
_COLUMNS: Final = 3
"""The number of curves of a run up to which all are read out; of more only the labelled one of each plot."""


@dataclass(frozen=True)
class Row:
    """One run: the value in each column as text, and where its dot is in each plot (axis coordinates, None outside the
    curve)."""

    run: RunStyle
    values: tuple[str, ...]
    points: tuple[tuple[float, float] | None, ...]


@dataclass(frozen=True)
class Readout:
    """The box at the crosshair: heading, a column for each curve, a row for each run, how many runs were left out."""

    x: float
    heading: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    omitted: int

    def sentence(self) -> str:
        """The read-out in words, for screen readers."""
        parts = []
        for row in self.rows:
            values = [f"{name} {text}" for name, text in zip(self.columns, row.values, strict=True) if text != "–"]
            parts.append(f"{row.run.label}: {', '.join(values) or 'no value'}")
        return f"{self.heading}. " + "; ".join(parts) + "."


def x_text(value: float, unit: XUnit) -> str:
    """A place on the x axis in words, such as "Step 11,200"."""
    if unit is XUnit.STEP:
        return f"Step {count_text(round(value))}"
    if unit is XUnit.EPOCH:
        return f"Epoch {value:.2f}"
    if unit is XUnit.IMAGES:
        return f"{count_text(round(value))} images"
    return f"Learning rate {value:.3g}" if unit is XUnit.RATE else seconds_text(max(value, 0.0))


def read(scene: Scene, x: float) -> Readout:
    """The read-out at ``x`` in axis coordinates. Runs that stand out come first when not all fit."""
    columns = _columns(scene)
    every = {run.run_id: _row(scene, columns, run, x) for run in scene.runs}
    there = [run for run in scene.runs if any(point is not None for point in every[run.run_id].points)]
    runs = prominent(there or scene.runs[:1], ROWS)  # a run without a value here says nothing
    rows = tuple(every[run.run_id] for run in runs)
    smooth = any(not d.curve.exact for plot in scene.plots for d in plot.curves if d.headline)
    heading = x_text(scene.x_value(x), scene.grid.unit) + (", smoothed" if smooth else "")
    names = (_name(plot, metric, [m for p, m in columns if p is plot]) for plot, metric in columns)
    return Readout(x, heading, tuple(names), rows, len(there or rows) - len(rows))


def _columns(scene: Scene) -> list[tuple[PlotScene, str]]:
    """The plot and the metric of each column; an empty one is the labelled curve of each run."""
    drawn = [(plot, {item.curve.metric for item in plot.curves}) for plot in scene.plots]
    every = [(plot, name) for plot, names in drawn for name in plot.setup.metrics if name in names]
    return every if len(every) <= _COLUMNS else [(plot, "") for plot in scene.plots]


def _name(plot: PlotScene, metric: str, beside: Sequence[str]) -> str:
    return plot.setup.label(metric) if len(beside) > 1 else plot.setup.id.replace("_", " ")


def prominent(runs: Sequence[RunStyle], at_most: int) -> tuple[RunStyle, ...]:
    """Returns at most so many of the runs, in their order; selected, pinned and live ones are kept first."""
    if len(runs) <= at_most:
        return tuple(runs)
    ranked = sorted(range(len(runs)), key=lambda i: (not runs[i].selected, not runs[i].pinned, not runs[i].live, i))
    return tuple(runs[i] for i in sorted(ranked[:at_most]))


def _row(scene: Scene, columns: Sequence[tuple[PlotScene, str]], run: RunStyle, x: float) -> Row:
    points = tuple(_point(plot, "", run, x) for plot in scene.plots)
    return Row(run, tuple(_value(plot, _point(plot, metric, run, x)) for plot, metric in columns), points)


def _point(plot: PlotScene, metric: str, run: RunStyle, x: float) -> tuple[float, float] | None:
    """Where a run's curve of a metric is, without one its labelled curve."""
    own = [item for item in plot.curves if item.run.run_id == run.run_id]
    curve = next((item.curve for item in own if (item.curve.metric == metric if metric else item.headline)), None)
    return curve.at(x) if curve is not None else None


def _value(plot: PlotScene, point: tuple[float, float] | None) -> str:
    return "–" if point is None else value_text(plot.value(point[1]), plot.setup.format)


# --- Summary ----------------------------------------------------------------------------------------------------------
# A picture of curves in words, for people who cannot see it.


_SPOKEN = 4


def summary(scene: Scene) -> str:
    """Last and best recorded values of the runs that stand out, plot by plot."""
    if scene.empty:
        return "No run has values yet."
    runs = prominent(scene.runs, _SPOKEN)
    parts = []
    for plot in scene.plots:
        spoken = [text for run in runs if (text := _spoken(plot.setup, run, scene.until))]
        if spoken:
            parts.append(f"{plot.setup.title}: {'; '.join(spoken)}.")
    left_out = len(scene.runs) - len(runs)
    if left_out:
        parts.append(f"{left_out} more runs are shown.")
    return " ".join(parts)


def _spoken(setup: PlotSetup, run: RunStyle, until: int | None) -> str:
    for metric in setup.metrics:
        samples = run.history.pyramid(metric)
        last = last_until(samples, until) if samples is not None else None
        if samples is None or last is None:
            continue
        text = f"{run.label} last {_place(last, setup)}"
        best = best_until(samples, setup.better, until)
        if best is not None:
            text += f", best {_place(best, setup)}"
        bad = broken(run.history, metric)
        if bad is not None and (until is None or bad.step <= until):
            text += f", {nonfinite_word(bad.value)} from step {count_text(bad.step)}"
        return text
    return ""


def _place(sample: Sample, setup: PlotSetup) -> str:
    return f"{value_text(sample.value, setup.format)} at step {count_text(sample.step)}"
