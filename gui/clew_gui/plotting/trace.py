"""Prepares what the chart of a run's traced steps shows: rows of spans as pixel columns, each with its main kind."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.ticks import Span, Tick, linear_ticks
from clew_shared.journal.events import Trace
from clew_shared.journal.trace import KINDS, kind_of, read_spans

_LEVELS: Final = 4
"""The shades of a column by how much of it is filled."""
_NAMES: Final = tuple(KINDS)


class Stretch(NamedTuple):
    """Neighbouring pixel columns of one kind: from ``first`` to before ``end``; ``full`` says how much of them."""

    first: int
    end: int
    kind: str
    full: float


class Timeline:
    """The spans of a trace, by row, in the order of time."""

    def __init__(self, event: Trace) -> None:
        self.event = event
        self._kinds = np.array([_NAMES.index(kind_of(kind)) for kind in event.kinds], np.int64)
        spans = read_spans(event)
        self._rows: list[tuple[FloatArray, FloatArray, NDArray[np.int64]]] = []
        for number in range(len(event.rows) if spans is not None else 0):
            if spans is None:
                break
            own = np.flatnonzero(spans.row == number)
            own = own[np.argsort(spans.begin[own], kind="stable")]
            begin = spans.begin[own]
            end = np.minimum(begin + spans.took[own], np.append(begin[1:], np.inf))
            self._rows.append((begin, end, spans.name[own].astype(np.int64)))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def whole(self) -> Span:
        """All of the time."""
        return Span(0.0, self.event.seconds)

    def stretches(self, row: int, shown: Span, columns: int) -> list[Stretch]:
        """What a row shows of a part of the time in so many pixel columns."""
        edges = np.linspace(shown.low, shown.high, columns + 1)
        begin, end, names = self._rows[row]
        kinds = self._kinds[names]
        filled = np.array([_filled(begin[kinds == k], end[kinds == k], edges) for k in range(len(_NAMES))])
        share = filled.sum(axis=0) / (edges[1] - edges[0])
        level = np.minimum(np.ceil(share * _LEVELS - 1e-6), _LEVELS).astype(np.int64)
        key = np.where(level > 0, filled.argmax(axis=0) * (_LEVELS + 1) + level, 0)
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        ends = np.append(starts[1:], columns)
        return [
            Stretch(first, last, _NAMES[at // (_LEVELS + 1)], at % (_LEVELS + 1) / _LEVELS)
            for first, last, at in zip(starts.tolist(), ends.tolist(), key[starts].tolist(), strict=True)
            if at
        ]

    def at(self, row: int, moment: float) -> tuple[int, float, float] | None:
        """The operation of a row at a moment: its number, and from when to when; None where there is none."""
        begin, end, names = self._rows[row]
        place = int(np.searchsorted(begin, moment, side="right")) - 1
        if place < 0 or end[place] <= moment:
            return None
        return int(names[place]), float(begin[place]), float(end[place])


def _filled(begin: FloatArray, end: FloatArray, edges: FloatArray) -> FloatArray:
    """The time between each two edges that intervals, one after the other, take."""
    if not len(begin):
        return np.zeros(len(edges) - 1)
    until = np.cumsum(end - begin)
    moments = np.column_stack((begin, end)).ravel()
    sums = np.column_stack((until - (end - begin), until)).ravel()
    return np.diff(np.interp(edges, moments, sums))


def time_ticks(shown: Span, at_most: int) -> tuple[Tick, ...]:
    """Ticks of the time axis, in the unit that suits its end."""
    size, unit = next(((size, unit) for size, unit in ((1.0, "s"), (1e-3, "ms")) if shown.high >= size), (1e-6, "µs"))
    scaled = linear_ticks(Span(shown.low / size, shown.high / size), at_most)
    return tuple(Tick(tick.at * size, f"{tick.text} {unit}") for tick in scaled)
