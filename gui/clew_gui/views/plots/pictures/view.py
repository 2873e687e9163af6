"""The page of pictures: all of them at one step, and a slider for a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import QComboBox, QPushButton, QSlider, QWidget

from clew_gui.charts.drawing import Drawing
from clew_gui.charts.pictures.histogram import HistogramPicture
from clew_gui.charts.pictures.tile import Tile
from clew_gui.plotting.axes.numbers import value_text
from clew_gui.plotting.curves.model import RunStyle
from clew_gui.plotting.pictures import TakenPicture
from clew_gui.views.plots.pictures.canvas import PicturesCanvas
from clew_gui.views.theme.parts import Appearance, column, label, row
from clew_shared.base.problem import Problem
from clew_shared.cards import PictureSpec
from clew_shared.journal.events import Histogram

_FINE: Final = 1000
"""Places of the threshold's slider."""
_USE: Final = "Put so many deviations into the form of the next run"
Deviations = tuple[float, Problem | None]
"""How many deviations a threshold is, and why no run can be set to so many."""


class PicturesView(QWidget):
    """Shows the pictures that a run took. ``extras`` are the controls of what is shown, for the foot of the plots."""

    deviations_taken = Signal(str, float)
    """Asks to give this parameter this value."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.deviations: Callable[[str, Histogram, str, str, float], Deviations | None] = lambda *_asked: None
        """Asked with a run's id, its histogram, the names of metric and parameter, and the threshold."""
        self._wanted: tuple[str, float] | None = None
        self.canvas = PicturesCanvas(appearance, self)
        self.threshold = _slider("Threshold", "Values above the threshold are judged to be of class 1")
        self._run = label("", "captionStrong")
        self._value, self._word = label("", "caption", "2"), label("Threshold", "caption", "2")
        self._word.setBuddy(self.threshold)
        self.use = QPushButton("Use this")
        self.use.setProperty("role", "quiet")
        self.use.clicked.connect(self._take)
        self.others = QComboBox()
        self.others.setAccessibleName("Run to show beside")
        self.others.setToolTip("Show the pictures of another ticked run beside these, at the same step")
        self.others.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.others.setMinimumContentsLength(10)
        self.others.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.others.activated.connect(lambda _place: self.canvas.set_other(self.others.currentData() or ""))
        self._value.setMinimumWidth(self._value.fontMetrics().horizontalAdvance("step 1,000,000"))
        self.extras = QWidget(self)
        parts = (self._run, self.others, self._word, self.threshold, self._value, self.use)
        line = row(*parts, parent=self.extras, gap=8, margins=(6, 0, 6, 0))
        line.setStretchFactor(self.threshold, 1)
        line.addStretch(0)  # where there is no threshold
        column(self.canvas, parent=self)
        self.threshold.valueChanged.connect(self._moved)
        self.canvas.steps_changed.connect(self._refresh)
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

    def touch(self) -> None:
        """Asks for a new frame."""
        self.canvas.touch()

    def reset_zoom(self) -> None:
        """Shows all pictures, with the exercise's thresholds."""
        self.canvas.enlarge("")
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

    def set_step(self, step: int | None) -> None:
        """Show the pictures as they were at ``step``; None: the latest ones."""
        self.canvas.set_step(step)
        self._refresh()

    # ------------------------------------------------------------ controls
    def _refresh(self) -> None:
        """Make the controls fit what is shown."""
        run = self.canvas.run
        self._run.setText(run.label if run is not None else "")
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
        number, refused = self._number_of(tile.taken, value) or (None, None)
        self._wanted = None if number is None or refused else (tile.taken.spec.deviations, round(number, 2))
        said = "" if number is None else f": {number:.2f} deviations{', which no run takes' if refused else ''}"
        self._value.setText(f"{value_text(value)}{said}")
        self.use.setVisible(number is not None)
        self.use.setEnabled(self._wanted is not None)
        self.use.setToolTip(refused.text if refused else _USE)

    def _number_of(self, taken: TakenPicture, value: float) -> Deviations | None:
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
