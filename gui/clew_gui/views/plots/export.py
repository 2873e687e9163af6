"""The plots as files: PNG and SVG, with units and labels, larger than the window where that is small."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtGui import QColor, QFontMetricsF, QImage, QPainter

from clew_gui.charts.gutter import gutter_for
from clew_gui.plotting.axes.ticks import XUnit
from clew_gui.plotting.curves.model import View
from clew_gui.plotting.curves.scene import Room, SceneBuilder
from clew_gui.views.charts.chart_widget import SIZES
from clew_gui.views.charts.files import picture, write_png, write_svg
from clew_gui.views.plots.curves.canvas import PlotCanvas
from clew_gui.views.plots.curves.label_painter import LabelPainter
from clew_gui.views.plots.curves.plots_view import PlotsView
from clew_gui.views.plots.drawing.pixels import Medium, stack
from clew_gui.views.plots.kinds import PaintablePlot
from clew_gui.views.theme.theme import Theme, font

_LEAST = QSize(860, 480)
_LEAST_OTHER = QSize(560, 420)
_MOST = QSize(1600, 1200)
_UNITS = {XUnit.STEP: "Step", XUnit.EPOCH: "Epoch", XUnit.IMAGES: "Images", XUnit.SECONDS: "Training time"}


class ExportedPicture:
    """A picture of the canvas, laid out for a file, with another kind of plot ``beside`` it, or instead of a hidden
    canvas. ``size`` is in logical pixels, by default the canvas' own."""

    def __init__(
        self, canvas: PlotCanvas, theme: Theme, size: QSize | None = None, beside: PaintablePlot | None = None
    ) -> None:
        self._curves = size or canvas.size().expandedTo(_LEAST)
        self._other = (beside.size().expandedTo(_LEAST_OTHER) if beside is not None else QSize(0, 0)).boundedTo(_MOST)
        self._beside = beside
        if beside is not None and canvas.isHidden():
            self._curves = QSize(0, 0)
        self._canvas = canvas
        self._theme = theme

    @property
    def size(self) -> QSize:
        """Returns the size in logical pixels: the curves, and to their right the other plot."""
        height = max(self._curves.height(), self._other.height())
        return QSize(self._curves.width() + self._other.width(), height)

    def _label_painter(self) -> LabelPainter:
        view: View = self._canvas.view
        label = _UNITS[view.unit] + (", log scale" if view.log_x else "")
        builder, left, foot = SceneBuilder(), 46.0, 24
        builder.params = self._canvas.params
        empty = self._canvas.scene.empty
        gutter = 0.0 if empty else gutter_for(self._canvas.runs, self._curves.width(), SIZES)
        metrics = QFontMetricsF(font("caption"))
        width, height, count = self._curves.width(), self._curves.height(), len(self._canvas.drawn_setups)
        for _ in range(2):  # the width of the value axis is known once its numbers are
            rects = stack(width, height, count, left, gutter, empty, foot)
            room = Room(round(rects.area.width()), tuple(round(r.height()) for r in rects.plots))
            scene = builder.build(self._canvas.drawn_setups, self._canvas.runs, view, room)
            texts = [tick.text for plot in scene.plots for tick in plot.ticks]
            foot = 42 if scene.notes or scene.legend else 24
            left = max([46.0, *(math.ceil(metrics.horizontalAdvance(text) + 12) for text in texts)])
        return LabelPainter(scene, rects, self._theme, unit_label=label)

    def paint(self, painter: QPainter, medium: Medium, ratio: float = 1.0) -> None:
        """Draw everything; a logical pixel has ``ratio`` device pixels."""
        if self._curves.width():
            ground = PlotsView(medium=medium)
            ground.render_to(painter, self._curves, self._label_painter(), ratio)
            ground.deleteLater()
        if self._beside is not None:
            painter.translate(self._curves.width(), 0)
            self._beside.paint_to(painter, QSize(self._other.width(), self.size.height()), max(ratio, 2.0))

    def image(self, scale: float = 2.0) -> QImage:
        """Returns the picture as pixels, ``scale`` times as many as logical ones in each direction."""

        def paint(painter: QPainter) -> None:
            painter.fillRect(QRect(QPoint(0, 0), self.size), QColor(self._theme.surface))
            self.paint(painter, Medium.PICTURE, ratio=scale)

        return picture(self.size, scale, paint)

    def save_png(self, path: Path, scale: float = 2.0) -> None:
        """Write a PNG; raises ProblemError where that cannot be written."""
        write_png(path, self.image(scale))

    def save_svg(self, path: Path) -> None:
        """Write an SVG; raises ProblemError where that cannot be written."""
        described = self._canvas if self._curves.width() or self._beside is None else self._beside
        dpi, words = self._canvas.logicalDpiX(), described.accessibleDescription()
        write_svg(path, self.size, dpi, "Convergence plots", words, partial(self.paint, medium=Medium.DRAWING))
