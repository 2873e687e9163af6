"""The panel of stacked convergence plots: what the rest of the window talks to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from clew_gui.plotting.axes.numbers import count_text
from clew_gui.plotting.axes.ticks import XUnit
from clew_gui.plotting.curves.model import (
    EXPECTED,
    PREDICTED,
    Ghost,
    PlotSetup,
    RunEvent,
    RunStyle,
    View,
    resolve_plots,
)
from clew_gui.plotting.curves.series import SeriesStore
from clew_gui.plotting.curves.smoothing import window_for
from clew_gui.plotting.pictures import HEADER, picture_rows
from clew_gui.plotting.table import Extract, extract, write_csv, write_rows, write_series_csv
from clew_gui.views.plots.curves.canvas import PlotCanvas
from clew_gui.views.plots.export import ExportedPicture
from clew_gui.views.plots.kinds import KINDS_OF, Kind, Page, PaintablePlot, PlotKind
from clew_gui.views.plots.measured import MeasuredView
from clew_gui.views.plots.pictures.view import PicturesView
from clew_gui.views.plots.surface.surface import SurfaceView
from clew_gui.views.theme.dialog import ask_place
from clew_gui.views.theme.theme import Theme
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Goal, MetricSpec, PictureSpec, PlotSpec, SeriesPlot, SurfaceSpec
from clew_shared.journal.history import Figure, Measured

KINDS: Final = {"png": "Picture (*.png)", "svg": "Drawing (*.svg)", "csv": "Values (*.csv)"}


class _Writer(QObject):
    """Writes a table in a thread and says when it is done: (path, rows, Problem or None)."""

    done = Signal(object, int, object)

    def __init__(self) -> None:
        super().__init__()
        self._thread: threading.Thread | None = None

    def start(self, path: Path, write: Callable[[Path], int]) -> None:
        """Begin to ``write``, when what is being written is done."""
        before = self._thread

        def work() -> None:
            if before is not None:
                before.join()
            try:
                self.done.emit(path, write(path), None)
            except OSError as error:
                reason = error.strerror or str(error)
                hint = "Choose a folder that you can write to and that has free space."
                self.done.emit(path, 0, Problem("plots.export", f"{path} could not be written: {reason}.", hint))

        self._thread = threading.Thread(target=work, name="clew-export", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the end of writing, at most so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)


class ConvergencePlots(QWidget):
    """Live curves of several runs, plots above each other with one x axis.

    Feed it with ``append``, ``add_clock`` and ``set_scale``; say what to show with ``set_plots`` and ``set_runs``. How
    they are shown is set with ``set_unit``, ``set_log_y``, ``set_log_x`` and ``set_smoothing``. All calls are cheap:
    drawing happens at most 25 times a second, and not at all while the panel cannot be seen.
    """

    run_clicked = Signal(str)
    """A run's label in the gutter was clicked."""
    run_hovered = Signal(str)
    """Emitted when the pointer is on a run's label; empty when it left."""
    view_changed = Signal(object)
    """The ``View`` changed, by a call or by hand."""
    saved = Signal(object)
    """A file was written (its Path)."""
    failed = Signal(object)
    """A file could not be written (a Problem)."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.store = SeriesStore()
        self._theme = theme
        self._events: list[RunEvent] = []
        self._specs: tuple[tuple[PlotSpec, ...], tuple[Goal, ...], tuple[MetricSpec, ...]] = ((), (), ())
        self._ghosts: dict[str, Ghost] = {}
        self._prediction: tuple[str, tuple[tuple[float, float], ...]] = ("", ())
        self.canvas = PlotCanvas(self.store, theme, self)
        self.surface = SurfaceView(self.store, theme, self)
        self.measured = MeasuredView(theme, self)
        self.pictures = PicturesView(theme, self)
        self.kinds: dict[Kind, PlotKind] = {
            "curves": self.canvas,
            "surface": self.surface,
            "measured": self.measured,
            "pictures": self.pictures,
        }
        self._page: Page = "curves"
        self.surface.hide()
        self.measured.hide()
        self.pictures.hide()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.canvas, 11)
        layout.addWidget(self.surface, 9)
        layout.addWidget(self.measured, 11)
        layout.addWidget(self.pictures, 11)
        self._writer = _Writer()
        self._writer.done.connect(self._written, Qt.ConnectionType.QueuedConnection)
        self.canvas.run_clicked.connect(self.run_clicked)
        self.surface.run_clicked.connect(self.run_clicked)
        self.canvas.run_hovered.connect(self.run_hovered)
        self.canvas.view_changed.connect(self.view_changed)
        for part in (self.canvas, self.surface, self.measured, self.pictures):
            part.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            part.customContextMenuRequested.connect(lambda at, part=part: self._show_menu(part, at))
        self.setFocusProxy(self.canvas)

    # ------------------------------------------------------------ what to show
    def set_plots(
        self, plots: Sequence[PlotSpec], goals: Sequence[Goal] = (), metrics: Sequence[MetricSpec] = ()
    ) -> None:
        """Show the plots of an exercise's card. ``metrics`` have the labels, and say whether higher or lower is
        better."""
        self._specs = (tuple(plots), tuple(goals), tuple(metrics))
        self._ghosts = {}
        self._resolve()

    def set_ghost(self, plot_id: str, points: Sequence[tuple[float, float]], text: str = EXPECTED) -> None:
        """The curve to expect in one plot, (step, value) pairs, and what it is; drawn while nothing has run."""
        self._ghosts[plot_id] = Ghost(tuple(points), text)
        self._resolve()

    def set_prediction(self, metric: str = "", points: Sequence[tuple[float, float]] = ()) -> None:
        """Sets what a person expected of ``metric`` before the selected run, as (step, value) pairs; an empty list
        removes it."""
        drawn = (metric, tuple(points))
        if drawn != self._prediction:
            self._prediction = drawn
            self._resolve()

    def set_surfaces(self, surfaces: Sequence[SurfaceSpec]) -> None:
        """The first of an exercise's surfaces, for the page "surface"."""
        self.surface.set_surface(surfaces[0] if surfaces else None, self._specs[2])

    def set_measured(self, plots: Sequence[SeriesPlot]) -> None:
        """The plots of what an exercise measures, for the page "measured"."""
        self.measured.set_plots(plots)

    def set_pictures(self, pictures: Sequence[PictureSpec]) -> None:
        """The pictures that runs of an exercise take, for the pages "pictures" and "beside"."""
        self.pictures.set_pictures(pictures)

    def show_page(self, page: Page) -> None:
        """The curves, the surface or pictures, alone or beside the curves; or what was measured. Whoever owns the
        buttons chooses it: no other call changes the page, or the button would mark one that is not shown."""
        self._page = page
        self.surface.list_runs(page != "both")
        for name, kind in self.kinds.items():
            kind.setVisible(name in KINDS_OF[page])
        focus: dict[Page, QWidget] = {"surface": self.surface, "measured": self.measured, "pictures": self.pictures}
        self.setFocusProxy(focus.get(page, self.canvas))

    @property
    def page(self) -> Page:
        """Returns the page that is shown."""
        return self._page

    def _resolve(self) -> None:
        setups = resolve_plots(*self._specs)
        self.canvas.set_setups([replace(s, ghost=self._ghost(s)) for s in setups])

    def _ghost(self, setup: PlotSetup) -> Ghost | None:
        metric, points = self._prediction
        if points and metric in (setup.headline, *setup.others):
            return Ghost(points, PREDICTED, stays=True)
        return self._ghosts.get(setup.id, setup.ghost)

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs, in the order of their labels. Curves of other runs stay in the store."""
        for kind in self.kinds.values():
            kind.set_runs(runs)

    # ------------------------------------------------------------ data
    def append(
        self,
        run_id: str,
        metric: str,
        steps: int | npt.ArrayLike,
        values: npt.ArrayLike,
        dtype: type[np.floating[Any]] | np.dtype[Any] = np.float32,
    ) -> None:
        """Append values; ``steps`` is an array, or the first of consecutive steps. Values from there on are
        replaced."""
        self.store.append(run_id, metric, steps, values, dtype)
        self._changed(run_id)

    def add_clock(self, run_id: str, first: int, count: int, clock: float, seconds: float, wall: float = 0.0) -> None:
        """Say when ``count`` steps from ``first`` happened: in ``seconds``, until ``clock`` and ``wall``."""
        self.store.add_clock(run_id, first, count, clock, seconds, wall)
        if self.canvas.view.unit is XUnit.SECONDS:
            self._changed(run_id)

    def set_scale(self, run_id: str, batch_size: int, samples_per_epoch: int) -> None:
        """Say how many images a step and an epoch have; 0 for a run without."""
        self.store.set_scale(run_id, batch_size, samples_per_epoch)
        self._changed(run_id)

    def set_series(self, run_id: str, series: Mapping[str, Measured]) -> None:
        """Sets everything that a run measured so far, by name."""
        self.measured.set_series(run_id, series)

    def set_figures(self, run_id: str, figures: Mapping[str, Sequence[Figure]]) -> None:
        """Sets all pictures that a run took so far, by name."""
        self.pictures.set_figures(run_id, figures)

    def truncate(self, run_id: str, metric: str | None, step: float) -> None:
        """Remove what was recorded at or after ``step``, with its events: a later attempt wins."""
        self.store.truncate(run_id, metric, step)
        if metric is None:
            self._events = [e for e in self._events if e.run_id != run_id or e.step < step]
            self.canvas.set_events(self._events)
        self._changed(run_id)

    def add_event(self, run_id: str, step: float, text: str) -> None:
        """Mark a step with one short sentence, such as "Learning rate halved"."""
        self._add(RunEvent(run_id, step, text))

    def mark_nonfinite(self, run_id: str, step: float, word: str = "NaN") -> None:
        """Mark the step where a run stopped giving numbers, when its own values do not show it; ``word``: what came
        instead."""
        known = [self.store.get(run_id, metric) for metric in self.store.metrics(run_id)]
        if not any(series is not None and series.first_bad is not None for series in known):
            text = f"{word[:1].upper()}{word[1:]} at step {count_text(step)}"
            self._add(RunEvent(run_id, step, text, bad=True))

    def _add(self, event: RunEvent) -> None:
        if event not in self._events:
            self._events.append(event)
            self._events.sort(key=lambda e: e.step)
            self.canvas.set_events(self._events)

    def drop_run(self, run_id: str) -> None:
        """Forget a run's curves and events."""
        self.store.drop(run_id)
        self._events = [e for e in self._events if e.run_id != run_id]
        self.canvas.set_events(self._events)
        self.canvas.forget(run_id)
        self.measured.forget(run_id)
        self.pictures.forget(run_id)

    def _changed(self, run_id: str) -> None:
        if any(run.run_id == run_id for run in self.canvas.runs):
            self.canvas.touch()
            self.surface.touch()

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

    def set_planned(self, steps: object) -> None:
        """Sets how many steps a run of this exercise usually has: the length of the axis before any has run."""
        self.canvas.set_planned(float(steps) if isinstance(steps, int) else 1000.0)

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
        steps = max((self.store.last_step(run.run_id) for run in self.canvas.runs), default=0.0)
        steps = max([steps, *(float(run.steps) for run in self.canvas.runs if run.live)])
        window = window_for(self.view.smoothing, steps)
        return "No smoothing" if window <= 1 else f"Mean over about {count_text(round(window, -1) or 1)} steps"

    def reset_zoom(self) -> None:
        """Show all of x, and the whole map."""
        for kind in self.kinds.values():
            kind.reset_zoom()

    def set_theme(self, theme: Theme) -> None:
        """Change the colours."""
        self._theme = theme
        for kind in self.kinds.values():
            kind.set_theme(theme)

    def knows(self, unit: XUnit | str) -> bool:
        """Whether any shown run can be drawn against ``unit``; if none can, its button is disabled."""
        return any(self.store.knows(run.run_id, XUnit(unit)) for run in self.canvas.runs)

    # ------------------------------------------------------------ files
    def _picture(self) -> ExportedPicture:
        others: dict[Kind, PaintablePlot] = {
            "surface": self.surface,
            "measured": self.measured,
            "pictures": self.pictures,
        }
        beside = next((others[kind] for kind in KINDS_OF[self.page] if kind in others), None)
        return ExportedPicture(self.canvas, self.store, tuple(self._events), self._theme, beside=beside)

    def copy_picture(self) -> None:
        """Put the plots on the clipboard as a picture."""
        QGuiApplication.clipboard().setImage(self._picture().image())

    def save_png(self, path: Path, scale: float = 2.0) -> None:
        """Write a PNG with ``scale`` pixels per logical pixel; raises ProblemError."""
        self._picture().save_png(path, scale)

    def save_svg(self, path: Path) -> None:
        """Write an SVG; raises ProblemError."""
        self._picture().save_svg(path)

    def extracts(self) -> tuple[Extract, ...]:
        """Copies of all values of the shown runs in the shown plots."""
        metrics = dict.fromkeys(m for setup in self.canvas.setups for m in (setup.headline, *setup.others))
        metrics |= dict.fromkeys(self.surface.spec.metrics if self.surface.spec is not None else ())
        names = {run.run_id: run.label for run in self.canvas.runs}
        return extract(self.store, list(names), metrics, names)

    def save_csv(self, path: Path) -> int:
        """Write every value of the shown curves, ``run,step,metric,value,wall_time,name``, or of what was measured, or
        the pictures that are shown; returns the number of rows.

        It waits until the file is written; raises OSError. ``export`` does the same in a thread.
        """
        return self._table()(path)

    def _table(self) -> Callable[[Path], int]:
        """Returns a function that writes the values shown now, even if new ones arrive before it has written them."""
        if self.page == "measured":
            measured = self.measured.extracts()
            return lambda path: write_series_csv(path, measured)
        if self.page == "pictures":
            run, taken = self.pictures.shown
            return lambda path: write_rows(path, HEADER, (rows for one in taken for rows in picture_rows(run, one)))
        extracts = self.extracts()
        return lambda path: write_csv(path, extracts)

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

    def _written(self, path: Path, rows: int, trouble: Problem | None) -> None:
        del rows
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
