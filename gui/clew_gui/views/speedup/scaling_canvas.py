"""Draws the plots of a scaling study, on the screen and into files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from clew_gui.plotting.axes.layout import spread
from clew_gui.plotting.speedup import Mark, PlotLine, ScalingPlot, SpeedupScene
from clew_gui.views.plots.drawing.files import picture, write_png, write_svg
from clew_gui.views.theme.parts import Appearance
from clew_gui.views.theme.theme import FontKind, Theme, font

_FOOT: Final = 24
_TOP: Final = 8
_DOT: Final = 4.5
_WHISKER: Final = 4.0
_NEAR: Final = 12.0
"""A point answers to the pointer within so many pixels."""
_PICTURE: Final = QSize(1000, 460)


class _Area:
    """The place of one plot's axes in a rectangle; turns the plot's coordinates into pixels."""

    def __init__(self, rect: QRectF, plot: ScalingPlot, gutter: float) -> None:
        metrics = QFontMetricsF(font("caption"))
        left = max((metrics.horizontalAdvance(tick.text) for tick in plot.y_ticks), default=0.0) + 12
        self.right = rect.right()
        self.rect = rect.adjusted(left, _TOP, -max(gutter, 8.0), -_FOOT)
        self._plot = plot

    def at(self, x: float, y: float) -> QPointF:
        """The pixel of a point."""
        across = (x - self._plot.x.low) / self._plot.x.size
        up = (y - self._plot.y.low) / self._plot.y.size
        return QPointF(self.rect.left() + across * self.rect.width(), self.rect.bottom() - up * self.rect.height())


def gutter_of(plot: ScalingPlot) -> float:
    """Returns the width for the names of the lines at the right."""
    metrics = QFontMetricsF(font("captionStrong"))
    name = max(metrics.horizontalAdvance(line.name) for line in plot.lines)
    value = max(metrics.horizontalAdvance(line.value) for line in plot.lines)
    return name + value + 46


def pen_of(line: PlotLine, theme: Theme) -> QPen:
    """Returns the pen for a line: each kind differs by its dash as well as by its colour."""
    colour = {"ideal": theme.text3, "measured": theme.curve(0).colour, "reference": theme.curve(1).colour}
    pen = QPen(QColor(colour.get(line.kind, theme.curve(3).colour)), 1.2 if line.kind == "ideal" else 1.8)
    dash = {"ideal": (2.5, 2.5), "reference": (5.0, 3.0), "forecast": (1.5, 2.5)}.get(line.kind)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if dash is not None:
        pen.setDashPattern(list(dash))
    return pen


def paint_plot(painter: QPainter, rect: QRectF, plot: ScalingPlot, theme: Theme, *, names: bool) -> None:
    """Draw one plot; with ``names`` the lines are named at its right."""
    area = _Area(rect, plot, gutter_of(plot) if names else 0.0)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_axes(painter, area, plot, theme)
    for line in plot.lines:
        painter.setPen(pen_of(line, theme))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(QPolygonF([area.at(x, y) for x, y in line.path]))
    for line in plot.lines:
        for mark in line.marks:
            _paint_mark(painter, area, line, mark, theme)
    if names:
        _paint_names(painter, area, plot.lines, theme)


def _paint_axes(painter: QPainter, area: _Area, plot: ScalingPlot, theme: Theme) -> None:
    painter.setFont(font("caption"))
    height = QFontMetricsF(painter.font()).height()
    for tick in plot.y_ticks:
        y = area.at(plot.x.low, tick.at).y()
        painter.setPen(QPen(QColor(theme.grid), 1))
        painter.drawLine(QPointF(area.rect.left(), y), QPointF(area.rect.right(), y))
        painter.setPen(QColor(theme.text3))
        box = QRectF(area.rect.left() - 108, y - height, 100, 2 * height)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, tick.text)
    painter.setPen(QPen(QColor(theme.line), 1))
    painter.drawLine(area.rect.bottomLeft(), area.rect.bottomRight())
    painter.setPen(QColor(theme.text3))
    for tick in plot.x_ticks:
        x = area.at(tick.at, plot.y.low).x()
        box = QRectF(x - 40, area.rect.bottom() + 5, 80, height)
        painter.drawText(box, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop, tick.text)


def _paint_mark(painter: QPainter, area: _Area, line: PlotLine, mark: Mark, theme: Theme) -> None:
    colour, place = pen_of(line, theme).color(), area.at(mark.x, mark.y)
    if mark.high > mark.low:
        low, high = area.at(mark.x, mark.low), area.at(mark.x, mark.high)
        painter.setPen(QPen(colour, 1.8))
        painter.drawLine(low, high)
        for end in (low, high):
            painter.drawLine(QPointF(end.x() - _WHISKER, end.y()), QPointF(end.x() + _WHISKER, end.y()))
    painter.setPen(QPen(QColor(theme.surface), 1.5))
    painter.setBrush(colour)
    if line.kind == "reference":
        painter.drawRect(QRectF(place.x() - 4, place.y() - 4, 8, 8))
    else:
        painter.drawEllipse(place, _DOT + 0.5, _DOT + 0.5)


def _paint_names(painter: QPainter, area: _Area, lines: Sequence[PlotLine], theme: Theme) -> None:
    """The name and last value of each line, next to its end, with a short line from there."""
    ends = [area.at(*line.path[-1]) for line in lines]
    height = QFontMetricsF(font("caption")).height()
    wanted = [end.y() for end in ends]
    places = spread(wanted, height + 3, area.rect.top(), area.rect.bottom() - height / 2)
    for line, end, y in zip(lines, ends, places, strict=True):
        measured = line.kind == "measured"
        pen = pen_of(line, theme)
        pen.setStyle(Qt.PenStyle.SolidLine)
        pen.setWidthF(1.0)
        painter.setPen(pen)
        start = area.rect.right() + 10
        painter.drawLine(QPointF(max(end.x() + 9, area.rect.right() - 4), end.y()), QPointF(start, y))
        painter.setFont(font("captionStrong" if measured else "caption"))
        painter.setPen(QColor(theme.text if measured else theme.text2))
        box = QRectF(start + 6, y - height, area.right - start - 10, 2 * height)
        painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, line.name)
        painter.drawText(box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, line.value)


class ScalingCanvas(QWidget):
    """Draws one plot of a study. A point under the pointer says its value; the words say all points."""

    def __init__(self, appearance: Appearance, *, names: bool) -> None:
        super().__init__()
        self._appearance, self._names = appearance, names
        self._plot: ScalingPlot | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(150)

    def show_plot(self, plot: ScalingPlot) -> None:
        """Show another plot."""
        if plot != self._plot:
            self._plot = plot
            self.setAccessibleName(plot.title)
            measured = [line for line in plot.lines if line.kind == "measured"]
            self.setAccessibleDescription("; ".join(text for line in measured for text in line.words))
            self.update()

    def retheme(self) -> None:
        """Paint again."""
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paints the plot in the available space."""
        if self._plot is not None:
            painter = QPainter(self)
            paint_plot(painter, QRectF(self.rect()), self._plot, self._appearance.theme, names=self._names)
            painter.end()

    def words_at(self, place: QPointF) -> str:
        """Describes the nearest point; empty if none is near."""
        if self._plot is None:
            return ""
        area = _Area(QRectF(self.rect()), self._plot, gutter_of(self._plot) if self._names else 0.0)
        points = [
            ((area.at(mark.x, mark.y) - place).manhattanLength(), f"{line.name}: {text}")
            for line in reversed(self._plot.lines)
            for mark, text in zip(line.marks, line.words, strict=True)
        ]
        near = min(points, default=(_NEAR + 1, ""), key=lambda point: point[0])
        return near[1] if near[0] <= _NEAR else ""

    def event(self, event: QEvent) -> bool:
        """A tooltip at each point."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words_at(QPointF(event.pos())), self)
            return True
        return super().event(event)


# --- Files ------------------------------------------------------------------------------------------------------------


def _paint_picture(painter: QPainter, scene: SpeedupScene, title: str, theme: Theme) -> None:
    """Paints the sentence above both plots, side by side as in the window."""
    width, height = _PICTURE.width(), _PICTURE.height()
    painter.fillRect(QRect(0, 0, width, height), QColor(theme.surface))
    _text(painter, QRectF(16, 10, width - 32, 26), title, "subtitle", theme.text)
    _text(painter, QRectF(16, 36, width - 32, 22), scene.conclusion.sentence, "strong", theme.text)
    _text(painter, QRectF(16, 58, width - 32, 38), scene.conclusion.detail, "body", theme.text2)
    share = 0.57
    for plot, left, right in zip(scene.plots, (16.0, width * share + 16), (width * share, width - 16.0), strict=True):
        _text(painter, QRectF(left, 104, right - left, 22), f"{plot.title}, {plot.caption}", "strong", theme.text)
        paint_plot(painter, QRectF(left, 130, right - left, height - 142), plot, theme, names=left < width / 2)


def _text(painter: QPainter, box: QRectF, text: str, kind: FontKind, colour: str) -> None:
    painter.setFont(font(kind))
    painter.setPen(QColor(colour))
    painter.drawText(box, Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap, text)


def save_png(path: Path, scene: SpeedupScene, title: str, theme: Theme, scale: float = 2.0) -> None:
    """Write the plots as pixels. Raises ``ProblemError`` where that cannot be done."""
    write_png(path, picture(_PICTURE, scale, lambda painter: _paint_picture(painter, scene, title, theme)))


def save_svg(path: Path, scene: SpeedupScene, title: str, theme: Theme, dpi: int) -> None:
    """Write the plots as a drawing; ``dpi`` is that of the screen. Raises ``ProblemError`` where it cannot be done."""

    def paint(painter: QPainter) -> None:
        _paint_picture(painter, scene, title, theme)

    write_svg(path, _PICTURE, dpi, title, scene.conclusion.sentence, paint)
