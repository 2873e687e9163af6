"""The Report tab: whose report it is, which runs are in it, how it will read, and the files that it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QResizeEvent, QTextDocument, QTextOption
from PySide6.QtWidgets import QLineEdit, QListWidget, QListWidgetItem, QTextBrowser, QWidget

from clew_gui.reports.figures import WIDTH as FIGURE
from clew_gui.reports.page import LabReport, render
from clew_gui.views.report.pdf import figure_image
from clew_gui.views.theme.parts import Appearance, Button, Elided, column, export_button, frame, label, panel, row
from clew_shared.base.harmless import for_tooltip
from clew_shared.spec import MAX_NAME

_HAND_IN_TIP = "Write one file for your teacher: the report and the journals that prove it"
_SIDE = 232
_MARGIN = 22
_RUN = Qt.ItemDataRole.UserRole
_PAPER = "QTextBrowser { background: #FFFFFF; color: #18202B; border: none; border-radius: 8px; }"


class OfferedRun(NamedTuple):
    """A run that can be in the report."""

    id: str
    title: str
    ticked: bool


class ReportView(QWidget):
    """Shows what will be handed in. It computes nothing."""

    changed = Signal()
    """Emitted when other runs are chosen or the name changes."""
    file_asked = Signal(str)
    """Write "html" or "pdf"."""
    hand_in_asked = Signal()
    guide_asked = Signal()

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._quiet = False
        self._report: LabReport | None = None
        self._width = 0
        self.page = QTextBrowser()
        self.page.setOpenLinks(False)
        self.page.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.page.setStyleSheet(_PAPER)
        self.page.setAccessibleName("The report as it will read")
        self.page.document().setDocumentMargin(_MARGIN)
        self.page.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        whole = column(self._bar(appearance), gap=10, margins=(16, 12, 16, 12), parent=self)
        body = row(self._side(appearance), gap=12)
        body.addWidget(self.page, 1)
        whole.addLayout(body, 1)

    def _bar(self, appearance: Appearance) -> QWidget:
        self.sentence = Elided("", "body", "2")
        self.hand_in = Button(appearance, "Hand in…", "primarySmall", "export", _HAND_IN_TIP)
        self.hand_in.clicked.connect(self.hand_in_asked)
        kinds = {"html": "As one web page, HTML…", "pdf": "For paper, PDF…"}
        self.export = export_button(appearance, "Save the report", kinds, self.file_asked.emit)
        box = QWidget()
        row(self.sentence, self.hand_in, self.export, gap=8, parent=box)
        return box

    def _side(self, appearance: Appearance) -> QWidget:
        self.name = QLineEdit()
        self.name.setMaxLength(MAX_NAME)
        self.name.setPlaceholderText("First and last name")
        self.name.setAccessibleName("Your name")
        self.name.setToolTip("Runs that you start from now on carry this name. Only you can hand them in.")
        self.name.editingFinished.connect(self._report_change)
        name = label("Your name", "subtitle")
        name.setBuddy(self.name)
        self.runs = QListWidget()
        self.runs.setAccessibleName("Runs in the report")
        self.runs.itemChanged.connect(lambda _item: self._report_change())
        self.questions = label("", "caption", "2", wrap=True)
        self._guide = Button(appearance, "Open the guide", "quiet", "script")
        self._guide.clicked.connect(self.guide_asked)
        runs = label("Runs", "subtitle")
        parts = (name, self.name, 6, runs, self.runs, self.questions, self._guide)
        inside = column(*parts, gap=6, margins=(14, 12, 14, 12))
        inside.setStretchFactor(self.runs, 1)
        side = panel()
        side.setFixedWidth(_SIDE)
        column(frame("card", inside), gap=0, parent=side)
        return side

    def _report_change(self) -> None:
        if not self._quiet:
            self.changed.emit()

    # --- Showing ------------------------------------------------------------------------------------------------------

    def offer(self, runs: Sequence[OfferedRun], name: str) -> None:
        """The runs that can be in the report, the ticked ones in it; and the name, unless someone is writing it."""
        self._quiet = True
        self.runs.clear()
        for run in runs:
            item = QListWidgetItem(run.title)
            item.setData(_RUN, run.id)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(Qt.CheckState.Checked if run.ticked else Qt.CheckState.Unchecked)
            item.setToolTip(for_tooltip(run.title))
            self.runs.addItem(item)
        if not self.name.hasFocus():
            self.name.setText(name)
        self._quiet = False

    def chosen(self) -> list[str]:
        """The ids of the runs that are ticked."""
        items = (self.runs.item(place) for place in range(self.runs.count()))
        return [item.data(_RUN) for item in items if item.checkState() is Qt.CheckState.Checked]

    def show_nothing(self, why: str) -> None:
        """Shows that there is no report; ``why`` says what to do."""
        self.sentence.set_text(why)
        self._report = None
        self.page.clear()
        self.page.setPlainText(why)
        self._allow(False, why)
        self._ask(0, 0)

    def show_report(self, report: LabReport) -> None:
        """Shows how the report will read."""
        facts = report.facts
        reached, runs = sum(goal.reached for goal in facts.goals), len(facts.runs)
        goals = f"{reached} of {len(facts.goals)} goals reached in " if facts.goals else ""
        self.sentence.set_text(f"{goals}{runs} run{'' if runs == 1 else 's'}. Everything here comes from the journals.")
        self._report, self._width = report, 0
        self._lay_out()
        self._allow(True, "")
        if not facts.student:
            self.hand_in.allow(False, "Write your name first; it goes into the hand-in")
        answers = [answer for one in facts.exercises for answer in one.answers]
        self._ask(sum(bool(answer.text) for answer in answers), len(answers))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Figures are as wide as the page."""
        super().resizeEvent(event)
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(240, self.page.viewport().width() - 2 * _MARGIN - 14)
        if self._report is not None and abs(width - self._width) > _MARGIN:
            self._width, place = width, self.page.verticalScrollBar().value()
            shown, kind = min(width, FIGURE), QTextDocument.ResourceType.ImageResource.value
            self.page.document().clear()
            for number, figure in enumerate(self._report.all_figures):
                image = figure_image(figure, round(shown * self.devicePixelRatioF()))
                image.setDevicePixelRatio(self.devicePixelRatioF())
                self.page.document().addResource(kind, QUrl(f"figure:{number}"), image)
            self.page.setHtml(render(self._report, for_print=True, figure_width=shown))
            self.page.verticalScrollBar().setValue(place)

    def _allow(self, allowed: bool, why: str) -> None:
        self.hand_in.allow(allowed, why)
        self.export.setEnabled(allowed)

    def _ask(self, answered: int, asked: int) -> None:
        self.questions.setText(f"{answered} of {asked} questions of the guide are answered." if asked else "")
        self.questions.setVisible(asked > 0)
        self._guide.setVisible(asked > 0)
