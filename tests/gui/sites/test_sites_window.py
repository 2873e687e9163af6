"""Runs on a site from the window: a real session, real agents, a site whose queue is the test's; and what is shown."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QDialog, QLabel, QMenu
from pytestqt.qtbot import QtBot

from clew_gui.app import Program, build_app
from clew_gui.base.settings import LocalSettings, local_settings
from clew_gui.jobs.job import JobStage, JobStatus, Place
from clew_gui.jobs.job_book import JobBook, job_book
from clew_gui.nodes.services import ServiceNews
from clew_gui.schedulers.allocation import FIELDS, AllocationRequest
from clew_gui.schedulers.state import Phase
from clew_gui.session.session import Session
from clew_gui.sites.site import Site
from clew_gui.sites.store import site_store
from clew_gui.targets.target import LocalTarget
from clew_gui.views.sites import services as shown
from clew_gui.views.sites.jobs import NodeRow
from clew_gui.views.sites.prompts import ScriptDialog
from clew_gui.views.sites.sites_dialog import SitesDialog
from clew_gui.views.tabs.speedup import SpeedupTab
from clew_gui.views.theme.dialog import Question
from clew_gui.views.theme.parts import Button
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places, find_places
from clew_shared.base.problem import Problem, problem
from clew_shared.catalogue import load_builtin
from clew_shared.spec import RunSpec
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.gui.program_end import end_program
from tests.gui.sites.test_node_services import URL, Opened
from tests.integration.agents import BOUND_S, STAND_IN, end_all
from tests.integration.fake_site import FakeManager, FakeSite
from tests.integration.local_line import local_line
from tests.integration.stand_in_agent import CATALOGUE
from tests.offspring import Offspring

CAVE = Site(
    title="The Cave",
    host="login.invalid",
    scheduler="slurm",
    prologue="module load python",
    allocation=AllocationRequest(time="01:00:00", gpus=1),
)


class Student:
    """The real window with a real session whose site is the test's."""

    def __init__(self, qtbot: QtBot, places: Places) -> None:
        self._qtbot, self._places = qtbot, places
        self.sites: list[FakeSite] = []
        manager = FakeManager(job_book(places), self._make, lambda _name: CAVE.title)
        session = Session(places, CATALOGUE, LocalTarget(places, STAND_IN), manager)
        session.start()
        memory = NoMemory(WindowState(told_runs_go_on=True))
        self.program: Program = build_app(
            places, catalogue=CATALOGUE, session=session, manager=manager, memory=memory, theme="light"
        )
        self.window = self.program.window
        with qtbot.waitExposed(self.window):
            self.window.show()

    def _make(self, name: str, book: JobBook, tell: Callable[[JobStatus], None]) -> FakeSite:
        self.sites.append(FakeSite(self._places.home / name, book, tell))
        return self.sites[-1]

    @property
    def site(self) -> FakeSite:
        return self.sites[0]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + BOUND_S
        while not condition():
            told = [str(problem) for problem in self.window.messages.problems()]
            assert time.monotonic() < deadline, f"{what} did not happen; {told}, {self.window.top.fact('link')}"
            self._qtbot.wait(20)

    def send(self) -> str:
        """Start a run on the site, and agree to what that runs of its own; returns the job."""
        self.window.next_run.where.choose("site:cave")
        self.window.next_run.run.click()
        self.dialog(Question).accept()
        self.says("Submitting")
        return self.job()

    def hold(self) -> tuple[str, NodeRow]:
        """Hold a node that is not there yet; returns the job and its line."""
        job, bar = self.program.session.hold(Place(site="cave")), self.program.sites.bar
        self.until(lambda: len(bar.rows) == 1, "the strip")
        return job, bar.rows[job]

    def says(self, word: str) -> None:
        """Wait until the run's card shows this state."""
        self.until(lambda: self.window.run_view.card.pill.accessibleName() == f"State: {word}", word)

    def dialog(self, kind: type[QDialog]) -> QDialog:
        """Wait for a dialog of this kind."""
        self.until(lambda: any(one.isVisible() for one in self.window.findChildren(kind)), kind.__name__)
        return next(one for one in self.window.findChildren(kind) if one.isVisible())

    def job(self) -> str:
        run = self.program.controller.model.run()
        assert run is not None
        assert run.job is not None
        return run.job.job


@pytest.fixture
def student(qtbot: QtBot, home: object) -> Iterator[Student]:
    """Sits before a window with one site."""
    places = find_places()
    agents = Offspring()
    site_store(places).save("cave", CAVE)
    one = Student(qtbot, places)
    yield one
    end_program(one.program)
    for site in one.sites:
        site.clear()
    agents.end()
    for folder in places.runs.glob("*"):
        end_all(folder.name)


def test_a_run_goes_to_the_site_waits_there_and_comes_back(student: Student) -> None:
    form, card = student.window.next_run, student.window.run_view.card
    form.where.choose("site:cave")
    assert form.run.text().strip() == "Run on The Cave"
    assert form.cost.whole() == "Asks for 1 node with 1 GPU, 1 hour"
    assert form.where.form is not None
    form.where.form.form.row("time").editor.set_value("02:00:00")
    form.form.row("steps").editor.set_value(500)
    form.run.click()
    consent = student.dialog(Question)
    assert student.sites == [], "nothing is sent before what the site runs of its own was agreed to"
    consent.accept()
    student.says("Submitting")
    job = student.job()
    order = student.site.book.order(job)
    assert (order.site, order.allocation) == ("cave", AllocationRequest(time="02:00:00", gpus=1))
    student.site.queue(job, "Waits in the queue: other jobs come first.")
    student.says("Queued")
    assert card.speed.whole() == "Waits in the queue: other jobs come first."
    assert card.cancel.isVisible()
    assert not card.stop.isVisible()
    assert "The Cave: waits in the queue" in student.window.top.fact("link")
    student.site.begin(job)
    student.says("Finished")
    run = student.program.controller.model.run()
    assert run is not None
    assert run.history.fold.step == 500
    assert not card.cancel.isVisible()


def test_a_waiting_job_is_cancelled_and_tried_here_meanwhile(student: Student) -> None:
    card, job = student.window.run_view.card, student.send()
    waiting = student.program.controller.model.run()
    assert waiting is not None
    student.site.queue(job)
    student.says("Queued")
    card.here.click()
    student.until(lambda: len(student.program.controller.model.runs()) == 2, "the small run")
    here = student.program.controller.model.run()
    assert here is not None
    assert here.job is None, "the run of this computer is in front"
    student.program.controller.select(waiting.id)
    student.says("Queued")
    card.cancel.click()
    student.says("Stopped")


def test_the_script_is_shown_as_it_would_be_sent(student: Student) -> None:
    form = student.window.next_run
    form.where.choose("site:cave")
    assert form.where.form is not None
    form.where.form.script.click()
    student.dialog(Question).accept()
    dialog = student.dialog(ScriptDialog)
    assert isinstance(dialog, ScriptDialog)
    student.until(lambda: dialog.text.toPlainText().startswith("#!/bin/bash\n# "), "the script")
    assert dialog.copy_button.isEnabled()
    dialog.accept()


def test_a_site_that_lacks_consent_is_not_used_when_the_person_says_no(student: Student) -> None:
    student.window.next_run.where.choose("site:cave")
    student.window.next_run.run.click()
    student.dialog(Question).reject()
    assert student.sites == []
    assert student.program.controller.model.runs() == []


def test_a_node_is_held_with_its_cost_in_sight_and_let_go(student: Student) -> None:
    form = student.window.next_run
    form.where.choose("site:cave")
    assert form.cost2.text() == "At most 1 node-hour. The job waits in the queue first."
    assert form.cost2.isVisible()
    student.window.actions_["hold"].trigger()
    dialog = student.dialog(Question)
    told = [one.text() for one in dialog.findChildren(QLabel) if one.isVisible()]
    assert "Costs up to 1 node-hour, whether something runs or not." in told
    dialog.accept()
    student.dialog(Question).accept()
    sites = student.program.sites
    student.until(lambda: len(sites.bar.rows) == 1, "the strip")
    (job,) = sites.bar.rows
    assert form.where.choice().job == job, "the next run goes there"
    student.site.news(
        job, JobStage.RUNNING, "Runs.", nodes="node1", starts=time.time() - 1800, until=time.time() + 1800
    )
    end_and_cost = "node1 of The Cave, ends in 30 min, 0.50 node-hours so far"
    student.until(lambda: sites.bar.rows[job].text.text() == end_and_cost, "its end and cost")
    assert sites.bar.rows[job].text.isVisible()
    assert form.run.text().strip() == "Run on node1"
    assert form.cost2.text() == "Its time counts whether you use it or not."
    sites.bar.rows[job].let_go.click()
    student.until(lambda: not sites.bar.isVisible(), "the strip's end")
    assert form.where.choice().key == "site:cave", "the next run waits in the site's queue again"


# --- With a session that answers at once ------------------------------------------------------------------------------


@pytest.fixture
def cave(places: Places) -> Places:
    """One site without words of its own."""
    site_store(places).save("cave", Site(title="The Cave", host="login.invalid", scheduler="slurm"))
    return places


def test_the_choice_is_remembered_and_what_was_asked_for(open_window: Opener, cave: Places) -> None:
    memory = NoMemory(WindowState(told_runs_go_on=True))
    program = open_window(memory=memory)
    where = program.window.next_run.where
    where.choose("site:cave")
    assert where.form is not None
    where.form.form.row("partition").editor.set_value("gpu")
    program.window.close()
    assert (memory.state.place, memory.state.asked) == ("site:cave", {"cave": {"partition": "gpu"}})
    again = open_window(memory=memory)
    assert again.window.next_run.run.isEnabled()
    assert again.window.next_run.place() == Place(site="cave", allocation=AllocationRequest(partition="gpu"))


def test_a_site_that_a_command_added_is_there_when_a_person_comes_back(open_window: Opener, cave: Places) -> None:
    program = open_window()
    where = program.window.next_run.where
    where.choose("site:cave")
    site_store(cave).save("tower", Site(title="The Tower", host="tower.invalid", scheduler="slurm"))
    assert where.combo.findData("site:tower") < 0
    program.app.applicationStateChanged.emit(Qt.ApplicationState.ApplicationActive)
    assert where.combo.findData("site:tower") > 0
    assert where.choice().key == "site:cave"


def test_all_that_a_scheduler_is_asked_for_can_be_changed_for_a_run(open_window: Opener, cave: Places) -> None:
    asked: dict[str, Any] = {
        "partition": "gpu",
        "account": "course",
        "reservation": "monday",
        "qos": "lab",
        "time": "02:00:00",
        "nodes": 2,
        "gpus": 4,
        "cpus": 16,
        "features": "k80",
    }
    program = open_window()
    where = program.window.next_run.where
    where.choose("site:cave")
    assert where.form is not None
    for name, value in asked.items():
        where.form.form.row(name).editor.set_value(value)
    assert program.window.next_run.place() == Place(site="cave", allocation=AllocationRequest(**asked))
    assert {field.name for field in FIELDS} == set(asked)


def test_hosts_of_the_ssh_configuration_are_offered(
    open_window: Opener, cave: Places, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("Host hpc cave lab*\n  HostName login.example.org\n")
    monkeypatch.setattr("clew_gui.views.actions.site_actions.user_config", lambda: config)
    dialog = open_window().sites.show_sites()
    menu = dialog.add_button.menu()
    assert menu is not None
    (hosts,) = (action.menu() for action in menu.actions() if action.text() == "From ~/.ssh/config")
    assert isinstance(hosts, QMenu)
    assert [action.text() for action in hosts.actions()] == ["hpc"], "cave is a site already, lab* is no host"
    hosts.actions()[0].trigger()
    assert dialog.draft().site == Site(host="hpc")
    login = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    (tmp_path / "mnsubmit").touch(0o755)
    there = local_line(tmp_path / "there", dialog.draft().site, **login)[0]
    monkeypatch.setattr("clew_gui.views.actions.site_actions.open_connection", lambda *_: there)
    dialog.form.find_button.click()
    qtbot.waitUntil(dialog.save.isEnabled)
    assert dialog.message.whole() == "Found mnsubmit (MinoTauro): jobs will go to its queue."
    dialog.save.click()
    dialog.reject()
    kept = site_store(cave).load("hpc")
    assert (kept.host, kept.scheduler) == ("hpc", "mnsubmit")


def test_a_site_that_cannot_be_looked_at_says_so_below_its_scheduler(
    open_window: Opener, cave: Places, qtbot: QtBot
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    sites = open_window().sites
    dialog = sites.show_sites()
    dialog.begin_blank("away", Site(host="127.0.0.1", port=port))
    dialog.form.find_button.click()
    field = dialog.form.row("scheduler")
    qtbot.waitUntil(lambda: "127.0.0.1" in field.error.text())
    assert dialog.form.find_button.isEnabled(), "one may try again"
    dialog.begin_blank("strange", Site(host="login", prologue="curl evil"))
    dialog.form.find_button.click()
    qtbot.waitUntil(lambda: any(one.isVisible() for one in dialog.findChildren(Question)))
    next(one for one in dialog.findChildren(Question) if one.isVisible()).reject()
    assert dialog.form.find_button.isEnabled()
    dialog._leaving = True
    dialog.reject()


def test_data_of_this_computer_go_along_and_data_of_the_site_stay_there(
    open_window: Opener, cave: Places, qtbot: QtBot, tmp_path: Path
) -> None:
    program = open_window()
    form = program.window.next_run
    form.where.choose("site:cave")
    mine = str(tmp_path / "my.npz")
    form.data_choice.use(mine)
    assert form.run.toolTip() == f"There is no file or folder {mine}."
    images, labels = np.zeros((60, 28, 28), np.uint8), np.zeros(60, np.uint8)
    np.savez(mine, x_train=images, y_train=labels, x_test=images, y_test=labels)
    form.data_choice.use(mine)
    qtbot.waitUntil(form.run.isEnabled)
    place = form.place()
    assert place is not None
    assert (place.data, form.spec().data) == (mine, mine)
    form.data_choice.use("site:/gpfs/mnist.npz")
    place = form.place()
    assert place is not None
    assert (place.data, form.spec().data) == ("", "site:/gpfs/mnist.npz")
    form.data_choice.remote_path.setText("mnist.npz")
    assert not form.run.isEnabled()
    assert "must begin with /" in form.run.toolTip()
    form.where.choose("")
    assert form.run.isEnabled(), "this computer has no such choice"
    assert (form.place(), form.spec().data) == (None, mine)


def test_a_folder_of_own_exercises_goes_along(open_window: Opener, cave: Places, qtbot: QtBot, tmp_path: Path) -> None:
    local_settings(cave).save(LocalSettings(exercises=str(tmp_path)))
    session = fakes.FakeSession()
    program = open_window(session)
    program.window.next_run.where.choose("site:cave")
    program.window.next_run.run.click()
    qtbot.waitUntil(lambda: bool(session.asked))
    assert session.asked[0][2] == Place(site="cave", exercises=str(tmp_path))


def test_a_wrong_wish_keeps_run_from_being_pressed_and_is_unfolded(open_window: Opener, cave: Places) -> None:
    program = open_window()
    form = program.window.next_run
    form.where.choose("site:cave")
    assert form.where.form is not None
    assert not form.where.form.fold.button.isChecked()
    form.where.form.form.row("time").editor.set_value("soon")
    assert form.where.form.fold.button.isChecked()
    assert not form.run.isEnabled()
    assert "cannot be read" in form.run.toolTip()


def test_sites_are_reached_from_the_list_of_places(open_window: Opener, cave: Places) -> None:
    program = open_window()
    where = program.window.next_run.where
    where.combo.setCurrentIndex(where.combo.count() - 1)
    where.combo.activated.emit(where.combo.currentIndex())
    (dialog,) = program.window.findChildren(SitesDialog)
    assert where.choice().key == ""
    dialog.reject()
    QApplication.processEvents()

    # So is the one that a message is about; the top bar shows the place of the next run and how it is there.
    where.choose("site:cave")
    assert program.window.top.site.accessibleName() == "The Cave, no job"
    program.window.messages.show_problems((Problem("ssh.auth", "The Cave refused your key.", "Choose another one."),))
    assert program.window.messages.line.help.accessibleName() == "Edit site…"
    program.window.messages.line.help.click()
    edited = next(found for found in program.window.findChildren(SitesDialog) if found.isVisible())
    assert edited.draft().name == "cave"
    edited.reject()
    where.choose("")
    assert program.window.top.site.accessibleName() == "This computer, ready"


def test_a_changed_host_key_is_told_once_for_a_job(open_window: Opener, cave: Places) -> None:
    session = fakes.FakeSession()
    program = open_window(session)
    found = Problem("ssh.hostkey.changed", "The server shows another key.", "Ask the site.", "cave")
    job = session.add_job(session.add(), JobStage.CONNECTING, problem=found)
    seen = 0
    for _ in range(2):
        session.tell(jobs=frozenset((job.id,)))
        program.controller.bridge.tick()
        if program.window.messages.line.isVisible():
            assert program.window.messages.line.text.text() == found.text
            program.window.messages.line.gone.click()
            seen += 1
    assert seen == 1


# --- What other programs send, and who has to log in ------------------------------------------------------------------


def test_a_run_and_a_hold_of_a_terminal_appear_in_the_open_window(student: Student) -> None:
    book = job_book(find_places())
    spec = RunSpec(exercise="stand-in", run=str(uuid.uuid4()), params={"steps": 500})
    order, hold = (
        Place(site="cave").order(spec),
        Place(site="cave", hold=True).order(),
    )
    book.note_order(order, "The Cave")
    student.until(lambda: bool(student.program.controller.model.runs()), "the run")
    student.site.queue(order.job, "Waits in the queue: other jobs come first.")
    student.says("Queued")
    assert student.site.unasked == [order.job], "nobody is asked to log in for it"
    student.site.begin(order.job)
    student.says("Finished")
    book.note_order(hold, "The Cave")
    sites = student.program.sites
    student.until(lambda: list(sites.bar.rows) == [hold.job], "the held node")
    book.refresh()
    book.note_news(JobStatus(job=hold.job, stage=JobStage.ENDED, id="8", text="You gave the allocation back."))
    student.until(lambda: not sites.bar.isVisible(), "its end")


def test_a_login_that_needs_a_person_is_told_and_done_with_a_click(student: Student) -> None:
    card, job = student.window.run_view.card, student.send()
    student.site.queue(job)
    student.says("Queued")
    assert not card.log_in.isVisible()
    sites = student.program.sites
    buttons: tuple[Callable[[], Button], ...] = (lambda: sites.bar.logins["cave"].log_in, lambda: card.log_in)
    for button in buttons:
        student.site.refusal = Problem("ssh.person", "login asks for a one-time code.", "Log in.")
        student.until(lambda: card.log_in.isVisible() and "cave" in sites.bar.logins, "the way to log in")
        assert card.speed.whole() == "The Cave asks you to log in again; a job goes on there."
        assert student.window.top.fact("link") == "The Cave: log in to follow"
        logins = student.site.logins
        button().click()
        assert student.site.logins == logins + 1
        student.until(lambda: not card.log_in.isVisible() and not sites.bar.logins, "the end of it")


def test_a_terminal_opens_on_the_held_node_or_its_command_is_there_to_be_copied(student: Student) -> None:
    sites, (job, row) = student.program.sites, student.hold()
    assert not row.buttons["terminal"].isEnabled(), "the node is not there yet"
    student.site.news(job, JobStage.RUNNING, "Runs.", nodes="node1")
    student.until(row.buttons["terminal"].isEnabled, "the node")
    started: list[Sequence[str]] = []
    sites.nodes.terminal = started.append
    row.buttons["terminal"].click()
    student.until(lambda: started == [["shell", "--site", "cave"]], "the terminal")

    def refuse(_words: Sequence[str]) -> None:
        raise problem("terminal.none", "No terminal program was found.")

    sites.nodes.terminal = refuse
    student.window.actions_["terminal"].trigger()
    student.until(row.command.isVisible, "the command")
    row.command.copy.click()
    assert QGuiApplication.clipboard().text() == "clew shell --site cave"
    row.command.close_it.click()
    assert not row.command.isVisible()
    student.site.end(job, Phase.COMPLETED)


def test_jupyter_opens_on_the_held_node_and_its_line_and_page_are_shown(
    student: Student, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Opened] = []
    monkeypatch.setattr(Opened, "all", started)
    monkeypatch.setattr(shown, "OpenedService", Opened)
    sites, (job, row) = student.program.sites, student.hold()
    pages: list[str] = []

    def browse(page: str) -> bool:
        pages.append(Path(urlsplit(page).path).read_text())
        return True

    sites.nodes.services.browse = browse
    assert not row.buttons["jupyter"].isEnabled(), "the node is not there yet"
    student.site.news(job, JobStage.RUNNING, "Runs.", nodes="node1")
    student.until(row.buttons["jupyter"].isEnabled, "the node")
    row.buttons["jupyter"].click()
    assert len(started) == 1
    student.until(lambda: row.jupyter.text.text() == "Jupyter starts.", "the service's line")
    assert not row.jupyter.show_again.isVisible()
    assert not row.jupyter.copy.isVisible()
    started[0].tell(ServiceNews("jupyter is open.", URL))
    student.until(lambda: row.jupyter.text.text() == "Jupyter is open.", "the address")
    assert row.jupyter.text.isVisible()
    assert row.jupyter.show_again.isVisible()
    assert row.jupyter.copy.isVisible()
    student.until(lambda: len(pages) == 1, "the browser")
    assert URL in pages[0]
    student.window.actions_["jupyter"].trigger()
    student.until(lambda: len(pages) == 2, "the browser once more")
    assert len(started) == 1, "it is shown again, not started again"
    row.jupyter.close_it.click()
    student.until(started[0].closed.is_set, "its end")
    student.site.end(job, Phase.COMPLETED)


def test_without_a_node_it_is_said_how_to_get_one(softmax: Program) -> None:
    softmax.window.actions_["jupyter"].trigger()
    assert "hold one" in softmax.window.messages.accessibleName()


def test_a_study_is_measured_where_the_form_says(open_window: Opener, cave: Places, qtbot: QtBot) -> None:
    """One job for all its runs, which asks for what the largest of them needs."""
    session = fakes.FakeSession()
    program = open_window(session, exercise="softmax", catalogue=load_builtin())
    program.tab(SpeedupTab).open()
    where, view = program.window.next_run.where, program.tab(SpeedupTab)
    where.choose("site:cave")
    assert where.form is not None
    where.form.form.row("gpus").editor.set_value(1)
    view.repeats.setText("1")
    assert view.measure.isEnabled()
    view.measure.click()
    qtbot.waitUntil(lambda: bool(session.asked))
    asked, specs, place = session.asked[0]
    assert (asked, place) == ("start_runs", Place(site="cave", allocation=AllocationRequest(gpus=4)))
    assert [spec.devices for spec in specs] == [1, 2, 4]  # type: ignore[attr-defined]
    assert program.tab(SpeedupTab).in_sight()
    assert view.progress.whole() == "0 of 3 done"
    assert set(program.controller.model.shown()) == set(session.runs)
