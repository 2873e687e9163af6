"""The form "matrix": a confusion matrix, or another table in colours."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from clew_gui.base.tokens import ink_on, mixed
from clew_gui.charts.kit.drawing import Drawing, widest
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.numbers import count_text, value_text
from clew_gui.charts.pictures.taken import table, table_names
from clew_gui.charts.pictures.tile import Tile
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
        colours = np.array([[int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in shades], np.uint8)
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

    def words(self) -> str:
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
