"""The dialog that installs TensorFlow for this computer, with a program in place of pip."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.views.actions import processes
from clew_gui.views.actions.processes import _SetupDialog
from clew_gui.views.theme.parts import ProgressBar
from clew_shared.base.problem import Problem
from clew_shared.base.remedies import set_up_tensorflow

LACKS = Problem("agent.tensorflow", "There is no TensorFlow.", "", "", (set_up_tensorflow(),))
HALF = 'print(\'{"text": "Downloading tensorflow", "done": 1, "total": 2}\', flush=True)\n'
WAITS = """
import sys, time
from clew_shared.base import operating_system
asked = []
with operating_system.stop_requests(asked.append):
    print('{"text": "Downloading tensorflow", "done": 1, "total": 2}', flush=True)
    while not asked:
        time.sleep(0.01)
open(sys.argv[1], "w").close()
sys.exit(130)
"""


@pytest.fixture
def dialog(softmax: Program, qtbot: QtBot) -> _SetupDialog:
    """The dialog, opened by the button of the message that TensorFlow is missing."""
    (button,) = softmax.window.messages.remedies(LACKS, "")
    assert button.text == "Install TensorFlow…"
    button.act()
    (found,) = softmax.window.findChildren(_SetupDialog)
    return found


def run_instead(monkeypatch: pytest.MonkeyPatch, program: str, *words: str) -> None:
    monkeypatch.setattr(processes, "_SETUP", ("-c", program, *words))


def texts(dialog: _SetupDialog) -> str:
    return "\n".join(each.text() for each in dialog.findChildren(QLabel))


def test_it_says_how_large_it_is_before_anything_begins(dialog: _SetupDialog) -> None:
    assert "About 450 MB are downloaded, and 1.8 GB are used" in texts(dialog)
    dialog.stop.click()


def test_when_it_is_installed_the_agent_starts_again(
    softmax: Program, dialog: _SetupDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, HALF)
    renewed: list[bool] = []
    monkeypatch.setattr(softmax.session, "renew_agent", lambda: renewed.append(True), raising=False)
    with qtbot.waitSignals([softmax.actions.setup.installed, dialog.accepted]):
        dialog.install.click()
    assert renewed == [True]


def test_a_failure_is_said_and_it_can_be_tried_again(
    dialog: _SetupDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, "import sys; sys.exit('clew setup-tensorflow: there is no room.')")
    dialog.install.click()
    qtbot.waitUntil(lambda: "there is no room." in texts(dialog))
    assert dialog.install.isEnabled()
    dialog.stop.click()


def test_while_it_goes_on_the_window_shows_how_far_it_is_and_cancel_stops_it(
    softmax: Program, dialog: _SetupDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_instead(monkeypatch, WAITS, str(tmp_path / "stopped"))
    dialog.install.click()
    bar = dialog.findChild(ProgressBar)
    assert bar is not None
    qtbot.waitUntil(lambda: (bar.value(), bar.maximum()) == (1, 2))
    assert "Downloading tensorflow" in texts(dialog)
    dialog.stop.click()
    qtbot.waitUntil((tmp_path / "stopped").exists)
    qtbot.waitUntil(dialog.install.isEnabled)
    dialog.stop.click()


def test_closing_the_window_stops_it(
    softmax: Program, dialog: _SetupDialog, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_instead(monkeypatch, WAITS, str(tmp_path / "stopped"))
    dialog.install.click()
    qtbot.waitUntil(lambda: "Downloading tensorflow" in texts(dialog))
    softmax.close()
    assert (tmp_path / "stopped").exists()
