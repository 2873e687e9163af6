"""Points and functions of two inputs: the forms "plane" and "scatter"."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from clew_gui.base.tokens import Theme, mixed
from clew_gui.charts.kit.axes import draw_key
from clew_gui.charts.kit.drawing import Drawing, Stroke, rgb, widest
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span, span_of, value_text
from clew_gui.charts.pictures.taken import (
    Labels,
    class_labels,
    class_name,
    grid_columns,
    map_points,
    pixels,
    points,
)
from clew_gui.charts.pictures.tile import PictureAxes, Tile
from clew_shared.base.number_words import counted
from clew_shared.journal.events import Image, Matrix

_GAP: Final = 6.0
_KEY_WIDTH: Final = 96.0
_KEY_HEIGHT: Final = 44.0
_STRENGTH: Final = 0.55
"""How much of a class's colour the map has where the value is 0 or 1; the points have all of it."""
_FINEST: Final = 240
"""Pixels on a side that a map is worked out for: its edge is smooth, and a page of a report stays small."""


class Planes:
    """One map with axes, a key and its points; or many small ones in rows. The line is where the value is 0.5."""

    def __init__(self, tile: Tile, image: Image) -> None:
        spec, room = tile.taken.spec, tile.room
        self._values: FloatArray = pixels(image)[..., 0] / 255.0
        self._points, self._classes = map_points(image)
        self._labels = class_labels(spec, image)
        self._spans = Span(*spec.x), Span(*spec.y)
        self._axes: PictureAxes | None = None
        self._key = Box(room.right, room.y, 0, 0)
        if image.count == 1 and not spec.grows:
            wide = min(widest(tile.sizes, list(map(self._name, (0, 1)))) + 20, _KEY_WIDTH)
            beside = room.width > room.height
            free = room.inset(0, 0, wide + 4, 0) if beside else room.inset(0, 0, 0, _KEY_HEIGHT)
            self._axes = PictureAxes(free, self._spans, tile.sizes, square=True)
            area = self._axes.frame.box
            self._key = Box(area.right + 8, room.y, wide, room.height)
            if not beside:
                self._key = Box(area.x, area.bottom + 22, area.width, _KEY_HEIGHT)
            self.frames = [self._axes.frame]
        else:
            self.frames = self._small(room, image.count, image.columns)

    def _small(self, room: Box, count: int, columns: int) -> list[Frame]:
        columns = max(columns, 0) or grid_columns(count, (1.0, 1.0), (room.width, room.height), _GAP)
        rows = -(-count // columns)
        side = max(min(room.width / columns, room.height / rows) - _GAP, 1.0)
        places = (divmod(number, columns) for number in range(len(self._values)))
        corners = ((room.x + column * (side + _GAP), room.y + row * (side + _GAP)) for row, column in places)
        return [Frame(Box(*corner, side, side), *self._spans) for corner in corners]

    def _name(self, one: int) -> str:
        return class_name(self._labels, one)

    def draw(self, drawing: Drawing) -> None:
        """Add the maps, and over each of them the points."""
        theme = drawing.theme
        if self._axes is not None:
            self._axes.draw(drawing)
            draw_key(drawing, self._key, [(theme.class_colour(one), self._name(one)) for one in (0, 1)])
        for frame, values in zip(self.frames, self._values, strict=True):
            drawing.image(frame.box, map_pixels(values, frame.box, theme), smooth=True)
            drawing.rect(frame.box, "", edge=Stroke(theme.border, crisp=True), smooth=False)
            size = min(max(frame.box.width / 40, 2.5), 6.0)
            with drawing.clipped(frame.box):
                x, y = frame.px(self._points[:, 0]), frame.py(self._points[:, 1])
                for one in (0, 1):
                    own = self._classes == one
                    drawing.marks(x[own], y[own], theme.class_colour(one), size, edge=Stroke(theme.surface, 1.0))

    def read(self, x: float, y: float) -> str:
        """The place on a map, and its value there."""
        number = next((k for k, frame in enumerate(self.frames) if frame.box.holds(x, y)), None)
        if number is None:
            return ""
        at = self.frames[number].place(x, y)
        (row,), (column,) = self._cells(np.array([at]))
        which = f"map {number + 1}, " if len(self.frames) > 1 else ""
        return f"{which}{value_text(at[0])}, {value_text(at[1])}: {self._values[number, row, column]:.2f}"

    def _cells(self, places: FloatArray) -> tuple[Labels, Labels]:
        """The rows and columns of the maps at these points."""
        height, width = self._values.shape[1:]
        x, y = self._spans
        row = np.clip((y.high - places[:, 1]) / y.size * height, 0, height - 1).astype(np.int32)
        return row, np.clip((places[:, 0] - x.low) / x.size * width, 0, width - 1).astype(np.int32)

    def description(self) -> str:
        """Says how many maps there are, and on one map how many points lie on the side of their class."""
        if len(self.frames) > 1 or not len(self._points):
            return f"{len(self.frames)} maps" if len(self.frames) != 1 else "a map"
        right = np.count_nonzero((self._values[0][self._cells(self._points)] > 0.5) == (self._classes == 1))
        return f"a map with {len(self._points):,} points, {right:,} of them on the side of their class"


_HEAD: Final = 26.0
_BUTTON: Final = 18.0
_WORD: Final = 52.0
"""Pixels of the line with the buttons, of a button, and of the word between two of them."""
_MOST_UNITS: Final = 200
"""With more units there are no lines between them."""
_APART: Final = 0.6
"""The room between two layers, in widths of a map."""


class Network(Planes):
    """The maps of a network's units, layer by layer from its two inputs on, and buttons that change its size."""

    def __init__(self, tile: Tile, image: Image) -> None:
        super().__init__(tile, image)
        self._grows = tile.taken.spec.grows
        left = tile.room.x
        self.buttons: dict[str, Box] = {}
        """What can be clicked: the parameter with the sign of the change."""
        for name in self._grows[: 2 if self._layers else 1]:
            for sign, x in (("-", left), ("+", left + _BUTTON + _WORD)):
                self.buttons[f"{name}{sign}"] = Box(x, tile.room.y + 2, _BUTTON, _BUTTON)
            left += 2 * _BUTTON + _WORD + 8

    def _small(self, room: Box, count: int, columns: int) -> list[Frame]:
        """A column for the inputs, then one for each layer."""
        units = min(columns, count) if columns > 0 and count else max(count, 1)
        self._layers = -(-count // units)
        area = room.inset(0, _HEAD, 0, 0)
        wide = area.width / (self._layers + 1 + _APART * self._layers)
        side = max(min(wide, area.height / max(units, 2) - _GAP, 110.0), 1.0)

        def column(layer: int, many: int) -> list[Box]:
            top = area.y + 0.5 * (area.height - many * (side + _GAP) + _GAP)
            x = area.x + layer * side * (1 + _APART)
            return [Box(x, top + number * (side + _GAP), side, side) for number in range(many)]

        self._columns = [column(0, 2), *(column(layer + 1, units) for layer in range(self._layers))]
        return [Frame(box, *self._spans) for boxes in self._columns[1:] for box in boxes][:count]

    def draw(self, drawing: Drawing) -> None:
        """Add the lines from each unit to the next layer's, the inputs, the maps and the buttons."""
        theme, across = drawing.theme, np.linspace(0, 1, 16)
        for sources, targets in pairwise(self._columns if len(self.frames) <= _MOST_UNITS else ()):
            for source in sources:
                for target in targets:
                    drawing.line(source.right, source.middle, target.x, target.middle, Stroke(theme.border, 1.0))
        inputs = np.tile(across, (16, 1)), np.tile(across[::-1, None], (1, 16))
        for box, values, name in zip(self._columns[0], inputs, "xy", strict=True):
            drawing.image(box, map_pixels(values, box, theme), smooth=True)
            drawing.rect(box, "", edge=Stroke(theme.border, crisp=True), smooth=False)
            drawing.text(*box.centre, name, theme.text, "captionStrong", across="middle")
        super().draw(drawing)
        for key, box in self.buttons.items():
            drawing.rect(box, theme.surface, edge=Stroke(theme.border, crisp=True), radius=4)
            drawing.text(*box.centre, key[-1].replace("-", "−"), theme.text, "captionStrong", across="middle")
        counts = self._layers, len(self._columns[-1])
        for name, number in zip(self._grows, counts if self._layers else (0,), strict=False):
            at, words = self.buttons[f"{name}-"], counted(number, name.removesuffix("s"))
            drawing.text(at.right + 0.5 * _WORD, at.middle, words, theme.text2, across="middle")

    def pick(self, x: float, y: float) -> str:
        """The button at a pixel."""
        return next((key for key, box in self.buttons.items() if box.holds(x, y)), "")

    def read(self, x: float, y: float) -> str:
        """What a button does, or the value of a map."""
        key = self.pick(x, y)
        one = f"one {key[:-1].removesuffix('s')} {'more' if key[-1] == '+' else 'fewer'}" if key else ""
        return one or super().read(x, y)


def map_pixels(values: FloatArray, box: Box, theme: Theme) -> npt.NDArray[np.uint8]:
    """The colours of a map, from class 0 through the ground to class 1, with a line where the value is 0.5."""
    height, width = (min(max(round(side), 2), _FINEST) for side in (box.height, box.width))
    fine = _stretched(_stretched(values, height).T, width).T
    ends = [mixed(theme.surface, theme.class_colour(one), _STRENGTH) for one in (0, 1)]
    low, ground, high = (rgb(colour) for colour in (ends[0], theme.surface, ends[1]))
    share = np.abs(2 * fine - 1)[..., None]
    colours = ground + share * (np.where((fine > 0.5)[..., None], high, low) - ground)
    down, right = np.gradient(fine)
    line = np.clip(1.2 - np.abs(fine - 0.5) / np.maximum(np.hypot(down, right), 1e-9), 0, 1)[..., None]
    colours += line * (rgb(theme.text2) - colours)
    return np.rint(colours).astype(np.uint8)


def _stretched(values: FloatArray, size: int) -> FloatArray:
    """The rows of ``values`` at ``size`` places, straight between their middles."""
    place = np.clip((np.arange(size) + 0.5) / size * len(values) - 0.5, 0, len(values) - 1)
    first = np.minimum(place.astype(np.int64), max(len(values) - 2, 0))
    share = (place - first)[:, None]
    found: FloatArray = values[first] * (1 - share) + values[np.minimum(first + 1, len(values) - 1)] * share
    return found


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

    def description(self) -> str:
        """Says how many points of how many classes there are."""
        return f"{len(self._points):,} points of {len(self._known)} classes"
