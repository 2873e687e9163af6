"""The page *By hand*: one training step of a small network, number by number, with *Step* and *Play*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QPushButton, QWidget

from clew_gui.charts.by_hand import ByHandChart
from clew_gui.charts.curves.model import RunStyle
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance, row
from clew_shared.cards import ExerciseCard
from clew_shared.study.by_hand import StepsByHand

PLAY_MS: Final = 900
"""Time for each turn: long enough to read a line."""


class ByHandView(PlotPage):
    """The network and its numbers; ``extras`` are *Step*, *Back*, *Play* and *Start again*."""

    name = "Backpropagation by hand"
    takes_keys = False
    reset_text = "Start again"

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._turns = 0
        self.step = _button("Step", "Compute what comes next", self._next)
        self.back = _button("Back", "Take the last numbers away", lambda: self._go(self._turns - 1))
        self.play = _button("Play", "Compute one thing after the other", self._toggle)
        self.again = _button("Start again", "Begin with the first weights", self.reset_zoom)
        self.timer = QTimer(self)
        self.timer.setInterval(PLAY_MS)
        self.timer.timeout.connect(lambda: self._go(self._turns + 1))
        self.extras = QWidget(self)
        row(self.step, self.back, self.play, self.again, None, gap=8, margins=(6, 2, 6, 2), parent=self.extras)
        self.first = self.step

    def show_card(self, card: ExerciseCard) -> None:
        """The network of an exercise's card."""
        walk = StepsByHand(card.by_hand) if card.by_hand is not None else None
        self.show_chart(None if walk is None else lambda *room: ByHandChart(walk.at(self._turns), *room))
        self.reset_zoom()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Does nothing, because it is of no run."""

    def reset_zoom(self) -> None:
        """Begins with the first weights."""
        self._stop()
        self._go(0)

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops playing, so that it does not go on unseen."""
        self._stop()
        super().hideEvent(event)

    def _go(self, turns: int) -> None:
        self._turns = max(turns, 0)
        self.redraw()
        self.back.setEnabled(turns > 0)

    def _next(self) -> None:
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
