"""What a profiler saw of a few steps of a run: the spans of its timeline, its most expensive operations, its parts."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.journal.events import Trace

PARTS: Final = {
    "compute": "Compute",
    "reduce": "Reduce",
    "input": "Input",
    "host": "Host",
    "idle": "Idle",
}
"""The parts of a step's time in words, in the order in which they count where several go on at once."""
KINDS: Final = {
    "convolution": "Convolution",
    "matmul": "Matrix product",
    "pointwise": "Element by element",
    "sums": "Sums and pooling",
    "weights": "Update of weights",
    "input": "Input",
    "reduce": "Sum over devices",
    "other": "Copies and other",
}
"""Kinds of operations in words. A kind that is not known here is "other"."""
MOST_ROWS: Final = 64
MOST_NAMES: Final = 500
MOST_SPANS: Final = 16_000
"""Spans of the timeline: 256 kB, a quarter of what a journal's frame may have."""
MOST_LETTERS: Final = 96
"""Letters of the name of an operation, of which the last ones say most, or of a row."""
LEAST_SECONDS: Final = 1e-9
MOST_SECONDS: Final = 1e9
"""What the steps may take: no clock shows less, nobody waits for more."""
_ROUNDING: Final = 1 + 1e-6
"""Spans have a precision of seven digits."""


class Operation(NamedTuple):
    """All that the traced steps did of one operation: how many times, and the seconds together."""

    name: str
    kind: str
    times: int
    seconds: float


class Spans(NamedTuple):
    """The spans of a timeline: of which row, of which operation, and from when to when in seconds."""

    row: NDArray[np.uint16]
    name: NDArray[np.uint16]
    begin: NDArray[np.float64]
    took: NDArray[np.float32]


def read_spans(event: Trace) -> Spans | None:
    """The spans of an event; None when its arrays do not fit together, or are not what can be shown."""
    listed = {len(event.names), len(event.kinds), len(event.counts), len(event.totals)}
    count, rest = divmod(len(event.begin), 8)
    sizes = (len(event.row), len(event.name), len(event.took))
    if rest or sizes != (2 * count, 2 * count, 4 * count) or len(listed) != 1 or event.count < 1:
        return None
    spans = Spans(
        np.frombuffer(event.row, "<u2").astype(np.uint16),
        np.frombuffer(event.name, "<u2").astype(np.uint16),
        np.frombuffer(event.begin, "<f8").astype(np.float64),
        np.frombuffer(event.took, "<f4").astype(np.float32),
    )
    if count and (spans.row.max() >= len(event.rows) or spans.name.max() >= len(event.names)):
        return None
    with np.errstate(invalid="ignore"):  # NaN is inside of nothing
        inside = (spans.begin >= 0) & (spans.took >= 0) & (spans.begin + spans.took <= event.seconds * _ROUNDING)
    return spans if inside.all() and _few(event, count) and _possible(event) else None


def _few(event: Trace, spans: int) -> bool:
    """Whether there is not more than a writer writes: a reader goes through all of it at each picture."""
    letters = max(map(len, (*event.rows, *event.names)), default=0)
    many = (len(event.rows) > MOST_ROWS, len(event.names) > MOST_NAMES, spans > MOST_SPANS, letters > MOST_LETTERS)
    return not any(many)


def _possible(event: Trace) -> bool:
    """Whether the sums can be those of steps: shares of them are from 0 to 1."""
    values = (*event.totals, *event.parts.values(), *event.counts)
    return (
        LEAST_SECONDS <= event.seconds <= MOST_SECONDS
        and all(value >= 0 for value in values)
        and sum(event.parts.values()) <= event.seconds * _ROUNDING
        and (not event.totals or 0 < sum(event.totals) < math.inf)
    )


def kind_of(kind: str) -> str:
    """The kind, or "other" for one that is not known here."""
    return kind if kind in KINDS else "other"


def most_expensive(event: Trace, most: int = 10) -> list[Operation]:
    """The operations that took the most seconds, the most expensive first."""
    every = zip(event.names, map(kind_of, event.kinds), event.counts, event.totals, strict=True)
    return sorted(map(Operation._make, every), key=lambda one: -one.seconds)[:most]


def all_seconds(event: Trace) -> float:
    """The seconds of all operations together: more than the steps took where several ran at once."""
    return sum(event.totals)


def shares(event: Trace) -> dict[str, float]:
    """The parts of a step's time, of 1 together, in the order of ``PARTS``; what is not known here is idle."""
    known = {name: max(event.parts.get(name, 0.0), 0.0) / event.seconds for name in PARTS if name != "idle"}
    return known | {"idle": max(1.0 - sum(known.values()), 0.0)}
