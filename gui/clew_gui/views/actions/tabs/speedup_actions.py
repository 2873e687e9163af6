"""Joins the Speed-up tab to the window: which study it shows, and the runs that its button asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from clew_gui.charts.speedup import speedup_page
from clew_gui.plotting.speedup import ScalingRun, SpeedupScene, as_csv, speedup_scene
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.tabs.tab import Tab
from clew_gui.views.charts.files import write_page
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.presentation import words
from clew_gui.views.speedup.speedup_view import COUNTS, REPEATS, SpeedupView
from clew_gui.views.theme.parts import set_role
from clew_gui.views.window.window import SPEEDUP_TAB, MainWindow
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.lifecycle import RunState
from clew_shared.params import BATCH_SIZE, STEPS, convert
from clew_shared.study.study import StudySpec, check_study, scaling_kind, scaling_study, study_runs, usual_warm_up
from clew_shared.study.sweep import read_values

USUAL = (1, 2, 4)
"""Numbers of devices that one click measures, as far as the strategy can use them."""
Kind = Literal["strong", "weak"]


class SpeedupActions(Tab[SpeedupView]):
    """The tab *Speed-up*: which study it shows, and the runs that its button asks for."""

    NUMBER = SPEEDUP_TAB
    EXPORT = "Export the speed-up", "speed-up"

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window, controller)
        self._chosen_kind: Kind | None = None
        self.scene: SpeedupScene | None = None
        window.next_run.edited.connect(self._update_button)

    def make_view(self) -> SpeedupView:
        """Makes the tab's widgets."""
        view = SpeedupView(self._window.appearance)
        view.kind_chosen.connect(self._choose)
        view.measure_asked.connect(self.measure)
        view.study_edited.connect(self._update_button)
        view.export_asked.connect(self.export)
        return view

    # --- Showing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Show the newest study of the open exercise; cheap if nothing changed, and nothing while out of sight."""
        model = self._controller.model
        if not self.in_sight():
            return
        kind, runs = self._study(model.runs())
        state = (model.card, kind, tuple((run.id, run.state) for run in runs))
        if not self.is_new(state):
            return
        here = all(run.job is None for run in runs)
        found = [ScalingRun(run.spec, run.state, run.history) for run in runs]
        cores = operating_system.usable_cores() if here else 0
        self.scene = speedup_scene(found, model.card, weak=kind == "weak", cores=cores)
        self.view.kinds.choose(kind)
        self.view.show_scene(self.scene, _progress(runs), _when(runs))
        self._update_button()

    def _study(self, runs: Sequence[RunModel]) -> tuple[Kind, list[RunModel]]:
        """The kind of scaling that is shown, and the runs of the newest study of that kind."""
        studies: dict[str, list[RunModel]] = {}
        for run in runs:
            if run.spec.study:
                studies.setdefault(run.spec.study, []).append(run)
        for members in reversed(studies.values()):
            kind = scaling_kind([run.spec for run in members])
            if kind is not None and self._chosen_kind in (None, kind):
                return kind, members
        return self._chosen_kind or "strong", []

    def _choose(self, kind: str) -> None:
        self._chosen_kind = "weak" if kind == "weak" else "strong"
        self.refresh()

    # --- Measuring ----------------------------------------------------------------------------------------------------

    def _update_button(self) -> None:
        """Updates the button: what it would measure, or why it cannot."""
        card, form = self._controller.model.card, self._window.next_run
        if self._view is None:
            return
        usual = spread_over(card, form.spec().strategy)
        self._view.counts.setPlaceholderText(_listed(usual.counts) if usual is not None else "")
        chosen, wrong_counts = self._chosen(usual)
        spread = usual if wrong_counts is not None else chosen
        set_role(self._view.counts, "bad" if wrong_counts is not None else "", "state")
        self._view.measure.set_words(f"Measure {spread.words}" if spread is not None else "Measure")
        alone = "" if spread is not None else _why_alone(card)
        _, wrong = self._repeats()
        refused = "" if form.run.isEnabled() else form.run.toolTip()
        wrong = wrong_counts or wrong
        reason = alone or refused or (wrong.text if wrong is not None else "")
        self._view.measure.allow(not reason, reason)

    def _repeats(self) -> tuple[int, Problem | None]:
        value, wrong = convert(REPEATS, self.view.repeats.raw())
        return value if isinstance(value, int) else 1, wrong

    def _chosen(self, usual: Spread | None) -> tuple[Spread | None, Problem | None]:
        """The spread over the numbers that were typed, if there are any, and what is wrong with them."""
        text = self.view.counts.text()
        if usual is None or not text.strip():
            return usual, None
        values, wrong = read_values(COUNTS, text)
        counts = tuple(sorted({value for value in values if isinstance(value, int)}))
        text = f"A comparison needs two numbers of {usual.axis} or more."
        few = Problem("study.fields", text, "Write 1, 2, 4.", "values")
        return usual._replace(counts=counts), next(iter(wrong), few if len(counts) < 2 else None)

    def study(self) -> StudySpec | None:
        """The study that the button starts; None where the exercise runs on one device only."""
        card = self._controller.model.card
        base = self._window.next_run.spec()
        spread, wrong = self._chosen(spread_over(card, base.strategy))
        if spread is None or wrong is not None:
            return None
        values = {param.name: base.params.get(param.name, param.default) for param in card.params}
        size = {BATCH_SIZE: values[BATCH_SIZE]} if BATCH_SIZE in values else {}
        base = msgspec.structs.replace(base, params={**base.params, **size})
        if spread.strategy != base.strategy:
            base = msgspec.structs.replace(base, strategy=spread.strategy, options={}, nodes=1)
        weak = self.view.kinds.current() == "weak"
        warm_up = usual_warm_up(values.get(STEPS))
        repeats, _ = self._repeats()
        return scaling_study(base, spread.counts, axis=spread.axis, repeats=repeats, warm_up=warm_up, weak=weak)

    def measure(self) -> None:
        """Queue the study's runs where the form says; the tab shows each as it finishes."""
        study = self.study()
        if study is None:
            return
        try:
            raise_all(check_study(study, self._controller.model.card))
        except ProblemError as error:
            self._controller.refused(error)
            return
        specs = tuple(run.spec for run in study_runs(study))
        kind: Kind = "weak" if study.weak else "strong"

        def started() -> None:
            self._chosen_kind = kind
            self._window.show_tab(SPEEDUP_TAB)
            self.refresh()

        self._controller.starter.start(specs, started)

    # --- Files --------------------------------------------------------------------------------------------------------

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        if self.scene is None:
            return
        title, theme = f"{self._controller.model.card.title}: {self.scene.title}", self._window.appearance.theme
        if kind == "csv":
            path.write_text(as_csv(self.scene.scaling.rows), encoding="utf-8", newline="\n")
        else:
            write_page(path, speedup_page(self.scene, title, theme, SIZES), kind)


class Spread(NamedTuple):
    """Says what a study changes from run to run, with which strategy, and the numbers that it measures."""

    strategy: str
    axis: str
    counts: tuple[int, ...]

    @property
    def words(self) -> str:
        """``1, 2, 4 devices``."""
        return f"{_listed(self.counts)} {self.axis}"


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def spread_over(card: ExerciseCard, chosen: str) -> Spread | None:
    """Returns how a study spreads the exercise: with the chosen strategy if it uses more than one device, else with the
    first that does. None if no strategy does, and for an exercise without training steps."""
    spreads = [
        Spread(one.id, "nodes" if one.nodes else "devices", tuple(n for n in USUAL if one.nodes or n in one.devices))
        for one in card.strategies
        if card.kind == "training"
    ]
    able = [spread for spread in spreads if len(spread.counts) > 1]
    return next((spread for spread in able if spread.strategy == chosen), able[0] if able else None)


def _why_alone(card: ExerciseCard) -> str:
    steps = card.kind == "training"
    return f"{card.title} {'runs on one device only' if steps else 'has no training steps to time'}"


def _progress(runs: Sequence[RunModel]) -> str:
    """Says how far an unfinished study is."""
    finished = sum(run.state is RunState.FINISHED for run in runs)
    return f"{finished} of {len(runs)} done" if finished < len(runs) else ""


def _when(runs: Sequence[RunModel]) -> str:
    """Says when a study was measured."""
    finished = [run for run in runs if run.state is RunState.FINISHED]
    if not finished:
        return ""
    first, last = (
        words.wall(find(getattr(run.history.fold, name) for run in finished))
        for find, name in ((min, "started"), (max, "ended"))
    )
    return f"measured {first}" + (f" to {last}" if last != first else "")
