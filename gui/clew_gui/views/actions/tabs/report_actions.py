"""Joins the Report tab to the window: which runs are offered, the report itself, the files, and the guide's answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QObject

from clew_gui.base.student import keep_student, student_name
from clew_gui.jobs.job_book import job_book
from clew_gui.reports.answers import keep_answer, read_answers
from clew_gui.reports.facts import RunSource, read_source
from clew_gui.reports.handin import file_name, write_handin
from clew_gui.reports.page import LabReport, render, report_of
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.files import ask_and_write, write_and_report
from clew_gui.views.presentation import words
from clew_gui.views.report.report_view import OfferedRun, ReportView
from clew_gui.views.sites.background import BackgroundWork, call_elsewhere
from clew_gui.views.window.window import REPORT_TAB, MainWindow
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.lifecycle import TERMINAL

_KINDS = {"html": "Web page (*.html)", "pdf": "PDF (*.pdf)"}
Made = tuple[LabReport, list[RunSource]]


class ReportActions(QObject):
    """Serves the tab *Report* of one window. Its widgets are made when it is first shown; reports are made in a
    thread."""

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window)
        self._window, self._controller, self._places = window, controller, places
        self._view: ReportView | None = None
        self._offered: object = None
        self._work: BackgroundWork[Made] | None = None
        self.made: Made | None = None
        self._answers: dict[str, Mapping[str, str]] = {}
        window.guide.answers_of = self.answers
        controller.scope.board.answers_of = self._kept
        window.guide.answered.connect(self.answer)
        window.head.tab_chosen.connect(lambda _tab: self.refresh())
        controller.curves_changed.connect(self.refresh)
        controller.ticked_slowly.connect(self.refresh)

    @property
    def view(self) -> ReportView:
        """The tab's widgets."""
        if self._view is None:
            self._view = ReportView(self._window.appearance)
            self._view.changed.connect(self._chosen)
            self._view.file_asked.connect(self.save)
            self._view.hand_in_asked.connect(self.hand_in)
            self._view.guide_asked.connect(lambda: self._window.show_tab(0))
            self._window.put_view(REPORT_TAB, self._view)
        return self._view

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
        self._controller.panels.goals()
        self._controller.panels.progress()
        self._offered = None

    # --- Showing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Offer the runs of the open exercise; cheap if nothing changed, and nothing while out of sight."""
        scope = self._controller.scope
        if self._window.pages.currentIndex() != REPORT_TAB or scope.card is None:
            return
        runs = [run for run in scope.runs() if run.state in TERMINAL and not run.history.fold.replay_of]
        now = (scope.card.id, tuple((run.id, run.state, run.reading is None) for run in runs))
        if now == self._offered:
            return
        self._offered = now
        ticked = scope.board.report(scope.card, runs, scope.shown())
        offered = [OfferedRun(run.id, words.run_title(run, scope.card), run.id in ticked) for run in reversed(runs)]
        self.view.offer(offered, student_name(self._places))
        self._make()

    def _chosen(self) -> None:
        scope, ticked = self._controller.scope, set(self.view.chosen())
        if scope.card is not None and ticked != scope.board.choices(scope.card.id).report:
            scope.board.choose_report(scope.card.id, ticked)
        try:
            if self.view.name.text() != student_name(self._places):
                keep_student(self._places, self.view.name.text())
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
        self._make()

    def _make(self) -> None:
        """Read the runs in a thread; the last request wins."""
        scope, chosen = self._controller.scope, set(self.view.chosen())
        if self._work is not None:
            self._work.stop()
            self._work = None
        self.made = None
        folders = [run.folder for run in scope.runs() if run.id in chosen]
        if not folders or scope.card is None:
            offered = self.view.runs.count()
            self.view.show_nothing(
                "Tick the runs that belong in it." if offered else "A report needs a run that has ended."
            )
            return
        cards, places = {scope.card.id: scope.card}, self._places

        def make() -> Made:
            sources = [read_source(folder) for folder in folders]
            return report_of(places, sources, cards, student_name(places), job_book(places).words()), sources

        self._work = call_elsewhere(self, "report", make, self._show, self._failed)

    def _show(self, made: Made) -> None:
        self._work, self.made = None, made
        self.view.show_report(made[0])

    def _failed(self, problems: tuple[Problem, ...]) -> None:
        self._work = None
        self.view.show_nothing(" ".join(map(str, problems)))

    # --- Files --------------------------------------------------------------------------------------------------------

    def save(self, kind: str, path: Path | None = None) -> None:
        """Write the report as "html" or "pdf"; asks for the place when ``path`` is None."""
        if self.made is None:
            return
        report = self.made[0]

        def write(place: Path) -> None:
            from clew_gui.views.report.pdf import write_pdf

            if kind == "pdf":
                write_pdf(report, place)
            else:
                place.write_text(render(report), encoding="utf-8", newline="\n")

        if path is not None:
            write_and_report(self._window, path, write)
        else:
            ask_and_write(self._window, "Save the report", f"report.{kind}", _KINDS[kind], write)

    def hand_in(self, path: Path | None = None) -> None:
        """Write the bundle for the teacher; asks for the place when ``path`` is None."""
        if self.made is None:
            return
        report, sources = self.made

        def write(place: Path) -> None:
            write_handin(place, report, sources)

        if path is not None:
            write_and_report(self._window, path, write)
        else:
            ask_and_write(self._window, "Hand in", file_name(report.facts), "Hand-in (*.clew.zip)", write)
