"""The page of traced steps: it is there as soon as the selected run has some, and the menu asks for them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from clew_gui.app import Program
from clew_gui.plotting.axes.ticks import Span
from clew_gui.views.plots.trace import TraceView
from clew_shared.journal.events import Trace
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.unit.runs import trace


class Window(NamedTuple):
    """A window with one run."""

    program: Program
    session: fakes.FakeSession
    run: fakes.FakeRun

    def feed(self, event: Trace) -> None:
        """The run records this, and the window hears of it."""
        self.run.feed(event)
        self.session.tell(points=frozenset((self.run.id,)))
        self.program.controller.bridge.tick()


def opened(open_window: Opener, *events: Trace, state: RunState | None = None) -> Window:
    session = fakes.FakeSession()
    run = session.add()
    run.begin(500, 1_764_000_000.0)
    run.train(100, 1.0, 1_764_000_001.0)
    for event in events:
        run.feed(event)
    if state is not None:
        run.end(state, "")
    program = open_window(session)
    program.window.show_tab(1)
    return Window(program, session, run)


def page(found: Window) -> TraceView:
    return found.program.window.run_view.plots.trace


def shown(found: TraceView) -> Span | None:
    return found.view


def test_the_page_is_offered_only_where_steps_were_traced(open_window: Opener) -> None:
    window = opened(open_window)
    controls = window.program.window.run_view.controls
    assert not controls.pages.isVisible()
    window.feed(trace())
    assert controls.pages.isVisible()
    controls.pages.button("trace").click()
    assert page(window).isVisible()
    assert page(window).accessibleDescription().startswith("Steps 1 to 2, 2.00 ms each")
    assert not controls.units.isVisible()
    controls.pages.button("curves").click()
    assert not page(window).isVisible()


def test_the_menu_traces_a_run_that_trains(open_window: Opener) -> None:
    window = opened(open_window)
    action = window.program.window.actions_["trace"]
    assert action.isEnabled()
    action.trigger()
    assert window.session.asked[-1] == ("trace", window.run.id, 20)
    assert not page(window).isVisible()
    window.feed(trace())
    assert page(window).isVisible(), "who asked for it sees it"


def test_a_run_that_is_over_cannot_be_traced(open_window: Opener) -> None:
    assert not opened(open_window, state=RunState.FINISHED).program.window.actions_["trace"].isEnabled()


def test_the_timeline_can_be_zoomed_and_shown_whole_again(open_window: Opener) -> None:
    window = opened(open_window, trace())
    window.program.window.run_view.controls.pages.button("trace").click()
    found = page(window)
    chart = found.chart()
    assert chart is not None
    at = QPointF(chart.frame.column(0.001), chart.frame.box.y + 5)
    nothing = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False
    QApplication.sendEvent(found, QWheelEvent(at, at, QPoint(), QPoint(0, 360), *nothing))
    assert found.view is not None
    assert found.view.low < 0.001 < found.view.high
    assert found.view.size == pytest.approx(0.004 * 0.7**3)
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Minus, Qt.Key.Key_Plus, Qt.Key.Key_Left):
        QTest.keyClick(found, key)
    assert shown(found) is not None
    QTest.keyClick(found, Qt.Key.Key_Home)
    assert shown(found) is None


def test_another_trace_is_shown_whole(open_window: Opener) -> None:
    window = opened(open_window, trace())
    window.program.window.run_view.controls.pages.button("trace").click()
    found = page(window)
    found.zoom(0.1)
    assert found.view is not None
    window.feed(msgspec.structs.replace(trace(), step=40))
    found._advance()
    assert shown(found) is None
    assert found.accessibleDescription().startswith("Steps 41 to 42")
