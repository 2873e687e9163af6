"""Joins races to the window: the dialog, the runs it asks for, and the places above the plots."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QObject

from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.presentation import words
from clew_gui.views.race.race_bar import RaceEntry
from clew_gui.views.race.race_dialog import RaceDialog
from clew_gui.views.window.window import MainWindow
from clew_shared.cards import ExerciseCard, RaceSpec
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.params import format_value
from clew_shared.study.ranking import Standing, rank, stand
from clew_shared.study.study import StudySpec, find_race, lane_specs, race_of


class Races(QObject):
    """Starts and shows races. There is one object for each window."""

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._hidden: set[str] = set()
        self._known: dict[str, tuple[object, object]] = {}
        window.next_run.race_asked.connect(self.ask)
        window.run_view.race.chosen.connect(controller.select)
        window.run_view.race.closed.connect(self._hide)
        controller.curves_changed.connect(self.refresh)
        controller.ticked_slowly.connect(self.refresh)

    def ask(self) -> None:
        """Open the dialog for the open exercise's race."""
        card = self._controller.scope.card
        if card is None or not card.races:
            return
        dialog = RaceDialog(self._window, self._window.appearance, card, find_race(card), self._window.next_run.spec())
        dialog.started.connect(self.start)
        dialog.open()

    def start(self, study: StudySpec) -> None:
        """Queue the study's runs, and draw them over each other as they come."""
        self._controller.start_all(lane_specs(study))
        self.refresh()

    # --- Places -------------------------------------------------------------------------------------------------------

    def _hide(self) -> None:
        run = self._controller.scope.run()
        if run is not None:
            self._hidden.add(run.spec.study)
        self.refresh()

    def refresh(self) -> None:
        """Show the places of the study that the selected run belongs to; nothing if it belongs to none."""
        scope, bar = self._controller.scope, self._window.run_view.race
        run, card = scope.run(), scope.card
        study = run.spec.study if run is not None else ""
        race = race_of(card, study) if card is not None and study else None
        bar.setVisible(race is not None and study not in self._hidden)
        if race is None or card is None or run is None or not bar.isVisibleTo(self._window.run_view):
            return
        runs = [one for one in scope.runs() if one.spec.study == study]
        bar.show_places(race.title, race_words(race, card, runs), self._entries(race, card, runs, run.id))

    def _entries(self, race: RaceSpec, card: ExerciseCard, runs: list[RunModel], selected: str) -> list[RaceEntry]:
        metric = words.metric_of(card, race.metric)
        better: Literal["lower", "higher"] = "higher" if metric is not None and metric.better == "higher" else "lower"
        standings: list[Standing] = []
        for run in runs:
            state = (run.history.fold.attempt, run.history.fold.step, run.state)
            known = self._known.get(run.id)
            if known is None or known[0] != state:  # it reads the whole curve
                known = (state, stand(run.id, run.history, race.metric, better, race.target))
                self._known[run.id] = known
            if isinstance(known[1], Standing):
                standings.append(known[1])
        by_id, styles = {run.id: run for run in runs}, self._controller.scope.styles()
        return [
            _entry(place, by_id[one.run], one.reached, one.best, card, race, selected, styles.get(one.run, -1))
            for place, one in enumerate(rank(standings, better), start=1)
        ]


def _entry(
    place: int,
    run: RunModel,
    reached: int | None,
    best: float | None,
    card: ExerciseCard,
    race: RaceSpec,
    selected: str,
    style: int,
) -> RaceEntry:
    metric = words.metric_of(card, race.metric)
    if reached is not None:
        result = f"step {words.count(reached)}"
    elif best is not None:
        value = words.metric_value(metric, best)
        result = value if race.target is None else f"best {_metric_name(race, card)} {value}"
    else:
        result = words.state_word(run).lower()
    name = words.run_title(run, card).partition("  ")[2]
    return RaceEntry(place if best is not None else 0, run.id, style, name, result, run.id == selected)


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
