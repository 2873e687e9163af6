"""The Compare tab: what is compared, the picture, and the table of groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSignalBlocker, QSize, Qt, QTimer
from PySide6.QtGui import QIcon, QPainter
from PySide6.QtWidgets import QCheckBox, QComboBox, QSplitter, QWidget

from clew_gui.charts.compare import (
    RESULT,
    SECONDS_TO,
    STEPS_TO,
    CompareChart,
    ComparedRun,
    CompareOptions,
    CompareScene,
    CurveCache,
    Form,
    Judged,
    compare_page,
    compare_scene,
    ink_stroke,
    to_judge,
    with_importance,
)
from clew_gui.session.runs import RunModel
from clew_gui.study.importance import Importance, importance_of
from clew_gui.study.ranking import headline_metric
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.files import write_page
from clew_gui.views.charts.painter import SIZES, pen_of
from clew_gui.views.form.fields import NumberEdit, keep_from_wheel, offer
from clew_gui.views.presentation import words
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.sites.background import call_elsewhere
from clew_gui.views.tabs.tab import Tab
from clew_gui.views.theme.parts import Elided, IconButton, Segments, blank, column, frame, label, row, set_role
from clew_gui.views.theme.tables import ReadOnlyTable
from clew_gui.views.window.window import MainWindow
from clew_gui.views.window.window_state import CompareState
from clew_shared.base.harmless import csv_text
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.params import LEARNING_RATE, ParamSpec, convert
from clew_shared.run_settings import SEED, differences, label_of, settings_of

PAGES: tuple[tuple[Form, str], ...] = (("curves", "Curves"), ("scatter", "Scatter"), ("parallel", "Parallel"))
SETS = (("ticked", "Ticked"), ("listed", "All listed"))
TARGET = ParamSpec(
    name="target",
    kind="float",
    label="Target",
    default=None,
    optional=True,
    help="The table shows the steps and seconds to this value; write 0.9 for 90 %",
)
_SWATCH = QSize(18, 12)
_LEAST_COMBO = 84
"""Pixels to which a choice shrinks before the row would push the panels beside it."""


_UNKNOWN = Importance({}, 0, "Which settings mattered is being worked out.")


class CompareTab(Tab):
    """Compares the ticked or the listed runs."""

    entry = Action("compare", "Compa&re", "Ctrl+3", "Runs beside each other: curves, settings, results")
    FOLDS_RUNS = False
    EXPORT = "Export the comparison", "comparison"

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller, places)
        self._cache = CurveCache()
        self._judged: dict[tuple[str, str], tuple[Judged, Importance]] = {}
        """What Optuna said last of an exercise's metric, and of which results."""
        self._judging, self._answered = False, False
        """Whether Optuna works, and whether what it said is still to be shown."""
        self.scene: CompareScene | None = None
        self._due = QTimer(self)
        self._due.setSingleShot(True)
        self._due.setObjectName("compare")
        self._due.timeout.connect(self.refresh)
        controller.filtered.connect(self.show_other_runs)
        self._filling = False
        self._chosen: dict[QComboBox, str] = {}
        """The settings that a person chose last, kept also while another exercise lacks them."""
        self.scales: dict[str, bool] = {}
        """The scales that a person chose, by exercise and metric."""
        self._exercise = ""
        self._logarithmic: set[str] = set()
        self.canvas = ChartView(self._appearance, "Comparison", least=170)
        self.canvas.picked.connect(lambda name: self._choose(int(name)))
        self.canvas.pointed.connect(lambda name: self._point(int(name or -1)))
        self.table = self._make_table()
        rows = self._first_row(), self._second_row(), self.canvas
        inside = column(*rows, gap=6, margins=(12, 8, 12, 6), grows=self.canvas)
        lower = frame("card", column(self.table, gap=0, margins=(6, 4, 6, 6)))
        split = QSplitter(Qt.Orientation.Vertical)
        split.addWidget(frame("card", inside))
        split.addWidget(lower)
        split.setChildrenCollapsible(False)
        split.setHandleWidth(8)
        split.setProperty("role", "gap")
        split.setStretchFactor(0, 3)
        split.setStretchFactor(1, 2)
        split.setSizes([420, 210])
        column(split, margins=(16, 12, 16, 12), parent=self)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _first_row(self) -> QWidget:
        self.pages = Segments(PAGES, "curves", "Picture")
        self.sets = Segments(SETS, "ticked", "Runs to compare")
        self.sets.setToolTip("The runs that are ticked in the table below, or all that it lists")
        for one in (self.pages, self.sets):
            one.chosen.connect(lambda _key: self._edited())
        self.caption = Elided("", "caption", "2")
        self.files = self.files_button()
        copy = IconButton(self._appearance, "copy", "Copy the table", "Copy the table, for a spreadsheet")
        copy.clicked.connect(self.table.copy)
        self.repeats = QCheckBox("Mean over seeds")
        self.repeats.setAccessibleName("Mean over seeds")
        self.repeats.setChecked(True)
        self.repeats.setToolTip("Runs that differ in the seed alone are one line with a band of one standard deviation")
        self.log = QCheckBox("Log")
        self.log.setAccessibleName("Logarithmic values")
        self.log.setToolTip("A logarithmic scale for this value")
        self.log.toggled.connect(self._scale_chosen)
        for box in (self.repeats, self.log):
            box.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            box.toggled.connect(lambda _on: self._edited())
        whole = QWidget()
        row(self.pages, self.sets, self.repeats, None, copy, self.files, gap=4, parent=whole)
        return whole

    def _second_row(self) -> QWidget:
        self.value = self._combo("Value")
        self.colour = self._combo("Colour by")
        self.across = self._combo("X axis of the scatter")
        self.target = NumberEdit(TARGET, 76)
        self.target.edited.connect(self._edited)
        self._x_word = label("X", "body", "2", of=self.across)
        value, colour = label("Value", "body", "2", of=self.value), label("Colour", "body", "2", of=self.colour)
        target = label("Target", "body", "2", of=self.target)
        whole = QWidget()
        fields = (value, self.value, colour, self.colour, self._x_word, self.across, target, self.target)
        row(*fields, self.log, self.caption, gap=7, parent=whole)
        return whole

    def _combo(self, name: str) -> QComboBox:
        combo = QComboBox()
        combo.setAccessibleName(name)
        combo.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        combo.setMinimumWidth(_LEAST_COMBO)
        combo.view().setTextElideMode(Qt.TextElideMode.ElideNone)
        keep_from_wheel(combo)
        combo.currentIndexChanged.connect(lambda _place: self._combo_changed(combo))
        return combo

    def _combo_changed(self, combo: QComboBox) -> None:
        if not self._filling:
            self._chosen[combo] = combo.currentData() or ""
            if combo is self.value:
                self._show_scale()
        self._edited()

    def _scale_chosen(self, log: bool) -> None:
        """A person chose the scale of this value; each has its own."""
        self.scales[self._scale_key()] = log

    def _scale_key(self) -> str:
        return f"{self._exercise} {self.value.currentData() or ''}"

    def _show_scale(self) -> None:
        """The scale that a person chose for this value, else that of its plot in the *Run* tab."""
        log = self.scales.get(self._scale_key(), self.value.currentData() in self._logarithmic)
        with QSignalBlocker(self.log):
            self.log.setChecked(log)

    def _make_table(self) -> ReadOnlyTable:
        table = ReadOnlyTable("Compared runs")
        table.setIconSize(_SWATCH)
        table.itemSelectionChanged.connect(lambda: self.canvas.lift(self._selected()))
        table.itemDoubleClicked.connect(lambda item: self._choose(item.row()))
        return table

    # --- Asking -------------------------------------------------------------------------------------------------------

    def _edited(self) -> None:
        if not self._filling:
            self._show_axis()
            self.refresh()

    def _show_axis(self) -> None:
        """The choice of the x axis is there for the scatter only."""
        for widget in (self.across, self._x_word):
            widget.setVisible(self.pages.current() == "scatter")

    def recall(self, state: CompareState) -> None:
        """Restores the state that another window left; names that are not known here change nothing."""
        self._filling = True
        if state.page in dict(PAGES):
            self.pages.choose(state.page)
        if state.runs in dict(SETS):
            self.sets.choose(state.runs)
        self._chosen = {self.value: state.value, self.colour: state.colour, self.across: state.x}
        self.target.setText(state.target)
        self.repeats.setChecked(state.group)
        self.scales = dict(state.scales)
        self._filling = False

    def left(self) -> CompareState:
        """Returns the present state, for the next window."""
        value, colour, x = (self._chosen.get(combo, "") for combo in (self.value, self.colour, self.across))
        return CompareState(
            page=self.page(),
            runs=self.sets.current(),
            value=value,
            colour=colour,
            x=x,
            target=self.target.text(),
            group=self.repeats.isChecked(),
            scales=dict(self.scales),
        )

    def page(self) -> Form:
        """The chosen picture."""
        return next(page for page, _ in PAGES if page == self.pages.current())

    def options(self) -> CompareOptions:
        """Returns what is to be shown."""
        target, wrong = convert(TARGET, self.target.raw())
        set_role(self.target, "bad" if wrong is not None else "", "state")
        return CompareOptions(
            metric=self.value.currentData() or "",
            colour=self.colour.currentData() or "",
            group=self.repeats.isChecked(),
            target=float(target) if isinstance(target, int | float) else None,
            x=self.across.currentData() or "",
            log=self.log.isChecked(),
        )

    def _fill(self, combo: QComboBox, choices: Sequence[tuple[str, str]]) -> None:
        offer(combo, choices, self._chosen.get(combo, ""))

    # --- Showing ------------------------------------------------------------------------------------------------------

    def show_other_runs(self) -> None:
        """Updates the tab in an event of its own, so that a click answers before a thousand runs are compared."""
        if self.in_sight():
            self._due.start(0)

    def refresh(self) -> None:
        """Show the comparison; cheap if nothing changed, and nothing while out of sight."""
        model = self._controller.model
        if not self.in_sight():
            return
        card, runs = model.card, self._runs()
        states = tuple((run.id, _version(run), run.note) for run in runs)
        known = (card, states, model.pinned())
        if self._shown is None or not isinstance(self._shown, tuple) or self._shown[:3] != known:
            self._offer(card, runs)
        options, page = self.options(), self.page()
        state = (*known, options, page)
        if state == self._shown and not self._answered:
            return
        scene = self.scene
        if state != self._shown or scene is None:
            styles = model.styles()
            compared = [_compared(run, card, styles.get(run.id, -1)) for run in runs]
            scene = compare_scene(compared, card, options, model.pinned(), self._cache)
        self._shown, self._answered = state, False
        about = card.id, scene.metric.name
        if page == "parallel":
            scene = with_importance(scene, card, self._judged.get(about, (None, _UNKNOWN))[1])
        left_out = len(scene.groups) - len(scene.places) if page == "scatter" else 0
        self._show_scene(scene, _said(len(runs), len(scene.groups), left_out))
        if page == "parallel":
            self._judge(about, to_judge(scene))

    def _judge(self, about: tuple[str, str], results: Judged) -> None:
        """Asks Optuna about new results in a thread, one question at a time: it takes up to a second. What it said of
        earlier ones is shown meanwhile."""
        if self._judging or self._judged.get(about, (None, _UNKNOWN))[0] == results:
            return
        self._judging = True

        def keep(found: Importance) -> None:
            self._judged[about] = results, found
            self._judging, self._answered = False, True
            self.refresh()

        def failed(problems: tuple[Problem, ...]) -> None:
            keep(Importance({}, 0, problems[0].text))

        call_elsewhere(self, "optuna", partial(importance_of, *results), keep, failed)

    def _runs(self) -> list[RunModel]:
        """The ticked runs or all listed ones, those that recorded something; without range tests, whose values are of
        many rates."""
        model = self._controller.model
        ticked, every = set(model.shown()), self.sets.current() == "listed"
        found = model.listed_runs() if every else [run for run in model.runs() if run.id in ticked]
        found = [run for run in found if run.spec.rate_range is None]
        return [run for run in found if run.history.fold.step or run.history.metrics]

    def _offer(self, card: ExerciseCard, runs: list[RunModel]) -> None:
        """Offers the exercise's metrics, and the settings that differ; what was chosen stays while it is there."""
        headline = headline_metric(card)
        metrics = sorted(card.metrics, key=lambda one: one is not headline)
        names = [one.name for one in differences([settings_of(run.spec, card) for run in runs])]
        settings = [(name, label_of(name, card)) for name in names]
        reached = ((STEPS_TO, "Steps to the target"), (SECONDS_TO, "Seconds to the target"))
        x = sorted((one for one in settings if one[0] != SEED), key=lambda one: one[0] != LEARNING_RATE) or [
            (LEARNING_RATE, label_of(LEARNING_RATE, card))
        ]
        self._filling, self._exercise = True, card.id
        self._logarithmic = {name for plot in card.plots if plot.log for name in plot.metrics}
        self._fill(self.value, [(one.name, one.label) for one in metrics])
        self._fill(self.colour, [("", "Each run"), (RESULT, "Result"), *settings])
        self._fill(self.across, [*x, *reached])
        self._show_scale()
        self._show_axis()
        self._filling = False

    def _show_scene(self, scene: CompareScene, caption: str) -> None:
        """Show the picture and the table; ``caption`` says how many runs are compared."""
        before, self.scene = self.scene, scene
        self.caption.set_text(caption)
        self.files.setEnabled(bool(scene.groups))
        self.canvas.lift("")
        self.canvas.show_chart(partial(CompareChart, scene, self.page()))
        if before is None or before.table != scene.table or _inks(before) != _inks(scene):
            self.table.fill(scene.table)
            self._tint()
            self.table.resizeColumnToContents(0)  # the swatches take room as well

    def _tint(self) -> None:
        icons: dict[object, QIcon] = {}
        for number, group in enumerate(self.scene.groups if self.scene is not None else ()):
            item = self.table.item(number, 0)
            if item is not None:
                if group.ink not in icons:
                    icons[group.ink] = self._swatch(number)
                item.setIcon(icons[group.ink])

    def _swatch(self, number: int) -> QIcon:
        picture = blank(_SWATCH)
        if self.scene is not None:
            painter = QPainter(picture)
            painter.setPen(pen_of(ink_stroke(self.scene.groups[number].ink, self._appearance.theme, 2.6)))
            painter.drawLine(0, _SWATCH.height() // 2, _SWATCH.width(), _SWATCH.height() // 2)
            painter.end()
        return QIcon(picture)

    def _selected(self) -> str:
        found = {index.row() for index in self.table.selectedIndexes()}
        return str(min(found)) if found else ""

    def _point(self, number: int) -> None:
        item = self.table.item(number, 0) if number >= 0 else None
        if item is not None:
            self.table.scrollToItem(item)

    def _choose(self, number: int) -> None:
        if self.scene is not None and 0 <= number < len(self.scene.groups):
            self._controller.select(self.scene.groups[number].runs[0].id)
            self.table.selectRow(number)

    def retheme(self) -> None:
        """Tint the swatches again."""
        self._tint()

    # --- Files --------------------------------------------------------------------------------------------------------

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        card = self._controller.model.card
        if self.scene is None:
            return
        if kind == "csv":
            path.write_text(csv_text(self.scene.table), encoding="utf-8", newline="\n")
        else:
            title = f"{card.title}: {self.scene.metric.label}"
            theme = self._appearance.theme
            write_page(path, compare_page(self.scene, self.page(), title, theme, SIZES), kind)


def _compared(run: RunModel, card: ExerciseCard, style: int) -> ComparedRun:
    name, settings = words.name_of(run), settings_of(run.spec, card)
    return ComparedRun(run.id, run.number, name, settings, run.history, _version(run), style)


def _version(run: RunModel) -> tuple[object, ...]:
    fold = run.history.fold
    return id(run.history), fold.attempt, fold.step, run.state


def _said(runs: int, groups: int, left_out: int = 0) -> str:
    """``12 runs, 4 groups``; and how many of these have no place in the picture: no result, or 0 on a logarithmic
    axis."""
    said = [f"{runs} run{'' if runs == 1 else 's'}"]
    said += [f"{groups} groups"] if groups < runs else []
    said += [f"{left_out} not shown"] if left_out else []
    return ", ".join(said)


def _inks(scene: CompareScene) -> list[object]:
    return [group.ink for group in scene.groups]
