"""The Run tab: the selected run's card, the controls of the plots, the plots; a first card while nothing has run."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QResizeEvent
from PySide6.QtWidgets import QCheckBox, QFrame, QSlider, QToolButton, QWidget

from clew_gui.charts.kit.ticks import XUnit
from clew_gui.views.form.fields import keep_from_wheel
from clew_gui.views.plots.pages import BOTH, PAGES, Page, kinds_of, offered
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.plots.pulse import PulseSection
from clew_gui.views.presentation.menu_entries import ActionButton, MenuActions
from clew_gui.views.presentation.words import WAITS, reading_minutes, unbroken
from clew_gui.views.runs.run_card import RunCard
from clew_gui.views.runs.study_bar import StudyBar
from clew_gui.views.theme.parts import (
    PICTURES,
    Appearance,
    Button,
    Panel,
    Segments,
    column,
    export_button,
    frame,
    label,
    lay_out_now,
    native_keys,
    row,
)
from clew_gui.views.theme.theme import font
from clew_shared.cards import ExerciseCard

UNITS = (("step", "Step"), ("epoch", "Epoch"), ("images", "Images"), ("seconds", "Seconds"), (XUnit.RATE, "Rate"))
LOW = 560
NARROW = 660
WIDE = 900
"""The width from which on curves and surface are side by side, until a person chooses otherwise."""


class EmptyRunView(QWidget):
    """Says what to do while this exercise has no run."""

    def __init__(self, appearance: Appearance, actions: MenuActions) -> None:
        super().__init__()
        self.title = label("Nothing has run yet. Start with this one.", "title", wrap=True)
        self._text = label("", "body", "2", wrap=True)
        self.guide = ActionButton(appearance, actions["guide"], "script", "Read the guide first")
        self.code = ActionButton(appearance, actions["code"], "code", "Show the file")
        self.reload = ActionButton(appearance, actions["reload"], "reset", "Reload")
        self.code.hide()
        self.reload.hide()
        self._press = label(
            native_keys('or press <span style="font-weight: 600">Run</span> at the right, Ctrl+Enter'), "body", "2"
        )
        self._press.setTextFormat(Qt.TextFormat.RichText)
        buttons = row(self.guide, self.code, self.reload, 8, self._press, None, gap=6)
        card = frame("card", column(self.title, self._text, 6, buttons, gap=6, margins=(20, 16, 20, 16)))
        column(card, parent=self)

    def show_card(self, card: ExerciseCard, first: bool, more: bool = False) -> None:
        """Words for this exercise; ``first`` when no exercise has a run yet, ``more`` while earlier runs are read."""
        nothing = "Nothing has run yet. Start with this one." if first else "No run of this exercise yet."
        wrong = card.problem
        if wrong is not None:
            waits = wrong.code in WAITS
            self.title.setText("This exercise is being read." if waits else "This exercise cannot run yet.")
            again = "Clew reads it again as soon as it is saved." if card.source else ""
            self._text.setText(" ".join(filter(None, (wrong.text, wrong.hint, again))))
        else:
            self.title.setText("Loading earlier runs…" if more else nothing)
            self._text.setText(unbroken(card.summary or card.subtitle))
        self._press.setVisible(wrong is None)
        self.guide.setVisible(bool(card.guide))
        self.code.setVisible(wrong is not None and bool(card.source))
        self.reload.setVisible(wrong is not None and wrong.code not in WAITS)
        reading = reading_minutes(card.guide)
        self.guide.set_words(f"Read the guide first, {reading} min" if reading else "Read the guide first")


class PlotControls(QWidget):
    """The controls of how curves are shown, and of their exports."""

    page_changed = Signal(str)
    """A page of ``views.plots.pages``."""

    def __init__(self, appearance: Appearance, export: Callable[[str], object], copy: QAction) -> None:
        super().__init__()
        self.page = "curves"
        """The page that is shown."""
        self.chosen_page = ""
        """The page that a person chose; empty for none."""
        self._offered: tuple[Page, ...] = ()
        self._zoomed, self._log = False, True
        self.pages = Segments([*((page.name, page.title) for page in PAGES), (BOTH, "Both")], "curves", "Plots")
        self.pages.setToolTip("Curves over the steps, paths over the loss surface, pictures, or a step by hand")
        self.pages.chosen.connect(self.choose_page)
        self.pages.hide()
        self.units = Segments(UNITS, "step", "X axis")
        self.log = QCheckBox("Log axes")
        self.log.setChecked(True)
        self.log.setAccessibleName("Logarithmic axes where a plot asks for them")
        self.log.setToolTip(native_keys("Logarithmic value axes where the exercise asks for them (Ctrl+G)"))
        self.whole = QToolButton()  # it is shown at the axes, see RunView
        self.whole.setProperty("role", "corner")
        self.whole.setText("All of y")
        self.whole.setAccessibleName("All of y")
        self.whole.setFont(font("caption"))
        self.whole.setCheckable(True)
        self.whole.setToolTip("Show all values; otherwise the steep start and values that diverge may be cut off")
        for button in (self.log, self.whole):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # no ring after a click
        self.reset = Button(
            appearance, "Reset zoom", "", "reset", "Show everything again (Home). Drag a box to zoom into it."
        )
        self.reset.hide()
        self.smoothing = QSlider(Qt.Orientation.Horizontal)
        self.smoothing.setRange(0, 100)
        self.smoothing.setValue(60)
        self.smoothing.setFixedWidth(96)
        keep_from_wheel(self.smoothing)
        self.smoothing.setAccessibleName("Smoothing")
        self._smooth_word = label("Smoothing", "body", "2", of=self.smoothing)
        kinds = {**PICTURES, "csv": "Values, CSV…"}
        self.export = export_button(appearance, "Export the plots", kinds, export, " (Ctrl+Shift+S)")
        self.export.menu().addAction(copy)
        left = (self.pages, self.units, 6, self.log, 6, self._smooth_word, self.smoothing)
        row(*left, None, self.reset, self.export, parent=self)

    def minimumSizeHint(self) -> QSize:
        """Returns the size without the parts that can be hidden if there is little room."""
        return QSize(430, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hides what does not fit: images first, then the slider's word, then epochs."""
        super().resizeEvent(event)
        self._choose_page()

    def _make_room(self) -> None:
        kinds = [page.kind for page in PAGES if page.name in kinds_of(self.page, self._offered)]
        curves = any(kind.units for kind in kinds)
        room = self.width() - (0 if self.pages.isHidden() else self.pages.sizeHint().width() + 8)
        self.units.setVisible(curves)
        self.reset.setVisible(curves and self._zoomed)
        self.reset.set_words("Reset zoom" if room >= WIDE else "Reset")
        self.smoothing.setVisible(curves and (room >= NARROW or not self._zoomed))
        self.log.setVisible(self._log and any(kind.has_log for kind in kinds))
        for key, needed in (("epoch", 540), ("images", NARROW)):
            self.units.button(key).setVisible(room >= needed or self.units.current() == key)
        self._smooth_word.setVisible(curves and room >= NARROW + 60 + (110 if self._zoomed else 0))
        self.smoothing.setFixedWidth(96 if room >= NARROW else 64)
        lay_out_now(self.pages, self.units, self)

    def show_zoomed(self, zoomed: bool) -> None:
        """Whether a part is shown that a person chose: then the button back is visible."""
        if zoomed != self._zoomed:
            self._zoomed = zoomed
            self._make_room()

    def offer_pages(self, pages: tuple[Page, ...], log: bool = True) -> None:
        """Offer the pages of an exercise; ``log``: whether any of its plots asks for a logarithmic axis."""
        self._offered, self._log = pages, log
        names = [page.name for page in pages]
        for page in PAGES:
            self.pages.button(page.name).setVisible(page.name in names)
        self.pages.setVisible(len(names) > 1)
        self._choose_page()

    def recall(self, unit: str, page: str) -> None:
        """The x axis and the page of the window before."""
        if unit in dict(UNITS):
            self.units.choose(unit)
        if page in (BOTH, *(one.name for one in PAGES)):
            self.choose_page(page)

    def choose_page(self, page: str) -> None:
        """Shows a page, or does as soon as it is there."""
        self.chosen_page = page
        self._choose_page()

    def _choose_page(self) -> None:
        """Shows the page that a person chose, as far as it is there; else both if there is room for both."""
        names = [page.name for page in self._offered]
        both = self.width() >= WIDE and "curves" in names and any(page.beside for page in self._offered)
        self.pages.button(BOTH).setVisible(both)
        wanted = self.chosen_page or BOTH
        if wanted not in names and not (both and wanted == BOTH):
            wanted = BOTH if both else next(iter(names), "curves")
        self.pages.choose(wanted)
        if wanted != self.page:
            self.page = wanted
            self.page_changed.emit(wanted)
        self._make_room()

    def set_scales(self, images: bool, rate: bool = False) -> None:
        """An exercise without batches has neither epochs nor images; only a range test has a ``rate``."""
        self.units.button(XUnit.RATE).setVisible(rate)
        if not rate and self.units.current() == XUnit.RATE:
            self.units.button("step").setChecked(True)
        for key in ("epoch", "images"):
            self.units.button(key).setEnabled(images)
            self.units.button(key).setToolTip("" if images else "This run has no batches of images")


class RunView(Panel):
    """The Run tab."""

    def __init__(self, appearance: Appearance, actions: MenuActions) -> None:
        super().__init__("canvas")
        self.empty_view = EmptyRunView(appearance, actions)
        self.card = RunCard(appearance, actions)
        self.card.hide()
        self.study = StudyBar(appearance)
        self.plots = ConvergencePlots(appearance)
        self.controls = PlotControls(appearance, self.plots.export, actions["copy_picture"])
        self.pulse = PulseSection(appearance, self.plots.canvas)
        self.plots.below = self.pulse.for_file
        box = column(self.controls, self.plots, self.pulse, gap=6, margins=(12, 8, 8, 6), grows=self.plots)
        self._plots_card: QFrame = frame("card", box)
        self._plots_card.setMinimumHeight(150)
        parts = (self.empty_view, self.card, self.study, self._plots_card)
        column(*parts, gap=8, margins=(16, 12, 16, 12), grows=self._plots_card, parent=self)
        self._join_controls()

    def _join_controls(self) -> None:
        controls, plots = self.controls, self.plots
        plots.canvas.set_corner(controls.whole)
        plots.shown.connect(self.pulse.follow)
        controls.page_changed.connect(plots.show_page)
        controls.units.chosen.connect(lambda unit: plots.change(unit=XUnit(unit), log_x=unit == XUnit.RATE))
        controls.log.toggled.connect(lambda on: plots.change(log_y=on))
        controls.smoothing.valueChanged.connect(self._smooth)
        controls.whole.toggled.connect(lambda on: plots.change(whole=on, y_zoom=()))
        controls.reset.clicked.connect(plots.reset_zoom)
        plots.canvas.view_changed.connect(lambda view: controls.show_zoomed(view.is_zoomed))
        plots.canvas.view_changed.connect(lambda view: controls.whole.setChecked(view.whole))

    def take_controls(self) -> None:
        """Draw as the controls say."""
        self.plots.show_page(self.controls.page)
        self.plots.change(log_y=self.controls.log.isChecked())
        self.controls.units.chosen.emit(self.controls.units.current())
        self._smooth(self.controls.smoothing.value())

    def _smooth(self, percent: int) -> None:
        self.plots.change(smoothing=percent / 100)
        lines = "Faint: lowest to highest value. Number at the right: the last value."
        text = f"Smoothing: {self.plots.smoothing_text().lower()}. {lines}"
        self.controls.smoothing.setToolTip(text)

    def show_plots(self, card: ExerciseCard) -> None:
        """Shows the plots of an exercise, and the controls that they need."""
        self.plots.show_card(card)
        log = any(plot.log for plot in card.plots) or any(one.log_x or one.log_y for one in card.measured)
        self.controls.offer_pages(offered(card), log)

    def show_empty(self, empty: bool) -> None:
        """Shows either the first card or the run's card."""
        self.empty_view.setVisible(empty)
        self.card.setVisible(not empty)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A low window gives its height to the plots."""
        super().resizeEvent(event)
        self.study.make_room(self.height() < LOW)
