"""The node's wall clock is set while a run trains. It is for display only: durations rest on another clock."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from clew_gui.session.links.inbox import LinkState
from clew_shared.journal.events import Points, State
from clew_shared.journal.files import Record, read_journal
from clew_shared.journal.lifecycle import RunState
from tests.integration.faults.lab import Lab
from tests.integration.faults.oracle import judge

HOUR = 3600


class NodeClock:
    """The wall clock of all processes that the test starts; the test's own stays right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0)

    def set(self, seconds: int) -> None:
        """So far from the true time."""
        partial = self._path.with_suffix(".new")
        partial.write_text(str(seconds))
        partial.replace(self._path)


@pytest.fixture
def node_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeClock:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "clock"), prepend=os.pathsep)
    monkeypatch.setenv("CLEW_TEST_CLOCK", str(tmp_path / "clock"))
    return NodeClock(tmp_path / "clock")


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "forward"])
def test_a_clock_that_is_set_by_an_hour_changes_nothing_but_what_it_shows(
    shift: int, node_clock: NodeClock, judged_lab: Lab
) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    for _ in lab.chance.rounds(1, 10):
        node_clock.set(0)
        run = viewer.start(steps=100_000, pause=0.02, checkpoint_every=70)
        lab.trained(run, lab.dice.randrange(1, 200))
        node_clock.set(shift)
        lab.trained(run, lab.steps(run) + 50)
        viewer.session.stop(run)
        lab.ended(run)
        history = judge(lab, run, RunState.STOPPED)
        assert viewer.session.link.state is LinkState.LIVE
        records = read_journal(lab.folder(run).journal(1))
        events = [item.event for item in records if isinstance(item, Record)]
        times = [event.time for event in events if event is not None and event.time]
        assert max(abs(later - earlier) for earlier, later in pairwise(times)) > HOUR / 2, "it was set"
        assert all(event.seconds < HOUR / 2 for event in events if isinstance(event, Points))
        clocks = [event.clock for event in events if isinstance(event, Points)]
        assert clocks == sorted(clocks)
        assert clocks[-1] < HOUR / 2
        assert [event.state for event in events if isinstance(event, State)][-1] is RunState.STOPPED
        assert history.column("loss").clock[-1] < HOUR / 2


@pytest.mark.parametrize("shift", [-HOUR, HOUR], ids=["back", "forward"])
def test_an_agent_that_starts_after_the_clock_was_set_adopts_what_trains(
    shift: int, node_clock: NodeClock, judged_lab: Lab
) -> None:
    lab = judged_lab
    viewer = lab.viewer()
    run = viewer.start(steps=100_000, pause=0.02)
    lab.trained(run, 20)
    node_clock.set(shift)
    assert lab.kill("supervisor", run)
    lab.wait(lambda: viewer.session.link.state is not LinkState.LIVE, "the cut")
    lab.wait(lambda: viewer.live, "a new agent")
    lab.trained(run, lab.steps(run) + 500)
    viewer.session.stop(run)
    lab.ended(run)
    judge(lab, run, RunState.STOPPED, "on request")
