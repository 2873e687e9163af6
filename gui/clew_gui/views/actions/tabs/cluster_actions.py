"""Joins the Cluster tab to the window: which run it shows, and what its buttons ask for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject

from clew_gui.charts.cluster import cluster_page
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.cluster import ClusterScene, as_it_was, cluster_scene, config_parts
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.dialogs import PythonDialog
from clew_gui.views.actions.files import ask_and_write, write_and_report
from clew_gui.views.charts.files import write_page
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.cluster.cluster_view import ClusterView
from clew_gui.views.plots.replay import replay_steps
from clew_gui.views.presentation import words
from clew_gui.views.window.window import CLUSTER_TAB, MainWindow
from clew_shared.base.problem import ProblemError
from clew_shared.catalogue import on_servers
from clew_shared.exporters.tables import write_updates_csv
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.wire.messages import DisturbCluster

_FILES = {"png": "Picture (*.png)", "svg": "Drawing (*.svg)", "csv": "Updates (*.csv)"}


class ClusterActions(QObject):
    """Serves the tab *Cluster* of one window. Its widgets are made when it is first shown, because they import
    NumPy."""

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window)
        self._window, self._controller = window, controller
        self._view: ClusterView | None = None
        self._seen: tuple[str, Span | None] = ("", None)
        self._shown: object = None
        self.scene: ClusterScene | None = None
        window.head.tab_chosen.connect(lambda _tab: self.refresh())
        controller.curves_changed.connect(self.refresh)
        controller.ticked_slowly.connect(self.refresh)
        self._replay = window.run_view.plots.replay
        self._replay.moved.connect(self.refresh)
        window.offer_cluster(False)

    @property
    def view(self) -> ClusterView:
        """The tab's widgets."""
        if self._view is None:
            self._view = ClusterView(self._window.appearance)
            self._view.slow_asked.connect(lambda worker, factor: self._disturb("slow", "worker", worker, factor))
            self._view.kill_asked.connect(lambda role, number: self._disturb("kill", role, number))
            self._view.add_asked.connect(lambda: self._disturb("add"))
            self._view.config_asked.connect(self.show_config)
            self._view.export_asked.connect(self.export)
            self._view.seen_changed.connect(self._see)
            self._view.replay.moved.connect(self._replay.go_to)
            self._window.put_view(CLUSTER_TAB, self._view)
        return self._view

    def run(self) -> RunModel | None:
        """The selected run if it has parameter servers, else the newest such run of the open exercise."""
        scope = self._controller.scope
        able = [run for run in scope.runs() if on_servers(run.spec.strategy)]
        chosen = scope.run()
        return chosen if chosen in able else able[-1] if able else None

    # --- Showing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Offer the tab if there is such a run, and show it; cheap if nothing changed or it is out of sight."""
        run = self.run()
        self._window.offer_cluster(run is not None)
        if run is None or self._window.pages.currentIndex() != CLUSTER_TAB:
            return
        history, until = run.history, self._replay.chosen
        taken = history.updates.counts.applied + history.updates.counts.dropped
        seen = self._seen[1] if self._seen[0] == run.id else None
        state = (run.id, run.state, run.link_stale, taken, len(history.peer_news), history.fold.step, seen, until)
        if state == self._shown:
            return
        self._shown = state
        replay, steps = self.view.replay, replay_steps(history.last_step, even=True)
        replay.setVisible(len(steps) > 1)
        replay.offer(steps, between=True)
        replay.go_to(until)
        past, state_then = (history, run.state) if until is None else (as_it_was(history, until), RunState.RUNNING)
        self.scene = cluster_scene(past, run.spec, self._controller.scope.card, state_then, seen)
        self.view.show_scene(self.scene, _refusal(run), seen is None, bool(config_parts(history)))

    def _see(self, seen: Span | None) -> None:
        run = self.run()
        self._seen = (run.id if run is not None else "", seen)
        self.refresh()

    # --- Asking -------------------------------------------------------------------------------------------------------

    def _disturb(
        self,
        action: Literal["slow", "kill", "add"],
        role: Literal["worker", "ps"] = "worker",
        index: int = 0,
        factor: float = 1.0,
    ) -> None:
        run, session = self.run(), self._controller.scope.session
        if run is None:
            return
        request = DisturbCluster(run=run.id, action=action, role=role, index=index, factor=factor)
        try:
            session.disturb(request)
        except ProblemError as error:
            self._controller.refused(error)

    def show_config(self) -> None:
        """The ClusterSpec and each process's TF_CONFIG as they were built."""
        run = self.run()
        if run is None:
            return
        text = "\n\n\n".join(
            f"# {part.title}\n# On the slides: {part.slide}\n\n{part.text}" for part in config_parts(run.history)
        )
        sentence = f"Addresses as the processes of run {run.number} reported them."
        PythonDialog(
            self._window, self._window.appearance, "ClusterSpec and TF_CONFIG", sentence, text, "The cluster"
        ).open()

    # --- Files --------------------------------------------------------------------------------------------------------

    def export(self, kind: str, path: Path | None = None) -> None:
        """Write the plots as "png" or "svg", or all updates as "csv"; asks for the place when ``path`` is None."""
        if path is not None:
            write_and_report(self._window, path, partial(self.write, kind))
            return
        ask_and_write(self._window, "Export the cluster", f"cluster.{kind}", _FILES[kind], partial(self.write, kind))

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        run, card = self.run(), self._controller.scope.card
        if self.scene is None or run is None:
            return
        title, theme = words.run_title(run, card), self._window.appearance.theme
        if kind == "csv":
            with path.open("w", encoding="utf-8", newline="") as file:
                write_updates_csv(run.history, file)
        else:
            write_page(path, cluster_page(self.scene, title, theme, SIZES), kind)


def _refusal(run: RunModel) -> str:
    """Says why the run's processes cannot be disturbed now; empty while it trains."""
    if run.state in TERMINAL:
        return f"Run {run.number} has ended"
    if run.link_stale:
        return f"The link to run {run.number} is silent"
    return "" if run.state is RunState.RUNNING else f"Run {run.number} is not training now"
