"""The crosshair: one line through all plots, a dot on each curve, and one box with the values in the emptiest place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.axes.layout import Box, emptiest
from clew_gui.plotting.curves.readout import Readout
from clew_gui.views.plots.curves.label_painter import LabelPainter
from clew_gui.views.plots.drawing import marks
from clew_gui.views.plots.drawing.lines import swatch
from clew_gui.views.theme.theme import font

_ROW: Final = 17.0
_AWAY: Final = 12.0
_FEW: Final = 2
"""A box beside the line may cover so many points of curves before it goes farther away."""


class ReadBox:
    """Paints a read-out over a finished picture; remembers where the box was, so that it does not flicker."""

    def __init__(self) -> None:
        self._previous = -1

    def paint(self, painter: QPainter, readout: Readout, label_painter: LabelPainter) -> None:
        """Draw line, dots and box."""
        theme = label_painter.theme
        column = round(label_painter.frames[0].column(readout.x)) if label_painter.frames else 0
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(QPen(QColor(theme.text3), 1))
        for frame in label_painter.frames:
            painter.drawLine(QLineF(column, frame.rect.top(), column, frame.rect.bottom()))
        for row in reversed(readout.rows):
            for frame, point in zip(label_painter.frames, row.points, strict=True):
                if point is not None:
                    at = frame.at(*point)
                    if frame.rect.adjusted(-1, -1, 1, 1).contains(at):
                        marks.dot(painter, at, QColor(theme.curve(row.run.index).colour), theme, radius=4)
        if readout.rows:
            self._box(painter, readout, label_painter, column)

    def _box(self, painter: QPainter, readout: Readout, label_painter: LabelPainter, column: float) -> None:
        plain, strong = QFontMetricsF(font("caption")), QFontMetricsF(font("captionStrong"))
        names = max(strong.horizontalAdvance(row.run.label) for row in readout.rows)
        names = min(names, 190.0)
        widths = [
            max(strong.horizontalAdvance(title), *(strong.horizontalAdvance(row.values[i]) for row in readout.rows))
            for i, title in enumerate(readout.columns)
        ]
        values = sum(w + 14 for w in widths)
        head = strong.horizontalAdvance(readout.heading) + 10
        width = 10 + max(18 + names, head) + values + 10
        lines = len(readout.rows) + 1 + (1 if readout.omitted else 0)
        spot = self.place(label_painter, column, width, 10 + _ROW * lines)
        if spot is None:
            return
        theme = label_painter.theme
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(QColor(theme.border if theme.dark else theme.line), 1))
        painter.setBrush(QColor(theme.surface))
        painter.drawRoundedRect(QRectF(spot.x + 0.5, spot.y + 0.5, width, spot.height), 7, 7)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        y = spot.y + 5
        self._text(painter, QRectF(spot.x + 10, y, width, _ROW), readout.heading, theme.text, strong=True)
        self._values(painter, spot, y, widths, readout.columns, theme.text3, strong=False)
        for row in readout.rows:
            y += _ROW
            swatch(painter, QRectF(spot.x + 10, y, 12, _ROW), theme, row.run.index)
            name = (strong if row.run.selected else plain).elidedText(row.run.label, Qt.TextElideMode.ElideRight, names)
            ink = theme.text if row.run.selected else theme.text2
            self._text(painter, QRectF(spot.x + 28, y, names + 4, _ROW), name, ink, strong=row.run.selected)
            self._values(painter, spot, y, widths, row.values, theme.text, strong=row.run.selected)
        if readout.omitted:
            box = QRectF(spot.x + 28, y + _ROW, width, _ROW)
            self._text(painter, box, f"and {readout.omitted} more", theme.text3)

    def _values(
        self,
        painter: QPainter,
        spot: Box,
        y: float,
        widths: list[float],
        texts: tuple[str, ...],
        ink: str,
        strong: bool,
    ) -> None:
        right = spot.right - 10
        for width, text in zip(reversed(widths), reversed(texts), strict=True):
            self._text(painter, QRectF(right - width, y, width, _ROW), text, ink, strong, Qt.AlignmentFlag.AlignRight)
            right -= width + 14

    def _text(
        self,
        painter: QPainter,
        box: QRectF,
        text: str,
        ink: str,
        strong: bool = False,
        align: Qt.AlignmentFlag = Qt.AlignmentFlag.AlignLeft,
    ) -> None:
        painter.setFont(font("captionStrong" if strong else "caption"))
        painter.setPen(QColor(ink))
        painter.drawText(box, align | Qt.AlignmentFlag.AlignVCenter, text)

    def place(self, label_painter: LabelPainter, column: float, width: float, height: float) -> Box | None:
        """Finds the place beside the column where a box of this size covers least."""
        area = label_painter.stack.area
        beside = (column + _AWAY, column - _AWAY - width)
        candidates = _boxes(label_painter, beside, width, height)
        near = len(candidates)
        candidates += _boxes(label_painter, (area.left() + 8, area.right() - width - 8), width, height, column)
        right = area.width() + (label_painter.stack.gutter if width > 0.5 * area.width() else 0)
        room = Box(area.left(), area.top() - 2, right, max(area.height(), height) + 8)
        points = np.concatenate([label_painter.points_of(i) for i in range(len(label_painter.frames))])
        chosen = emptiest(candidates[:near], points, room, self._previous if self._previous < near else -1)
        if chosen < 0 or candidates[chosen].covers(points) > _FEW:  # beside the line it would lie on curves
            chosen = emptiest(candidates, points, room, self._previous)
        self._previous = chosen
        if chosen >= 0:
            return candidates[chosen]
        x = min(max(column + _AWAY, room.x), max(label_painter.stack.width - width - 2, 0.0))
        return Box(x, area.top() + 4, width, height)


def _boxes(
    label_painter: LabelPainter, lefts: Sequence[float], width: float, height: float, line: float | None = None
) -> list[Box]:
    """Boxes at these columns, from the top of each plot to its foot; none over the upright ``line``."""
    found = []
    for frame in label_painter.frames:
        top, foot = frame.rect.top() + 4, frame.rect.bottom() - height - 6
        found += [Box(x, top + part * (foot - top), width, height) for x in lefts for part in (0.0, 1.0, 0.5)]
    if line is None:
        return found
    return [box if not box.x <= line <= box.right else Box(box.x, -2 * height, width, height) for box in found]


def point_in(label_painter: LabelPainter, at: QPointF) -> bool:
    """Whether a pixel lies over the plots, between their left and right border."""
    area = label_painter.stack.area
    return area.left() - 2 <= at.x() <= area.right() + 2 and area.top() - 8 <= at.y() <= area.bottom() + 30
