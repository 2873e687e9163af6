"""The widget that shows the plots: refresh, zoom and pan, crosshair by mouse and by keyboard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from PySide6.QtCore import QElapsedTimer, QPointF, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from clew_gui.charts.axes import LEFT, value_room
from clew_gui.charts.curves.chart import CurvesChart
from clew_gui.charts.curves.layout import Stack, stack
from clew_gui.charts.gutter import gutter_for
from clew_gui.plotting.axes.ticks import Span, panned, zoomed
from clew_gui.plotting.curves.model import PlotSetup, RunStyle, View
from clew_gui.plotting.curves.readout import Readout, read
from clew_gui.plotting.curves.scene import Room, Scene, SceneBuilder, has_values
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curves.crosshair import Overlay, snapped, stepped
from clew_gui.views.plots.curves.plots_view import PlotsView
from clew_gui.views.plots.drawn_widget import REFRESH_MS, DrawnWidget
from clew_gui.views.theme.parts import Appearance
from clew_shared.params import ParamSpec

_NOTE: Final = 18.0
_LEAST_BOX: Final = 10.0
"""The least size of a box in pixels: a narrower one says nothing about that axis."""


class PlotCanvas(DrawnWidget):
    """Shows the curves of runs. Nothing is drawn, and no timer runs, while nothing changed or nobody can see it."""

    run_hovered = Signal(str)
    run_clicked = Signal(str)
    view_changed = Signal(object)
    framed = Signal()
    """A new frame was made."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__("Convergence plots", appearance, parent)
        self._builder = SceneBuilder()
        self._setups: tuple[PlotSetup, ...] = ()
        self._view = View()
        self._left = LEFT
        self._corner: QWidget | None = None
        self._dirty = True
        self._chart: CurvesChart | None = None
        self._cross: float | None = None
        self._by_key = False
        self._lifted = ""
        self._dragging = False
        self._uncovered = False
        self.ground = PlotsView(self, before_paint=self._just_in_time)
        self._overlay = Overlay(self)
        self._frame = QElapsedTimer()
        self._connect()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def _connect(self) -> None:
        ground = self.ground
        ground.zoom_asked.connect(self.zoom_by)
        ground.pan_asked.connect(self.pan_by)
        ground.dragged.connect(self._drag)
        ground.drag_ended.connect(self._end_drag)
        ground.boxed.connect(self._zoom_into)
        ground.double_clicked.connect(self.reset_zoom)
        ground.clicked.connect(self._click)
        ground.pointed.connect(self._point)
        ground.left.connect(self._leave)

    # ------------------------------------------------------------ what is shown
    @property
    def view(self) -> View:
        """Returns how the curves are shown."""
        return self._view

    @property
    def runs(self) -> tuple[RunStyle, ...]:
        """The runs shown."""
        return self._runs

    @property
    def setups(self) -> tuple[PlotSetup, ...]:
        """The plots of the stack."""
        return self._setups

    def set_setups(self, setups: Sequence[PlotSetup]) -> None:
        """Show these plots."""
        self._setups = tuple(setups)
        self.touch()

    def set_corner(self, widget: QWidget) -> None:
        """Keeps a small widget where the axes meet, while a part of the values is out of sight or all are asked for."""
        self._corner = widget
        widget.setParent(self)

    @property
    def params(self) -> Sequence[ParamSpec]:
        """The hyperparameters that a run may change while it trains."""
        return self._builder.params

    def set_exercise(self, planned: float, params: Sequence[ParamSpec]) -> None:
        """Sets the steps on the axis before any run has values, and the hyperparameters."""
        self._builder.planned, self._builder.params = planned, params
        self.touch()

    def set_view(self, view: View) -> None:
        """Show the curves in another way. A zoom ends if the unit or the scale of x changes."""
        if view == self._view:
            return
        if (view.unit, view.log_x) != (self._view.unit, self._view.log_x):
            view = replace(view, zoom=None)
            self._cross = None
        if view.log_y != self._view.log_y:
            view = replace(view, y_zoom=())
        self._view = view
        self.ground.set_pans(view.zoom is not None)
        self._redraw()
        self.view_changed.emit(view)

    def touch(self) -> None:
        """Say that something to be drawn has changed; the next frame follows within ``REFRESH_MS`` when visible."""
        self._dirty = True
        if self.isVisible() and not self._timer.isActive():
            since = self._frame.elapsed() if self._frame.isValid() else REFRESH_MS
            self._timer.start(max(0, REFRESH_MS - since))  # the first change after a quiet time is drawn at once

    def flush(self) -> None:
        """Bring the picture up to date now, visible or not."""
        if self._dirty:
            self._render()
            self._cover()

    @property
    def chart(self) -> CurvesChart:
        """The picture's geometry, up to date."""
        self.flush()
        if self._chart is None:
            self._render()
        return self._chart or CurvesChart(self._scene(self._stack()), self._stack(), self._theme, SIZES)

    @property
    def drawn(self) -> CurvesChart | None:
        """The picture as it was drawn last; None before the first one."""
        return self._chart

    @property
    def scene(self) -> Scene:
        """Returns the scene in the picture, up to date."""
        return self.chart.scene

    @property
    def readout(self) -> Readout | None:
        """Returns the values at the crosshair; None if there is none."""
        if self._cross is None or not self.scene.plots or self.scene.empty:
            return None
        span = self.scene.grid.span  # a zoom may have left the crosshair outside
        return read(self.scene, self._cross) if span.low <= self._cross <= span.high else None

    # ------------------------------------------------------------ frames
    def _advance(self) -> None:
        if self.isVisible() and not self.window().isMinimized():
            self._frame.start()
            self.flush()
            if self._uncovered:
                self._cover()

    def _just_in_time(self) -> None:
        """Bring the frame while it is being painted; a picture of it for the crosshair can be taken only after that."""
        if self._dirty:
            self._render()
            if self.isVisible():
                self._uncovered = True
                self._timer.start(0)

    def _redraw(self) -> None:
        """Asks for a frame at once: it follows when the present events are done."""
        self._dirty = True
        if self.isVisible():
            self._timer.start(0)

    @property
    def _empty(self) -> bool:
        return not has_values(self._setups, self._runs)

    @property
    def drawn_setups(self) -> tuple[PlotSetup, ...]:
        """The plots that are drawn: while nothing has run, those that have a curve to expect, if any has."""
        expected = tuple(setup for setup in self._setups if setup.ghost is not None)
        return expected if self._empty and expected else self._setups

    def _stack(self) -> Stack:
        gutter = 0.0 if self._empty else gutter_for(self._runs, self.width(), SIZES)
        count = len(self.drawn_setups)
        return stack(self.width(), self.height(), count, self._left, gutter, self._empty, self._footer)

    @property
    def _footer(self) -> float:
        return _NOTE if self._chart is not None and _has_foot(self._chart.scene) else 2.0

    def _scene(self, rects: Stack) -> Scene:
        room = Room(round(rects.area.width), tuple(round(box.height) for box in rects.plots))
        return self._builder.build(self.drawn_setups, self._runs, self._view, room, self._lifted)

    def _render(self) -> None:
        rects = self._stack()
        scene = self._scene(rects)
        needed = self._needed_left(scene)
        notes = _has_foot(scene) != (self._footer == _NOTE)
        if needed != self._left or notes:
            self._left = needed
            self._chart = CurvesChart(scene, rects, self._theme, SIZES)
            rects = self._stack()
            scene = self._scene(rects)
        self._chart = CurvesChart(scene, rects, self._theme, SIZES, self._lifted)
        self._dirty = False
        self._timer.stop()
        self.ground.show_frame(self._chart, self.devicePixelRatioF())
        if self._corner is not None:
            self._corner.move(0, round(rects.area.bottom) + 4)
            self._corner.setVisible(self._view.whole or any(plot.cut for plot in scene.plots))
        self._describe(self._chart.words())
        self.framed.emit()

    @staticmethod
    def _needed_left(scene: Scene) -> float:
        room = value_room(SIZES, [tick for plot in scene.plots for tick in plot.ticks], LEFT)
        return 8 * math.ceil(room / 8)

    def _cover(self, again: bool = True) -> None:
        """Lay the crosshair over the finished picture, taken ``again`` or as it was."""
        self._uncovered = False
        self.flush()
        readout, ring = self.readout, self._ring
        wanted = readout is not None or ring
        if wanted and (again or not self._overlay.isVisibleTo(self)):
            self._overlay.set_picture(self.ground.grab(), self.chart)
        self._overlay.show_readout(readout, ring)
        self._overlay.setVisible(wanted)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Divide the room again."""
        super().resizeEvent(event)
        self.ground.setGeometry(self.rect())
        self._overlay.setGeometry(self.rect())
        self._redraw()
        if self.isVisible():
            self.flush()

    def sizeHint(self) -> QSize:
        """A comfortable size."""
        return QSize(860, 200 * max(len(self._setups), 1) + 40)

    def minimumSizeHint(self) -> QSize:
        """The least size in which the plots can be read."""
        return QSize(360, 84 * max(len(self._setups), 1) + 32)

    # ------------------------------------------------------------ zoom and pan
    def zoom_by(self, factor: float, around: float | None = None) -> None:
        """Show ``factor`` times as much of x; ``around`` is the axis coordinate that stays in place."""
        scene = self.scene
        self.set_view(replace(self._view, zoom=zoomed(scene.grid.span, scene.full, factor, around)))

    def pan_by(self, part: float) -> None:
        """Move the visible part of x by ``part`` of its extent."""
        scene = self.scene
        self.set_view(replace(self._view, zoom=panned(scene.grid.span, scene.full, part)))

    def reset_zoom(self) -> None:
        """Show all of x, and the values that are worth seeing."""
        self.set_view(replace(self._view, zoom=None, y_zoom=()))

    def _zoom_into(self, start: QPointF, end: QPointF) -> None:
        """Show what is in the box: along an axis on which it is a stroke everything stays in sight."""
        chart = self.chart
        number = next(
            (k for k, one in enumerate(chart.frames) if one.box.inset(-2, -2, -2, -2).holds(start.x(), start.y())), -1
        )
        if number < 0:
            return
        frame, view = chart.frames[number], self._view
        if abs(end.x() - start.x()) >= _LEAST_BOX:
            low, high = sorted(min(max(frame.x_at(at.x()), frame.x.low), frame.x.high) for at in (start, end))
            view = replace(view, zoom=Span(low, high))
        if abs(end.y() - start.y()) >= _LEAST_BOX:
            low, high = sorted(min(max(frame.y_at(at.y()), frame.y.low), frame.y.high) for at in (start, end))
            plot = self.scene.plots[number].setup.id
            view = replace(view, y_zoom=(*(one for one in view.y_zoom if one[0] != plot), (plot, Span(low, high))))
        self.set_view(view)

    # ------------------------------------------------------------ mouse
    def _click(self, at: QPointF) -> None:
        """Choose the run whose label is under the pointer."""
        run = self._label_at(at)
        if run:
            self.run_clicked.emit(run)

    def _drag(self, pressed: Span, part: float) -> None:
        if self._view.zoom is None:
            return
        self._dragging = True
        self._set_cross(None)
        self.ground.setCursor(Qt.CursorShape.ClosedHandCursor)
        self.set_view(replace(self._view, zoom=panned(pressed, self.scene.full, part)))

    def _end_drag(self) -> None:
        self._dragging = False
        self.ground.unsetCursor()

    def _point(self, at: QPointF) -> None:
        """Move the crosshair."""
        if self._dragging:
            return
        self._lift(self._label_at(at))
        self._by_key = False
        inside = bool(self._setups) and not self.scene.empty and self._over_plots(at)
        self._set_cross(snapped(self.scene, self.chart.frames[0].x_at(at.x())) if inside else None)

    def _over_plots(self, at: QPointF) -> bool:
        """Whether a pixel lies over the plots, between their left and right border."""
        return self.chart.stack.area.inset(-2, -8, -2, -30).holds(at.x(), at.y())

    def _leave(self) -> None:
        """Take the crosshair away."""
        self._set_cross(None)
        self._lift("")

    def _label_at(self, at: QPointF) -> str:
        return next((run for gutter in self.chart.gutters if (run := gutter.run_at(at.x(), at.y()))), "")

    def _lift(self, run: str) -> None:
        if run == self._lifted:
            return
        self._lifted = run
        self.ground.setCursor(Qt.CursorShape.PointingHandCursor) if run else self.ground.unsetCursor()
        self.run_hovered.emit(run)
        self._redraw()

    # ------------------------------------------------------------ crosshair
    def _set_cross(self, x: float | None) -> None:
        if x != self._cross:
            self._cross = x
            self._cover(again=False)

    def step_crosshair(self, pixels: float) -> None:
        """Move the crosshair by so many pixels, at least to the next step; it begins at the end of the curves."""
        if not self._setups or self.scene.empty:
            return
        self._by_key = True
        self._set_cross(stepped(self.scene, self.chart.frames[0], self._cross, pixels))
        readout = self.readout
        if readout is not None:
            self._describe(readout.sentence())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows move the crosshair (Shift: farther), + and - zoom, Home shows all, Escape takes the crosshair away."""
        far = 40.0 if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else 4.0
        actions = {
            Qt.Key.Key_Left: lambda: self.step_crosshair(-far),
            Qt.Key.Key_Right: lambda: self.step_crosshair(far),
            Qt.Key.Key_PageUp: lambda: self.pan_by(-0.5),
            Qt.Key.Key_PageDown: lambda: self.pan_by(0.5),
            Qt.Key.Key_Plus: lambda: self.zoom_by(0.8, self._cross),
            Qt.Key.Key_Equal: lambda: self.zoom_by(0.8, self._cross),
            Qt.Key.Key_Minus: lambda: self.zoom_by(1.25, self._cross),
            Qt.Key.Key_Home: self.reset_zoom,
        }
        action = actions.get(Qt.Key(event.key()))
        if event.key() == Qt.Key.Key_Escape and self._cross is not None:
            self._set_cross(None)
        elif action is not None and self._setups:
            action()
        else:
            super().keyPressEvent(event)

    def _leave_keyboard(self) -> None:
        """Takes the crosshair away that the keys had moved."""
        if self._by_key:
            self._cross = None

    def _focus_changed(self) -> None:
        """Lays crosshair and ring over the picture again."""
        self._cover(again=False)


def _has_foot(scene: Scene) -> bool:
    """Whether a line of text is below the x axis."""
    return bool(scene.notes or scene.legend)
