"""The slider over the steps of runs: curves, paths and pictures as they were at a step. A button plays it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np
from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QSlider, QWidget

from clew_gui.charts.kit.ticks import count_text
from clew_gui.views.theme.parts import Appearance, IconButton, label, row


class PlayButton(IconButton):
    """Moves ``slider`` on, from where it is, or from its beginning if it is at the end. It stops when it is hidden."""

    def __init__(self, appearance: Appearance, slider: QSlider) -> None:
        super().__init__(appearance, "play", "Replay", "Replay: show all steps, one after the other", size=14)
        self._slider, self._stride = slider, 1
        self.setText("Replay")
        self.clicked.connect(self._toggle)
        self.timer = QTimer(self)
        self.timer.timeout.connect(self._on)

    def set_places(self, count: int) -> None:
        """Play so many places: a few one by one, many in a fixed time."""
        many = count * _EACH_MS > _WHOLE_MS
        self.timer.setInterval(_QUICK_MS if many else _EACH_MS)
        self._stride = -(-count * _QUICK_MS // _WHOLE_MS) if many else 1

    def stop(self) -> None:
        """Do not play on."""
        self.timer.stop()
        self.setText("Replay")
        self.set_glyph("play")

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops, so that it does not play unseen."""
        self.stop()
        super().hideEvent(event)

    def _toggle(self) -> None:
        if self.timer.isActive():
            self.stop()
            return
        if self._slider.value() == self._slider.maximum():
            self._slider.setValue(self._slider.minimum())
        self.timer.start()
        self.setText("Pause")
        self.set_glyph("pause")

    def _on(self) -> None:
        self._slider.setValue(self._slider.value() + self._stride)
        if self._slider.value() >= self._slider.maximum():
            self.stop()


_GAP: Final = 6
_HANDLE: Final = 16
"""Pixels of the slider's handle, with its border."""
_UNBOUNDED: Final = (1 << 24) - 1
"""Qt's largest width, which is none."""
_PLACES: Final = 500
"""Places of the slider over all steps of curves."""
_EACH_MS: Final = 120
_QUICK_MS: Final = 40
_WHOLE_MS: Final = 5000
"""How long it takes to play many places; a few are shown one by one, each for ``_EACH_MS``."""


def replay_steps(last: int, even: bool = False) -> tuple[int, ...]:
    """The places up to step ``last``: ``even`` as on an axis of steps; else the first steps, in which most happens,
    have most of them."""
    parts = np.arange(_PLACES + 1) / _PLACES
    return tuple(np.unique(np.rint(last * parts ** (1 if even else 2)).astype(np.int64)).tolist()) if last > 0 else ()


class ReplayBar(QWidget):
    """A slider over steps and a button that plays them. At its right end everything is shown as it is now, also when
    more steps come."""

    moved = Signal(object)
    """Asks to show everything as it was at this step (int); None: as it is now."""

    def __init__(self, appearance: Appearance, parent: QWidget) -> None:
        super().__init__(parent)
        self.chosen: int | None = None
        """The step that a person has gone back to; None at the end."""
        self.steps: tuple[int, ...] = ()
        """The steps of the slider's places."""
        self._between = False
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setMinimumWidth(60)
        self.slider.setAccessibleName("Step")
        self.slider.setToolTip("Show everything as it was at a step (left and right arrow)")
        self.slider.valueChanged.connect(self._slid)
        self.play = PlayButton(appearance, self.slider)
        self.step = label("", "caption", "2")
        self.step.setMinimumWidth(self.step.fontMetrics().horizontalAdvance("step 1,000,000"))
        self._line = row(self.play, self.slider, self.step, gap=_GAP, grows=self.slider, parent=self)
        self._line.addStretch(0)

    def align(self, left: float, right: float) -> None:
        """Put the middle of the handle below these columns at both ends; without an extent over the whole row."""
        before = self.play.sizeHint().width() + _GAP + _HANDLE // 2
        self._line.setContentsMargins(max(round(left) - before, 0), 0, 0, 0)
        self.slider.setMaximumWidth(round(right - left) + _HANDLE if right > left else _UNBOUNDED)

    def offer(self, steps: Sequence[int], between: bool = False) -> None:
        """The steps that one can go to, in ascending order; ``between``: those between them are shown as well. A chosen
        one stays as it is."""
        self._between = between
        if tuple(steps) != self.steps:
            self.steps = tuple(steps)
            self.play.set_places(len(self.steps))
            self._place()
        self._say()
        for part in (self.slider, self.play):
            part.setEnabled(len(self.steps) > 1)

    def go_to(self, step: int | None) -> None:
        """Go to a step, or to the end."""
        if step != self.chosen:
            self.chosen = step
            self.moved.emit(step)
        self._place()

    def step_cursor(self, by: int) -> None:
        """Go so many places forward."""
        self.slider.setValue(self.slider.value() + by)

    def _place(self) -> None:
        last = max(len(self.steps) - 1, 0)
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, last)
            found = last if self.chosen is None else bisect_right(self.steps, self.chosen) - 1
            self.slider.setValue(max(found, 0))
        self._say()

    def _slid(self, place: int) -> None:
        self.chosen = self.steps[place] if place < len(self.steps) - 1 else None
        self._say()
        self.moved.emit(self.chosen)

    def _say(self) -> None:
        at = self.steps[self.slider.value()] if self.steps else 0
        at = self.chosen if self._between and self.chosen is not None else at
        self.step.setText(f"step {count_text(at)}" if self.steps else "")
