"""Pictures with axes: points by class, and histograms with a threshold that can be moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPainterPath, QPen

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.numbers import count_text, value_text
from clew_gui.plotting.axes.ticks import Span, Tick
from clew_gui.plotting.measured import axis_ticks, span_of
from clew_gui.plotting.pictures import Judgement, class_labels, class_name, confusion_at, distribution, points, scores
from clew_gui.views.charts.painter import polygon
from clew_gui.views.plots.drawing.pixels import Frame
from clew_gui.views.plots.pictures.tile import CENTRE, TO_LEFT, TO_RIGHT, Tile, elided, mixed, width_of, write
from clew_gui.views.theme.theme import Theme, font
from clew_shared.journal.events import Histogram, Matrix

_FOOT: Final = 18.0
_KEY: Final = 16.0
_LEAST_KEY: Final = 12.0
_KEY_WIDTH: Final = 96.0
_PANEL: Final = 196.0
"""The confusion matrix and what follows from it, right of a histogram."""
_GRIP: Final = 6.0
_MANY: Final = 10
"""The largest number of classes that are named at the middle of their points."""


class PictureAxes:
    """A rectangle with ticks left of it and below it."""

    def __init__(self, room: QRectF, x: Span, y: Span, log_x: bool = False, log_y: bool = False) -> None:
        high = max(room.height() - _FOOT - 4, 20.0)
        self._y_ticks = axis_ticks(y, max(int(high // 36), 2), log_y, "")
        left = max([24.0, *(width_of(tick.text) + 10 for tick in self._y_ticks)])
        rect = QRectF(room.left() + left, room.top() + 4, max(room.width() - left - 8, 20.0), high)
        self.frame = Frame(rect, x, y)
        self._x_ticks = axis_ticks(x, max(int(rect.width() // 56), 2), log_x, "")

    def paint(self, painter: QPainter, theme: Theme) -> None:
        """Paints the grid, the numbers and the lower line."""
        rect = self.frame.rect
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for tick in self._y_ticks:
            row = round(self.frame.row(tick.at))
            painter.setPen(QPen(QColor(theme.grid), 1))
            painter.drawLine(QLineF(rect.left(), row, rect.right(), row))
            box = QRectF(rect.left() - 90, row - 9, 84, 18)
            write(painter, box, tick.text, theme.text3, TO_RIGHT)
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.drawLine(QLineF(rect.left(), rect.bottom(), rect.right(), rect.bottom()))
        for tick in self._x_ticks:
            self._x_tick(painter, tick, theme)

    def _x_tick(self, painter: QPainter, tick: Tick, theme: Theme) -> None:
        at, bottom = self.frame.column(tick.at), self.frame.rect.bottom()
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.drawLine(QLineF(at, bottom, at, bottom + 3))
        write(painter, QRectF(at - 50, bottom + 3, 100, _FOOT - 3), tick.text, theme.text3, CENTRE)


class ScatterPicture:
    """Points in the colours of their classes, whose names are at the right and at the middle of their points."""

    def __init__(self, tile: Tile, matrix: Matrix) -> None:
        self._tile = tile
        self._points, self._classes = points(matrix)
        self._known = [int(one) for one in np.unique(self._classes)]
        self._labels = class_labels(tile.taken.spec, matrix)
        room = tile.room
        widest = max((width_of(self._name(one)) for one in self._known), default=0.0)
        self._key = QRectF(room)
        self._key.setLeft(room.right() - min(widest + 20, _KEY_WIDTH))
        x, y = (span_of([self._points[:, k]], log=False) for k in (0, 1))
        self.axes = PictureAxes(QRectF(room.topLeft(), QPointF(self._key.left() - 4, room.bottom())), x, y)

    def paint(self, painter: QPainter) -> None:
        """Paints the points; if there are many, they are small and translucent."""
        theme, frame = self._tile.theme, self.axes.frame
        self.axes.paint(painter, theme)
        if not len(self._points):
            write(painter, frame.rect, "No finite points", theme.text3, CENTRE)
            return
        size = 5.0 if len(self._points) < 500 else 3.5 if len(self._points) < 3000 else 2.2
        x, y = frame.px(self._points[:, 0]), frame.py(self._points[:, 1])
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        for one in self._known:
            colour = QColor(theme.class_colour(one))
            colour.setAlphaF(0.75)
            painter.setPen(QPen(colour, size, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
            own = self._classes == one
            painter.drawPoints(polygon(x[own], y[own]))
        paint_key(painter, self._key, [(theme.class_colour(one), self._name(one)) for one in self._known], theme)
        if 1 < len(self._known) <= _MANY:
            for one in self._known:
                own = self._classes == one
                _halo(painter, QPointF(float(np.median(x[own])), float(np.median(y[own]))), self._name(one), theme)

    def _name(self, one: int) -> str:
        return class_name(self._labels, one)

    def read(self, at: QPointF) -> str:
        """The point nearest to a pixel, if it is near."""
        if not len(self._points) or not self.axes.frame.rect.contains(at):
            return ""
        x, y = self.axes.frame.px(self._points[:, 0]), self.axes.frame.py(self._points[:, 1])
        away = np.hypot(x - at.x(), y - at.y())
        nearest = int(np.argmin(away))
        if away[nearest] > 12:
            return ""
        one, (across, up) = int(self._classes[nearest]), self._points[nearest]
        return f"{self._name(one)} at {value_text(float(across))}, {value_text(float(up))}"

    def words(self) -> str:
        """Says how many points of how many classes there are."""
        return f"{len(self._points):,} points of {len(self._known)} classes"


def _halo(painter: QPainter, at: QPointF, text: str, theme: Theme) -> None:
    """A word that can be read over points of any colour."""
    face = font("captionStrong")
    path = QPainterPath()
    path.addText(QPointF(at.x() - 0.5 * QFontMetricsF(face).horizontalAdvance(text), at.y() + 4), face, text)
    pen = QPen(QColor(theme.surface), 3.5)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.strokePath(path, pen)
    painter.fillPath(path, QColor(theme.text))


def paint_key(painter: QPainter, room: QRectF, entries: Sequence[tuple[str, str]], theme: Theme) -> None:
    """Paints colours and their names from the top down, closer together if space is short, as far as there is space."""
    high = max(min(_KEY, (room.height() - 4) / max(len(entries), 1)), _LEAST_KEY)
    for k, (colour, name) in enumerate(entries):
        top = room.top() + 4 + k * high
        if top + high > room.bottom() + 0.5:
            return
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.fillRect(QRectF(room.left(), top + 3, 10, 10), QColor(colour))
        box = QRectF(room.left() + 16, top, room.width() - 16, _KEY)
        write(painter, box, elided(name, box.width()), theme.text2, TO_LEFT)


class HistogramPicture:
    """Draws how often values occur, class by class; with a threshold also how it classifies them."""

    def __init__(self, tile: Tile, histogram: Histogram) -> None:
        self._tile = tile
        spec = tile.taken.spec
        self.found = distribution(histogram)
        self.judgement: Judgement | None = None
        if tile.threshold is not None and histogram.values:
            self.judgement = confusion_at(*scores(histogram), tile.threshold)
        self._log_x = spec.log_x and bool((self.found.edges > 0).all())
        self._log_y = spec.log_y
        room = tile.room
        side = min(_PANEL, 0.44 * room.width()) if self.judgement is not None else 0.0
        named = self.judgement is None and self.found.classes != (-1,)
        self._panel = QRectF(room.right() - side, room.top(), side, room.height())
        self._key = QRectF(room.right() - 84, room.top() + 6, 84, room.height()) if named else self._panel
        edges = np.log10(self.found.edges) if self._log_x else self.found.edges
        self._edges = edges
        top = float(self.found.counts.max(initial=0.0)) or 1.0
        y = Span(-0.1, math.log10(top) + 0.1) if self._log_y else Span(0.0, 1.05 * top)
        room = QRectF(room.topLeft(), QPointF(room.right() - side, room.bottom()))
        self.axes = PictureAxes(room, Span(float(edges[0]), float(edges[-1])), y, self._log_x, self._log_y)

    # ------------------------------------------------------------ threshold
    def column(self, value: float) -> float:
        """The pixel column of a value, inside of the axes."""
        frame = self.axes.frame
        place = (math.log10(value) if value > 0 else frame.x.low) if self._log_x else value
        return frame.column(min(max(place, frame.x.low), frame.x.high))

    def grips(self, at: QPointF) -> bool:
        """Whether a pixel is on the threshold's line."""
        threshold, rect = self._tile.threshold, self.axes.frame.rect
        if threshold is None or self.judgement is None:
            return False
        return rect.top() - 4 <= at.y() <= rect.bottom() and abs(at.x() - self.column(threshold)) <= _GRIP

    def value_at(self, column: float) -> float:
        """The value of a pixel column, inside of the axes."""
        frame = self.axes.frame
        place = min(max(frame.x_at(column), frame.x.low), frame.x.high)
        return 10.0**place if self._log_x else place

    # ------------------------------------------------------------ painting
    def paint(self, painter: QPainter) -> None:
        """Classes over each other, each letting the others through."""
        theme, frame = self._tile.theme, self.axes.frame
        self.axes.paint(painter, theme)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for counts, one in zip(self.found.counts, self.found.classes, strict=True):
            colour = QColor(self._colour(one))
            colour.setAlphaF(0.9 if len(self.found.classes) == 1 else 0.6)
            self._paint_bars(painter, counts, colour)
        named = [(self._colour(one), self._name(one)) for one in self.found.classes if one >= 0]
        if self.judgement is None:
            paint_key(painter, self._key, named, theme)
        if self._tile.threshold is not None and self.judgement is not None:
            self._paint_threshold(painter, self._tile.threshold, frame)
            self._paint_panel(painter, self.judgement)

    def _colour(self, one: int) -> str:
        return self._tile.theme.accent if one < 0 else self._tile.theme.class_colour(one)

    def _name(self, one: int) -> str:
        return class_name(self._tile.taken.spec.labels, one)

    def _paint_bars(self, painter: QPainter, counts: FloatArray, colour: QColor) -> None:
        frame = self.axes.frame
        columns = np.rint(frame.px(self._edges))
        for k, count in enumerate(counts.tolist()):
            if count > 0:
                top = frame.row(math.log10(count) if self._log_y else count)
                wide = max(columns[k + 1] - columns[k] - (1 if columns[k + 1] - columns[k] > 3 else 0), 1.0)
                painter.fillRect(QRectF(columns[k], top, wide, max(frame.rect.bottom() - top, 1.0)), colour)

    def _paint_threshold(self, painter: QPainter, threshold: float, frame: Frame) -> None:
        theme, column = self._tile.theme, round(self.column(threshold))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(QColor(theme.text), 1.5))
        painter.drawLine(QLineF(column, frame.rect.top(), column, frame.rect.bottom()))
        grip = QRectF(column - 4, frame.rect.top() - 4, 8, 14)
        painter.setBrush(QColor(theme.text))
        painter.drawRoundedRect(grip, 3, 3)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        text = value_text(threshold)
        wide = QFontMetricsF(font("captionStrong")).horizontalAdvance(text) + 10
        left = column + 8 if column + 8 + wide < frame.rect.right() else column - 8 - wide
        box = QRectF(left, frame.rect.top() - 2, wide, 17)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.fillRect(box, mixed(theme.surface, theme.sunken, 0.8))
        write(painter, box, text, theme.text, CENTRE, strong=True)

    def _paint_panel(self, painter: QPainter, found: Judgement) -> None:
        """The confusion matrix in the colours of the true classes, and what follows from it.

        Where the names of the classes do not fit beside it, they are below with their colours.
        """
        theme, room = self._tile.theme, self._panel.adjusted(12, 2, -2, 0)
        fits = max(width_of(self._name(k)) for k in (0, 1)) <= 0.29 * room.width() - 4
        label, high, top = 0.42 * room.width() if fits else 16.0, 22.0, room.top()
        cell = 0.5 * (room.width() - label)
        write(painter, QRectF(room.left() + label, top, 2 * cell, _KEY), "Answer", theme.text3, CENTRE)
        for k in (0, 1):
            head = QRectF(room.left() + label + k * cell, top + _KEY, cell, _KEY)
            if fits:
                write(painter, head, self._name(k), theme.text2, CENTRE)
            else:
                painter.fillRect(QRectF(head.center().x() - 6, head.top() + 3, 10, 10), QColor(theme.class_colour(k)))
        rows = ((found.true_negatives, found.false_positives), (found.false_negatives, found.true_positives))
        for k, cells in enumerate(rows):
            y = top + 2 * _KEY + k * high
            painter.fillRect(QRectF(room.left(), y + 6, 10, 10), QColor(theme.class_colour(k)))
            if fits:
                write(painter, QRectF(room.left() + 15, y, label - 19, high), self._name(k), theme.text2)
            for place, count in enumerate(cells):
                box = QRectF(room.left() + label + place * cell, y, cell - 2, high - 2)
                painter.fillRect(box, QColor(theme.ok_soft if place == k else theme.bad_soft))
                write(painter, box, count_text(count), theme.text, CENTRE, strong=True)
        y = top + 2 * _KEY + 2 * high + 6
        for name, value in self._measures(found):
            if y + _KEY > room.bottom():
                return
            write(painter, QRectF(room.left(), y, room.width(), _KEY), name, theme.text2)
            write(painter, QRectF(room.left(), y, room.width() - 2, _KEY), value, theme.text, TO_RIGHT, strong=True)
            y += _KEY + 1
        if not fits:
            key = QRectF(QPointF(room.left(), y), room.bottomRight())
            paint_key(painter, key, [(theme.class_colour(k), self._name(k)) for k in (0, 1)], theme)

    @staticmethod
    def _measures(found: Judgement) -> tuple[tuple[str, str], ...]:
        values = (("Precision", found.precision), ("Recall", found.recall), ("F-score", found.f_score))
        return tuple((name, "–" if value is None else value_text(value, "percent")) for name, value in values)

    # ------------------------------------------------------------ read-out
    def read(self, at: QPointF) -> str:
        """The bin under a pixel, with the count of each class."""
        frame = self.axes.frame
        if not frame.rect.contains(at):
            return ""
        k = int(np.searchsorted(self._edges, frame.x_at(at.x()), side="right")) - 1
        if not 0 <= k < self.found.counts.shape[1]:
            return ""
        between = f"{value_text(float(self.found.edges[k]))} to {value_text(float(self.found.edges[k + 1]))}"
        counted = [
            f"{self._name(one)} {count_text(float(row[k]))}" if one >= 0 else count_text(float(row[k]))
            for row, one in zip(self.found.counts, self.found.classes, strict=True)
        ]
        return f"{between}: {', '.join(counted)}"

    def words(self) -> str:
        """The range; with a threshold what it makes of the values."""
        low, high = (value_text(float(self.found.edges[k])) for k in (0, -1))
        text = f"{count_text(float(self.found.counts.sum()))} values from {low} to {high}"
        if self.judgement is None or self._tile.threshold is None:
            return text
        measures = ", ".join(f"{name} {value}" for name, value in self._measures(self.judgement))
        return f"{text}, threshold {value_text(self._tile.threshold)}: {measures}"
