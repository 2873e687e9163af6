"""Joins the Report tab to the window: which runs are offered, the report itself, the files, and the guide's answers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from clew_gui.base.student import keep_student, student_name
from clew_gui.jobs.job_book import job_book
from clew_gui.reports.answers import keep_answer, read_answers
from clew_gui.reports.facts import RunSource, read_source
from clew_gui.reports.handin import file_name, write_handin
from clew_gui.reports.page import LabReport, render, report_of
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.files import ask_and_write
from clew_gui.views.actions.panel_updater import Change
from clew_gui.views.actions.tabs.tab import Tab
from clew_gui.views.presentation import words
from clew_gui.views.report.report_view import OfferedRun, ReportView
from clew_gui.views.sites.background import BackgroundWork, call_elsewhere
from clew_gui.views.window.window import REPORT_TAB, MainWindow
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.journal.lifecycle import TERMINAL

Made = tuple[LabReport, list[RunSource]]


class ReportActions(Tab[ReportView]):
    """The tab *Report*: which runs are offered, the report, which is made in a thread, and the guide's answers."""

    NUMBER = REPORT_TAB
    EXPORT = "Save the report", "report"
    FILES: ClassVar = {"html": "Web page (*.html)", "pdf": "PDF (*.pdf)"}

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller)
        self._places = places
        self._work: BackgroundWork[Made] | None = None
        self.made: Made | None = None
        self._answers: dict[str, Mapping[str, str]] = {}
        window.guide.answers_of = self.answers
        controller.model.results.answers_of = self._kept
        window.guide.answered.connect(self.answer)

    def make_view(self) -> ReportView:
        """Makes the tab's widgets."""
        view = ReportView(self._window.appearance)
        view.changed.connect(self._chosen)
        view.file_asked.connect(self.export)
        view.hand_in_asked.connect(self.hand_in)
        view.guide_asked.connect(lambda: self._window.show_tab(0))
        return view

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
        ticked = model.report(runs)
        offered = [OfferedRun(run.id, words.run_title(run, model.card), run.id in ticked) for run in reversed(runs)]
        self.view.offer(offered, student_name(self._places))
        self._make()

    def _chosen(self) -> None:
        model, ticked = self._controller.model, set(self.view.chosen())
        if ticked != model.choices.report:
            model.choose_report(ticked)
        try:
            if self.view.name.text() != student_name(self._places):
                keep_student(self._places, self.view.name.text())
        except ProblemError as error:
            self._window.messages.show_problems(error.problems)
        self._make()

    def _make(self) -> None:
        """Read the runs in a thread; the last request wins."""
        model, chosen = self._controller.model, set(self.view.chosen())
        if self._work is not None:
            self._work.stop()
            self._work = None
        self.made = None
        folders = [run.folder for run in model.runs() if run.id in chosen]
        if not folders:
            offered = self.view.runs.count()
            self.view.show_nothing(
                "Tick the runs that belong in it." if offered else "A report needs a run that has ended."
            )
            return
        cards, places = {model.card.id: model.card}, self._places

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

    def export(self, kind: str, path: Path | None = None) -> None:
        """Write the report that is shown now, also if another one is made while the place is asked for."""
        if self.made is None:
            return
        report, (title, name) = self.made[0], self.EXPORT

        def write(place: Path) -> None:
            from clew_gui.views.report.pdf import write_pdf

            if kind == "pdf":
                write_pdf(report, place)
            else:
                place.write_text(render(report), encoding="utf-8", newline="\n")

        ask_and_write(self._window, title, f"{name}.{kind}", self.FILES[kind], write, path)

    def hand_in(self, path: Path | None = None) -> None:
        """Write the bundle for the teacher; asks for the place when ``path`` is None."""
        if self.made is None:
            return
        report, sources = self.made

        def write(place: Path) -> None:
            write_handin(place, report, sources)

        ask_and_write(self._window, "Hand in", file_name(report.facts), "Hand-in (*.clew.zip)", write, path)
