"""Joins the Compare tab to the window: which runs it compares, and what leaves as files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QTimer

from clew_gui.charts.compare import compare_page
from clew_gui.plotting.compare import (
    SECONDS_TO,
    STEPS_TO,
    ComparedRun,
    CompareScene,
    CurveCache,
    Judged,
    compare_scene,
    to_judge,
    with_importance,
)
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.tabs.tab import Tab
from clew_gui.views.charts.files import write_page
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.compare.compare_state import CompareState
from clew_gui.views.compare.compare_view import CompareView
from clew_gui.views.presentation import words
from clew_gui.views.sites.background import call_elsewhere
from clew_gui.views.window.window import COMPARE_TAB, MainWindow
from clew_shared.base.harmless import csv_text
from clew_shared.base.problem import Problem
from clew_shared.cards import ExerciseCard
from clew_shared.params import LEARNING_RATE
from clew_shared.run_settings import SEED, differences, label_of, settings_of
from clew_shared.study.importance import Importance, importance_of

_UNKNOWN = Importance({}, 0, "Which settings mattered is being worked out.")


class CompareActions(Tab[CompareView]):
    """The tab *Compare*: which runs it compares."""

    NUMBER = COMPARE_TAB
    EXPORT = "Export the comparison", "comparison"

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window, controller)
        self._cache = CurveCache()
        self._before = CompareState()
        self._judged: dict[tuple[str, str], tuple[Judged, Importance]] = {}
        """What Optuna said last of an exercise's metric, and of which results."""
        self._judging, self._answered = False, False
        """Whether Optuna works, and whether what it said is still to be shown."""
        self.scene: CompareScene | None = None
        self._due = QTimer(self)
        self._due.setSingleShot(True)
        self._due.setObjectName("compare")
        self._due.timeout.connect(self.refresh)
        controller.filtered.connect(self.show_other_runs)

    def show_other_runs(self) -> None:
        """Updates the tab in an event of its own, so that a click answers before a thousand runs are compared."""
        if self.in_sight():
            self._due.start(0)

    def make_view(self) -> CompareView:
        """Makes the tab's widgets."""
        view = CompareView(self._window.appearance)
        view.recall(self._before)
        view.changed.connect(self.refresh)
        view.run_chosen.connect(self._controller.select)
        view.export_asked.connect(self.export)
        return view

    def recall(self, state: CompareState) -> None:
        """Restores the state that the last window left; called before the tab is first shown."""
        self._before = state

    def left(self) -> CompareState:
        """Returns the tab's present state, for the next window."""
        return self._view.left() if self._view is not None else self._before

    # --- Showing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Show the comparison; cheap if nothing changed, and nothing while out of sight."""
        model = self._controller.model
        if not self.in_sight():
            return
        card, runs = model.card, self._runs()
        view = self.view
        states = tuple((run.id, _version(run), run.note) for run in runs)
        known = (card, states, model.pinned())
        if self._shown is None or not isinstance(self._shown, tuple) or self._shown[:3] != known:
            self._offer(card, runs)
        options, page = view.options(), view.page()
        state = (*known, options, page)
        if state == self._shown and not self._answered:
            return
        if state != self._shown or self.scene is None:
            styles = model.styles()
            compared = [_compared(run, card, styles.get(run.id, -1)) for run in runs]
            self.scene = compare_scene(compared, card, options, model.pinned(), self._cache)
        self._shown, self._answered = state, False
        about = card.id, self.scene.metric.name
        if page == "parallel":
            found = self._judged.get(about, (None, _UNKNOWN))[1]
            self.scene = with_importance(self.scene, card, found)
        left_out = len(self.scene.groups) - len(self.scene.places) if page == "scatter" else 0
        view.show_scene(self.scene, _said(len(runs), len(self.scene.groups), left_out))
        if page == "parallel":
            self._judge(about, to_judge(self.scene))

    def _judge(self, about: tuple[str, str], results: Judged) -> None:
        """Asks Optuna about new results in a thread, one question at a time: it takes up to a second. What it said of
        earlier ones is shown meanwhile."""
        if self._judging or self._judged.get(about, (None, _UNKNOWN))[0] == results:
            return
        self._judging = True

        def keep(found: Importance) -> None:
            self._judged[about] = results, found
            self._judging, self._answered = False, True
            self.refresh()

        def failed(problems: tuple[Problem, ...]) -> None:
            keep(Importance({}, 0, problems[0].text))

        call_elsewhere(self, "optuna", partial(importance_of, *results), keep, failed)

    def _runs(self) -> list[RunModel]:
        """The ticked runs or all listed ones, those that recorded something; without range tests, whose values are of
        many rates."""
        model = self._controller.model
        ticked, every = set(model.shown()), self.view.sets.current() == "listed"
        found = model.listed_runs() if every else [run for run in model.runs() if run.id in ticked]
        found = [run for run in found if run.spec.rate_range is None]
        return [run for run in found if run.history.fold.step or run.history.metrics]

    def _offer(self, card: ExerciseCard, runs: list[RunModel]) -> None:
        headline = words.headline_metric(card)
        metrics = sorted(card.metrics, key=lambda one: one is not headline)
        names = [one.name for one in differences([settings_of(run.spec, card) for run in runs])]
        settings = [(name, label_of(name, card)) for name in names]
        reached = ((STEPS_TO, "Steps to the target"), (SECONDS_TO, "Seconds to the target"))
        x = sorted((one for one in settings if one[0] != SEED), key=lambda one: one[0] != LEARNING_RATE) or [
            (LEARNING_RATE, label_of(LEARNING_RATE, card))
        ]
        log = {name for plot in card.plots if plot.log for name in plot.metrics}
        offered = [(one.name, one.label) for one in metrics]
        self.view.offer(card.id, offered, settings, [*x, *reached], log)

    # --- Files --------------------------------------------------------------------------------------------------------

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        card = self._controller.model.card
        if self.scene is None:
            return
        if kind == "csv":
            path.write_text(csv_text(self.scene.table), encoding="utf-8", newline="\n")
        else:
            title = f"{card.title}: {self.scene.metric.label}"
            theme = self._window.appearance.theme
            write_page(path, compare_page(self.scene, self.view.page(), title, theme, SIZES), kind)


def _compared(run: RunModel, card: ExerciseCard, style: int) -> ComparedRun:
    name, settings = words.name_of(run), settings_of(run.spec, card)
    return ComparedRun(run.id, run.number, name, settings, run.history, _version(run), style)


def _version(run: RunModel) -> tuple[object, ...]:
    fold = run.history.fold
    return id(run.history), fold.attempt, fold.step, run.state


def _said(runs: int, groups: int, left_out: int = 0) -> str:
    """``12 runs, 4 groups``; and how many of these have no place in the picture: no result, or 0 on a logarithmic
    axis."""
    said = [f"{runs} run{'' if runs == 1 else 's'}"]
    said += [f"{groups} groups"] if groups < runs else []
    said += [f"{left_out} not shown"] if left_out else []
    return ", ".join(said)
