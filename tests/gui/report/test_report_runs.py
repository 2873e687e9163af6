"""Which runs are in the report: those that did best and those that are drawn; then they stay, until a person ticks."""

from __future__ import annotations

import pytest

from clew_gui.app import Program
from clew_gui.views.tabs.report import ReportTab
from clew_gui.views.window.window_state import NoMemory
from clew_shared.journal.lifecycle import RunState
from clew_shared.spec import RunSpec
from tests.gui.conftest import Opener
from tests.gui.fakes import FakeRun, FakeSession


def trained(session: FakeSession, accuracy: float) -> FakeRun:
    return session.add().begin(60).train(60).evaluate(accuracy).end()


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


def ticked(program: Program) -> set[str]:
    program.controller.curves_changed.emit()
    return set(program.tab(ReportTab).chosen())


def test_the_runs_that_come_nearest_to_the_goals_are_in_it_not_the_latest(
    open_window: Opener, session: FakeSession
) -> None:
    best, reached = trained(session, 0.915), trained(session, 0.91)
    for _ in range(5):
        trained(session, 0.3)
    program = open_window(session)
    program.controller.model.choices.selected = best.id
    program.tab(ReportTab).open()
    assert best.id in ticked(program)
    assert len(ticked(program)) <= 3
    assert reached.id not in ticked(program)


def test_runs_that_end_later_change_nothing_unless_they_reach_a_goal(open_window: Opener, session: FakeSession) -> None:
    trained(session, 0.5)
    program = open_window(session)
    program.tab(ReportTab).open()
    before = ticked(program)
    for accuracy in (0.6, 0.7, 0.8):
        trained(session, accuracy)
        assert ticked(program) == before
    good = trained(session, 0.95)
    assert ticked(program) == {*before, good.id}


def test_timing_runs_are_in_no_report_only_because_they_are_drawn(open_window: Opener, session: FakeSession) -> None:
    plain = trained(session, 0.91)
    for number in (1, 2, 4):
        run = trained(session, 0.4)
        name = f"{number} device{'s'[: number - 1]}"
        run.spec = RunSpec(exercise="softmax", run=run.id, study="scaling-1", name=name, devices=number, timed=True)
    program = open_window(session)
    program.controller.model.choices.shown.update(session.runs)
    program.tab(ReportTab).open()
    assert ticked(program) == {plain.id}


def test_what_a_person_ticked_stays_and_is_there_in_the_next_window(open_window: Opener, session: FakeSession) -> None:
    runs = [trained(session, value) for value in (0.5, 0.93, 0.6)]
    memory = NoMemory()
    program = open_window(session, memory=memory)
    program.tab(ReportTab).open()
    view = program.tab(ReportTab)
    assert runs[1].id in ticked(program)
    item = next(view.runs.item(row) for row in range(3) if view.runs.item(row).text().startswith("2"))
    item.setCheckState(item.checkState().Unchecked)
    chosen = ticked(program)
    assert runs[1].id not in chosen
    trained(session, 0.99)
    assert ticked(program) == chosen
    program.window.close()
    again = open_window(session, memory=memory).controller.model.choices
    assert again.report == chosen
    assert again.report_by_hand
    assert all(run.state is RunState.FINISHED for run in session.runs.values())
