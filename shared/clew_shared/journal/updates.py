"""The gradients that parameter servers took: folds ``Updates`` into columns and counts that can be drawn and
exported."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.journal.buffer import Buffer
from clew_shared.journal.events import Updates

KEPT: Final = 1 << 20
"""Number of gradients that are kept one by one in a window; there are up to twice as many for a while (27 bytes
each)."""
_LARGEST: Final = 65_535
"""The largest number of a worker, and the largest staleness: an event with a larger one is damaged."""
_FIELDS: Final = {
    "steps": ("<i8", "int64"),
    "workers": ("<i4", "uint16"),
    "ended": ("<f8", "float64"),
    "seconds": ("<f4", "float32"),
    "staleness": ("<i4", "int32"),
    "accepted": ("<u1", "bool"),
}
"""Each field's type in the journal and here."""


class UpdateColumns(NamedTuple):
    """The columns of ``Updates``, one value for each gradient, in the order in which the servers took them; ``ended``
    is on the clock that runs on over attempts.

    The arrays are views of growing buffers: use them at once, or copy them, before more is fed.
    """

    steps: NDArray[np.int64]
    workers: NDArray[np.uint16]
    ended: NDArray[np.float64]
    seconds: NDArray[np.float32]
    staleness: NDArray[np.int32]
    accepted: NDArray[np.bool_]

    def take(self, where: slice | NDArray[np.bool_]) -> UpdateColumns:
        """Returns some of the gradients."""
        columns: list[NDArray[Any]] = [column[where] for column in self]
        return UpdateColumns(*columns)


class UpdateCounts(NamedTuple):
    """Counts of gradients by staleness and by worker; row 0 counts those that were dropped, row 1 those that were
    applied."""

    staleness: NDArray[np.int64]
    workers: NDArray[np.int64]

    @property
    def dropped(self) -> int:
        """Returns how many gradients were dropped."""
        return int(self.workers[0].sum())

    @property
    def applied(self) -> int:
        """Returns how many gradients were applied."""
        return int(self.workers[1].sum())

    @property
    def mean_staleness(self) -> float:
        """Returns the mean staleness of the applied gradients; 0 when there are none."""
        return float(self.staleness[1] @ np.arange(self.staleness.shape[1])) / max(self.applied, 1)

    @property
    def largest_staleness(self) -> int:
        """Returns the largest staleness of the applied gradients; 0 when there are none."""
        found = np.flatnonzero(self.staleness[1])
        return int(found[-1]) if len(found) else 0

    def median_staleness(self) -> int:
        """Returns the median staleness: half of the applied gradients had this or less."""
        return int(np.searchsorted(np.cumsum(self.staleness[1]), self.applied / 2))

    def shares(self) -> dict[int, float]:
        """The part of the applied gradients that each worker computed."""
        found = np.flatnonzero(self.workers.sum(axis=0))
        return {int(worker): float(self.workers[1, worker]) / max(self.applied, 1) for worker in found}

    def plus(self, other: UpdateCounts, sign: int = 1) -> UpdateCounts:
        """Returns the sum of both counts; with ``sign`` -1 their difference."""
        pairs = zip(self, other, strict=True)
        return UpdateCounts(*(_wide(one, two.shape[1]) + sign * _wide(two, one.shape[1]) for one, two in pairs))


def _wide(counts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.pad(counts, ((0, 0), (0, max(0, size - counts.shape[1]))))


def count(columns: UpdateColumns) -> UpdateCounts:
    """The counts of some gradients."""
    return UpdateCounts(_table(columns.staleness, columns.accepted), _table(columns.workers, columns.accepted))


def _table(values: NDArray[Any], accepted: NDArray[np.bool_]) -> NDArray[np.int64]:
    width = int(values.max()) + 1 if len(values) else 0
    found = np.bincount(values.astype(np.int64) + width * accepted, minlength=2 * width)
    return found.reshape(2, width).astype(np.int64)


class _Older(NamedTuple):
    """Gradients that are only counted: the last step among them."""

    last_step: int
    counts: UpdateCounts


class UpdateTable:
    """The gradients of a run, each once: a later attempt wins from its start step on, as for curves.

    ``kept``: so many are kept one by one, older ones are only counted (None: all are kept).
    """

    def __init__(self, kept: int | None = KEPT) -> None:
        self._kept = kept
        self._buffers: dict[str, Buffer[Any]] = {name: Buffer(dtype) for name, (_, dtype) in _FIELDS.items()}
        self._older: list[_Older] = []
        self.counts = count(self.columns)
        """The counts of all gradients."""
        self._walls = Buffer(np.float64)
        self._clocks = Buffer(np.float64)
        self._anchored = Buffer(np.int64)
        self.moved = 0
        """Bytes over the network for one gradient."""

    def __len__(self) -> int:
        return self._buffers["steps"].size

    @property
    def columns(self) -> UpdateColumns:
        """Returns the gradients that are kept one by one."""
        columns: list[NDArray[Any]] = [buffer.view for buffer in self._buffers.values()]
        return UpdateColumns(*columns)

    def append(self, found: UpdateColumns, time: float = 0.0, moved: int = 0, *, late: bool = False) -> None:
        """Take what ``read_updates`` found, written at the wall clock ``time``. Steps that come again replace those
        that were there: the servers were set back to a checkpoint. ``late``: a later attempt has begun already."""
        if not len(found.steps):
            return
        if len(self) and not late and found.steps[0] < self._buffers["steps"].view[-1]:
            self.cut(int(found.steps[0]))
        self._extend(found)
        self.counts = self.counts.plus(count(found))
        self.moved = moved or self.moved
        if time and not late:
            self._walls.extend(np.array([time]))
            self._clocks.extend(found.ended[-1:])
            self._anchored.extend(found.steps[-1:])
        self._fold()

    def cut(self, start: int) -> None:
        """Take away what made step ``start`` and later ones. Of those that are only counted, a stretch that would have
        to be divided is taken away as a whole: better too few than counted twice."""
        while self._older and self._older[-1].last_step >= start:
            self.counts = self.counts.plus(self._older.pop().counts, -1)
        keep = self._buffers["steps"].view < start
        if not keep.all():
            self.counts = self.counts.plus(count(self.columns.take(~keep)), -1)
            self._replace(self.columns.take(keep))
        anchors = int(np.searchsorted(self._anchored.view, start))
        for buffer in (self._walls, self._clocks, self._anchored):
            buffer.truncate(anchors)

    def until(self, step: int) -> UpdateTable:
        """A copy as it was at a step."""
        past = deepcopy(self)
        past.cut(step + 1)
        return past

    def _replace(self, columns: UpdateColumns) -> None:
        for buffer in self._buffers.values():
            buffer.truncate(0)
        self._extend(columns)

    def _extend(self, columns: UpdateColumns) -> None:
        every: list[NDArray[Any]] = list(columns)
        for buffer, column in zip(self._buffers.values(), every, strict=True):
            buffer.extend(column)

    def _fold(self) -> None:
        """Moves the oldest gradients into the counts alone, where twice as many as should be kept are there."""
        if self._kept is None or len(self) <= 2 * self._kept:
            return
        old = len(self) - self._kept
        folded = self.columns.take(slice(old))
        self._older.append(_Older(int(folded.steps.max()), count(folded)))
        columns: list[NDArray[Any]] = [column.copy() for column in self.columns.take(slice(old, None))]
        self._replace(UpdateColumns(*columns))

    def step_at(self, wall: float) -> int:
        """The step that was under way at a time since 1970, by the times at which updates were written; 0 without."""
        return int(np.interp(wall, self._walls.view, self._anchored.view)) if self._walls.size else 0

    def clock_at(self, wall: float) -> float:
        """The training clock at a time since 1970, by the times at which updates were written; 0 before all of them."""
        if not self._walls.size:
            return 0.0
        walls, clocks = self._walls.view, self._clocks.view
        if wall >= walls[-1]:
            return float(clocks[-1] + wall - walls[-1])
        if wall < walls[0]:
            return max(0.0, float(clocks[0] + wall - walls[0]))
        return float(np.interp(wall, walls, clocks))


def read_updates(event: Updates) -> UpdateColumns | None:
    """The arrays of an event; None when they do not fit together."""
    found: dict[str, NDArray[Any]] = {}
    for name, (kind, _) in _FIELDS.items():
        raw: bytes = getattr(event, name)
        if len(raw) % np.dtype(kind).itemsize:
            return None
        found[name] = np.frombuffer(raw, kind)
    if len({len(values) for values in found.values()}) != 1:
        return None
    for name in ("workers", "staleness"):
        if len(found[name]) and not 0 <= found[name].min() <= found[name].max() <= _LARGEST:
            return None
    if not (np.isfinite(found["ended"]).all() and np.isfinite(found["seconds"]).all()):
        return None
    columns: list[NDArray[Any]] = [found[name].astype(dtype) for name, (_, dtype) in _FIELDS.items()]
    return UpdateColumns(*columns)
