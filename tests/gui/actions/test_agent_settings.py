"""The settings of this computer's agent: checked while the window goes on, told in words, then used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QTimer, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.base.settings import local_settings
from clew_gui.targets.local_agent import agent_command, interpreter_problem
from clew_gui.views.actions.dialogs import AgentSettings, SettingsDialog
from clew_gui.views.theme.dialog import Question
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.cards import Catalogue
from tests.gui import fakes


def settings_of(program: Program) -> AgentSettings:
    """The open settings dialog's part."""
    program.actions.show_settings()
    (dialog,) = program.window.findChildren(SettingsDialog)
    return dialog.agent


@pytest.mark.parametrize(
    ("code", "output", "words"),
    [
        (0, "[[3, 12], []]", None),
        (0, "a greeting of the shell\n[[3, 11], []]\n", None),
        (0, '[[3, 11], ["tensorflow"]]', "has no TensorFlow"),
        (0, '[[3, 11], ["tensorflow", "clew_agent", "clew_shared"]]', "has no TensorFlow and no Clew"),
        (0, "[[3, 8], []]", "is Python 3.8"),
        (2, "unknown option -P", "unknown option -P"),
        (1, "", "exit code 1"),
        (0, "[]", "not a Python"),
        (0, "7", "not a Python"),
    ],
)
def test_what_a_python_answers_is_judged_in_words(code: int, output: str, words: str | None) -> None:
    found = interpreter_problem("/opt/python", code, output)
    assert (found is None) if words is None else (found is not None and words in found.text)


def test_a_python_with_everything_is_kept_and_the_agent_started_anew_with_it(
    softmax: Program, places: Places, tmp_path: Path, qtbot: QtBot
) -> None:
    part = settings_of(softmax)
    part.interpreter.setText(sys.executable)
    part.exercises.setText(str(tmp_path))
    with qtbot.waitSignal(part.accepted):
        part.use.click()
        assert not part.use.isEnabled(), "it is asked while the window goes on"
    assert agent_command(places) == [sys.executable, "-P", "-m", "clew_agent", "serve", "--exercises", str(tmp_path)]
    assert isinstance(softmax.session, fakes.FakeSession)
    assert softmax.session.asked == [("renew",)]


@pytest.mark.parametrize(
    ("python", "folder", "words"),
    [
        ("/nowhere/python", "", "There is no file /nowhere/python"),
        ("", "/nowhere/else", "There is no folder /nowhere/else"),
        ("/bin/false", "", "/bin/false is not a Python"),
        (__file__, "", "is not a Python"),
    ],
)
def test_what_will_not_do_is_said_and_nothing_is_changed(
    softmax: Program, places: Places, qtbot: QtBot, python: str, folder: str, words: str
) -> None:
    part = settings_of(softmax)
    part.interpreter.setText(python)
    part.exercises.setText(folder)
    part.use.click()
    qtbot.waitUntil(lambda: words in part.message.text())
    assert not local_settings(places).path.exists()
    assert part.use.isEnabled()
    assert part.message.height() >= part.message.heightForWidth(part.message.width()), "all of it can be read"


def test_a_python_that_does_not_answer_is_given_up_and_ended(softmax: Program, tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    part = settings_of(softmax)
    part.interpreter.setText(str(slow))
    part.use.click()
    limit = part.findChild(QTimer, "interpreter check")
    assert isinstance(limit, QTimer)
    limit.timeout.emit()
    assert "did not answer" in part.message.text()


def test_a_folder_of_the_settings_must_exist(places: Places) -> None:
    file = local_settings(places)
    file.path.parent.mkdir(parents=True)
    file.path.write_text('exercises = "/nowhere"\n')
    with pytest.raises(ProblemError, match="There is no folder /nowhere"):
        agent_command(places)


def test_other_exercises_fill_the_lab_and_leave_the_form_alone(softmax: Program) -> None:
    form = softmax.window.next_run.form
    form.row("learning_rate").editor.set_value(0.05)
    before = fakes.catalogue()
    more = fakes.card(id="own", title="My own", chapter="Own files")
    softmax.controller.take_catalogue(Catalogue(chapters=before.chapters, exercises=(*before.exercises, more)))
    assert "own" in softmax.window.lab.tree.exercise_ids()
    assert softmax.window.next_run.form is form
    assert form.values()["learning_rate"] == 0.05
    softmax.controller.take_catalogue(Catalogue(exercises=(more,)))
    assert softmax.window.head.title.text() == "My own"


def dropped(program: Program, path: Path) -> bool:
    """Drop a file on the window; whether it takes it."""
    data, taken = QMimeData(), False
    data.setUrls([QUrl.fromLocalFile(str(path))])
    how = Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    for event in (QDragEnterEvent(QPoint(5, 5), *how), QDropEvent(QPointF(5, 5), *how)):
        event.ignore()
        program.app.sendEvent(program.window, event)
        taken = event.isAccepted()
    return taken


def test_a_dropped_exercise_opens_and_its_folder_is_that_of_ones_own(
    softmax: Program, places: Places, tmp_path: Path
) -> None:
    assert softmax.window.acceptDrops()
    file, before = tmp_path / "own.py", fakes.catalogue()
    assert dropped(softmax, file)
    assert local_settings(places).load().exercises == str(tmp_path)
    reading = fakes.card(id="own", file=str(file), problem=Problem("exercise.reading", "It is being read."))
    for one in (reading, fakes.card(id="named-inside", file=str(file))):
        softmax.controller.take_catalogue(Catalogue(exercises=(*before.exercises, one)))
        softmax.controller.second.emit()
    assert softmax.controller.model.card.id == "named-inside"
    softmax.window.actions_["undo"].trigger()
    assert local_settings(places).load().exercises == ""
    assert not dropped(softmax, tmp_path / "points.csv")


def test_a_folder_with_other_files_is_read_only_when_a_person_agrees(
    softmax: Program, places: Places, tmp_path: Path
) -> None:
    """To read what a file declares is to run it."""
    (tmp_path / "drive.py").write_text("raise SystemExit\n")

    def ask(folder: Path) -> Question:
        assert dropped(softmax, folder / "own.py")
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, Question)
        return dialog

    dialog = ask(tmp_path)
    assert "Clew runs each of its 2 Python files" in dialog.sentence.text()
    dialog.reject()
    assert local_settings(places).load().exercises == ""
    ask(tmp_path).accept()
    assert local_settings(places).load().exercises == str(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    dialog = ask(elsewhere)
    assert f"Those in {tmp_path} leave the list." in dialog.sentence.text()
    dialog.reject()
