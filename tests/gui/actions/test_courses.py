"""Courses in the window: nothing is opened unseen, the lab follows, a person agrees to share, the teacher sees all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QCheckBox, QDialog, QLineEdit, QPlainTextEdit, QPushButton
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.courses.board import Board, Sharing
from clew_gui.courses.course_file import from_files
from clew_gui.courses.shared_folder import SharedFile, SharedFolder
from clew_gui.courses.store import Courses
from clew_gui.views.tabs.class_tab import ClassTab
from clew_shared.base.places import Places
from tests.class_folder import class_folder
from tests.gui import fakes
from tests.gui.conftest import Opener


@pytest.fixture
def board(tmp_path: Path) -> SharedFolder:
    """The folder of the class."""
    return class_folder(tmp_path / "board")


@pytest.fixture
def course(tmp_path: Path, board: SharedFolder) -> Path:
    """A course with one exercise in its folder."""
    folder = tmp_path / "dl"
    (folder / "exercises").mkdir(parents=True)
    (folder / "exercises/own.py").write_text("raise SystemExit('never run unseen')\n")
    (folder / "course.toml").write_text(
        f"""format = 1
id = "dl"
title = "Deep learning in winter"
board = '{board.place.path}'
[[lessons]]
title = "Week one"
text = "Begin here."
exercises = [{{ id = "softmax", goals = [] }}]
"""
    )
    return folder


def follow(places: Places, folder: Path) -> None:
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    Courses(places).open(from_files(files, "here"), consent=True)


def dialog(program: Program) -> QDialog:
    return next(one for one in program.window.findChildren(QDialog) if one.isVisible())


def press(where: QDialog, words: str) -> None:
    button = next(one for one in where.findChildren(QPushButton) if one.text().strip() == words and one.isVisible())
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def titles(program: Program) -> list[str]:
    tree = program.window.lab.tree
    return [item.text(0) for item in map(tree.topLevelItem, range(tree.topLevelItemCount())) if item is not None]


def test_a_course_is_shown_whole_before_it_is_opened(softmax: Program, course: Path, places: Places) -> None:
    softmax.open_file(str(course))
    asked = dialog(softmax)
    words = asked.findChildren(QPlainTextEdit)[0].toPlainText()
    assert "own.py" in words
    assert "Week one: softmax" in words
    press(asked, "Cancel")
    assert Courses(places).all() == []
    softmax.open_file(str(course))
    press(dialog(softmax), "Open")
    assert Courses(places).current() is not None
    assert titles(softmax) == ["Week one"]
    head = softmax.window.lab.tree.topLevelItem(0)
    assert head is not None
    assert "Begin here." in head.toolTip(0)
    assert softmax.controller.model.card.goals == ()


def test_the_next_window_follows_it_and_all_exercises_come_back(
    open_window: Opener, course: Path, places: Places
) -> None:
    follow(places, course)
    program = open_window()
    assert titles(program) == ["Week one"]
    program.window.actions_["courses"].trigger()
    press(dialog(program), "Follow")  # that of all exercises comes first
    assert len(titles(program)) > 1
    program.window.actions_["courses"].trigger()
    press(dialog(program), "Leave")
    assert "what you shared is deleted" in dialog(program).sentence.text()  # type: ignore[attr-defined]
    press(dialog(program), "Leave")
    assert Courses(places).all() == []


def test_a_course_that_became_unreadable_is_said_once(open_window: Opener, course: Path, places: Places) -> None:
    follow(places, course)
    (places.courses / "dl/course.toml").write_text("= broken")
    program = open_window()
    for _ in range(40):
        program.controller.second.emit()
    (found,) = [one for one in program.window.messages.problems() if one.code == "course.read"]
    assert "which you follow, cannot be read" in found.text
    program.window.messages.dismiss()
    for _ in range(40):
        program.controller.second.emit()
    assert not [one for one in program.window.messages.problems() if one.code == "course.read"]


def test_runs_of_two_courses_keep_apart(open_window: Opener, course: Path, places: Places) -> None:
    session = fakes.FakeSession()
    mine, others, before = session.add(), session.add(), session.add()
    for run, name in ((mine, "dl"), (others, "hpc")):
        run.spec = msgspec.structs.replace(run.spec, course=name)
    follow(places, course)
    program = open_window(session)
    assert [run.id for run in program.controller.model.runs()] == [mine.id, before.id]
    program.controller.follow_course(None)
    assert others.id in [run.id for run in program.controller.model.runs()]


def test_nothing_is_shared_before_a_person_agrees_and_it_can_be_stopped(
    open_window: Opener, course: Path, places: Places, board: SharedFolder, qtbot: QtBot
) -> None:
    follow(places, course)
    session = fakes.FakeSession()
    run, other = session.add().begin().train(40), session.add().begin().train(20)
    run.spec = msgspec.structs.replace(run.spec, course="dl")
    other.spec = msgspec.structs.replace(other.spec, course="dl", student="Somebody else")
    program = open_window(session)
    for _ in range(40):
        program.controller.second.emit()
    assert list(Path(board.place.path).iterdir()) == []
    program.window.actions_["share"].trigger()
    asked = dialog(program)
    assert "on a cluster no other student" in asked.sentence.text()  # type: ignore[attr-defined]
    asked.findChildren(QLineEdit)[0].setText("Ada")
    asked.findChildren(QCheckBox)[0].setChecked(True)
    press(asked, "Share")
    seen = Board(board)

    def arrived() -> None:
        seen.refresh()
        found = [(one.name, [run.line.state for run in one.of("softmax")]) for one in seen.members.values()]
        assert found == [("Ada", ["RUNNING"])]

    qtbot.waitUntil(arrived, timeout=10_000)
    program.window.actions_["share"].trigger()
    QTest.keyClick(dialog(program), Qt.Key.Key_Escape)
    assert len(list(Path(board.place.path).iterdir())) == 1, "Escape changes nothing"
    qtbot.waitUntil(lambda: not program.window.findChildren(QDialog), timeout=10_000)
    program.window.actions_["share"].trigger()
    press(dialog(program), "Stop sharing")
    qtbot.waitUntil(lambda: list(Path(board.place.path).iterdir()) == [], timeout=10_000)


def test_the_teacher_sees_the_class_and_a_click_shows_a_curve(
    open_window: Opener, course: Path, places: Places, board: SharedFolder, tmp_path: Path, qtbot: QtBot
) -> None:
    lines = [
        f'{{"time": 1800000000, "name": "{name}"}}\n'
        f'{{"time": 1800000000, "exercise": "softmax", "run": "r", "state": "{state}", "step": 50, "steps": 100,'
        f' "best": 0.9, "points": [[1, 0.5], [50, 0.9]]}}\n'
        for name, state in (("Ada", "RUNNING"), ("Ben", "FAILED"))
    ]
    for number, text in enumerate(lines):
        board.append(f"{number}.board", 0, text.encode())
    follow(places, course)
    program = open_window()
    tab = program.tab(ClassTab)
    tab.open()
    qtbot.waitUntil(lambda: "2 students" in tab.sentence.text(), timeout=10_000)
    assert "1 stuck" in tab.sentence.text()
    heads, ada, ben = tab.table.texts
    assert heads[2].startswith("Softmax")
    assert "50 %" in ada[2]
    assert ben[1] == "failed"
    tab.pages.button("goals").click()
    assert not tab.race.isVisible()
    tab.pages.button("race").click()
    tab.table.cellClicked.emit(0, 2)
    assert tab.race.isVisible()
    tab.names.setChecked(False)
    assert [row[0] for row in tab.table.texts[1:]] == ["Student 1", "Student 2"]
    assert "Ada" not in str(tab.table.texts)
    tab.write("csv", tmp_path / "class.csv")
    assert "Student 1" in (tmp_path / "class.csv").read_text()


def test_what_a_student_writes_is_no_markup(
    open_window: Opener, course: Path, places: Places, board: SharedFolder, qtbot: QtBot
) -> None:
    name = '<img src="//evil.example/a.png"><b>Ada</b>'
    board.append("a.board", 0, json.dumps({"time": 1, "name": name}).encode() + b"\n")
    follow(places, course)
    tab = open_window().tab(ClassTab)
    tab.open()
    qtbot.waitUntil(lambda: "1 student" in tab.sentence.text(), timeout=10_000)
    item = tab.table.item(0, 0)
    assert item is not None
    assert name in item.text()
    assert item.toolTip()
    assert "<img" not in item.toolTip()


def test_a_login_is_asked_for_when_a_person_looks_and_not_each_minute(
    open_window: Opener,
    course: Path,
    places: Places,
    board: SharedFolder,
    monkeypatch: pytest.MonkeyPatch,
    qtbot: QtBot,
) -> None:
    follow(places, course)
    program = open_window()
    tab, asked = program.tab(ClassTab), list[bool]()

    def folder(_course: str, _text: str, may_ask: Callable[[], bool]) -> SharedFolder:
        look = board.look

        def noted(suffix: str, offsets: Mapping[str, int]) -> tuple[list[SharedFile], int]:
            asked.append(may_ask())
            return look(suffix, offsets)

        monkeypatch.setattr(board, "look", noted)
        return board

    program.controller.course_folder = folder
    tab.open()
    qtbot.waitUntil(lambda: asked == [True] and tab.look.isEnabled(), timeout=10_000)
    monkeypatch.setattr(tab, "_looked", -1e9)
    tab.refresh()
    qtbot.waitUntil(lambda: asked == [True, False] and tab.look.isEnabled(), timeout=10_000)


def test_a_member_is_offered_no_class(open_window: Opener, course: Path, places: Places, board: SharedFolder) -> None:
    follow(places, course)
    Sharing(places.shared("dl"), board.place.path).join("Ada", curves=False, now=1.0)
    program = open_window()
    assert not program.tab(ClassTab).offered()
    assert not program.window.actions_["class"].isEnabled()


def test_what_cannot_be_read_is_said(softmax: Program, tmp_path: Path) -> None:
    (tmp_path / "broken.clew-course").write_bytes(b"PK\x03\x04 no zip")
    softmax.open_file(str(tmp_path / "broken.clew-course"))
    assert softmax.window.messages.problems()[-1].code == "course.read"
