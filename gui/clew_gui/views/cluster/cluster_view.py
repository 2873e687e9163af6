"""The Cluster tab: who does what with buttons to slow or kill, the timeline, staleness, images/s and events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontMetricsF, QKeySequence, QResizeEvent, QShortcut
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QListWidget,
    QListWidgetItem,
    QSizePolicy,
    QWidget,
)

from clew_gui.charts.cluster import (
    ClusterEvent,
    ClusterScene,
    Role,
    StalenessChart,
    Timeline,
    TimelineChart,
    timeline_height,
)
from clew_gui.charts.kit.lines import LinesChart
from clew_gui.charts.kit.ticks import Span
from clew_gui.views.charts.chart_view import ChartView
from clew_gui.views.plots.replay import ReplayBar
from clew_gui.views.presentation import words
from clew_gui.views.theme.parts import (
    PICTURES,
    Appearance,
    Button,
    Elided,
    Glyph,
    Pill,
    Segments,
    column,
    export_button,
    frame,
    label,
    native_keys,
    row,
    scrolling,
    tab_from,
)
from clew_gui.views.theme.theme import font
from clew_shared.study.scaling import figures

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
_NARROW = 560
_HOST = 150
"""The largest width of a host's name."""
_SPEED = 138
"""The width of the choice of a speed: the space for what a process does is short."""
_EVENTS = 200
_SHOWN_EVENTS = 4
"""The number of events that can be seen at once."""


class RoleRow(QWidget):
    """One process: its role, host, state and work, and the buttons that disturb it."""

    slow_asked = Signal(int, float)
    """Asks that this worker take so many times as long."""
    kill_asked = Signal(str, int)

    def __init__(self, appearance: Appearance, role: Role) -> None:
        super().__init__()
        self._role, self._asked = role, 0.0
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
        self.kill.clicked.connect(lambda: self.kill_asked.emit(role.role, role.number))
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
        self.slow_asked.emit(self._role.number, float(factor))


class ClusterView(QWidget):
    """Shows what one run with parameter servers does."""

    slow_asked = Signal(int, float)
    kill_asked = Signal(str, int)
    add_asked = Signal()
    config_asked = Signal()
    export_asked = Signal(str)
    """Asks to write "png", "svg" or "csv"."""
    seen_changed = Signal(object)
    """Asks for this Span of the training time, or None: follow the run."""

    def __init__(self, appearance: Appearance) -> None:
        super().__init__()
        self._appearance = appearance
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        inside = QWidget()
        inside.setObjectName("canvas")
        self.rows: dict[tuple[str, int], RoleRow] = {}
        self._events: tuple[ClusterEvent, ...] | None = None
        self._timeline: Timeline | None = None
        parts = (self._roles_card(), self._timeline_card(), self._plots(), self._banner(), self._events_card())
        whole = column(*parts, gap=8, margins=(16, 10, 16, 10), parent=inside)
        whole.setStretchFactor(self._pair, 1)
        area = scrolling(inside, takes_focus=True)
        column(area, gap=0, parent=self)

    # --- Building -----------------------------------------------------------------------------------------------------

    def _roles_card(self) -> QFrame:
        appearance = self._appearance
        self.caption = Elided("", "caption", "2")
        self.add = Button(appearance, "Add a worker", "quiet", "plus", "Start one more worker")
        self.add.clicked.connect(self.add_asked)
        self.config = Button(
            appearance, "TF_CONFIG", "quiet", "script", "The ClusterSpec and the TF_CONFIG of each process"
        )
        self.config.clicked.connect(self.config_asked)
        kinds = {**PICTURES, "csv": "The updates, CSV…"}
        self.export = export_button(self._appearance, "Export the cluster's plots", kinds, self.export_asked.emit)
        self._rows_box = column(gap=0)
        title = label("Who does what", "subtitle")
        head = row(title, self.caption, self.add, self.config, self.export, gap=8)
        return _card(column(head, self._rows_box, gap=2, margins=(14, 7, 8, 8)))

    def _timeline_card(self) -> QFrame:
        self.timeline = ChartView(self._appearance, "Updates of each worker", keys=True, control=True)
        self.timeline.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.timeline.zoomed.connect(lambda frame: self.seen_changed.emit(frame.x))
        self.timeline.double_clicked.connect(lambda _tile: self.seen_changed.emit(None))
        follow = QShortcut(QKeySequence(Qt.Key.Key_End), self.timeline, context=Qt.ShortcutContext.WidgetShortcut)
        follow.activated.connect(lambda: self.seen_changed.emit(None))
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
        return _card(column(head, self.timeline, self.replay, gap=2, margins=(14, 7, 12, 6)))

    def _plots(self) -> QWidget:
        self.staleness = ChartView(self._appearance, "Staleness of the gradients", least=150)
        self.rates = ChartView(self._appearance, "Images per second of each worker", least=150)
        self._stale_caption, self._rates_title = Elided("", "caption", "2"), label("Images/s", "subtitle")
        self._pair = QWidget()
        self._box = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._pair)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(8)
        heads = (
            row(label("Staleness", "subtitle"), self._stale_caption, gap=8),
            row(self._rates_title, Elided("of each worker", "caption", "2"), gap=8),
        )
        for head, plot, share in zip(heads, (self.staleness, self.rates), (4, 5), strict=True):
            inside = column(head, plot, gap=4, margins=(14, 8, 12, 6))
            inside.setStretchFactor(plot, 1)
            self._box.addWidget(frame("card", inside), share)
        return self._pair

    def _banner(self) -> QFrame:
        self.sentence = label("", "body", wrap=True)
        head = row(Glyph(self._appearance, "info", "accent", 18), self.sentence, gap=12, margins=(16, 8, 16, 9))
        head.setStretch(1, 1)
        note = frame("note", head)
        note.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        return note

    def _events_card(self) -> QFrame:
        self.events = QListWidget()
        self.events.setFrameShape(QFrame.Shape.NoFrame)
        self.events.setAccessibleName("Events of the cluster, the newest first")
        self.events.itemActivated.connect(self._show_event)
        self.events.itemClicked.connect(self._show_event)
        head = row(label("Events", "subtitle"), Elided("choose one to see it in the timeline", "caption", "2"), gap=8)
        return _card(column(head, self.events, gap=2, margins=(14, 7, 8, 6)))

    # --- Showing ------------------------------------------------------------------------------------------------------

    def show_scene(self, scene: ClusterScene, refusal: str, follows: bool, can_configure: bool) -> None:
        """Show a run. ``refusal`` says why it cannot be disturbed, ``follows`` whether the timeline shows the end."""
        self.caption.set_text(scene.caption)
        threads = "The workers are threads of one process" if scene.threads else ""
        self._show_roles(scene.roles, refusal, threads)
        self.add.allow(not (refusal or threads), refusal or threads)
        self.config.allow(can_configure, threads or "No process has reported its address yet")
        self._timeline = scene.timeline
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
        self.export.setEnabled(stale is not None)
        self._show_events(scene.events)

    def _show_roles(self, roles: Sequence[Role], refusal: str, threads: str) -> None:
        wanted = [(role.role, role.number) for role in roles]
        if wanted != list(self.rows):
            for old in self.rows.values():
                self._rows_box.removeWidget(old)
                old.deleteLater()
            self.rows = {key: RoleRow(self._appearance, role) for key, role in zip(wanted, roles, strict=True)}
            for new in self.rows.values():
                new.slow_asked.connect(self.slow_asked)
                new.kill_asked.connect(self.kill_asked)
                self._rows_box.addWidget(new)
            before: QWidget = self.export
            for new in self.rows.values():
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
        if self._timeline is None or which == "latest":
            self.seen_changed.emit(None)
            return
        seen, whole = self._timeline.x, self._timeline.whole
        part = seen if seen.size < _ALL * whole.size else Span(0.5 * (whole.low + whole.high), whole.high)
        self.seen_changed.emit(part if which == "part" else whole)

    def _show_event(self, item: QListWidgetItem) -> None:
        """The timeline around an event."""
        clock = item.data(Qt.ItemDataRole.UserRole)
        if isinstance(clock, float) and self._timeline is not None:
            half = self._timeline.x.size / 2
            self.seen_changed.emit(Span(max(0.0, clock - half), max(clock, half) + half))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Puts the plots above each other if they would be too narrow."""
        super().resizeEvent(event)
        narrow = self.width() < _NARROW
        self._box.setDirection(QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight)


def _card(inside: QBoxLayout) -> QFrame:
    card = frame("card", inside)
    card.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
    return card
