"""An entry of the menus is said once: a line with its words and keys, and one with what it does."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from clew_gui import app
from clew_gui.views.actions import menus
from clew_gui.views.actions.controller import WindowController
from clew_gui.views.actions.menus import why_not
from clew_gui.views.presentation.menu_entries import Action
from clew_gui.views.tabs.registry import TABS
from clew_gui.views.tabs.tab import Tab
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from tests.gui import fakes
from tests.gui.conftest import Opener


def test_every_entry_does_something(open_window: Opener) -> None:
    tabs = {tab.entry.name for tab in TABS}
    assert set(open_window().window.actions_) == menus.HANDLERS.keys() | menus.SWITCHES.keys() | tabs


def test_an_entry_is_added_by_its_line_and_by_what_it_does(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = Action("greet", "G&reet", "Ctrl+Alt+G", "Says hello")
    monkeypatch.setattr(app, "MENUS", (*menus.MENUS, ("&More", (entry,))))
    greet = {"greet": lambda do: do.window.messages.show_note("Hello.")}
    monkeypatch.setattr(menus, "HANDLERS", {**menus.HANDLERS, **greet})
    window = open_window().window
    added = window.actions_["greet"]
    assert added.toolTip() == "Says hello (Ctrl+Alt+G)"
    assert ("More", [("Ctrl+Alt+G", "Greet")]) in window.actions_.shortcuts()
    added.trigger()
    assert window.messages.accessibleName() == "Message: Hello."


class NewTab(Tab):
    """Names the selected run."""

    entry = Action("new", "Ne&w", "Ctrl+8", "What a run is called")
    EXPORT = "Export the name", "name"

    def __init__(self, window: MainWindow, controller: WindowController, places: Places) -> None:
        super().__init__(window, controller, places)
        self.said = QLabel(" " * 1000)
        self.lay_out(self.said, self.files_button(), grows=self.said)

    def refresh(self) -> None:
        run = self._controller.model.run()
        if self.in_sight() and run is not None and self.is_new(run.id):
            self.said.setText(f"Run {run.number}")

    def write(self, kind: str, path: Path) -> None:
        path.write_text(self.said.text(), encoding="utf-8")


def test_a_tab_is_a_class_and_one_line(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, qtbot: QtBot
) -> None:
    monkeypatch.setattr(app, "TABS", (*TABS, NewTab))
    session = fakes.FakeSession()
    first, second = session.add(), session.add()
    program = open_window(session)
    window, tab = program.window, program.tab(NewTab)
    wide = window.run_view.minimumSizeHint().width()
    assert window.pages.minimumSizeHint().width() == wide, "a tab that is out of sight needs no room"
    assert (window.head.tabs.tabText(7), window.head.tabs.tabToolTip(7)) == ("New", "What a run is called (Ctrl+8)")
    view = next(entries for title, entries in window.actions_.shortcuts() if title == "View")
    assert view.index(("Ctrl+8", "New")) == view.index(("Ctrl+9", "Class")) + 1
    program.controller.select(first.id)
    window.actions_["new"].trigger()
    assert (tab.isVisible(), tab.said.text(), window.bottom.pages.isHidden()) == (True, "Run 1", True)
    program.controller.select(second.id)
    qtbot.waitUntil(lambda: tab.said.text() == "Run 2")
    tab.export("csv", tmp_path / "name.csv")
    assert (tmp_path / "name.csv").read_text(encoding="utf-8") == "Run 2"


def test_what_cannot_be_done_says_why(open_window: Opener) -> None:
    program = open_window()
    reasons = why_not(program.controller.model)
    assert all(reasons.values()), "nothing has run yet"
    for name, reason in reasons.items():
        assert not program.window.actions_[name].isEnabled()
        assert program.window.actions_[name].toolTip() == reason
