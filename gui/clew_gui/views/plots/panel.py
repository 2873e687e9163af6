"""The panel of stacked convergence plots: what the rest of the window talks to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from clew_gui.charts.chart import ChartPage
from clew_gui.plotting.axes.numbers import count_text
from clew_gui.plotting.axes.ticks import XUnit
from clew_gui.plotting.curves.model import PREDICTED, Ghost, PlotSetup, RunStyle, View, resolve_plots
from clew_gui.plotting.curves.smoothing import window_for
from clew_gui.plotting.curves.units import knows
from clew_gui.plotting.pictures import deviations_at, write_pictures
from clew_gui.session.runs import RunModel
from clew_gui.views.charts.files import page_image, write_png, write_svg
from clew_gui.views.plots.by_hand import ByHandView
from clew_gui.views.plots.curves.canvas import PlotCanvas
from clew_gui.views.plots.export import Below, plots_page
from clew_gui.views.plots.kinds import KINDS_OF, Kind, Page, PlotKind
from clew_gui.views.plots.measured import MeasuredView
from clew_gui.views.plots.pictures.view import PicturesView
from clew_gui.views.plots.replay import ReplayBar, replay_steps
from clew_gui.views.plots.surface.surface import SurfaceView
from clew_gui.views.presentation import words
from clew_gui.views.theme.dialog import ask_place
from clew_gui.views.theme.parts import Appearance, column, row
from clew_gui.views.theme.theme import Theme
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard, Goal, MetricSpec, PlotSpec, SurfaceSpec
from clew_shared.exporters.rows import rows_of, series_of
from clew_shared.exporters.tables import write_curves, write_series
from clew_shared.goal_settings import is_for
from clew_shared.journal.events import Histogram, Predicted
from clew_shared.journal.lifecycle import TERMINAL
from clew_shared.params import STEPS, convert

_LOW: Final = 300
"""Pixels of height below which curves have no slider over their steps: they need the room."""
KINDS: Final = {"png": "Picture (*.png)", "svg": "Drawing (*.svg)", "csv": "Values (*.csv)"}


class _Writer(QObject):
    """Writes a table in a thread and says when it is done: (path, Problem or None)."""

    done = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self._thread: threading.Thread | None = None

    def start(self, path: Path, write: Callable[[Path], None]) -> None:
        """Begin to ``write``, when what is being written is done."""
        before = self._thread

        def work() -> None:
            if before is not None:
                before.join()
            try:
                write(path)
                self.done.emit(path, None)
            except OSError as error:
                reason = error.strerror or str(error)
                hint = "Choose a folder that you can write to and that has free space."
                self.done.emit(path, Problem("plots.export", f"{path} could not be written: {reason}.", hint))

        self._thread = threading.Thread(target=work, name="clew-export", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the end of writing, at most so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)


class ConvergencePlots(QWidget):
    """Live curves of several runs, plots above each other with one x axis, and the other kinds of plots as pages.

    Say what to show with ``show_card`` and ``show_runs``, and with ``show_news`` that runs recorded more: every frame
    is drawn from their histories. How they are shown is set with ``set_unit``, ``set_log_y``, ``set_log_x`` and
    ``set_smoothing``. All calls are cheap: drawing happens at most 25 times a second, and not at all while the panel
    cannot be seen.
    """

    run_clicked = Signal(str)
    """A run's label in the gutter was clicked."""
    shown = Signal()
    """The shown runs are others, or have something new."""
    saved = Signal(object)
    """A file was written (its Path)."""
    failed = Signal(object)
    """A file could not be written (a Problem)."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._card: ExerciseCard | None = None
        self._shown: dict[str, RunModel] = {}
        self._specs: tuple[tuple[PlotSpec, ...], tuple[Goal, ...], tuple[MetricSpec, ...]] = ((), (), ())
        self._prediction: Predicted | None = None
        self.canvas = PlotCanvas(theme, self)
        self.surface = SurfaceView(theme, self)
        self.measured = MeasuredView(theme, self)
        self.pictures = PicturesView(theme, self)
        self.by_hand = ByHandView(theme, self)
        self.below: Below | None = None
        """What else is below the curves in a file."""
        self.pictures.deviations = self._deviations
        self.kinds: dict[Kind, PlotKind] = {
            "curves": self.canvas,
            "surface": self.surface,
            "measured": self.measured,
            "pictures": self.pictures,
            "by_hand": self.by_hand,
        }
        self._page: Page = "curves"
        self._drawn: dict[str, SurfaceView | MeasuredView | PicturesView | ByHandView] = {
            "surface": self.surface,
            "measured": self.measured,
            "pictures": self.pictures,
            "by_hand": self.by_hand,
        }
        for kind in self._drawn.values():
            kind.hide()
        self.replay = ReplayBar(Appearance(theme), self)
        self.replay.moved.connect(self._show_step)
        self.pictures.canvas.walked.connect(self.replay.walk)
        self.pictures.canvas.steps_changed.connect(self._offer_steps)
        self.canvas.framed.connect(self._align_slider)
        self.canvas.view_changed.connect(self._offer_steps)
        kinds = row(self.canvas, *self._drawn.values(), gap=8)
        for part in (self.canvas, *self._drawn.values()):
            kinds.setStretchFactor(part, 9 if part is self.surface else 11)
        foot = row(self.replay, self.pictures.extras, gap=8)
        foot.setStretchFactor(self.replay, 3)
        foot.setStretchFactor(self.pictures.extras, 2)
        box = column(kinds, foot, gap=2, parent=self)
        box.setStretchFactor(kinds, 1)
        self._offer_steps()
        self._writer = _Writer()
        self._writer.done.connect(self._written, Qt.ConnectionType.QueuedConnection)
        self.canvas.run_clicked.connect(self.run_clicked)
        self.surface.run_clicked.connect(self.run_clicked)
        for part in (self.canvas, *self._drawn.values()):
            part.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            part.customContextMenuRequested.connect(lambda at, part=part: self._show_menu(part, at))
        self.setFocusProxy(self.canvas)

    # ------------------------------------------------------------ what to show
    def show_card(self, card: ExerciseCard) -> None:
        """Show the plots of an exercise, with its goals and expected curves."""
        if card != self._card:
            self._card = card
            steps = next((spec.default for spec in card.params if spec.name == STEPS), None)
            self.canvas.set_exercise(float(steps) if isinstance(steps, int) else 1000.0, card.params)
            self.set_plots(card.plots, card.goals, card.metrics)
            self.set_surfaces(card.surfaces)
            self.measured.set_plots(card.measured)
            self.pictures.set_pictures(card.pictures)
            self.by_hand.set_network(card.by_hand)
            self.replay.go_to(None)

    def show_runs(
        self, runs: Sequence[RunModel], selected: str, pinned: str, indices: Mapping[str, int], next_data: str = ""
    ) -> None:
        """Show these runs. ``indices`` says by run which colour and dash it has; ``next_data`` is the data set of the
        next run."""
        if any(run.id not in self._shown and run.state not in TERMINAL for run in runs):
            self.replay.go_to(None)  # of a run that has just begun people want to see how it goes on
        self._shown = {run.id: run for run in runs}
        data = {run.id: words.run_data(run, self._card) for run in runs}
        differ = len(set(data.values())) > 1
        self._show_goals({name for name in (*data.values(), *(() if runs else (next_data,))) if name})
        self.set_runs(
            [
                RunStyle(
                    run_id=run.id,
                    label=_label(run, self._card, run.id == pinned, data[run.id] if differ else ""),
                    index=indices.get(run.id, 0),
                    selected=run.id == selected,
                    live=run.state not in TERMINAL,
                    pinned=run.id == pinned,
                    stale=run.link_stale and run.state not in TERMINAL,
                    steps=run.history.fold.steps,
                    coming=_is_coming(run),
                    history=run.history,
                )
                for run in runs
            ]
        )
        self._set_prediction(next((run.history.prediction for run in runs if run.id == selected), None))

    def show_news(self, changed: Collection[str]) -> None:
        """Draws what is new of those of these runs that are shown."""
        if any(run.run_id in changed for run in self.canvas.runs):
            self.set_runs([self._as_now(run) for run in self.canvas.runs])
            for kind in self.kinds.values():
                kind.touch()

    # ------------------------------------------------------------ steps
    def _offer_steps(self) -> None:
        """The steps that one can go to: those of the pictures where only these are shown, else all."""
        shown = KINDS_OF[self.page]
        there = bool({"curves", "surface", "pictures"} & set(shown))
        if shown == ("pictures",):
            steps: Sequence[int] = self.pictures.canvas.steps
        else:
            taken = self.pictures.canvas.steps if "pictures" in shown else []
            last = max([run.history.last_step for run in self.canvas.runs] + taken, default=0)
            steps = replay_steps(last, even=self._has_even_steps) if there else ()
        self.replay.offer(steps, between=shown != ("pictures",))
        visible = len(steps) > 1 and (self.height() >= _LOW or "curves" not in shown)
        self.replay.setVisible(visible)
        self._align_slider()
        if not visible:  # nobody could go back from there
            self.replay.go_to(None)
        self.pictures.extras.setVisible("pictures" in shown and bool(self.pictures.canvas.steps))

    def _align_slider(self) -> None:
        """Puts the slider below the x axis of the curves, each of its places below its step, where that can be."""
        chart, steps = self.canvas.drawn, self.replay.steps
        if chart is None or not chart.frames or not steps or not self._has_even_steps:
            self.replay.align(0, 0)
        else:
            self.replay.align(*(chart.frames[0].column(float(step)) for step in (steps[0], steps[-1])))

    @property
    def _has_even_steps(self) -> bool:
        """Whether the curves are shown over all steps, evenly spaced."""
        view = self.view
        return not self.canvas.isHidden() and view.unit is XUnit.STEP and not view.log_x and view.zoom is None

    def _show_step(self, step: int | None) -> None:
        """Show everything as it was at this step; None: as it is now."""
        self.canvas.set_view(replace(self.view, until=step))
        self.surface.set_until(step)
        self.pictures.set_step(step)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Gives the height of the slider to the curves where they need it."""
        super().resizeEvent(event)
        self._offer_steps()

    def _as_now(self, style: RunStyle) -> RunStyle:
        run = self._shown.get(style.run_id)
        return style if run is None else replace(style, coming=_is_coming(run), history=run.history)

    def _show_goals(self, data: set[str]) -> None:
        """Shows only the goals that apply to the shown runs' data; all goals if no run is shown."""
        if self._card is not None:
            goals = tuple(goal for goal in self._card.goals if not data or any(is_for(goal, name) for name in data))
            if goals != self._specs[1]:
                self.set_plots(self._card.plots, goals, self._card.metrics)

    def set_plots(
        self, plots: Sequence[PlotSpec], goals: Sequence[Goal] = (), metrics: Sequence[MetricSpec] = ()
    ) -> None:
        """Show these plots. ``metrics`` have the labels, and say whether higher or lower is better."""
        self._specs = (tuple(plots), tuple(goals), tuple(metrics))
        self._resolve()

    def _set_prediction(self, drawn: Predicted | None) -> None:
        """Sets what a person expected before the selected run."""
        if drawn != self._prediction:
            self._prediction = drawn
            self._resolve()

    def set_surfaces(self, surfaces: Sequence[SurfaceSpec]) -> None:
        """The first of an exercise's surfaces, for the page "surface"."""
        self.surface.set_surface(surfaces[0] if surfaces else None, self._specs[2])

    def show_page(self, page: Page) -> None:
        """The curves, the surface or pictures, alone or beside the curves; or what was measured. Whoever owns the
        buttons chooses it: no other call changes the page, or the button would mark one that is not shown."""
        self._page = page
        self.surface.list_runs(page != "both")
        for name, kind in self.kinds.items():
            kind.setVisible(name in KINDS_OF[page])
        self.setFocusProxy(self._drawn.get(page, self.canvas))
        self._offer_steps()

    @property
    def page(self) -> Page:
        """Returns the page that is shown."""
        return self._page

    def _resolve(self) -> None:
        setups = resolve_plots(*self._specs)
        self.canvas.set_setups([replace(setup, ghost=self._ghost(setup)) for setup in setups])

    def _ghost(self, setup: PlotSetup) -> Ghost | None:
        drawn = self._prediction
        if drawn is None or not drawn.steps or drawn.metric not in setup.metrics:
            return setup.ghost
        return Ghost(tuple(zip(drawn.steps, drawn.values, strict=False)), PREDICTED, stays=True)

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs, in the order of their labels."""
        for kind in self.kinds.values():
            kind.set_runs(runs)
        self._offer_steps()
        self.shown.emit()

    def _deviations(
        self, run: str, taken: Histogram, mean: str, name: str, threshold: float
    ) -> tuple[float, Problem | None] | None:
        """Returns how many deviations above the run's mean a threshold is, and why no run can be set to so many; None
        if the run did not record what this needs."""
        known = self._shown.get(run)
        param = next((spec for spec in self._card.params if spec.name == name), None) if self._card else None
        if known is None or param is None or taken.threshold is None:
            return None
        number = known.spec.params.get(name, param.default)
        means = known.history.column(mean)
        before = means.values[means.steps < taken.step]
        if not len(before) or not isinstance(number, int | float):
            return None
        found = deviations_at(threshold, taken.threshold, float(before[-1]), number)
        return (found, convert(param, round(found, 2))[1]) if found is not None else None

    # ------------------------------------------------------------ how it is looked at
    @property
    def view(self) -> View:
        """Unit, scales, smoothing and zoom."""
        return self.canvas.view

    def set_unit(self, unit: XUnit | str) -> None:
        """Sets the unit of x: "step", "epoch", "images" or "seconds"."""
        self.canvas.set_view(replace(self.view, unit=XUnit(unit)))

    def set_log_y(self, on: bool) -> None:
        """Makes value axes logarithmic if the exercise asks for that."""
        self.canvas.set_view(replace(self.view, log_y=on))
        self.measured.set_log(on)

    def set_whole_y(self, on: bool) -> None:
        """Shows all values, or only the range that is worth seeing."""
        self.canvas.set_view(replace(self.view, whole=on, y_zoom=()))

    def set_log_x(self, on: bool) -> None:
        """A logarithmic x axis."""
        self.canvas.set_view(replace(self.view, log_x=on))

    def set_smoothing(self, amount: float) -> None:
        """Sets the smoothing, from 0 (none) to 1."""
        self.canvas.set_view(replace(self.view, smoothing=min(max(amount, 0.0), 1.0)))

    def smoothing_text(self) -> str:
        """The smoothing in words, for a tooltip."""
        steps = max((float(run.history.last_step) for run in self.canvas.runs), default=0.0)
        steps = max([steps, *(float(run.steps) for run in self.canvas.runs if run.live)])
        window = window_for(self.view.smoothing, steps)
        return "No smoothing" if window <= 1 else f"Mean over about {count_text(round(window, -1) or 1)} steps"

    def reset_zoom(self) -> None:
        """Show all of x, and the whole map, as it is now."""
        self.replay.go_to(None)
        for kind in self.kinds.values():
            kind.reset_zoom()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        self.replay.set_theme(theme)
        for kind in self.kinds.values():
            kind.set_theme(theme)

    def knows(self, unit: XUnit | str) -> bool:
        """Whether any shown run can be drawn against ``unit``; if none can, its button is disabled."""
        return any(knows(run.history, XUnit(unit)) for run in self.canvas.runs)

    # ------------------------------------------------------------ files
    def _picture(self) -> ChartPage:
        beside = next((self._drawn[kind] for kind in KINDS_OF[self.page] if kind in self._drawn), None)
        return plots_page(self.canvas, self._theme, beside, self.below)

    def copy_picture(self) -> None:
        """Put the plots on the clipboard as a picture."""
        QGuiApplication.clipboard().setImage(page_image(self._picture()))

    def save_png(self, path: Path, scale: float = 2.0) -> None:
        """Write a PNG with ``scale`` pixels per logical pixel; raises ProblemError."""
        write_png(path, page_image(self._picture(), scale))

    def save_svg(self, path: Path) -> None:
        """Write an SVG; raises ProblemError."""
        write_svg(path, self._picture())

    def _table(self) -> Callable[[Path], None]:
        """Returns a function that writes every value of the shown curves, or of what was measured, or the pictures that
        are shown: the values shown now, even if new ones arrive before it has written them."""
        if self.page == "measured":
            measured = [(run.run_id, rows) for run in self.canvas.runs for rows in series_of(run.history)]
            return lambda path: write_series(path, measured)
        if self.page == "pictures":
            run, taken = self.pictures.shown
            return lambda path: write_pictures(path, run, taken)
        metrics = {metric for setup in self.canvas.setups for metric in setup.metrics}
        metrics |= set(self.surface.spec.metrics if self.surface.spec is not None else ())
        shown = ((run, rows) for run in self.canvas.runs for rows in rows_of(run.history) if rows.metric in metrics)
        curves = [(run.run_id, run.label, rows) for run, rows in shown]
        return lambda path: write_curves(path, curves)

    def export(self, kind: str, path: Path | None = None) -> None:
        """Write "png", "svg" or "csv"; asks for the place when ``path`` is None. Ends with ``saved`` or ``failed``."""
        if path is None:
            self._ask(kind)
        elif kind == "csv":
            self._writer.start(path, self._table())
        else:
            try:
                self.save_png(path) if kind == "png" else self.save_svg(path)
            except ProblemError as error:
                self.failed.emit(error.problems[0])
            else:
                self.saved.emit(path)

    def _ask(self, kind: str) -> None:
        ask_place(self, "Export the plots", f"curves.{kind}", KINDS[kind], lambda path: self.export(kind, path))

    def _written(self, path: Path, trouble: Problem | None) -> None:
        self._writer.wait(1.0)
        if trouble is not None:
            self.failed.emit(trouble)
        else:
            self.saved.emit(path)

    # ------------------------------------------------------------ menu
    def menu(self) -> QMenu:
        """Makes the menu of the plots, for a right click or a button."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        if self.page == "measured":
            self._entry(menu, "Logarithmic axes", lambda: self.set_log_y(not self.view.log_y)).setCheckable(True)
            menu.actions()[0].setChecked(self.view.log_y)
        elif self.page == "by_hand":
            self._entry(menu, "Start again", self.reset_zoom)
        elif self.page == "pictures":
            self._entry(menu, "All pictures, as they are now", self.reset_zoom)
        elif self.page == "surface":
            self._entry(menu, "Show the whole map\tHome", self.reset_zoom)
        else:
            self._entry(menu, "Logarithmic x axis", lambda: self.set_log_x(not self.view.log_x)).setCheckable(True)
            menu.actions()[0].setChecked(self.view.log_x)
            whole = self._entry(menu, "All of y", lambda: self.set_whole_y(not self.view.whole))
            whole.setCheckable(True)
            whole.setChecked(self.view.whole)
            self._entry(menu, "Reset the zoom\tHome", self.reset_zoom).setEnabled(self.view.is_zoomed)
        menu.addSeparator()
        self._entry(menu, "Copy as a picture", self.copy_picture)
        for kind, text in (("png", "As a picture, PNG…"), ("svg", "As a drawing, SVG…"), ("csv", "Values, CSV…")):
            self._entry(menu, text, lambda kind=kind: self.export(kind))
        return menu

    @staticmethod
    def _entry(menu: QMenu, text: str, action: Any) -> QAction:
        entry = menu.addAction(text)
        entry.triggered.connect(lambda _checked=False: action())
        return entry

    def _show_menu(self, part: QWidget, at: QPoint) -> None:
        self.menu().popup(part.mapToGlobal(at))


def _is_coming(run: RunModel) -> bool:
    """Whether a part of a run's journal is still to be read."""
    return run.reading is not None or run.catching_up is not None


def _label(run: RunModel, card: ExerciseCard | None, pinned: bool, data: str) -> str:
    """The run's short name; with its data where the shown runs differ in it."""
    return words.join([words.run_title(run, card, "Baseline" if pinned else ""), words.data_short(data)])
