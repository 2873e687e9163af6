"""Paints the shapes of a chart with Qt, and measures text in the window's fonts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QImage,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QApplication
from shiboken6 import VoidPtr

from clew_gui.base.tokens import FontKind
from clew_gui.charts.kit.drawing import Group, Item, Marks, Path, Raster, Rectangle, Stroke, Words, corners
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.views.theme.theme import alpha, font

_NO_PEN: Final = QPen(Qt.PenStyle.NoPen)
_PARTS: Final = {"left": 0.0, "middle": 0.5, "right": 1.0}
_KEPT: Final = 4096
"""The largest number of texts whose widths are kept."""
_HALO: Final = 3.5
"""Pixels of the ground around a word that is over a chart."""


class WindowSizes:
    """Text as wide as the window's fonts draw it. The plots ask for the same in every frame, so answers are kept."""

    def __init__(self) -> None:
        self._widths: dict[tuple[str, FontKind], float] = {}
        self._fonts: dict[FontKind, tuple[QFont, QFontMetricsF]] = {}
        self._application = QFont()

    def font(self, kind: FontKind) -> tuple[QFont, QFontMetricsF]:
        """A font with its measures. Everything is forgotten when the application's font changes."""
        application = QApplication.font()
        if application != self._application or len(self._widths) > _KEPT:
            self._widths.clear()
            self._fonts.clear()
            self._application = application
        if kind not in self._fonts:
            made = font(kind)
            self._fonts[kind] = made, QFontMetricsF(made)
        return self._fonts[kind]

    def width(self, text: str, kind: FontKind = "caption") -> float:
        """Pixels of a line of text."""
        _, metrics = self.font(kind)
        found = self._widths.get((text, kind))
        if found is None:
            found = self._widths[text, kind] = metrics.horizontalAdvance(text)
        return found

    def height(self, kind: FontKind = "caption") -> float:
        """Pixels of a line from the highest letter to the lowest."""
        return self.font(kind)[1].height()

    def size(self, kind: FontKind = "caption") -> float:
        """The font's size in pixels of the screen."""
        return font(kind).pointSizeF() * QGuiApplication.primaryScreen().logicalDotsPerInch() / 72


SIZES: Final = WindowSizes()
"""The sizes of all text in windows and in files."""


def rect_of(box: Box) -> QRectF:
    """Qt's rectangle of a box."""
    return QRectF(box.x, box.y, box.width, box.height)


def paint(painter: QPainter, items: Sequence[Item]) -> None:
    """Paints shapes in their order; the painter's transformation and clip stay."""
    for item in items:
        match item:
            case Path():
                _paint_path(painter, item)
            case Rectangle():
                _paint_rectangle(painter, item)
            case Marks():
                _paint_marks(painter, item)
            case Words():
                _paint_words(painter, item)
            case Raster():
                painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, item.smooth)
                painter.drawImage(rect_of(item.box), image_of(item.pixels))
            case Group():
                painter.save()
                painter.translate(*item.shift)
                if item.clip is not None:
                    painter.setClipRect(rect_of(item.clip), Qt.ClipOperation.IntersectClip)
                paint(painter, item.items)
                painter.restore()


def paint_ring(painter: QPainter, rect: QRect, colour: str) -> None:
    """The ring around a widget that has the keyboard."""
    _smooth(painter, True)
    painter.setPen(QPen(QColor(colour), 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(rect.adjusted(1, 1, -1, -1), 6, 6)


def pen_of(stroke: Stroke | None) -> QPen:
    """Qt's pen for a stroke."""
    if stroke is None:
        return _NO_PEN
    pen = QPen(alpha(stroke.colour, stroke.opacity), stroke.width)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    if stroke.dash:
        pen.setDashPattern([part / stroke.width for part in stroke.dash])
        pen.setDashOffset(stroke.dashed / stroke.width)
    return pen


def image_of(pixels: npt.NDArray[np.uint8]) -> QImage:
    """Qt's image of bytes: rows, columns, and one channel (grey) or three."""
    height, width, channels = pixels.shape
    form = QImage.Format.Format_Grayscale8 if channels == 1 else QImage.Format.Format_RGB888
    return QImage(np.ascontiguousarray(pixels).tobytes(), width, height, width * channels, form).copy()


def _smooth(painter: QPainter, smooth: bool) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, smooth)


def _paint_path(painter: QPainter, item: Path) -> None:
    _smooth(painter, item.stroke is None or not item.stroke.crisp)
    painter.setPen(pen_of(item.stroke))
    if item.fill:
        painter.setBrush(alpha(item.fill, item.opacity))
        painter.drawPolygon(polygon(item.x, item.y))
        painter.setBrush(Qt.BrushStyle.NoBrush)
    else:
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPolyline(polygon(item.x, item.y))


def _paint_rectangle(painter: QPainter, item: Rectangle) -> None:
    _smooth(painter, item.smooth)
    painter.setPen(pen_of(item.edge))
    painter.setBrush(alpha(item.fill, item.opacity) if item.fill else Qt.BrushStyle.NoBrush)
    if item.radius:
        painter.drawRoundedRect(rect_of(item.box), item.radius, item.radius)
    else:
        painter.drawRect(rect_of(item.box))
    painter.setBrush(Qt.BrushStyle.NoBrush)


def _paint_marks(painter: QPainter, item: Marks) -> None:
    _smooth(painter, True)
    colour = alpha(item.fill, item.opacity) if item.fill else QColor(Qt.GlobalColor.transparent)
    if item.edge is None and item.shape == "dot":  # one call for thousands of points
        painter.setPen(QPen(colour, item.size, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawPoints(polygon(item.x, item.y))
        return
    painter.setPen(pen_of(item.edge))
    painter.setBrush(colour)
    half, outline = 0.5 * item.size, item.size * np.array(corners(item.shape)).reshape(-1, 2)
    for x, y in zip(item.x.tolist(), item.y.tolist(), strict=True):
        if item.shape == "dot":
            painter.drawEllipse(QPointF(x, y), half, half)
        else:
            painter.drawPolygon(polygon(x + outline[:, 0], y + outline[:, 1]))
    painter.setBrush(Qt.BrushStyle.NoBrush)


def _paint_words(painter: QPainter, item: Words) -> None:
    face, metrics = SIZES.font(item.kind)
    left = _PARTS[item.across] * SIZES.width(item.text, item.kind)
    match item.down:
        case "top":
            base = metrics.ascent()
        case "middle":
            base = 0.5 * (metrics.ascent() - metrics.descent())
        case "bottom":
            base = -metrics.descent()
    if item.turned:
        painter.save()
        painter.translate(item.x, item.y)
        painter.rotate(-90)
        _write(painter, QPointF(-left, base), face, item)
        painter.restore()
    else:
        _write(painter, QPointF(item.x - left, item.y + base), face, item)


def _write(painter: QPainter, at: QPointF, face: QFont, item: Words) -> None:
    if item.halo:
        path = QPainterPath()
        path.addText(at, face, item.text)
        pen = QPen(QColor(item.halo), _HALO)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        _smooth(painter, True)
        painter.strokePath(path, pen)
        painter.fillPath(path, QColor(item.colour))
    else:
        painter.setFont(face)
        painter.setPen(QColor(item.colour))
        painter.drawText(at, item.text)


def polygon(x: FloatArray, y: FloatArray) -> QPolygonF:
    """A polyline of pixels, filled through its memory: a Python loop over points would take longer than painting."""
    result = QPolygonF()
    if not x.size:
        return result
    result.resize(x.size)
    pointer: Any = VoidPtr  # its type information knows neither the size nor that data() gives an address
    memory = pointer(result.data(), x.size * 16, True)
    points: npt.NDArray[np.float64] = np.frombuffer(memory, np.float64).reshape(-1, 2)
    points[:, 0] = x
    points[:, 1] = y
    return result
