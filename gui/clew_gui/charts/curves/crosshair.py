"""The crosshair: one line through all plots, a dot on each curve, and one box with the values in the emptiest place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from clew_gui.charts.curves.layout import CurvesLayout, in_sight
from clew_gui.charts.curves.readout import Readout
from clew_gui.charts.curves.scene import Scene
from clew_gui.charts.kit.drawing import Drawing, Stroke
from clew_gui.charts.kit.layout import Box, emptiest
from clew_gui.charts.kit.readbox import ReadBox, ReadRow

_AWAY: Final = 12.0
_FEW: Final = 2
"""A box beside the line may cover so many points of curves before it goes farther away."""
_DOT: Final = 8.0


def snapped(scene: Scene, x: float) -> float:
    """Moves ``x`` to a whole step, as far as it is in sight. In axis coordinates."""
    grid = scene.grid
    value = scene.x_value(x)
    if grid.unit.value != "step" or value < 0.5:
        return x
    whole = math.log10(round(value)) if grid.log else float(round(value))
    return min(max(whole, grid.span.low), grid.span.high)


class Crosshair:
    """Draws a read-out over a finished picture; remembers where the box was, so that it does not flicker."""

    def __init__(self) -> None:
        self._previous = -1

    def draw(self, drawing: Drawing, readout: Readout, layout: CurvesLayout) -> None:
        """Add line, dots and box."""
        theme = drawing.theme
        column = round(layout.frames[0].column(readout.x)) if layout.frames else 0
        for frame in layout.frames:
            drawing.line(column, frame.box.y, column, frame.box.bottom, Stroke(theme.text3, crisp=True))
        for row in reversed(readout.rows):
            for frame, point in zip(layout.frames, row.points, strict=True):
                if point is not None and in_sight(frame, *point):
                    (x, y), edge = frame.at(*point), Stroke(theme.surface, 1.6)
                    drawing.marks([x], [y], layout.colour(row.run), _DOT, edge=edge)
        if readout.rows:
            rows = [ReadRow(row.run.index, row.run.label, row.values, row.run.selected) for row in readout.rows]
            box = ReadBox(readout.heading, rows, readout.columns, readout.omitted)
            spot = self.place(layout, column, *box.size(drawing.sizes))
            box.draw(drawing, spot.x, spot.y)

    def place(self, layout: CurvesLayout, column: float, width: float, height: float) -> Box:
        """Finds the place beside the column where a box of this size covers least."""
        area = layout.stack.area
        beside = (column + _AWAY, column - _AWAY - width)
        candidates = _boxes(layout, beside, width, height)
        near = len(candidates)
        candidates += _boxes(layout, (area.x + 8, area.right - width - 8), width, height, column)
        right = area.width + (layout.stack.gutter if width > 0.5 * area.width else 0)
        room = Box(area.x, area.y - 2, right, max(area.height, height) + 8)
        points = np.concatenate([layout.points_of(i) for i in range(len(layout.frames))])
        chosen = emptiest(candidates[:near], points, room, self._previous if self._previous < near else -1)
        if chosen < 0 or candidates[chosen].covers(points) > _FEW:  # beside the line it would lie on curves
            chosen = emptiest(candidates, points, room, self._previous)
        self._previous = chosen
        if chosen >= 0:
            return candidates[chosen]
        x = min(max(column + _AWAY, room.x), max(layout.stack.width - width - 2, 0.0))
        return Box(x, area.y + 4, width, height)


def _boxes(
    layout: CurvesLayout, lefts: Sequence[float], width: float, height: float, line: float | None = None
) -> list[Box]:
    """Boxes at these columns, from the top of each plot to its foot; none over the upright ``line``."""
    found = []
    for frame in layout.frames:
        top, foot = frame.box.y + 4, frame.box.bottom - height - 6
        found += [Box(x, top + part * (foot - top), width, height) for x in lefts for part in (0.0, 1.0, 0.5)]
    if line is None:
        return found
    return [box if not box.x <= line <= box.right else Box(box.x, -2 * height, width, height) for box in found]
