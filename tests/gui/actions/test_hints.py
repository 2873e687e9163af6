"""What few people find is offered once, where it is useful, and listed in *Help*."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel

from clew_gui.views.actions.dialogs import FeaturesDialog, TutorialDialog
from clew_gui.views.actions.hints import APART_S, FEATURES, Hints
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.catalogue import load_builtin
from tests.gui import fakes
from tests.gui.conftest import Opener


def test_what_is_useful_is_offered_once_one_line_a_minute(open_window: Opener) -> None:
    memory = NoMemory(WindowState(width=1440, height=900, told_runs_go_on=True))
    session = fakes.FakeSession()
    program = open_window(session, catalogue=load_builtin(), exercise="perceptron", memory=memory)
    now, said, messages, hint = 0.0, [], program.window.messages, program.window.next_run.hint
    hints = Hints(program.controller, lambda: now)

    def offered() -> str:
        hints.offer()
        return hint.text() if hint.isVisible() else ""

    now = APART_S
    assert offered() == "", "there is no run yet"
    session.add("perceptron").begin(100).train(100).end()
    program.controller.runs_changed()
    said.append(offered())
    assert said[0].startswith("Play beside Run trains a small exercise")
    assert not messages.isVisible(), "it covers nothing"
    assert program.window.run_view.isVisible()
    assert offered() == said[0], "not another one within the same minute"
    for _ in range(3 * len(FEATURES)):
        now += APART_S
        said.append(offered())
    shown = [text for text in said if text]
    assert len(shown) == len(set(shown))
    assert said[-1] == "", "the last one goes by itself"
    assert not [text for text in shown if "All of y" in text], "no value is cut off"
    assert len(memory.state.told) == len(shown)


def test_help_has_the_tutorial_and_a_list_of_what_clew_can_do(open_window: Opener) -> None:
    program = open_window()
    program.window.actions_["features"].trigger()
    dialog = QApplication.activeModalWidget()
    assert isinstance(dialog, FeaturesDialog)
    words = {one.text() for one in dialog.findChildren(QLabel)}
    assert {one.name for one in FEATURES} | {one.text for one in FEATURES} <= words
    QTest.keyClick(dialog, Qt.Key.Key_Escape)
    program.window.actions_["tutorial"].trigger()
    (tutorial,) = program.window.findChildren(TutorialDialog)
    assert not tutorial.isModal()
    text = max((one.text() for one in tutorial.findChildren(QLabel)), key=len)
    page = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text("utf-8")
    assert "1. Install" not in text
    assert page.split("\n## ")[2].splitlines()[0] in text
    assert "<img" not in text
    tutorial.close()
