"""The states of a run and how records fold into one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.base.problem import Problem
from clew_shared.journal.events import Attempt, Checkpoint, Evaluation, Event, Log, Points, Schema, Seal, State
from clew_shared.journal.lifecycle import TERMINAL, VANISHED, RunFold, RunState, fold, may_follow

S = RunState


def attempt(number: int = 1, start_step: int = 0, time: float = 100.0) -> Attempt:
    return Attempt(
        time=time,
        format=1,
        run="r",
        attempt=number,
        exercise="softmax",
        spec_sha256="",
        host="node17",
        steps=500,
        start_step=start_step,
    )


def state(name: RunState, time: float = 0.0, **more: object) -> State:
    return State(time=time, state=name, **more)  # type: ignore[arg-type]


def points(first: int, count: int) -> Points:
    return Points(schema=1, first=first, count=count, seconds=1, clock=1, values=())


# --- Which state may follow which -------------------------------------------------------------------------------------

FORWARDS = [S.DRAFT, S.SUBMITTED, S.QUEUED, S.STARTING, S.PREPARING, S.RUNNING]


def test_stages_go_forwards_and_may_be_skipped() -> None:
    for (i, earlier), (j, later) in product(enumerate(FORWARDS), repeat=2):
        assert may_follow(earlier, later) == (i < j), (earlier, later)


def test_only_a_running_run_pauses_goes_on_or_finishes() -> None:
    for earlier in RunState:
        running = earlier is S.RUNNING
        assert may_follow(earlier, S.PAUSED) == running, earlier
        assert may_follow(S.PAUSED, earlier) == (running or earlier in TERMINAL), earlier
        assert may_follow(earlier, S.FINISHED) == (running or earlier in {S.PAUSED, S.LOST}), earlier


def test_an_end_is_final_but_for_a_run_that_was_only_thought_lost() -> None:
    for earlier, later in product(RunState, repeat=2):
        if earlier in TERMINAL:
            assert may_follow(earlier, later) == (earlier is S.LOST and later in TERMINAL), (earlier, later)
        elif later in TERMINAL - {S.FINISHED}:
            assert may_follow(earlier, later), (earlier, later)


# --- Folding ----------------------------------------------------------------------------------------------------------


def test_a_schema_tells_the_steps_that_the_first_frame_could_not() -> None:
    seen = fold([(1, Attempt(format=1, run="r", attempt=1, exercise="own", spec_sha256=""))])
    assert seen.steps == 0
    seen.feed(1, Schema(id=1, metrics=(), steps=250))
    assert seen.steps == 250
    seen.feed(1, Schema(id=2, metrics=()))
    assert seen.steps == 250


def test_a_run_took_as_long_as_its_attempts_did_and_not_the_night_between_them() -> None:
    seen = fold([(1, attempt(time=100.0)), (1, state(S.RUNNING, 101.0)), (1, state(S.STOPPED, 130.0))])
    assert seen.seconds == 30.0
    seen.feed(2, state(S.QUEUED, 50_000.0))
    assert seen.seconds == 30.0
    seen.feed(2, attempt(2, start_step=40, time=60_000.0))
    seen.feed(2, state(S.RUNNING, 60_005.0))
    assert seen.seconds == 35.0
    seen.feed(2, state(S.FINISHED, 60_010.0))
    assert seen.seconds == 40.0


def test_an_attempt_that_was_found_dead_took_as_long_as_it_was_heard_of() -> None:
    seen = fold([(1, attempt(time=100.0)), (1, state(S.RUNNING, 120.0))])
    seen.feed(1, state(S.LOST, 90_000.0, problem=Problem(VANISHED, "Gone.", "")))
    assert seen.seconds == 20.0


def test_an_ordinary_run() -> None:
    steps: list[tuple[Event, RunState, int]] = [
        (attempt(), S.STARTING, 0),
        (state(S.PREPARING), S.PREPARING, 0),
        (state(S.RUNNING), S.RUNNING, 0),
        (points(0, 40), S.RUNNING, 40),
        (Evaluation(step=40, values={}), S.RUNNING, 40),
        (state(S.PAUSED), S.PAUSED, 40),
        (state(S.RUNNING), S.RUNNING, 40),
        (points(40, 460), S.RUNNING, 500),
        (Checkpoint(step=500, folder="", files=()), S.RUNNING, 500),
        (state(S.FINISHED, time=107.0, step=500), S.FINISHED, 500),
        (Seal(size=1, sha256="", writer="trainer"), S.FINISHED, 500),
    ]
    found = RunFold()
    assert (found.state, found.attempt, found.done) == (S.DRAFT, 0, False)
    for event, shown, step in steps:
        found.feed(1, event)
        assert (found.state, found.step) == (shown, step), event
    assert (found.run, found.exercise, found.host, found.steps) == ("r", "softmax", "node17", 500)
    assert (found.started, found.ended, found.sealed, found.done) == (100.0, 107.0, True, True)


def test_the_reason_is_that_of_the_latest_state_and_the_first_end_stays() -> None:
    found = RunFold()
    for event in (attempt(), state(S.RUNNING), points(0, 1), Log(text="hello"), None):
        found.feed(1, event)
    assert (found.state, found.reason) == (S.RUNNING, "")
    for reached, reason in ((S.PAUSED, ""), (S.PAUSED, "the disk is full"), (S.STOPPED, "on request")):
        found.feed(1, state(reached, reason=reason))
        assert (found.state, found.reason) == (reached, reason)
    found.feed(1, state(S.STOPPED, reason="another reason"))
    assert found.reason == "on request"


@pytest.mark.parametrize(("first", "second"), list(product(sorted(TERMINAL - {S.LOST}), sorted(TERMINAL))))
def test_the_first_terminal_state_wins_whoever_writes_another(first: RunState, second: RunState) -> None:
    told = Problem("a", "The first.")
    found = fold([(1, attempt()), (1, state(S.RUNNING)), (1, state(first, time=5.0, reason="first", problem=told))])
    found.feed(1, state(second, time=9.0, reason="second", exit_code=-9))
    found.feed(1, state(S.RUNNING))
    assert (found.state, found.reason, found.problem, found.ended) == (first, "first", told, 5.0)
    assert found.exit_code is None


@pytest.mark.parametrize("end", sorted(TERMINAL - {S.LOST}))
@pytest.mark.parametrize("verdict_first", [True, False])
def test_the_verdict_lost_gives_way_to_what_the_node_says_in_either_order(end: RunState, verdict_first: bool) -> None:
    verdict = [(1, state(S.LOST, time=50.0))]
    journal = [(1, attempt()), (1, state(S.RUNNING)), (1, state(end, time=20.0))]
    found = fold([*verdict, *journal] if verdict_first else [*journal, *verdict])
    assert (found.state, found.ended) == (end, 20.0)


def test_a_job_record_that_comes_late_takes_nothing_back() -> None:
    record = [(0, state(S.DRAFT)), (1, state(S.SUBMITTED)), (1, state(S.QUEUED))]
    journal = [(1, attempt()), (1, state(S.RUNNING))]
    assert fold([*journal, *record]).state is S.RUNNING
    assert fold([*record, *journal]).state is S.RUNNING
    assert fold(record).state is S.QUEUED


def test_a_later_attempt_begins_anew() -> None:
    found = fold(
        [(1, attempt()), (1, state(S.RUNNING)), (1, points(0, 90)), (1, state(S.FAILED, time=9.0, reason="x"))]
    )
    found.feed(2, state(S.QUEUED))
    assert (found.state, found.reason, found.ended, found.done) == (S.QUEUED, "", 0.0, False)
    found.feed(2, attempt(2, start_step=50, time=200.0))
    assert (found.state, found.step, found.started, found.first_started) == (S.STARTING, 50, 200.0, 100.0)


def test_a_process_on_a_cut_node_changes_nothing() -> None:
    found = fold([(1, attempt()), (1, state(S.RUNNING)), (2, attempt(2)), (2, state(S.RUNNING)), (2, points(0, 5))])
    for event in (state(S.FINISHED), points(5, 100), Seal(size=1, sha256="", writer="trainer")):
        found.feed(1, event)
    assert (found.state, found.step, found.sealed) == (S.RUNNING, 5, False)


EVENTS = st.one_of(
    st.sampled_from(list(RunState)).map(state),
    st.integers(0, 500).map(lambda first: points(first, 1)),
    st.just(Seal(size=1, sha256="", writer="guard")),
    st.none(),
)


@given(st.lists(st.tuples(st.integers(0, 3), EVENTS)))
def test_no_order_of_records_makes_it_stumble_or_revives_an_attempt(records: list[tuple[int, Event | None]]) -> None:
    found = RunFold()
    for number, event in records:
        before = (found.attempt, found.state)
        found.feed(number, event)
        assert found.attempt >= before[0]
        if found.attempt == before[0] and before[1] in TERMINAL - {S.LOST}:
            assert found.state is before[1]


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_attempt_whose_first_frame_is_damaged_has_started_all_the_same(attempt: int) -> None:
    found = RunFold()
    if attempt > 1:
        found.feed(1, State(state=RunState.FAILED))
    found.feed(attempt, State(state=RunState.QUEUED))
    found.feed(attempt, Points(schema=1, first=0, count=3, seconds=1.0, clock=1.0, values=(b"",)))
    assert (found.state, found.step) == (RunState.STARTING, 3)
