"""The widget of a chart: it is laid out for the widget's size and the window's fonts."""

from __future__ import annotations

from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from clew_gui.charts.chart import Chart
from clew_gui.charts.drawing import Drawing, TextSizes
from clew_gui.plotting.axes.layout import Box
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.theme.parts import Appearance


class Word(Chart):
    """A chart of one word."""

    def __init__(self, box: Box, sizes: TextSizes) -> None:
        self.room, self.wide = box.width, sizes.width("Worker 1")

    def draw(self, drawing: Drawing) -> None:
        """Add nothing."""

    def read(self, x: float, y: float) -> str:
        """Says nothing."""
        return ""

    def words(self) -> str:
        """Describes nothing."""
        return ""


def test_a_chart_is_laid_out_again_when_its_room_or_the_size_of_text_changes(qtbot: QtBot) -> None:
    widget = ChartView(Appearance(), "Chart")
    qtbot.addWidget(widget)
    widget.resize(300, 200)
    widget.show_chart(Word)
    widget.show()
    seen = [widget.chart]
    widget.resize(400, 200)
    seen.append(widget.chart)
    usual = QApplication.font()
    larger = QApplication.font()
    larger.setPointSizeF(2 * usual.pointSizeF())
    try:
        QApplication.setFont(larger)
        QApplication.processEvents()
        seen.append(widget.chart)
    finally:
        QApplication.setFont(usual)
    rooms, wides = zip(*((chart.room, chart.wide) for chart in seen if isinstance(chart, Word)), strict=True)
    assert rooms == (300, 400, 400)
    assert wides[0] == wides[1]
    assert wides[2] > 1.5 * wides[1]
