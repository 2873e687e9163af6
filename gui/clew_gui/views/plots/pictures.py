"""The page of pictures: all of them at one step, and a slider for a threshold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QComboBox, QPushButton, QSlider, QWidget

from clew_gui.charts.curves.model import RunStyle
from clew_gui.charts.kit.drawing import Drawing, TextSizes
from clew_gui.charts.kit.layout import Box
from clew_gui.charts.kit.ticks import value_text
from clew_gui.charts.pictures.histogram import HistogramPicture
from clew_gui.charts.pictures.page import Beside, PicturesChart
from clew_gui.charts.pictures.taken import TakenPicture, deviations_at, steps_of, taken_at, write_pictures
from clew_gui.charts.pictures.tile import Tile
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.theme.parts import Appearance, label, row
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard, PictureSpec
from clew_shared.journal.events import Histogram
from clew_shared.params import convert

_FINE: Final = 1000
"""Places of the threshold's slider."""
_USE: Final = "Put so many deviations into the form of the next run"


class PicturesView(PlotPage):
    """Shows the selected run's pictures, or those of the last run that has any, as they were at ``step`` (None: at the
    end, also when more are taken); beside them those of another run, if one is chosen. ``extras`` are the controls of
    what is shown, for the foot of the plots."""

    name = "Pictures"
    reset_text = "All pictures, as they are now"
    deviations_taken = Signal(str, float)
    """Asks to give this parameter this value."""
    grown = Signal(str, int)
    """Asks to make this parameter one more or one less."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__(appearance)
        self._card: ExerciseCard | None = None
        self._specs: tuple[PictureSpec, ...] = ()
        self._large = self._other = ""
        self._thresholds: dict[str, float] = {}
        """Those that were moved by hand."""
        self._wanted: tuple[str, float] | None = None
        self._held: RunStyle | None = None
        """The run whose pictures stay until one that has just begun has some of its own."""
        self.threshold = _slider("Threshold", "Values above the threshold are judged to be of class 1")
        self._run = label("", "captionStrong")
        self.said, self._word = label("", "caption", "2"), label("Threshold", "caption", "2", of=self.threshold)
        self.use = QPushButton("Use this")
        self.use.setProperty("role", "quiet")
        self.use.clicked.connect(self._take)
        self.others = QComboBox()
        self.others.setAccessibleName("Run to show beside")
        self.others.setToolTip("Show the pictures of another ticked run beside these, at the same step")
        self.others.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.others.setMinimumContentsLength(10)
        self.others.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.others.activated.connect(lambda _place: self.set_other(self.others.currentData() or ""))
        self.said.setMinimumWidth(self.said.fontMetrics().horizontalAdvance("step 1,000,000"))
        self.extras = QWidget(self)
        parts = (self._run, self.others, self._word, self.threshold, self.said, self.use)
        line = row(*parts, gap=8, margins=(6, 0, 6, 0), grows=self.threshold, parent=self.extras)
        line.addStretch(0)  # where there is no threshold
        self.threshold.valueChanged.connect(self._slid)
        self.gripped.connect(self._move_threshold)
        self.picked.connect(lambda name: self.grown.emit(name[:-1], 1 if name[-1] == "+" else -1))
        self.double_clicked.connect(lambda picture: self.enlarge("" if self._large else picture))
        self._back = QShortcut(QKeySequence(Qt.Key.Key_Escape), self, context=Qt.ShortcutContext.WidgetShortcut)
        self._back.activated.connect(lambda: self.enlarge(""))
        self.show_chart(self._lay_out)

    # ------------------------------------------------------------ what is shown
    def show_card(self, card: ExerciseCard) -> None:
        """The pictures of an exercise's card, with their thresholds where the exercise has them."""
        self._card, self._specs, self._held = card, card.pictures, None
        self.reset_zoom()

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs; what is shown now is held until then."""
        self._held = self.run
        super().set_runs(runs)

    def reset_zoom(self) -> None:
        """Shows all pictures, with the run's own thresholds."""
        self._thresholds.clear()
        self.enlarge("")

    def _news(self) -> object:
        return self.runs, [[(len(known), known[-1]) for known in run.history.figures.values()] for run in self.runs]

    def redraw(self) -> None:
        """Lay the pictures out again, and make the controls fit what is shown."""
        super().redraw()
        several = "" if self._large or len(self._specs) < 2 else "Double-click a picture to enlarge it"
        self.setToolTip("Escape shows all pictures" if self._large else several)
        if self.isVisible():
            self.steps_changed.emit()
        self._refresh()

    @property
    def thresholds(self) -> dict[str, float]:
        """The threshold of each histogram: moved by hand, else the run's own at the step that is shown, else the
        exercise's."""
        return self._thresholds_of(self.taken)

    def _thresholds_of(self, taken: Sequence[TakenPicture]) -> dict[str, float]:
        usual = {spec.id: spec.threshold for spec in self._specs if spec.threshold is not None}
        shown = (one.figure for one in taken)
        own = {one.name: one.threshold for one in shown if isinstance(one, Histogram) and one.threshold is not None}
        return usual | own | self._thresholds

    @property
    def run(self) -> RunStyle | None:
        """The run whose pictures are shown."""
        there = [run for run in self.runs if run.history.figures]
        selected = [run for run in self.runs if run.selected]
        if selected and selected[0].live and not selected[0].history.figures and self._held is not None:
            return self._held
        return next(iter([run for run in there if run.selected] or there[-1:] or selected), None)

    @property
    def steps(self) -> list[int]:
        """The steps at which the shown run took pictures."""
        run = self.run
        return steps_of(self._specs, run.history.figures) if run is not None else []

    @property
    def taken(self) -> tuple[TakenPicture, ...]:
        """The pictures that are shown; one alone when it was made large."""
        return self._taken_of(self.run)

    def _taken_of(self, run: RunStyle | None) -> tuple[TakenPicture, ...]:
        found = taken_at(self._specs, run.history.figures if run is not None else {}, self.view.until)
        return tuple(one for one in found if self._large in ("", one.spec.id))

    @property
    def _more_runs(self) -> list[RunStyle]:
        """The shown runs that took pictures as well."""
        return [run for run in self.runs if run.history.figures and run is not self.run]

    @property
    def other(self) -> RunStyle | None:
        """The run whose pictures are beside those of the first one."""
        return next((run for run in self._more_runs if run.run_id == self._other), None)

    def set_other(self, run: str) -> None:
        """Show the pictures of this run as well; of none for an empty id."""
        self._other = run
        self.redraw()

    def set_threshold(self, picture: str, value: float) -> None:
        """Move the threshold of a histogram."""
        if self.thresholds.get(picture) != value:
            self._thresholds[picture] = value
            self.redraw()

    def _move_threshold(self, tile: str, value: float, _y: float) -> None:
        if isinstance(self.chart, PicturesChart):
            self.set_threshold(self.chart.taken[int(tile)].spec.id, value)

    def enlarge(self, picture: str) -> None:
        """Show one picture alone; all of them for an empty name."""
        self._large = picture
        self._back.setEnabled(bool(picture))
        self.redraw()

    def _lay_out(self, box: Box, sizes: TextSizes, for_file: bool = False) -> PicturesChart:
        """In the window the slider says the step, and no title."""
        taken, run, other, beside = self.taken, self.run, self.other, None
        latest = max((one.figure.step for one in taken if one.figure is not None), default=None)
        if run is not None and other is not None:
            pictures = self._taken_of(other)
            beside = Beside((run.label, other.label), pictures, self._thresholds_of(pictures))
        return PicturesChart(taken, box, sizes, self.thresholds, None if for_file else latest, beside)

    def draw_to(self, drawing: Drawing, width: float, height: float, scale: float) -> None:
        """The pictures for a file, with their step."""
        self._lay_out(Box(0, 0, width, height), SIZES, for_file=True).draw(drawing)

    def table(self) -> Callable[[Path], None]:
        """Writes the pictures that are shown."""
        run, taken = self.run.run_id if self.run is not None else "", self.taken
        return lambda path: write_pictures(path, run, taken)

    # ------------------------------------------------------------ controls
    def _refresh(self) -> None:
        """Make the controls fit what is shown."""
        run = self.run
        self._run.setText(run.label if run is not None else "")
        self._refresh_others()
        self._refresh_threshold()

    def _refresh_others(self) -> None:
        offered = [("Beside: none", ""), *((run.label, run.run_id) for run in self._more_runs)]
        if [(self.others.itemText(k), self.others.itemData(k)) for k in range(self.others.count())] != offered:
            self.others.clear()
            for text, run in offered:
                self.others.addItem(text, run)
        other = self.other
        self.others.setCurrentIndex(max(self.others.findData(other.run_id if other is not None else ""), 0))
        self.others.setVisible(len(offered) > 1)

    def _refresh_threshold(self) -> None:
        counts = self._counts
        for widget in (self._word, self.threshold, self.said):
            widget.setVisible(counts is not None)
        self.use.setVisible(False)
        if counts is None:
            return
        tile, form = counts
        value = self.thresholds[tile.taken.spec.id]
        area = form.axes.frame.box
        with QSignalBlocker(self.threshold):
            self.threshold.setValue(round(_FINE * (form.column(value) - area.x) / max(area.width, 1.0)))
        number, refused = self._number_of(tile.taken, value) or (None, None)
        self._wanted = None if number is None or refused else (tile.taken.spec.deviations, round(number, 2))
        said = "" if number is None else f": {number:.2f} deviations{', which no run takes' if refused else ''}"
        self.said.setText(f"{value_text(value)}{said}")
        self.use.setVisible(number is not None)
        self.use.setEnabled(self._wanted is not None)
        self.use.setToolTip(refused.text if refused else _USE)

    def _number_of(self, taken: TakenPicture, threshold: float) -> tuple[float, Problem | None] | None:
        """How many deviations above the run's mean a threshold is, and why no run can be set to so many; None if the
        run did not record what this needs."""
        run, spec, figure = self.run, taken.spec, taken.figure
        param = next((one for one in self._card.params if one.name == spec.deviations), None) if self._card else None
        if run is None or param is None or not isinstance(figure, Histogram) or figure.threshold is None:
            return None
        number = run.params.get(param.name, param.default)
        means = run.history.column(spec.mean)
        before = means.values[means.steps < figure.step]
        if not len(before) or not isinstance(number, int | float):
            return None
        found = deviations_at(threshold, figure.threshold, float(before[-1]), number)
        return (found, convert(param, round(found, 2))[1]) if found is not None else None

    def _take(self) -> None:
        if self._wanted is not None:
            self.deviations_taken.emit(*self._wanted)

    @property
    def _counts(self) -> tuple[Tile, HistogramPicture] | None:
        """The first histogram whose threshold can be moved."""
        if isinstance(self.chart, PicturesChart):
            for tile, form in zip(self.chart.tiles, self.chart.forms, strict=True):
                if isinstance(form, HistogramPicture) and form.judgement is not None:
                    return tile, form
        return None

    def _slid(self, place: int) -> None:
        counts = self._counts
        if counts is not None:
            tile, form = counts
            area = form.axes.frame.box
            value = form.value_at(area.x + area.width * place / _FINE)
            self.set_threshold(tile.taken.spec.id, value if math.isfinite(value) else 0.0)


def _slider(name: str, tip: str) -> QSlider:
    slider = QSlider(Qt.Orientation.Horizontal)
    slider.setRange(0, _FINE)
    slider.setMinimumWidth(60)
    slider.setAccessibleName(name)
    slider.setToolTip(tip)
    return slider
