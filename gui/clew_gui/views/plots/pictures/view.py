"""The page of pictures: all of them at one step, a slider over the steps, and one for a threshold."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import QComboBox, QPushButton, QSlider, QWidget

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.pictures.histogram import HistogramPicture
from clew_gui.charts.pictures.tile import Tile
from clew_gui.plotting.axes.numbers import count_text, value_text
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.pictures import TakenPicture
from clew_gui.views.plots.pictures.canvas import PicturesCanvas
from clew_gui.views.plots.play import PlayButton
from clew_gui.views.theme.parts import column, label, row
from clew_gui.views.theme.theme import Theme
from clew_shared.cards import PictureSpec
from clew_shared.journal.events import Histogram

_PLAY_MS: Final = 120
_FINE: Final = 1000
"""Places of the threshold's slider."""


class PicturesView(QWidget):
    """Shows the pictures that a run took. The slider stays at the end while a run goes on, until it is moved."""

    deviations_taken = Signal(str, float)
    """Asks to give this parameter this value."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.deviations: Callable[[str, Histogram, str, str, float], float | None] = lambda *_asked: None
        """Returns how many deviations a threshold is, from a run's id, its histogram, the names of metric and
        parameter, and the threshold."""
        self._wanted: tuple[str, float] | None = None
        self.canvas = PicturesCanvas(theme, self)
        self.slider = _slider("Step of the pictures", "Step (left and right arrow)")
        self.play = PlayButton(self.slider, _PLAY_MS, 1, "Play the pictures", "Show all steps, one after the other")
        self.threshold = _slider("Threshold", "Values above the threshold are judged to be of class 1")
        self._step, self._run = label("", "caption", "2"), label("", "captionStrong")
        self._value, self._word = label("", "caption", "2"), label("Threshold", "caption", "2")
        self._word.setBuddy(self.threshold)
        self.use = QPushButton("Use this")
        self.use.setProperty("role", "quiet")
        self.use.setToolTip("Put so many deviations into the form of the next run")
        self.use.clicked.connect(self._take)
        self.others = QComboBox()
        self.others.setAccessibleName("Run to show beside")
        self.others.setToolTip("Show the pictures of another ticked run beside these, at the same step")
        self.others.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.others.setMinimumContentsLength(10)
        self.others.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.others.activated.connect(lambda _place: self.canvas.set_other(self.others.currentData() or ""))
        for words in (self._step, self._value):
            words.setMinimumWidth(words.fontMetrics().horizontalAdvance("step 1,000,000"))
        self._steps: tuple[int, ...] = ()
        self._foot = QWidget()
        line = row(
            self._run,
            self.play,
            self.slider,
            self._step,
            self.others,
            8,
            self._word,
            self.threshold,
            self._value,
            self.use,
            parent=self._foot,
            gap=8,
        )
        line.setStretchFactor(self.slider, 3)
        line.setStretchFactor(self.threshold, 2)
        line.setContentsMargins(6, 2, 6, 2)
        box = column(self.canvas, self._foot, gap=2, parent=self)
        box.setStretchFactor(self.canvas, 1)
        self.slider.valueChanged.connect(self._slid)
        self.threshold.valueChanged.connect(self._moved)
        self.canvas.steps_changed.connect(self._refresh)
        self.canvas.walked.connect(self._walk)
        self.canvas.threshold_moved.connect(self._refresh)
        self.setFocusProxy(self.canvas)

    # ------------------------------------------------------------ what is shown
    def set_pictures(self, specs: Sequence[PictureSpec]) -> None:
        """The pictures of an exercise's card."""
        self.canvas.set_specs(specs)
        self._refresh()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show the selected one of these runs."""
        self.canvas.set_runs(runs)

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self.canvas.set_theme(theme)

    def touch(self) -> None:
        """Asks for a new frame."""
        self.canvas.touch()

    def reset_zoom(self) -> None:
        """Shows all pictures, the latest ones, with the exercise's thresholds."""
        self.canvas.enlarge("")
        self.canvas.set_step(None)
        self.canvas.reset_thresholds()
        self._refresh()

    @property
    def shown(self) -> tuple[str, tuple[TakenPicture, ...]]:
        """The run, and its pictures as they are shown."""
        run = self.canvas.run
        return (run.run_id if run is not None else "", self.canvas.taken)

    @property
    def said(self) -> str:
        """Returns the text about the threshold."""
        return self._value.text()

    # ------------------------------------------------------------ files
    def accessibleDescription(self) -> str:
        """The pictures in words."""
        return self.canvas.accessibleDescription()

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """The pictures for a file."""
        del scale  # images keep the pixels that they have
        self.canvas.chart(QSize(round(width), round(height))).draw(drawing)

    # ------------------------------------------------------------ sliders
    def _refresh(self) -> None:
        """Make both sliders and their words fit what is shown."""
        self._steps = tuple(self.canvas.steps)
        step, run = self.canvas.step, self.canvas.run
        place = len(self._steps) if step is None else bisect_right(self._steps, step)
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, max(len(self._steps) - 1, 0))
            self.slider.setValue(max(place - 1, 0))
        self.slider.setEnabled(len(self._steps) > 1)
        self.play.setEnabled(len(self._steps) > 1)
        self._run.setText(run.label if run is not None else "")
        self._step.setText(f"step {count_text(self._steps[max(place - 1, 0)])}" if self._steps else "")
        self._foot.setVisible(bool(self._steps))
        self._refresh_others()
        self._refresh_threshold()

    def _refresh_others(self) -> None:
        offered = [("Beside: none", ""), *((run.label, run.run_id) for run in self.canvas.others)]
        if [(self.others.itemText(k), self.others.itemData(k)) for k in range(self.others.count())] != offered:
            self.others.clear()
            for text, run in offered:
                self.others.addItem(text, run)
        other = self.canvas.other
        self.others.setCurrentIndex(max(self.others.findData(other.run_id if other is not None else ""), 0))
        self.others.setVisible(len(offered) > 1)

    def _refresh_threshold(self) -> None:
        counts = self._counts
        for widget in (self._word, self.threshold, self._value):
            widget.setVisible(counts is not None)
        self.use.setVisible(False)
        if counts is None:
            return
        tile, form = counts
        value = self.canvas.thresholds[tile.taken.spec.id]
        area = form.axes.frame.box
        with QSignalBlocker(self.threshold):
            self.threshold.setValue(round(_FINE * (form.column(value) - area.x) / max(area.width, 1.0)))
        number = self._number_of(tile.taken, value)
        self._wanted = None if number is None or number < 0 else (tile.taken.spec.deviations, round(number, 2))
        said = "" if number is None else f": {number:.2f} deviations"
        self._value.setText(f"{value_text(value)}{said}")
        self.use.setVisible(self._wanted is not None)

    def _number_of(self, taken: TakenPicture, value: float) -> float | None:
        run, spec = self.canvas.run, taken.spec
        if run is None or not spec.deviations or not isinstance(taken.figure, Histogram):
            return None
        return self.deviations(run.run_id, taken.figure, spec.mean, spec.deviations, value)

    def _take(self) -> None:
        if self._wanted is not None:
            self.deviations_taken.emit(*self._wanted)

    @property
    def _counts(self) -> tuple[Tile, HistogramPicture] | None:
        """The first histogram whose threshold can be moved."""
        shown = self.canvas.shown
        for tile, form in zip(shown.tiles, shown.forms, strict=True):
            if isinstance(form, HistogramPicture) and form.judgement is not None:
                return tile, form
        return None

    def _slid(self, place: int) -> None:
        """Shows another step; at its right end the slider follows the run."""
        last = place >= len(self._steps) - 1
        self.canvas.set_step(None if last else self._steps[place])
        self._refresh()

    def _walk(self, by: int) -> None:
        self.slider.setValue(self.slider.value() + by)

    def _moved(self, place: int) -> None:
        counts = self._counts
        if counts is not None:
            tile, form = counts
            area = form.axes.frame.box
            value = form.value_at(area.x + area.width * place / _FINE)
            self.canvas.set_threshold(tile.taken.spec.id, value if math.isfinite(value) else 0.0)


def _slider(name: str, tip: str) -> QSlider:
    slider = QSlider(Qt.Orientation.Horizontal)
    slider.setRange(0, _FINE)
    slider.setMinimumWidth(60)
    slider.setAccessibleName(name)
    slider.setToolTip(tip)
    return slider
