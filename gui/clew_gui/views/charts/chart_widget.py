"""The widget of a chart: paints it, says what is under the pointer, and describes it for screen readers."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from clew_gui.charts.chart import Chart, Layout, drawn
from clew_gui.views.charts.painter import SIZES, box_of, paint, paint_ring
from clew_gui.views.theme.parts import Appearance


class ChartWidget(QWidget):
    """Shows one chart in all the room there is."""

    def __init__(self, appearance: Appearance, name: str) -> None:
        super().__init__()
        self._appearance = appearance
        self._layout: Layout | None = None
        self._laid_out: tuple[QRectF, Chart] | None = None
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumHeight(150)

    def show_chart(self, layout: Layout | None) -> None:
        """Show another chart, or none."""
        self._layout, self._laid_out = layout, None
        chart = self.chart
        self.setAccessibleDescription(chart.words() if chart is not None else "")
        self.update()

    @property
    def chart(self) -> Chart | None:
        """The chart as it is laid out for the widget's size; None if there is nothing to show."""
        if self._layout is None:
            return None
        rect = QRectF(self.rect())
        if self._laid_out is None or self._laid_out[0] != rect:
            self._laid_out = rect, self._layout(box_of(rect), SIZES)
        return self._laid_out[1]

    def retheme(self) -> None:
        """Paint again."""
        self.update()

    def words_at(self, place: QPointF) -> str:
        """Says what is at a point; empty for nothing."""
        chart = self.chart
        return chart.read(place.x(), place.y()) if chart is not None else ""

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Paints the chart, and a ring if it has the keyboard."""
        painter = QPainter(self)
        chart = self.chart
        if chart is not None:
            paint(painter, drawn(chart, self._appearance.theme, SIZES))
        if self.hasFocus():
            paint_ring(painter, self.rect(), self._appearance.theme.accent)
        painter.end()

    def changeEvent(self, event: QEvent) -> None:
        """Lays the chart out again if text has another size."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.FontChange:
            self._laid_out = None
            self.update()

    def event(self, event: QEvent) -> bool:
        """Show a tooltip if there is something to say."""
        if isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words_at(QPointF(event.pos())), self)
            return True
        return super().event(event)
