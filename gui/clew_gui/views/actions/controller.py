"""Carries out what clicks ask for, and takes in news of the session. There is one controller for each window.

Whatever happens changes the model; then ``refresh`` shows it in every panel that depends on what changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from PySide6.QtCore import QElapsedTimer, QObject, Qt, QTimer, Signal

from clew_gui.courses.course import Course
from clew_gui.courses.shared_folder import SharedFolder
from clew_gui.courses.store import Courses
from clew_gui.reports.facts import RunSource
from clew_gui.reports.page import LabReport
from clew_gui.session.intake import Changes
from clew_gui.session.session import Session
from clew_gui.views.actions.model import WindowModel
from clew_gui.views.actions.panel_updater import Change, PanelUpdater
from clew_gui.views.actions.start_runs import RunStarter
from clew_gui.views.runs.runs_model import known_names
from clew_gui.views.window.window import MainWindow
from clew_gui.views.window.window_state import WindowState
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue, ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.run_settings import RunFilter, RunNote, parse_filter

INTERVAL_MS = 33
AT_ONCE = 3
"""How many news after a quiet time wait for no timer: of a run that begins, its state comes just before its first
points."""
BUDGET_S = (0.008, 0.1)
"""The least and the most seconds for taking in news before they are shown. Thousands of runs take longer to show than
to take in: then as much time goes into the one as into the other."""


class Bridge(QObject):
    """Calls ``session.tick()`` 30 times a second and passes on what changed.

    The first news after a quiet time are taken in as they come: what a person waits for (a run begins, its first
    point) does not wait for the timer. A stream of news is still drawn 30 times a second only.
    """

    news = Signal(Changes)
    """What a round brought, maybe nothing."""
    _rung = Signal()

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._timer = QTimer(self)
        self._timer.setObjectName("bridge")
        self._timer.setInterval(INTERVAL_MS)
        self._timer.timeout.connect(self.tick)
        self._since_news = QElapsedTimer()
        self._at_once = AT_ONCE
        self._showing = 0.0
        self._rung.connect(self._hurry, Qt.ConnectionType.QueuedConnection)  # from the link's thread into this one

    def start(self) -> None:
        """Begin to tick."""
        self._session.on_news(self._rung.emit)
        self._timer.start()

    def stop(self) -> None:
        """Stop ticking."""
        self._session.on_news(lambda: None)
        self._timer.stop()

    def tick(self) -> None:
        """Does one round."""
        changes = self._session.tick(min(max(BUDGET_S[0], self._showing), BUDGET_S[1]))
        taken = time.perf_counter()
        self.news.emit(changes)
        if changes != Changes():
            self._since_news.start()
            self._showing = time.perf_counter() - taken

    def _hurry(self) -> None:
        """News came. The first ones after a quiet time are taken in now; else the timer is about to come round
        anyway."""
        if not self._since_news.isValid() or self._since_news.elapsed() >= INTERVAL_MS:
            self._at_once = AT_ONCE
        if self._at_once and self._timer.isActive():
            self._at_once -= 1
            self._timer.start()
            self.tick()


SECOND_TICKS = 32
"""The number of ticks in about a second."""
SLOW_TICKS = 8
"""Curves follow every tick; the table, the card and the log every so many, about four times a second."""
_READING = "exercise.reading"
"""The problem of a card whose file the agent is reading."""


class WindowController(QObject):
    """Keeps the model up to date with clicks and news, and the panels with the model."""

    curves_changed = Signal()
    """Emitted when other runs are drawn, or the same runs in another way."""
    filtered = Signal()
    """Emitted when other runs are listed."""
    ticked_slowly = Signal()
    """Emitted about four times a second, to update what a person reads."""
    second = Signal()
    """Emitted about once a second, to update countdowns."""

    def __init__(
        self, window: MainWindow, catalogue: Catalogue, places: Places, session: Session, state: WindowState
    ) -> None:
        super().__init__(window)
        self.window = window
        course, _ = Courses(places).look()
        self.model = WindowModel(catalogue, session, state, course)
        self.panels = PanelUpdater(window, self.model, places)
        self.starter = RunStarter(self, places)
        self.bridge = Bridge(session, self)
        self._dirty: set[str] = set()
        """The runs of which the table and the card do not show the latest points yet."""
        self._ticks = 0
        self._awaited = ""
        """The run that was started last, until it arrives."""
        self._started: set[str] = set()
        """The runs that were started here and have not ended."""
        self._listed = False
        self.course_folder: Callable[[str, str, Callable[[], bool]], SharedFolder] | None = None
        """Gives a shared folder of the course with this id; the last says whether a person may be asked to log in."""
        self.hand_in: Callable[[LabReport, Sequence[RunSource], Callable[[], None]], bool] = lambda *_: False
        """Hands in to the followed course; False where there is none."""
        self.quiet: frozenset[str] = frozenset()
        """The codes of problems that are not shown now."""
        window.lab.fill(self.model.catalogue)
        window.lab.tree.opened.connect(self.open_exercise)
        window.next_run.edited.connect(self._form_edited)
        window.bottom.table.chosen.connect(self.select)
        window.bottom.model.toggled.connect(self.show_curve)
        window.bottom.tabs.currentChanged.connect(self.panels.log)
        window.bottom.tabs.currentChanged.connect(self.panels.details)
        window.bottom.details.other_chosen.connect(self._compare_with)
        window.bottom.filter.textChanged.connect(self._filter)
        window.bottom.column_toggled.connect(self._toggle_column)
        self.bridge.news.connect(self._take_in)
        self.bridge.news.connect(self._tick)  # whatever becomes of the news
        self.curves_changed.connect(self.panels.curves)

    def refresh(self, change: Change, runs: Collection[str] | None = None) -> None:
        """Show what changed, of these runs if it is about some."""
        self.panels.refresh(change, runs)
        if change & Change.CURVES:
            self.curves_changed.emit()

    # --- The session --------------------------------------------------------------------------------------------------

    def open_first(self, exercise: str) -> None:
        """Show this exercise and what the session has in every panel."""
        self._show(self.model.cards[exercise], Change.EXERCISE | Change.LINK | Change.ANSWERS)

    def follow(self) -> None:
        """Follow the session from now on."""
        self.window.order_tabs()
        self.bridge.start()

    def take_catalogue(self, catalogue: Catalogue) -> None:
        """Shows the agent's own exercises, which have changed. What is in the form stays if the card is the same."""
        model, before = self.model, self.model.card
        model.take(catalogue)
        self.window.messages.lapse_of("exercise.")
        self.window.lab.fill(model.catalogue)
        now = model.cards.get(before.id, model.catalogue.exercises[0])
        if now != before:
            self._show(now, Change.EXERCISE | Change.ANSWERS)
        else:
            self.window.lab.tree.select(before.id)
            self.refresh(Change.ANSWERS)

    def follow_course(self, course: Course | None) -> None:
        """Show the exercises of a course, or all."""
        self.model.course = course
        self.take_catalogue(self.model.whole)

    def detach(self) -> None:
        """Stop following; the caller closes the session."""
        self.bridge.stop()

    # --- What is open -------------------------------------------------------------------------------------------------

    def open_exercise(self, exercise: str) -> None:
        """Show another exercise in every panel."""
        if exercise in self.model.cards and exercise != self.model.card.id:
            self._show(self.model.cards[exercise])

    def _show(self, card: ExerciseCard, change: Change = Change.EXERCISE) -> None:
        model, window = self.model, self.window
        model.card = card
        model.session.prefer(card.id, *(spec.runs_of for spec in card.params if spec.runs_of))
        if model.filter.terms:  # its names may be unknown here
            model.filter = RunFilter()
            window.bottom.filter.clear()
        window.messages.open_exercise(card.id)
        window.lab.tree.select(card.id)
        window.head.show_card(card)
        window.guide.set_card(card)
        window.next_run.set_card(card)
        window.run_view.controls.set_scales(bool(card.datasets))
        window.order_tabs()
        window.setWindowTitle(f"{card.title} – Clew")
        if card.problem is not None and card.problem.code != _READING and model.runs():  # else the first card says it
            window.messages.show_problems((card.problem,), exercise=card.id)
        model.choose()
        self._dirty.clear()
        self.refresh(change)

    def select(self, run: str) -> None:
        """Put a run on the card and its curve in front."""
        if run and run != self.model.selected:
            self.model.select(run)
            self.refresh(Change.SELECTED)

    def show_alone(self, runs: Sequence[str]) -> None:
        """Draw these runs alone, with the baseline; the running one is on the card."""
        self.model.show_alone(runs)
        self.refresh(Change.SELECTED)

    def _filter(self, text: str) -> None:
        """List the runs that fit; while a filter is not understood the one before holds."""
        try:
            wanted = parse_filter(text, known_names(self.model.card))
        except ProblemError as error:
            self.window.bottom.refuse_filter(str(error.problems[0]))
            return
        self.window.bottom.refuse_filter("")
        if wanted != self.model.filter:
            self.model.filter = wanted
            self.refresh(Change.LISTED)
            self.filtered.emit()

    def _toggle_column(self, key: str, on: bool) -> None:
        self.model.state.columns[key] = on
        self.refresh(Change.LISTED)

    def _compare_with(self, run: str) -> None:
        self.model.beside = run or "none"
        self.panels.details()

    def annotate(self, run: str, note: RunNote) -> None:
        """Keep what a person wrote about a run."""
        with self.refusals():
            self.model.session.annotate(run, note)
            self.refresh(Change.DRAWN)

    def step_exercise(self, by: int) -> None:
        """The exercise after or before the open one."""
        ids = self.window.lab.tree.exercise_ids()
        self.open_exercise(ids[(ids.index(self.model.card.id) + by) % len(ids)])

    def _form_edited(self) -> None:
        data = self.window.next_run.spec().data
        other, self.model.data = data != self.model.data, data
        self.refresh(Change.FORM | Change.DATA if other else Change.FORM)

    def show_curve(self, run: str, on: bool) -> None:
        """Show or hide a run in the plots."""
        self.model.show(run, on)
        self.refresh(Change.DRAWN)

    def pin(self, on: bool) -> None:
        """Pin the selected run as the baseline that is always drawn."""
        run = self.model.run()
        if run is not None:
            self.model.pin(run.id if on else "")
            self.refresh(Change.DRAWN)

    def drop(self, run: str) -> None:
        """A try was discarded: its row and its curve go."""
        chosen = self.model.choices
        chosen.recent = [one for one in chosen.recent if one != run]
        self._dirty.discard(run)
        self._started.discard(run)
        self.window.bottom.model.remove(run)

    def runs_changed(self) -> None:
        """Runs were taken out of the list, or came back."""
        self.model.choose()
        self.refresh(Change.EXERCISE | Change.ANSWERS)

    # --- What a person asks for ---------------------------------------------------------------------------------------

    def show_problems(self, problems: tuple[Problem, ...]) -> None:
        """Shows problems: those with Clew's own files for the whole window, all others for the open exercise."""
        for one in problems:
            exercise = "" if one.code.startswith("session.") else self.model.card.id
            self.window.messages.show_problems((one,), exercise=exercise)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Shows the refusal of what is asked inside; the rest is not done then."""
        try:
            yield
        except ProblemError as error:
            self.refused(error)

    def refused(self, error: ProblemError) -> None:
        """Show a refusal at its fields and as a message."""
        self.window.next_run.form.show_problems(error.problems)
        self.window.messages.show_problems(error.problems, exercise=self.model.card.id)

    # --- News ---------------------------------------------------------------------------------------------------------

    def _take_in(self, changes: Changes) -> None:
        """Takes in what a round of the session brought: new runs before their states and points. The plots follow the
        points at once, the table and the card more slowly (``_tick``)."""
        if changes.catalogue is not None:
            self.take_catalogue(changes.catalogue)
        if changes.new:
            self._arrived(changes.new)
        if changes.states:
            self._states(changes.states)
        if points := self._mine(changes.points):
            self._dirty |= points
            self.panels.points(points)
        if changes.link or changes.jobs:
            self._link()
        self.show_problems(tuple(one for one in changes.problems if one.code not in self.quiet))

    def _mine(self, runs: Iterable[str]) -> set[str]:
        return {run for run in runs if self.model.is_mine(run)}

    def await_runs(self, runs: Sequence[str]) -> None:
        """These runs were asked for here: the first is selected as soon as it is there, drawn beside the others."""
        self._awaited = runs[0]
        self._started.update(runs)
        self.window.messages.begin_run(self.model.card.id)
        self.window.show_tab(1)
        self._arrived({run for run in runs if run in self.model.session.runs})

    def _arrived(self, new: Collection[str]) -> None:
        model, mine = self.model, self._mine(new)
        change, rows = Change.QUEUE, set(new)
        if mine:
            before, drawn, base = model.selected, set(model.shown()), model.pinned()
            if self._awaited in mine:
                model.select_started(self._awaited)
                self._awaited = ""
            model.choose()
            change = Change.NEW if base == model.pinned() else Change.NEW | Change.DRAWN
            if model.selected != before or model.selected in mine:
                change |= Change.RUN
            rows |= drawn.symmetric_difference(model.shown())
        self.refresh(change, rows)

    def _states(self, changed: Collection[str]) -> None:
        mine = self._mine(changed)
        if mine:
            self.model.follow()
        self.refresh(Change.STATES if mine else Change.QUEUE, changed)
        self._report_failures(changed)

    def _report_failures(self, changed: Collection[str]) -> None:
        """A run that was started here and failed says why, once, with what to do now, unless its card does."""
        for run in filter(None, map(self.model.session.runs.get, self._started.intersection(changed))):
            trouble = run.history.fold.problem
            if run.state not in TERMINAL:
                continue
            self._started.discard(run.id)
            said = run.state is RunState.STOPPED or self.window.run_view.card.reason.says(run.id)
            if trouble is not None and not said:
                self.window.messages.show_problems((trouble,), run.id, run.spec.exercise)

    def _link(self) -> None:
        """Once every run of earlier windows is known, a run that was selected then and is gone is no longer waited
        for."""
        model = self.model
        model.link_reported = True
        change = Change.LINK
        if model.listed and not self._listed:
            self._listed = True
            before = model.selected
            model.choose()
            change |= Change.ANSWERS if model.selected == before else Change.ANSWERS | Change.SELECTED
        self.refresh(change)

    def _tick(self) -> None:
        self._ticks += 1
        if self._ticks % SLOW_TICKS == 0:
            if self._dirty:
                dirty, self._dirty = self._dirty, set()
                self.refresh(Change.POINTS | Change.RUN if self.model.selected in dirty else Change.POINTS, dirty)
            self.ticked_slowly.emit()
        if self._ticks % SECOND_TICKS == 0:
            run = self.model.run()
            if run is not None and run.job is not None and not run.job.over:  # its time left; how long it is silent
                self.refresh(Change.TIME)
            self.second.emit()
