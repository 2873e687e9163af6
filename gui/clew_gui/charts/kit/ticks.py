"""Axes: numbers as people read them, and where ticks are, also on logarithmic axes. Fractions with the format "percent"
are shown times 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from clew_gui.charts.kit.layout import FloatArray
from clew_shared.base.number_words import quantity

Format = Literal["number", "percent"]

_NARROW_NO_BREAK: Final = "\u202f"


def value_text(value: float, form: Format = "number") -> str:
    """A measured value: percent with two decimals, numbers with three significant digits, no exponent in between."""
    if form == "percent" or not math.isfinite(value):
        return quantity(value, form)
    size = abs(value)
    if size == 0:
        return "0"
    if size >= 1e7 or size < 1e-4:
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    if size >= 1000:
        return f"{value:,.0f}"
    digits = max(2 - math.floor(math.log10(size)), 0)
    return f"{value:.{min(digits, 6)}f}"


def goal_text(value: float, form: Format = "number") -> str:
    """A number that a person chose: 0.001, 1e-12; percent with two decimals."""
    if form == "percent" or not math.isfinite(value):
        return quantity(value, form)
    return f"{value:.6g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def count_text(value: float) -> str:
    """A whole number with separators, such as 25,000."""
    return f"{value:,.0f}"


def seconds_text(seconds: float) -> str:
    """A duration: 0.42 s, 41.3 s, 12:05, 3:07:20."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def tick_text(value: float, step: float, form: Format = "number") -> str:
    """A number on a linear axis whose ticks are ``step`` apart: as many decimals as that needs, the same for all."""
    factor = 100.0 if form == "percent" else 1.0
    unit = " %" if form == "percent" and value != 0 else ""
    shown, gap = value * factor, abs(step) * factor
    if max(abs(shown), gap) >= 1e7 or gap < 1e-6:
        return f"{shown:.3g}".replace("e+", "e")
    decimals = max(0, -math.floor(math.log10(gap) + 1e-9)) if gap else 0
    if round(gap * 10**decimals, 6) != round(gap * 10**decimals):
        decimals += 1
    text = f"{shown:,.{decimals}f}"
    return ("0" if float(text.replace(",", "")) == 0 else text) + unit


def log_tick_text(value: float, form: Format = "number") -> str:
    """A number on a logarithmic axis: plain from a ten-thousandth to a million, beyond as values are written."""
    factor = 100.0 if form == "percent" else 1.0
    unit = " %" if form == "percent" else ""
    shown = value * factor
    exponent = math.floor(math.log10(shown) + 1e-9)
    mantissa = shown / 10.0**exponent
    if -4 <= exponent < 6:
        digits = next((n for n in range(4) if abs(mantissa - round(mantissa, n)) < 1e-6), 4)
        return f"{shown:,.{max(0, digits - exponent)}f}{unit}"
    return f"{mantissa:.2g}e{exponent}{unit}"


def seconds_tick_text(seconds: float, step: float) -> str:
    """A number on an axis of training seconds."""
    if seconds == 0:
        return "0"
    if step >= 30:
        return seconds_text(max(seconds, 60.0)) if seconds >= 60 else f"0:{round(seconds):02d}"
    return f"{tick_text(seconds, step)} s"


def images_tick_text(images: float, step: float) -> str:
    """A number on an axis of images: thousands and millions by letter, so that labels stay short."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if step >= size / 10 and images:
            return f"{tick_text(images / size, step / size)}{_NARROW_NO_BREAK}{letter}"
    return tick_text(images, step)


class XUnit(StrEnum):
    """The unit of the x axis. SECONDS is the training clock, which is stopped while compiling and evaluating; RATE is
    that of a range test."""

    STEP = "step"
    EPOCH = "epoch"
    IMAGES = "images"
    SECONDS = "seconds"
    RATE = "learning rate"


_DEEPEST = 1e-6
"""Smallest part of the whole range that can be shown."""


def zoomed(span: Span, full: Span, factor: float, around: float | None = None) -> Span | None:
    """``factor`` times as much of x, with ``around`` (or the middle) kept in place; None when that is everything."""
    centre = around if around is not None else 0.5 * (span.low + span.high)
    size = max(span.size * factor, full.size * _DEEPEST)
    part = (centre - span.low) / span.size
    return within(Span(centre - part * size, centre + (1 - part) * size), full)


def within(span: Span, full: Span) -> Span | None:
    """``span`` moved into ``full``; None when it is as large."""
    if span.size >= full.size * 0.999:
        return None
    low = min(max(span.low, full.low), full.high - span.size)
    return Span(low, low + span.size)


# --- Ticks ------------------------------------------------------------------------------------------------------------
# Ranges of axes and their ticks. A logarithmic axis works in log10 of its values throughout.

LARGEST: Final = 1e300
"""The end of an axis: between larger numbers the distance may overflow."""


@dataclass(frozen=True)
class Span:
    """The range that an axis shows, in its own coordinates: values, or log10 of them."""

    low: float
    high: float

    @property
    def size(self) -> float:
        """Extent."""
        return self.high - self.low

    def contains(self, other: Span) -> bool:
        """Whether ``other`` lies inside."""
        return self.low <= other.low and other.high <= self.high

    def padded(self, part: float) -> Span:
        """Returns the span enlarged by ``part`` of the extent at both ends."""
        return Span(self.low - part * self.size, self.high + part * self.size)

    def union(self, other: Span) -> Span:
        """The smallest span over both."""
        return Span(min(self.low, other.low), max(self.high, other.high))


@dataclass(frozen=True)
class Tick:
    """A tick: where it is in the axis' coordinates, and its label."""

    at: float
    text: str


_DECADES: Final = ((1, 1.5, 2, 3, 4, 6, 8), (1, 2, 3, 4, 6, 8), (1, 2, 5), (1, 3))
_CLOCK_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def nice_step(size: float, at_most: int) -> float:
    """The least step of 1, 2, 2.5 or 5 times a power of ten with at most ``at_most`` ticks over ``size``."""
    rough = size / max(at_most, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = (factor * power for factor in (1.0, 2.0, 2.5, 5.0))
    return next((step for step in steps if step >= rough * (1 - 1e-9)), 10.0 * power)


def _multiples(span: Span, step: float) -> FloatArray:
    first, last = math.ceil(span.low / step - 1e-9), math.floor(span.high / step + 1e-9)
    return np.arange(first, last + 1, dtype=np.float64) * step


def linear_ticks(span: Span, at_most: int, form: Format = "number") -> tuple[Tick, ...]:
    """Round values inside ``span``, at most about ``at_most``."""
    step = nice_step(span.size, at_most)
    return tuple(Tick(float(v), tick_text(float(v), step, form)) for v in _multiples(span, step))


def whole_ticks(ticks: Iterable[Tick]) -> tuple[Tick, ...]:
    """Those of a linear axis of counts that are at whole numbers."""
    return tuple(Tick(tick.at, tick_text(tick.at, 1.0)) for tick in ticks if abs(tick.at - round(tick.at)) < 1e-9)


def log_ticks(span: Span, at_most: int, form: Format = "number", least_gap: float = 0.0) -> tuple[Tick, ...]:
    """Ticks of a logarithmic axis, ``span`` in log10: within decades where few are shown, decades or more otherwise.

    ``least_gap`` is the smallest distance in decades, so that labels do not touch on a short axis.
    """
    best: list[float] = []
    for candidates in _log_candidates(span, at_most):
        inside = [v for v in candidates if span.low - 1e-9 <= math.log10(v) <= span.high + 1e-9]
        gaps = [math.log10(b / a) for a, b in pairwise(inside)]
        if len(inside) <= at_most + 1 and min(gaps, default=9.0) >= least_gap and len(inside) > len(best):
            best = inside
    return tuple(Tick(math.log10(v), log_tick_text(v, form)) for v in best)


def _log_candidates(span: Span, at_most: int) -> list[list[float]]:
    low, high = max(math.floor(span.low), -307), min(math.ceil(span.high), 307)
    sets: list[list[float]] = []
    if span.size < 0.5 and low > -300 and high < 300:  # less than a factor of three: as on a linear axis
        values = Span(10.0**span.low, 10.0**span.high)
        for step in dict.fromkeys(nice_step(values.size, count) for count in range(at_most, 1, -1)):
            sets += [[float(v) for v in _multiples(values, step) if v > 0]]
    if high - low <= 12:
        sets += [[m * 10.0**k for k in range(low, high + 1) for m in marks] for marks in _DECADES]
    for stride in (1, 2, 3, 4, 5, 10, 20, 50, 100):
        sets.append([10.0**k for k in range(-(-low // stride) * stride, high + 1, stride)])
    return sets


def x_ticks(span: Span, at_most: int, unit: XUnit, log: bool) -> tuple[Tick, ...]:
    """Ticks of the shared x axis."""
    if log:
        return log_ticks(span, at_most)
    step = nice_step(span.size, at_most)
    if unit is XUnit.SECONDS and step >= 1:
        step = next((s for s in _CLOCK_STEPS if s >= span.size / at_most), step)
    text = {XUnit.SECONDS: seconds_tick_text, XUnit.IMAGES: images_tick_text}.get(unit, tick_text)
    ticks = tuple(Tick(float(v), text(float(v), step)) for v in _multiples(span, step))
    return whole_ticks(ticks) if unit is XUnit.STEP else ticks


def x_span(last: float, planned: float, log: bool, first: float) -> Span:
    """The whole x range: from 0 (logarithmic: from ``first``) to the planned end, or past the last value.

    3 % are left empty, so that the last label fits. Without a plan the end grows in steps of a tenth, so that the grid
    of columns stays the same for many points.
    """
    end = max(planned, last)
    if last > planned:
        end = max(1.1 ** math.ceil(math.log(max(last, 1e-9)) / math.log(1.1) - 1e-9), 1e-9)
    end = max(end, 1e-9)
    if log:
        start = min(first, end / 10) if first > 0 else end / 1000
        return Span(math.log10(start), math.log10(end) + 0.015 * math.log10(end / start))
    return Span(0.0, end * 1.03)


def span_of(values: Sequence[FloatArray], log: bool, air: float = 0.05) -> Span:
    """Returns the range of an axis: all ``values`` with so much margin; log10 of them with ``log``."""
    found = np.concatenate([*values, np.empty(0)])
    found = np.log10(found) if log else np.clip(found, -LARGEST, LARGEST)
    if not found.size:
        return Span(0.0, 1.0)
    low, high = float(found.min()), float(found.max())
    if high - low < 1e-9 * max(abs(high), 1e-9):
        half = 0.5 if log else 0.1 * abs(high) or 1.0
        return Span(low - half, high + half)
    return Span(low, high).padded(air)


def settled_span(values: FloatArray, better: str, log: bool, starts: FloatArray | None = None) -> Span | None:
    """The part of a value axis worth seeing: all of it, less the first approach where that would dwarf the rest.

    ``values`` are the drawn heights of all curves (log10 where ``log``), evenly over x. On a linear axis the worst
    eighth is cut when that at least halves the extent; on a logarithmic one only when it cuts two thirds. A run that
    diverged does not squeeze the others: on a linear axis values twenty times the median are left out, on a
    logarithmic one those ten thousand times above all ``starts`` (the curves' first heights).
    """
    finite = _sensible(values[np.isfinite(values)], starts, log)
    if not finite.size:
        return None
    low, high = float(finite.min()), float(finite.max())
    if finite.size >= 24 and better in ("higher", "lower"):
        cut = float(np.quantile(finite, 0.12 if better == "higher" else 0.88))
        inner = Span(cut, high) if better == "higher" else Span(low, cut)
        if inner.size < (0.33 if log else 0.5) * (high - low) and inner.size > 0:
            low, high = inner.low, inner.high
    if high - low < 1e-12 * max(abs(high), abs(low), 1e-300) or high == low:
        half = 0.5 if log else (0.1 * abs(high) or 1.0)
        return Span(low - half, high + half)
    return Span(low, high)


def _sensible(finite: FloatArray, starts: FloatArray | None, log: bool) -> FloatArray:
    if not finite.size:
        return finite
    if log:
        keep = finite <= (float(starts.max()) + 4.0 if starts is not None and starts.size else np.inf)
    else:
        typical = float(np.median(np.abs(finite)))
        keep = np.abs(finite) <= 20.0 * typical if typical > 0 else np.ones(finite.size, bool)
    return finite[keep] if keep.any() else finite


def keep_span(old: Span | None, wanted: Span) -> Span:
    """``wanted`` with some air, or ``old`` while that still fits well: an axis must not tremble as points arrive."""
    if old is not None and old.contains(wanted) and wanted.size > 0.62 * old.size:
        return old
    return wanted.padded(0.06)
