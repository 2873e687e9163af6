"""Cutting polylines at the borders of a rectangle: file formats cannot clip, and far coordinates overflow."""

from __future__ import annotations

import numpy as np

from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span

_GONE = 20.0


def drawable(x: FloatArray, y: FloatArray, x_span: Span, y_span: Span, reach: float) -> tuple[FloatArray, FloatArray]:
    """Returns the part of a line that can be drawn if an axis shows ``x_span`` and ``y_span``, NaN between its pieces.

    Nothing goes farther than ``reach`` times the spans beyond them. A line that left for good and far (a run that
    diverged) ends where it left, so that it hides no other.
    """
    near = np.flatnonzero(np.abs(y - 0.5 * (y_span.low + y_span.high)) <= _GONE * y_span.size)
    end = int(near[-1]) + 2 if near.size else 0
    if end < y.size:
        x, y = x[:end], y[:end]
    wide, high = x_span.padded(reach), y_span.padded(reach)
    if not x.size or (wide.low <= x[0] and x[-1] <= wide.high and high.low <= y.min() and y.max() <= high.high):
        return x, y
    pieces = clip_lines(x, y, Box(wide.low, high.low, wide.size, high.size))
    if len(pieces) < 2:
        return pieces[0] if pieces else (x[:0], y[:0])
    gap = np.array([np.nan])
    parts = [np.concatenate([part for piece in pieces for part in (piece[axis], gap)][:-1]) for axis in (0, 1)]
    return parts[0], parts[1]


def stretches(places: FloatArray, gap: float) -> list[tuple[float, float]]:
    """First and last of each group of sorted ``places`` whose neighbours are at most ``gap`` apart."""
    if not places.size:
        return []
    breaks = np.flatnonzero(np.diff(places) > gap)
    firsts, lasts = places[np.append(0, breaks + 1)], places[np.append(breaks, places.size - 1)]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def clip_lines(x: FloatArray, y: FloatArray, box: Box) -> list[tuple[FloatArray, FloatArray]]:
    """The pieces of a polyline inside ``box``, each as x and y (Liang and Barsky 1984, all segments at once)."""
    if x.size < 2:
        return []
    with np.errstate(over="ignore", invalid="ignore"):  # of segments that are out of sight or shorter than any number
        return _clip(x, y, box)


def _clip(x: FloatArray, y: FloatArray, box: Box) -> list[tuple[FloatArray, FloatArray]]:
    dx, dy = np.diff(x), np.diff(y)
    enter, leave = np.zeros(dx.size), np.ones(dx.size)
    visible = np.isfinite(dx) & np.isfinite(dy)  # a NaN is a gap
    for step, room in (
        (-dx, x[:-1] - box.x),
        (dx, box.right - x[:-1]),
        (-dy, y[:-1] - box.y),
        (dy, box.bottom - y[:-1]),
    ):
        visible &= (step != 0) | (room >= 0)
        at = np.divide(room, step, out=np.zeros_like(room), where=step != 0)
        enter = np.where(step < 0, np.maximum(enter, at), enter)
        leave = np.where(step > 0, np.minimum(leave, at), leave)
    visible &= enter <= leave
    begins = np.column_stack((x[:-1] + enter * dx, y[:-1] + enter * dy))
    ends = np.column_stack((x[:-1] + leave * dx, y[:-1] + leave * dy))
    joined = visible[1:] & visible[:-1] & (leave[:-1] == 1) & (enter[1:] == 0)
    shown = np.flatnonzero(visible)
    if not shown.size:
        return []
    breaks = np.flatnonzero(~joined[shown[1:] - 1] | (np.diff(shown) > 1)) + 1
    pieces = []
    for part in np.split(shown, breaks):
        points = np.vstack((begins[part[:1]], ends[part]))
        pieces.append((points[:, 0], points[:, 1]))
    return pieces
