"""The path of a run over a surface, in pixels: it grows with the run and keeps only what can be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.curves.model import RunStyle
from clew_shared.journal.buffer import Buffer
from clew_shared.journal.pyramid import Pyramid, index_of

Floats = npt.NDArray[np.floating[Any]]
Pair = tuple[Pyramid, Pyramid]
"""The curves of a run's two parameters."""
_CELLS: Final = 2.0
"""The cells per pixel, of half a pixel each: a point in the same cell as the one before it would not be seen."""
_FAR: Final = 1e6
"""The limit in pixels: a line to a point farther away is left out, because those of a run that diverged would cross
everything."""
_AWAY: Final = 1e12  # the cell of all such points


class Trail:
    """One run's path in one frame. ``extend`` is called with all values so far and costs what is new."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._columns, self._rows = Buffer(np.float64), Buffer(np.float64)
        self._index = Buffer(np.int64)
        self._cell: FloatArray = np.array([[np.nan, np.nan]])
        self.taken = 0
        self.ended = False
        """Whether a value was not finite: the path ends before it."""
        self.outside: int | None = None
        """Index of the first point beyond the frame."""

    def extend(self, x: Floats, y: Floats) -> FloatArray:
        """Take what lies after the points already taken; returns the new stretch [n, 2] in pixels, from the last point
        that was kept before, with NaN where it is far away. Empty when there is nothing new to be seen."""
        size = min(x.size, y.size)
        if self.ended or size <= self.taken:
            return np.empty((0, 2))
        new_x, new_y = x[self.taken : size].astype(np.float64), y[self.taken : size].astype(np.float64)
        bad = np.flatnonzero(~(np.isfinite(new_x) & np.isfinite(new_y)))
        if bad.size:
            self.ended = True
            new_x, new_y = new_x[: bad[0]], new_y[: bad[0]]
        with np.errstate(over="ignore"):
            points = np.column_stack((self._frame.px(new_x, np.inf), self._frame.py(new_y, np.inf)))
        stretch = self._keep(points)
        self.taken += new_x.size
        return stretch

    def _keep(self, points: FloatArray) -> FloatArray:
        if not len(points):
            return points
        self._note_outside(points)
        far = np.abs(points).max(axis=1) > _FAR
        points[far] = np.nan
        cells = np.where(far[:, None], _AWAY, np.floor(points * _CELLS))
        kept = np.flatnonzero((cells != np.concatenate((self._cell, cells[:-1]))).any(axis=1))
        before = self.points[-1:]
        self._cell = cells[-1:]
        self._columns.extend(points[kept, 0])
        self._rows.extend(points[kept, 1])
        self._index.extend(self.taken + kept.astype(np.int64))
        return np.concatenate((before, points[kept])) if kept.size else np.empty((0, 2))

    def _note_outside(self, points: FloatArray) -> None:
        box = self._frame.box
        if self.outside is None:
            column, row = points[:, 0], points[:, 1]
            out = (column < box.x) | (column > box.right) | (row < box.y) | (row > box.bottom)
            self.outside = self.taken + int(np.argmax(out)) if out.any() else None

    @property
    def points(self) -> FloatArray:
        """Returns all that was kept [n, 2], in pixels; NaN for what is far away."""
        return np.column_stack((self._columns.view, self._rows.view))

    def nearest(self, column: float, row: float) -> tuple[float, int] | None:
        """The kept point nearest to a pixel: its distance, and which of the values taken it is."""
        away = np.nan_to_num(np.hypot(self._columns.view - column, self._rows.view - row), nan=np.inf)
        best = int(np.argmin(away)) if away.size else -1
        return (float(away[best]), int(self._index.view[best])) if away.size and np.isfinite(away[best]) else None


@dataclass
class Walk:
    """One run's trail, its curves and which cuts of them it knows; how much of it is drawn: points and pixels."""

    trail: Trail
    pair: Pair
    cuts: tuple[int, int]
    drawn: int = 0
    length: float = 0.0

    @property
    def size(self) -> int:
        """The number of values that the trail has."""
        return min(self.trail.taken, len(self.pair[0]), len(self.pair[1]))

    def news(self) -> FloatArray:
        """What is not drawn yet, from the last point that is."""
        points = self.trail.points
        found = points[max(self.drawn - 1, 0) :]
        self.drawn = len(points)
        return found


class Paths:
    """The trails of runs over the metrics ``x`` and ``y``. They grow while the frame and the choice of runs stay."""

    def __init__(self, x: str, y: str) -> None:
        self._metrics = x, y
        self._key: object = None
        self.walks: dict[str, Walk] = {}
        self.begun = 0
        """The number of times that all trails began anew."""

    def follow(self, frame: Frame, runs: Sequence[RunStyle], until: int | None) -> None:
        """Extends all trails, up to the step ``until``; None: as far as they go."""
        pairs = {run.run_id: pair for run in runs if (pair := self._pair(run)) is not None}
        key = frame, [(run.run_id, run.index, run.selected) for run in runs], until
        known = self.walks.items()
        if key != self._key or any((walk.pair, walk.cuts) != (pairs.get(run), _cuts(walk.pair)) for run, walk in known):
            self.walks, self._key, self.begun = {}, key, self.begun + 1
        for run, pair in pairs.items():
            size = None if until is None else max(int(index_of(pair[0].steps, np.array([until + 0.5]))[0]), 1)
            walk = self.walks.setdefault(run, Walk(Trail(frame), pair, _cuts(pair)))
            walk.trail.extend(pair[0].values[:size], pair[1].values[:size])

    def _pair(self, run: RunStyle) -> Pair | None:
        x, y = (run.history.pyramid(name) for name in self._metrics)
        return (x, y) if x is not None and y is not None else None


def _cuts(pair: Pair) -> tuple[int, int]:
    return pair[0].cuts, pair[1].cuts
