"""The page of a run's traced steps: where their time goes, the timeline, the dearest operations."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QEvent, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip, QWidget

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.trace import TraceChart
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.trace import Timeline
from clew_gui.views.charts.painter import SIZES, paint
from clew_gui.views.plots.drawn_widget import DrawnWidget
from clew_gui.views.theme.theme import Theme
from clew_shared.journal.events import Trace

_ZOOM: Final = 0.7
"""The part of the time that is still shown after one step of the wheel."""
_CLOSEST: Final = 1e-4
"""The part of the time that is shown at least."""
_MOVE: Final = 0.2


class TraceView(DrawnWidget):
    """Shows the latest trace of the selected run. The wheel zooms into its timeline, and so do + and -."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("Trace", theme, parent)
        self._timeline: Timeline | None = None
        self._view: Span | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    @property
    def event_shown(self) -> Trace | None:
        """The latest trace of the selected run; None if it has none."""
        chosen = next((run for run in self._runs if run.selected), None)
        return chosen.history.trace if chosen is not None else None

    def _advance(self) -> None:
        self._timer.stop()
        found = self.event_shown
        if found is not (self._timeline.event if self._timeline is not None else None):
            self._timeline = Timeline(found) if found is not None else None
            self._view = None
        chart = self.chart()
        self._describe(chart.words() if chart is not None else "")
        self.update()

    def chart(self, size: QSize | None = None) -> TraceChart | None:
        """The chart in ``size``, by default the widget's own; None without a trace."""
        room = size or self.size()
        if self._timeline is None:
            return None
        return TraceChart(self._timeline, Box(0, 0, room.width(), room.height()), SIZES, self._view)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the chart."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        drawing = Drawing(self._theme, SIZES)
        self.draw_to(drawing, self.width(), self.height(), 1.0)
        paint(painter, drawing.items)
        self._paint_ring(painter)
        painter.end()

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """The chart for a file."""
        del scale  # nothing here is made of pixels
        chart = self.chart(QSize(round(width), round(height)))
        if chart is not None:
            chart.draw(drawing)

    # ------------------------------------------------------------ zoom
    @property
    def view(self) -> Span | None:
        """The part of the time that is shown; None for all."""
        return self._view

    def reset_zoom(self) -> None:
        """Shows all of the time."""
        self._show(None)

    def zoom(self, factor: float, at: float | None = None) -> None:
        """Shows ``factor`` times as much of the time; the moment ``at``, by default the middle, stays where it is."""
        chart = self.chart()
        if chart is not None:
            shown, around = chart.frame.x, at if at is not None else 0.5 * (chart.frame.x.low + chart.frame.x.high)
            factor = max(factor, _CLOSEST * self._whole / shown.size)
            self._show(Span(around + (shown.low - around) * factor, around + (shown.high - around) * factor))

    def move_by(self, part: float) -> None:
        """Shows what comes later, by a part of what is shown, or what was before."""
        chart = self.chart()
        if chart is not None:
            shown = chart.frame.x
            by = min(max(part * shown.size, -shown.low), self._whole - shown.high)
            self._show(Span(shown.low + by, shown.high + by))

    @property
    def _whole(self) -> float:
        return self._timeline.event.seconds if self._timeline is not None else 0.0

    def _show(self, view: Span | None) -> None:
        if view is not None:
            view = Span(max(view.low, 0.0), min(view.high, self._whole))
            view = None if view.size >= 0.999 * self._whole else view
        if view != self._view:
            self._view = view
            self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zooms around the pointer."""
        chart = self.chart()
        if chart is not None and event.angleDelta().y():
            self.zoom(_ZOOM ** (event.angleDelta().y() / 120), chart.frame.x_at(event.position().x()))
            event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Zooms with + and -, moves with Left and Right, shows everything with Home."""
        match Qt.Key(event.key()):
            case Qt.Key.Key_Plus:
                self.zoom(_ZOOM)
            case Qt.Key.Key_Minus:
                self.zoom(1 / _ZOOM)
            case Qt.Key.Key_Left | Qt.Key.Key_Right as key:
                self.move_by(_MOVE if key == Qt.Key.Key_Right else -_MOVE)
            case Qt.Key.Key_Home:
                self.reset_zoom()
            case _:
                super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        """Says what is under the pointer."""
        if isinstance(event, QHelpEvent):
            chart, place = self.chart(), QPointF(event.pos())
            QToolTip.showText(event.globalPos(), chart.read(place.x(), place.y()) if chart is not None else "", self)
            return True
        return super().event(event)
