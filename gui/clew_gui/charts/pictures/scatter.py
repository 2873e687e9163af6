"""The form "scatter": points in the colours of their classes."""

from __future__ import annotations

from typing import Final

import numpy as np

from clew_gui.charts.kit.axes import draw_key
from clew_gui.charts.kit.drawing import Drawing, widest
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.numbers import value_text
from clew_gui.charts.measured import span_of
from clew_gui.charts.pictures.taken import class_labels, class_name, points
from clew_gui.charts.pictures.tile import PictureAxes, Tile
from clew_shared.journal.events import Matrix

_KEY_WIDTH: Final = 96.0
_MANY: Final = 10
"""The largest number of classes that are named at the middle of their points."""
_NEAR: Final = 12.0
"""A point answers to the pointer within so many pixels."""


class ScatterPicture:
    """Points in the colours of their classes, whose names are at the right and at the middle of their points."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        self._points, self._classes = points(matrix)
        self._known = [int(one) for one in np.unique(self._classes)]
        self._labels = class_labels(tile.taken.spec, matrix)
        room = tile.room
        wide = min(widest(tile.sizes, list(map(self._name, self._known))) + 20, _KEY_WIDTH)
        self._key = Box(room.right - wide, room.y, wide, room.height)
        x, y = (span_of([self._points[:, k]], log=False) for k in (0, 1))
        self.axes = PictureAxes(room.inset(0, 0, wide + 4, 0), (x, y), tile.sizes)

    def draw(self, drawing: Drawing) -> None:
        """Add the points; if there are many, they are small and translucent."""
        theme, frame = drawing.theme, self.axes.frame
        self.axes.draw(drawing)
        if not len(self._points):
            drawing.text(frame.box.across, frame.box.middle, "No finite points", across="middle")
            return
        size = 5.0 if len(self._points) < 500 else 3.5 if len(self._points) < 3000 else 2.2
        x, y = frame.px(self._points[:, 0]), frame.py(self._points[:, 1])
        for one in self._known:
            own = self._classes == one
            drawing.marks(x[own], y[own], theme.class_colour(one), size, opacity=0.75)
        draw_key(drawing, self._key, [(theme.class_colour(one), self._name(one)) for one in self._known])
        if 1 < len(self._known) <= _MANY:
            for one in self._known:
                own = self._classes == one
                at = float(np.median(x[own])), float(np.median(y[own]))
                drawing.text(*at, self._name(one), theme.text, "captionStrong", across="middle", halo=theme.surface)

    def _name(self, one: int) -> str:
        return class_name(self._labels, one)

    def read(self, x: float, y: float) -> str:
        """The point nearest to a pixel, if it is near."""
        frame = self.axes.frame
        if not len(self._points) or not frame.box.holds(x, y):
            return ""
        away = np.hypot(frame.px(self._points[:, 0]) - x, frame.py(self._points[:, 1]) - y)
        nearest = int(np.argmin(away))
        if away[nearest] > _NEAR:
            return ""
        one, (across, up) = int(self._classes[nearest]), self._points[nearest]
        return f"{self._name(one)} at {value_text(float(across))}, {value_text(float(up))}"

    def words(self) -> str:
        """Says how many points of how many classes there are."""
        return f"{len(self._points):,} points of {len(self._known)} classes"
