"""Goals are counted alike in the chip of the head and in the rows of the table."""

from __future__ import annotations

import msgspec
import pytest

from clew_gui.session.runs import RunModel
from clew_gui.views.lab.guide_page import GoalRow
from clew_gui.views.runs.results import Results
from clew_shared.cards import Goal, Requirement
from tests.gui import fakes
from tests.gui.conftest import Opener


@pytest.mark.parametrize(
    ("reached", "chip", "rows"),
    [
        ({}, "Goal 90.79 %", {1: "", 2: ""}),
        ({1: (0,)}, "1 of 2 goals reached", {1: "1 of 2 goals reached", 2: ""}),
        ({1: (0,), 2: (1,)}, "Both goals reached, in 2 runs", {1: "1 of 2 goals reached", 2: "1 of 2 goals reached"}),
        ({1: (0,), 2: (0, 1)}, "Both goals reached", {1: "1 of 2 goals reached", 2: "both goals reached"}),
    ],
)
def test_the_chip_says_when_no_single_run_has_reached_what_is_reached(
    reached: dict[int, tuple[int, ...]],
    chip: str,
    rows: dict[int, str],
    open_window: Opener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    busy = open_window(fakes.example_session())
    model = busy.controller.model
    goals = [goal.id for goal in model.card.goals]
    assert len(goals) == 2
    first = [run.id for run in model.runs()][:2]

    def has_reached(goal: Goal, run: RunModel) -> bool:
        place = first.index(run.id) + 1 if run.id in first else 0
        return goals.index(goal.id) in reached.get(place, ())

    monkeypatch.setattr(model.results, "reached", has_reached)
    busy.controller.panels.goals()
    busy.controller.panels.table()
    found = {row.id: row.text("state") for row in busy.window.bottom.model.rows()}
    assert busy.window.head.goal.accessibleName() == chip
    for place, said in rows.items():
        assert ("goals reached" in found[first[place - 1]]) == bool(said)
        assert said in found[first[place - 1]]


def test_of_a_history_that_was_begun_anew_nothing_read_before_counts() -> None:
    """As when a gap was filled: neither attempt nor step nor state has changed."""
    session = fakes.example_session()
    card = next(card for card in fakes.catalogue().exercises if card.id == "softmax")
    reached, missed = (
        next(run for run in session.runs.values() if run.spec.exercise == "softmax" and run.number == number)
        for number in (2, 4)
    )
    goal, metric = card.goals[0], next(metric for metric in card.metrics if metric.name == card.goals[0].metric)
    results = Results()
    run = fakes.FakeRun("one", 1, 0, missed.spec, history=missed.history)
    before = results.reached(goal, run), results.best(metric, run)
    run.history = reached.history
    run.history.fold.step = missed.history.fold.step
    run.history.fold.attempt = missed.history.fold.attempt
    assert (results.reached(goal, run), results.best(metric, run)) != before


def test_a_run_that_is_better_than_the_tolerance_allows_is_named() -> None:
    session = fakes.FakeSession()
    run = session.add("softmax").begin(100).train(100).evaluate(0.9763).end()
    goal = Goal(id="slides", text="95.97 %", metric="test_accuracy", op="near", value=0.9597, tolerance=0.005)
    results = Results()
    assert not results.reached(goal, run)
    assert results.why_not(goal, [run]) == "Run 1 is better than the tolerance allows."


def test_a_run_that_was_set_otherwise_than_the_goal_asks_is_named_in_the_guide_and_the_head(
    open_window: Opener,
) -> None:
    session = fakes.FakeSession()
    session.add("softmax", batch_size=32).begin(100).train(100).evaluate(0.95).end()
    asked = msgspec.structs.replace(fakes.GOAL, requires=(Requirement("batch_size", least=100),))
    known = fakes.catalogue()
    cards = [
        msgspec.structs.replace(card, goals=(asked,)) if card.id == "softmax" else card for card in known.exercises
    ]
    program = open_window(session, catalogue=msgspec.structs.replace(known, exercises=tuple(cards)))
    program.window.show_tab(0)
    program.controller.panels.goals()
    shown = [row.accessibleName() for row in program.window.guide.findChildren(GoalRow)]
    why = "Run 1 does not count: batch size is 32. The goal counts only with batch size at least 100."
    assert shown == [f"Goal: 90.79 %, not yet reached. {why}"]
    assert "90.79 %, with batch size at least 100" in program.window.head.goal.toolTip()


def test_before_any_run_the_guide_says_with_which_settings_a_goal_counts(open_window: Opener) -> None:
    asked = msgspec.structs.replace(fakes.GOAL, requires=(Requirement("batch_size", least=100),))
    known = msgspec.structs.replace(fakes.catalogue(), exercises=(fakes.card(goals=(asked,)),))
    program = open_window(catalogue=known)
    program.window.show_tab(0)
    rows = program.window.guide.findChildren(GoalRow)
    assert [row.toolTip() for row in rows] == ["As on the slides. Counts only with batch size at least 100."]
