"""The Cluster tab: who does what with buttons to slow or kill, the timeline, staleness, images/s and events."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF, QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QListWidget, QListWidgetItem, QSizePolicy, QWidget

from clew_gui.charts.cluster import (
    ClusterEvent,
    ClusterScene,
    Role,
    StalenessChart,
    TimelineChart,
    as_it_was,
    cluster_page,
    cluster_scene,
    config_parts,
    timeline_height,
)
from clew_gui.charts.kit.lines import LinesChart
from clew_gui.charts.kit.ticks import Span
from clew_gui.session.runs import RunModel
from clew_gui.study.scaling import figures
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.dialogs import PythonDialog
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.charts.files import write_page
from clew_gui.views.charts.painter import SIZES
from clew_gui.views.plots.replay import ReplayBar, replay_steps
from clew_gui.views.presentation import words
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.tabs.tab import Tab, low_card
from clew_gui.views.theme.parts import (
    PICTURES,
    Appearance,
    Button,
    Elided,
    Glyph,
    Pill,
    Segments,
    column,
    label,
    native_keys,
    row,
    tab_from,
)
from clew_gui.views.theme.theme import font
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from clew_shared.catalogue import on_servers
from clew_shared.exporters.tables import write_updates_csv
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.wire.messages import DisturbCluster

_SPEEDS = (("1", "×1"), ("2", "×2"), ("5", "×5"))
_SPEED_TIPS = {
    "1": "Full speed",
    "2": "Slow this worker: each of its updates takes twice as long",
    "5": "Slow this worker: each of its updates takes five times as long",
}
_TOLD_WITHIN_S = 3.0
"""The seconds for which a clicked choice stays, until the journal reports the result."""
_ALL = 0.97
"""The share of the run from which on the timeline shows the whole run."""
_HOST = 150
"""The largest width of a host's name."""
_SPEED = 138
"""The width of the choice of a speed: the space for what a process does is short."""
_EVENTS = 200
_SHOWN_EVENTS = 4
"""The number of events that can be seen at once."""


class RoleRow(QWidget):
    """One process: its role, host, state and work, and the buttons that disturb it."""

    def __init__(self, appearance: Appearance, role: Role, disturb: Callable[..., None]) -> None:
        super().__init__()
        self._role, self._asked, self._disturb = role, 0.0, disturb
        self.name = label(role.name, "strong")
        self.host = label("", "mono", "2")
        self.pill = Pill(appearance)
        self.doing = Elided("", "body", "2")
        box = row(self.name, self.host, gap=8, parent=self)
        state = QWidget()
        state.setFixedWidth(round(QFontMetricsF(font("strong")).horizontalAdvance("Slowed ×5")) + 38)
        row(self.pill, None, parent=state)
        box.addWidget(state)
        box.addWidget(self.doing, 2)
        self.name.setFixedWidth(round(QFontMetricsF(font("strong")).horizontalAdvance("Coordinator")) + 4)
        self.speed = Segments(_SPEEDS, "1", f"Time per update of {role.name.lower()}")
        self.speed.chosen.connect(self._slow)
        self.speed.setFixedWidth(_SPEED)
        self.kill = Button(
            appearance, "Kill", "flat", "cross", f"End the process of {role.name.lower()} at once", ink="bad"
        )
        self.kill.setAccessibleName(f"Kill {role.name.lower()}")
        self.kill.clicked.connect(lambda: disturb("kill", role.role, role.number))
        for widget, there in ((self.speed, role.role == "worker"), (self.kill, role.role != "chief")):
            room = widget.sizePolicy()
            room.setRetainSizeWhenHidden(True)
            widget.setSizePolicy(room)
            box.addWidget(widget)
            widget.setHidden(not there)

    def show_role(self, role: Role, refusal: str, threads: str) -> None:
        """Show how it is; ``refusal`` says why nothing can be done to the cluster now, ``threads`` why nothing can be
        killed."""
        changed = role.factor != self._role.factor
        self._role = role
        self.host.setText(role.host)
        self.pill.set_state(role.shown_as, role.state)
        self.doing.set_text(role.doing)
        known = str(round(role.factor))
        if (changed or time.monotonic() - self._asked > _TOLD_WITHIN_S) and known in dict(_SPEEDS):
            self.speed.choose(known)
        reason = refusal or ("" if role.alive else f"{role.name} does not work at the moment")
        self.kill.allow(not (reason or threads), reason or threads)
        self.speed.setEnabled(not reason)
        for key, tip in _SPEED_TIPS.items():
            self.speed.button(key).setToolTip(reason or tip)

    def _slow(self, factor: str) -> None:
        self._asked = time.monotonic()
        self._disturb("slow", "worker", self._role.number, float(factor))


class ClusterTab(Tab):
    """Shows what one run with parameter servers does, and disturbs it."""

    entry = Action("cluster", "Cl&uster", "Ctrl+5", "What workers and parameter servers do")
    EXPORT = "Export the cluster's plots", "cluster"
    FILES: ClassVar = {**Tab.FILES, "csv": "Updates (*.csv)"}
    KINDS: ClassVar = {**PICTURES, "csv": "The updates, CSV…"}

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller, places)
        self._seen: tuple[str, Span | None] = ("", None)
        self.scene: ClusterScene | None = None
        self._replay = window.run_view.plots.replay
        self._replay.moved.connect(self.refresh)
        self.rows: dict[tuple[str, int], RoleRow] = {}
        self._events: tuple[ClusterEvent, ...] | None = None
        plots = self._plots()
        parts = (self._roles_card(), self._timeline_card(), plots, self._banner(), self._events_card())
        self.lay_out(*parts, grows=plots, gap=8)
        self.offer(False)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _roles_card(self) -> QFrame:
        appearance = self._appearance
        self.caption = Elided("", "caption", "2")
        self.add = Button(appearance, "Add a worker", "quiet", "plus", "Start one more worker")
        self.add.clicked.connect(lambda: self._disturb("add"))
        self.config = Button(
            appearance, "TF_CONFIG", "quiet", "script", "The ClusterSpec and the TF_CONFIG of each process"
        )
        self.config.clicked.connect(self.show_config)
        self.files = self.files_button()
        self._rows_box = column(gap=0)
        title = label("Who does what", "subtitle")
        head = row(title, self.caption, self.add, self.config, self.files, gap=8)
        return low_card(column(head, self._rows_box, gap=2, margins=(14, 7, 8, 8)))

    def _timeline_card(self) -> QFrame:
        self.timeline = ChartView(self._appearance, "Updates of each worker", keys=True, control=True)
        self.timeline.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.timeline.zoomed.connect(lambda frame: self._see(frame.x))
        self.timeline.double_clicked.connect(lambda _tile: self._see(None))
        follow = QShortcut(QKeySequence(Qt.Key.Key_End), self.timeline, context=Qt.ShortcutContext.WidgetShortcut)
        follow.activated.connect(lambda: self._see(None))
        self._timeline_caption = Elided("", "caption", "2")
        self.seen = Segments(
            (("latest", "Latest"), ("part", "Part"), ("all", "Whole run")), "latest", "What the timeline shows"
        )
        self.seen.button("latest").setToolTip("Follow the run (End in the timeline)")
        self.seen.button("part").setToolTip(
            native_keys("Drag to move, + and − or Ctrl and the wheel to zoom; or choose an event")
        )
        self.seen.button("all").setToolTip("Show all of it (Home in the timeline)")
        self.seen.chosen.connect(self._choose_seen)
        head = row(label("Updates", "subtitle"), self._timeline_caption, self.seen, gap=8)
        self.replay = ReplayBar(self._appearance, self)
        self.replay.moved.connect(self._replay.go_to)
        return low_card(column(head, self.timeline, self.replay, gap=2, margins=(14, 7, 12, 6)))

    def _plots(self) -> QWidget:
        self.staleness = ChartView(self._appearance, "Staleness of the gradients", least=150)
        self.rates = ChartView(self._appearance, "Images per second of each worker", least=150)
        self._stale_caption, self._rates_title = Elided("", "caption", "2"), label("Images/s", "subtitle")
        heads = (
            row(label("Staleness", "subtitle"), self._stale_caption, gap=8),
            row(self._rates_title, Elided("of each worker", "caption", "2"), gap=8),
        )
        return self.pair((heads[0], self.staleness, 4), (heads[1], self.rates, 5))

    def _banner(self) -> QFrame:
        self.sentence = label("", "body", wrap=True)
        sign = Glyph(self._appearance, "info", "accent", 18)
        return low_card(row(sign, self.sentence, gap=12, margins=(16, 8, 16, 9), grows=self.sentence), "note")

    def _events_card(self) -> QFrame:
        self.events = QListWidget()
        self.events.setFrameShape(QFrame.Shape.NoFrame)
        self.events.setAccessibleName("Events of the cluster, the newest first")
        self.events.itemActivated.connect(self._show_event)
        self.events.itemClicked.connect(self._show_event)
        head = row(label("Events", "subtitle"), Elided("choose one to see it in the timeline", "caption", "2"), gap=8)
        return low_card(column(head, self.events, gap=2, margins=(14, 7, 8, 6)))

    # --- Showing ------------------------------------------------------------------------------------------------------

    def run(self) -> RunModel | None:
        """The selected run if it has parameter servers, else the newest such run of the open exercise."""
        model = self._controller.model
        able = [run for run in model.runs() if on_servers(run.spec.strategy)]
        chosen = model.run()
        return chosen if chosen in able else able[-1] if able else None

    def refresh(self) -> None:
        """Offer the tab if there is such a run, and show it; cheap if nothing changed or it is out of sight."""
        run = self.run()
        self.offer(run is not None)
        if run is None or not self.in_sight():
            return
        history, until = run.history, self._replay.chosen
        taken = history.updates.counts.applied + history.updates.counts.dropped
        seen = self._seen[1] if self._seen[0] == run.id else None
        state = (run.id, run.state, run.link_stale, taken, len(history.peer_news), history.fold.step, seen, until)
        if not self.is_new(state):
            return
        replay, steps = self.replay, replay_steps(history.fold.step, even=True)
        replay.setVisible(len(steps) > 1)
        replay.offer(steps, between=True)
        replay.go_to(until)
        past, state_then = (history, run.state) if until is None else (as_it_was(history, until), RunState.RUNNING)
        self.scene = cluster_scene(past, run.spec, self._controller.model.card, state_then, seen)
        self._show_scene(self.scene, _refusal(run), seen is None, bool(config_parts(history)))

    def _see(self, seen: Span | None) -> None:
        run = self.run()
        self._seen = (run.id if run is not None else "", seen)
        self.refresh()

    def _show_scene(self, scene: ClusterScene, refusal: str, follows: bool, can_configure: bool) -> None:
        """Show a run. ``refusal`` says why it cannot be disturbed, ``follows`` whether the timeline shows the end."""
        self.caption.set_text(scene.caption)
        threads = "The workers are threads of one process" if scene.threads else ""
        self._show_roles(scene.roles, refusal, threads)
        self.add.allow(not (refusal or threads), refusal or threads)
        self.config.allow(can_configure, threads or "No process has reported its address yet")
        self.timeline.setFixedHeight(timeline_height(scene.timeline))
        self.timeline.show_chart(partial(TimelineChart, scene.timeline))
        some = any(len(lane.arrived) + len(lane.dropped) for lane in scene.timeline.lanes)
        self._timeline_caption.set_text("bar: computing, dot: update reaches the servers" if some else "bar: computing")
        everything = scene.timeline.x.size >= _ALL * scene.timeline.whole.size
        self.seen.choose("latest" if follows else "all" if everything else "part")
        stale = scene.staleness
        self.staleness.show_chart(partial(StalenessChart, stale) if stale is not None else None)
        self._stale_caption.set_text(f"mean {stale.mean:.1f}; line: the latest {stale.latest:,}" if stale else "")
        self._rates_title.setText(scene.rates.title if scene.rates is not None else "Images/s")
        self.rates.show_chart(partial(LinesChart, scene.rates) if scene.rates is not None else None)
        self.sentence.setText(scene.sentence)
        self.files.setEnabled(stale is not None)
        self._show_events(scene.events)

    def _show_roles(self, roles: Sequence[Role], refusal: str, threads: str) -> None:
        wanted = [(role.role, role.number) for role in roles]
        if wanted != list(self.rows):
            for old in self.rows.values():
                self._rows_box.removeWidget(old)
                old.deleteLater()
            self.rows = {
                key: RoleRow(self._appearance, role, self._disturb) for key, role in zip(wanted, roles, strict=True)
            }
            before: QWidget = self.files
            for new in self.rows.values():
                self._rows_box.addWidget(new)
                tab_from(before, new)
                before = new.kill
        metrics = QFontMetricsF(font("mono"))
        hosts = {role.host for role in roles}
        room = round(max(map(metrics.horizontalAdvance, hosts), default=0)) + 4
        for key, role in zip(wanted, roles, strict=True):
            self.rows[key].host.setFixedWidth(min(room, _HOST))
            self.rows[key].host.setVisible(len(hosts) > 1)
            self.rows[key].show_role(role, refusal, threads)

    def _show_events(self, events: tuple[ClusterEvent, ...]) -> None:
        """The newest first."""
        if events == self._events:
            return
        self._events = events
        self.events.clear()
        for event in reversed(events[-_EVENTS:]):
            when = f"{figures(event.clock, 3)} s" if event.clock > 0 else "start"
            item = QListWidgetItem(f"{words.wall(event.wall)}   {when:>8}   {event.text}")
            item.setData(Qt.ItemDataRole.UserRole, event.clock)
            self.events.addItem(item)
        if not events:
            self.events.addItem("No events yet.")
        line = self.events.sizeHintForRow(0)
        self.events.setFixedHeight(min(max(len(events), 1), _SHOWN_EVENTS) * line + 4)

    # --- Asking -------------------------------------------------------------------------------------------------------

    def _choose_seen(self, which: str) -> None:
        """The part that is shown stays; if the whole run is shown, its second half does."""
        if self.scene is None or which == "latest":
            self._see(None)
            return
        seen, whole = self.scene.timeline.x, self.scene.timeline.whole
        part = seen if seen.size < _ALL * whole.size else Span(0.5 * (whole.low + whole.high), whole.high)
        self._see(part if which == "part" else whole)

    def _show_event(self, item: QListWidgetItem) -> None:
        """The timeline around an event."""
        clock = item.data(Qt.ItemDataRole.UserRole)
        if isinstance(clock, float) and self.scene is not None:
            half = self.scene.timeline.x.size / 2
            self._see(Span(max(0.0, clock - half), max(clock, half) + half))

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
        with self._controller.refusals():
            session.disturb(request)

    def show_config(self) -> None:
        """The ClusterSpec and each process's TF_CONFIG as they were built."""
        run = self.run()
        if run is None:
            return
        text = "\n\n\n".join(
            f"# {part.title}\n# On the slides: {part.slide}\n\n{part.text}" for part in config_parts(run.history)
        )
        sentence = f"Addresses as the processes of run {run.number} reported them."
        PythonDialog(self._window, self._appearance, "ClusterSpec and TF_CONFIG", sentence, text, "The cluster").open()

    # --- Files --------------------------------------------------------------------------------------------------------

    def write(self, kind: str, path: Path) -> None:
        """The same without asking. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        run, card = self.run(), self._controller.model.card
        if self.scene is None or run is None:
            return
        title, theme = words.run_title(run, card), self._appearance.theme
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
