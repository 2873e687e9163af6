"""All menu entries with their shortcuts. There is no entry that does nothing."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QSizePolicy, QWidget

from clew_shared.base import operating_system


class Action(msgspec.Struct, frozen=True):
    """One entry: its name in code, its words, its shortcut; a checkable one shows a state; ``tip`` says more."""

    name: str
    text: str
    keys: str = ""
    checkable: bool = False
    tip: str = ""
    role: QAction.MenuRole = QAction.MenuRole.NoRole
    """Its place where the system has a menu of the program itself (macOS); by default Qt guesses one by the words."""
    several: str = ""
    """Its words when it acts on several selected runs, ``{}`` is their number; empty where it acts on one."""


MENUS: tuple[tuple[str, tuple[Action | None, ...]], ...] = (
    (
        "&Lab",
        (
            Action("find", "&Find an exercise", "Ctrl+K"),
            Action("next_exercise", "&Next exercise", "Ctrl+PgDown"),
            Action("previous_exercise", "&Previous exercise", "Ctrl+PgUp"),
            Action("reload", "Re&load own exercises", "F5", tip="Read the files of your folder again"),
            None,
            Action("settings", "&Settings…", "Ctrl+,", role=QAction.MenuRole.PreferencesRole),
            Action("quit", "&Close the window", "Ctrl+Q", role=QAction.MenuRole.QuitRole),
        ),
    ),
    (
        "&Run",
        (
            Action("run", "&Run", "Ctrl+Return"),
            Action("race", "R&ace…", "Ctrl+R"),
            Action("sweep", "S&weep…", "Ctrl+Shift+R", tip="Train once with each of many values"),
            Action("range", "Learnin&g-rate range test…", tip="One run in which the learning rate grows"),
            Action("predict", "Pr&edict first…", "Ctrl+Shift+P", tip="Say what you expect in the end, then run"),
            Action("slides", "Sli&des' values", "Ctrl+Shift+D"),
            Action("reuse", "&Use the selected run's settings", "Ctrl+E"),
            None,
            Action("pause", "&Pause", "Ctrl+P"),
            Action("rate", "&Learning rate…", "Ctrl+L"),
            Action("trace", "Trace 20 steps", tip="Record what the operations of the next 20 steps do"),
            Action("stop", "&Stop after this block", "Ctrl+."),
            Action("stop_now", "Stop &now", "Ctrl+Shift+."),
            Action("continue", "&Continue from the last checkpoint", "Ctrl+Shift+Return"),
            Action("try", "Tr&y it…", "F6", tip="See what the network makes of an image or of a code of your own"),
            None,
            Action("queue_next", "Run ne&xt", "Ctrl+Shift+N", tip="Start this run before all other waiting runs"),
            Action("queue_up", "Move up in the &queue", "Ctrl+Shift+Up", tip="Move this run one place up in the queue"),
            Action("queue_down", "Move do&wn in the queue", "Ctrl+Shift+Down", tip="Let the next run go first"),
            Action("unqueue", "&Take out of the queue", "Ctrl+Shift+X", tip="This run will not begin"),
            None,
            Action("show", "S&how in the plots", "Ctrl+D", checkable=True, several="S&how {} runs in the plots"),
            Action("pin", "Pin as &baseline", "Ctrl+B", checkable=True),
            Action(
                "note", "Na&me, tags and note…", "F2", tip="Write a name, tags and a note", several="Tags of {} runs…"
            ),
            Action("export_run", "Export this run as CS&V…", "Ctrl+Shift+E"),
            Action(
                "export_board",
                "Export for &TensorBoard…",
                tip="Write this run as TensorBoard reads it",
                several="Export {} runs for &TensorBoard…",
            ),
            Action("remove", "Re&move from the list", "Ctrl+Backspace", several="Re&move {} runs from the list"),
            Action("undo", "U&ndo", "Ctrl+Z"),
        ),
    ),
    (
        "&Cluster",
        (
            Action("sites", "&Sites…", "Ctrl+Shift+O", tip="Add, edit and test the machines that runs can go to"),
            None,
            Action("script", "Show the &job script…", "Ctrl+Shift+U", tip="Exactly what would be sent to the site"),
            Action("try_here", "&Try it here meanwhile", "Ctrl+T", tip="A short run with the same settings here"),
            Action("hold", "&Hold a node…", "Ctrl+H", tip="Keep an allocation for many runs"),
            None,
            Action("jupyter", "Open J&upyter on the node", "Ctrl+J", tip="In the browser of this computer"),
            Action(
                "tensorboard", "Open Tensor&Board on the node", "Ctrl+Shift+B", tip="In the browser of this computer"
            ),
            Action("terminal", "Open a ter&minal on the node", "Ctrl+Shift+T", tip="In its own window"),
            None,
            Action("recordings", "Show a &recording…", "Ctrl+Shift+Y", tip="A cluster run, played step by step"),
            None,
            Action("jobs", "J&obs…", "Ctrl+Shift+J", tip="The jobs on all sites, and the way to cancel them"),
            Action("log_in", "Log &in again", "Ctrl+I", tip="If the site asks you to log in again"),
            Action("log_out", "Log o&ut", tip="End the logins to all sites; jobs go on"),
        ),
    ),
    (
        "&View",
        (
            Action("guide", "&Guide", "Ctrl+1"),
            Action("work", "&Run", "Ctrl+2"),
            Action("compare", "Compa&re", "Ctrl+3"),
            Action("speedup", "S&peed-up", "Ctrl+4"),
            Action("cluster", "Cl&uster", "Ctrl+5"),
            Action("hand_in", "Re&port", "Ctrl+6"),
            None,
            Action("log_scale", "&Log axes", "Ctrl+G", checkable=True),
            Action("whole_y", "&All of y", "Ctrl+Shift+G", checkable=True),
            Action("copy_picture", "&Copy the plots as a picture", "Ctrl+Shift+C"),
            Action("export_plots", "&Export the plots…", "Ctrl+Shift+S"),
            None,
            Action("lab_panel", "Show the &exercises", "F9", checkable=True),
            Action("form_panel", "Show the &next run", "F10", checkable=True),
            Action("runs_panel", "Show the runs and the l&og", "F8", checkable=True),
            Action("log", "&Log of the selected run", "Ctrl+7"),
            Action("details", "&Details of the selected run", "Ctrl+Shift+I"),
            None,
            Action("full_screen", "&Full screen", "F11", checkable=True),
            Action("theme", "Light or &dark", "Ctrl+Shift+L"),
            Action("reset_layout", "&Reset the layout"),
        ),
    ),
    (
        "&Help",
        (
            Action("shortcuts", "&Keyboard shortcuts", "F1"),
            Action("code", "Show the &code of this exercise", "Ctrl+U"),
            Action("report", "&This computer and its agent"),
            Action("about", "&About Clew", role=QAction.MenuRole.AboutRole),
        ),
    ),
)
_PANEL_KEYS = [
    (
        "Plots",
        [
            ("Left, Right", "Move the crosshair; Shift: ten times as far"),
            ("+, -", "Zoom in, zoom out"),
            ("PgUp, PgDown", "Earlier or later part"),
            ("Home", "Show everything again"),
            ("Esc", "Take the crosshair away"),
        ],
    ),
    (
        "Panels",
        [
            ("Space", "Runs: show or hide in the plots"),
            ("Del", "Runs: remove from the list"),
            ("Up, Down", "Fields: step a number; Shift: a big step"),
            ("Enter", "Exercises: open, fold a chapter"),
            ("Esc", "Search: show all exercises"),
        ],
    ),
]
"""Keys of single panels, which are no menu entries."""
QUEUE_ACTIONS = ("queue_next", "queue_up", "queue_down", "unqueue")
"""The actions for a run that waits."""


class MenuActions:
    """All entries by name, owned by one window."""

    def __init__(self, window: QWidget) -> None:
        self._all: dict[str, QAction] = {}
        for entry in _entries():
            action = QAction(entry.text, window)
            action.setObjectName(f"action.{entry.name}")
            action.setCheckable(entry.checkable)
            action.setMenuRole(entry.role)
            if entry.keys:
                action.setShortcut(QKeySequence(entry.keys))
            if entry.tip:
                keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
                action.setToolTip(f"{entry.tip} ({keys})" if keys else entry.tip)
            self._all[entry.name] = action
            window.addAction(action)
        self._all["run"].setShortcuts([QKeySequence("Ctrl+Return"), QKeySequence("Ctrl+Enter")])
        self._all["run"].setAutoRepeat(False)

    def __getitem__(self, name: str) -> QAction:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def count(self, runs: int) -> None:
        """Say in the words of entries that act on all selected runs how many these are."""
        for entry in _entries():
            if entry.several:
                self._all[entry.name].setText(entry.several.format(runs) if runs > 1 else entry.text)

    def menu_bar(self) -> QMenuBar:
        """The menus, inside the window's own top bar unless the system has a place for them."""
        bar = QMenuBar()
        bar.setNativeMenuBar(operating_system.HAS_MENU_BAR)
        bar.setAccessibleName("Menus")
        bar.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        for title, entries in MENUS:
            menu = bar.addMenu(title)
            for entry in entries:
                self._put(menu, entry)
        return bar

    def _put(self, menu: QMenu, entry: Action | None) -> None:
        if entry is None:
            menu.addSeparator()
        else:
            menu.addAction(self._all[entry.name])

    def shortcuts(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Returns all shortcuts, by menu and by panel: (keys, words)."""
        found = []
        for title, entries in MENUS:
            pairs = [
                (self._keys(entry), entry.text.replace("&", "").rstrip("…")) for entry in entries if entry is not None
            ]
            found.append((title.replace("&", ""), [pair for pair in pairs if pair[0]]))
        return [*found, *_PANEL_KEYS]

    def _keys(self, entry: Action) -> str:
        return self._all[entry.name].shortcut().toString(QKeySequence.SequenceFormat.NativeText)


def _entries() -> Iterator[Action]:
    for _, entries in MENUS:
        yield from (entry for entry in entries if entry is not None)
