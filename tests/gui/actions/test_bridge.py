"""The way from the link's thread to the screen: the first news after a quiet time wait for no timer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QTimer
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.session.intake import Changes
from clew_gui.views.actions.controller import AT_ONCE, Bridge
from clew_gui.views.charts.chart_view import REFRESH_MS
from tests.gui import fakes

NEVER_MS = 3_600_000


@pytest.fixture
def session() -> fakes.FakeSession:
    """A test calls its ``wake_up``."""
    return fakes.FakeSession()


@pytest.fixture
def bridge(qtbot: QtBot, session: fakes.FakeSession) -> Iterator[Bridge]:
    """A bridge whose timer never comes round."""
    result = Bridge(session)
    timer = result.findChild(QTimer, "bridge")
    assert isinstance(timer, QTimer)
    timer.setInterval(NEVER_MS)
    result.start()
    yield result
    result.stop()


def ring(session: fakes.FakeSession, **news: object) -> None:
    """As the link's thread does."""
    session.tell(**news)
    thread = threading.Thread(target=session.wake_up)
    thread.start()
    thread.join()


def test_the_first_news_are_taken_in_as_they_come_and_a_stream_by_the_timer(
    bridge: Bridge, session: fakes.FakeSession, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    with qtbot.waitSignal(bridge.news) as told:
        ring(session, points={"a"})
    assert told.args == [Changes(points={"a"})]
    monkeypatch.setattr("clew_gui.views.actions.controller.INTERVAL_MS", NEVER_MS)  # a busy machine takes its time
    bridge._since_news.start()
    ticks: list[None] = []
    bridge.news.connect(lambda _changes: ticks.append(None))
    for _ in range(AT_ONCE + 2):
        ring(session, points={"a"})
        QCoreApplication.processEvents()
    assert len(ticks) == AT_ONCE - 1, "the timer is about to come round"


def test_a_bridge_that_stopped_is_rung_no_more(bridge: Bridge, session: fakes.FakeSession) -> None:
    bridge.stop()
    ticks: list[None] = []
    bridge.news.connect(lambda _changes: ticks.append(None))
    ring(session)
    QCoreApplication.processEvents()
    assert ticks == []


def test_the_first_change_after_a_quiet_time_is_drawn_at_once_and_later_ones_together(softmax: Program) -> None:
    canvas = softmax.window.run_view.plots.canvas
    canvas._timer.stop()
    canvas._since.invalidate()
    canvas.touch()
    assert canvas._timer.interval() == 0
    canvas._timer.stop()
    canvas._since.start()
    canvas.touch()
    assert 0 < canvas._timer.interval() <= REFRESH_MS
