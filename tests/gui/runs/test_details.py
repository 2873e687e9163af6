"""Details of a run: they follow it, and say what its traced steps did."""

from __future__ import annotations

import pytest

from clew_gui.app import Program
from clew_gui.views.actions.controller import SLOW_TICKS
from clew_shared.journal.lifecycle import RunState
from tests.gui import fakes
from tests.gui.conftest import Opener
from tests.unit.runs import trace


def details_of(program: Program) -> dict[str, str]:
    found = program.window.bottom.details.table.model()
    return {found.index(row, 0).data(): found.index(row, 1).data() for row in range(found.rowCount())}


def test_the_details_follow_a_run(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add().begin(500, 1_764_000_000.0)
    program = open_window(session)
    program.window.bottom.show_details()
    assert details_of(program)["State"] == "Running"
    run.end(RunState.FINISHED, "")
    session.tell(states=frozenset((run.id,)))
    program.controller.bridge.tick()
    assert details_of(program)["State"] == "Finished"


def test_the_menu_traces_a_run_that_trains_and_the_details_say_it(open_window: Opener) -> None:
    session = fakes.FakeSession()
    run = session.add().begin(500, 1_764_000_000.0).train(100, 1.0, 1_764_000_001.0)
    program = open_window(session)
    action = program.window.actions_["trace"]
    assert action.isEnabled()
    action.trigger()
    assert session.asked[-1] == ("trace", run.id, 20)
    run.feed(trace())
    session.tell(points=frozenset((run.id,)))
    for _ in range(SLOW_TICKS):
        program.controller.bridge.tick()
    assert program.window.bottom.details.isVisible()
    said = details_of(program)
    assert said["Traced"].startswith("Steps 1 to 2, 2.00 ms each: compute 75 %")
    assert said["Most expensive operations"].startswith("MatMul: matrix product, 2 times")


@pytest.mark.parametrize("state", [RunState.FINISHED, RunState.FAILED])
def test_a_run_that_is_over_cannot_be_traced(open_window: Opener, state: RunState) -> None:
    session = fakes.FakeSession()
    session.add().begin(500, 1_764_000_000.0).end(state, "")
    program = open_window(session)
    assert not program.window.actions_["trace"].isEnabled()
