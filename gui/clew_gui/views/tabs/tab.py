"""What the tabs of a window have in common: their place, when they are filled, and how their contents become files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QLayout, QSizePolicy, QWidget

from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.files import ask_and_write
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.theme.parts import PICTURES, IconButton, Panel, column, export_button, frame, lay_out_now, scrolling
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places

NARROW = 560
"""The width of a tab below which its plots are too narrow beside each other."""


class Tab(Panel):
    """One tab; nothing is computed while it is out of sight.

    A tab gives its ``entry`` in the menus, whose words are its title; ``EXPORT``, the title of the dialog and the name
    of the file; ``FILES``, the kinds of files by suffix, and ``KINDS``, what a menu calls them; ``refresh`` and
    ``write``, or an ``export`` of its own.
    """

    entry: ClassVar[Action]
    FOLDS_RUNS: ClassVar[bool] = True
    """Whether it needs the height of the runs below it."""
    EXPORT: ClassVar[tuple[str, str]]
    FILES: ClassVar[Mapping[str, str]] = {"png": "Picture (*.png)", "svg": "Drawing (*.svg)", "csv": "Values (*.csv)"}
    KINDS: ClassVar[Mapping[str, str]] = {**PICTURES, "csv": "The table, CSV…"}

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__("canvas")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)
        self._window, self._controller, self._places = window, controller, places
        self._appearance = window.appearance
        self.box = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._shown: object = None
        """What the widgets were last filled from."""
        name, tip = self.entry.name, f"{self.entry.tip} ({self.entry.keys})"
        self.number = window.add_tab(self, title_of(self.entry), tip, name if self.FOLDS_RUNS else "")
        window.actions_[name].triggered.connect(self.open)
        window.head.tabs.currentChanged.connect(lambda _tab: self.refresh())
        controller.curves_changed.connect(self.show_other_runs)
        controller.ticked_slowly.connect(self.refresh)

    def refresh(self) -> None:
        """Fill the widgets; cheap if nothing changed, and nothing while out of sight."""
        raise NotImplementedError

    def show_other_runs(self) -> None:
        """Called when other runs are drawn."""
        self.refresh()

    def write(self, kind: str, path: Path) -> None:
        """Write a kind of ``FILES``. Raises ``OSError`` or ``ProblemError`` where the file cannot be written."""
        raise NotImplementedError

    def open(self) -> None:
        """Shows the tab, if it is offered."""
        self._window.show_tab(self.number)

    def in_sight(self) -> bool:
        """Whether the tab is the one that is shown."""
        return self._window.pages.currentIndex() == self.number

    def offered(self) -> bool:
        """Whether the tab is there."""
        return self._window.head.tabs.isTabVisible(self.number)

    def offer(self, there: bool) -> None:
        """Whether the tab is there; from one that goes away to the run."""
        if not there and self.in_sight():
            self._window.show_tab(1)
        if self.offered() != there:
            self._window.head.tabs.setTabVisible(self.number, there)
            self._window.head.tabs.updateGeometry()
            lay_out_now(self._window.head)
        self._window.actions_[self.entry.name].setEnabled(there)

    def is_new(self, state: object) -> bool:
        """Whether the widgets were last filled from another state than this one, which counts as shown from now on."""
        before, self._shown = self._shown, state
        return before != state

    def export(self, kind: str, path: Path | None = None) -> None:
        """Write a kind of ``FILES``; asks for the place when ``path`` is None."""
        title, name = self.EXPORT
        ask_and_write(self._window, title, f"{name}.{kind}", self.FILES[kind], partial(self.write, kind), path)

    def files_button(self) -> IconButton:
        """The button that exports the tab."""
        return export_button(self._appearance, self.EXPORT[0], self.KINDS, self.export)

    def pair(self, *plots: tuple[QLayout, QWidget, int]) -> QWidget:
        """Two plots in cards beside each other, each with its head and its share of the width; above each other where
        the tab is narrow."""
        whole = QWidget()
        whole.setLayout(self.box)
        self.box.setContentsMargins(0, 0, 0, 0)
        self.box.setSpacing(10)
        for head, plot, share in plots:
            inside = column(head, plot, gap=4, margins=(14, 9, 12, 7), grows=plot)
            self.box.addWidget(frame("card", inside), share)
        return whole

    def showEvent(self, event: QShowEvent) -> None:
        """Takes the room that it needs."""
        super().showEvent(event)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)

    def hideEvent(self, event: QHideEvent) -> None:
        """Out of sight it needs none: a stack of pages is otherwise as wide as the widest of them."""
        super().hideEvent(event)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Ignored)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Puts the plots of a pair above each other if they would be too narrow."""
        super().resizeEvent(event)
        narrow = self.width() < NARROW
        self.box.setDirection(QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight)

    def lay_out(self, *parts: QWidget, grows: QWidget, gap: int = 10) -> None:
        """Puts the parts above each other, with a scroll bar where the window is low."""
        inside = QWidget()
        inside.setObjectName("canvas")
        column(*parts, gap=gap, margins=(16, gap + 2, 16, gap + 2), grows=grows, parent=inside)
        column(scrolling(inside, takes_focus=True), gap=0, parent=self)


def low_card(inside: QLayout, role: str = "card") -> QFrame:
    """A card, or a box of another role, that is no higher than what is in it."""
    card = frame(role, inside)
    card.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
    return card


def title_of(entry: Action) -> str:
    """What the bar of tabs calls a tab, without the mark of its key in the menu."""
    return entry.text.replace("&", "")
