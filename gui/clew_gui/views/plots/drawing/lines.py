"""A drawn line: pyqtgraph's curve, with the pen of its run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPixmap, QPolygonF
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from clew_gui.plotting.arrays import FloatArray
from clew_gui.plotting.axes.clip import drawable
from clew_gui.plotting.curves.scene import Drawn, Scene
from clew_gui.views.charts.painter import polygon
from clew_gui.views.plots.drawing.pixels import Frame, Medium
from clew_gui.views.theme.theme import Theme

RUN_WIDTH: Final = 1.8
LIFTED_WIDTH: Final = 2.2
OTHER_WIDTH: Final = 1.2
_DENSE: Final = 300
"""The number of points above which lines are drawn segment by segment, which looks the same and takes a tenth of the
time; wide raw lines would take seconds, because QPainter looks for places where a stroke crosses itself."""
_UPRIGHT: Final = 1000
"""The number of points above which raw lines are one upright stroke beside the other. Nobody sees antialiasing there,
and it takes five times as long."""
_REACH: Final = 4.0
"""The distance beyond the visible range, as a multiple of it, to which a line is passed on: farther out, coordinates
overflow in the rasteriser."""


@dataclass(frozen=True)
class LineStyle:
    """The style of a line; the width is in logical pixels."""

    colour: str
    width: float = 1.0
    dash: tuple[float, ...] = ()
    opacity: float = 1.0
    smooth: bool = True
    layered: bool = False

    def pen(self, ratio: float) -> QPen:
        """A cosmetic pen: its width counts in device pixels, of which a logical one has ``ratio``."""
        colour = QColor(self.colour)
        if not self.layered:
            colour.setAlphaF(self.opacity)
        return dashed(colour, self.width * ratio, [part * ratio for part in self.dash], cosmetic=True)


def dashed(colour: QColor, width: float, dash: Sequence[float], cosmetic: bool = False) -> QPen:
    """A pen with a dash pattern in pixels; Qt counts in pen widths."""
    pen = QPen(colour, width)
    pen.setCosmetic(cosmetic)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    if dash:
        pen.setDashPattern([part / width for part in dash])
    return pen


def main_line_style(item: Drawn, scene: Scene, theme: Theme, lifted: str) -> LineStyle:
    """The main line of a curve: heavier if its run stands out, thin if many are shown or nothing is smoothed."""
    curve, style = item.curve, theme.curve(item.run.index)
    above = stands_out(item, lifted)
    width = LIFTED_WIDTH if above else RUN_WIDTH
    if not item.headline or (curve.noisy and curve.exact):
        width = OTHER_WIDTH
    if scene.many and not above:
        width = 1.0
    return LineStyle(
        style.colour, width, style.dash, 1.0 if item.headline else 0.6, smooth=width != 1.0 or not scene.many
    )


def raw_line_style(item: Drawn, scene: Scene, theme: Theme, lifted: str) -> LineStyle:
    """The raw values behind the line: plainer where nothing is smoothed, never so that they hide what lies under them.
    Of several, only that of a run that stands out is plain to see."""
    alone = item.headline and (stands_out(item, lifted) or len(scene.runs) == 1)
    opacity = (0.26 if theme.dark else 0.20) * (1.0 if alone else 0.6) * (2.0 if item.curve.exact else 1.0)
    smooth = item.curve.raw_x.size <= _UPRIGHT
    return LineStyle(theme.curve(item.run.index).colour, 1.0, (), opacity, smooth, layered=True)


def stands_out(item: Drawn, lifted: str) -> bool:
    """Whether the run is selected or under the pointer."""
    return item.run.selected or item.run.run_id == lifted


class CurveItem(pg.PlotCurveItem):  # type: ignore[misc]  # pyqtgraph has no types
    """One line. It takes new data only when the points, the ranges or the pen changed.

    A translucent polyline takes QPainter twenty times as long as an opaque one, so on the screen a ``layered`` line is
    painted opaque into a layer of its own, which is kept, and the layer is laid down translucent. In a drawing
    lines are cut at the plot's border and written in pixels, because SVG keeps six digits only.
    """

    def __init__(self, medium: Medium) -> None:
        super().__init__()
        self._vector = medium is Medium.DRAWING
        self._source: tuple[FloatArray, FloatArray] | None = None
        self._frame: Frame | None = None
        self._style: LineStyle | None = None
        self._ratio = 1.0
        self._layer = QPixmap()
        self._layer_key: tuple[object, ...] = ()

    def show_line(self, x: FloatArray, y: FloatArray, frame: Frame, style: LineStyle, ratio: float) -> None:
        """Draw through these points, in axis coordinates."""
        same = self._source is not None and self._source[0] is x and self._source[1] is y and self._frame == frame
        if not same:
            near = drawable(x, y, frame.x, frame.y, 0.0 if self._vector else _REACH)
            self.setData(*near, connect="finite")
            self.setSegmentedLineMode("on" if near[0].size > _DENSE and not style.dash else "off")
            self._source, self._frame = (x, y), frame
        if not same or (style, ratio) != (self._style, self._ratio):
            if (style, ratio) != (self._style, self._ratio):
                self.setPen(style.pen(ratio))
                self.opts["antialias"] = style.smooth
                self._style, self._ratio = style, ratio
            self._layer_key = ()
            self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None) -> None:
        """Draw the line."""
        if self._style is None or self._frame is None:
            return
        if self._vector:
            self._paint_pixels(painter, self._style)
        elif self._style.layered:
            self._paint_layer(painter, self._style.opacity, self._frame)
        else:
            painter.save()
            painter.setClipRect(self._frame.seen(above=1.0))
            super().paint(painter, option, widget)
            painter.restore()

    def _paint_layer(self, painter: QPainter, opacity: float, frame: Frame) -> None:
        ratio = painter.device().devicePixelRatioF()
        if self._layer_key != (frame, ratio):
            self._layer_key = (frame, ratio)
            self._layer = QPixmap((frame.rect.size() * ratio).toSize())
            self._layer.setDevicePixelRatio(ratio)
            self._layer.fill(Qt.GlobalColor.transparent)
            to = QPainter(self._layer)
            to.translate(-frame.rect.topLeft())
            to.setTransform(self.sceneTransform(), combine=True)
            super().paint(to, None, None)
            to.end()
        corner = painter.transform().map(QPointF(frame.x.low, frame.y.high))
        painter.save()
        painter.resetTransform()  # not by an inverse: Qt takes that of a range of 1e150 for singular
        painter.setOpacity(opacity)
        painter.drawPixmap(corner, self._layer)
        painter.restore()

    def _paint_pixels(self, painter: QPainter, style: LineStyle) -> None:
        x, y = self.getData()
        if x is None or not x.size:
            return
        to = painter.transform()
        x, y = to.m11() * x + to.dx(), to.m22() * y + to.dy()
        painter.save()
        painter.resetTransform()
        colour = QColor(style.colour)
        colour.setAlphaF(style.opacity)
        painter.setPen(dashed(colour, style.width, style.dash))
        breaks = np.flatnonzero(np.isnan(x))
        for begin, end in zip([0, *(breaks + 1)], [*breaks, x.size], strict=True):
            painter.drawPolyline(polygon(x[begin:end], y[begin:end]))
        painter.restore()


class Level(pg.InfiniteLine):  # type: ignore[misc]  # pyqtgraph has no types
    """A straight line through the whole plot, at an x (``upright``) or at a value."""

    def __init__(self, at: float, upright: bool, style: LineStyle, ratio: float) -> None:
        super().__init__(at, 90 if upright else 0, style.pen(ratio))
        self._smooth = style.smooth

    def paint(self, painter: QPainter, *args: object) -> None:
        """Draw the line; pyqtgraph leaves the hint as the item before had it."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, self._smooth)
        super().paint(painter, *args)


def swatch(painter: QPainter, box: QRectF, theme: Theme, index: int) -> None:
    """A short piece of a run's line."""
    style = theme.curve(index)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
    painter.setPen(dashed(QColor(style.colour), 2.4, style.dash))
    painter.drawPolyline(QPolygonF([QPointF(box.left(), box.center().y()), QPointF(box.right(), box.center().y())]))
