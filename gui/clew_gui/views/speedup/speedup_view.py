"""The Speed-up tab: which scaling is shown, its sentence, both plots, the table, and the button that measures."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QFrame,
    QHeaderView,
    QMenu,
    QScrollArea,
    QSizePolicy,
    QSpinBox,
    QTableWidget,
    QTableWidgetItem,
    QToolButton,
    QWidget,
)

from clew_gui.plotting.speedup import SpeedupScene
from clew_gui.views.form.fields import keep_from_wheel
from clew_gui.views.speedup.scaling_canvas import ScalingCanvas
from clew_gui.views.theme.parts import (
    Appearance,
    Button,
    Elided,
    Glyph,
    IconButton,
    Segments,
    column,
    frame,
    label,
    row,
    set_role,
)

KINDS = (("strong", "Strong scaling"), ("weak", "Weak scaling"))
_KIND_TIPS = {
    "strong": "One batch is divided among the devices: how much sooner is the same work done?",
    "weak": "Each device gets a whole batch: how much more work is done in the same time?",
}
MOST_REPEATS = 20
_NARROW = 640


class SpeedupView(QWidget):
    """What one scaling study of the open exercise measured."""

    kind_chosen = Signal(str)
    """Show "strong" or "weak" scaling."""
    measure_asked = Signal(int)
    """Start a study with so many repeats."""
    export_asked = Signal(str)
    """Write "png", "svg" or "csv"."""

    def __init__(self, look: Appearance) -> None:
        super().__init__()
        self._look = look
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        inside = QWidget()
        inside.setObjectName("canvas")
        whole = column(self._bar(), self._banner(), self._plots(), self._table_card(), gap=10, parent=inside)
        whole.setContentsMargins(16, 12, 16, 12)
        whole.setStretchFactor(self._pair, 1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inside)
        column(area, gap=0, parent=self)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _bar(self) -> QWidget:
        look = self._look
        self.kinds = Segments(KINDS, "strong", "Scaling")
        for key, _ in KINDS:
            self.kinds.button(key).setToolTip(_KIND_TIPS[key])
        self.kinds.chosen.connect(self.kind_chosen)
        self.when = Elided("", "caption", "2")
        self.when.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.repeats = QSpinBox()
        self.repeats.setRange(1, MOST_REPEATS)
        self.repeats.setValue(3)
        self.repeats.setSuffix("×")
        self.repeats.setFixedWidth(64)
        self.repeats.setAccessibleName("Repeats")
        self.repeats.setToolTip("How often each number of devices is measured: the intervals come from the repeats")
        keep_from_wheel(self.repeats)
        self.measure = Button(look, "Measure", "primarySmall", "play")
        self.measure.clicked.connect(lambda: self.measure_asked.emit(self.repeats.value()))
        self.export = IconButton(look, "export", "Export the speed-up", "Export as PNG, SVG or CSV")
        self.export.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self.export)
        for kind, text in (("png", "As a picture, PNG…"), ("svg", "As a drawing, SVG…"), ("csv", "The table, CSV…")):
            menu.addAction(text).triggered.connect(lambda _checked=False, kind=kind: self.export_asked.emit(kind))
        self.export.setMenu(menu)
        bar = QWidget()
        row(self.kinds, self.when, self.repeats, self.measure, self.export, gap=8, parent=bar)
        return bar

    def _banner(self) -> QFrame:
        self.sentence = label("", "subtitle", wrap=True)
        self.detail = label("", "body", "2", wrap=True)
        self._glyph = Glyph(self._look, "info", "accent", 18)
        said = row(self._glyph, column(self.sentence, self.detail, gap=3), gap=12, margins=(16, 10, 16, 11))
        said.setStretch(1, 1)
        self._note = frame("note", said)
        self._note.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        return self._note

    def _plots(self) -> QWidget:
        self.canvases = (ScalingCanvas(self._look, names=True), ScalingCanvas(self._look, names=False))
        self._heads = (label("", "subtitle"), label("", "subtitle"))
        self._captions = (Elided("", "caption", "2"), Elided("", "caption", "2"))
        self._pair = QWidget()
        self._box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._pair)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(10)
        for head, caption, canvas, share in zip(self._heads, self._captions, self.canvases, (5, 4), strict=True):
            inside = column(row(head, caption, gap=8), canvas, gap=4, margins=(14, 10, 12, 8))
            inside.setStretchFactor(canvas, 1)
            self._box.addWidget(frame("card", inside), share)
        return self._pair

    def _table_card(self) -> QFrame:
        self._title = label("", "subtitle")
        self._caption = Elided("", "caption", "2")
        copy = IconButton(self._look, "copy", "Copy the table", "Copy the table, for a spreadsheet")
        copy.clicked.connect(self.copy_table)
        self.table = QTableWidget()
        self.table.setFrameShape(QFrame.Shape.NoFrame)
        self.table.setAccessibleName("Speed-up by number of devices")
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setShowGrid(False)
        self.table.setTabKeyNavigation(False)
        self.table.verticalHeader().hide()
        self.table.horizontalHeader().setHighlightSections(False)
        self.table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        head = row(self._title, self._caption, copy, gap=8)
        self._table_frame = frame("card", column(head, self.table, gap=4, margins=(14, 8, 8, 8)))
        self._table_frame.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        return self._table_frame

    # --- Showing ------------------------------------------------------------------------------------------------------

    def show_scene(self, scene: SpeedupScene, when: str) -> None:
        """Show what a study measured; ``when`` it was done."""
        shared = "share" in scene.conclusion.sentence
        set_role(self._note, "warnNote" if shared else "note")
        self._glyph.set_glyph("info", "warn" if shared else "accent")
        self.sentence.setText(scene.conclusion.sentence)
        self.detail.setText(scene.conclusion.detail)
        self.detail.setVisible(bool(scene.conclusion.detail))
        self.when.set_text(when)
        measured = bool(scene.plots)
        self._pair.setVisible(measured)
        self._table_frame.setVisible(measured)
        self.export.setEnabled(measured)
        for plot, head, caption, canvas in zip(scene.plots, self._heads, self._captions, self.canvases, strict=False):
            head.setText(plot.title)
            caption.set_text(plot.caption)
            canvas.show_plot(plot)
        self._title.setText(scene.title)
        self._caption.set_text(scene.caption)
        self._fill(scene.table)

    def _fill(self, rows: Sequence[Sequence[str]]) -> None:
        heads, cells = rows[0], rows[1:]
        self.table.setColumnCount(len(heads))
        self.table.setRowCount(len(cells))
        right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        for place, text in enumerate(heads):
            self.table.setHorizontalHeaderItem(place, _item(text, right))
        for number, texts in enumerate(cells):
            for place, text in enumerate(texts):
                self.table.setItem(number, place, _item(text, right))
        height = self.fontMetrics().height() + 11
        self.table.verticalHeader().setDefaultSectionSize(height)
        head = self.table.horizontalHeader().sizeHint().height()
        self.table.setFixedHeight(head + height * len(cells) + 2)

    def copy_table(self) -> None:
        """The table to the clipboard, with tabs between its columns."""
        heads = [self.table.horizontalHeaderItem(k) for k in range(self.table.columnCount())]
        lines = [[item.text() for item in heads if item is not None]]
        for number in range(self.table.rowCount()):
            cells = [self.table.item(number, k) for k in range(self.table.columnCount())]
            lines.append([item.text() for item in cells if item is not None])
        QGuiApplication.clipboard().setText("\n".join("\t".join(line) for line in lines))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Plots above each other where they would be too narrow."""
        super().resizeEvent(event)
        narrow = self.width() < _NARROW
        self._box.setDirection(QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight)


def _item(text: str, alignment: Qt.AlignmentFlag) -> QTableWidgetItem:
    item = QTableWidgetItem(text)
    item.setTextAlignment(alignment)
    return item
