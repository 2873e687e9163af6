"""A problem's ways out as the window has them: buttons that do it, and marked fields; in words that are no flags."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QLineEdit
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.schedulers.allocation import AllocationRequest, Partition, time_problem
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_gui.views.sites.doctor_dialog import DoctorDialog, Step
from clew_gui.views.sites.sites_dialog import SitesDialog
from clew_gui.views.theme.parts import Appearance, Button
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from clew_shared.base.remedies import Remedy, check_node, choose, list_modules, own_file, path_on_site, set_to
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeSession

SHORT = AllocationRequest(time="01:00:00")
PARTITIONS = (
    Partition(name="debug", default=True, seconds=120),
    Partition(name="long", seconds=7200),
    Partition(name="down", seconds=7200, up=False),
)
NO_DATA = Problem(
    "data.missing", "The data set 'mnist' was not found.", "Choose one.", "data",
    (own_file("mnist"), set_to("data", "digits"), path_on_site("mnist")),
)  # fmt: skip


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def program(open_window: Opener, session: FakeSession, places: Places, qtbot: QtBot) -> Program:
    site_store(places).save("cave", Site(title="The Cave", host="login.invalid", scheduler="slurm", allocation=SHORT))
    program = open_window(session)
    program.window.next_run.where.choose("site:cave")
    return program


def offered(program: Program) -> list[str]:
    line = program.window.messages.line
    return [one.accessibleName() for one in (line.help, *line.more) if not one.isHidden()]


def press(program: Program, text: str) -> None:
    line = program.window.messages.line
    next(one for one in (line.help, *line.more) if one.accessibleName() == text and not one.isHidden()).click()


def test_too_much_time_marks_its_field_and_offers_less_time_or_a_partition(
    program: Program, session: FakeSession, qtbot: QtBot
) -> None:
    found = time_problem(PARTITIONS, SHORT)
    assert found is not None
    session.tell(problems=(found,))
    session.wake_up()
    where = program.window.next_run.where
    assert where.form is not None
    time = where.form.form.row("time")
    qtbot.waitUntil(lambda: time.remark is not None)
    assert where.form.fold.button.isChecked(), "the fields are in sight"
    assert time.error.text() == "The job asks for 1 hour; the limit of debug is 2 minutes."
    assert time.editor.property("state") == "bad"
    assert program.window.next_run.run.isEnabled(), "the same job may be accepted later"
    assert offered(program) == ["Ask for 2 minutes", "Partition: long"]
    press(program, "Ask for 2 minutes")
    assert where.form.allocation().time == "00:02:00"
    assert time.remark is None
    program.window.messages.show_problems((found,))
    press(program, "Partition: long")
    assert where.form.allocation().partition == "long"


def test_a_refused_field_without_a_value_to_take_gets_the_cursor_not_the_site(program: Program) -> None:
    program.window.messages.show_problems((Problem("scheduler.account", "No such account.", "", "account"),))
    assert offered(program) == ["Change account"]
    press(program, "Change account")
    form = program.window.next_run.where.form
    assert form is not None
    assert program.window.focusWidget() is form.form.row("account").editor


def test_missing_data_are_sent_replaced_or_named_on_the_site(
    program: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CLEW_DATA", raising=False)
    form, messages = program.window.next_run, program.window.messages
    messages.show_problems((NO_DATA,))
    assert offered(program) == ["A file of this computer…", "Use Digits", "A path on the site…"]
    press(program, "A path on the site…")
    assert not form.data_choice.remote_path.isHidden()
    messages.show_problems((NO_DATA,))
    press(program, "Use Digits")
    assert form.spec().data == "digits"
    (tmp_path / "mnist.npz").write_bytes(bytes(11_000_000))
    monkeypatch.setenv("CLEW_DATA", str(tmp_path))
    messages.show_problems((NO_DATA,))
    assert offered(program)[0] == "Send MNIST from this computer (11 MB)"
    press(program, "Send MNIST from this computer (11 MB)")
    assert form.data_choice.staged() == str(tmp_path / "mnist.npz")


def test_a_way_out_that_this_version_does_not_know_has_no_button(program: Program) -> None:
    program.window.messages.show_problems((Problem("data.odd", "Odd.", "", "", (Remedy("teleport"),)),))
    assert offered(program) == ["Choose file…"]


def shown(program: Program, qtbot: QtBot) -> list[SitesDialog]:
    """The windows of the sites, once there is one."""

    def found() -> list[SitesDialog]:
        return [one for one in program.window.findChildren(SitesDialog) if one.isVisible()]

    qtbot.waitUntil(lambda: bool(found()))
    return found()


def modules_of(dialog: SitesDialog) -> QLineEdit:
    """The field of a site's modules."""
    field = dialog.form.row("modules").editor
    assert isinstance(field, QLineEdit)
    return field


def names_of(dialog: SitesDialog) -> QAbstractItemView:
    """The list of names at the field of a site's modules."""
    popup = modules_of(dialog).completer().popup()
    assert popup is not None
    return popup


def test_the_modules_of_a_site_complete_its_field(program: Program, qtbot: QtBot) -> None:
    program.sites.list_modules = lambda *_: ("python/3.11", "tensorflow/2.16", "tensorflow/2.19")
    found = Problem(
        "bootstrap.tensorflow", "There is no TensorFlow.", "Name a module.", "cave", (list_modules("cave"),)
    )
    program.window.messages.show_problems((found,))
    assert offered(program) == ["Modules…", "Edit site…"]
    press(program, "Modules…")
    (edited,) = shown(program, qtbot)
    qtbot.waitUntil(lambda: edited.message.whole().startswith("3 modules"))
    field = modules_of(edited)
    QTest.keyClicks(field, "python/3.11, TENSOR")
    completer = field.completer()
    assert [completer.completionModel().index(row, 0).data() for row in range(completer.completionCount())] == [
        "tensorflow/2.16",
        "tensorflow/2.19",
    ]
    completer.setCurrentRow(1)
    field.setText(completer.currentCompletion())
    assert edited.form.texts()["modules"] == "python/3.11, tensorflow/2.19"
    edited.choose("local")
    edited.choose("cave")
    assert field.completer().completionCount() == 0, "they may be another site's"
    edited._leaving = True
    edited.reject()


def test_a_chosen_module_comes_after_the_others_and_for_the_one_that_cannot_be_loaded(
    program: Program, places: Places, qtbot: QtBot
) -> None:
    cave = Site(host="login.invalid", scheduler="slurm", allocation=SHORT, modules=("tensorflow/2.1", "cuda/12"))
    site_store(places).save("cave", cave, replace=True)
    program.sites.list_modules = lambda *_: ("gcc/13", "tensorflow/2.16")
    program.sites.show_modules("cave", "tensorflow/2.1")
    (edited,) = shown(program, qtbot)
    qtbot.waitUntil(lambda: names_of(edited).isVisible())
    popup = names_of(edited)
    popup.setCurrentIndex(popup.model().index(1, 0))
    QTest.keyClick(popup, Qt.Key.Key_Return)
    assert edited.form.texts()["modules"] == "cuda/12, tensorflow/2.16"
    edited._leaving = True
    edited.reject()


def test_the_modules_of_a_site_wait_while_somebody_types_elsewhere(program: Program, qtbot: QtBot) -> None:
    answer = threading.Event()

    def late(*_: object) -> tuple[str, ...]:
        answer.wait(10)
        return ("gcc/13", "tensorflow/2.16")

    program.sites.list_modules = late
    program.sites.show_modules("cave")
    (edited,) = shown(program, qtbot)
    qtbot.waitUntil(lambda: edited.message.whole().startswith("Asking"))
    edited.form.focus("user")
    answer.set()
    qtbot.waitUntil(lambda: edited.message.whole().startswith("2 modules"))
    assert not names_of(edited).isVisible()
    edited.reject()


def test_the_window_of_the_sites_says_which_module_cannot_be_loaded_and_why_none_are_listed(
    program: Program, qtbot: QtBot
) -> None:
    refused, answer = Problem("ssh.lost", "The connection was lost."), threading.Event()

    def lost(*_: object) -> tuple[str, ...]:
        answer.wait(10)
        raise ProblemError(refused)

    program.sites.list_modules = lost
    first = program.sites.show_sites("cave")
    step = Step("Modules", "wrong", "Not there.", "Name another.", "", (list_modules("cave", "tensorflow/2.1"),))
    doctor = DoctorDialog(first, Appearance(), "The Cave", lambda *_: iter((step,)), program.sites._doctor_buttons)
    doctor.open()
    qtbot.waitUntil(lambda: len(doctor.steps) == 1 and not doctor.busy)
    next(one for one in doctor.findChildren(Button) if one.accessibleName() == "Modules…").click()
    asking = "tensorflow/2.1 cannot be loaded. Asking The Cave for its modules …"
    qtbot.waitUntil(lambda: first.message.whole() == asking)
    first.choose("local")
    answer.set()
    qtbot.waitUntil(lambda: first.message.whole() == f"The Cave: {refused}")
    assert shown(program, qtbot) == [first]
    first.reject()


def test_a_finding_of_the_doctor_has_its_ways_out_as_buttons(program: Program, qtbot: QtBot) -> None:
    step = Step("Account", "wrong", "Not yours.", "Yours are: lab.", "", (choose("account"), check_node("cave")))
    dialog = DoctorDialog(
        program.window, Appearance(), "The Cave", lambda _stop, _node: iter((step,)), program.sites._doctor_buttons
    )
    dialog.open()
    qtbot.waitUntil(lambda: len(dialog.steps) == 1 and not dialog.busy)
    names = [one.accessibleName() for one in dialog.findChildren(Button)]
    assert "Change account" in names
    assert names.count("Check a node") == 0, "the dialog has its own button for that"
    next(one for one in dialog.findChildren(Button) if one.accessibleName() == "Change account").click()
    assert program.window.next_run.where.form is not None
    assert program.window.next_run.where.form.fold.button.isChecked()
