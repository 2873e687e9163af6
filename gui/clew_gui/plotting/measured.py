"""Measured relations (time against size) as lines with axes, and as a table in text for terminals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.numbers import Format, count_text, value_text
from clew_gui.plotting.axes.ticks import Span, Tick, linear_ticks, log_ticks
from clew_shared.cards import SeriesPlot
from clew_shared.journal.history import Measured
from clew_shared.run_settings import inside

_PREFIXES: Final = {"s": ("n", "µ", "m", ""), "B": ("", "k", "M", "G", "T")}
_LEAST: Final = {"s": -9, "B": 0}
"""The power of ten of a unit's first prefix."""
LARGEST: Final = 1e300
"""The end of an axis: between larger numbers the distance may overflow."""


@dataclass(frozen=True)
class AxisName:
    """The name of an axis: its label and unit."""

    label: str
    unit: str

    @property
    def title(self) -> str:
        """Label and unit, without a unit whose prefix is at each number."""
        return f"{self.label} ({self.unit})" if self.unit and self.unit not in _PREFIXES else self.label


@dataclass(frozen=True, eq=False)
class MeasuredLine:
    """The points of one series, in the order of x; none that is not a finite number."""

    name: str
    x: FloatArray
    y: FloatArray

    def at(self, x: float) -> float | None:
        """The latest y that was measured for ``x``; None when there is none."""
        found = np.flatnonzero(self.x == x)
        return float(self.y[found[-1]]) if found.size else None


@dataclass(frozen=True, eq=False)
class MeasuredPlot:
    """One plot of a run: its lines, and the names of the axes. Without points it has neither."""

    spec: SeriesPlot
    lines: tuple[MeasuredLine, ...] = ()
    x: AxisName = AxisName("", "")
    y: AxisName = AxisName("", "")

    def x_text(self, value: float) -> str:
        """A number of the x axis."""
        return quantity_text(value, self.x.unit)

    def y_text(self, value: float) -> str:
        """A number of the y axis."""
        return quantity_text(value, self.y.unit, self.spec.format)


def measured_plots(specs: Sequence[SeriesPlot], series: Mapping[str, Measured]) -> tuple[MeasuredPlot, ...]:
    """Returns what was measured so far as the card's plots; for a card without any, a plot for each quantity on the y
    axis."""
    return tuple(_plot(spec, series) for spec in specs or _guessed(series))


def _plot(spec: SeriesPlot, series: Mapping[str, Measured]) -> MeasuredPlot:
    chosen = {name: series[name] for name in spec.series or series if name in series}
    lines = tuple(_line(name, one, spec) for name, one in chosen.items())
    last = next((one.last for one in chosen.values()), None)
    if last is None:
        return MeasuredPlot(spec)
    y = AxisName(last.y_label or spec.title, last.y_unit)
    return MeasuredPlot(spec, lines, AxisName(last.x_label, last.x_unit), y)


def _line(name: str, measured: Measured, spec: SeriesPlot) -> MeasuredLine:
    order = np.argsort(measured.x, kind="stable")
    x, y = measured.x[order], measured.y[order]
    good = np.isfinite(x) & np.isfinite(y) & ((x > 0) | (not spec.log_x)) & ((y > 0) | (not spec.log_y))
    return MeasuredLine(name, x[good], y[good])


def _guessed(series: Mapping[str, Measured]) -> list[SeriesPlot]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, one in series.items():
        groups.setdefault((one.last.x_label, one.last.y_label, one.last.y_unit), []).append(name)
    return [
        SeriesPlot(
            id=names[0],
            title=label or names[0],
            series=tuple(names),
            log_x=_wide([series[name].x for name in names]),
            log_y=_wide([series[name].y for name in names]),
        )
        for (_, label, _), names in groups.items()
    ]


def _wide(values: Sequence[FloatArray]) -> bool:
    """Whether numbers are positive and so far apart that only a logarithmic axis shows all of them."""
    found = np.concatenate(values)
    return bool(found.size and found.min() > 0 and found.max() > 100 * found.min())


# --- Axes -------------------------------------------------------------------------------------------------------------


def span_of(values: Sequence[FloatArray], log: bool) -> Span:
    """Returns the range of an axis: all ``values`` with some margin; log10 of them with ``log``."""
    found = np.concatenate([*values, np.empty(0)])
    found = np.log10(found) if log else np.clip(found, -LARGEST, LARGEST)
    if not found.size:
        return Span(0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if high - low < 1e-9 * max(abs(high), 1e-9):
        half = 0.5 if log else 0.1 * abs(high) or 1.0
        return Span(low - half, high + half)
    return Span(low, high).padded(0.05)


def axis_ticks(span: Span, at_most: int, log: bool, unit: str, form: Format = "number") -> tuple[Tick, ...]:
    """Ticks with the unit's prefix at each number (10 µs, 1 ms) if it has prefixes."""
    ticks = log_ticks(span, at_most, form) if log else linear_ticks(span, at_most, form)
    if unit not in _PREFIXES:
        return ticks
    if log:
        return tuple(Tick(tick.at, quantity_text(10.0**tick.at, unit, short=True)) for tick in ticks)
    power, prefix = _prefix(max(abs(span.low), abs(span.high)), unit)
    scaled = linear_ticks(Span(span.low / 10.0**power, span.high / 10.0**power), at_most)
    return tuple(Tick(tick.at * 10.0**power, f"{tick.text} {prefix}{unit}") for tick in scaled)


def quantity_text(value: float, unit: str, form: Format = "number", short: bool = False) -> str:
    """``12.3 µs``, ``17.7 MB``, ``94.27 %``, ``1,000``; ``short`` drops zeros after the point."""
    if unit in _PREFIXES and math.isfinite(value):
        power, prefix = _prefix(abs(value), unit)
        number = value_text(float(f"{value:.3g}") / 10.0**power)
        return f"{_plain(number) if short else number} {prefix}{unit}"
    whole = form == "number" and math.isfinite(value) and value == int(value) and abs(value) < 1e12
    text = count_text(value) if whole else value_text(value, form)
    return f"{text} {unit}" if unit else text


def _plain(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _prefix(size: float, unit: str) -> tuple[int, str]:
    """The power of ten and the prefix for a number of this size, rounded to three digits."""
    letters, first = _PREFIXES[unit], _LEAST[unit]
    power = math.floor(math.log10(float(f"{size:.3g}"))) if size > 0 else 0
    place = min(max((power - first) // 3, 0), len(letters) - 1)
    return first + 3 * place, letters[place]


# --- Table ------------------------------------------------------------------------------------------------------------


def text_tables(plots: Sequence[MeasuredPlot]) -> list[str]:
    """Lines of text: a table for each set of plots with the same x, a row for each x and a column for each line. No
    timelines: ``plotting.timeline`` writes those."""
    groups: dict[AxisName, list[MeasuredPlot]] = {}
    for plot in plots:
        if any(line.x.size for line in plot.lines) and plot.spec.form == "lines":
            groups.setdefault(plot.x, []).append(plot)
    return [text for x, group in groups.items() for text in _table(x, group)]


def _table(x: AxisName, plots: Sequence[MeasuredPlot]) -> list[str]:
    every = [(plot, line) for plot in plots for line in plot.lines]
    lone = [(plot, line) for plot, line in every if _is_lone(line, [other for _, other in every])]
    columns = [one for one in every if one not in lone]
    places = sorted({float(value) for _, line in columns for value in line.x})
    rows = [[x.title, *(line.name for _, line in columns)]]
    for place in places:
        found = [(plot, line.at(place)) for plot, line in columns]
        cells = [plot.y_text(value) if value is not None else "–" for plot, value in found]
        rows.append([plots[0].x_text(place), *cells])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    told = (
        f"{line.name}: {plot.y_text(float(line.y[0]))} ({inside(x.title)} {plot.x_text(float(line.x[0]))})"
        for plot, line in lone
    )
    shown = rows if columns else []
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
    return [*lines, *told]


def _is_lone(line: MeasuredLine, lines: Sequence[MeasuredLine]) -> bool:
    """Whether a line is one point where no other one has any: its column would be of dashes."""
    if line.x.size != 1 or len(lines) < 2:
        return False
    return not any(other is not line and other.at(float(line.x[0])) is not None for other in lines)
