"""Pictures made of cells: images in rows, confusion matrices, and bars."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter, QPen

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.numbers import count_text, value_text
from clew_gui.plotting.pictures import answered, grid_columns, integers, pixels, table, table_names
from clew_gui.views.plots.pictures.tile import CENTRE, TO_LEFT, TO_RIGHT, Tile, elided, ink_on, mixed, width_of, write
from clew_shared.journal.events import Image, Matrix

_LABEL: Final = 15.0
"""The height of the text below an image: its class and the model's answer."""
_GAP: Final = 3.0
_APART: Final = 8.0
"""The pixels between the texts below two images."""
_LONGEST: Final = 170.0
"""The width at which words below an image are cut off: names of folders may be of any length."""
_SMALLEST_APART: Final = 24.0
"""The size below which images, those of a manifold for example, are almost side by side."""
_ROW: Final = 15.0
_THICKEST: Final = 26.0


class Images:
    """Images of one size in rows, as large as they fit."""

    def __init__(self, tile: Tile, image: Image) -> None:
        self._tile, self._image = tile, image
        self._pixels = pixels(image)
        self._answered = answered(tile.taken.spec, image)
        room, count = tile.room, max(image.count, 1)
        below = _LABEL if self._answered else 0.0
        size = float(image.width), float(image.height)
        wanted = tile.taken.spec.columns
        if not wanted:
            wanted = grid_columns(count, size, (room.width(), room.height()), below + _GAP)
        words = self._widest() + _APART if below else 0.0
        self.columns = max(1, min(wanted, count, int(room.width() // words) if words else count))
        self._gap = _GAP if room.width() / self.columns >= _SMALLEST_APART else 1.0
        rows = -(-count // self.columns)
        across = (room.width() - self._gap * (self.columns - 1)) / (self.columns * size[0])
        down = (room.height() - rows * below - self._gap * (rows - 1)) / (rows * size[1])
        scale = max(min(across, down), 0.01)
        self._cell = (scale * size[0], scale * size[1])
        self._below = below
        self._pitch = max(self._cell[0] + self._gap, words)
        wide = self.columns * self._pitch - self._gap
        self._corner = QPointF(room.left() + max(0.0, 0.5 * (room.width() - wide)), room.top())

    def _widest(self) -> float:
        """The width of the longest words below an image, as far as they are to have room."""
        widest = max((width_of(_said(*pair), strong=pair[0] != pair[1]) for pair in set(self._answered)), default=0.0)
        return min(widest, _LONGEST)

    def box(self, number: int) -> QRectF:
        """Returns the rectangle of image ``number``."""
        row, column = divmod(number, self.columns)
        wide, high = self._cell
        left = self._corner.x() + column * self._pitch + 0.5 * (self._pitch - self._gap - wide)
        return QRectF(left, self._corner.y() + row * (high + self._gap + self._below), wide, high)

    def paint(self, painter: QPainter) -> None:
        """Paints the images; their pixels stay sharp if they are enlarged."""
        smooth = self._cell[0] < self._image.width
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for number in range(self._image.count):
            painter.drawImage(self.box(number), _qimage(self._pixels[number]))
        for number, (true, answer) in enumerate(self._answered):
            self._label(painter, number, true, answer)

    def _label(self, painter: QPainter, number: int, true: str, answer: str) -> None:
        box, theme = self.box(number), self._tile.theme
        text = _said(true, answer)
        below = QRectF(box.center().x() - 0.5 * self._pitch, box.bottom(), self._pitch, _LABEL)
        ink = theme.text2 if true == answer else theme.bad
        write(painter, below, elided(text, below.width(), true != answer), ink, CENTRE, strong=true != answer)

    def read(self, at: QPointF) -> str:
        """The number of an image; its class and the answer."""
        found = next((k for k in range(self._image.count) if self.box(k).contains(at)), None)
        if found is None:
            return ""
        return "{}, answer {}".format(*self._answered[found]) if self._answered else f"image {found + 1}"

    def words(self) -> str:
        """Says how many images there are, and how many are answered wrongly."""
        image = self._image
        text = f"{image.count:,} images of {image.width} × {image.height} pixels"
        if not self._answered:
            return text
        wrong = np.count_nonzero(integers(image.classes) != integers(image.answers))
        return f"{text}, {wrong:,} of them answered wrongly"


def _said(true: str, answer: str) -> str:
    """Returns the text below an image: its class, and the answer if that is another one."""
    return true if true == answer else f"{true} → {answer}"


def _qimage(image: npt.NDArray[np.uint8]) -> QImage:
    height, width, channels = image.shape
    form = QImage.Format.Format_Grayscale8 if channels == 1 else QImage.Format.Format_RGB888
    return QImage(np.ascontiguousarray(image).tobytes(), width, height, width * channels, form).copy()


class Table:
    """A confusion matrix, or another table: the larger a value is in its row, the stronger its colour."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        self._tile = tile
        self._values = table(matrix)
        self._across, self._down = table_names(tile.taken.spec, matrix)
        self._confusion = matrix.rows == matrix.columns
        room = tile.room
        left = min(max(map(width_of, self._down), default=0.0) + 8, 0.3 * room.width())
        title = _ROW if self._confusion else 0.0
        free = room.adjusted(left + title, title + _ROW, -2, -2)
        wide, high = free.width() / max(matrix.columns, 1), free.height() / max(matrix.rows, 1)
        if self._confusion:
            high = min(high, wide)
            wide = min(wide, 2.2 * high)
        self._cell = max(wide, 0.1), max(high, 0.1)
        spare = max(0.0, free.width() - wide * matrix.columns)
        self._grid = QRectF(
            free.left() + 0.5 * spare, free.top(), self._cell[0] * matrix.columns, self._cell[1] * matrix.rows
        )

    def box(self, row: int, column: int) -> QRectF:
        """Returns the rectangle of a cell."""
        wide, high = self._cell
        return QRectF(self._grid.left() + column * wide, self._grid.top() + row * high, wide, high)

    def paint(self, painter: QPainter) -> None:
        """Cells with their numbers, as far as these have room; the names of rows and columns."""
        shares = _shares(self._values)
        texts = [[_number(value) for value in row] for row in self._values.tolist()]
        widest = max((width_of(text) for row in texts for text in row), default=0.0)
        numbered = widest + 4 <= self._cell[0] and self._cell[1] >= _ROW - 2
        theme = self._tile.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        if self._values.size > 4096:
            self._paint_fine(painter, shares)
        else:
            gap = 1.0 if min(self._cell) > 6 else 0.0
            for (row, column), share in np.ndenumerate(shares):
                ground = _shade(theme.sunken, theme.accent, theme.bad, float(share))
                box = self.box(row, column)
                painter.fillRect(box.adjusted(0, 0, -gap, -gap), ground)
                if numbered:
                    write(painter, box, texts[row][column], ink_on(ground, theme), CENTRE)
        self._name(painter)

    def _paint_fine(self, painter: QPainter, shares: FloatArray) -> None:
        theme = self._tile.theme
        shades = [_shade(theme.sunken, theme.accent, theme.bad, k / 64 - 1) for k in range(129)]
        steps = np.array([(one.red(), one.green(), one.blue()) for one in shades])
        found = steps[np.clip(np.rint(64 * (shares + 1)), 0, 128).astype(np.int64)].astype(np.uint8)
        painter.drawImage(self._grid, _qimage(found))

    def _name(self, painter: QPainter) -> None:
        theme, grid = self._tile.theme, self._grid
        wide, high = self._cell
        every = max(1, math.ceil((_ROW - 2) / high))
        for k in range(0, len(self._down), every):
            box = QRectF(self._tile.room.left(), self.box(k, 0).center().y() - 8, grid.left() - 6, 16)
            box.setRight(grid.left() - 6)
            write(painter, box, elided(self._down[k], box.width()), theme.text2, TO_RIGHT)
        broadest = max((width_of(name) for name in self._across), default=0.0)
        every = max(1, math.ceil((min(broadest, 60.0) + 6) / wide))
        for k in range(0, len(self._across), every):
            room = every * wide
            box = QRectF(self.box(0, k).center().x() - 0.5 * room, grid.top() - _ROW, room, _ROW)
            write(painter, box, elided(self._across[k], room), theme.text2, CENTRE)
        if self._confusion:
            above = QRectF(grid.left(), grid.top() - 2 * _ROW, grid.width(), _ROW)
            write(painter, above, elided("Answer", above.width()), theme.text3, CENTRE)
            widest = max(map(width_of, self._down), default=0.0)
            painter.save()
            painter.translate(grid.left() - widest - 16, grid.center().y())
            painter.rotate(-90)
            write(painter, QRectF(-60, -8, 120, 16), "Class", theme.text3, CENTRE)
            painter.restore()

    def read(self, at: QPointF) -> str:
        """A cell: its row, its column and its value."""
        if not self._grid.contains(at):
            return ""
        row = min(int((at.y() - self._grid.top()) / self._cell[1]), len(self._down) - 1)
        column = min(int((at.x() - self._grid.left()) / self._cell[0]), len(self._across) - 1)
        value = _number(float(self._values[row, column]))
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
        text = f"{_number(right)} of {_number(total)} right"
        if not wrong[row, column]:
            return text
        most = f"{self._across[int(column)]} instead of {self._down[int(row)]}"
        return f"{text}, the most frequent mistake is {most} ({_number(float(wrong[row, column]))})"


def _shares(values: FloatArray) -> FloatArray:
    """Maps values to -1 to 1: each as a part of the largest of its row, as a square root so that rare mistakes can be
    seen."""
    finite = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
    largest = np.abs(finite).max(axis=1, keepdims=True, initial=0.0)
    shares: FloatArray = np.sign(finite) * np.sqrt(np.abs(finite) / np.where(largest > 0, largest, 1.0))
    return shares


def _shade(ground: str, above: str, below: str, share: float) -> QColor:
    return mixed(ground, above if share >= 0 else below, min(abs(share), 1.0))


def _number(value: float) -> str:
    whole = math.isfinite(value) and value == int(value) and abs(value) < 1e9
    return count_text(value) if whole else value_text(value)


class Bars:
    """A bar to the right for each value, with its name and number."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        self._tile = tile
        self._values = table(matrix)[0] if matrix.rows else np.empty(0)
        self._names, _ = table_names(tile.taken.spec, matrix)
        self._log = tile.taken.spec.log_y
        self._texts = [_number(value) for value in self._values.tolist()]
        room, count = tile.room, max(len(self._values), 1)
        self._high = min(room.height() / count, _THICKEST)
        left = min(max(map(width_of, self._names), default=0.0) + 10, 0.4 * room.width())
        right = max(map(width_of, self._texts), default=0.0) + 10
        self._area = QRectF(room.left() + left, room.top(), max(room.width() - left - right, 10.0), count * self._high)
        self._low, self._top = self._range()

    def _range(self) -> tuple[float, float]:
        """Returns the values at the left and the right end of the axis."""
        found = self._values[np.isfinite(self._values) & ((self._values > 0) | (not self._log))]
        if self._log:
            powers = np.log10(found) if found.size else np.zeros(1)
            return math.floor(float(powers.min())) - 0.2, math.ceil(float(powers.max()) + 1e-9) + 0.0
        return min(float(found.min(initial=0.0)), 0.0), max(float(found.max(initial=0.0)), 1e-300)

    def _column(self, value: float) -> float:
        place = (math.log10(value) if value > 0 else self._low) if self._log else value
        share = (place - self._low) / max(self._top - self._low, 1e-300)
        return self._area.left() + min(max(share, 0.0), 1.0) * self._area.width()

    def box(self, number: int) -> QRectF:
        """Returns the rectangle of a bar."""
        value = float(self._values[number])
        zero = self._area.left() if self._log else self._column(0.0)
        end = self._column(value) if math.isfinite(value) else zero
        pad = 0.14 * self._high
        top = self._area.top() + number * self._high + pad
        return QRectF(min(zero, end), top, max(abs(end - zero), 1.0), max(self._high - 2 * pad, 1.0))

    def paint(self, painter: QPainter) -> None:
        """Paints the bars; if there is no room for all names, only every second or third bar has one."""
        theme, area = self._tile.theme, self._area
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        every = max(1, math.ceil((_ROW - 1) / max(self._high, 0.1)))
        painter.setPen(QPen(QColor(theme.grid), 1))
        for tick in self._decades():
            painter.drawLine(QPointF(self._column(tick), area.top()), QPointF(self._column(tick), area.bottom()))
        for k, text in enumerate(self._texts):
            box = self.box(k)
            painter.fillRect(box, QColor(theme.accent))
            if k % every == 0:
                middle = box.center().y() - 8
                name = QRectF(self._tile.room.left(), middle, area.left() - self._tile.room.left() - 8, 16)
                write(painter, name, elided(self._names[k], name.width()), theme.text2, TO_RIGHT)
                write(painter, QRectF(box.right() + 6, middle, 120, 16), text, theme.text, TO_LEFT)
        zero = area.left() if self._log else self._column(0.0)
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.drawLine(QPointF(zero, area.top()), QPointF(zero, area.bottom()))

    def _decades(self) -> list[float]:
        """Returns the powers of ten on a logarithmic axis, which are drawn as faint lines."""
        return [10.0**k for k in range(math.ceil(self._low), math.floor(self._top) + 1)] if self._log else []

    def read(self, at: QPointF) -> str:
        """The bar in this row."""
        number = int((at.y() - self._area.top()) // self._high) if self._area.height() else -1
        inside = self._tile.room.contains(at) and 0 <= number < len(self._texts)
        return f"{self._names[number]}: {self._texts[number]}" if inside else ""

    def words(self) -> str:
        """Lists all values; of many the first ones."""
        shown = [f"{name} {text}" for name, text in zip(self._names, self._texts, strict=True)]
        return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")
