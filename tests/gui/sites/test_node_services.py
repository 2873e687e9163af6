"""Jupyter and TensorBoard in the window: what is said of them, the browser, and that nothing stays behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from clew_gui.jobs.job import Stage
from clew_gui.nodes import services as remote
from clew_gui.nodes.services import ServiceNews
from clew_gui.session.job_model import JobModel
from clew_gui.views.sites.services import NodeServices
from clew_gui.views.sites.site_bar import NodeRow
from clew_gui.views.theme.parts import Appearance
from clew_shared.base.problem import Problem
from tests.gui import fakes

BOTH = pytest.mark.parametrize(("kind", "title"), [("jupyter", "Jupyter"), ("tensorboard", "TensorBoard")])
URL = "http://127.0.0.1:4711/?token=secret"
REFUSED = Problem("service.missing", "Jupyter is not installed there.", "pip install --user jupyterlab")


class Opened:
    """What ``OpenedService`` is to the window: a thread that tells."""

    all: ClassVar[list[Opened]] = []

    def __init__(
        self, node: object, kind: str, is_over: Callable[[], bool], tell: Callable[[ServiceNews], None]
    ) -> None:
        self.kind, self.is_over, self._tell = kind, is_over, tell
        self.closed = threading.Event()
        Opened.all.append(self)

    def tell(self, news: ServiceNews) -> None:
        thread = threading.Thread(target=self._tell, args=(news,))
        thread.start()
        thread.join()

    def close(self) -> None:
        self.closed.set()


class Desk:
    """The services of a window, with a browser that the test looks into."""

    def __init__(self, services: NodeServices, qtbot: QtBot) -> None:
        self.services, self._qtbot = services, qtbot
        self.job: JobModel = fakes.FakeSession().add_job(None, Stage.RUNNING, nodes="node1")
        self.pages: list[str] = []
        self.has_browser = True
        self.problems: list[Problem] = []
        services.browse = self._browse
        services.failed.connect(self.problems.extend)

    def _browse(self, page: str) -> bool:
        assert threading.current_thread() is not threading.main_thread(), "a browser may take its time"
        self.pages.append(page)
        return self.has_browser

    def open(self, kind: str = "jupyter") -> Opened:
        self.services.open(self.job, object(), kind)  # type: ignore[arg-type]  # nobody looks at the node
        return Opened.all[-1]

    def says(self, text: str) -> None:
        self._qtbot.waitUntil(lambda: [told.text for told in self.services.told(self.job.id)] == [text], timeout=10_000)

    def shown(self, number: int) -> Path:
        """The page that the browser was led through the last time."""
        self._qtbot.waitUntil(lambda: len(self.pages) == number, timeout=10_000)
        return Path(urlsplit(self.pages[-1]).path)


@pytest.fixture
def desk(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(remote, "OpenedService", Opened)
    parent = QObject()
    one = Desk(NodeServices(parent, tmp_path / "private"), qtbot)
    yield one
    one.services.close_all()
    assert all(opened.closed.is_set() for opened in Opened.all)
    Opened.all.clear()
    assert list((tmp_path / "private").glob("open-*")) == []


@BOTH
def test_a_service_starts_opens_the_browser_once_and_again_when_it_is_wanted(
    desk: Desk, qtbot: QtBot, kind: str, title: str
) -> None:
    opened = desk.open(kind)
    assert opened.kind == kind
    desk.says(f"{title} starts.")
    opened.tell(ServiceNews(f"{kind} starts on node1."))
    desk.says(f"{title}: starts on node1")
    opened.tell(ServiceNews(f"{kind} is open.", URL))
    desk.says(f"{title} is open.")
    page = desk.shown(1)
    assert "token=secret" in page.read_text()
    opened.tell(ServiceNews("The agent on node1 does not answer."))
    desk.says(f"{title}: the agent on node1 does not answer")
    opened.tell(ServiceNews(f"{kind} is open.", URL))
    desk.says(f"{title} is open.")
    assert len(desk.pages) == 1, "the browser is not opened again by itself"
    assert desk.open(kind) is opened
    desk.shown(2)
    qtbot.waitUntil(lambda: not page.exists(), timeout=10_000)


def test_it_ends_with_the_allocation_and_can_be_started_anew(desk: Desk) -> None:
    first = desk.open()
    first.tell(ServiceNews("jupyter is open.", URL))
    page = desk.shown(1)
    first.tell(ServiceNews("The allocation has ended.", over=True))
    desk.says("Jupyter ended with the allocation.")
    assert desk.services.told(desk.job.id)[0].url == ""
    assert not page.exists()
    assert desk.open() is not first


def test_a_refusal_is_told_as_a_problem(desk: Desk) -> None:
    desk.open().tell(ServiceNews(REFUSED.text, over=True, problem=REFUSED))
    desk.says("Jupyter did not start.")
    assert desk.problems == [REFUSED]
    assert desk.pages == []


def test_without_a_browser_the_address_is_there_to_be_copied(desk: Desk) -> None:
    desk.has_browser = False
    desk.open().tell(ServiceNews("jupyter is open.", URL))
    desk.says("Jupyter is open; no browser was found.")
    assert desk.services.told(desk.job.id)[0].url == URL


def test_what_is_closed_tells_nothing_more_and_is_closed_elsewhere(desk: Desk, qtbot: QtBot) -> None:
    opened = desk.open()
    desk.services.close(desk.job.id, "jupyter")
    qtbot.waitUntil(opened.closed.is_set, timeout=10_000)
    opened.tell(ServiceNews("jupyter is open.", URL))
    qtbot.wait(50)
    assert desk.services.told(desk.job.id) == ()
    assert desk.pages == []


def test_both_are_open_beside_each_other_and_one_is_closed_alone(desk: Desk, qtbot: QtBot) -> None:
    jupyter, tensorboard = desk.open("jupyter"), desk.open("tensorboard")
    tensorboard.tell(ServiceNews("tensorboard is open.", URL))
    desk.shown(1)
    assert [told.text for told in desk.services.told(desk.job.id)] == ["Jupyter starts.", "TensorBoard is open."]
    desk.services.close(desk.job.id, "jupyter")
    qtbot.waitUntil(jupyter.closed.is_set, timeout=10_000)
    desk.says("TensorBoard is open.")
    assert not tensorboard.closed.is_set()


@BOTH
def test_the_line_of_a_node_shows_only_what_can_be_done(desk: Desk, qtbot: QtBot, kind: str, title: str) -> None:
    row = NodeRow(Appearance(), desk.job.id)
    qtbot.addWidget(row)
    opened = desk.open(kind)
    row.show_job(desk.job, desk.services.told(desk.job.id), 0.0)
    line = row.service(kind)
    assert line.text.text() == f"{title} starts."
    assert not line.copy.isVisibleTo(row)
    opened.tell(ServiceNews(f"{kind} is open.", URL))
    desk.says(f"{title} is open.")
    row.show_job(desk.job, desk.services.told(desk.job.id), 0.0)
    assert line.text.text() == f"{title} is open."
    assert line.copy.isVisibleTo(row)
    assert line.show_again.isVisibleTo(row)
    desk.shown(1)
