"""A hand-in that someone opens with Clew is checked, and the window shows what was found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.views.actions.dialogs import TextDialog
from clew_gui.views.window.side_process import SideProcess
from clew_shared.catalogue import load_builtin
from tests.unit.reports import test_handin
from tests.unit.reports.test_handin import bundle_of, made_run


def shown(qtbot: QtBot, program: Program) -> str:
    """The texts of the dialog that opens."""
    dialogs: list[TextDialog] = []

    def there() -> bool:
        dialogs[:] = program.window.findChildren(TextDialog)
        return bool(dialogs)

    qtbot.waitUntil(there)
    text = "\n".join(each.text() for each in dialogs[0].findChildren(QLabel))
    dialogs[0].accept()
    qtbot.waitUntil(lambda: not program.window.findChildren(TextDialog))
    return text


def test_who_handed_in_what_is_shown(
    qtbot: QtBot, softmax: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(test_handin, "CARDS", {card.id: card for card in load_builtin().exercises})
    softmax.raise_window(str(bundle_of(made_run(tmp_path / "run"), tmp_path / "anna.clew.zip")))
    text = shown(qtbot, softmax)
    assert "anna.clew.zip" in text
    assert "As it was recorded." in text
    assert "Anna Example: 1 run, as it was recorded." in text.splitlines()


def test_an_altered_byte_and_what_is_no_hand_in_are_said(qtbot: QtBot, softmax: Program, tmp_path: Path) -> None:
    path = bundle_of(made_run(tmp_path / "run"), tmp_path / "anna.clew.zip")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    softmax.handins.open(path)
    assert "As it was recorded." not in shown(qtbot, softmax)
    softmax.handins.open(tmp_path / "not there.clew.zip")
    assert "It could not be checked." in shown(qtbot, softmax)


@pytest.mark.unix("a process that a signal ends has no exit code")
def test_a_check_that_is_killed_is_no_verdict(qtbot: QtBot, softmax: Program) -> None:
    found: list[tuple[int | None, str]] = []
    program = SideProcess(softmax.window, "killed")
    program.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], lambda *answer: found.append(answer))
    qtbot.waitUntil(lambda: bool(found))
    assert found[0][0] == -1
