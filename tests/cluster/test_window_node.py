"""A held node from the window: Jupyter behind its button, gone with the allocation; a login that needs its person."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psutil
import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from clew_gui.app import build_app
from clew_gui.jobs.job import JobStage, Place
from clew_gui.sites.site_file import read_site
from clew_gui.sites.store import site_store
from clew_gui.views.actions.site_actions import SiteActions
from clew_gui.views.sites.jobs import NodeRow
from clew_gui.views.theme.dialog import Dialog
from clew_gui.views.window.window_state import NoMemory, WindowState
from clew_shared.base.places import Places
from tests.cluster.journey import end_logins
from tests.cluster.mini import FOLDER, LIMIT_S, MiniCluster
from tests.cluster.test_window import answer
from tests.gui.program_end import end_program

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(600)]
RUN_S = 240.0
"""The agent is installed and the job begins, on a busy machine."""


class Student:
    """Answers what the window asks, each question once."""

    def __init__(self, qtbot: QtBot, places: Places, cluster: MiniCluster) -> None:
        self._qtbot, self._cluster = qtbot, cluster
        self.asked: list[Dialog] = []
        memory = NoMemory(WindowState(told_runs_go_on=True))
        self.program = build_app(places, memory=memory, theme="light", exercise="linear-regression")
        with qtbot.waitExposed(self.program.window):
            self.program.window.show()

    def until(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Let the window live, and answer, until something is so."""
        deadline = time.monotonic() + limit_s
        while not condition():
            told = [str(problem) for problem in self.program.window.messages.problems()]
            jobs = [(job.news, job.locked) for job in self.program.session.jobs.values()]
            assert time.monotonic() < deadline, f"{told}, {jobs}, asked {len(self.asked)}"
            dialog = self.program.asker.dialog
            if dialog is not None and dialog not in self.asked and dialog.isVisible():
                self.asked.append(dialog)
                answer(dialog, self._cluster)
            self._qtbot.wait(30)


@pytest.fixture
def student(cluster: MiniCluster, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Student]:
    """Sits at the laptop, with a site that wants a password and a code. No agent of this computer comes up."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr("clew_gui.targets.target.agent_command", lambda _places: ["sleep", "1000"])
    places = Places(tmp_path / "home", tmp_path / "private")
    site = read_site(FOLDER / "sites/minicluster-otp.toml")
    modules = (*site.modules, "jupyter")
    site_store(places).save("otp", msgspec.structs.replace(site, host="10.77.0.1", modules=modules))
    with cluster.network("laptop"):
        one = Student(qtbot, places, cluster)
        yield one
        end_program(one.program)
    end_logins(places)
    for sleeper in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # what held the login goes just now
            if sleeper.name() == "sleep":
                sleeper.kill()
                sleeper.wait(LIMIT_S)


def sites(student: Student) -> SiteActions:
    """What concerns sites in the window."""
    found = student.program.sites
    assert found is not None
    return found


def node(student: Student) -> NodeRow:
    """The line of the one node."""
    (row,) = sites(student).bar.rows.values()
    return row


def get(url: str) -> tuple[int, bytes]:
    """What the laptop's browser gets."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request("GET", url.removeprefix(f"http://{parts.netloc}"))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def led_to(page: str) -> str:
    """Where a page leads a browser."""
    found = re.search(r'href="([^"]+)"', Path(urlsplit(page).path).read_text())
    assert found is not None
    return unescape(found[1])


def test_jupyter_opens_with_its_token_and_a_lost_login_waits_for_its_person(
    student: Student, cluster: MiniCluster
) -> None:
    browsed: list[str] = []

    def browse(page: str) -> bool:
        browsed.append(page)
        return True

    sites(student).nodes.services.browse = browse
    session = student.program.session
    assert session is not None
    job = session.hold(Place(site="otp"))
    student.until(lambda: session.jobs[job].news.stage in (JobStage.RUNNING, JobStage.ENDED), RUN_S)
    assert session.jobs[job].news.stage is JobStage.RUNNING, session.jobs[job].news
    student.until(lambda: bool(sites(student).bar.rows) and node(student).buttons["jupyter"].isEnabled(), LIMIT_S)
    node(student).buttons["jupyter"].click()
    assert node(student).jupyter.text.text() == "Jupyter starts."
    student.until(lambda: bool(browsed), RUN_S)
    url, _, token = led_to(browsed[0]).partition("?token=")
    assert token
    assert get(f"{url}api/status?token={token}")[0] == 200
    assert get(f"{url}api/status")[0] == 403, "nobody gets in without the token"
    line = node(student).jupyter
    assert line.text.text() == "Jupyter is open."
    line.copy.click()
    assert QGuiApplication.clipboard().text() == f"{url}?token={token}"

    asked = len(student.asked)
    with cluster.broken("sshd-restart"):
        pass
    student.until(lambda: session.jobs[job].locked is not None, RUN_S)
    assert len(student.asked) == asked, "no question came out of nowhere"
    sites(student).bar.logins["otp"].log_in.click()
    student.until(lambda: len(student.asked) > asked, RUN_S)
    student.until(lambda: session.jobs[job].locked is None and not sites(student).bar.logins, RUN_S)
    assert len(student.asked) == asked + 1, "the code alone: the password is remembered"

    node(student).let_go.click()
    student.until(lambda: node(student).jupyter.text.text() == "Jupyter ended with the allocation.", RUN_S)
    with pytest.raises(OSError):
        get(f"{url}?token={token}")
    assert not Path(urlsplit(browsed[0]).path).exists()
    node(student).jupyter.close_it.click()
    student.until(lambda: sites(student).bar.isHidden(), LIMIT_S)
