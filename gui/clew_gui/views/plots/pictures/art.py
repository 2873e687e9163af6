"""Paints all pictures of one run as tiles beside each other: laid out for a size, on any device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter

from clew_gui.plotting.axes.numbers import count_text
from clew_gui.plotting.pictures import TakenPicture, tile_columns
from clew_gui.views.plots.pictures.axes import HistogramPicture, ScatterPicture
from clew_gui.views.plots.pictures.cells import Bars, Images, Table
from clew_gui.views.plots.pictures.tile import CENTRE, TITLE, TO_RIGHT, Nothing, Painted, Tile, elided, write
from clew_gui.views.theme.theme import Theme
from clew_shared.journal.events import Histogram, Image, Matrix

EMPTY: Final = "Pictures appear here as they are taken."
_GAP: Final = 18.0
_EDGE: Final = 6.0


class PicturesArt:
    """Lays out and paints the pictures of a run. ``taken`` are the pictures to show, ``thresholds`` where those of
    histograms are, by the picture's id. The title of a picture has its step, unless that is ``step``, which is shown
    elsewhere."""

    def __init__(
        self,
        taken: Sequence[TakenPicture],
        width: float,
        height: float,
        theme: Theme,
        thresholds: Mapping[str, float] | None = None,
        step: int | None = None,
    ) -> None:
        self._theme, self._size, self._step = theme, (width, height), step
        self.taken = tuple(taken)
        there = any(one.figure is not None for one in taken)
        rects = _rects(len(taken), width, height) if there else []
        known = thresholds or {}
        self.tiles = [
            Tile(one, rect, theme, known.get(one.spec.id)) for one, rect in zip(self.taken, rects, strict=False)
        ]
        self.forms = [painted(tile) for tile in self.tiles]

    def paint(self, painter: QPainter, read: QPointF | None = None) -> None:
        """Paints everything, and the read-out at a pixel."""
        painter.fillRect(QRectF(0, 0, *self._size), QColor(self._theme.surface))
        if not self.tiles:
            write(painter, QRectF(0, 0, *self._size), EMPTY, self._theme.text3, CENTRE)
        for tile, form in zip(self.tiles, self.forms, strict=True):
            painter.save()
            painter.setClipRect(tile.rect.adjusted(-4, -2, 4, 4))
            self._head(painter, tile, form.read(read) if read is not None and tile.rect.contains(read) else "")
            form.paint(painter)
            painter.restore()

    def _head(self, painter: QPainter, tile: Tile, reading: str) -> None:
        """Writes the title, and right of it the read-out, or the step."""
        box = QRectF(tile.rect.left(), tile.rect.top(), tile.rect.width(), TITLE - 4)
        figure = tile.taken.figure
        other = figure is not None and figure.step != self._step
        note = reading or (f"step {count_text(figure.step)}" if figure is not None and other else "")
        note = elided(note, 0.7 * box.width())
        write(painter, box, note, self._theme.text if reading else self._theme.text3, TO_RIGHT)
        taken = painter.fontMetrics().horizontalAdvance(note) + 12 if note else 0
        title = elided(tile.taken.spec.title, box.width() - taken, strong=True)
        write(painter, box, title, self._theme.text2, strong=True)

    def tile_at(self, at: QPointF) -> int | None:
        """The number of the tile at a pixel."""
        return next((k for k, tile in enumerate(self.tiles) if tile.rect.contains(at)), None)

    def grip_at(self, at: QPointF) -> int | None:
        """The number of the tile whose threshold is at a pixel."""
        return next(
            (k for k, form in enumerate(self.forms) if isinstance(form, HistogramPicture) and form.grips(at)), None
        )

    def summary(self) -> str:
        """The pictures in words."""
        if not self.tiles:
            return EMPTY
        parts = []
        for tile, form in zip(self.tiles, self.forms, strict=True):
            figure = tile.taken.figure
            at = f" at step {count_text(figure.step)}" if figure is not None else ""
            parts.append(f"{tile.taken.spec.title}{at}: {form.words()}")
        return ". ".join(parts)


def painted(tile: Tile) -> Painted:
    """The form of a tile."""
    match tile.taken.spec.form, tile.taken.figure:
        case "images", Image() as image:
            return Images(tile, image)
        case "scatter", Matrix() as matrix:
            return ScatterPicture(tile, matrix)
        case "histogram", Histogram() as histogram:
            return HistogramPicture(tile, histogram)
        case "matrix", Matrix() as matrix:
            return Table(tile, matrix)
        case "bars", Matrix() as matrix:
            return Bars(tile, matrix)
    return Nothing(tile)


def _rects(count: int, width: float, height: float) -> list[QRectF]:
    """Tiles in rows; those of a row that is not full share its width."""
    if not count:
        return []
    columns = tile_columns(count, width, height)
    rows = [min(columns, count - first) for first in range(0, count, columns)]
    high = (height - 2 * _EDGE - _GAP * (len(rows) - 1)) / len(rows)
    found = []
    for k, inside in enumerate(rows):
        wide = (width - 2 * _EDGE - _GAP * (inside - 1)) / inside
        top = _EDGE + k * (high + _GAP)
        found += [QRectF(_EDGE + place * (wide + _GAP), top, wide, high) for place in range(inside)]
    return found
