"""The page of curves, which are zoomed and moved along x, and read out by a crosshair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QPointF, QSize, Signal
from PySide6.QtGui import QPainter, QResizeEvent
from PySide6.QtWidgets import QWidget

from clew_gui.charts.curves.chart import Crosshair, CurvesChart, curves_chart
from clew_gui.charts.curves.model import PREDICTED, Ghost, PlotSetup, View, resolve_plots
from clew_gui.charts.curves.scene import Scene, SceneBuilder, has_values
from clew_gui.charts.kit.chart import Chart
from clew_gui.charts.kit.drawing import TextSizes
from clew_gui.charts.kit.frame import Frame
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import Span
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curve_lines import CurveLines
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PlotSpec
from clew_shared.goal_settings import is_for
from clew_shared.journal.events import Predicted
from clew_shared.params import STEPS, ParamSpec

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
