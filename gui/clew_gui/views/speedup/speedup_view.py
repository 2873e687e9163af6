"""The Speed-up tab: which scaling is shown, its sentence, both plots, the table, and the button that measures."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QLineEdit,
    QSizePolicy,
    QWidget,
)

from clew_gui.charts.kit.lines import LinesChart
from clew_gui.charts.speedup import SpeedupScene
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.form.fields import NumberEdit
from clew_gui.views.theme.parts import (
    PICTURES,
    Appearance,
    Button,
    Elided,
    Glyph,
    IconButton,
    Segments,
    column,
    export_button,
    frame,
    label,
    lay_out_now,
    row,
    scrolling,
    set_role,
)
from clew_gui.views.theme.tables import ReadOnlyTable
from clew_shared.params import ParamSpec

KINDS = (("strong", "Strong scaling"), ("weak", "Weak scaling"))
_KIND_TIPS = {
    "strong": "One batch is divided among the devices: how much sooner is the same work done?",
    "weak": "Each device gets a whole batch: how much more work is done in the same time?",
}
REPEATS = ParamSpec(
    name="repeats",
    kind="int",
    label="Repeats",
    default=3,
    ge=1,
    le=20,
    help="How often each number of devices is measured. The intervals come from the repeats.",
)
COUNTS = ParamSpec(
    name="counts",
    kind="int",
    label="Devices",
    default=1,
    ge=1,
    le=1024,
    help="The numbers of devices, or of nodes, to measure, such as 1, 2, 4. Empty: those that are shown.",
)
_NARROW = 560
_NAMED = 780
"""The width from which on the number of repeats has its name beside it."""


class SpeedupView(QWidget):
    """Shows what one scaling study of the open exercise measured."""

    kind_chosen = Signal(str)
    """Asks to show "strong" or "weak" scaling."""
    measure_asked = Signal()
    """Start a study."""
    study_edited = Signal()
    export_asked = Signal(str)
    """Asks to write "png", "svg" or "csv"."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        inside = QWidget()
        inside.setObjectName("canvas")
        self._rest = QWidget()
        self._rest.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        parts = (self._bar(), self._banner(), self._plots(), self._table_card(), self._rest)
        whole = column(*parts, gap=10, margins=(16, 12, 16, 12), parent=inside)
        whole.setStretchFactor(self._pair, 1)
        area = scrolling(inside, takes_focus=True)
        column(area, gap=0, parent=self)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _bar(self) -> QWidget:
        appearance = self._appearance
        self.kinds = Segments(KINDS, "strong", "Scaling")
        for key, _ in KINDS:
            self.kinds.button(key).setToolTip(_KIND_TIPS[key])
        self.kinds.chosen.connect(self.kind_chosen)
        self.progress = Elided("", "caption", "2")
        self.progress.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.repeats = NumberEdit(REPEATS)
        self.repeats.set_value(REPEATS.default)
        self.repeats.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.repeats.setFixedWidth(44)
        self.repeats.setAccessibleName(REPEATS.label)
        self.repeats.setToolTip(REPEATS.help)
        self.repeats.edited.connect(self.study_edited)
        self.counts = QLineEdit()
        self.counts.setFixedWidth(92)
        self.counts.setAccessibleName("Numbers of devices")
        self.counts.setToolTip(COUNTS.help)
        self.counts.textChanged.connect(self.study_edited)
        self._name = label(REPEATS.label, "body", "2")
        self._name.setBuddy(self.repeats)
        self.measure = Button(appearance, "Measure", "primarySmall", "play")
        self.measure.clicked.connect(self.measure_asked)
        kinds = {**PICTURES, "csv": "The table, CSV…"}
        self.export = export_button(appearance, "Export the speed-up", kinds, self.export_asked.emit)
        self._bar_box = QWidget()
        self._bar_box.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        fields = (self.counts, self._name, self.repeats)
        row(self.kinds, self.progress, *fields, self.measure, self.export, gap=8, parent=self._bar_box)
        return self._bar_box

    def _banner(self) -> QFrame:
        self.sentence = label("", "subtitle", wrap=True)
        self.detail = label("", "body", "2", wrap=True)
        self._glyph = Glyph(self._appearance, "info", "accent", 18)
        head = row(self._glyph, column(self.sentence, self.detail, gap=3), gap=12, margins=(16, 10, 16, 11))
        head.setStretch(1, 1)
        self.note = frame("note", head)
        self.note.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        return self.note

    def _plots(self) -> QWidget:
        self.canvases = tuple(ChartView(self._appearance, name, least=150) for name in ("Speed-up", "Efficiency"))
        self._heads = (label("", "subtitle"), label("", "subtitle"))
        self._captions = (Elided("", "caption", "2"), Elided("", "caption", "2"))
        self._pair = QWidget()
        self.box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._pair)
        self.box.setContentsMargins(0, 0, 0, 0)
        self.box.setSpacing(10)
        for head, caption, canvas, share in zip(self._heads, self._captions, self.canvases, (5, 4), strict=True):
            inside = column(row(head, caption, gap=8), canvas, gap=4, margins=(14, 10, 12, 8))
            inside.setStretchFactor(canvas, 1)
            self.box.addWidget(frame("card", inside), share)
        return self._pair

    def _table_card(self) -> QFrame:
        self._title = label("", "subtitle")
        self._caption = Elided("", "caption", "2")
        copy = IconButton(self._appearance, "copy", "Copy the table", "Copy the table, for a spreadsheet")
        self.table = ReadOnlyTable("Speed-up by number of devices", whole=True)
        copy.clicked.connect(self.table.copy)
        head = row(self._title, self._caption, copy, gap=8)
        self._table_frame = frame("card", column(head, self.table, gap=4, margins=(14, 8, 8, 8)))
        self._table_frame.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        return self._table_frame

    # --- Showing ------------------------------------------------------------------------------------------------------

    def show_scene(self, scene: SpeedupScene, progress: str, when: str) -> None:
        """Show what a study measured: how far it is, and when it was done."""
        set_role(self.note, "warnNote" if scene.conclusion.shared else "note")
        self._glyph.set_glyph("info", "warn" if scene.conclusion.shared else "accent")
        self.sentence.setText(scene.conclusion.sentence)
        self.detail.setText(scene.conclusion.detail)
        self.detail.setVisible(bool(scene.conclusion.detail))
        self.progress.set_text(progress)
        measured = bool(scene.plots)
        self._pair.setVisible(measured)
        self._rest.setVisible(not measured)
        self._table_frame.setVisible(measured)
        self.export.setEnabled(measured)
        for plot, head, caption, canvas in zip(scene.plots, self._heads, self._captions, self.canvases, strict=False):
            head.setText(plot.title)
            caption.set_text(plot.caption)
            canvas.setAccessibleName(plot.title)
            canvas.show_chart(partial(LinesChart, plot, names=canvas is self.canvases[0]))
        self._title.setText(scene.title)
        self._caption.set_text(", ".join(filter(None, (scene.caption, when))))
        self.table.fill(scene.table)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Puts the plots above each other if they would be too narrow."""
        super().resizeEvent(event)
        narrow = self.width() < _NARROW
        self.box.setDirection(QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight)
        self._name.setVisible(not narrow and self.width() >= _NAMED)
        self.counts.setVisible(not narrow)
        lay_out_now(self._bar_box, self)
