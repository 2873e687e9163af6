"""The page of curves, which are zoomed and moved along x, and read out by a crosshair. pyqtgraph draws the lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyqtgraph as pg
from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPen, QPixmap, QResizeEvent
from PySide6.QtWidgets import QGraphicsScene, QStyleOptionGraphicsItem, QWidget

from clew_gui.charts.curves.chart import Crosshair, CurvesChart, curves_chart
from clew_gui.charts.curves.model import PREDICTED, Ghost, PlotSetup, View, resolve_plots
from clew_gui.charts.curves.scene import Scene, SceneBuilder, has_values
from clew_gui.charts.kit.clip import drawable
from clew_gui.charts.kit.drawing import Chart, Stroke, TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box, FloatArray
from clew_gui.charts.kit.ticks import Span
from clew_gui.views.charts.painter import SIZES, pen_of, rect_of
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance
from clew_shared.base.harmless import for_tooltip
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PlotSpec
from clew_shared.goal_settings import is_for
from clew_shared.journal.events import Predicted
from clew_shared.params import STEPS, ParamSpec

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
        self.plots: list[Plot] = []
        """The plots from top to bottom; the last ones are hidden where others have more."""

    def paint(self, painter: QPainter, chart: CurvesChart) -> None:
        """Paint all lines of a chart."""
        ratio, count = painter.device().devicePixelRatioF(), len(chart.frames)
        while len(self.plots) < count:
            self.plots.append(Plot())
            self._scene.addItem(self.plots[-1].box)
        for index, plot in enumerate(self.plots):
            plot.box.setVisible(index < count)
            if index < count:
                plot.show_plot(chart, index, ratio)
        area = QRectF(0, 0, chart.stack.width, chart.stack.height)
        self._scene.prepareForPaint()
        self._scene.render(painter, area, area)


_LEAST_BOX: Final = 10.0
"""The least size of a box in pixels: a narrower one says nothing about that axis."""


class CurvesView(PlotPage):
    """Shows the curves of runs. Nothing is drawn, and no timer runs, while nothing changed or nobody can see it."""

    name = "Convergence plots"
    units = has_log = every_step = True
    switches = (("Logarithmic x axis", "log_x"), ("All of y", "whole"))
    reset_text = "Reset the zoom\tHome"
    view_changed = Signal(object)
    framed = Signal()
    """A new frame was made."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._builder = SceneBuilder()
        self._crosshair = Crosshair()
        self.setups: tuple[PlotSetup, ...] = ()
        """The plots of the stack."""
        self._card: ExerciseCard | None = None
        self._specs: tuple[tuple[PlotSpec, ...], tuple[Goal, ...], tuple[MetricSpec, ...]] = ((), (), ())
        self._prediction: Predicted | None = None
        self._corner: QWidget | None = None
        self.lines = CurveLines(self)
        self.zoomed.connect(self._show_frame)
        self.boxed.connect(self._zoom_into)
        self.double_clicked.connect(self.reset_zoom)
        self.pointed.connect(self._redraw_soon)  # a run whose label is under the pointer stands out
        self.pointed.connect(lambda name: self.setToolTip(for_tooltip(self._label_of(name))))
        self.show_chart(self._lay_out)

    # ------------------------------------------------------------ what is shown
    def show_card(self, card: ExerciseCard) -> None:
        """Show the plots of an exercise, with its goals and expected curves."""
        self._card = card
        steps = next((spec.default for spec in card.params if spec.name == STEPS), None)
        self._builder.planned, self._builder.params = float(steps) if isinstance(steps, int) else 1000.0, card.params
        self.set_plots(card.plots, card.goals, card.metrics)

    def set_plots(
        self, plots: Sequence[PlotSpec], goals: Sequence[Goal] = (), metrics: Sequence[MetricSpec] = ()
    ) -> None:
        """Show these plots. ``metrics`` have the labels, and say whether higher or lower is better."""
        self._specs = (tuple(plots), tuple(goals), tuple(metrics))
        self._resolve()

    def show_goals(self, data: set[str]) -> None:
        """Shows only the goals that apply to the shown runs' data; all goals if no run is shown."""
        if self._card is not None:
            goals = tuple(goal for goal in self._card.goals if not data or any(is_for(goal, name) for name in data))
            if goals != self._specs[1]:
                self.set_plots(self._card.plots, goals, self._card.metrics)

    def show_prediction(self, drawn: Predicted | None) -> None:
        """Shows what a person expected before the selected run."""
        if drawn != self._prediction:
            self._prediction = drawn
            self._resolve()

    def _resolve(self) -> None:
        found = resolve_plots(*self._specs)
        self.setups = tuple(replace(setup, ghost=self._ghost(setup)) for setup in found)
        self.touch()

    def _ghost(self, setup: PlotSetup) -> Ghost | None:
        drawn = self._prediction
        if drawn is None or not drawn.steps or drawn.metric not in setup.metrics:
            return setup.ghost
        return Ghost(tuple(zip(drawn.steps, drawn.values, strict=False)), PREDICTED, stays=True)

    def _label_of(self, name: str) -> str:
        return next((run.label for run in self.runs if run.run_id == name), "")

    @property
    def metrics(self) -> Sequence[str]:
        """Those of the plots."""
        return [metric for setup in self.setups for metric in setup.metrics]

    def set_corner(self, widget: QWidget) -> None:
        """Keeps a small widget where the axes meet, while a part of the values is out of sight or all are asked for."""
        self._corner = widget
        widget.setParent(self)

    @property
    def params(self) -> Sequence[ParamSpec]:
        """The hyperparameters that a run may change while it trains."""
        return self._builder.params

    def set_view(self, view: View) -> None:
        """Show the curves in another way. A zoom ends if the unit or the scale of x changes."""
        if view == self.view:
            return
        if (view.unit, view.log_x) != (self.view.unit, self.view.log_x):
            view = replace(view, zoom=None)
            self._read_at(None)
        if view.log_y != self.view.log_y:
            view = replace(view, y_zoom=())
        self.view = view
        self._redraw_soon()
        self.view_changed.emit(view)

    def _redraw_soon(self) -> None:
        """Draw again when the present events are done."""
        self.touch()
        if self.isVisible():
            self._timer.start(0)

    # ------------------------------------------------------------ frames
    @property
    def chart(self) -> CurvesChart:
        """The picture's geometry, up to date."""
        found = super().chart
        return found if isinstance(found, CurvesChart) else self._lay_out(Box(0, 0, 0, 0), SIZES)

    @property
    def drawn(self) -> CurvesChart | None:
        """The picture as it was drawn last; None before the first one."""
        return self._chart if isinstance(self._chart, CurvesChart) else None

    @property
    def scene(self) -> Scene:
        """The scene in the picture, up to date."""
        return self.chart.scene

    def redraw(self) -> None:
        """Make a new frame."""
        super().redraw()
        if not self.isVisible():
            return
        if self._corner is not None:
            self._corner.move(0, round(self.chart.stack.area.bottom) + 4)
            self._corner.setVisible(self.view.whole or any(plot.cut for plot in self.scene.plots))
        self.framed.emit()

    def _lay_out(self, box: Box, sizes: TextSizes) -> CurvesChart:
        shown = self.drawn_setups, self.runs, self.view, (box.width, box.height), self._appearance.theme, sizes
        return curves_chart(self._builder, *shown, lifted=self._lifted, crosshair=self._crosshair)

    @property
    def drawn_setups(self) -> tuple[PlotSetup, ...]:
        """The plots that are drawn: while nothing has run, those that have a curve to expect, if any has."""
        expected = tuple(setup for setup in self.setups if setup.ghost is not None)
        return expected if expected and not has_values(self.setups, self.runs) else self.setups

    def _paint_ground(self, painter: QPainter, chart: Chart) -> None:
        if isinstance(chart, CurvesChart):
            self._paint_shapes(painter, chart.draw_ground)
            self.lines.paint(painter, chart)
            self._paint_shapes(painter, chart.draw_words)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Divide the room again."""
        super().resizeEvent(event)
        self.redraw()

    def sizeHint(self) -> QSize:
        """A comfortable size."""
        return QSize(860, 200 * max(len(self.setups), 1) + 40)

    def minimumSizeHint(self) -> QSize:
        """The least size in which the plots can be read."""
        return QSize(360, 84 * max(len(self.setups), 1) + 32)

    # ------------------------------------------------------------ zoom
    def _show_frame(self, frame: Frame | None) -> None:
        if frame is None:
            self.reset_zoom()
        else:
            self.set_view(replace(self.view, zoom=frame.x if frame.x != self.scene.full else None))

    def reset_zoom(self) -> None:
        """Show all of x, and the values that are worth seeing."""
        self.set_view(replace(self.view, zoom=None, y_zoom=()))

    def _zoom_into(self, start: QPointF, end: QPointF) -> None:
        """Show what is in the box: along an axis on which it is a stroke everything stays in sight."""
        frames = enumerate(self.chart.frames)
        number, frame = next(
            ((k, one) for k, one in frames if one.box.inset(-2, -2, -2, -2).holds(start.x(), start.y())), (-1, None)
        )
        if frame is None:
            return
        view = self.view
        if abs(end.x() - start.x()) >= _LEAST_BOX:
            low, high = sorted(min(max(frame.x_at(at.x()), frame.x.low), frame.x.high) for at in (start, end))
            view = replace(view, zoom=Span(low, high))
        if abs(end.y() - start.y()) >= _LEAST_BOX:
            low, high = sorted(min(max(frame.y_at(at.y()), frame.y.low), frame.y.high) for at in (start, end))
            plot = self.scene.plots[number].setup.id
            view = replace(view, y_zoom=(*(one for one in view.y_zoom if one[0] != plot), (plot, Span(low, high))))
        self.set_view(view)
