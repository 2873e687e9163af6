"""The program around the window: what it imports when, its pictures, and what it does with surprises."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QIcon, QImage
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QSlider, QWidget
from pytestqt.qtbot import QtBot

from clew_gui import app
from clew_gui.app import Program
from clew_gui.base.tokens import DARK
from clew_gui.session.run_record import RunRecord
from clew_gui.session.runs import RunHeader, choose_run, read_heads, read_runs
from clew_gui.views.theme import parts
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Attempt, Evaluation, Points, Schema, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, to_toml
from tests.guards import LogBook
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.program_end import end_program


def run_python(*words: str) -> subprocess.CompletedProcess[str]:
    """Another Python, without a screen."""
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, check=False)


NOT_YET = {"asyncio", "cryptography", "jinja2", "optuna", "paramiko", "rich", "tensorflow"}
"""What the window is painted without: each takes tens to hundreds of milliseconds to import."""
_START = """
import gc, sys, threading
from PySide6 import QtWidgets
from clew_gui.commands import main as cli
from clew_gui.commands import start
from clew_gui.session.session import Session
from clew_gui.views.window import window

def tell():
    print(*sorted(sys.modules))
    print(*{type(widget).__name__ for widget in QtWidgets.QApplication.allWidgets() if widget.isVisible()})
    print(gc.isenabled(), gc.get_freeze_count() > 0)
    QtWidgets.QApplication.exit(0)

def told(self, *given, init=window.MainWindow.__init__):
    init(self, *given)
    self.painted.connect(tell)

start.has_display = lambda *_: True
Session.start = lambda _: None
window.MainWindow.__init__ = told
sys.exit(cli.main(["start"]))
"""


@pytest.mark.usefixtures("home")
def test_clew_start_paints_all_of_the_window_before_anything_slow_is_imported() -> None:
    done = run_python("-c", _START)
    assert done.returncode == 0, done.stderr
    modules, widgets, collector = done.stdout.splitlines()
    assert NOT_YET & set(modules.split()) == set()
    assert {"EmptyRunView", "NextRun", "NumberEdit", "ConvergencePlots"} <= set(widgets.split())
    assert collector == "False True", "Python's own collector rests, and what is there is never looked at again"


_WITHOUT_NUMPY = """
import sys
from clew_gui.commands import main as cli
from clew_gui.commands import start

start.has_display = lambda *_: True
sys.modules["numpy"] = None
sys.exit(cli.main(["start"]))
"""


_LATE = """
import gc, importlib, sys
from PySide6.QtCore import QObject
import clew_gui.app

def classes():
    return {f"{kind.__module__}.{kind.__name__}" for kind in gc.get_objects() if isinstance(kind, type(QObject))}

before = classes()
for name in sys.argv[1:]:
    importlib.import_module(name)
print(len(before) > 100, *sorted(classes() - before))
"""
LATE = ("clew_gui.ssh.paramiko_connection", "clew_gui.ssh.keys", "jinja2", "optuna", "rich.console")


def test_what_threads_import_late_makes_no_class_of_qt() -> None:
    """Made outside the GUI's thread such a class ends the program now and then (decision 30)."""
    done = run_python("-c", _LATE, *LATE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True"]


@pytest.mark.usefixtures("home")
def test_a_part_that_cannot_be_loaded_is_named_before_a_window_opens() -> None:
    done = run_python("-c", _WITHOUT_NUMPY)
    assert done.returncode == 2, done.stderr
    assert "A part of the window cannot be loaded: import of numpy halted" in done.stderr
    assert "clew doctor" in done.stderr


def test_the_window_opens_and_names_a_file_of_its_own_that_cannot_be_read(places: Places, qtbot: QtBot) -> None:
    (places.home / "jobs.jsonl").mkdir(parents=True)
    program = app.build_app(places, catalogue=fakes.catalogue(), memory=NoMemory())
    try:
        with qtbot.waitExposed(program.window):
            program.window.show()
        assert "jobs.jsonl cannot be read" in program.window.messages.problems()[0].text
        assert not program.window.next_run.run.isEnabled()
    finally:
        end_program(program)


def test_an_icon_is_drawn_once_for_all_buttons_that_have_it(
    qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []

    def draw(name: str, *_: object) -> QIcon:
        drawn.append(name)
        return QIcon()

    monkeypatch.setattr(parts, "icon", draw)
    appearance = parts.Appearance()
    buttons = [parts.IconButton(appearance, "reset", "Reset") for _ in range(5)]
    assert drawn == ["reset"]
    appearance.theme = DARK
    for button in buttons:
        button.retheme()
    assert drawn == ["reset", "reset"]


@pytest.fixture
def recorded(home: Path) -> Path:
    """A softmax run on disk, as a trainer leaves it."""
    folder = RunFolder(home / "runs" / "11111111-2222-3333-4444-555555555555")
    folder.path.mkdir(parents=True)
    spec = RunSpec(exercise="softmax", run=folder.path.name, data="digits", params={"learning_rate": 0.25})
    folder.spec.write_text(to_toml(spec))
    journal = JournalWriter.create(folder.journal(1))
    values = tuple(np.linspace(2, 0.3, 500).astype("<f4").tobytes() for _ in range(2))
    for event in (
        Attempt(format=1, run=spec.run, attempt=1, exercise="softmax", spec_sha256="", steps=500, time=1000.0),
        State(state=RunState.RUNNING, time=1001.0),
        Schema(id=1, metrics=(fakes.LOSS, fakes.ACCURACY, fakes.TEST), batch_size=100, samples_per_epoch=50_000),
        Points(schema=1, first=0, count=500, seconds=1.0, clock=1.0, values=values, time=1002.0),
        Evaluation(step=500, values={"test_accuracy": 0.9079}, time=1003.0),
        State(state=RunState.FINISHED, step=500, time=1003.0),
    ):
        journal.append(event)
    journal.close()
    return folder.path


@pytest.mark.parametrize("run", ["folder", "id", "latest"])
def test_a_picture_of_the_window_with_a_recorded_run(recorded: Path, tmp_path: Path, run: str) -> None:
    named = {"folder": str(recorded), "id": recorded.name, "latest": "latest"}[run]
    picture = tmp_path / "pictures" / "window.png"
    options = ("--size", "1280x800", "--theme", "dark")
    done = run_python("-m", "clew_gui.app", "--screenshot", str(picture), "--run", named, *options)
    assert done.returncode == 0, done.stderr
    image = QImage(str(picture))
    assert (image.width(), image.height()) == (1280, 800)
    assert image.pixelColor(5, 400).lightness() < 60
    assert not list((recorded.parent.parent).glob("mirrors/*")), "a picture leaves nothing behind"


def test_a_picture_reads_the_runs_of_its_exercise_only(
    recorded: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = home / "runs" / "11111111-2222-3333-4444-666666666666"
    shutil.copytree(recorded, other)
    (other / "spec.toml").write_text(to_toml(RunSpec(exercise="cnn", run=other.name)))
    read: list[Path] = []

    def reading(folder: Path) -> History:
        read.append(folder)
        return read_run(folder)

    monkeypatch.setattr("clew_gui.session.runs.read_run", reading)
    heads = read_heads((home / "runs").iterdir())
    runs = read_runs(heads, RunRecord(home / "runs.jsonl"), "softmax")
    assert set(heads) == {recorded.name, other.name}
    assert [head.began for head in heads.values()] == [1000.0, 1000.0]
    assert list(runs) == [recorded.name]
    assert read == [recorded]


BEGUN = {"s1": "softmax", "s2": "softmax", "l1": "linear-regression"}
RUNS = {run: RunHeader(RunSpec(exercise=exercise), Path("nowhere"), 1000.0) for run, exercise in BEGUN.items()}


@pytest.mark.parametrize(
    ("run", "exercise", "shown"),
    [
        ("", "", "l1"),
        ("latest", "", "l1"),
        ("latest", "softmax", "s2"),
        ("", "softmax", "s2"),
        ("s1", "", "s1"),
        ("s1", "linear-regression", "s1"),
        ("latest", "cnn", ""),
    ],
)
def test_the_run_on_a_picture_is_the_one_asked_for_or_the_exercises_last(run: str, exercise: str, shown: str) -> None:
    assert choose_run(RUNS, run, exercise) == shown


def test_a_run_that_is_not_there_is_refused() -> None:
    with pytest.raises(ProblemError, match="There is no run 'gone'"):
        choose_run(RUNS, "gone", "")


def test_a_surprise_is_logged_and_shown_and_the_window_lives(
    open_window: Opener, expect_logs: LogBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    program = open_window()
    app.show_uncaught_errors(program.window)
    expect_logs("an unexpected error")
    try:
        raise ZeroDivisionError("division by zero")
    except ZeroDivisionError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    (found,) = program.window.messages.problems()
    assert found.text == "ZeroDivisionError: division by zero"
    assert "copy this message" in found.hint
    assert program.window.isVisible()


def test_unknown_sizes_and_themes_are_refused_by_the_command_line() -> None:
    assert app.arguments(["--theme", "dark"]).theme == "dark"
    with pytest.raises(SystemExit):
        app.arguments(["--theme", "pink"])


def test_a_sentence_that_repeats_itself_is_logged_once_in_a_while() -> None:
    rarely = app.RarelyTheSame()

    def passes(text: str, when: float, level: int = logging.INFO) -> bool:
        record = logging.LogRecord("clew", level, "", 0, "%s", (text,), None)
        record.created = when
        return rarely.filter(record)

    assert [passes("a", when) for when in (1000, 1001, 1599, 1601)] == [True, False, False, True]
    assert passes("b", 1002)
    assert [passes("a", 1603, logging.ERROR) for _ in range(2)] == [True, True], "errors always"


def test_a_home_that_cannot_be_written_is_said_and_no_traceback(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    (found,) = app.start_log(Places(home=blocked, private=tmp_path / "private"))
    assert str(blocked) in found.text
    assert "CLEW_HOME" in found.hint


def test_a_baseline_that_was_pinned_is_pinned_again_in_the_next_window(open_window: Opener) -> None:
    memory = NoMemory(WindowState(told_runs_go_on=True))
    session = fakes.FakeSession()
    runs = [session.add() for _ in range(2)]
    for run in runs:
        run.begin()
    first = open_window(session, memory=memory)
    first.controller.select(runs[0].id)
    first.controller.pin(True)
    first.window.close()
    assert memory.state.pinned == {"softmax": runs[0].id}
    again = open_window(session, memory=memory)
    assert again.controller.model.pinned() == runs[0].id


def test_no_control_of_the_window_takes_the_focus_from_a_wheel(softmax: Program) -> None:
    kinds: tuple[type[QWidget], ...] = (QComboBox, QAbstractSpinBox, QSlider)
    controls = [control for kind in kinds for control in softmax.window.findChildren(kind)]
    assert len(controls) > 3
    assert [c.accessibleName() for c in controls if c.focusPolicy() is Qt.FocusPolicy.WheelFocus] == []
