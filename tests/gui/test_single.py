"""One window for each home."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from clew_gui.views.single import OneWindow


def test_a_second_start_asks_the_first_window_to_come_forward(qtbot: QtBot, tmp_path: Path) -> None:
    first, second, other = OneWindow(tmp_path / "a"), OneWindow(tmp_path / "a"), OneWindow(tmp_path / "b")
    assert first.claim()
    with qtbot.waitSignal(first.raised, timeout=5000):
        assert not second.claim()
    assert other.claim(), "another home has a window of its own"
    other.release()
    first.release()
    assert second.claim()
    second.release()
