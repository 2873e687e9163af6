"""The lines of curves: pyqtgraph's view boxes and curves, which are kept from frame to frame."""

from __future__ import annotations

from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QObject, QPointF, QRectF, Qt
from PySide6.QtGui import QPainter, QPen, QPixmap
from PySide6.QtWidgets import QGraphicsScene, QStyleOptionGraphicsItem, QWidget

from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.kit.clip import drawable
from clew_gui.charts.kit.drawing import Stroke
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import FloatArray
from clew_gui.views.charts.painter import pen_of, rect_of

_DENSE: Final = 300
"""The number of points above which lines are drawn segment by segment, which looks the same and takes a tenth of the
time; wide raw lines would take seconds, because QPainter looks for places where a stroke crosses itself."""
_REST_Z: Final = 1000
_LIVE_Z: Final = 2000
_REACH: Final = 4.0
"""The distance beyond the visible range, as a multiple of it, to which a line is passed on: farther out, coordinates
overflow in the rasteriser."""


class CurveItem(pg.PlotCurveItem):  # type: ignore[misc]  # pyqtgraph has no types
    """One line. It takes new data only when the points, the ranges or the pen changed.

    A translucent polyline takes QPainter twenty times as long as an opaque one, so a ``layered`` line is painted opaque
    into a layer of its own, which is kept, and the layer is laid down translucent.
    """

    def __init__(self, layered: bool) -> None:
        super().__init__()
        self._layered = layered
        self._source: tuple[FloatArray, FloatArray] | None = None
        self._frame: Frame | None = None
        self._stroke: Stroke | None = None
        self._ratio = 1.0
        self._layer = QPixmap()
        self._layer_key: tuple[object, ...] = ()

    def show_line(self, x: FloatArray, y: FloatArray, frame: Frame, stroke: Stroke, ratio: float) -> None:
        """Draw through these points, in axis coordinates; a logical pixel has ``ratio`` device pixels."""
        same = self._source is not None and self._source[0] is x and self._source[1] is y and self._frame == frame
        if not same:
            near = drawable(x, y, frame.x, frame.y, _REACH)
            self.setData(*near, connect="finite")
            self.setSegmentedLineMode("on" if near[0].size > _DENSE and not stroke.dash else "off")
            self._source, self._frame = (x, y), frame
        if not same or (stroke, ratio) != (self._stroke, self._ratio):
            if (stroke, ratio) != (self._stroke, self._ratio):
                self.setPen(_cosmetic(stroke, ratio, opaque=self._layered))
                self.opts["antialias"] = not stroke.crisp
                self._stroke, self._ratio = stroke, ratio
            self._layer_key = ()
            self.update()

    def paint(self, painter: QPainter, option: QStyleOptionGraphicsItem, widget: QWidget | None) -> None:
        """Draw the line."""
        if self._stroke is None or self._frame is None:
            return
        if self._layered:
            self._paint_layer(painter, self._stroke.opacity, self._frame)
        else:
            painter.save()
            painter.setClipRect(_seen(self._frame, above=1.0))
            super().paint(painter, option, widget)
            painter.restore()

    def _paint_layer(self, painter: QPainter, opacity: float, frame: Frame) -> None:
        ratio = painter.device().devicePixelRatioF()
        if self._layer_key != (frame, ratio):
            self._layer_key = (frame, ratio)
            rect = rect_of(frame.box)
            self._layer = QPixmap((rect.size() * ratio).toSize())
            self._layer.setDevicePixelRatio(ratio)
            self._layer.fill(Qt.GlobalColor.transparent)
            to = QPainter(self._layer)
            to.translate(-rect.topLeft())
            to.setTransform(self.sceneTransform(), combine=True)
            super().paint(to, None, None)
            to.end()
        corner = painter.transform().map(QPointF(frame.x.low, frame.y.high))
        painter.save()
        painter.resetTransform()  # not by an inverse: Qt takes that of a range of 1e150 for singular
        painter.setOpacity(opacity)
        painter.drawPixmap(corner, self._layer)
        painter.restore()


def _cosmetic(stroke: Stroke, ratio: float, opaque: bool) -> QPen:
    """A pen whose width counts in device pixels, also where the axes stretch what is drawn."""
    dash = tuple(part * ratio for part in stroke.dash)
    pen = pen_of(Stroke(stroke.colour, stroke.width * ratio, dash, 1.0 if opaque else stroke.opacity))
    pen.setCosmetic(True)
    return pen


def _seen(frame: Frame, above: float) -> QRectF:
    """The visible ranges as a rectangle of axis coordinates, larger by ``above`` pixels at top and bottom."""
    more = above * frame.y.size / max(frame.box.height, 1.0)
    return QRectF(frame.x.low, frame.y.low - more, frame.x.size, frame.y.size + 2 * more)


class Plot:
    """View box and lines of one plot."""

    def __init__(self) -> None:
        self.box = pg.ViewBox(enableMenu=False, enableMouse=False, defaultPadding=0.0)
        self.box.disableAutoRange()
        # Lines clip themselves: a mark at the border is to be seen whole.
        self.box.setFlag(self.box.GraphicsItemFlag.ItemClipsChildrenToShape, False)
        self._lines: dict[tuple[str, ...], CurveItem] = {}

    def show_plot(self, chart: CurvesChart, index: int, ratio: float) -> None:
        """Show plot number ``index`` of a chart; a logical pixel has ``ratio`` device pixels."""
        frame = chart.frames[index]
        self.box.setGeometry(rect_of(frame.box))
        self.box.setRange(xRange=(frame.x.low, frame.x.high), yRange=(frame.y.low, frame.y.high), padding=0)
        wanted = {line.key: line for line in chart.lines(index)}
        for gone in self._lines.keys() - wanted.keys():
            self.box.removeItem(self._lines.pop(gone))
        for order, (name, line) in enumerate(wanted.items()):
            item = self._lines.get(name)
            if item is None:
                item = self._lines[name] = CurveItem(layered=line.raw)
                self.box.addItem(item, ignoreBounds=True)
            item.setZValue(order + (0 if line.raw else _LIVE_Z if line.live else _REST_Z))
            item.show_line(line.x, line.y, frame, line.stroke, ratio)


class CurveLines:
    """Paints the lines of a chart through pyqtgraph's scene."""

    def __init__(self, parent: QObject) -> None:
        self._scene = pg.GraphicsScene(parent=parent)
        # An index of places would keep pointers to removed items, since pyqtgraph's change bounds without a word; few
        # items need none.
        self._scene.setItemIndexMethod(QGraphicsScene.ItemIndexMethod.NoIndex)
        self._plots: list[Plot] = []
        self.count = 0
        """The number of plots that are shown."""

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The plots that are shown, from top to bottom."""
        return tuple(self._plots[: self.count])

    def paint(self, painter: QPainter, chart: CurvesChart) -> None:
        """Paint all lines of a chart."""
        ratio, self.count = painter.device().devicePixelRatioF(), len(chart.frames)
        while len(self._plots) < self.count:
            self._plots.append(Plot())
            self._scene.addItem(self._plots[-1].box)
        for index, plot in enumerate(self._plots):
            plot.box.setVisible(index < self.count)
            if index < self.count:
                plot.show_plot(chart, index, ratio)
        area = QRectF(0, 0, chart.stack.width, chart.stack.height)
        self._scene.prepareForPaint()
        self._scene.render(painter, area, area)
