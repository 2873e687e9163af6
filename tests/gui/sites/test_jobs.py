"""The list of jobs behind the badge and in the menu, and the way to log out."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from clew_gui.jobs.job import JobStage
from clew_gui.schedulers.state import Phase
from clew_gui.sites.logins import LoggedOut
from clew_gui.views.sites.jobs import JobsDialog
from clew_gui.views.window.window import MainWindow
from clew_shared.base.places import Places
from tests.gui import fakes
from tests.gui.conftest import Opener


def words(dialog: JobsDialog) -> str:
    return "\n".join(one.text() for one in dialog.findChildren(QLabel))


def open_list(open_window: Opener, qtbot: QtBot, session: fakes.FakeSession) -> JobsDialog:
    """Click the badge."""
    program = open_window(session)
    program.controller.select(next(iter(session.runs)))
    program.window.top.site.click()
    return next(one for one in program.window.findChildren(JobsDialog) if one.isVisible())


def test_the_badge_of_a_site_lists_the_jobs_with_node_and_time_and_cancels_them(
    open_window: Opener, qtbot: QtBot
) -> None:
    session = fakes.FakeSession()
    over = session.add_job(None, JobStage.ENDED, phase=Phase.TIMED_OUT, id="6")
    run = session.add()
    job = session.add_job(run, JobStage.RUNNING, nodes="node1", until=4e9, id="7")
    job.runs.append(run.id)
    dialog = open_list(open_window, qtbot, session)
    text = words(dialog)
    assert "Job 2 on The Cave: running" in text
    assert "Run 1, node1, ends in" in text
    assert "Job 1 on The Cave: time was up" in text
    assert dialog.rows[over.id].end.isHidden()
    dialog.rows[job.id].end.click()
    assert ("cancel", job.id) in session.asked


def test_the_list_says_how_long_a_login_stays_and_logging_out_ends_it(
    open_window: Opener, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    here = "clew_gui.views.actions.node_actions"
    monkeypatch.setattr(f"{here}.stays_s", lambda _places: 1800)

    def log_out(_places: Places) -> LoggedOut:
        ended.set()
        return LoggedOut([], [], [])

    monkeypatch.setattr(f"{here}.log_out", log_out)
    session = fakes.FakeSession()
    run = session.add()
    session.add_job(run, JobStage.RUNNING)
    dialog = open_list(open_window, qtbot, session)
    said = "A login that asks you something stays for 30 min after its last use."
    qtbot.waitUntil(lambda: dialog.login.text() == said)
    dialog.log_out.click()
    qtbot.waitUntil(ended.is_set)
    window = dialog.parentWidget()
    assert isinstance(window, MainWindow)
    qtbot.waitUntil(lambda: "You were not logged in to any site." in window.messages.accessibleName())
