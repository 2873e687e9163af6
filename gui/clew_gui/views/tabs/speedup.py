"""The Speed-up tab: which scaling is shown, its sentence, both plots, the table, and the button that measures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from clew_gui.charts.kit.lines import LinesChart
from clew_gui.charts.speedup import ScalingRun, SpeedupScene, as_csv, speedup_page, speedup_scene
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.files import write_page
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.form.fields import NumberEdit, text_field
from clew_gui.views.presentation import words
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.tabs.tab import NARROW, Tab, low_card
from clew_gui.views.theme.parts import (
    Button,
    Elided,
    Glyph,
    IconButton,
    Segments,
    column,
    label,
    lay_out_now,
    row,
    set_role,
)
from clew_gui.views.theme.tables import ReadOnlyTable
from clew_gui.views.window.window import MainWindow
from clew_shared.base import operating_system
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError, raise_all
from clew_shared.cards import ExerciseCard
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.params import BATCH_SIZE, STEPS, ParamSpec, convert
from clew_shared.study.study import StudySpec, check_study, scaling_kind, scaling_study, study_runs, usual_warm_up
from clew_shared.study.sweep import read_values

Kind = Literal["strong", "weak"]
KINDS = (("strong", "Strong scaling"), ("weak", "Weak scaling"))
_KIND_TIPS = {
    "strong": "One batch is divided among the devices: how much sooner is the same work done?",
    "weak": "Each device gets a whole batch: how much more work is done in the same time?",
}
REPEATS = ParamSpec(
    name="repeats",
    kind="int",
    label="Repeats",
    default=3,
    ge=1,
    le=20,
    help="How often each number of devices is measured. The intervals come from the repeats.",
)
COUNTS = ParamSpec(
    name="counts",
    kind="int",
    label="Devices",
    default=1,
    ge=1,
    le=1024,
    help="The numbers of devices, or of nodes, to measure, such as 1, 2, 4. Empty: those that are shown.",
)
USUAL = (1, 2, 4)
"""Numbers of devices that one click measures, as far as the strategy can use them."""


class SpeedupTab(Tab):
    """Shows what one scaling study of the open exercise measured, and measures another."""

    entry = Action("speedup", "S&peed-up", "Ctrl+4", "How much faster several devices are")
    EXPORT = "Export the speed-up", "speed-up"

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller, places)
        self._chosen_kind: Kind | None = None
        self.scene: SpeedupScene | None = None
        self._left: list[str] = []
        """The runs of the study that have not ended."""
        self._rest = QWidget()
        self._rest.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self._pair = self._plots()
        self.lay_out(self._bar(), self._banner(), self._pair, self._table_card(), self._rest, grows=self._pair)
        window.next_run.edited.connect(self._update_button)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _bar(self) -> QWidget:
        appearance = self._appearance
        self.kinds = Segments(KINDS, "strong", "Scaling")
        for key, _ in KINDS:
            self.kinds.button(key).setToolTip(_KIND_TIPS[key])
        self.kinds.chosen.connect(self._choose)
        self.progress = Elided("", "caption", "2")
        self.progress.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.repeats = NumberEdit(REPEATS, 44)
        self.repeats.set_value(REPEATS.default)
        self.repeats.edited.connect(self._update_button)
        self.counts = text_field("Numbers of devices", tip=COUNTS.help)
        self.counts.setFixedWidth(92)
        self.counts.textChanged.connect(self._update_button)
        self._name = label(REPEATS.label, "body", "2", of=self.repeats)
        self.measure = Button(appearance, "Measure", "primarySmall", "play")
        self.measure.clicked.connect(self._ask)
        self.files = self.files_button()
        self._bar_box = QWidget()
        self._bar_box.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self._counts_name = label(COUNTS.label, "body", "2", of=self.counts)
        self.cancel = Button(appearance, "Cancel", "quiet", "cross", "Stop the runs of this study that have not ended")
        self.cancel.clicked.connect(self._cancel)
        fields = (self._counts_name, self.counts, self._name, self.repeats, self.cancel)
        row(self.kinds, self.progress, *fields, self.measure, self.files, gap=8, parent=self._bar_box)
        return self._bar_box

    def _banner(self) -> QFrame:
        self.sentence = label("", "subtitle", wrap=True)
        self.detail = label("", "body", "2", wrap=True)
        self._glyph = Glyph(self._appearance, "info", "accent", 18)
        words = column(self.sentence, self.detail, gap=3)
        self.note = low_card(row(self._glyph, words, gap=12, margins=(16, 10, 16, 11), grows=words), "note")
        return self.note

    def _plots(self) -> QWidget:
        self.canvases = tuple(ChartView(self._appearance, name, least=150) for name in ("Speed-up", "Efficiency"))
        self._heads = (label("", "subtitle"), label("", "subtitle"))
        self._captions = (Elided("", "caption", "2"), Elided("", "caption", "2"))
        heads = [row(head, caption, gap=8) for head, caption in zip(self._heads, self._captions, strict=True)]
        return self.pair((heads[0], self.canvases[0], 5), (heads[1], self.canvases[1], 4))

    def _table_card(self) -> QFrame:
        self._title = label("", "subtitle")
        self._caption = Elided("", "caption", "2")
        copy = IconButton(self._appearance, "copy", "Copy the table", "Copy the table, for a spreadsheet")
        self.table = ReadOnlyTable("Speed-up by number of devices", whole=True)
        copy.clicked.connect(self.table.copy)
        head = row(self._title, self._caption, copy, gap=8)
        self._table_frame = low_card(column(head, self.table, gap=4, margins=(14, 8, 8, 8)))
        return self._table_frame

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
        self.kinds.choose(kind)
        self._left = [run.id for run in runs if run.state not in TERMINAL]
        self._fit()
        self._show_scene(self.scene, _progress(runs), _when(runs))
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

    def _show_scene(self, scene: SpeedupScene, progress: str, when: str) -> None:
        """Show what a study measured: how far it is, and when it was done."""
        set_role(self.note, "warnNote" if scene.conclusion.shared else "note")
        self._glyph.set_glyph("info", "warn" if scene.conclusion.shared else "accent")
        sentence, detail = scene.conclusion.sentence, scene.conclusion.detail
        if self._left and not scene.scaling.rows:
            sentence, detail = "Measuring…", "What a number of devices reaches is shown once its runs have ended."
        self.sentence.setText(sentence)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))
        self.progress.set_text(progress)
        measured = bool(scene.plots)
        self._pair.setVisible(measured)
        self._rest.setVisible(not measured)
        self._table_frame.setVisible(measured)
        self.files.setEnabled(measured)
        for plot, head, caption, canvas in zip(scene.plots, self._heads, self._captions, self.canvases, strict=False):
            head.setText(plot.title)
            caption.set_text(plot.caption)
            canvas.setAccessibleName(plot.title)
            canvas.show_chart(partial(LinesChart, plot, names=canvas is self.canvases[0]))
        self._title.setText(scene.title)
        self._caption.set_text(", ".join(filter(None, (scene.caption, when))))
        self.table.fill(scene.table)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Hides what has no room beside the button."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """While a study is measured it can be cancelled where its numbers are asked for otherwise."""
        asks, wide = not self._left, self.width() >= NARROW
        for part in (self._counts_name, self.counts, self._name):
            part.setVisible(asks and wide)
        self.repeats.setVisible(asks)
        self.cancel.setVisible(not asks)
        lay_out_now(self._bar_box, self)

    def _cancel(self) -> None:
        """Stop what is left of the study."""
        for run in self._left:
            with self._controller.refusals():
                self._controller.model.session.stop(run)

    # --- Measuring ----------------------------------------------------------------------------------------------------

    def _update_button(self) -> None:
        """Updates the button: what it would measure, or why it cannot."""
        card, form = self._controller.model.card, self._window.next_run
        usual = spread_over(card, form.spec().strategy)
        self.counts.setPlaceholderText(_listed(usual.counts) if usual is not None else "")
        chosen, wrong_counts = self._chosen(usual)
        spread = usual if wrong_counts is not None else chosen
        set_role(self.counts, "bad" if wrong_counts is not None else "", "state")
        self._counts_name.setText(spread.axis.capitalize() if spread is not None else COUNTS.label)
        measure = f"Measure {spread.words}" if spread is not None else "Measure"
        self.measure.set_words("Measure", measure)
        self.measure.setAccessibleName(measure)
        why = "runs on one device only" if card.kind == "training" else "has no training steps to time"
        alone = "" if spread is not None else f"{card.title} {why}"
        _, wrong = self._repeats()
        refused = "" if form.run.isEnabled() else form.run.toolTip()
        wrong = wrong_counts or wrong
        reason = alone or refused or (wrong.text if wrong is not None else "")
        self.measure.allow(not reason, reason)

    def _repeats(self) -> tuple[int, Problem | None]:
        value, wrong = convert(REPEATS, self.repeats.raw())
        return value if isinstance(value, int) else 1, wrong

    def _chosen(self, usual: Spread | None) -> tuple[Spread | None, Problem | None]:
        """The spread over the numbers that were typed, if there are any, and what is wrong with them."""
        text = self.counts.text()
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
        weak = self.kinds.current() == "weak"
        warm_up = usual_warm_up(values.get(STEPS))
        repeats, _ = self._repeats()
        return scaling_study(base, spread.counts, axis=spread.axis, repeats=repeats, warm_up=warm_up, weak=weak)

    def _ask(self) -> None:
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
            self.open()
            self.refresh()

        self._controller.starter.start(specs, started)

    # --- Files --------------------------------------------------------------------------------------------------------

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        if self.scene is None:
            return
        title, theme = f"{self._controller.model.card.title}: {self.scene.title}", self._appearance.theme
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


def _progress(runs: Sequence[RunModel]) -> str:
    """Says how far an unfinished study is."""
    finished = sum(run.state is RunState.FINISHED for run in runs)
    return f"{finished} of {len(runs)} done" if finished < len(runs) else ""


def _when(runs: Sequence[RunModel]) -> str:
    """Says when a study was measured."""
    finished = [run for run in runs if run.state is RunState.FINISHED]
    if not finished:
        return ""
    first = words.wall(min(run.history.fold.started for run in finished))
    last = words.wall(max(run.history.fold.ended for run in finished))
    return f"measured {first}" + (f" to {last}" if last != first else "")
