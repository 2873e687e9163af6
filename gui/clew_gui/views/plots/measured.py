"""The widget of measured relations: drawn when something changed and someone can see it, read out by mouse and keys."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.measured import MeasuredChart, MeasuredRun
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.measured import measured_plots
from clew_gui.views.charts.painter import SIZES, paint
from clew_gui.views.plots.drawn_widget import DrawnWidget
from clew_gui.views.theme.theme import Theme
from clew_shared.cards import SeriesPlot


class MeasuredView(DrawnWidget):
    """Shows what the runs measured, as the plots of the exercise's card."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("Measurements", theme, parent)
        self._specs: tuple[SeriesPlot, ...] = ()
        self._drawn: object = None
        """What the runs had measured when a frame was asked for."""
        self.log = True
        """Whether axes that the card makes logarithmic are so now."""
        self.reading: tuple[int, float] | None = None
        """The read-out's place: the plot's number and the size."""
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # ------------------------------------------------------------ what is shown
    def set_plots(self, specs: Sequence[SeriesPlot]) -> None:
        """Show these plots of a card; without any, one for each measured quantity."""
        self._specs = tuple(specs)
        self._redraw()

    def touch(self) -> None:
        """Asks for a new frame if the runs are others or have measured more."""
        now = [(run, [(name, len(one.x), one.last) for name, one in run.history.series.items()]) for run in self._runs]
        if now != self._drawn:
            self._drawn = now
            super().touch()

    def set_log(self, on: bool) -> None:
        """Makes axes logarithmic if the card asks for that."""
        self.log = on
        self._redraw()

    def reset_zoom(self) -> None:
        """Does nothing, because all points are always in sight."""

    def _advance(self) -> None:
        self._timer.stop()
        self._describe(self.chart().words())
        self.update()

    def chart(self, size: QSize | None = None) -> MeasuredChart:
        """The chart in ``size``, by default the widget's own."""
        room = size or self.size()
        runs = [
            MeasuredRun(style, measured_plots(self._specs, style.history.series))
            for style in self._runs
            if style.history.series
        ]
        return MeasuredChart(runs, Box(0, 0, room.width(), room.height()), SIZES, self.log)

    # ------------------------------------------------------------ painting
    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the plots, and the read-out."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        chart, drawing = self.chart(), Drawing(self._theme, SIZES)
        chart.draw(drawing)
        if self.reading is not None and self.reading[0] < len(chart.frames):
            number, place = self.reading
            if place in chart.places(number):
                chart.draw_reading(drawing, number, place)
        paint(painter, drawing.items)
        self._paint_ring(painter)
        painter.end()

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """The plots for a file."""
        del scale  # nothing here is made of pixels
        self.chart(QSize(round(width), round(height))).draw(drawing)

    # ------------------------------------------------------------ read-out
    def read_at(self, at: QPointF) -> None:
        """Read out the measured size nearest to a pixel."""
        self._show(self.chart().nearest(at.x(), at.y()))

    def walk(self, by: int) -> None:
        """Read out the next size to the right, or to the left; the first or the last one at first."""
        chart = self.chart()
        number = self.reading[0] if self.reading is not None else 0
        places = chart.places(number) if chart.frames else []
        if not places:
            return
        if self.reading is None or self.reading[1] not in places:
            place = places[0] if by > 0 else places[-1]
        else:
            place = places[min(max(places.index(self.reading[1]) + by, 0), len(places) - 1)]
        self._show((number, place))
        self._describe(chart.said(number, place))

    def _show(self, read: tuple[int, float] | None) -> None:
        if read != self.reading:
            self.reading = read
            self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Read out what is under the pointer."""
        self.read_at(event.position())

    def leaveEvent(self, event: QEvent) -> None:
        """Take the read-out away."""
        super().leaveEvent(event)
        self._show(None)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Reads out the sizes one by one with Left and Right."""
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event.key() == Qt.Key.Key_Escape and self.reading is not None:
            self._show(None)
        elif Qt.Key(event.key()) in steps:
            self.walk(steps[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def _leave_keyboard(self) -> None:
        """Takes the read-out away."""
        self.reading = None
