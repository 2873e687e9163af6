"""Jupyter and TensorBoard in the window: what is shown of them, the browser, and that nothing stays behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from clew_gui.jobs.job import JobStage
from clew_gui.nodes.services import ServiceNews
from clew_gui.reports import tensorboard
from clew_gui.session.job_links import JobModel
from clew_gui.views.sites import services as shown
from clew_gui.views.sites.services import LocalTensorBoard, NodeServices
from clew_shared.base.places import Places
from clew_shared.base.problem import Problem, ProblemError
from tests.gui import fakes

URL = "http://127.0.0.1:4711/?token=secret"
REFUSED = Problem("service.missing", "Jupyter is not installed there.", "pip install --user jupyterlab")


class Opened:
    """What ``OpenedService`` is to the window: a thread that tells."""

    all: ClassVar[list[Opened]] = []

    def __init__(self, node: object, is_over: Callable[[], bool], tell: Callable[[ServiceNews], None]) -> None:
        self.is_over, self._tell = is_over, tell
        self.closed = threading.Event()
        Opened.all.append(self)

    def tell(self, news: ServiceNews) -> None:
        thread = threading.Thread(target=self._tell, args=(news,))
        thread.start()
        thread.join()

    def close(self) -> None:
        self.closed.set()


class NodePanel:
    """The services of a window, with a browser that the test looks into."""

    def __init__(self, services: NodeServices, qtbot: QtBot) -> None:
        self.services, self._qtbot = services, qtbot
        self.job: JobModel = fakes.FakeSession().add_job(None, JobStage.RUNNING, nodes="node1")
        self.pages: list[str] = []
        self.has_browser = True
        self.problems: list[Problem] = []
        self.browser_goes_on = threading.Event()
        self.browser_goes_on.set()
        services.browse = self._browse
        services.failed.connect(self.problems.extend)

    def _browse(self, page: str) -> bool:
        assert threading.current_thread() is not threading.main_thread(), "a browser may take its time"
        self.pages.append(page)
        self.browser_goes_on.wait(10.0)
        return self.has_browser

    def open(self) -> Opened:
        self.services.open(self.job, object())  # type: ignore[arg-type]  # nobody looks at the node
        return Opened.all[-1]

    def says(self, text: str) -> None:
        self._qtbot.waitUntil(lambda: [told.text for told in self.services.statuses().values()] == [text])

    def shown(self, number: int) -> Path:
        """The page that the browser was led through the last time."""
        self._qtbot.waitUntil(lambda: len(self.pages) == number)
        return Path(urlsplit(self.pages[-1]).path)


@pytest.fixture
def panel(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NodePanel]:
    monkeypatch.setattr(shown, "OpenedService", Opened)
    parent = QObject()
    one = NodePanel(NodeServices(parent, tmp_path / "private"), qtbot)
    yield one
    one.services.close_all()
    assert all(opened.closed.is_set() for opened in Opened.all)
    Opened.all.clear()
    assert list((tmp_path / "private").glob("open-*")) == []


def test_jupyter_starts_opens_the_browser_once_and_again_when_it_is_wanted(panel: NodePanel, qtbot: QtBot) -> None:
    opened = panel.open()
    panel.says("Jupyter starts.")
    opened.tell(ServiceNews("jupyter starts on node1."))
    panel.says("Jupyter: starts on node1")
    opened.tell(ServiceNews("jupyter is open.", URL))
    panel.says("Jupyter is open.")
    page = panel.shown(1)
    assert "token=secret" in page.read_text()
    opened.tell(ServiceNews("The agent on node1 does not answer."))
    panel.says("Jupyter: the agent on node1 does not answer")
    opened.tell(ServiceNews("jupyter is open.", URL))
    panel.says("Jupyter is open.")
    assert len(panel.pages) == 1, "the browser is not opened again by itself"
    assert panel.open() is opened
    panel.shown(2)
    qtbot.waitUntil(lambda: not page.exists())


def test_it_ends_with_the_allocation_and_can_be_started_anew(panel: NodePanel, qtbot: QtBot) -> None:
    first = panel.open()
    first.tell(ServiceNews("jupyter is open.", URL))
    page = panel.shown(1)
    first.tell(ServiceNews("The allocation has ended.", over=True))
    panel.says("Jupyter ended with the allocation.")
    assert panel.services.statuses()[panel.job.id].url == ""
    qtbot.waitUntil(lambda: not page.exists())
    assert panel.open() is not first


def test_a_page_that_a_slow_browser_takes_after_the_end_is_removed(panel: NodePanel, qtbot: QtBot) -> None:
    first = panel.open()
    panel.browser_goes_on.clear()
    first.tell(ServiceNews("jupyter is open.", URL))
    page = panel.shown(1)
    first.tell(ServiceNews("The allocation has ended.", over=True))
    panel.says("Jupyter ended with the allocation.")
    assert page.exists()
    panel.browser_goes_on.set()
    qtbot.waitUntil(lambda: not page.exists())


def test_a_refusal_is_told_as_a_problem(panel: NodePanel) -> None:
    panel.open().tell(ServiceNews(REFUSED.text, over=True, problem=REFUSED))
    panel.says("Jupyter did not start.")
    assert panel.problems == [REFUSED]
    assert panel.pages == []


def test_without_a_browser_the_address_is_there_to_be_copied(panel: NodePanel) -> None:
    panel.has_browser = False
    panel.open().tell(ServiceNews("jupyter is open.", URL))
    panel.says("Jupyter is open; no browser was found.")
    assert panel.services.statuses()[panel.job.id].url == URL


def test_what_is_closed_tells_nothing_more_and_is_closed_elsewhere(panel: NodePanel, qtbot: QtBot) -> None:
    opened = panel.open()
    panel.services.close(panel.job.id)
    qtbot.waitUntil(opened.closed.is_set)
    opened.tell(ServiceNews("jupyter is open.", URL))
    qtbot.wait(50)
    assert panel.services.statuses() == {}
    assert panel.pages == []


# --- TensorBoard here -------------------------------------------------------------------------------------------------


class Board:
    """TensorBoard of a window, as a program that prints an address, with a browser that the test looks into."""

    def __init__(self, folder: Path, qtbot: QtBot, program: str) -> None:
        self.parent, self._qtbot = QObject(), qtbot
        self.shown = LocalTensorBoard(self.parent, Places(home=folder, private=folder / "private"))
        self.shown.command = [sys.executable, "-c", program]
        self.pages: list[str] = []
        self.problems: list[Problem] = []
        self.shown.browse = self._browse
        self.shown.failed.connect(self.problems.extend)

    def _browse(self, page: str) -> bool:
        self.pages.append(Path(url2pathname(urlsplit(page).path)).read_text())
        return True


@pytest.fixture
def board(tmp_path: Path, qtbot: QtBot) -> Iterator[Callable[[str], Board]]:
    made: list[Board] = []

    def make(program: str) -> Board:
        made.append(Board(tmp_path, qtbot, program))
        return made[-1]

    yield make
    for one in made:
        one.shown.close()
    assert list((tmp_path / "private").glob("open-*")) == []


def test_tensorboard_is_one_program_and_its_page_is_shown_each_time(
    board: Callable[[str], Board], qtbot: QtBot
) -> None:
    one = board("import os, time; print(f'http://127.0.0.1:4711/?token={os.getpid()}', flush=True); time.sleep(300)")
    one.shown.open()
    qtbot.waitUntil(lambda: len(one.pages) == 1)
    one.shown.open()
    qtbot.waitUntil(lambda: len(one.pages) == 2)
    assert one.pages[0] == one.pages[1]
    assert "token=" in one.pages[0]
    one.shown.close()  # the guards see that the program has ended
    one.shown.open()
    qtbot.waitUntil(lambda: len(one.pages) == 3)
    assert one.pages[2] != one.pages[0]


def test_a_tensorboard_that_does_not_start_is_a_problem(board: Callable[[str], Board], qtbot: QtBot) -> None:
    one = board("raise SystemExit(2)")
    one.shown.open()
    qtbot.waitUntil(lambda: bool(one.problems))
    assert one.problems[0].code == "tensorboard.start"
    assert "clew open tensorboard" in one.problems[0].hint


def test_without_the_package_it_is_said_what_to_install(
    board: Callable[[str], Board], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorboard, "find_spec", lambda _name: None)
    with pytest.raises(ProblemError, match="not installed") as caught:
        board("").shown.open()
    assert "pip install tensorboard" in caught.value.problems[0].hint
