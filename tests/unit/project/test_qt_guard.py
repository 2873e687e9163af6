"""What the window needs and lacks is named; the PySide6 in use does not lose references to None."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from clew_gui.commands import start
from clew_gui.commands.main import main


@pytest.mark.parametrize("missing", [["PySide6"], ["pyqtgraph"], ["PySide6", "pyqtgraph"]])
@pytest.mark.parametrize("words", [["start"], ["desktop-entry"]])
def test_without_qt_neither_a_window_nor_an_icon_for_it_is_offered(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: list[str],
    words: list[str],
) -> None:
    for name in missing:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(start, "has_display", lambda *_: True)
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "share"))
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"The window needs {' and '.join(missing)}, which" in said
    assert "Type in a terminal: " in said
    assert not (home / "share").exists()
    assert main(["desktop-entry", "--remove"]) == 0


def test_qt_calls_give_back_none_with_a_reference() -> None:
    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(1000):
        thing.setObjectName("x")
    assert sys.getrefcount(None) > before - 500
