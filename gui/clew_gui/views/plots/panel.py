"""The panel of stacked convergence plots: what the rest of the window talks to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from clew_gui.charts.curves.chart import CurvesChart, curves_chart
from clew_gui.charts.curves.model import RunStyle, View, knows
from clew_gui.charts.curves.pixel_columns import window_for
from clew_gui.charts.curves.scene import SceneBuilder
from clew_gui.charts.kit.drawing import Chart, Drawing, Group
from clew_gui.charts.kit.svg import ChartPage
from clew_gui.charts.kit.ticks import XUnit, count_text
from clew_gui.session.runs import RunModel
from clew_gui.views.charts.files import page_image, write_page
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.curves import CurvesView
from clew_gui.views.plots.pages import BOTH, PAGES, kinds_of, offered
from clew_gui.views.plots.plot_page import PlotPage
from clew_gui.views.plots.replay import ReplayBar, replay_steps
from clew_gui.views.presentation import words
from clew_gui.views.theme.dialog import ask_place
from clew_gui.views.theme.parts import Appearance, column, row
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import ExerciseCard
from clew_shared.exporters.rows import rows_of
from clew_shared.exporters.tables import write_curves
from clew_shared.journal.lifecycle import TERMINAL

_LOW: Final = 300
"""Pixels of height below which curves have no slider over their steps: they need the room."""
Below = Callable[[CurvesChart, float, float], tuple[Chart, float] | None]
"""Makes the chart below curves, of their width and from a row on, with its height; None for none."""
Kind = TypeVar("Kind", bound=PlotPage)
_LEAST: Final = (860, 480)
_LEAST_OTHER: Final = (560, 420)
_MOST: Final = (1600, 1200)
_SHARPNESS: Final = 2.0
"""Pixels of a map for each logical one in a file."""
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
    """The pages of plots of several runs: live curves above each other with one x axis, and the other kinds.

    Say what to show with ``show_card`` and ``show_runs``, and with ``show_news`` that runs recorded more: every frame
    is drawn from their histories. How they are shown is set with ``change``. All calls are cheap: drawing happens at
    most 25 times a second, and not at all while the panel cannot be seen.
    """

    run_clicked = Signal(str)
    """A run's label in the gutter was clicked."""
    shown = Signal()
    """The shown runs are others, or have something new."""
    saved = Signal(object)
    """A file was written (its Path)."""
    failed = Signal(object)
    """A file could not be written (a Problem)."""

    def __init__(self, appearance: Appearance, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.appearance = appearance
        self._card: ExerciseCard | None = None
        self._shown: dict[str, RunModel] = {}
        self.kinds = {page.name: page.kind(appearance) for page in PAGES}
        self.canvas = self.page_of(CurvesView)
        self.below: Below | None = None
        """What else is below the curves in a file."""
        self.page = "curves"
        """The page that is shown."""
        self.replay = ReplayBar(appearance, self)
        self.replay.moved.connect(lambda step: self.change(until=step))
        self.canvas.framed.connect(self._align_slider)
        self.canvas.view_changed.connect(self._show_view)
        kinds, foot = row(gap=8), row(gap=8)
        foot.addWidget(self.replay, 3)
        for kind in self.kinds.values():
            kinds.addWidget(kind, kind.stretch)
            if kind.extras is not None:
                foot.addWidget(kind.extras, 2)
            kind.picked.connect(self._picked)
            kind.stepped.connect(self.replay.step_cursor)
            kind.steps_changed.connect(self._offer_steps)
            kind.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
            kind.customContextMenuRequested.connect(lambda at, kind=kind: self.menu().popup(kind.mapToGlobal(at)))
        column(kinds, foot, gap=2, grows=kinds, parent=self)
        self._writer = _Writer()
        self._writer.done.connect(self._written, Qt.ConnectionType.QueuedConnection)
        self.show_page(self.page)

    def _picked(self, name: str) -> None:
        if any(run.run_id == name for run in self.canvas.runs):
            self.run_clicked.emit(name)

    def page_of(self, kind: type[Kind]) -> Kind:
        """The widget of a kind of plot."""
        return next(one for one in self.kinds.values() if isinstance(one, kind))

    # ------------------------------------------------------------ what to show
    def show_card(self, card: ExerciseCard) -> None:
        """Show the plots of an exercise, with its goals and expected curves."""
        if card != self._card:
            self._card = card
            for kind in self.kinds.values():
                kind.show_card(card)
            self.show_page(self.page)  # another kind may be beside the curves
            self.replay.go_to(None)

    def show_page(self, page: str) -> None:
        """Shows one kind of plots, or the curves and what goes beside them. Whoever owns the buttons chooses it: no
        other call changes the page, or the button would mark one that is not shown."""
        self.page = page
        shown = self.shown_kinds
        for kind in self.kinds.values():
            kind.stand_beside(page == BOTH)
            kind.setVisible(kind in shown)
            if kind.extras is not None:
                kind.extras.setVisible(kind in shown)
        self.setFocusProxy(shown[0].first)
        self._offer_steps()

    @property
    def shown_kinds(self) -> list[PlotPage]:
        """The kinds of plots that are on the page."""
        return [self.kinds[name] for name in kinds_of(self.page, offered(self._card))]

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
        self.canvas.show_goals({name for name in (*data.values(), *(() if runs else (next_data,))) if name})
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
                    params=run.spec.params,
                )
                for run in runs
            ]
        )
        self.canvas.show_prediction(next((run.history.prediction for run in runs if run.id == selected), None))

    def show_news(self, changed: Collection[str]) -> None:
        """Draws what is new of those of these runs that are shown."""
        if any(run.run_id in changed for run in self.canvas.runs):
            self.set_runs([self._as_now(run) for run in self.canvas.runs])

    # ------------------------------------------------------------ steps
    def _offer_steps(self) -> None:
        """The steps that one can go to: all, or those at which the page has something of its own to show."""
        shown = self.shown_kinds
        every = any(kind.every_step for kind in shown)
        steps: Sequence[int] = [step for kind in shown for step in kind.steps]
        if every:
            ends = [max(run.history.last_step, run.history.fold.step) for run in self.canvas.runs]
            last = max([*ends, *steps], default=0)
            steps = replay_steps(last, even=self._has_even_steps)
        self.replay.offer(steps, between=every)
        visible = len(steps) > 1 and (self.height() >= _LOW or self.canvas not in shown)
        self.replay.setVisible(visible)
        self._align_slider()
        if not visible:  # nobody could go back from there
            self.replay.go_to(None)

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

    def _show_view(self, view: View) -> None:
        for kind in self.kinds.values():
            if kind is not self.canvas:
                kind.set_view(view)
        self._offer_steps()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Gives the height of the slider to the curves where they need it."""
        super().resizeEvent(event)
        self._offer_steps()

    def _as_now(self, style: RunStyle) -> RunStyle:
        run = self._shown.get(style.run_id)
        return style if run is None else replace(style, coming=_is_coming(run), history=run.history)

    def set_runs(self, runs: Sequence[RunStyle]) -> None:
        """Show these runs, in the order of their labels."""
        for kind in self.kinds.values():
            kind.set_runs(runs)
        self._offer_steps()
        self.shown.emit()

    # ------------------------------------------------------------ how it is looked at
    @property
    def view(self) -> View:
        """Unit, scales, smoothing and zoom."""
        return self.canvas.view

    def change(self, **fields: Any) -> None:
        """Looks at the plots in another way: ``fields`` are those of a ``View``."""
        self.canvas.set_view(replace(self.view, **fields))

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

    def knows(self, unit: XUnit | str) -> bool:
        """Whether any shown run can be drawn against ``unit``; if none can, its button is disabled."""
        return any(knows(run.history, XUnit(unit)) for run in self.canvas.runs)

    # ------------------------------------------------------------ files
    def _picture(self) -> ChartPage:
        """The page for a file, with units and labels, larger than the window where that is small."""
        theme, width, height = self.appearance.theme, 0.0, 0.0
        drawing = Drawing(theme, SIZES)
        for kind in self.shown_kinds:
            if kind is self.canvas:
                width, height = max(kind.width(), _LEAST[0]), max(kind.height(), _LEAST[1])
                shown = self.canvas.drawn_setups, kind.runs, kind.view
                curves = curves_chart(SceneBuilder(self.canvas.params), *shown, (width, height), theme, SIZES)
                curves.draw(drawing)
                lower = self.below(curves, width, height) if self.below is not None else None
                if lower is not None:
                    lower[0].draw(drawing)
                    height += lower[1]
                continue
            wide = min(max(kind.width(), _LEAST_OTHER[0]), _MOST[0])
            height = max(height, min(max(kind.height(), _LEAST_OTHER[1]), _MOST[1]))
            other = Drawing(theme, SIZES)
            kind.draw_to(other, wide, height, _SHARPNESS)
            drawing.items.append(Group(tuple(other.items), shift=(width, 0.0)))
            width += wide
        words = self.shown_kinds[0].accessibleDescription()
        return ChartPage(width, height, drawing.items, "Convergence plots", words, theme.surface)

    def copy_picture(self) -> None:
        """Put the plots on the clipboard as a picture."""
        QGuiApplication.clipboard().setImage(page_image(self._picture()))

    def _table(self) -> Callable[[Path], None]:
        """Returns a function that writes every value that is shown: the values shown now, even if new ones arrive
        before it has written them."""
        table = self.shown_kinds[0].table()
        if table is not None:
            return table
        metrics = {metric for kind in self.kinds.values() for metric in kind.metrics}
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
                write_page(path, self._picture(), kind)
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
        first = self.shown_kinds[0]
        for text, name in first.switches:
            on = bool(getattr(self.view, name))
            entry = self._entry(menu, text, lambda name=name, on=on: self.change(**{name: not on}))
            entry.setCheckable(True)
            entry.setChecked(on)
        if first.reset_text:
            entry = self._entry(menu, first.reset_text, self.reset_zoom)
            entry.setEnabled(first is not self.canvas or self.view.is_zoomed)
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


def _is_coming(run: RunModel) -> bool:
    """Whether a part of a run's journal is still to be read."""
    return run.reading is not None or run.catching_up is not None


def _label(run: RunModel, card: ExerciseCard | None, pinned: bool, data: str) -> str:
    """The run's short name; with its data where the shown runs differ in it."""
    return words.join([words.run_title(run, card, "Baseline" if pinned else ""), words.data_short(data)])
