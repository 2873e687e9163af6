"""Joins races, sweeps and predictions to the window: their dialogs, the runs that they ask for, how a sweep goes on."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QObject

from clew_gui.jobs.job import Place
from clew_gui.schedulers.allocation import node_hours, seconds_asked
from clew_gui.session.forecast import Earlier, seconds_each
from clew_gui.session.kept_studies import is_done_elsewhere, keep_study, kept_study
from clew_gui.session.runs import RunModel
from clew_gui.session.study_runner import KnownRun, Progress, progress
from clew_gui.study.ranking import Standing, headline_metric, rank, stand
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.presentation import words
from clew_gui.views.runs.study_bar import RaceEntry
from clew_gui.views.runs.study_dialogs import predict_dialog, race_dialog, range_dialog, sweep_dialog
from clew_shared.base.number_words import counted
from clew_shared.base.places import Places
from clew_shared.base.problem import problem
from clew_shared.cards import ExerciseCard, RaceSpec
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import STEPS, defaults, format_value
from clew_shared.run_settings import inside
from clew_shared.spec import RunSpec
from clew_shared.study.study import StudySpec, find_race, lane_specs, race_of, study_runs


class StudyActions(QObject):
    """Starts and shows studies. There is one object for each window."""

    def __init__(self, controller: WindowController, places: Places) -> None:
        window = controller.window
        super().__init__(window)
        self._window, self._controller, self._places = window, controller, places
        self._hidden: set[str] = set()
        self._standings: dict[str, tuple[object, Standing | None]] = {}
        self._kept: dict[str, StudySpec] = {}
        self._known: object = None
        self._far: tuple[StudySpec, Progress] | None = None
        window.next_run.sweep_asked.connect(self.ask_sweep)
        bar = window.run_view.study
        bar.chosen.connect(controller.select)
        bar.pause.clicked.connect(self.pause_or_resume)
        bar.first.triggered.connect(lambda: self.reorder(first=True))
        bar.last.triggered.connect(lambda: self.reorder(first=False))
        bar.end.clicked.connect(self.cancel)
        bar.go_on.clicked.connect(self.go_on)
        bar.close_button.clicked.connect(self._hide)
        controller.curves_changed.connect(self.refresh)
        controller.ticked_slowly.connect(self.refresh)

    # --- Dialogs ------------------------------------------------------------------------------------------------------

    def ask_race(self) -> None:
        """Open the dialog for the open exercise's race."""
        controller, window, card = self._controller, self._window, self._controller.model.card
        if card.races:
            dialog = race_dialog(window, window.appearance, card, find_race(card), window.next_run.spec())
            dialog.asked.connect(lambda study: controller.starter.start_at(None, lane_specs(study)))
            dialog.open()

    def ask_sweep(self) -> None:
        """Open the dialog for the open exercise, with several values where the form's fields have them."""
        card, form = self._controller.model.card, self._window.next_run
        typed = form.form.several() | form.seed.several()
        dialog = sweep_dialog(self._window, self._window.appearance, card, form.spec(), self.forecast, typed)
        dialog.asked.connect(self.start_sweep)
        dialog.open()

    def ask_range(self) -> None:
        """Open the dialog of a learning-rate range test of what the form says."""
        form = self._window.next_run
        dialog = range_dialog(self._window, self._window.appearance, form.spec())
        dialog.asked.connect(form.run_asked)
        dialog.open()

    def ask_prediction(self) -> None:
        """Open the dialog that asks what a person expects of the next run."""
        card, form = self._controller.model.card, self._window.next_run
        if card.metrics:
            steps = (defaults(card.params) | form.spec().params).get(STEPS)
            steps = steps if isinstance(steps, int) else 1000
            dialog = predict_dialog(self._window, self._window.appearance, card, form.spec(), steps)
            dialog.asked.connect(form.predicted)
            dialog.open()

    def forecast(self, specs: tuple[RunSpec, ...]) -> str:
        """Says where runs will go and how long they will take, judged by the exercise's latest run that trained."""
        if there := self._cost_there(specs):
            return there
        card = self._controller.model.card
        runs = sorted(self._controller.model.runs(), key=lambda run: run.number, reverse=True)
        earlier = [Earlier(run.spec, run.history) for run in runs if not run.site]
        each = seconds_each(specs, card, earlier)
        if not each:
            return f"{len(specs)} runs. How long they take is known after the first run."
        time = words.roughly(sum(each))
        return f"{len(specs)} runs: {time} one after the other, estimated from an earlier run."

    def _cost_there(self, specs: tuple[RunSpec, ...]) -> str:
        """The job that these runs would be on the chosen site; empty on this computer."""
        form = self._window.next_run
        chosen, place = form.where.choice(), form.place(specs)
        if place is None:
            return ""
        if place.job:
            return f"{len(specs)} runs on {chosen.short}, whose time counts whether it is used or not."
        nodes, seconds = place.allocation.nodes, seconds_asked(place.allocation)
        most = f", at most {node_hours(nodes, seconds)}" if seconds else "; the site sets its time limit"
        return f"{len(specs)} runs in one job on {chosen.short}: {counted(nodes, 'node')}{most}."

    def start_sweep(self, study: StudySpec) -> None:
        """Keep the study, then ask for its runs where the form says: on a site in one job."""
        with self._controller.refusals():
            keep_study(self._places, study)
            self._controller.starter.start(tuple(run.spec for run in study_runs(study)))

    # --- The bar ------------------------------------------------------------------------------------------------------

    def _hide(self) -> None:
        run = self._controller.model.run()
        if run is not None:
            self._hidden.add(run.spec.study)
        self.refresh()

    def refresh(self) -> None:
        """Shows how the race or the sweep of the selected run goes; nothing if it belongs to none. Cheap if nothing
        changed."""
        model, bar = self._controller.model, self._window.run_view.study
        run, card = model.run(), model.card
        name = run.spec.study if run is not None else ""
        if run is None or not name or name in self._hidden:
            bar.hide()
            return
        runs = [one for one in model.runs() if one.spec.study == name]
        race = race_of(card, name)
        if race is None:
            bar.setVisible(self._show_sweep(name, card, runs))
        else:
            bar.allow()
            bar.show_study(race.title, race_words(race, card, runs), self._entries(race, card, runs, run.id))
            bar.show()

    def _entries(self, race: RaceSpec, card: ExerciseCard, runs: list[RunModel], selected: str) -> list[RaceEntry]:
        metric = words.metric_of(card, race.metric)
        better: Literal["lower", "higher"] = "higher" if metric is not None and metric.better == "higher" else "lower"
        standings: list[Standing] = []
        for run in runs:
            state = (run.history.fold.attempt, run.history.fold.step, run.state)
            known = self._standings.get(run.id)
            if known is None or known[0] != state:  # it reads the whole curve
                known = (state, stand(run.id, run.history, race.metric, better, race.target))
                self._standings[run.id] = known
            standings += [known[1]] if known[1] is not None else []
        by_id, styles = {run.id: run for run in runs}, self._controller.model.styles()
        return [
            RaceEntry(
                place if one.best is not None else 0,
                one.run,
                styles.get(one.run, -1),
                words.run_title(by_id[one.run], card).partition("  ")[2],
                _result(by_id[one.run], one, race, card),
                one.run == selected,
            )
            for place, one in enumerate(rank(standings, better), start=1)
        ]

    def _show_sweep(self, name: str, card: ExerciseCard, runs: list[RunModel]) -> bool:
        """Shows how far a sweep is, and which run is the best; returns whether it is known here."""
        bar, model, busy = self._window.run_view.study, self._controller.model, is_done_elsewhere(self._places, name)
        now = (name, busy, [(one.id, one.state, one.queue) for one in runs])
        if now != self._known:
            self._known, self._far = now, self.selected()
        if self._far is None:
            return False
        study, far = self._far
        sentence = words.join([sweep_words(far, busy), self._best_words(card, runs)])
        bar.show_study(_short_title(study.title or name, card.title), sentence)
        bar.allow(
            going=bool(far.under_way),
            rests=any(one.state is RunState.PAUSED for one in runs),
            waits=any(one.queue for one in runs) and model.waiting() > sum(bool(one.queue) for one in runs),
            left=bool(far.ended or far.missing) and not busy,
        )
        return True

    def _best_words(self, card: ExerciseCard, runs: list[RunModel]) -> str:
        """Names the best run of a sweep: "best loss 0.25 in run 2, learning rate 0.05"; empty while none has a
        value."""
        metric, results = headline_metric(card), self._controller.model.results
        best = results.best_run(metric, runs) if metric is not None else None
        if metric is None or best is None:
            return ""
        value = words.metric_value(metric, results.best(metric, best))
        return words.join([f"best {inside(metric.label)} {value} in run {best.number}", words.name_of(best)])

    def selected(self) -> tuple[StudySpec, Progress] | None:
        """The sweep of the selected run with what is done of it; None if it belongs to none that is kept here."""
        run, card = self._controller.model.run(), self._controller.model.card
        study = self._study(run.spec.study) if run is not None else None
        if study is None or study.sweep is None:
            return None
        return study, progress(
            study, card, [KnownRun(one.id, one.spec, one.state) for one in self._controller.model.runs()]
        )

    def _study(self, name: str) -> StudySpec | None:
        """The study of this name, which is read once: it does not change after its first run."""
        if name not in self._kept:
            found = kept_study(self._places, name)
            if found is None:
                return None
            self._kept[name] = found
        return self._kept[name]

    def go_on(self) -> None:
        """Do what is left: runs that ended early go on from their checkpoints, the missing ones begin."""
        found, session = self.selected(), self._controller.model.session
        if found is None:
            return
        study, left = found
        if is_done_elsewhere(self._places, study.study):
            text = "Another program is doing the runs of this sweep, in a terminal perhaps."
            self._controller.refused(problem("study.busy", text, "Wait for it, or end it there.", study.study))
            return

        def go_on(place: Place | None) -> None:
            with self._controller.refusals():
                session.continue_study(left.ended, left.missing, place)

        if left.missing and not left.ended:
            self._controller.starter.at_place(left.missing, go_on)
        else:
            go_on(None)

    def pause_or_resume(self) -> None:
        """Let paused runs go on; else pause those that train. The others wait, because these keep their devices."""
        session, rests = self._controller.model.session, self._window.run_view.study.rests
        for run in self._under_way():
            if run.state is (RunState.PAUSED if rests else RunState.RUNNING):
                (session.unpause if rests else session.pause)(run.id)

    def reorder(self, first: bool) -> None:
        """Let the sweep's waiting runs have their turn before all other waiting runs here, or after them, in their own
        order. Each request is carried out after the one before it."""
        session, runs = self._controller.model.session, self._under_way()
        waiting = sorted((run for run in runs if run.queue), key=lambda run: run.queue)
        with self._controller.refusals():
            for place, run in enumerate(waiting, start=1):
                session.move_run(run.id, place if first else self._controller.model.waiting())

    def cancel(self) -> None:
        """End the runs: the whole job if it has no others, else each of them, the waiting ones first."""
        session, runs = self._controller.model.session, self._under_way()
        mine = {run.id for run in runs}
        jobs = {run.job.job for run in runs if run.job is not None}
        whole = {job for job in jobs if job in session.jobs and mine.issuperset(self._open_runs(job))}
        with self._controller.refusals():
            for job in sorted(whole):
                session.cancel(job)
            for run in sorted(runs, key=lambda run: -run.queue):
                if run.job is None or run.job.job not in whole:
                    session.stop(run.id)

    def _open_runs(self, job: str) -> set[str]:
        runs = self._controller.model.runs()
        return {run.id for run in runs if run.job is not None and run.job.job == job and run.state not in TERMINAL}

    def _under_way(self) -> list[RunModel]:
        found = self.selected()
        going = set(found[1].under_way) if found is not None else set()
        return [run for run in self._controller.model.runs() if run.id in going]


def _short_title(title: str, exercise: str) -> str:
    """The sweep's title without the exercise, whose title is above anyway."""
    rest = title.removeprefix(f"{exercise}, ")
    return rest[:1].upper() + rest[1:]


def sweep_words(far: Progress, elsewhere: bool = False) -> str:
    """``3 of 9 runs finished, 1 under way, 2 waiting, 1 stopped or failed, 2 not started``; ``elsewhere``: another
    program is doing them."""
    parts = [f"{len(far.finished)} of {far.total} runs finished"]
    groups = (
        (len(far.at_work), "under way"),
        (len(far.waiting), "waiting"),
        (len(far.ended), "stopped or failed"),
        (len(far.missing), "not started"),
    )
    parts += [f"{number} {text}" for number, text in groups if number]
    return f"{words.join(parts)}{'; another program is doing the rest' if elsewhere else ''}"


def _result(run: RunModel, standing: Standing, race: RaceSpec, card: ExerciseCard) -> str:
    if standing.reached is not None:
        return f"step {words.count(standing.reached)}"
    if standing.best is None:
        return words.state_word(run).lower()
    value = words.metric_value(words.metric_of(card, race.metric), standing.best)
    return value if race.target is None else f"best {_metric_name(race, card)} {value}"


def _metric_name(race: RaceSpec, card: ExerciseCard) -> str:
    metric = words.metric_of(card, race.metric)
    return metric.label.lower() if metric is not None else race.metric


def race_words(race: RaceSpec, card: ExerciseCard, runs: list[RunModel]) -> str:
    """Says what counts in a race, and how far it is: "Steps to a loss of 0.001, else the best loss. 2 of 6 done."."""
    name = _metric_name(race, card)
    if race.target is None:
        counts = f"The best {name} counts."
    else:
        counts = f"Steps to a {name} of {format_value(race.target)}, else the best {name}."
    done = sum(run.state in TERMINAL for run in runs)
    return f"{counts} {done} of {len(runs)} done." if done < len(runs) else counts
