"""The race of a class, everybody's best so far in one exercise as far as curves are shared, and its goals over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clew_gui.charts.kit.lines import LinesPlot, PlotAxis, PlotLine
from clew_gui.charts.kit.ticks import Span, XUnit, linear_ticks, log_ticks, span_of, whole_ticks, x_ticks
from clew_shared.base.number_words import counted, duration, quantity
from clew_shared.cards import MetricSpec

Points = Sequence[tuple[int, float]]


def class_race(curves: Mapping[str, Points], metric: MetricSpec, chosen: str = "") -> LinesPlot | None:
    """The chart of ``curves``, (step, value) pairs by name; ``chosen`` stands out. None where nobody shares one."""
    log = metric.better == "lower" and all(value > 0 for points in curves.values() for _, value in points)
    lines = []
    for number, (name, points) in enumerate(sorted(curves.items())):
        steps, values = (np.asarray(one, dtype=float) for one in zip(*points, strict=True))
        best = np.minimum.accumulate(values) if metric.better == "lower" else np.maximum.accumulate(values)
        drawn = np.log10(best) if log else best
        words = [
            f"{quantity(float(value), metric.format)} at step {step:,.0f}"
            for step, value in zip(steps, best, strict=True)
        ]
        index = number if chosen in ("", name) else -1
        last = quantity(float(best[-1]), metric.format)
        lines.append(
            PlotLine(name, steps, drawn, last, words.__getitem__, index, strong=name == chosen and chosen != "")
        )
    if not lines:
        return None
    x = Span(0.0, max(float(line.x[-1]) for line in lines) * 1.02 or 1.0)
    y = span_of([line.y for line in lines], log=False)
    axis = PlotAxis(y, (log_ticks if log else linear_ticks)(y, 5, metric.format))
    title = f"{metric.label}, everybody's best so far"
    return LinesPlot(title, PlotAxis(x, x_ticks(x, 6, XUnit.STEP, log=False)), axis, tuple(lines))


def class_goals(times: Mapping[str, Sequence[float]], end: float) -> LinesPlot | None:
    """How many goals the class had reached at each time up to ``end``: ``times`` are when, in seconds since 1970, by
    exercise, sorted. None where none is reached."""
    found = {name: np.asarray(one, dtype=float) for name, one in times.items() if one}
    if not found:
        return None
    every, most = np.sort(np.concatenate([*found.values()])), max(one.size for one in found.values())
    first = float(every[len(every) // 20])  # who reached one long before the others does not stretch the axis
    lines = []
    for number, (name, one) in enumerate(found.items()):
        x, y = np.maximum(one - first, 0.0), np.arange(1.0, one.size + 1)
        steps = np.repeat([*x, max(end - first, x[-1])], 2)[:-1], np.repeat([0.0, *y], 2)[1:]
        words = [f"{counted(count, 'goal')} after {duration(after)}" for count, after in enumerate(x.tolist(), 1)]
        lines.append(PlotLine(name, x, y, f"{one.size}", words.__getitem__, number, path=steps))
    x_axis = Span(0.0, max(float(line.path[0][-1]) for line in lines if line.path) * 1.02 or 1.0)
    y_axis = Span(0.0, most * 1.05)
    ticks = x_ticks(x_axis, 6, XUnit.SECONDS, log=False), whole_ticks(linear_ticks(y_axis, 5))
    title = "Goals that the class has reached"
    return LinesPlot(title, PlotAxis(x_axis, ticks[0]), PlotAxis(y_axis, ticks[1]), tuple(lines))
