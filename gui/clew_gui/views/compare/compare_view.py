"""The Compare tab: what is compared, the picture, and the table of groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QIcon, QPainter
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QSizePolicy,
    QSplitter,
    QWidget,
)

from clew_gui.charts.compare import RESULT, CompareChart, CompareOptions, CompareScene, Form, ink_stroke
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.painter import pen_of
from clew_gui.views.compare.compare_state import CompareState
from clew_gui.views.form.fields import NumberEdit, keep_from_wheel
from clew_gui.views.theme.parts import (
    PICTURES,
    Appearance,
    Elided,
    IconButton,
    Segments,
    blank,
    column,
    export_button,
    frame,
    label,
    row,
    set_role,
)
from clew_gui.views.theme.tables import ReadOnlyTable
from clew_shared.params import ParamSpec, convert

PAGES: tuple[tuple[Form, str], ...] = (("curves", "Curves"), ("scatter", "Scatter"), ("parallel", "Parallel"))
SETS = (("ticked", "Ticked"), ("listed", "All listed"))
TARGET = ParamSpec(name="target", kind="float", label="Target", default=None, optional=True)
_SWATCH = QSize(18, 12)


_LEAST_COMBO = 84
"""Pixels to which a choice shrinks before the row would push the panels beside it."""


class CompareView(QWidget):
    """Asks for another picture with ``changed``; the owner of the runs makes it."""

    changed = Signal()
    run_chosen = Signal(str)
    export_asked = Signal(str)
    """Asks to write "png", "svg" or "csv"."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.scene: CompareScene | None = None
        self._filling = False
        self._chosen: dict[QComboBox, str] = {}
        """The settings that a person chose last, kept also while another exercise lacks them."""
        self.scales: dict[str, bool] = {}
        """The scales that a person chose, by exercise and metric."""
        self._exercise = ""
        self._logarithmic: Collection[str] = ()
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.canvas = ChartView(appearance, "Comparison", least=170)
        self.canvas.picked.connect(lambda name: self._choose(int(name)))
        self.canvas.pointed.connect(lambda name: self._point(int(name or -1)))
        self.table = self._make_table()
        inside = column(self._first_row(), self._second_row(), self.canvas, gap=6, margins=(12, 8, 12, 6))
        inside.setStretchFactor(self.canvas, 1)
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
        kinds = {**PICTURES, "csv": "The table, CSV…"}
        self.export = export_button(self._appearance, "Export the comparison", kinds, self.export_asked.emit)
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
        row(self.pages, self.sets, self.repeats, None, copy, self.export, gap=4, parent=whole)
        return whole

    def _second_row(self) -> QWidget:
        self.value = self._combo("Value")
        self.colour = self._combo("Colour by")
        self.across = self._combo("X axis of the scatter")
        self.target = NumberEdit(TARGET)
        self.target.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.target.setFixedWidth(76)
        self.target.setAccessibleName("Target")
        self.target.setToolTip("The table shows the steps and seconds to this value; write 0.9 for 90 %")
        self.target.edited.connect(self._edited)
        self._x_word = label("X", "body", "2")
        words = [label(text, "body", "2") for text in ("Value", "Colour", "Target")]
        for word, field in zip(
            (*words, self._x_word), (self.value, self.colour, self.target, self.across), strict=True
        ):
            word.setBuddy(field)
        whole = QWidget()
        fields = (words[0], self.value, words[1], self.colour, self._x_word, self.across, words[2], self.target)
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
            scatter = self.pages.current() == "scatter"
            for widget in (self.across, self._x_word):
                widget.setVisible(scatter)
            self.changed.emit()

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

    def offer(
        self,
        exercise: str,
        metrics: Sequence[tuple[str, str]],
        settings: Sequence[tuple[str, str]],
        x: Sequence[tuple[str, str]],
        logarithmic: Collection[str] = (),
    ) -> None:
        """The exercise's metrics, and the settings that differ, by name and title; what was chosen stays while it is
        there. ``logarithmic`` are the metrics whose plots have a logarithmic scale."""
        self._filling = True
        self._exercise, self._logarithmic = exercise, logarithmic
        self._fill(self.value, metrics)
        self._fill(self.colour, [("", "Each run"), (RESULT, "Result"), *settings])
        self._fill(self.across, x)
        self._show_scale()
        for widget in (self.across, self._x_word):
            widget.setVisible(self.pages.current() == "scatter")
        self._filling = False

    def _fill(self, combo: QComboBox, choices: Sequence[tuple[str, str]]) -> None:
        if [(combo.itemData(k), combo.itemText(k)) for k in range(combo.count())] == list(choices):
            return
        combo.clear()
        for name, title in choices:
            combo.addItem(title, name)
        combo.setCurrentIndex(max(combo.findData(self._chosen.get(combo, "")), 0))

    # --- Showing ------------------------------------------------------------------------------------------------------

    def show_scene(self, scene: CompareScene, caption: str) -> None:
        """Show the picture and the table; ``caption`` says how many runs are compared."""
        before, self.scene = self.scene, scene
        self.caption.set_text(caption)
        self.export.setEnabled(bool(scene.groups))
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
            self.run_chosen.emit(self.scene.groups[number].runs[0].id)
            self.table.selectRow(number)

    def retheme(self) -> None:
        """Tint the swatches again."""
        self._tint()


def _inks(scene: CompareScene) -> list[object]:
    return [group.ink for group in scene.groups]
