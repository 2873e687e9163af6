"""Joins the Cluster tab to the window: which run it shows, and what its buttons ask for."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from clew_gui.charts.cluster import cluster_page
from clew_gui.plotting.axes.ticks import Span
from clew_gui.plotting.cluster import ClusterScene, as_it_was, cluster_scene, config_parts
from clew_gui.session.runs import RunModel
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.dialogs import PythonDialog
from clew_gui.views.actions.tabs.tab import Tab
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


class ClusterActions(Tab[ClusterView]):
    """The tab *Cluster*: which run it shows, and what its buttons ask for."""

    NUMBER = CLUSTER_TAB
    EXPORT = "Export the cluster", "cluster"
    FILES: ClassVar = {**Tab.FILES, "csv": "Updates (*.csv)"}

    def __init__(self, window: MainWindow, controller: WindowController) -> None:
        super().__init__(window, controller)
        self._seen: tuple[str, Span | None] = ("", None)
        self.scene: ClusterScene | None = None
        self._replay = window.run_view.plots.replay
        self._replay.moved.connect(self.refresh)
        window.offer_cluster(False)

    def make_view(self) -> ClusterView:
        """Makes the tab's widgets."""
        view = ClusterView(self._window.appearance)
        view.slow_asked.connect(lambda worker, factor: self._disturb("slow", "worker", worker, factor))
        view.kill_asked.connect(lambda role, number: self._disturb("kill", role, number))
        view.add_asked.connect(lambda: self._disturb("add"))
        view.config_asked.connect(self.show_config)
        view.export_asked.connect(self.export)
        view.seen_changed.connect(self._see)
        view.replay.moved.connect(self._replay.go_to)
        return view

    def run(self) -> RunModel | None:
        """The selected run if it has parameter servers, else the newest such run of the open exercise."""
        model = self._controller.model
        able = [run for run in model.runs() if on_servers(run.spec.strategy)]
        chosen = model.run()
        return chosen if chosen in able else able[-1] if able else None

    # --- Showing ------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Offer the tab if there is such a run, and show it; cheap if nothing changed or it is out of sight."""
        run = self.run()
        self._window.offer_cluster(run is not None)
        if run is None or not self.in_sight():
            return
        history, until = run.history, self._replay.chosen
        taken = history.updates.counts.applied + history.updates.counts.dropped
        seen = self._seen[1] if self._seen[0] == run.id else None
        state = (run.id, run.state, run.link_stale, taken, len(history.peer_news), history.fold.step, seen, until)
        if not self.is_new(state):
            return
        replay, steps = self.view.replay, replay_steps(history.last_step, even=True)
        replay.setVisible(len(steps) > 1)
        replay.offer(steps, between=True)
        replay.go_to(until)
        past, state_then = (history, run.state) if until is None else (as_it_was(history, until), RunState.RUNNING)
        self.scene = cluster_scene(past, run.spec, self._controller.model.card, state_then, seen)
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
        run, session = self.run(), self._controller.model.session
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

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        run, card = self.run(), self._controller.model.card
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
