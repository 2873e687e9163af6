"""The crosshair: whole steps under the pointer or by the keyboard, on a widget of its own over the finished picture."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QWidget

from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.curves.crosshair import Crosshair
from clew_gui.charts.drawing import Drawing
from clew_gui.plotting.axes.frame import Frame
from clew_gui.plotting.curves.readout import Readout
from clew_gui.plotting.curves.scene import Scene
from clew_gui.views.charts.painter import SIZES, paint, paint_ring


def snapped(scene: Scene, x: float) -> float:
    """Moves ``x`` to a whole step if steps are more than half a pixel apart. In axis coordinates."""
    grid = scene.grid
    value = scene.x_value(x)
    if grid.unit.value != "step" or value < 0.5:
        return x
    whole = math.log10(round(value)) if grid.log else float(round(value))
    return min(max(whole, grid.span.low), grid.span.high)


def stepped(scene: Scene, frame: Frame, x: float | None, pixels: float) -> float:
    """Moves from ``x`` by so many pixels, at least to the next step; None begins at the end of the curves."""
    span = scene.grid.span
    if x is None:
        ends = [d.curve.end[0] for plot in scene.plots for d in plot.curves if d.curve.end is not None]
        target = max(ends, default=span.high)
    else:
        move = pixels / frame.box.width * span.size
        if scene.grid.unit.value == "step" and not scene.grid.log:
            move = math.copysign(max(abs(move), 1.0), pixels)
        target = x + move
    return min(max(snapped(scene, target), span.low), span.high)


# --- Overlay ----------------------------------------------------------------------------------------------------------
# The crosshair's own widget: it covers the plots with their finished picture, so that moving it draws no curve.


class Overlay(QWidget):
    """Shows crosshair and read-out, and the ring of the keyboard focus. Opaque: what it covers is not painted again."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._picture = QPixmap()
        self._chart: CurvesChart | None = None
        self._readout: Readout | None = None
        self._ring = False
        self._crosshair = Crosshair()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self.hide()

    def set_picture(self, picture: QPixmap, chart: CurvesChart) -> None:
        """Sets the picture that the crosshair is drawn over."""
        self._picture, self._chart = picture, chart
        self.update()

    def show_readout(self, readout: Readout | None, ring: bool) -> None:
        """Show this over the picture."""
        self._readout, self._ring = readout, ring
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint picture, crosshair and ring."""
        del event
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._picture)
        if self._chart is not None and self._readout is not None:
            drawing = Drawing(self._chart.theme, SIZES)
            self._crosshair.draw(drawing, self._readout, self._chart)
            paint(painter, drawing.items)
        if self._ring and self._chart is not None:
            paint_ring(painter, self.rect(), self._chart.theme.accent)
        painter.end()
