"""What goes in circles ends in the GUI's thread, whatever other threads do meanwhile."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from clew_gui.app import collect_due, collect_here


@pytest.fixture
def collector(qtbot: QtBot) -> Iterator[None]:
    del qtbot  # an event loop
    gc.enable()
    parent = QObject()
    collect_here(parent)
    yield
    parent.deleteLater()


class Circle:
    """Two of them that hold each other."""

    def __init__(self) -> None:
        self.other: object = self


def make_circles(count: int) -> None:
    for _ in range(count):
        Circle()


@pytest.mark.usefixtures("collector")
def test_a_widget_in_a_circle_ends_in_the_guis_thread_and_only_there(qtbot: QtBot) -> None:
    ended: list[threading.Thread] = []
    widget = QWidget()
    circle = Circle()
    circle.other = (circle, widget)
    weakref.finalize(circle, lambda: ended.append(threading.current_thread()))
    del widget, circle
    busy = threading.Thread(target=make_circles, args=(20 * gc.get_threshold()[0],))
    busy.start()
    busy.join()
    assert ended == [], "another thread made enough for many collections"
    qtbot.waitUntil(lambda: bool(ended))
    assert ended == [threading.main_thread()]
    assert not gc.isenabled()


@pytest.mark.usefixtures("collector")
def test_no_more_is_collected_than_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    monkeypatch.setattr(gc, "collect", done.append)
    monkeypatch.setattr(gc, "get_threshold", lambda: (700, 10, 10))
    for counts in ((700, 11, 11), (701, 10, 11), (701, 11, 10), (701, 11, 11)):
        monkeypatch.setattr(gc, "get_count", lambda counts=counts: counts)
        collect_due()
        done.append(-1)
    assert done == [-1, 0, -1, 0, 1, -1, 0, 1, 2, -1]
