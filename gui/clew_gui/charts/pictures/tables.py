"""Tables as pictures: the forms "matrix", "bars" and "shares", and "surface", a loss over two weights."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from clew_gui.base.tokens import ink_on, mixed
from clew_gui.charts.kit.drawing import RUN_WIDTH, Drawing, Stroke, rgb, widest
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import LARGEST, Span, count_text, log_ticks, value_text
from clew_gui.charts.pictures.taken import places_of, table, table_names
from clew_gui.charts.pictures.tile import PictureAxes, Tile
from clew_gui.charts.surface import Heights, map_pixels
from clew_shared.base.number_words import quantity
from clew_shared.cards import SurfaceSpec
from clew_shared.journal.events import Matrix

_ROW: Final = 15.0
_MANY: Final = 4096
"""The number of cells above which they are one image."""
_SHADES: Final = 64


class Table:
    """A confusion matrix, whose cells are the stronger the larger their part of the row; or another table, where the
    largest of a row is strongest."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        self._tile = tile
        self._values = table(matrix)
        self._across, self._down = table_names(tile.taken.spec, matrix)
        self._confusion = matrix.rows == matrix.columns
        room = tile.room
        left = min(widest(tile.sizes, self._down) + 8, 0.3 * room.width)
        title = _ROW if self._confusion else 0.0
        free = room.inset(left + title, title + _ROW, 2, 2)
        wide, high = free.width / max(matrix.columns, 1), free.height / max(matrix.rows, 1)
        if self._confusion:
            high = min(high, wide)
            wide = min(wide, 2.2 * high)
        self._cell = max(wide, 0.1), max(high, 0.1)
        spare = max(0.0, free.width - wide * matrix.columns)
        size = self._cell[0] * matrix.columns, self._cell[1] * matrix.rows
        self._grid = Box(free.x + 0.5 * spare, free.y, *size)

    def box(self, row: int, column: int) -> Box:
        """Returns the rectangle of a cell."""
        wide, high = self._cell
        return Box(self._grid.x + column * wide, self._grid.y + row * high, wide, high)

    def draw(self, drawing: Drawing) -> None:
        """Cells with their numbers, as far as these have room; the names of rows and columns."""
        shares, theme = _shares(self._values, self._confusion), drawing.theme
        if self._values.size > _MANY:
            self._draw_fine(drawing, shares)
        else:
            texts = [[cell_text(value) for value in row] for row in self._values.tolist()]
            broadest = widest(drawing.sizes, [text for row in texts for text in row])
            numbered = broadest + 4 <= self._cell[0] and self._cell[1] >= _ROW - 2
            gap = 1.0 if min(self._cell) > 6 else 0.0
            for (row, column), share in np.ndenumerate(shares):
                ground = _shade(theme.sunken, theme.accent, theme.bad, float(share))
                box = self.box(row, column)
                drawing.rect(box.inset(0, 0, gap, gap), ground, smooth=False)
                if numbered:
                    ink = ink_on(ground, theme)
                    drawing.text(box.across, box.middle, texts[row][column], ink, across="middle")
        self._draw_names(drawing)

    def _draw_fine(self, drawing: Drawing, shares: FloatArray) -> None:
        theme = drawing.theme
        shades = [_shade(theme.sunken, theme.accent, theme.bad, k / _SHADES - 1) for k in range(2 * _SHADES + 1)]
        colours = np.array([rgb(one) for one in shades], np.uint8)
        found = colours[np.clip(np.rint(_SHADES * (shares + 1)), 0, 2 * _SHADES).astype(np.int64)]
        drawing.image(self._grid, found)

    def _draw_names(self, drawing: Drawing) -> None:
        theme, grid = drawing.theme, self._grid
        wide, high = self._cell
        broadest = widest(drawing.sizes, self._down)
        every, right = max(1, math.ceil((_ROW - 2) / high)), grid.x - 6
        for k in range(0, len(self._down), every):
            room = right - self._tile.room.x
            drawing.text(right, self.box(k, 0).middle, self._down[k], theme.text2, across="right", room=room)
        every = max(1, math.ceil((min(widest(drawing.sizes, self._across), 60.0) + 6) / wide))
        for k in range(0, len(self._across), every):
            at = self.box(0, k).across, grid.y - 0.5 * _ROW
            drawing.text(*at, self._across[k], theme.text2, across="middle", room=every * wide)
        if self._confusion:
            drawing.text(grid.across, grid.y - 1.5 * _ROW, "Answer", across="middle", room=grid.width)
            drawing.text(grid.x - broadest - 16, grid.middle, "Class", across="middle", turned=True)

    def read(self, x: float, y: float) -> str:
        """A cell: its row, its column and its value."""
        if not self._grid.holds(x, y):
            return ""
        row = min(int((y - self._grid.y) / self._cell[1]), len(self._down) - 1)
        column = min(int((x - self._grid.x) / self._cell[0]), len(self._across) - 1)
        value = cell_text(float(self._values[row, column]))
        if self._confusion:
            return f"class {self._down[row]}, answer {self._across[column]}: {value}"
        return f"{self._down[row]}, {self._across[column]}: {value}"

    def description(self) -> str:
        """Describes the matrix; for a confusion matrix: how many answers are right, and the most frequent mistake."""
        rows, columns = self._values.shape
        total = float(self._values.sum())
        if not self._confusion or not total > 0 or (self._values < 0).any():
            return f"{rows} rows and {columns} columns"
        right = float(np.trace(self._values))
        wrong = self._values - np.diag(np.diag(self._values))
        row, column = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        text = f"{cell_text(right)} of {cell_text(total)} right"
        if not wrong[row, column]:
            return text
        most = f"{self._across[int(column)]} instead of {self._down[int(row)]}"
        return f"{text}, the most frequent mistake is {most} ({cell_text(float(wrong[row, column]))})"


def _shares(values: FloatArray, of_all: bool) -> FloatArray:
    """Maps values to -1 to 1: each as a part of its row's largest, or ``of_all`` in its row; as a square root, so that
    rare mistakes can be seen."""
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    sizes = np.abs(finite)
    whole = sizes.sum(axis=1, keepdims=True) if of_all else sizes.max(axis=1, keepdims=True, initial=0.0)
    shares: FloatArray = np.sign(finite) * np.sqrt(sizes / np.where(whole > 0, whole, 1.0))
    return shares


def _shade(ground: str, above: str, below: str, share: float) -> str:
    return mixed(ground, above if share >= 0 else below, min(abs(share), 1.0))


def cell_text(value: float) -> str:
    """The number in a cell or beside a bar: whole numbers as such."""
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e9
    return count_text(value) if whole else value_text(value)


_NAME: Final = 14.0
"""The pixels that a bar's name needs."""
_THICKEST: Final = 26.0
_FOOT: Final = 16.0
"""The height of the numbers of a logarithmic axis, below the bars."""
_TICK: Final = 64.0


class Bars:
    """A bar to the right for each value, with its name and number."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        self._room = tile.room
        self._values = table(matrix)[0] if matrix.rows else np.empty(0)
        self._names = table_names(tile.taken.spec, matrix)[0][: len(self._values)]
        self._log = tile.taken.spec.log_y
        self._texts = [self._text(value) for value in self._values.tolist()]
        room, count = tile.room.inset(0, 0, 0, _FOOT if self._log else 0), max(len(self._values), 1)
        self._high = min(room.height / count, _THICKEST)
        left = min(widest(tile.sizes, self._names) + 10, 0.4 * room.width)
        right = widest(tile.sizes, self._texts) + 10
        self._area = Box(room.x + left, room.y, max(room.width - left - right, 10.0), count * self._high)
        self._low, self._top = self._range()
        most = max(int(self._area.width // _TICK), 2)
        self._ticks = log_ticks(Span(self._low, self._top), most) if self._log else ()

    def _text(self, value: float) -> str:
        return cell_text(value)

    def _range(self) -> tuple[float, float]:
        """Returns the values at the left and the right end of the axis."""
        found = self._values[np.isfinite(self._values) & ((self._values > 0) | (not self._log))]
        found = np.clip(found, -LARGEST, LARGEST)
        if self._log:
            powers = np.log10(found) if found.size else np.zeros(1)
            return math.floor(float(powers.min())) - 0.2, math.ceil(float(powers.max()) + 1e-9) + 0.0
        return min(float(found.min(initial=0.0)), 0.0), max(float(found.max(initial=0.0)), 1e-300)

    def _column(self, value: float) -> float:
        place = (math.log10(value) if value > 0 else self._low) if self._log else value
        share = (place - self._low) / max(self._top - self._low, 1e-300)
        return self._area.x + min(max(share, 0.0), 1.0) * self._area.width

    @property
    def _zero(self) -> float:
        """The pixel column at which bars begin."""
        return self._area.x if self._log else self._column(0.0)

    def box(self, number: int) -> Box:
        """Returns the rectangle of a bar."""
        value, zero, pad = float(self._values[number]), self._zero, 0.14 * self._high
        end = self._column(value) if math.isfinite(value) else zero
        top = self._area.y + number * self._high + pad
        return Box(min(zero, end), top, max(abs(end - zero), 1.0), max(self._high - 2 * pad, 1.0))

    def draw(self, drawing: Drawing) -> None:
        """Add the bars; if there is no room for all names, only every second or third bar has one."""
        theme, area = drawing.theme, self._area
        every = max(1, math.ceil(_NAME / max(self._high, 0.1)))
        for tick in self._ticks:
            column = self._column(10.0**tick.at)
            drawing.line(column, area.y, column, area.bottom, Stroke(theme.grid, crisp=True))
            drawing.text(column, area.bottom + 0.5 * _FOOT, tick.text, theme.text2, across="middle")
        for k, text in enumerate(self._texts):
            box = self.box(k)
            drawing.rect(box, theme.accent, smooth=False)
            if k % every == 0:
                room = area.x - 8 - self._room.x
                drawing.text(area.x - 8, box.middle, self._names[k], theme.text2, across="right", room=room)
                drawing.text(box.right + 6, box.middle, text, theme.text)
        drawing.line(self._zero, area.y, self._zero, area.bottom, Stroke(theme.border, crisp=True))

    def read(self, x: float, y: float) -> str:
        """The bar in this row."""
        number = int((y - self._area.y) // self._high) if self._area.height else -1
        inside = self._room.holds(x, y) and 0 <= number < len(self._texts)
        return f"{self._names[number]}: {self._texts[number]}" if inside else ""

    def description(self) -> str:
        """Lists all values; of many the first ones."""
        shown = [f"{name} {text}" for name, text in zip(self._names, self._texts, strict=True)]
        return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


class Shares(Bars):
    """Bars of shares of a whole, which all of the width is."""

    def _text(self, value: float) -> str:
        return quantity(value, "percent")

    def _range(self) -> tuple[float, float]:
        return 0.0, 1.0


_DOT = 11.0


class SurfacePicture:
    """The map of the loss with its contours. All other weights are as they are at that step, so the map itself changes;
    the way is that of all pictures so far."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        spec = tile.taken.spec
        self._heights = Heights(
            SurfaceSpec(
                id=spec.id,
                title=spec.title,
                metrics=("", ""),
                x=spec.x,
                y=spec.y,
                columns=matrix.columns,
                rows=matrix.rows,
                loss=table(matrix).astype("<f4").tobytes(),
            )
        )
        taken = [places_of(one) for one in (*tile.taken.earlier, matrix) if isinstance(one, Matrix)]
        way = np.concatenate(taken)
        self._way = way[np.isfinite(way).all(axis=1)]
        self._axes = PictureAxes(tile.room, (Span(*spec.x), Span(*spec.y)), tile.sizes, square=True)

    def draw(self, drawing: Drawing) -> None:
        """Add the map, the way, and where the weights are."""
        theme, frame = drawing.theme, self._axes.frame
        self._axes.draw(drawing)
        drawing.image(frame.box, map_pixels(self._heights, frame, theme, 1.0), smooth=True)
        drawing.rect(frame.box, "", edge=Stroke(theme.border, crisp=True), smooth=False)
        with drawing.clipped(frame.box):
            x, y = frame.px(self._way[:, 0]), frame.py(self._way[:, 1])
            for stroke in (
                Stroke(theme.surface, RUN_WIDTH + 2.4, opacity=0.75),
                Stroke(theme.curve(0).colour, RUN_WIDTH),
            ):
                drawing.path(x, y, stroke)
            drawing.marks(x[-1:], y[-1:], theme.curve(0).colour, _DOT, edge=Stroke(theme.surface, 1.6))

    def read(self, x: float, y: float) -> str:
        """Two weights, and the loss there."""
        frame = self._axes.frame
        if not frame.box.holds(x, y):
            return ""
        at = frame.place(x, y)
        loss = self._heights.at(*at)
        return f"{value_text(at[0])}, {value_text(at[1])}: {'' if loss is None else value_text(loss)}"

    def description(self) -> str:
        """Says where the two weights are and what the loss is there."""
        if not len(self._way):
            return "a loss over two weights"
        x, y = self._way[-1].tolist()
        loss = self._heights.at(x, y)
        return f"weights {value_text(x)} and {value_text(y)}, loss {'unknown' if loss is None else value_text(loss)}"
