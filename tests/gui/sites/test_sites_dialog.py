"""The window's sites: their fields and what is wrong with them, keeping and handing on, consent, the doctor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QLabel, QLineEdit, QPlainTextEdit, QWidget
from pytestqt.qtbot import QtBot

from clew_gui.schedulers.allocation import AllocationRequest
from clew_gui.sites.consent import OwnWords, consents
from clew_gui.sites.presets import PRESETS
from clew_gui.sites.site import LOCAL, Site
from clew_gui.sites.site_fields import free_name, site_of, texts_of
from clew_gui.sites.store import SiteStore
from clew_gui.views.sites.doctor_dialog import DoctorDialog, Step, StepRow
from clew_gui.views.sites.prompts import consent_question, missing_consents
from clew_gui.views.sites.sites_dialog import SitesDialog
from clew_gui.views.theme.parts import Appearance
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem
from tests.guards import LogBook

FULL = Site(
    title="The cave",
    host="login.example.org",
    user="ariadne",
    port=2222,
    key="~/.ssh/id_ed25519",
    jump=("gate", "user@second:2222"),
    fingerprints=("SHA256:" + "a" * 43, "SHA256:" + "b" * 43),
    scheduler="slurm",
    gres="gpu:tesla",
    select=True,
    launch="srun",
    requeue=True,
    extra=("--mail-type=NONE",),
    modules=("python", "cuda/11.8"),
    prologue="module purge\nexport OMP_NUM_THREADS=4",
    python="/usr/bin/python3.11",
    venv="~/venvs/lab",
    data="/gpfs/data",
    scratch="~/runs",
    ports=(40000, 40999),
    note="Ask the teacher\nfor the reservation.",
    allocation=AllocationRequest(partition="gpu", time="02:00:00", nodes=2, gpus=4, cpus=16, features="k80"),
)


@pytest.mark.parametrize("site", [Site(), FULL, *PRESETS.values()])
def test_every_field_of_a_site_comes_back_from_the_form(site: Site) -> None:
    assert site_of(texts_of(site))[0] == site


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("host", "not a host", "a host looks like"),
        ("port", "x", "A port is a number"),
        ("port", "70000", "from 1 to 65535"),
        ("ports", "40000", "is not a range"),
        ("ports", "many", "is not a range"),
        ("allocation.time", "soon", "cannot be read"),
        ("allocation.nodes", "0", "Must be"),
        ("allocation.gpus", "-1", "Must be"),
        ("modules", "cuda; rm", "module"),
        ("prologue", "export API_TOKEN=abcdefgh", "must not contain secrets"),
        ("key", "~/.ssh/id.pub", "is a public key"),
    ],
)
def test_what_is_wrong_is_told_with_its_field(name: str, text: str, words: str) -> None:
    _, problems = site_of(texts_of(FULL) | {name: text})
    assert [one for one in problems if one.where == name and words.lower() in one.text.lower()], problems


def test_a_field_that_is_cleared_is_at_its_default() -> None:
    cleared = texts_of(FULL) | dict.fromkeys(("port", "requeue", "launch", "allocation.nodes", "modules"), "")
    usual = {"port": 0, "requeue": False, "launch": "", "modules": ()}
    asked = msgspec.structs.replace(FULL.allocation, nodes=1)
    assert site_of(cleared) == (msgspec.structs.replace(FULL, **usual, allocation=asked), ())


def test_a_new_sites_name_is_free_and_allowed() -> None:
    assert free_name("jureca", frozenset({LOCAL})) == "jureca"
    assert free_name("login.Example", frozenset({"login-example"})) == "login-example-2"
    assert free_name("…", frozenset()) == "site"


@pytest.fixture
def parent(qtbot: QtBot) -> Iterator[QWidget]:
    """What the dialogs belong to."""
    widget = QWidget()
    qtbot.addWidget(widget)
    yield widget
    widget.close()


@pytest.fixture
def store(tmp_path: Path) -> SiteStore:
    """Two sites, one of them cannot be read."""
    store = SiteStore(tmp_path / "sites")
    store.save("cave", FULL)
    (store.folder / "torn.toml").write_text("host = 3\n")
    return store


@pytest.fixture
def dialog(parent: QWidget, store: SiteStore) -> SitesDialog:
    """The sites, open."""
    sites = SitesDialog(parent, Appearance(), store, ("login", "node1"))
    sites.show()
    return sites


def line(dialog: SitesDialog, name: str) -> QLineEdit:
    """A field of one line."""
    control = dialog.form.row(name).editor
    assert isinstance(control, QLineEdit)
    return control


def question(dialog: QWidget) -> QDialog:
    """What is asked in front of the dialog."""
    return next(child for child in dialog.findChildren(QDialog) if child.isVisible())


def test_all_sites_are_listed_and_a_torn_one_hides_no_other(dialog: SitesDialog) -> None:
    assert dialog.names() == [LOCAL, "cave", "torn"]
    dialog.choose("cave")
    assert line(dialog, "host").text() == "login.example.org"
    dialog.choose("torn")
    assert "host must be a text" in dialog.note.text()


def test_a_group_of_which_nothing_is_set_is_folded(dialog: SitesDialog) -> None:
    prologue = dialog.form.row("prologue").editor
    shown = []
    for name in ("cave", "login", "cave"):
        if name == "login":
            dialog.begin_blank(name, Site(host="login"))
        dialog.choose(name)
        shown.append(prologue.isVisibleTo(dialog.form))
    assert shown == [True, False, True]


def test_a_wrong_value_is_said_below_its_field_at_once_and_cannot_be_saved(dialog: SitesDialog) -> None:
    dialog.choose("cave")
    line(dialog, "allocation.time").setText("soon")
    error = dialog.form.row("allocation.time").error
    assert error.isVisibleTo(dialog.form)
    assert "cannot be read" in error.text()
    assert not dialog.save.isEnabled()
    line(dialog, "allocation.nodes").setText("1,5")
    assert dialog.form.row("allocation.nodes").error.text() == "Expected a whole number, got '1,5'"
    line(dialog, "allocation.nodes").setText("2")
    line(dialog, "allocation.time").setText("30")
    assert not error.isVisibleTo(dialog.form)
    assert dialog.save.isEnabled()


def test_a_site_is_made_from_a_host_of_the_ssh_configuration_and_kept(
    dialog: SitesDialog, store: SiteStore, qtbot: QtBot
) -> None:
    dialog.begin_blank("login", Site(host="login"))
    dialog.form.row("scheduler").editor.set_value("none")
    line(dialog, "user").setText("ariadne")
    with qtbot.waitSignal(dialog.changed):
        dialog.save.click()
    assert store.load("login") == Site(host="login", user="ariadne")
    assert not dialog.save.isEnabled(), "there is nothing more to save"


def test_a_scheduler_that_nobody_has_named_is_looked_for_or_chosen_before_the_site_is_kept(
    dialog: SitesDialog, store: SiteStore, qtbot: QtBot
) -> None:
    dialog.begin_blank("hpc", Site(host="hpc"))
    field, find = dialog.form.row("scheduler"), dialog.form.find_button
    assert not dialog.save.isEnabled()
    assert field.error.text() == "", "nothing is red before anything is typed"
    assert "The scheduler is not known yet" in dialog.save.toolTip()
    line(dialog, "user").setText("a")
    assert "The scheduler is not known yet" in field.error.text()
    line(dialog, "user").setText("")
    with qtbot.waitSignal(dialog.find_asked) as asked:
        find.click()
    assert asked.args == ["hpc", Site(host="hpc")]
    assert (find.isEnabled(), dialog.message.whole()) == (False, "Looking for the scheduler on hpc …")
    dialog.not_found((Problem("scheduler.absent", "hpc has no scheduler."),))
    assert (field.error.text(), dialog.save.isEnabled()) == ("hpc has no scheduler.", False)
    find.click()
    line(dialog, "user").setText("ariadne")
    dialog.found("Found Slurm.", Site(host="hpc", scheduler="slurm", allocation=AllocationRequest(time="01:00:00")))
    assert (dialog.message.whole(), field.error.text()) == ("Found Slurm.", "")
    dialog.save.click()
    found = Site(host="hpc", user="ariadne", scheduler="slurm", allocation=AllocationRequest(time="01:00:00"))
    assert store.load("hpc") == found, "with what was typed meanwhile"


def test_what_was_found_goes_to_the_site_that_was_asked_about(dialog: SitesDialog) -> None:
    dialog.begin_blank("hpc", Site(host="hpc"))
    dialog.form.find_button.click()
    dialog.choose("cave")
    dialog.found("Found PBS.", Site(host="hpc", scheduler="pbs", select=True))
    assert dialog.draft().site == FULL
    dialog.choose("hpc")
    assert (dialog.draft().site, dialog.save.isEnabled()) == (Site(host="hpc", scheduler="pbs", select=True), True)


def test_without_a_host_nobody_can_look(dialog: SitesDialog) -> None:
    dialog.begin_blank("site", Site())
    assert (dialog.form.find_button.isEnabled(), dialog.form.find_button.toolTip()) == (False, "Name the host first")
    assert "no host yet" in dialog.list.currentItem().text()


def test_a_new_site_is_called_as_its_machine_is_until_someone_calls_it_otherwise(
    dialog: SitesDialog, store: SiteStore
) -> None:
    dialog.begin_preset("slurm")
    line(dialog, "host").setText("ariadne@login3.juwels.example.org:2222")
    assert dialog.name.text() == "juwels"
    dialog.name.setText("juwels-lab")
    line(dialog, "host").setText("ariadne@login3.jureca.example.org:2222")
    assert dialog.name.text() == "juwels-lab"
    dialog.save.click()
    kept = store.load("juwels-lab")
    assert (kept.host, kept.user, kept.port) == ("login3.jureca.example.org", "ariadne", 2222)


def test_no_two_sites_are_shown_alike(dialog: SitesDialog) -> None:
    dialog.begin_preset("slurm")
    assert (dialog.draft().site.title, line(dialog, "title").placeholderText()) == ("", "slurm")
    for preset, title in (("minotauro", "MinoTauro (BSC)"), ("minotauro", "")):
        dialog.begin_preset(preset)
        assert dialog.draft().site.title == title
    line(dialog, "title").setText("the CAVE")
    assert "The site cave is shown as 'The cave' already" in dialog.form.row("title").error.text()
    assert not dialog.save.isEnabled()
    line(dialog, "title").setText("My MinoTauro")
    assert dialog.save.isEnabled()


def test_a_preset_without_a_host_says_what_is_missing(dialog: SitesDialog) -> None:
    dialog.begin_preset("slurm")
    assert not dialog.save.isEnabled()
    assert "the site names none" in dialog.save.toolTip()
    line(dialog, "host").setText("login")
    assert dialog.save.isEnabled()


def test_the_name_of_a_new_site_is_checked(dialog: SitesDialog) -> None:
    dialog.begin_preset("slurm")
    line(dialog, "host").setText("login")
    for name, words in (("cave", "already"), ("Two Words", "cannot be called")):
        dialog.name.setText(name)
        assert words in dialog.name_error.text()
        assert not dialog.save.isEnabled()
    dialog.name.setText("labyrinth")
    dialog.save.click()
    assert "labyrinth" in dialog.names()


def test_what_was_typed_stays_while_another_site_is_looked_at(dialog: SitesDialog) -> None:
    dialog.choose("cave")
    line(dialog, "user").setText("theseus")
    dialog.choose(LOCAL)
    dialog.choose("cave")
    assert line(dialog, "user").text() == "theseus"
    assert dialog.unsaved() == ["cave"]


def test_leaving_unsaved_changes_is_asked_about_first(dialog: SitesDialog) -> None:
    dialog.choose("cave")
    line(dialog, "user").setText("theseus")
    dialog.reject()
    assert dialog.isVisible()
    question(dialog).reject()
    assert dialog.isVisible()
    dialog.reject()
    question(dialog).accept()
    assert not dialog.isVisible()


def test_a_site_is_forgotten_after_a_question(dialog: SitesDialog, store: SiteStore) -> None:
    dialog.choose("cave")
    dialog.remove()
    question(dialog).accept()
    assert "cave" not in dialog.names()
    assert not store.path("cave").exists()


def test_a_site_is_handed_on_as_a_file(dialog: SitesDialog, tmp_path: Path) -> None:
    dialog.choose("cave")
    dialog.export_file(tmp_path / "handed.toml")
    dialog.import_file(tmp_path / "handed.toml")
    assert dialog.draft().name == "handed"
    assert dialog.draft().site == msgspec.structs.replace(FULL, title="The cave (handed)"), "the cave is still there"
    (tmp_path / "bad.toml").write_text('password = "1234"\n')
    dialog.import_file(tmp_path / "bad.toml")
    assert "must not contain secrets" in dialog.message.whole()


def test_testing_keeps_the_site_first(dialog: SitesDialog, store: SiteStore, qtbot: QtBot) -> None:
    dialog.choose("cave")
    assert dialog.test.accessibleName() == "Test"
    line(dialog, "user").setText("theseus")
    assert dialog.test.accessibleName() == "Save and test"
    with qtbot.waitSignal(dialog.test_asked) as asked:
        dialog.test.click()
    assert asked.args == ["cave"]
    assert store.load("cave").user == "theseus"


def other(store: SiteStore, **fields: object) -> None:
    """Another window, or a command, saves the site meanwhile."""
    store.save("cave", msgspec.structs.replace(store.load("cave"), **fields), replace=True)


def test_what_another_program_saved_meanwhile_is_not_written_back(dialog: SitesDialog, store: SiteStore) -> None:
    dialog.choose("cave")
    line(dialog, "user").setText("theseus")
    other(store, modules=("python", "cuda/12.4"), venv="")
    dialog.save.click()
    site = store.load("cave")
    assert (site.user, site.modules, site.venv) == ("theseus", ("python", "cuda/12.4"), "")
    assert dialog.form.texts()["modules"] == "python, cuda/12.4"
    assert not dialog.draft().changed


def test_a_field_that_both_changed_is_said_before_it_is_written(dialog: SitesDialog, store: SiteStore) -> None:
    dialog.choose("cave")
    line(dialog, "user").setText("theseus")
    other(store, user="minos", title="The old cave")
    dialog.save.click()
    assert store.load("cave").user == "minos"
    assert "User" in dialog.message.whole()
    dialog.save.click()
    assert (store.load("cave").user, store.load("cave").title) == ("theseus", "The old cave")


def test_a_file_that_can_no_longer_be_read_is_not_written_over(dialog: SitesDialog, store: SiteStore) -> None:
    dialog.choose("cave")
    line(dialog, "user").setText("theseus")
    store.path("cave").write_text("host = 3\n")
    dialog.save.click()
    assert store.path("cave").read_text() == "host = 3\n"
    assert dialog.message.whole()
    store.path("cave").unlink()
    dialog.save.click()
    assert store.load("cave").user == "theseus", "one that was removed is written again"


# --- Consent ----------------------------------------------------------------------------------------------------------


def test_what_a_site_runs_of_its_own_is_shown_whole_and_agreed_to_once(parent: QWidget, tmp_path: Path) -> None:
    places = Places(tmp_path / "home", tmp_path / "private")
    words = missing_consents(FULL, places)
    assert words == (OwnWords("prologue", FULL.prologue),)
    dialog = consent_question(parent, Appearance(), "The cave", words)
    assert FULL.prologue in [box.toPlainText() for box in dialog.findChildren(QPlainTextEdit)]
    consents(places).give(words)
    assert missing_consents(FULL, places) == ()
    other = msgspec.structs.replace(FULL, prologue="true")
    assert missing_consents(other, places) == (OwnWords("prologue", "true"),), "another text is asked about again"


# --- The doctor -------------------------------------------------------------------------------------------------------

RIGHT = Step("Login node", "right", "login.example.org answers")
WRONG = Step("Python", "wrong", "3.6.8 found", "Load the module Python/3.11.3.")


class Patient:
    """Gives findings one by one, when a test lets it."""

    def __init__(self, *steps: Step) -> None:
        self.steps = steps
        self.go = threading.Semaphore(0)
        self.calls: list[bool] = []
        self.stop = threading.Event()

    def __call__(self, stop: threading.Event, node: bool) -> Iterator[Step]:
        self.calls.append(node)
        self.stop = stop
        for step in self.steps:
            self.go.acquire()
            yield step


@pytest.fixture
def patient() -> Iterator[Patient]:
    """Two findings; nobody is left waiting for a third."""
    made = Patient(RIGHT, WRONG)
    yield made
    made.go.release(9)


@pytest.fixture
def doctor(parent: QWidget, patient: Patient) -> DoctorDialog:
    """At work."""
    dialog = DoctorDialog(parent, Appearance(), "The cave", patient)
    dialog.show()
    return dialog


def read(dialog: QWidget) -> str:
    """All that stands in labels."""
    return "\n".join(one.text() for one in dialog.findChildren(QLabel))


def test_checks_that_were_not_made_for_one_reason_are_one_line(parent: QWidget, qtbot: QtBot) -> None:
    why = "Not tried, because the login failed."
    skipped = [Step(f"Check {number}", "open", why) for number in range(28)]
    patient = Patient(RIGHT, WRONG, *skipped, Step("Last", "open", "Not asked for."))
    patient.go.release(99)
    dialog = DoctorDialog(parent, Appearance(), "The cave", patient)
    dialog.show()
    qtbot.waitUntil(lambda: not dialog.busy)
    assert dialog.count.text() == "1 passed, 1 failed, 29 not checked"
    rows = dialog.findChildren(StepRow)
    assert [row.accessibleName().partition(":")[0] for row in rows] == ["Login node", "Python", "28 checks", "Last"]
    assert "Check 0, Check 1," in read(dialog)
    assert dialog.report().count(why) == 28, "the report has them all"


def test_each_finding_stands_there_as_it_comes_with_what_mends_it(
    doctor: DoctorDialog, patient: Patient, qtbot: QtBot
) -> None:
    assert doctor.count.text() == "Checking …"
    patient.go.release()
    qtbot.waitUntil(lambda: doctor.steps == [RIGHT])
    assert doctor.count.text() == "1 passed, still checking …"
    patient.go.release()
    qtbot.waitUntil(lambda: not doctor.busy)
    assert doctor.count.text() == "1 passed, 1 failed"
    assert "Load the module Python/3.11.3." in read(doctor)
    doctor.copy()
    assert QGuiApplication.clipboard().text().splitlines() == [
        "Checking The cave: 1 passed, 1 failed",
        "[+] Login node: login.example.org answers",
        "[x] Python: 3.6.8 found",
        "      Load the module Python/3.11.3.",
    ]


def test_it_can_be_stopped_and_begun_again_also_with_a_job_on_a_node(
    doctor: DoctorDialog, patient: Patient, qtbot: QtBot
) -> None:
    patient.go.release()
    qtbot.waitUntil(lambda: len(doctor.steps) == 1)
    with qtbot.waitSignal(doctor.ended):
        doctor.again.click()
    assert patient.stop.is_set(), "the doctor hears of it"
    patient.go.release(3)
    doctor.node.click()
    qtbot.waitUntil(lambda: not doctor.busy)
    assert patient.calls == [False, True]
    assert [step.title for step in doctor.steps] == ["Login node", "Python"]


@pytest.mark.parametrize(("node", "offered"), [(None, False), (False, True)])
def test_only_what_has_nodes_offers_to_check_one(
    parent: QWidget, qtbot: QtBot, node: bool | None, offered: bool
) -> None:
    dialog = DoctorDialog(parent, Appearance(), "The cave", lambda _stop, _node: iter([RIGHT]), node=node)
    qtbot.waitUntil(lambda: not dialog.busy)
    assert dialog.node.isVisibleTo(dialog) is offered


def test_an_error_that_nobody_expected_is_a_finding(parent: QWidget, qtbot: QtBot, expect_logs: LogBook) -> None:
    expect_logs("doctor The cave")

    def broken(_stop: threading.Event, _node: bool) -> Iterator[Step]:
        yield RIGHT
        raise ZeroDivisionError("oh")

    def never_begun(_stop: threading.Event, _node: bool) -> Iterator[Step]:
        raise ZeroDivisionError("oh")

    for examine, states in ((broken, ["right", "wrong"]), (never_begun, ["wrong"])):
        dialog = DoctorDialog(parent, Appearance(), "The cave", examine)
        qtbot.waitUntil(lambda d=dialog: not d.busy)  # type: ignore[misc]
        assert [step.state for step in dialog.steps] == states
        assert "ZeroDivisionError: oh" in dialog.report()
