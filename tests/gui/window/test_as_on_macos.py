"""What macOS expects of a window and other systems do not, as far as it can be seen elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QMenuBar, QTabBar, QWidget

from clew_gui.app import Program
from clew_gui.views.theme import parts
from clew_gui.views.theme.parts import native_keys
from clew_shared.base import operating_system
from clew_shared.journal.events import State
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener


def texts(widget: QWidget) -> Iterator[str]:
    """All that a widget says, or says when the pointer rests on it."""
    yield widget.toolTip()
    if isinstance(widget, QLabel):
        yield widget.text()
    if isinstance(widget, QTabBar):
        yield from (widget.tabToolTip(tab) for tab in range(widget.count()))


def test_keys_are_shown_as_the_system_writes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Stop (Ctrl+.); at once: Ctrl+Shift+. or Ctrl and the wheel"
    assert native_keys(text) == text, "here"
    monkeypatch.setattr(parts, "_native", lambda keys: f"<{keys}>")
    assert native_keys(text) == "Stop (<Ctrl+.>); at once: <Ctrl+Shift+.> or <Ctrl> and the wheel"


def test_no_part_of_the_window_says_ctrl_there(open_window: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_native", lambda keys: keys.replace("Ctrl+", "⌘").replace("Ctrl", "⌘"))
    window = open_window().window
    for tab in range(window.head.tabs.count()):
        window.show_tab(tab)
    said = [text for widget in window.findChildren(QWidget) for text in texts(widget)]
    assert any("⌘" in text for text in said)
    assert [text for text in said if "Ctrl" in text and "⌘" not in text] == []


def test_settings_about_and_quit_are_in_the_menu_of_the_program(softmax: Program) -> None:
    roles = {name: softmax.window.actions_[name].menuRole() for name in softmax.window.actions_}
    own = {name: role for name, role in roles.items() if role is not QAction.MenuRole.NoRole}
    assert own == {
        "settings": QAction.MenuRole.PreferencesRole,
        "quit": QAction.MenuRole.QuitRole,
        "about": QAction.MenuRole.AboutRole,
    }


@pytest.mark.parametrize("at_top", [False, True])
def test_the_menus_are_where_the_system_has_them(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch, at_top: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(operating_system, "HAS_MENU_BAR", at_top)
    monkeypatch.setattr(QMenuBar, "setNativeMenuBar", lambda _, on: asked.append(on))
    open_window()
    assert asked == [at_top]


def test_the_system_takes_no_time_from_the_window_while_a_run_is_followed(
    open_window: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def stay_awake(why: str) -> object:
        said.append("awake")
        return lambda: said.append("may sleep")

    monkeypatch.setattr(operating_system, "stay_awake", stay_awake)
    session = fakes.FakeSession()
    program = open_window(session)
    program.controller.second.emit()
    assert said == []
    run = session.add()
    run.begin()
    program.controller.second.emit()
    program.controller.second.emit()
    assert said == ["awake"]
    run.feed(State(state=RunState.FINISHED))
    program.controller.second.emit()
    assert said == ["awake", "may sleep"]
    session.add().begin()
    program.controller.second.emit()
    program.close()
    assert said == ["awake", "may sleep"] * 2
