"""The axes: pyqtgraph's, with our ticks, whose numbers and lines stand exactly on pixels."""

from __future__ import annotations

from collections.abc import Sequence

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from clew_gui.plotting.ticks import Tick
from clew_gui.views.theme import Theme, font

Lines = list[tuple[QPen, QPointF, QPointF]]
Texts = list[tuple[QRectF, Qt.AlignmentFlag, str]]

_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_ROW = 18.0


class _Axis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis that shows the ticks it is given, in the theme's colours."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation, showValues=False)
        self._state: tuple[object, ...] = ()
        self.ticks: tuple[Tick, ...] = ()

    def _take(self, ticks: Sequence[Tick], theme: Theme, *more: object) -> None:
        state = (tuple(ticks), theme, *more)
        if state != self._state:
            self._state, self.ticks = state, tuple(ticks)
            self.setStyle(tickFont=font("caption"))
            self.setPen(QPen(QColor(theme.line), 1))
            self.setTickPen(QPen(QColor(theme.grid), 1))
            self.setTextPen(QColor(theme.text3))
            self.picture = None
            self.update()

    def _plot(self) -> QRectF:
        """The plot's rectangle in this item's pixels."""
        rect: QRectF = self.mapRectFromItem(self.linkedView(), self.linkedView().rect())
        return rect

    def boundingRect(self) -> QRectF:
        """All it paints: lines across the plot, and numbers that reach over the axis' ends."""
        own: QRectF = self.mapRectFromParent(self.geometry())
        return (own.united(self._plot()) if self.linkedView() is not None else own).adjusted(-40, -12, 40, 24)


class ValueAxis(_Axis):
    """The value axis, with a line through the plot for each tick, and the plot's ground line."""

    def __init__(self) -> None:
        super().__init__("left")

    def show_ticks(self, ticks: Sequence[Tick], theme: Theme, width: float) -> None:
        """Show these ticks; the axis is ``width`` pixels wide."""
        self._take(ticks, theme)
        self.setWidth(width)

    def generateDrawSpecs(self, painter: QPainter) -> tuple[tuple[QPen, QPointF, QPointF], Lines, Texts]:
        """Where lines and numbers go, as pyqtgraph wants it: the axis' own line, the ticks' lines, the texts."""
        del painter
        plot = self._plot()
        low, high = self.range
        lines: Lines = []
        texts: Texts = []
        for tick in self.ticks:
            y = round(plot.bottom() - (tick.at - low) / (high - low) * plot.height())
            lines.append((self.tickPen(), QPointF(plot.left(), y), QPointF(plot.right(), y)))
            texts.append((QRectF(0, y - _ROW / 2, plot.left() - 7, _ROW), _RIGHT, tick.text))
        ground = (self.pen(), plot.bottomLeft(), plot.bottomRight())
        return ground, lines, texts


class StepAxis(_Axis):
    """The x axis. It leaves out numbers that would touch, and may carry a title below."""

    def __init__(self) -> None:
        super().__init__("bottom")
        self._title = ""
        self._title_pen = QPen()

    def show_ticks(self, ticks: Sequence[Tick], theme: Theme, height: float, title: str) -> None:
        """Show these ticks; the axis is ``height`` pixels high."""
        self._title, self._title_pen = title, QPen(QColor(theme.text2))
        self._take(ticks, theme, title)
        self.setHeight(height)

    def generateDrawSpecs(self, painter: QPainter) -> tuple[tuple[QPen, QPointF, QPointF], Lines, Texts]:
        """Where the numbers go; the line is the value axis' own."""
        plot = self._plot()
        low, high = self.range
        metrics = QFontMetricsF(painter.font())
        texts: Texts = []
        occupied = -1e9
        for tick in self.ticks:
            width = metrics.horizontalAdvance(tick.text)
            x = plot.left() + (tick.at - low) / (high - low) * plot.width()
            left = min(x - width / 2, plot.right() - width)
            if left >= occupied + 10:
                occupied = left + width
                texts.append((QRectF(left, plot.bottom() + 5, width + 1, _ROW), _LEFT, tick.text))
        nothing = (QPen(Qt.PenStyle.NoPen), plot.bottomLeft(), plot.bottomRight())
        return nothing, [], texts

    def drawPicture(self, painter: QPainter, axis: tuple[QPen, QPointF, QPointF], ticks: Lines, texts: Texts) -> None:
        """Draw the numbers and the title."""
        super().drawPicture(painter, axis, ticks, texts)
        if self._title:
            plot = self._plot()
            painter.setPen(self._title_pen)
            box = QRectF(plot.left(), plot.bottom() + 5 + _ROW, plot.width(), _ROW)
            painter.drawText(box, Qt.AlignmentFlag.AlignCenter, self._title)
