"""Carries out what clicks ask for, and shows news from the session. There is one controller for each window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from PySide6.QtCore import QObject, Signal

from clew_gui.jobs.job import Place
from clew_gui.session.runs import RunModel
from clew_gui.session.session import Session
from clew_gui.views.actions.bridge import Bridge
from clew_gui.views.actions.panel_updater import PanelUpdater
from clew_gui.views.actions.scope import Scope
from clew_gui.views.runs.run_choices import at_work
from clew_gui.views.runs.runs_model import known_names
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.run_settings import RunFilter, RunNote, parse_filter
from clew_shared.spec import RunSpec

SECOND_TICKS = 32
"""The number of ticks in about a second."""
SLOW_TICKS = 8
"""Curves follow every tick; the table, the card and the log every so many, about four times a second."""
TRACED_STEPS = 20
"""The steps of a trace that the menu asks for."""
_READING = "exercise.reading"
"""The problem of a card whose file the agent is reading."""


class WindowController(QObject):
    """Keeps every panel up to date with the session."""

    elsewhere_asked = Signal(object, object)
    """Asks to start these runs (a tuple of specs) on a site, which may need a consent first; the callable is then
    called with the place."""
    curves_changed = Signal()
    """Emitted when other runs are drawn, or the same runs in another way."""
    points = Signal(frozenset)
    """Emitted with the runs that have new values or events."""
    filtered = Signal()
    """Emitted when other runs are listed."""
    ticked = Signal()
    """The session was polled; about 30 times a second."""
    ticked_slowly = Signal()
    """Emitted about four times a second, to update what a person reads."""
    second = Signal()
    """Emitted about once a second, to update countdowns."""

    def __init__(self, window: MainWindow, catalogue: Catalogue, places: Places, session: Session) -> None:
        super().__init__(window)
        self.window = window
        self.scope = Scope(catalogue, session)
        self.panels = PanelUpdater(window, self.scope, places)
        self.bridge = bridge = Bridge(session, self)
        self._dirty: set[str] = set()
        self._ticks = 0
        self._awaited = ""
        self._started: set[str] = set()
        self._listed = False
        window.lab.fill(catalogue)
        window.lab.tree.opened.connect(self.open_exercise)
        window.next_run.run_asked.connect(self._run_asked)
        window.next_run.edited.connect(self._form_edited)
        window.bottom.table.chosen.connect(self.select)
        window.bottom.model.toggled.connect(self.show_curve)
        window.bottom.tabs.currentChanged.connect(self.panels.below)
        window.bottom.details.other_chosen.connect(self._compare_with)
        window.bottom.filter.textChanged.connect(self._filter)
        window.bottom.column_toggled.connect(self._toggle_column)
        bridge.catalogue.connect(self.take_catalogue)
        bridge.arrived.connect(self._arrived)
        bridge.states.connect(self._states)
        bridge.points.connect(self._points)
        bridge.link.connect(self._link)
        bridge.jobs.connect(lambda _jobs: self._link())
        bridge.problems.connect(self._show_problems)
        bridge.ticked.connect(self._ticked)
        self.curves_changed.connect(self.panels.curves)
        self.points.connect(self.panels.points)

    # --- The session --------------------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Show what the session has and follow it."""
        self.panels.link()
        self._data_found()
        self.panels.progress()
        self.panels.loading()
        self._show_all()
        self.window.order_tabs()
        self.bridge.start()

    def take_catalogue(self, catalogue: Catalogue) -> None:
        """Shows the agent's own exercises, which have changed. What is in the form stays if the card is the same."""
        scope, before = self.scope, self.scope.card
        scope.take(catalogue)
        self.window.messages.lapse_of("exercise.")
        self.window.lab.fill(catalogue)
        if before is None or scope.cards.get(before.id) != before:
            scope.card = None
            known = before is not None and before.id in scope.cards
            self.open_exercise(before.id if before is not None and known else next(iter(scope.cards), ""))
        else:
            self.window.lab.tree.select(before.id)
        self.panels.progress()

    def detach(self) -> None:
        """Stop following; the caller closes the session."""
        self.bridge.stop()

    # --- What is open -------------------------------------------------------------------------------------------------

    def open_exercise(self, exercise: str) -> None:
        """Show another exercise in every panel."""
        scope, window = self.scope, self.window
        card = scope.cards.get(exercise)
        if card is None or (scope.card is not None and card.id == scope.card.id):
            return
        scope.card = card
        scope.session.prefer(card.id, *(spec.runs_of for spec in card.params if spec.runs_of))
        if scope.filter.terms:  # its names may be unknown here
            scope.filter = RunFilter()
            window.bottom.filter.clear()
        window.messages.open_exercise(card.id)
        window.lab.tree.select(card.id)
        window.head.show_card(card)
        window.guide.set_card(card)
        window.next_run.set_card(card)
        window.run_view.controls.set_scales(bool(card.datasets))
        window.order_tabs()
        window.setWindowTitle(f"{card.title} – Clew")
        if card.problem is not None and card.problem.code != _READING and scope.runs():  # else the first card says it
            window.messages.show_problems((card.problem,), exercise=card.id)
        self._show_all()

    def _show_all(self) -> None:
        """Updates every panel that depends on the open exercise and its runs."""
        self._choose()
        self.panels.table()
        self._dirty.clear()
        self.window.bottom.select(self._selected())
        self.panels.card()
        self.panels.goals()
        self.panels.cost()
        self.panels.data()
        self.panels.below()
        self.curves_changed.emit()

    def _selected(self) -> str:
        return self.scope.board.choices(self.scope.card.id).selected if self.scope.card is not None else ""

    def _choose(self) -> None:
        """See that a run is selected, if there is one."""
        if self.scope.card is not None:
            self.scope.board.choose(self.scope.card.id, self.scope.runs(), self.scope.listed)

    def select(self, run: str) -> None:
        """Put a run on the card and its curve in front."""
        if self.scope.card is None or not run or self._selected() == run:
            return
        self.scope.board.select(self.scope.card.id, run)
        self.window.bottom.select(run)
        self._curves_chosen()
        self.panels.log()

    def _curves_chosen(self) -> None:
        self.panels.table_rows()
        self.panels.card()
        self.panels.details()
        self.curves_changed.emit()

    def _filter(self, text: str) -> None:
        """List the runs that fit; while a filter is not understood the one before holds."""
        card = self.scope.card
        if card is None:
            return
        try:
            wanted = parse_filter(text, known_names(card))
        except ProblemError as error:
            self.window.bottom.refuse_filter(str(error.problems[0]))
            return
        self.window.bottom.refuse_filter("")
        if wanted != self.scope.filter:
            self.scope.filter = wanted
            self.panels.table()
            self.window.bottom.select(self._selected())
            self.filtered.emit()

    def _toggle_column(self, key: str, on: bool) -> None:
        self.scope.columns[key] = on
        self.panels.table()
        self.window.bottom.select(self._selected())

    def _compare_with(self, run: str) -> None:
        self.scope.beside = run or "none"
        self.panels.details()

    def annotate(self, run: str, note: RunNote) -> None:
        """Keep what a person wrote about a run."""
        try:
            self.scope.session.annotate(run, note)
        except ProblemError as error:
            self.refused(error)
            return
        self._curves_chosen()

    def step_exercise(self, by: int) -> None:
        """The exercise after or before the open one."""
        ids = self.window.lab.tree.exercise_ids()
        if self.scope.card is not None and ids:
            self.open_exercise(ids[(ids.index(self.scope.card.id) + by) % len(ids)])

    def _form_edited(self) -> None:
        self.panels.cost()
        self.panels.data()
        self.panels.pill()
        if self.scope.data != self.window.next_run.spec().data:
            self.scope.data = self.window.next_run.spec().data
            self.panels.goals()
            self.panels.progress()
            self.curves_changed.emit()

    # --- What a person asks for ---------------------------------------------------------------------------------------

    def _run_asked(self, spec: RunSpec) -> None:
        self.start_where_chosen((spec,), lambda place: self.start(spec, place))

    def start_where_chosen(self, specs: Sequence[RunSpec], start: Callable[[Place | None], object]) -> None:
        """Call ``start`` for these runs with the place that the form names, None for this computer: at once, or when a
        consent that the site needs was given."""
        if self.window.next_run.where.choice().key:
            self.elsewhere_asked.emit(tuple(specs), start)
        else:
            start(None)

    def start(self, spec: RunSpec, place: Place | None = None) -> bool:
        """Run these values, on this computer or at a place; whether they could be asked for."""
        return self.begin(lambda session: session.start_run(spec, *(() if place is None else (place,))))

    def begin(self, start: Callable[[Session], str]) -> bool:
        """Start a run as ``start`` says, which gives its id; whether it could be asked for."""
        session = self.scope.session
        try:
            self._awaited = start(session)
        except ProblemError as error:
            self.refused(error)
            return False
        self._started.add(self._awaited)
        if self.scope.card is not None:
            self.window.messages.begin_run(self.scope.card.id)
        self.window.show_tab(1)
        if self._awaited in session.runs:
            self._arrived(frozenset((self._awaited,)))
        return True

    def start_all(self, specs: Sequence[RunSpec], place: Place | None = None) -> None:
        """Run these one after the other and draw them alone, with the baseline; the running one is on the card. At a
        ``place`` they are one job."""
        if self.scope.card is None:
            return
        chosen = self.scope.board.choices(self.scope.card.id)
        chosen.shown.clear()
        chosen.recent.clear()
        chosen.selected = ""
        started = self._start_each(specs) if place is None else self._start_together(specs, place)
        chosen.shown.update(started)
        chosen.selected, chosen.by_hand = (started or [""])[0], False
        self.window.bottom.select(chosen.selected)
        self._follow()
        self._curves_chosen()

    def _start_each(self, specs: Sequence[RunSpec]) -> list[str]:
        """The runs that could be asked for of this computer's agent, up to the first that could not."""
        started: list[str] = []
        while len(started) < len(specs) and self.begin(lambda session: session.start_run(specs[len(started)])):
            started.append(self._selected())
        return started

    def _start_together(self, specs: Sequence[RunSpec], place: Place) -> list[str]:
        """Starts all of these runs in one job, or none of them."""
        started: list[str] = []

        def start(session: Session) -> str:
            started.extend(session.start_runs(specs, place))
            return started[0]

        self.begin(start)
        self._started.update(started)
        self._arrived(frozenset(started))
        return started

    def _follow(self) -> None:
        """Selects the running run until a person selects one."""
        if self.scope.card is None or self.scope.board.choices(self.scope.card.id).by_hand:
            return
        running = [run.id for run in at_work(self.scope.runs())]
        chosen = self.scope.board.choices(self.scope.card.id)
        if running and chosen.selected not in running and not chosen.awaited:
            chosen.selected = running[-1]
            self.window.bottom.select(running[-1])

    def _show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Shows the session's problems: those with its own files for the whole window, all others for the open
        exercise."""
        here = self.scope.card.id if self.scope.card is not None else ""
        for one in problems:
            self.window.messages.show_problems((one,), exercise="" if one.code.startswith("session.") else here)

    def refused(self, error: ProblemError) -> None:
        """Show a refusal at its fields and as a message."""
        card = self.scope.card
        self.window.next_run.form.show_problems(error.problems)
        self.window.messages.show_problems(error.problems, exercise=card.id if card is not None else "")

    def ask(self, call: Callable[[Session, RunModel], None]) -> None:
        """Ask the session for something about the selected run; a refusal is shown."""
        run, session = self.scope.run(), self.scope.session
        if run is None:
            return
        try:
            call(session, run)
        except ProblemError as error:
            self.refused(error)

    def pause_or_resume(self) -> None:
        """Pause a run that trains, let a paused one go on."""
        self.ask(lambda session, run: (session.unpause if run.state is RunState.PAUSED else session.pause)(run.id))

    def stop(self, now: bool = False) -> None:
        """End the selected run."""
        self.ask(lambda session, run: session.stop(run.id, now))

    def trace(self) -> None:
        """Trace the next steps of the selected run, and open *Details*, which says what they did."""
        self.ask(lambda session, run: session.trace(run.id, TRACED_STEPS))
        self.window.fold("runs", False)
        self.window.bottom.show_details()

    def set_live(self, name: str, value: float, run: str = "") -> None:
        """Change a live hyperparameter of a run, of the selected one if none is named."""
        self.ask(lambda session, selected: session.set_live(run or selected.id, name, value))

    def continue_run(self, run: str = "", changes: Mapping[str, str | int] | None = None) -> None:
        """Go on from the last checkpoint with a run, the selected one if none is named, with ``changes`` of its devices
        or nodes."""
        self.ask(lambda session, selected: session.continue_run(run or selected.id, changes=changes))

    def goes_on(self, run: str) -> None:
        """Drop the messages about a run."""
        self.window.messages.forget(run)

    def reuse(self) -> None:
        """Put the selected run's values into the form."""
        run = self.scope.run()
        if run is not None:
            self.window.next_run.use_spec(run.spec)

    def runs_changed(self) -> None:
        """Runs were taken out of the list, or came back."""
        self.panels.progress()
        self._show_all()

    def show_curve(self, run: str, on: bool) -> None:
        """Show or hide a run in the plots."""
        if self.scope.card is not None:
            self.scope.board.show(self.scope.card.id, run, on)
            self._curves_chosen()

    def pin(self, on: bool) -> None:
        """Pin the selected run as the baseline that is always drawn."""
        run = self.scope.run()
        if run is not None and self.scope.card is not None:
            self.scope.board.pin(self.scope.card.id, run.id if on else "")
            self._curves_chosen()

    # --- News ---------------------------------------------------------------------------------------------------------

    def _mine(self, runs: Iterable[str]) -> set[str]:
        return {run for run in runs if self.scope.is_mine(run)}

    def _arrived(self, new: frozenset[str]) -> None:
        mine = self._mine(new)
        if mine and self.scope.card is not None:
            before, drawn, base = self._selected(), self.scope.shown(), self.scope.pinned()
            if self._awaited in mine:
                self.scope.board.select_started(self.scope.card, self._awaited, self.scope.runs())
            self._choose()
            others = set(drawn).symmetric_difference(self.scope.shown())
            self.panels.table_rows(mine | others if base == self.scope.pinned() else None)
            self.window.bottom.select(self._selected())
            if self._selected() != before:
                self.panels.below()
            self._awaited = "" if self._awaited in mine else self._awaited
            self.panels.card()
            self.curves_changed.emit()
        self.panels.progress(new)
        self.panels.queue()

    def _states(self, changed: frozenset[str]) -> None:
        mine = self._mine(changed)
        if mine:
            self._follow()
            self.panels.table_rows(mine)
            self.panels.card()
            self.panels.goals()
            self.panels.cost()
            self.panels.below()
            self.curves_changed.emit()
            self.points.emit(frozenset(mine))
        self._report_failures(changed)
        self.panels.progress(changed)
        self.panels.queue()

    def _report_failures(self, changed: frozenset[str]) -> None:
        """A run that was started here and failed says why, once, with what to do now, unless its card does."""
        session = self.scope.session
        for run in filter(None, map(session.runs.get, changed & self._started)):
            trouble = run.history.fold.problem
            if run.state not in TERMINAL:
                continue
            self._started.discard(run.id)
            said = run.state is RunState.STOPPED or self.window.run_view.card.reason.says(run.id)
            if trouble is not None and not said:
                self.window.messages.show_problems((trouble,), run.id, run.spec.exercise)

    def _points(self, changed: frozenset[str]) -> None:
        mine = self._mine(changed)
        self._dirty |= mine
        if mine:
            self.points.emit(frozenset(mine))

    def _link(self) -> None:
        self.scope.link_reported = True
        if self.scope.listed and not self._listed:
            self._listed = True
            self._all_known()
        self.panels.link()
        self._data_found()
        self.panels.card()
        self.panels.table_rows()

    def _all_known(self) -> None:
        """Called once every run of earlier windows is known. A run that was selected then and is gone is no longer
        waited for."""
        before = self._selected()
        self._choose()
        if self._selected() != before:
            self.window.bottom.select(self._selected())
            self.curves_changed.emit()
        self.panels.progress()
        self.panels.loading()

    def _data_found(self) -> None:
        self.window.next_run.data_choice.found(self.scope.session.link.datasets, not self.scope.listed)
        self.panels.data()

    def _ticked(self) -> None:
        self.ticked.emit()
        self._ticks += 1
        if self._ticks % SLOW_TICKS == 0:
            self._show_changed()
            self.ticked_slowly.emit()
        if self._ticks % SECOND_TICKS == 0:
            self._second()
            self.second.emit()

    def _show_changed(self) -> None:
        dirty, self._dirty = self._dirty, set()
        if self._selected() in dirty:
            self.panels.card()
            self.panels.below()
        if dirty:
            self.panels.table_rows(dirty)

    def _second(self) -> None:
        """Updates the countdowns: a job's time left, and how long a link has been silent."""
        run = self.scope.run()
        if run is not None and run.job is not None and not run.job.over:
            self.panels.card()
            self.panels.link()
