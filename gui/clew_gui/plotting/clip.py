"""Cutting a polyline at the borders of a rectangle, for file formats that cannot clip."""

from __future__ import annotations

import numpy as np

from clew_gui.plotting.layout import Box
from clew_gui.plotting.pyramid import FloatArray


def clip_lines(x: FloatArray, y: FloatArray, box: Box) -> list[tuple[FloatArray, FloatArray]]:
    """The pieces of a polyline inside ``box``, each as x and y (Liang and Barsky 1984, all segments at once)."""
    if x.size < 2:
        return []
    with np.errstate(over="ignore", invalid="ignore"):  # of segments that are out of sight or shorter than any number
        return _clip(x, y, box)


def _clip(x: FloatArray, y: FloatArray, box: Box) -> list[tuple[FloatArray, FloatArray]]:
    dx, dy = np.diff(x), np.diff(y)
    enter, leave = np.zeros(dx.size), np.ones(dx.size)
    visible = np.ones(dx.size, bool)
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
