"""The path of a run over a surface, in pixels: it grows with the run and keeps only what can be told apart."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.frame import Frame
from clew_shared.journal.buffer import Buffer

Floats = npt.NDArray[np.floating[Any]]
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
