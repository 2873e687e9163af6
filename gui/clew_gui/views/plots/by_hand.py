"""The page *By hand*: one training step of a small network, number by number, with *Step* and *Play*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QSize, QTimer
from PySide6.QtGui import QColor, QHideEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from clew_gui.charts.by_hand import ByHandChart
from clew_gui.charts.drawing import Drawing
from clew_gui.plotting.axes.layout import Box
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.views.charts.painter import SIZES, paint
from clew_gui.views.plots.drawn_widget import DrawnWidget
from clew_gui.views.theme.parts import column, row
from clew_gui.views.theme.theme import Theme
from clew_shared.cards import ByHand
from clew_shared.study.by_hand import Walk

PLAY_MS: Final = 900
"""Time for each turn: long enough to read a line."""


class _Canvas(DrawnWidget):
    """Draws the moment that is shown."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__("Backpropagation by hand", theme, parent)
        self.walk: Walk | None = None
        self.turns = 0

    def _advance(self) -> None:
        self._timer.stop()
        chart = self.chart(self.size())
        self._describe(chart.words() if chart is not None else "")
        self.update()

    def chart(self, size: QSize) -> ByHandChart | None:
        """The chart in ``size``; None where the exercise has no such network."""
        if self.walk is None:
            return None
        return ByHandChart(self.walk.at(self.turns), Box(0, 0, size.width(), size.height()), SIZES)

    def go(self, turns: int) -> None:
        """Show what is known after so many turns."""
        self.turns = turns
        self._redraw()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paints the chart."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.surface))
        drawing, chart = Drawing(self._theme, SIZES), self.chart(self.size())
        if chart is not None:
            chart.draw(drawing)
        paint(painter, drawing.items)
        painter.end()


class ByHandView(QWidget):
    """The network and its numbers; below them *Step*, *Play* and *Start again*."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._network: ByHand | None = None
        self.canvas = _Canvas(theme, self)
        self.step = _button("Step", "Compute what comes next", self._step)
        self.back = _button("Back", "Take the last numbers away", lambda: self._go(self.canvas.turns - 1))
        self.play = _button("Play", "Compute one thing after the other", self._toggle)
        self.again = _button("Start again", "Begin with the first weights", self.reset_zoom)
        self.timer = QTimer(self)
        self.timer.setInterval(PLAY_MS)
        self.timer.timeout.connect(lambda: self._go(self.canvas.turns + 1))
        foot = row(self.step, self.back, self.play, self.again, gap=8, margins=(6, 2, 6, 2))
        foot.addStretch(1)
        box = column(self.canvas, foot, gap=2, parent=self)
        box.setStretchFactor(self.canvas, 1)
        self.setFocusProxy(self.step)

    def set_network(self, network: ByHand | None) -> None:
        """The network of an exercise's card."""
        if network != self._network:
            self._network = network
            self.canvas.walk = Walk(network) if network is not None else None
            self.reset_zoom()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Does nothing, because it is of no run."""

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self.canvas.set_theme(theme)

    def touch(self) -> None:
        """Does nothing, because no run changes it."""

    def reset_zoom(self) -> None:
        """Begins with the first weights."""
        self._stop()
        self._go(0)

    def accessibleDescription(self) -> str:
        """The latest numbers in words."""
        return self.canvas.accessibleDescription()

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """The chart for a file."""
        del scale  # nothing here is made of pixels
        chart = self.canvas.chart(QSize(round(width), round(height)))
        if chart is not None:
            chart.draw(drawing)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops playing, so that it does not go on unseen."""
        self._stop()
        super().hideEvent(event)

    def _go(self, turns: int) -> None:
        self.canvas.go(max(turns, 0))
        self.back.setEnabled(turns > 0)

    def _step(self) -> None:
        self._stop()
        self._go(self.canvas.turns + 1)

    def _toggle(self) -> None:
        if self.timer.isActive():
            self._stop()
        else:
            self._go(self.canvas.turns + 1)
            self.timer.start()
            self.play.setText("Pause")

    def _stop(self) -> None:
        self.timer.stop()
        self.play.setText("Play")


def _button(text: str, tip: str, act: Callable[[], None]) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.clicked.connect(lambda _checked=False: act())
    return button
