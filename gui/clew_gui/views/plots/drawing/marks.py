"""Small marks on a curve: last point, best, event, break, evaluations; and the leader to the gutter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from PySide6.QtCore import QLineF, QPointF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPainterPathStroker, QPen, QPolygonF

from clew_gui.views.theme.theme import Theme

DOT: Final = 5.0
"""Radius of the dot at the last point."""


@dataclass(frozen=True)
class MarkStyle:
    """The style of a mark. ``size`` is its extent in logical pixels; without ``edge`` it has no outline."""

    shape: str
    fill: str
    edge: str
    size: float


@dataclass(frozen=True)
class Spot:
    """A mark at a point in axis coordinates."""

    x: float
    y: float
    style: MarkStyle


class Brushes:
    """Styles of marks in the form that ScatterPlotItem takes. It compares brushes by identity, so they are kept."""

    def __init__(self) -> None:
        self._made: dict[tuple[MarkStyle, float], dict[str, Any]] = {}

    def options(self, style: MarkStyle, ratio: float) -> dict[str, Any]:
        """Symbol, size, brush and pen; an outline counts in device pixels, of which a logical one has ``ratio``."""
        made = self._made.get((style, ratio))
        if made is None:
            pen = QPen(QColor(style.edge), 1.6 * ratio) if style.edge else QPen(Qt.PenStyle.NoPen)
            pen.setCosmetic(True)
            brush = QBrush(QColor(style.fill))
            made = {"symbol": shape_path(style.shape), "size": style.size, "brush": brush, "pen": pen}
            self._made[style, ratio] = made
        return made


def last_spot(at: tuple[float, float], colour: str, theme: Theme, hollow: bool) -> Spot:
    """The last point; hollow where the link is silent and the run may be further."""
    fill, edge = (theme.surface, colour) if hollow else (colour, theme.surface)
    return Spot(*at, MarkStyle("dot", fill, edge, 2 * DOT))


def best_spot(at: tuple[float, float], colour: str, theme: Theme) -> Spot:
    """The best value."""
    return Spot(*at, MarkStyle("star", colour, theme.surface, 12.4))


def event_spot(at: tuple[float, float], colour: str, theme: Theme) -> Spot:
    """An event."""
    return Spot(*at, MarkStyle("diamond", theme.surface, colour, 13.0))


def broken_spot(at: tuple[float, float], theme: Theme) -> Spot:
    """Returns the mark for the point where a curve became NaN or infinite."""
    return Spot(*at, MarkStyle("cross", theme.bad, theme.surface, 14.0))


_KNOWN: Final = {"dot": "o", "square": "s", "triangle": "t1"}
"""The shapes that pyqtgraph knows, as it calls them."""


def shape_path(shape: str) -> str | QPainterPath:
    """A shape in a square of side 1 around 0, or pyqtgraph's name for it."""
    if shape in _KNOWN:
        return _KNOWN[shape]
    path = QPainterPath()
    if shape == "cross":
        path.moveTo(-0.33, -0.33)
        path.lineTo(0.33, 0.33)
        path.moveTo(0.33, -0.33)
        path.lineTo(-0.33, 0.33)
        stroker = QPainterPathStroker()
        stroker.setWidth(0.27)
        stroker.setCapStyle(Qt.PenCapStyle.RoundCap)
        return stroker.createStroke(path).simplified()
    corners = ((0.0, -0.5), (0.385, 0.0), (0.0, 0.5), (-0.385, 0.0)) if shape == "diamond" else _star()
    path.addPolygon(QPolygonF([QPointF(x, y) for x, y in corners]))
    path.closeSubpath()
    return path


def _star() -> tuple[tuple[float, float], ...]:
    radii = [0.5 if k % 2 == 0 else 0.21 for k in range(10)]
    return tuple((math.sin(k * math.pi / 5) * r, -math.cos(k * math.pi / 5) * r) for k, r in enumerate(radii))


def dot(painter: QPainter, at: QPointF, colour: QColor, theme: Theme, radius: float) -> None:
    """A dot of the crosshair."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(QPen(QColor(theme.surface), 1.6))
    painter.setBrush(colour)
    painter.drawEllipse(at, radius, radius)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def leader(painter: QPainter, start: QPointF, right: float, colour: QColor, live: bool) -> None:
    """Draws a line from a curve's end to the gutter: dotted if the run goes on, a faint hairline if it ended before."""
    ink = QColor(colour)
    ink.setAlphaF(0.8 if live else 0.3)
    pen = QPen(ink, 1)
    if live:
        pen.setDashPattern([1, 3])
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setPen(pen)
    y = round(start.y())
    painter.drawLine(QLineF(round(start.x()), y, right, y))
