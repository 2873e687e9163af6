"""Keeps the panels up to date: ``PanelUpdater.refresh`` shows what changed in every panel that depends on it.

Every method may be called at any time; what did not change costs little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Flag, auto

from clew_gui.base.settings import local_settings
from clew_gui.session.job_links import JobModel
from clew_gui.session.runs import RunModel
from clew_gui.study.advice import Advice, advise
from clew_gui.study.prediction import prediction_words
from clew_gui.study.rate_range import rate_curve, rate_words
from clew_gui.views.actions.model import WindowModel
from clew_gui.views.form.data_choice import is_path
from clew_gui.views.lab.lab_panel import ExerciseProgress
from clew_gui.views.presentation import job_words, words
from clew_gui.views.presentation.job_words import NOTHING, CardWords, card_words
from clew_gui.views.runs.bottom_panel import read_tail
from clew_gui.views.runs.details_panel import details
from clew_gui.views.runs.results import estimate, goals_for
from clew_gui.views.runs.runs_model import RunRow, added, is_number, more_columns, unused_columns
from clew_gui.views.window.window import MainWindow
from clew_shared.base import operating_system
from clew_shared.base.number_words import counted
from clew_shared.base.places import Places
from clew_shared.cards import Goal
from clew_shared.catalogue import FIRST_EXERCISE
from clew_shared.goal_settings import requires_words
from clew_shared.journal.lifecycle import TERMINAL, RunState

_LINKS = {
    "OFFLINE": ("unlink", "bad", "off"),
    "CONNECTING": ("link", "warn", "connecting"),
    "LIVE": ("laptop", "ok", "ready"),
    "STALE": ("unlink", "stale", "silent"),
    "REFUSED": ("unlink", "bad", "refused"),
}
_WAITING = (RunState.QUEUED, RunState.SUBMITTED)
_BUSY = frozenset({RunState.RUNNING, RunState.PREPARING, RunState.STARTING, RunState.PAUSED})


def needs(goal: Goal) -> str:
    """Returns the remark on a goal that counts only with another data set than the chosen one."""
    return f"Needs {words.data_short(goal.data)}"


class Change(Flag):
    """What changed in the model. A panel is shown again when something changed that it depends on."""

    EXERCISE = auto()
    """Another exercise is open, or runs of it were removed or came back."""
    SELECTED = auto()
    """Another run is selected."""
    DRAWN = auto()
    """Other runs are drawn, another one is the baseline, or one has another name."""
    LISTED = auto()
    """The table has another filter or other columns."""
    NEW = auto()
    """Runs of the open exercise arrived."""
    STATES = auto()
    """Runs of the open exercise have another state."""
    POINTS = auto()
    """Runs of the open exercise have new points."""
    RUN = auto()
    """The selected run has something new."""
    QUEUE = auto()
    """Runs of any exercise arrived, or have another state."""
    LINK = auto()
    """The link to this computer's agent or to a job has another state."""
    FORM = auto()
    """The next run is another one."""
    DATA = auto()
    """The next run has other data, and so other goals."""
    ANSWERS = auto()
    """Goals may be reached or not, whatever the runs: questions were answered, runs removed, cards read again."""
    TIME = auto()
    """A second passed while the job of the selected run goes on."""
    CURVES = EXERCISE | SELECTED | DRAWN | NEW | STATES | DATA
    """The plots show something else."""


class PanelUpdater:
    """Reads the model, writes the widgets."""

    def __init__(self, window: MainWindow, model: WindowModel, places: Places) -> None:
        self._window, self._model, self._places = window, model, places
        self._found: tuple[object, tuple[str, float | None]] = (None, ("", None))
        self._progress: dict[str, ExerciseProgress] = {}
        self.gives_advice: bool | None = None
        """Whether the settings ask for advice; they are read when there is a run to advise on."""
        self._advice: tuple[Advice, ...] = ()
        self._advised: object = None
        """The run, and the state of its journal, that ``_advice`` was computed for."""
        c = Change
        self._panels: tuple[tuple[Callable[[], object], Change], ...] = (
            (self.card, c.CURVES & ~c.DATA | c.LINK | c.RUN | c.TIME),
            (self.goals, c.EXERCISE | c.STATES | c.DATA | c.ANSWERS),
            (self.cost, c.EXERCISE | c.STATES | c.FORM),
            (self.found_data, c.LINK),
            (self.data, c.EXERCISE | c.FORM | c.LINK),
            (self.log, c.EXERCISE | c.SELECTED | c.STATES | c.RUN),
            (self.details, c.EXERCISE | c.SELECTED | c.DRAWN | c.STATES | c.RUN),
            (self.link, c.EXERCISE | c.SELECTED | c.NEW | c.STATES | c.LINK | c.TIME),
            (self.pill, c.EXERCISE | c.SELECTED | c.NEW | c.STATES | c.FORM | c.LINK | c.TIME),
            (self.queue, c.NEW | c.STATES | c.QUEUE | c.LINK),
            (self.loading, c.LINK),
        )
        """The panels, and what each depends on."""

    def refresh(self, change: Change, runs: Collection[str] | None = None) -> None:
        """Show what changed in every panel that depends on it but the plots; ``runs`` are those that it is about, and
        only they are looked at again. None if it is about no single runs."""
        if change & (Change.EXERCISE | Change.LISTED):
            self.table()
        elif change & (Change.SELECTED | Change.DRAWN | Change.LINK):
            self.table_rows()
        elif change & (Change.NEW | Change.STATES | Change.POINTS):
            self.table_rows(runs)
        if change & (Change.CURVES | Change.LISTED):
            self._window.bottom.select(self._model.selected)
        for show, on in self._panels:
            if change & on:
                show()
        if change & (Change.ANSWERS | Change.DATA):
            self.progress()
        elif change & (Change.NEW | Change.STATES | Change.QUEUE):
            self.progress(runs)

    # --- The selected run ---------------------------------------------------------------------------------------------

    def card(self) -> None:
        """The run's card, or the first card when there is none; and what can be done now."""
        window, model = self._window, self._model
        run = model.run()
        window.run_view.show_empty(run is None)
        if run is None:
            first = not model.session.runs and model.card.id in (FIRST_EXERCISE, model.catalogue.exercises[0].id)
            window.run_view.empty_view.show_card(model.card, first, self._loading())
        else:
            job, advice = self._job_words(run), self._advice_on(run)
            window.run_view.card.show_run(run, model.card, bool(model.live_params()), job, advice)
            window.run_view.card.show_finding(*self._finding(run))
        self._actions(run)

    def _finding(self, run: RunModel) -> tuple[str, float | None]:
        """Returns the result of a range test or prediction when its run has ended: a sentence, and of a test the
        learning rate to begin with."""
        if run.state not in TERMINAL or not run.history.fold.step:
            return "", None
        history, test = run.history, run.spec.rate_range
        known = (history, history.fold.attempt, history.fold.step, history.prediction)
        if self._found[0] != known:
            if test is None:
                self._found = (known, (prediction_words(history), None))
            else:
                curve = rate_curve(history, test, history.fold.steps)
                self._found = (known, (rate_words(curve), curve.steepest))
        return self._found[1]

    def _advice_on(self, run: RunModel) -> tuple[Advice, ...]:
        """Returns the advice on a run's journal. It is computed when the run ends or diverges, not with every point."""
        history = run.history
        if self._window.next_run.play.isChecked():  # a line that comes would move what is clicked
            return ()
        if self.gives_advice is None:
            self.gives_advice = local_settings(self._places).load().advice
        key = (self.gives_advice, history, history.fold.attempt, history.fold.done, tuple(history.first_nonfinite))
        if key != self._advised:
            self._advised, self._advice = key, advise(history) if self.gives_advice else ()
        return self._advice

    def curves(self) -> None:
        """The curves of the runs that are drawn, in the plots of the exercise."""
        model, view = self._model, self._window.run_view
        view.show_plots(model.card)
        wanted, selected = set(model.shown()), model.run()
        runs = [run for run in model.runs() if run.id in wanted]
        chosen = selected.id if selected is not None else ""
        view.plots.show_runs(runs, chosen, model.pinned(), model.styles(), model.data)
        self._scales()

    def points(self, changed: Collection[str]) -> None:
        """What is new of the drawn runs."""
        self._window.run_view.plots.show_news(changed)
        self._scales()

    def _scales(self) -> None:
        """Offers the scales of the x axis that the drawn runs have; before one has said that, those of the exercise."""
        view = self._window.run_view
        if any(run.history.schema is not None for run in view.plots.canvas.runs):
            view.controls.set_scales(view.plots.knows("images"), view.plots.knows("learning rate"))

    def loading(self) -> None:
        """Shows in the list of runs that earlier ones are still being loaded."""
        self._window.bottom.show_loading(self._loading())

    def _loading(self) -> bool:
        """Whether runs of earlier windows are here that nobody has listed yet."""
        if self._model.listed:
            return False
        kept = (self._places.runs, self._places.mirrors)
        return any(folder.is_dir() and any(folder.iterdir()) for folder in kept)

    def _job_words(self, run: RunModel) -> CardWords:
        """Returns what the run's job on a site adds to the card."""
        if run.job is None:
            return NOTHING
        return card_words(run, self._model.session.jobs.get(run.job.job), time.time())

    def _actions(self, run: RunModel | None) -> None:
        actions = self._window.actions_
        actions.allow(self._model)
        paused = run is not None and run.state is RunState.PAUSED
        actions["pause"].setText("&Resume" if paused else "&Pause")
        actions["show"].setChecked(run is not None and run.id in self._model.shown())
        actions["pin"].setChecked(run is not None and run.id == self._model.pinned())

    def log(self) -> None:
        """The log of the selected run, only while it can be seen."""
        if not self._window.bottom.log.isVisible():
            return
        panel, run = self._window.bottom.log, self._model.run()
        if run is None:
            panel.show_run("", ())
            return
        folder = self._places.runs / run.id
        nothing = not run.history.fold.attempt  # it never reached a node, or has not yet
        output = read_tail(folder / "log.txt") if folder.is_dir() else "" if nothing else None
        panel.show_run(run.id, run.history.logs, output)

    def details(self) -> None:
        """Shows the selected run's details beside those of the chosen run or the baseline, only while they are
        visible."""
        model, bottom = self._model, self._window.bottom
        if not bottom.details.isVisible():
            return
        run, runs = model.run(), {one.id: one for one in model.runs()}
        if run is None:
            bottom.details.show_run("", [], [], "")
            return
        wanted = model.pinned() if model.beside == "" else model.beside
        other = runs.get(wanted) if wanted != run.id else None
        choices = [(one.id, words.run_title(one, model.card)) for one in reversed(runs.values()) if one is not run]
        title = f"Run {words.run_title(run, model.card)}"
        bottom.details.show_run(title, details(run, model.card, other), choices, other.id if other else "")

    # --- All runs of the exercise -------------------------------------------------------------------------------------

    def rows(self, runs: Iterable[RunModel]) -> list[RunRow]:
        """Runs as rows of the table."""
        model = self._model
        shown, base = set(model.shown()), model.session.runs.get(model.pinned())
        more, card, styles = model.added_columns(), model.card, model.styles()
        return [model.results.row(card, run, run.id in shown, base, more, styles.get(run.id, -1)) for run in runs]

    def table(self) -> None:
        """Fills all rows of the table again, with the columns that a person chose."""
        card, bottom = self._model.card, self._window.bottom
        offered = more_columns(card)
        bottom.offer_columns(offered, unused_columns(card) | self._model.state.columns)
        names = self._model.added_columns()
        bottom.model.set_columns([added(name, offered[name], is_number(card, name)) for name in names])
        bottom.model.set_rows(self.rows(self._model.listed_runs()))
        bottom.show_count(len(self._model.runs()))

    def table_rows(self, wanted: Iterable[str] | None = None) -> None:
        """Updates some rows in place, or all of them."""
        some = None if wanted is None else set(wanted)
        runs = [run for run in self._model.runs() if some is None or run.id in some]
        model = self._window.bottom.model
        before = model.rowCount()
        fits = [run for run in runs if self._model.fits(run)]
        if len(fits) < len(runs):
            kept = {run.id for run in fits}
            for run in runs:
                if run.id not in kept:
                    model.remove(run.id)
        model.update_rows(self.rows(fits))
        if model.rowCount() != before:
            self._window.bottom.show_count(len(self._model.runs()))

    # --- The exercise -------------------------------------------------------------------------------------------------

    def goals(self) -> None:
        """The chip in the head and the ticks in the guide."""
        model, window = self._model, self._window
        runs = model.runs()
        mine = goals_for(model.card, model.data)
        lines = []
        for goal in model.card.goals:
            by = model.results.reached_by(goal, runs)
            reached_words = f"Reached in run {by.number}" if by is not None else "" if goal in mine else needs(goal)
            window.guide.show_goal(
                goal.id, by is not None, f"{reached_words}." if reached_words else self._why_not(goal, runs)
            )
            asked = requires_words(goal, model.card)
            lines.append(f"{reached_words or 'Not yet'}: {goal.text}{f', {asked}' if asked else ''}")
        if not mine:
            text = needs(model.card.goals[0]) if model.card.goals else ""
            window.head.goal.show_goal(f"Goals: {text[:1].lower()}{text[1:]}" if text else "", False, "\n".join(lines))
            return
        done = sum(model.results.reached_by(goal, runs) is not None for goal in mine)
        first = words.goal_short(mine[0], model.card)
        several = words.goals_reached(done, len(mine), model.results.runs_for(mine, runs)).capitalize()
        text = f"{first} reached" if done and len(mine) == 1 else several or first
        window.head.goal.show_goal(text, done == len(mine), "\n".join(lines))

    def _why_not(self, goal: Goal, runs: Sequence[RunModel]) -> str:
        """Says why a run that came near a goal did not reach it; empty if no run came near."""
        found = self._model.results.why_not(goal, runs)
        asked = requires_words(goal, self._model.card)
        return f"{found} The goal counts only {asked}." if found and asked else found

    def progress(self, changed: Iterable[str] | None = None) -> None:
        """Ticks and best values of all exercises; only those of these runs are looked at again."""
        model = self._model
        cards = model.catalogue.exercises
        if changed is not None:
            theirs = {run.spec.exercise for one in changed if (run := model.session.runs.get(one)) is not None}
            cards = tuple(card for card in cards if card.id in theirs or card.id not in self._progress)
        self._progress |= {card.id: model.results.progress(card, model.runs(card)) for card in cards}
        self._window.lab.show_progress(self._progress, self._loading())

    def cost(self) -> None:
        """Shows what the next run will take, and offers the earlier runs that it can begin with."""
        form = self._window.next_run
        wanted = dict.fromkeys(spec.runs_of for spec in self._model.card.params)
        form.form.offer_runs({exercise: self._kept_runs(exercise) for exercise in wanted if exercise})
        place = form.place()
        site = place.site if place is not None else ""
        there = [run for run in self._model.runs() if run.site == site]
        form.show_cost(estimate(form.spec(), self._model.card, there))

    def _kept_runs(self, exercise: str) -> list[tuple[str, str]]:
        """The runs of an exercise whose weights are on this computer, the latest first: folder and words."""
        card = self._model.cards.get(exercise)
        runs = reversed(self._model.runs(card)) if card is not None else ()
        found = [(run, self._places.runs / run.id) for run in runs if run.history.checkpoints]
        return [
            (str(folder), words.join([f"Run {words.run_title(run, card)}", run.spec.data]))
            for run, folder in found
            if folder.is_dir()
        ]

    # --- What the pill says -------------------------------------------------------------------------------------------

    def link(self) -> None:
        """The link of the selected run: to its job on a site that is not over, else to this computer's agent."""
        session, window, job, word = self._model.session, self._window, self._job_of_run(), self._here()[2]
        state = str(session.link.state)
        text = word if state in ("LIVE", "OFFLINE") and word != "off" else session.link.text or word
        if state == "STALE" and session.link.since:
            text = f"no answer since {words.wall(session.link.since)}; runs go on"
        there = job_words.link_words(job, time.time()) if job is not None else ""
        window.top.show_fact("link", there or f"This computer: {text}")
        window.next_run.refuse(text if state == "REFUSED" else "")

    def pill(self) -> None:
        """The place of the selected run while it is at work on a site, else that of the next run, and how it is
        there."""
        job, chosen = self._job_of_run(), self._window.next_run.where.choice()
        if job is None and chosen.name:
            of_all = self._model.session.jobs.values()
            jobs = [one for one in of_all if one.order.site == chosen.name and not one.news.over]
            job = jobs[-1] if jobs else None
        if job is not None:
            self._window.top.show_site(*job_words.pill_words(job))
        elif chosen.name:
            self._window.top.show_site(f"{chosen.short}, no job", "server", "text2")
        else:
            glyph, tone, word = self._here()
            self._window.top.show_site(f"This computer, {word}", glyph, tone)

    @property
    def shows_site(self) -> bool:
        """Whether the pill is about a site."""
        return self._job_of_run() is not None or bool(self._window.next_run.where.choice().name)

    def _here(self) -> tuple[str, str, str]:
        """Describes the link to this computer's agent: icon, tone, word."""
        state = str(self._model.session.link.state)
        if state == "OFFLINE" and not self._model.link_reported:  # nobody has looked yet
            return "link", "warn", "starting"
        return _LINKS.get(state, ("link", "text3", state.lower()))

    def _job_of_run(self) -> JobModel | None:
        """The selected run's job on a site that is not over."""
        run, session = self._model.run(), self._model.session
        job = session.jobs.get(run.job.job) if run is not None and run.job is not None else None
        return job if job is not None and not job.news.over else None

    def queue(self) -> None:
        """Shows how many runs are running and waiting, over all exercises."""
        session = self._model.session
        runs = [run for run in session.runs.values() if not run.at_rest and not run.unread]
        busy = [run for run in runs if run.state in _BUSY and (run.job is None or run.history.fold.attempt)]
        waiting = [run for run in runs if run.state in _WAITING or (run.state in _BUSY and run not in busy)]
        if waiting:
            text = f"Queue: {len(waiting)} waiting, {len(busy)} running"
        elif busy:
            text = f"Queue: run {busy[0].number} is running" if len(busy) == 1 else f"Queue: {len(busy)} running"
        else:
            text = "Queue: empty"
        kept = [job for job in session.jobs.values() if job.idle_until and not job.news.over]
        nodes = sum(job.order.allocation.nodes for job in kept)
        text += f", {counted(nodes, 'node')} kept" if nodes else ""
        self._window.top.show_fact("queue", text)
        self._actions(self._model.run())
        self._window.top.show_fact("agent", counted(operating_system.usable_cores(), "CPU core"))

    def found_data(self) -> None:
        """What the agent found of the data sets, in the form."""
        self._window.next_run.data_choice.found(self._model.session.link.datasets, not self._model.listed)

    def data(self) -> None:
        """The data of the open exercise."""
        card = self._model.card
        chosen = self._window.next_run.spec().data
        if not card.datasets:
            self._window.top.show_fact("data", "Needs no data")
            return
        elsewhere = bool(self._window.next_run.where.choice().key)
        here = self._model.session.link.datasets if not elsewhere else ()
        absent = bool(here) and card.datasets[0] not in here
        own = is_path(chosen)
        note = " (your data)" if own else ""
        if absent and not own:
            first = words.data_short(card.datasets[0])
            note = ", not found" if chosen == card.datasets[0] else f"; {first} was not found here"
        text = f"Data: {words.data_name(chosen or card.datasets[0])}{note}"
        self._window.top.show_fact("data", text)
