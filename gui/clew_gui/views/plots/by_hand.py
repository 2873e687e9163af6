"""The page *By hand*: one training step of a small network, number by number, with *Step* and *Play*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QPushButton, QWidget

from clew_gui.charts.by_hand import ByHandChart
from clew_gui.charts.drawing import Drawing
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.theme.parts import Appearance, column, row
from clew_shared.cards import ByHand
from clew_shared.study.by_hand import Walk

PLAY_MS: Final = 900
"""Time for each turn: long enough to read a line."""


class ByHandView(QWidget):
    """The network and its numbers; below them *Step*, *Play* and *Start again*."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._network: ByHand | None = None
        self._turns = 0
        self.canvas = ChartView(appearance, "Backpropagation by hand")
        self.step = _button("Step", "Compute what comes next", self._step)
        self.back = _button("Back", "Take the last numbers away", lambda: self._go(self._turns - 1))
        self.play = _button("Play", "Compute one thing after the other", self._toggle)
        self.again = _button("Start again", "Begin with the first weights", self.reset_zoom)
        self.timer = QTimer(self)
        self.timer.setInterval(PLAY_MS)
        self.timer.timeout.connect(lambda: self._go(self._turns + 1))
        foot = row(self.step, self.back, self.play, self.again, gap=8, margins=(6, 2, 6, 2))
        foot.addStretch(1)
        box = column(self.canvas, foot, gap=2, parent=self)
        box.setStretchFactor(self.canvas, 1)
        self.setFocusProxy(self.step)

    def set_network(self, network: ByHand | None) -> None:
        """The network of an exercise's card."""
        if network != self._network:
            self._network = network
            walk = Walk(network) if network is not None else None
            self.canvas.show_chart(None if walk is None else lambda *room: ByHandChart(walk.at(self._turns), *room))
            self.reset_zoom()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Does nothing, because it is of no run."""

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
        self.canvas.draw_to(drawing, width, height, scale)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops playing, so that it does not go on unseen."""
        self._stop()
        super().hideEvent(event)

    def _go(self, turns: int) -> None:
        self._turns = max(turns, 0)
        self.canvas.redraw()
        self.back.setEnabled(turns > 0)

    def _step(self) -> None:
        self._stop()
        self._go(self._turns + 1)

    def _toggle(self) -> None:
        if self.timer.isActive():
            self._stop()
        else:
            self._go(self._turns + 1)
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
