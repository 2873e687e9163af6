"""The entries of menus and buttons that follow them, each said once, and buttons for ways out of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QSizePolicy, QWidget

from clew_gui.views.theme.parts import Appearance, Button, native_keys
from clew_shared.base import operating_system
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import Remedy


class Action(msgspec.Struct, frozen=True):
    """One entry: its name in code, its words, its shortcut; a checkable one shows a state; ``tip`` says more."""

    name: str
    text: str
    keys: str = ""
    tip: str = ""
    checkable: bool = False
    role: QAction.MenuRole = QAction.MenuRole.NoRole
    """Its place where the system has a menu of the program itself (macOS); by default Qt guesses one by the words."""
    several: str = ""
    """Its words when it acts on several selected runs, ``{}`` is their number; empty where it acts on one."""


Menus = Sequence[tuple[str, Sequence[Action | None]]]
Reasons = Callable[[Any], Mapping[str, str]]
"""Says of entries, by name, why they cannot be used with a model; empty if they can."""
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

    def __init__(self, window: QWidget, menus: Menus, why_not: Reasons) -> None:
        self._menus, self._why_not = menus, why_not
        self._entries = [entry for _, entries in menus for entry in entries if entry is not None]
        self._all: dict[str, QAction] = {}
        self._tips: dict[str, str] = {}
        for entry in self._entries:
            action = QAction(entry.text, window)
            action.setObjectName(f"action.{entry.name}")
            action.setCheckable(entry.checkable)
            action.setMenuRole(entry.role)
            if entry.keys:
                action.setShortcut(QKeySequence(entry.keys))
            self._all[entry.name] = action
            tip = native_keys(f"{entry.tip} ({entry.keys})" if entry.tip and entry.keys else entry.tip)
            self._tips[entry.name] = tip
            action.setToolTip(tip)
            window.addAction(action)
        self._all["run"].setShortcuts([QKeySequence("Ctrl+Return"), QKeySequence("Ctrl+Enter")])
        self._all["run"].setAutoRepeat(False)

    def __getitem__(self, name: str) -> QAction:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def allow(self, model: object) -> None:
        """Enable the entries that the model gives no reason against; the others say theirs in their tooltips."""
        for name, reason in self._why_not(model).items():
            self._all[name].setEnabled(not reason)
            self._all[name].setToolTip(reason or self._tips[name])

    def count(self, runs: int) -> None:
        """Say in the words of entries that act on all selected runs how many these are."""
        for entry in self._entries:
            if entry.several:
                self._all[entry.name].setText(entry.several.format(runs) if runs > 1 else entry.text)

    def menu_bar(self) -> QMenuBar:
        """The menus, inside the window's own top bar unless the system has a place for them."""
        bar = QMenuBar()
        bar.setNativeMenuBar(operating_system.HAS_MENU_BAR)
        bar.setAccessibleName("Menus")
        bar.setSizePolicy(QSizePolicy.Policy.Minimum, QSizePolicy.Policy.Fixed)
        for title, entries in self._menus:
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
        for title, entries in self._menus:
            pairs = [
                (self._keys(entry), entry.text.replace("&", "").rstrip("…")) for entry in entries if entry is not None
            ]
            found.append((title.replace("&", ""), [pair for pair in pairs if pair[0]]))
        return [*found, *_PANEL_KEYS]

    def _keys(self, entry: Action) -> str:
        return self._all[entry.name].shortcut().toString(QKeySequence.SequenceFormat.NativeText)


class ActionButton(Button):
    """A button for an entry of the menus, whose state and words it follows, with what it says when it cannot be used;
    ``words`` and ``tip`` are its own instead of the entry's."""

    def __init__(
        self, appearance: Appearance, action: QAction, glyph: str, words: str = "", role: str = "", tip: str = ""
    ) -> None:
        super().__init__(appearance, words or action.iconText(), role, glyph)
        self._action, self._own_words, self._own_tip = action, bool(words), tip
        self.clicked.connect(action.trigger)
        action.changed.connect(self._follow)
        self._follow()

    def _follow(self) -> None:
        action, allowed = self._action, self._action.isEnabled()
        if not self._own_words and action.iconText() != self.accessibleName():
            self.set_words(action.iconText())
        self.setEnabled(allowed)
        self.setToolTip(self._own_tip if self._own_tip and allowed else action.toolTip())


# --- Buttons of remedies ----------------------------------------------------------------------------------------------


MOST_BUTTONS = 4
"""The largest number of remedies that are offered; a problem names the best first."""


class RemedyButton(msgspec.Struct, frozen=True):
    """A button that helps: its words, and what it does."""

    text: str
    act: Callable[[], object]


Maker = Callable[[Remedy], RemedyButton | None]
Remedies = Callable[[Problem, str], Sequence[RemedyButton]]
"""Gives the buttons that help with a problem of a run, whose id is empty if it is of none."""


class RemedyButtons:
    """Makes buttons of remedies. A way out that no part of this window can go has none; the sentences say it all."""

    def __init__(self) -> None:
        self._makers: dict[str, Maker] = {}

    def add(self, act: str, maker: Maker) -> None:
        """Lets ``maker`` make the buttons of remedies of this kind; it returns None if there is nothing to press."""
        self._makers[act] = maker

    def of(self, remedies: Iterable[Remedy]) -> tuple[RemedyButton, ...]:
        """Returns the buttons of the remedies, in this order, none twice."""
        made = (self._makers[one.act](one) for one in remedies if one.act in self._makers)
        return tuple({button.text: button for button in made if button is not None}.values())
