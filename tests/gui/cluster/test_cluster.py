"""The Cluster tab: when it is there, what its buttons ask for, and that it moves with the run's journal."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from clew_gui.app import Program
from clew_gui.charts.cluster import Staleness, UpdateTimeline
from clew_gui.views.actions.dialogs import PythonDialog
from clew_gui.views.tabs.cluster import ClusterTab
from clew_shared.base.problem import problem
from clew_shared.journal.events import Event
from clew_shared.journal.lifecycle import RunState
from clew_shared.wire.messages import DisturbCluster
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession
from tests.simulated_cluster import SimulatedCluster


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster(workers=3)


@pytest.fixture
def run(session: FakeSession, cluster: SimulatedCluster) -> FakeRun:
    """An asynchronous run of softmax that trains for four seconds already."""
    found = session.add("softmax")
    found.spec = msgspec.structs.replace(found.spec, strategy="parameter-server", options={"workers": 3})
    found.begin()
    found.feed(*cluster.join(), *cluster.train(4, 20))
    return found


@pytest.fixture
def program(open_window: Opener, session: FakeSession, run: FakeRun) -> Program:
    found = open_window(session)
    assert run.state is RunState.RUNNING
    found.tab(ClusterTab).open()
    assert found.tab(ClusterTab).in_sight()
    return found


def tell(program: Program, run: FakeRun, *events: Event) -> ClusterTab:
    """The tab after the run wrote these."""
    run.feed(*events)
    program.tab(ClusterTab).refresh()
    return program.tab(ClusterTab)


def staleness(program: Program) -> Staleness:
    scene = program.tab(ClusterTab).scene
    assert scene is not None
    assert scene.staleness is not None
    return scene.staleness


def asked(session: FakeSession) -> list[DisturbCluster]:
    return [what[1] for what in session.asked if what[0] == "disturb"]  # type: ignore[misc]  # as the fake notes it


def test_the_tab_is_there_for_runs_with_parameter_servers_only(
    open_window: Opener, session: FakeSession, run: FakeRun
) -> None:
    other = session.add("cnn")
    program = open_window(session, exercise="cnn")
    window, tabs, tab = program.window, program.window.head.tabs, program.tab(ClusterTab)
    assert not tab.offered()
    window.actions_["cluster"].trigger()
    assert not tab.in_sight()
    program.controller.open_exercise("softmax")
    assert tab.offered()
    assert tabs.tabRect(tab.number).right() <= tabs.width()
    window.actions_["cluster"].trigger()
    assert tab.in_sight()
    assert window.bottom.pages.isHidden(), "the runs are folded to their head"
    program.controller.open_exercise("cnn")
    assert window.pages.currentIndex() == 1, f"run {other.number} has no parameter servers"


def test_a_process_is_shown_with_its_host_where_there_are_several(
    program: Program, session: FakeSession, run: FakeRun, cluster: SimulatedCluster
) -> None:
    assert [row.host.isVisible() for row in program.tab(ClusterTab).rows.values()] == [True] * 5
    alone = session.add("softmax")
    alone.spec = run.spec
    alone.begin()
    host = alone.history.fold.host
    alone.feed(*(msgspec.structs.replace(one, host=host) for one in cluster.join()))
    program.controller.select(alone.id)
    program.tab(ClusterTab).refresh()
    rows = program.tab(ClusterTab).rows.values()
    assert [row.host.text() for row in rows] == [host] * 5
    assert [row.host.isVisible() for row in rows] == [False] * 5


def test_buttons_ask_for_what_they_say(program: Program, session: FakeSession, run: FakeRun) -> None:
    view = program.tab(ClusterTab)
    view.rows["worker", 1].speed.button("5").click()
    view.rows["worker", 1].speed.button("1").click()
    view.rows["worker", 2].kill.click()
    view.rows["ps", 0].kill.click()
    view.add.click()
    assert asked(session) == [
        DisturbCluster(run=run.id, action="slow", index=1, factor=5.0),
        DisturbCluster(run=run.id, action="slow", index=1, factor=1.0),
        DisturbCluster(run=run.id, action="kill", index=2),
        DisturbCluster(run=run.id, action="kill", role="ps", index=0),
        DisturbCluster(run=run.id, action="add"),
    ]
    assert not view.rows["chief", 0].kill.isVisible()
    session.refusal = problem("cluster.gone", "Worker 0 has ended already.", "Wait.")
    view.rows["worker", 0].kill.click()
    assert program.window.messages.problems()[0].text == "Worker 0 has ended already."


def test_the_buttons_act_only_while_the_run_trains(program: Program, run: FakeRun, cluster: SimulatedCluster) -> None:
    view = tell(program, run, cluster.kill(2))
    killed, working = view.rows["worker", 2], view.rows["worker", 1]
    assert killed.kill.toolTip() == "Worker 2 does not work at the moment"
    assert working.kill.isEnabled()
    run.link_stale = True
    view = tell(program, run)
    assert view.add.toolTip() == f"The link to run {run.number} is silent"
    run.link_stale = False
    run.end()
    view = tell(program, run)
    assert not view.add.isEnabled()
    assert not working.kill.isEnabled()
    assert not working.speed.isEnabled()
    assert working.speed.button("5").toolTip() == f"Run {run.number} has ended"
    assert view.config.isEnabled(), "what was recorded can still be seen"


def test_a_slowed_and_a_killed_worker_are_seen(program: Program, run: FakeRun, cluster: SimulatedCluster) -> None:
    view = program.tab(ClusterTab)
    before = [bar.lately for bar in staleness(program).bars]
    view = tell(program, run, cluster.slow(1, 5.0), *cluster.train(6, 30), cluster.kill(2), *cluster.train(1, 5))
    assert view.rows["worker", 1].pill.accessibleName() == "State: Slowed ×5"
    assert view.rows["worker", 1].speed.current() == "5"
    assert view.rows["worker", 2].pill.accessibleName() == "State: Killed"
    moved = staleness(program)
    assert [bar.lately for bar in moved.bars][: len(before)] != before
    assert moved.bars[-1].high > 5
    assert [view.events.item(row).text().split("  ")[-1].strip() for row in range(2)] == [
        "worker 2 killed",
        "worker 1 slowed ×5",
    ]
    assert "worker 2 killed" in view.timeline.accessibleDescription()
    assert "updates old on average" in view.sentence.text()
    view = tell(program, run, cluster.replace(2), cluster.peer("worker", 3, "joined"), *cluster.train(1, 5))
    assert ("worker", 3) in view.rows
    assert view.rows["worker", 2].pill.accessibleName() == "State: Working"


def test_the_timeline_is_moved_by_keys_mouse_and_events(
    program: Program, run: FakeRun, cluster: SimulatedCluster, qtbot: QtBot
) -> None:
    view = tell(program, run, cluster.slow(1, 5.0), *cluster.train(20, 40))

    def timeline() -> UpdateTimeline:
        assert view.scene is not None
        return view.scene.timeline

    assert timeline().x.low > 4
    view.events.itemClicked.emit(view.events.item(0))
    assert [event.text for event in timeline().events] == ["worker 1 slowed ×5"]
    assert view.seen.current() == "part", "it follows the run no longer"
    low = timeline().x.low
    QTest.keyClick(view.timeline, Qt.Key.Key_Right)
    assert timeline().x.low > low
    QTest.keyClick(view.timeline, Qt.Key.Key_Home)
    assert timeline().x.size > 20
    assert view.seen.current() == "all"
    view.seen.button("part").click()
    assert 20 > timeline().x.size > 10
    view.seen.button("latest").click()
    assert timeline().x.low > 4
    area = view.timeline.rect()
    QTest.keyClick(view.timeline, Qt.Key.Key_PageUp)
    qtbot.waitUntil(lambda: view.seen.current() == "part")
    chart, stale = view.timeline.chart, view.staleness.chart
    assert chart is not None
    assert stale is not None
    said = {chart.read(x, y) for x in range(0, area.width(), 5) for y in range(0, area.height(), 9)}
    assert any(text.startswith("Worker 1: ") and " ms, applied at " in text for text in said)
    heights = range(0, view.staleness.height(), 7)
    bars = {stale.read(x, y) for x in range(0, view.staleness.width(), 5) for y in heights}
    assert any(text.startswith("Staleness 2: ") for text in bars)


def test_the_cluster_can_be_read_and_exported(program: Program, run: FakeRun, tmp_path: Path) -> None:
    view = program.tab(ClusterTab)
    view.config.click()
    (dialog,) = program.window.findChildren(PythonDialog)
    assert "tf.train.ClusterSpec({" in dialog.text.shown
    files = {kind: tmp_path / f"cluster.{kind}" for kind in ("png", "svg", "csv")}
    for kind, path in files.items():
        program.tab(ClusterTab).export(kind, path)
    assert not QImage(str(files["png"])).isNull()
    assert "asynchronous: 1 coordinator, 1 server, 3 workers" in files["svg"].read_text()
    lines = files["csv"].read_text().splitlines()
    assert lines[0] == "run,step,worker,ended,seconds,staleness,accepted"
    assert len(lines) == 1 + run.history.updates.counts.applied
    for kind in files:
        program.tab(ClusterTab).export(kind, tmp_path / "none" / "file")
        assert "could not be written" in program.window.messages.problems()[0].text
