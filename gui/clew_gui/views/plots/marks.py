"""Small marks on a curve: last point, best, event, break, and the leader to the gutter."""

from __future__ import annotations

import math
from typing import Final

from PySide6.QtCore import QLineF, QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from clew_gui.views.theme import Theme

_STAR: Final = tuple(
    (
        math.sin(k * math.pi / 5) * (6.2 if k % 2 == 0 else 2.6),
        -math.cos(k * math.pi / 5) * (6.2 if k % 2 == 0 else 2.6),
    )
    for k in range(10)
)


def _outlined(painter: QPainter, outline: QColor, fill: QColor) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(outline, 1.6))
    painter.setBrush(fill)


def dot(
    painter: QPainter, at: QPointF, colour: QColor, theme: Theme, hollow: bool = False, radius: float = 5.0
) -> None:
    """The last point; hollow where the link is silent and the run may be further."""
    surface = QColor(theme.surface)
    _outlined(painter, colour if hollow else surface, surface if hollow else colour)
    painter.drawEllipse(at, radius, radius)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def star(painter: QPainter, at: QPointF, colour: QColor, theme: Theme) -> None:
    """The best value."""
    _outlined(painter, QColor(theme.surface), colour)
    painter.drawPolygon(QPolygonF([at + QPointF(x, y) for x, y in _STAR]))
    painter.setBrush(Qt.BrushStyle.NoBrush)


def diamond(painter: QPainter, at: QPointF, colour: QColor, theme: Theme) -> None:
    """An event."""
    _outlined(painter, colour, QColor(theme.surface))
    painter.drawPolygon(QPolygonF([at + QPointF(x, y) for x, y in ((0, -6.5), (5, 0), (0, 6.5), (-5, 0))]))
    painter.setBrush(Qt.BrushStyle.NoBrush)


def cross(painter: QPainter, at: QPointF, theme: Theme) -> None:
    """Where a curve stopped being a number."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    for ink, width in ((theme.surface, 4.6), (theme.bad, 2.2)):
        painter.setPen(QPen(QColor(ink), width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawLine(QLineF(at + QPointF(-4, -4), at + QPointF(4, 4)))
        painter.drawLine(QLineF(at + QPointF(4, -4), at + QPointF(-4, 4)))


def leader(painter: QPainter, start: QPointF, right: float, colour: QColor, live: bool) -> None:
    """From a curve's end to the gutter: dotted where the run goes on, a faint hairline where it ended before."""
    ink = QColor(colour)
    ink.setAlphaF(0.8 if live else 0.3)
    pen = QPen(ink, 1)
    if live:
        pen.setDashPattern([1, 3])
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setPen(pen)
    y = round(start.y())
    painter.drawLine(QLineF(round(start.x()), y, right, y))
