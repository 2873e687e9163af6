"""An entry of the menus is said once: a line with its words and keys, and one with what it does."""

from __future__ import annotations

import pytest

from clew_gui import app
from clew_gui.views.actions import menus
from clew_gui.views.actions.menus import why_not
from clew_gui.views.presentation.menu_entries import Action
from tests.gui.conftest import Opener


def test_every_entry_does_something(open_window: Opener) -> None:
    assert set(open_window().window.actions_) == menus.HANDLERS.keys() | menus.SWITCHES.keys()


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


def test_what_cannot_be_done_says_why(open_window: Opener) -> None:
    program = open_window()
    reasons = why_not(program.controller.model)
    assert all(reasons.values()), "nothing has run yet"
    for name, reason in reasons.items():
        assert not program.window.actions_[name].isEnabled()
        assert program.window.actions_[name].toolTip() == reason
