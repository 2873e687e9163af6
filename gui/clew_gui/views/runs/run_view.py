"""The Run tab: the selected run's card, the controls of the plots, the plots; a first card while nothing has run."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox, QFrame, QMenu, QSlider, QToolButton, QWidget

from clew_gui.views.form.fields import keep_from_wheel
from clew_gui.views.plots.kinds import Page
from clew_gui.views.plots.panel import ConvergencePlots
from clew_gui.views.plots.pulse import PulseSection
from clew_gui.views.presentation.words import WAITS, reading_minutes, unbroken
from clew_gui.views.race.study_bar import StudyBar
from clew_gui.views.runs.run_card import RunCard
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    IconButton,
    Segments,
    column,
    frame,
    label,
    lay_out_now,
    native_keys,
    row,
)
from clew_gui.views.theme.theme import font
from clew_shared.cards import ExerciseCard

PAGES = (
    ("curves", "Curves"),
    ("surface", "Surface"),
    ("pictures", "Pictures"),
    ("by_hand", "By hand"),
    ("both", "Both"),
)
UNITS = (("step", "Step"), ("epoch", "Epoch"), ("images", "Images"), ("seconds", "Seconds"))
LOW = 560
NARROW = 660
WIDE = 900
"""The width from which on curves and surface are side by side, until a person chooses otherwise."""
_STEPS = (
    ("1", "Run", "Press Run. The curve begins within seconds."),
    ("2", "Change one thing", "Another optimizer or rate, then run again."),
    ("3", "Compare", "Tick two runs below: both curves are drawn."),
)


class EmptyRunView(QWidget):
    """Says what to do while this exercise has no run."""

    guide_asked = Signal()
    code_asked = Signal()
    reload_asked = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.title = label("Nothing has run yet. Start with this one.", "title", wrap=True)
        self._text = label("", "body", "2", wrap=True)
        self.guide = Button(appearance, "Read the guide first", "", "script", "Open the guide (Ctrl+1)")
        self.guide.clicked.connect(self.guide_asked)
        self.code = Button(appearance, "Show the file", "", "code", "Show the file at the line of the error (Ctrl+U)")
        self.code.clicked.connect(self.code_asked)
        self.code.hide()
        self.reload = Button(appearance, "Reload", "", "reset", "Read the folder of your own exercises again")
        self.reload.clicked.connect(self.reload_asked)
        self.reload.hide()
        self._press = label(
            native_keys('or press <span style="font-weight: 600">Run</span> at the right, Ctrl+Enter'), "body", "2"
        )
        self._press.setTextFormat(Qt.TextFormat.RichText)
        buttons = row(self.guide, self.code, self.reload, 8, self._press, None, gap=6)
        card = frame("card", column(self.title, self._text, 6, buttons, gap=6, margins=(20, 16, 20, 16)))
        self._high, self._broken = True, False
        self._steps = QWidget()
        box = row(gap=12, parent=self._steps)
        for number, head, text in _STEPS:
            words = column(label(head, "strong"), label(text, "caption", "2", wrap=True), None, gap=3)
            one = row(label(number, "title", "accent"), words, gap=14, margins=(16, 10, 14, 11))
            one.setStretch(1, 1)
            box.addWidget(frame("sunken", one), 1)
        column(card, self._steps, gap=10, parent=self)

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
        self._broken = wrong is not None
        self._steps.setVisible(not self._broken and self._high)
        self._press.setVisible(wrong is None)
        self.guide.setVisible(bool(card.guide))
        self.code.setVisible(wrong is not None and bool(card.source))
        self.reload.setVisible(wrong is not None and wrong.code not in WAITS)
        reading = reading_minutes(card.guide)
        self.guide.set_words(f"Read the guide first, {reading} min" if reading else "Read the guide first")

    def make_room(self, height: int) -> None:
        """The three steps go when the plots need the place."""
        self._high = height >= LOW
        self._steps.setVisible(self._high and not self._broken)


class PlotControls(QWidget):
    """The controls of how curves are shown, and of their exports."""

    page_changed = Signal(str)
    """A page of ``views.plots.kinds``."""
    unit_chosen = Signal(str)
    log_toggled = Signal(bool)
    whole_toggled = Signal(bool)
    """Asks to show all values, or only the range that is worth seeing."""
    reset_asked = Signal()
    smoothing_moved = Signal(float)
    copy_asked = Signal()
    export_asked = Signal(str)

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._page: Page = "curves"
        self._chosen_page = ""
        self._zoomed = False
        self._surface = self._measured = self._pictures = self._by_hand = False
        self._log = True
        self.pages = Segments(PAGES, "curves", "Plots")
        self.pages.setToolTip("Curves over the steps, paths over the loss surface, pictures, or a step by hand")
        self.pages.chosen.connect(self.choose_page)
        self.pages.hide()
        self.units = Segments(UNITS, "step", "X axis")
        self.units.chosen.connect(self.unit_chosen)
        self.log = QCheckBox("Log axes")
        self.log.setChecked(True)
        self.log.setAccessibleName("Logarithmic axes where a plot asks for them")
        self.log.setToolTip(native_keys("Logarithmic value axes where the exercise asks for them (Ctrl+G)"))
        self.log.toggled.connect(self.log_toggled)
        self.whole = QToolButton()  # it is shown at the axes, see RunView
        self.whole.setProperty("role", "corner")
        self.whole.setText("All of y")
        self.whole.setAccessibleName("All of y")
        self.whole.setFont(font("caption"))
        self.whole.setCheckable(True)
        self.whole.setToolTip("Show all values; otherwise the steep start and values that diverge may be cut off")
        self.whole.toggled.connect(self.whole_toggled)
        for button in (self.log, self.whole):
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # no ring after a click
        self.reset = Button(
            appearance, "Reset zoom", "", "reset", "Show everything again (Home). Drag a box to zoom into it."
        )
        self.reset.clicked.connect(self.reset_asked)
        self.reset.hide()
        self.smoothing = QSlider(Qt.Orientation.Horizontal)
        self.smoothing.setRange(0, 100)
        self.smoothing.setValue(60)
        self.smoothing.setFixedWidth(96)
        keep_from_wheel(self.smoothing)
        self.smoothing.setAccessibleName("Smoothing")
        self.smoothing.setToolTip("Smoothing; the raw curve stays visible in the background")
        self.smoothing.valueChanged.connect(lambda value: self.smoothing_moved.emit(value / 100))
        self._smooth_word = label("Smoothing", "body", "2")
        self._smooth_word.setBuddy(self.smoothing)
        copy = IconButton(
            appearance, "copy", "Copy the plots as a picture", "Copy the plots as a picture (Ctrl+Shift+C)"
        )
        copy.clicked.connect(self.copy_asked)
        self.export = self._export_button(appearance)
        row(
            self.pages,
            self.units,
            6,
            self.log,
            6,
            self._smooth_word,
            self.smoothing,
            None,
            self.reset,
            copy,
            self.export,
            parent=self,
        )

    def _export_button(self, appearance: Appearance) -> QToolButton:
        button = IconButton(appearance, "export", "Export the plots", "Export as PNG, SVG or CSV (Ctrl+Shift+S)")
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(button)
        for kind, text in (("png", "As a picture, PNG…"), ("svg", "As a drawing, SVG…"), ("csv", "Values, CSV…")):
            entry = menu.addAction(text)
            entry.triggered.connect(lambda _checked=False, kind=kind: self.export_asked.emit(kind))
        button.setMenu(menu)
        return button

    def minimumSizeHint(self) -> QSize:
        """Returns the size without the parts that can be hidden if there is little room."""
        return QSize(430, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hides what does not fit: images first, then the slider's word, then epochs."""
        super().resizeEvent(event)
        self._choose_page()
        self._make_room()

    def _make_room(self) -> None:
        curves = self._page not in ("surface", "measured", "pictures", "by_hand")
        room = self.width() - (0 if self.pages.isHidden() else self.pages.sizeHint().width() + 8)
        self.units.setVisible(curves)
        self.reset.setVisible(curves and self._zoomed)
        self.reset.set_words("Reset zoom" if room >= WIDE else "Reset")
        self.smoothing.setVisible(curves and (room >= NARROW or not self._zoomed))
        self.log.setVisible(self._log and self._page not in ("surface", "pictures", "by_hand"))
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

    def offer_pages(
        self, surface: bool, measured: bool, pictures: bool = False, log: bool = True, by_hand: bool = False
    ) -> None:
        """Whether the exercise has a surface, pictures or a network to go through by hand, or only what it measures;
        ``log``: whether any of its plots asks for a logarithmic axis."""
        self._surface, self._measured, self._pictures, self._log = surface, measured, pictures, log
        self._by_hand = by_hand
        self.pages.button("by_hand").setVisible(by_hand)
        self.pages.button("curves").setText("Measured" if measured else "Curves")
        self.pages.button("surface").setVisible(surface and not measured)
        self.pages.button("pictures").setVisible(pictures)
        self.pages.setVisible((surface and not measured) or pictures or by_hand)
        self._choose_page()
        self._make_room()

    @property
    def page(self) -> Page:
        """Returns the page that is shown."""
        return self._page

    def chosen_page(self) -> str:
        """The page that a person chose; empty for none."""
        return self._chosen_page

    def recall(self, unit: str, page: str) -> None:
        """The x axis and the page of the window before."""
        if unit in dict(UNITS):
            self.units.choose(unit)
        if page in dict(PAGES):
            self.choose_page(page)

    def choose_page(self, page: str) -> None:
        """Shows a page, or does as soon as it is there."""
        self._chosen_page = page
        self._choose_page()
        self._make_room()

    def _choose_page(self) -> None:
        """Shows the page that a person chose, as far as it is there; else both if there is room for both."""
        beside = (self._surface or self._pictures) and not self._measured
        both = self.width() >= WIDE and beside
        self.pages.button("both").setVisible(both)
        there = {"curves": True, "surface": self._surface and not self._measured, "pictures": self._pictures}
        there["by_hand"] = self._by_hand
        wanted = self._chosen_page or "both"
        if not there.get(wanted, both):
            wanted = "both" if both else "curves"
        page: Page = "curves"
        match wanted:
            case "surface" | "pictures" | "by_hand":
                page = wanted
            case "both":
                page = "both" if self._surface else "beside"
            case "curves" if self._measured:
                page = "measured"
        self.pages.choose(wanted)
        if page != self._page:
            self._page = page
            self.page_changed.emit(page)

    def set_scales(self, images: bool) -> None:
        """An exercise without batches has neither epochs nor images."""
        for key in ("epoch", "images"):
            self.units.button(key).setEnabled(images)
            self.units.button(key).setToolTip("" if images else "This run has no batches of images")


class RunView(QWidget):
    """The Run tab."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.hello = EmptyRunView(appearance)
        self.card = RunCard(appearance)
        self.card.hide()
        self.study = StudyBar(appearance)
        self.controls = PlotControls(appearance)
        self.plots = ConvergencePlots(appearance.theme)
        self.pulse = PulseSection(appearance, self.plots.canvas)
        self.plots.below = self.pulse.for_file
        box = column(self.controls, self.plots, self.pulse, gap=6, margins=(12, 8, 8, 6))
        box.setStretchFactor(self.plots, 1)
        self._plots_card: QFrame = frame("card", box)
        self._plots_card.setMinimumHeight(150)
        self._whole = column(
            self.hello, self.card, self.study, self._plots_card, gap=8, margins=(16, 12, 16, 12), parent=self
        )
        self._whole.setStretchFactor(self._plots_card, 1)
        self._join_controls()

    def _join_controls(self) -> None:
        controls, plots = self.controls, self.plots
        plots.canvas.set_corner(controls.whole)
        plots.shown.connect(self.pulse.follow)
        controls.page_changed.connect(plots.show_page)
        controls.unit_chosen.connect(plots.set_unit)
        controls.log_toggled.connect(plots.set_log_y)
        controls.smoothing_moved.connect(self._smooth)
        controls.whole_toggled.connect(plots.set_whole_y)
        controls.reset_asked.connect(plots.reset_zoom)
        controls.export_asked.connect(plots.export)
        plots.canvas.view_changed.connect(lambda view: controls.show_zoomed(view.is_zoomed))
        plots.canvas.view_changed.connect(lambda view: controls.whole.setChecked(view.whole))

    def take_controls(self) -> None:
        """Draw as the controls say."""
        self.plots.show_page(self.controls.page)
        self.plots.set_log_y(self.controls.log.isChecked())
        self.plots.set_unit(self.controls.units.current())
        self._smooth(self.controls.smoothing.value() / 100)

    def _smooth(self, amount: float) -> None:
        self.plots.set_smoothing(amount)
        text = f"{self.plots.smoothing_text()}. The raw curve stays visible in the background."
        self.controls.smoothing.setToolTip(text)

    def show_plots(self, card: ExerciseCard) -> None:
        """Shows the plots of an exercise, and the controls that they need."""
        self.plots.show_card(card)
        log = any(plot.log for plot in card.plots) or any(one.log_x or one.log_y for one in card.measured)
        self.controls.offer_pages(
            bool(card.surfaces), card.kind == "measurement", bool(card.pictures), log, card.by_hand is not None
        )

    def show_empty(self, empty: bool) -> None:
        """Shows either the first card or the run's card."""
        self.hello.setVisible(empty)
        self.card.setVisible(not empty)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A low window gives its height to the plots."""
        super().resizeEvent(event)
        self.hello.make_room(self.height())
        self.study.make_room(self.height() < LOW)
