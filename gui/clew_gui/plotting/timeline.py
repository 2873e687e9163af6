"""A timeline: what each device does when, as bars from measured points, and as text for terminals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from clew_gui.plotting.measured import MeasuredLine, MeasuredPlot

_WIDTH: Final = 64
"""Characters of a row in a terminal."""


@dataclass(frozen=True)
class Bar:
    """Work on one piece, forward or backward, from ``start`` to ``end``."""

    start: float
    end: float
    piece: int
    backward: bool

    def text(self, names: Sequence[str] = ()) -> str:
        """Says what is done: which piece, or one of ``names``."""
        return _named(self, names) if names else f"{'backward' if self.backward else 'forward'} {self.piece}"


def _named(bar: Bar, names: Sequence[str]) -> str:
    return names[min(int(bar.backward), len(names) - 1)]


def bars(line: MeasuredLine) -> list[Bar]:
    """The row's bars in their order. The last point only ends the one before."""
    found = zip(line.x[:-1].tolist(), line.x[1:].tolist(), line.y[:-1].tolist(), strict=True)
    return [Bar(start, end, abs(round(y)), y < 0) for start, end, y in found if round(y)]


def bar_at(line: MeasuredLine, x: float) -> Bar | None:
    """Returns what the row does from ``x`` on; None if it waits."""
    return next((bar for bar in bars(line) if bar.start <= x < bar.end), None)


def last_end(lines: Sequence[MeasuredLine]) -> float:
    """Returns when the last row ends."""
    return max((float(line.x[-1]) for line in lines if line.x.size), default=0.0)


def busy_share(line: MeasuredLine, end: float) -> float:
    """The share of the time from 0 to ``end`` in which the row works."""
    return sum(bar.end - bar.start for bar in bars(line)) / end if end > 0 else 0.0


def timeline_text(plot: MeasuredPlot) -> list[str]:
    """A heading, and for each row its name, what it does at equal distances, and how much of the time it works."""
    lines = [line for line in plot.lines if line.x.size]
    end = last_end(lines)
    if not end:
        return []
    wide = max(len(line.name) for line in lines)
    moments = (np.arange(_WIDTH) + 0.5) * (end / _WIDTH)
    names, rows = plot.spec.bars, []
    for line in lines:
        found = (bar_at(line, float(moment)) for moment in moments)
        marks = "".join("·" if bar is None else _named(bar, names or ("F", "B"))[0].upper() for bar in found)
        rows.append(f"{line.name.rjust(wide)}  {marks}  {row_text(plot, line)}")
    key = ", ".join(f"{name[0].upper()} {name[0].lower()}{name[1:]}" for name in names)
    return [f"{plot.spec.title}, {plot.x_text(end)}: {key or 'F forward, B backward, · waits'}", *rows]


def row_text(plot: MeasuredPlot, line: MeasuredLine) -> str:
    """How much of the time a row works; when it ends, where its bars have names."""
    if plot.spec.bars:
        return plot.x_text(float(line.x[-1]))
    return f"works {busy_share(line, last_end(plot.lines)):.0%}"
