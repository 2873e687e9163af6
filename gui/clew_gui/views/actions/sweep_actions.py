"""Joins sweeps and predictions to the window: their dialogs, the runs that a sweep asks for, and how it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from clew_gui.views.actions.controller import WindowController
from clew_gui.views.presentation import words
from clew_gui.views.presentation.interfaces import RunLike
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import STEPS
from clew_shared.spec import RunSpec
from clew_shared.study import StudySpec, study_runs

if TYPE_CHECKING:
    from clew_gui.session.kept_studies import Progress


class SweepActions(QObject):
    """One for each window."""

    def __init__(self, window: MainWindow, desk: WindowController, places: Places) -> None:
        super().__init__(window)
        self._window, self._desk, self._places = window, desk, places
        window.next_run.sweep_asked.connect(self.ask)
        window.next_run.predict_asked.connect(self.ask_prediction)

    def ask(self) -> None:
        """Open the dialog for the open exercise, with what is left of the selected run's sweep."""
        card = self._desk.scope.card
        if card is None or self._desk.scope.session is None:
            return
        from clew_gui.views.race.sweep_dialog import SweepDialog, Unfinished

        found = self.selected()
        before = None
        if found is not None:
            study, far = found
            said = f"{len(far.finished)} of {far.total} runs finished"
            left = bool(far.ended or far.missing)
            before = Unfinished(study.study, said, bool(far.under_way), left) if left or far.under_way else None
        base = self._window.next_run.spec()
        dialog = SweepDialog(self._window, self._window.look, card, base, self.forecast, before)
        dialog.started.connect(self.start)
        dialog.continued.connect(self.go_on)
        dialog.cancelled.connect(self.cancel)
        dialog.paused.connect(self.pause)
        dialog.open()

    def ask_prediction(self) -> None:
        """Open the board on which the expected curve of the next run is drawn."""
        card, form = self._desk.scope.card, self._window.next_run
        if card is None or not card.metrics:
            return
        from clew_gui.views.race.predict_dialog import PredictDialog

        usual = {param.name: param.default for param in card.params}
        steps = (usual | form.spec().params).get(STEPS)
        dialog = PredictDialog(self._window, self._window.look, card, steps if isinstance(steps, int) else 1000)
        dialog.drawn.connect(form.predicted)
        dialog.open()

    def forecast(self, specs: tuple[RunSpec, ...]) -> str:
        """What runs will take, judged by the run of the exercise that trained last."""
        from clew_gui.session.forecast import seconds_each  # it imports NumPy, which the first frame waits for

        card = self._desk.scope.card
        runs = sorted(self._desk.scope.runs(), key=lambda run: run.number, reverse=True)
        each = seconds_each(specs, card, [(run.spec, run.history) for run in runs]) if card is not None else []
        if not each:
            return f"{len(specs)} runs. How long they take is known after the first run."
        return f"{len(specs)} runs: about {words.about(sum(each))} one after the other, judged by an earlier run."

    def start(self, study: StudySpec) -> None:
        """Keep the study, then ask for its runs where the form says: on a site in one job."""
        from clew_gui.session.kept_studies import keep_study

        try:
            keep_study(self._places, study)
        except ProblemError as error:
            self._desk.refused(error)
            return
        specs = tuple(run.spec for run in study_runs(study))
        self._desk.start_where_chosen(specs, lambda place: self._desk.start_all(specs, place))

    # --- A sweep that was begun ---------------------------------------------------------------------------------------

    def selected(self) -> tuple[StudySpec, Progress] | None:
        """The sweep of the selected run with what is done of it; None where it belongs to none that is kept here."""
        from clew_gui.session.kept_studies import KnownRun, kept_study, progress

        run, card = self._desk.scope.run(), self._desk.scope.card
        study = kept_study(self._places, run.spec.study) if run is not None else None
        if study is None or card is None or study.sweep is None:
            return None
        return study, progress(study, card, [KnownRun(one.id, one.spec, one.state) for one in self._desk.scope.runs()])

    def go_on(self) -> None:
        """Do what is left: runs that ended early go on from their checkpoints, the missing ones begin."""
        found, session = self.selected(), self._desk.scope.session
        if found is None or session is None:
            return
        _, left = found
        place = None
        if left.missing and not left.ended:
            place = self._window.next_run.place(left.missing)
        try:
            session.continue_study(left.ended, left.missing, place)
        except ProblemError as error:
            self._desk.refused(error)

    def pause(self) -> None:
        """Pause the runs that train. The others wait, because these keep their devices."""
        session = self._desk.scope.session
        for run in self._under_way():
            if run.state is RunState.RUNNING and session is not None:
                session.pause(run.id)

    def cancel(self) -> None:
        """End the runs: the whole job where it has no others, else each of them, the waiting ones first."""
        session, runs = self._desk.scope.session, self._under_way()
        if session is None:
            return
        mine = {run.id for run in runs}
        jobs = {run.job.job for run in runs if run.job is not None}
        whole = {job for job in jobs if job in session.jobs and mine.issuperset(self._open_runs(job))}
        try:
            for job in sorted(whole):
                session.cancel(job)
            for run in sorted(runs, key=lambda run: -run.queue):
                if run.job is None or run.job.job not in whole:
                    session.stop(run.id)
        except ProblemError as error:
            self._desk.refused(error)

    def _open_runs(self, job: str) -> set[str]:
        runs = self._desk.scope.runs()
        return {run.id for run in runs if run.job is not None and run.job.job == job and run.state not in TERMINAL}

    def _under_way(self) -> list[RunLike]:
        found = self.selected()
        going = set(found[1].under_way) if found is not None else set()
        return [run for run in self._desk.scope.runs() if run.id in going]
