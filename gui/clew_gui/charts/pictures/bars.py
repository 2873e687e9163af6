"""The form "bars": a bar to the right for each value."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from clew_gui.charts.kit.drawing import Drawing, Stroke, widest
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span, log_ticks
from clew_gui.charts.measured import LARGEST
from clew_gui.charts.pictures.matrix import cell_text
from clew_gui.charts.pictures.taken import table, table_names
from clew_gui.charts.pictures.tile import Tile
from clew_shared.base.number_words import quantity
from clew_shared.journal.events import Matrix

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

    def words(self) -> str:
        """Lists all values; of many the first ones."""
        shown = [f"{name} {text}" for name, text in zip(self._names, self._texts, strict=True)]
        return ", ".join(shown[:12]) + (f" and {len(shown) - 12} more" if len(shown) > 12 else "")


class Shares(Bars):
    """Bars of shares of a whole, which all of the width is."""

    def _text(self, value: float) -> str:
        return quantity(value, "percent")

    def _range(self) -> tuple[float, float]:
        return 0.0, 1.0
