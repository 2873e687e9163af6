"""The release of PySide6 that aborts is refused, and the one in use does not lose references to None."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QObject

from clew_gui.commands import start
from clew_gui.commands.main import main
from clew_gui.qt_guard import check_qt, find_problem


@pytest.mark.parametrize(
    ("python", "pyside", "code"),
    [
        ((3, 11, 7), "6.12.0", "gui.qt_aborts"),
        ((3, 11, 7), "6.12.0.1", "gui.qt_aborts"),
        ((3, 11, 7), "6.11.3", None),
        ((3, 11, 7), "6.12.1", None),
        ((3, 12, 0), "6.12.0", None),
        ((3, 13, 0), "6.12.0", None),
    ],
)
def test_only_the_release_that_aborts_is_refused(python: tuple[int, ...], pyside: str, code: str | None) -> None:
    problem = find_problem(python, pyside)
    assert (problem and problem.code) == code


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


def test_the_refusal_says_what_to_install() -> None:
    problem = find_problem((3, 11, 7), "6.12.0")
    assert problem is not None
    assert "6.12.0" in problem.text
    assert "3.11" in problem.text
    assert "!=6.12.0" in problem.hint


def test_the_installed_release_may_be_used() -> None:
    assert check_qt() is None


def test_qt_calls_give_back_none_with_a_reference() -> None:
    thing = QObject()
    before = sys.getrefcount(None)
    for _ in range(1000):
        thing.setObjectName("x")
    assert sys.getrefcount(None) > before - 500
