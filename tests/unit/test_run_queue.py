"""Who gets the next slot."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.run_queue import Entry, QueueRecord, RunQueue


def queue_of(*runs: str, slots: int = 1) -> RunQueue:
    queue = RunQueue(slots)
    for run in runs:
        queue.add(Entry(run, 1))
    return queue


def test_the_first_that_came_is_the_first_served() -> None:
    queue = queue_of("a", "b", "c")
    assert queue.next_to_start() == Entry("a", 1)
    assert queue.next_to_start() is None
    assert [queue.position(run) for run in "abc"] == [0, 1, 2]
    assert queue.ended("a")
    assert queue.next_to_start() == Entry("b", 1)


def test_several_slots_serve_several_at_a_time() -> None:
    queue = queue_of("a", "b", "c", slots=2)
    assert [queue.next_to_start() for _ in range(3)] == [Entry("a", 1), Entry("b", 1), None]


def test_a_run_waits_once_and_can_be_taken_out() -> None:
    queue = queue_of("a", "a", "b")
    assert len(queue) == 2
    assert queue.cancel("a")
    assert not queue.cancel("a")
    assert not queue.ended("a")
    assert queue.next_to_start() == Entry("b", 1)


def test_a_continuation_waits_for_the_end_of_its_own_run_and_lets_others_pass() -> None:
    queue = queue_of("a", "b", slots=2)
    assert queue.next_to_start() == Entry("a", 1)
    queue.cancel("b")
    queue.add(Entry("a", 2))
    queue.add(Entry("c", 1))
    assert queue.next_to_start() == Entry("c", 1)
    queue.ended("a")
    assert queue.next_to_start() == Entry("a", 2)


def test_a_successor_goes_on_from_the_record() -> None:
    queue = queue_of("a", "b", "c")
    queue.next_to_start()
    data = msgspec.json.encode(queue.record)
    again = RunQueue(1, msgspec.json.decode(data, type=QueueRecord))
    assert (again.running(), again.position("b"), again.position("c")) == (("a",), 1, 2)
    assert "a" in again
    assert "d" not in again


@given(st.lists(st.tuples(st.sampled_from("aecn"), st.sampled_from("xyz")), max_size=60), st.integers(1, 3))
def test_no_run_has_two_slots_and_no_more_slots_are_given_than_there_are(
    steps: list[tuple[str, str]], slots: int
) -> None:
    queue, running = RunQueue(slots), set[str]()
    for what, run in steps:
        if what == "a":
            queue.add(Entry(run, 1))
        elif what == "e":
            assert queue.ended(run) is (run in running)
            running.discard(run)
        elif what == "c":
            queue.cancel(run)
        elif (entry := queue.next_to_start()) is not None:
            assert entry.run not in running
            running.add(entry.run)
        assert set(queue.running()) == running
        assert len(running) <= slots
