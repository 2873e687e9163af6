"""The Report tab: whose report it is, which runs are in it, how it will read, and the files that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from PySide6.QtCore import QSignalBlocker, Qt, QUrl
from PySide6.QtGui import QResizeEvent, QTextDocument, QTextOption
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QTextBrowser, QWidget

from clew_gui.base.student import keep_student, student_name
from clew_gui.jobs.job_book import job_book
from clew_gui.reports.facts import ReportFacts, RunSource, keep_answer, read_answers, read_source
from clew_gui.reports.figures import WIDTH as FIGURE
from clew_gui.reports.handin import file_name, write_handin
from clew_gui.reports.page import LabReport, render, report_of
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.files import ask_and_write
from clew_gui.views.actions.panel_updater import Change
from clew_gui.views.form.fields import text_field
from clew_gui.views.presentation import words
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.sites.background import BackgroundWork, call_elsewhere
from clew_gui.views.tabs.pdf import figure_image, write_pdf
from clew_gui.views.tabs.tab import Tab
from clew_gui.views.theme.dialog import Question
from clew_gui.views.theme.parts import Button, Elided, Panel, column, frame, label, row
from clew_gui.views.window.window import MainWindow
from clew_shared.base.harmless import for_tooltip
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.spec import MAX_NAME

_HAND_IN_TIP = "Write one file for your teacher: the report and the journals that prove it"
_SIDE = 232
_MARGIN = 22
_RUN = Qt.ItemDataRole.UserRole
_PAPER = "QTextBrowser { background: #FFFFFF; color: #18202B; border: none; border-radius: 8px; }"


Made = tuple[LabReport, list[RunSource]]


class ReportTab(Tab):
    """Shows what will be handed in, which is made in a thread, and keeps the guide's answers."""

    entry = Action("report", "Re&port", "Ctrl+6", "Your report, and the file to hand in")
    EXPORT = "Save the report", "report"
    FILES: ClassVar = {"html": "Web page (*.html)", "pdf": "PDF (*.pdf)"}
    KINDS: ClassVar = {"html": "As one web page, HTML…", "pdf": "For paper, PDF…"}

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller, places)
        self._work: BackgroundWork[Made] | None = None
        self.made: Made | None = None
        self._page_of = ""
        """The exercise whose report the page shows, or is about to show."""
        self._answers: dict[str, Mapping[str, str]] = {}
        window.guide.answers_of = self.answers
        controller.model.results.answers_of = self._kept
        window.guide.answered.connect(self.answer)
        self._width = 0
        self.page = QTextBrowser()
        self.page.setOpenLinks(False)
        self.page.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.page.setStyleSheet(_PAPER)
        self.page.setAccessibleName("The report as it will read")
        self.page.document().setDocumentMargin(_MARGIN)
        self.page.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        whole = column(self._bar(), gap=10, margins=(16, 12, 16, 12), parent=self)
        body = row(self._side(), gap=12)
        body.addWidget(self.page, 1)
        whole.addLayout(body, 1)

    def _bar(self) -> QWidget:
        self.sentence = Elided("", "body", "2")
        self.pack = Button(self._appearance, "Hand in…", "primarySmall", "export", _HAND_IN_TIP)
        self.pack.clicked.connect(lambda: self.hand_in())
        self.files = self.files_button()
        box = QWidget()
        row(self.sentence, self.pack, self.files, gap=8, parent=box)
        return box

    def _side(self) -> QWidget:
        tip = "Runs that you start from now on carry this name. Only you can hand them in."
        self.name = text_field("Your name", "First and last name", tip)
        self.name.setMaxLength(MAX_NAME)
        self.name.editingFinished.connect(self._choose)
        name = label("Your name", "subtitle", of=self.name)
        self.runs = QListWidget()
        self.runs.setAccessibleName("Runs in the report")
        self.runs.itemChanged.connect(self._choose)
        self.questions = label("", "caption", "2", wrap=True)
        self._guide = Button(self._appearance, "Open the guide", "quiet", "script")
        self._guide.clicked.connect(lambda: self._window.show_tab(0))
        runs = label("Runs", "subtitle")
        parts = (name, self.name, 6, runs, self.runs, self.questions, self._guide)
        inside = column(*parts, gap=6, margins=(14, 12, 14, 12), grows=self.runs)
        side = Panel()
        side.setFixedWidth(_SIDE)
        column(frame("card", inside), gap=0, parent=side)
        return side

    # --- The guide's questions ----------------------------------------------------------------------------------------

    def answers(self, exercise: str) -> Mapping[str, str]:
        """Returns the answers so far; none if they cannot be read, and then the problem is shown."""
        try:
            self._answers[exercise] = read_answers(self._places, exercise)
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
            self._answers[exercise] = {}
        return self._answers[exercise]

    def _kept(self, exercise: str) -> Mapping[str, str]:
        return self._answers[exercise] if exercise in self._answers else self.answers(exercise)

    def answer(self, exercise: str, question: str, text: str) -> None:
        """Keep an answer."""
        try:
            keep_answer(self._places, exercise, question, text)
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
        self._answers.pop(exercise, None)
        self._controller.refresh(Change.ANSWERS)
        self._shown = None

    # --- Showing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Offer the runs of the open exercise; cheap if nothing changed, and nothing while out of sight."""
        model = self._controller.model
        if not self.in_sight():
            return
        runs = [run for run in model.runs() if run.state in TERMINAL and not run.history.fold.replay_of]
        now = (model.card.id, tuple((run.id, run.state, run.reading is None) for run in runs))
        if not self.is_new(now):
            return
        self._offer(runs, model.card)
        self._make()

    def _choose(self) -> None:
        model, ticked = self._controller.model, set(self.chosen())
        if ticked != model.choices.report:
            model.choose_report(ticked)
        try:
            if self.name.text() != student_name(self._places):
                keep_student(self._places, self.name.text())
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
        self._make()

    def _make(self) -> None:
        """Read the runs in a thread; the last request wins."""
        model, chosen = self._controller.model, set(self.chosen())
        if self._work is not None:
            self._work.stop()
            self._work = None
        self.made = None
        folders = [run.folder for run in model.runs() if run.id in chosen]
        if not folders:
            offered = self.runs.count()
            self._show_nothing(
                "Tick the runs that belong in it." if offered else "A report needs a run that has ended."
            )
            return
        if self._page_of != model.card.id:
            self._page_of = model.card.id
            self.page.setPlainText("The report is being made…")
            self.sentence.set_text("")
            self._allow(False, "The report is being made")
        cards, places = {model.card.id: model.card}, self._places

        def make() -> Made:
            sources = [read_source(folder) for folder in folders]
            return report_of(places, sources, cards, student_name(places), job_book(places).words()), sources

        self._work = call_elsewhere(self, "report", make, self._show, self._failed)

    def _offer(self, runs: list[RunModel], card: ExerciseCard) -> None:
        """The runs that can be in the report, those that it has ticked; and the name, unless someone is writing it."""
        model = self._controller.model
        ticked = model.report(runs)
        with QSignalBlocker(self.runs):
            self.runs.clear()
            for run in reversed(runs):
                title = words.run_title(run, card)
                item = QListWidgetItem(title)
                item.setData(_RUN, run.id)
                item.setFlags(
                    Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsUserCheckable
                )
                item.setCheckState(Qt.CheckState.Checked if run.id in ticked else Qt.CheckState.Unchecked)
                item.setToolTip(for_tooltip(title))
                self.runs.addItem(item)
        if not self.name.hasFocus():
            self.name.setText(student_name(self._places))

    def chosen(self) -> list[str]:
        """The ids of the runs that are ticked."""
        items = (self.runs.item(place) for place in range(self.runs.count()))
        return [item.data(_RUN) for item in items if item.checkState() is Qt.CheckState.Checked]

    def _show_nothing(self, why: str) -> None:
        """Shows that there is no report; ``why`` says what to do."""
        self._page_of = ""
        self.sentence.set_text(why)
        self.page.clear()
        self.page.setPlainText(why)
        self._allow(False, why)
        self._ask(0, 0)

    def _show(self, made: Made) -> None:
        self._work, self.made = None, made
        facts = made[0].facts
        reached, runs = sum(goal.reached for goal in facts.goals), len(facts.runs)
        goals = f"{reached} of {len(facts.goals)} goals reached in " if facts.goals else ""
        self.sentence.set_text(f"{goals}{runs} run{'' if runs == 1 else 's'}. Everything here comes from the journals.")
        self._width = 0
        self._lay_out()
        self._allow(True, "")
        if not facts.student:
            self.pack.allow(False, "Write your name first; it goes into the hand-in")
        answers = [answer for one in facts.exercises for answer in one.answers]
        self._ask(sum(bool(answer.text) for answer in answers), len(answers))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Figures are as wide as the page."""
        super().resizeEvent(event)
        self._lay_out()

    def _lay_out(self) -> None:
        width = max(240, self.page.viewport().width() - 2 * _MARGIN - 14)
        if self.made is not None and abs(width - self._width) > _MARGIN:
            report, self._width, place = self.made[0], width, self.page.verticalScrollBar().value()
            shown, kind = min(width, FIGURE), QTextDocument.ResourceType.ImageResource.value
            self.page.document().clear()
            for number, figure in enumerate(report.all_figures):
                image = figure_image(figure, round(shown * self.devicePixelRatioF()))
                image.setDevicePixelRatio(self.devicePixelRatioF())
                self.page.document().addResource(kind, QUrl(f"figure:{number}"), image)
            self.page.setHtml(render(report, for_print=True, figure_width=shown))
            self.page.verticalScrollBar().setValue(place)

    def _allow(self, allowed: bool, why: str) -> None:
        self.pack.allow(allowed, why)
        self.files.setEnabled(allowed)

    def _ask(self, answered: int, asked: int) -> None:
        self.questions.setText(f"{answered} of {asked} questions of the guide are answered." if asked else "")
        self.questions.setVisible(asked > 0)
        self._guide.setVisible(asked > 0)

    def _failed(self, problems: tuple[Problem, ...]) -> None:
        self._work = None
        self._show_nothing(" ".join(map(str, problems)))

    # --- Files --------------------------------------------------------------------------------------------------------

    def export(self, kind: str, path: Path | None = None) -> None:
        """Write the report that is shown now, also if another one is made while the place is asked for."""
        if self.made is None:
            return
        report, (title, name) = self.made[0], self.EXPORT

        def write(place: Path) -> None:
            if kind == "pdf":
                write_pdf(report, place)
            else:
                place.write_text(render(report), encoding="utf-8", newline="\n")

        ask_and_write(self._window, title, f"{name}.{kind}", self.FILES[kind], write, path)

    def hand_in(self, path: Path | None = None) -> None:
        """Write the bundle for the teacher; asks for the place when ``path`` is None, and before it whether to hand in
        what still lacks something."""
        if self.made is None:
            return
        report, sources = self.made

        def write(place: Path) -> None:
            write_handin(place, report, sources)

        def ask() -> None:
            if path is not None or not self._controller.hand_in(report, sources, save):
                save()

        def save() -> None:
            ask_and_write(self._window, "Hand in", file_name(report.facts), "Hand-in (*.clew.zip)", write, path)

        missing = lacks(report.facts) if path is None else ""
        if not missing:
            ask()
            return
        question = Question(self._window, self._appearance, "Hand in as it is?", missing, "Hand in…")
        question.accepted.connect(ask)
        question.open()


def lacks(facts: ReportFacts) -> str:
    """Says what a teacher will miss: answers, and the name in runs that were started before it was typed."""
    asked = [answer for one in facts.exercises for answer in one.answers]
    answered, nameless = sum(bool(one.text) for one in asked), sum(not run.student for run in facts.runs)
    questions = f"{answered} of {len(asked)} questions of the guide are answered." if answered < len(asked) else ""
    names = f"Runs that were started without your name: {nameless} of {len(facts.runs)}." if nameless else ""
    return words.join([questions, names], " ")
