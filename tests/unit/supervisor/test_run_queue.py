"""Who gets devices, and when: order, places, records."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.node.devices import Devices, Gpu
from clew_agent.supervisor.run_queue import QueueEntry, QueueRecord, RunQueue
from clew_shared.spec import RunSpec


def gpus(count: int) -> Devices:
    return Devices(tuple(Gpu(str(number), f"GPU ({number})") for number in range(count)))


def queue_of(*runs: str, slots: int = 1) -> RunQueue:
    queue = RunQueue(Devices(places=slots))
    for run in runs:
        queue.add(QueueEntry(run, 1))
    return queue


def waiting(queue: RunQueue) -> str:
    return "".join(entry.run for entry in queue.record.waiting)


def test_the_first_that_came_is_the_first_served() -> None:
    queue = queue_of("a", "b", "c")
    assert queue.next_to_start() == QueueEntry("a", 1)
    assert queue.next_to_start() is None
    assert [queue.position(run) for run in "abc"] == [0, 1, 2]
    assert queue.ended("a")
    assert queue.next_to_start() == QueueEntry("b", 1)


def test_several_slots_serve_several_at_a_time() -> None:
    queue = queue_of("a", "b", "c", slots=2)
    assert [queue.next_to_start() for _ in range(3)] == [QueueEntry("a", 1), QueueEntry("b", 1), None]


def test_a_run_waits_once_and_can_be_taken_out() -> None:
    queue = queue_of("a", "a", "b")
    assert len(queue) == 2
    assert queue.cancel("a")
    assert not queue.cancel("a")
    assert not queue.ended("a")
    assert queue.next_to_start() == QueueEntry("b", 1)


def test_a_continuation_waits_for_the_end_of_its_own_run_and_lets_others_pass() -> None:
    queue = queue_of("a", "b", slots=2)
    assert queue.next_to_start() == QueueEntry("a", 1)
    queue.cancel("b")
    queue.add(QueueEntry("a", 2))
    queue.add(QueueEntry("c", 1))
    assert queue.next_to_start() == QueueEntry("c", 1)
    queue.ended("a")
    assert queue.next_to_start() == QueueEntry("a", 2)


# --- Devices ----------------------------------------------------------------------------------------------------------


def test_runs_have_gpus_of_their_own_as_far_as_these_go_round() -> None:
    queue = RunQueue(gpus(3))
    for run, count in (("a", 1), ("b", 2), ("c", 1)):
        queue.add(QueueEntry(run, 1, count))
    assert [queue.next_to_start() for _ in range(3)] == [QueueEntry("a", 1, 1), QueueEntry("b", 1, 2), None]
    assert (queue.held("a"), queue.held("b"), queue.held("c")) == (("0",), ("1", "2"), ())
    queue.ended("a")
    assert queue.next_to_start() == QueueEntry("c", 1, 1)
    assert queue.held("c") == ("0",)


def test_a_large_run_is_not_passed_over_by_small_ones() -> None:
    queue = RunQueue(gpus(2))
    queue.add(QueueEntry("a", 1, 1))
    assert queue.next_to_start() is not None
    queue.add(QueueEntry("large", 1, 2))
    queue.add(QueueEntry("small", 1, 1))
    assert queue.next_to_start() is None, "one GPU is free, but the large run is next"
    queue.ended("a")
    assert queue.next_to_start() == QueueEntry("large", 1, 2)


def test_a_timed_run_has_nothing_beside_it() -> None:
    queue = RunQueue(gpus(4))
    for entry in (QueueEntry("a", 1), QueueEntry("b", 1, 2, alone=True), QueueEntry("c", 1)):
        queue.add(entry)
    assert [queue.next_to_start() for _ in range(2)] == [QueueEntry("a", 1), None]
    queue.ended("a")
    assert queue.next_to_start() == QueueEntry("b", 1, 2, alone=True)
    successor = RunQueue(gpus(4), queue.record)
    assert (queue.next_to_start(), successor.next_to_start()) == (None, None)
    for one in (queue, successor):
        one.ended("b")
        assert one.next_to_start() == QueueEntry("c", 1)


def test_a_run_that_waits_for_more_than_there_is_does_not_block_the_others() -> None:
    queue = RunQueue(
        gpus(2), QueueRecord(waiting=(QueueEntry("a", 1, 4), QueueEntry("b", 1, 2), QueueEntry("c", 1, 3)))
    )
    for entry in (QueueEntry("a", 1, 4), QueueEntry("c", 1, 3)):
        assert queue.hopeless() == entry
        assert queue.cancel(entry.run)
    assert queue.hopeless() is None
    assert queue.next_to_start() == QueueEntry("b", 1, 2)


# --- Places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "place", "order", "moved"),
    [
        ("c", 1, "cabd", True),
        ("a", 2, "bacd", True),
        ("a", 4, "bcda", True),
        ("b", 99, "acdb", True),
        ("d", -3, "dabc", True),
        ("b", 2, "abcd", False),
        ("d", 99, "abcd", False),
        ("x", 1, "abcd", False),
    ],
)
def test_a_waiting_run_goes_to_the_place_that_was_asked_for(run: str, place: int, order: str, moved: bool) -> None:
    queue = queue_of(*"abcd")
    assert queue.move(run, place) is moved
    assert waiting(queue) == order
    assert not queue.move(run, place), "the same request again changes nothing"
    assert waiting(queue) == order


def test_a_run_that_has_begun_is_not_moved() -> None:
    queue = queue_of(*"abc")
    queue.next_to_start()
    assert not queue.move("a", 2)
    assert waiting(queue) == "bc"


# --- Records ----------------------------------------------------------------------------------------------------------


def test_a_successor_goes_on_from_the_record() -> None:
    queue = RunQueue(gpus(3))
    for run, count in (("a", 2), ("b", 2), ("c", 1)):
        queue.add(QueueEntry(run, 1, count))
    queue.next_to_start()
    record = msgspec.structs.replace(queue.record, cancelled=(RunSpec(exercise="toy", params={"rate": 1.0}),))
    kept = msgspec.json.decode(msgspec.json.encode(record), type=QueueRecord)
    assert kept == record
    again = RunQueue(gpus(3), kept)
    assert (again.running(), again.held("a")) == (("a",), ("0", "1"))
    assert (again.position("b"), again.position("c")) == (1, 2)
    assert "a" in again
    assert "d" not in again
    assert again.next_to_start() is None
    again.ended("a")
    assert again.next_to_start() == QueueEntry("b", 1, 2)


def test_a_run_that_got_devices_in_vain_is_the_next_to_have_some() -> None:
    queue = queue_of(*"abc", slots=2)
    queue.next_to_start()
    queue.next_to_start()
    successor = RunQueue(Devices(places=2), queue.record)
    assert (successor.attempt("a"), successor.attempt("c")) == (1, 0)
    successor.again(QueueEntry("b", 1))
    assert (successor.running(), waiting(successor)) == (("a",), "bc")
    assert successor.next_to_start() == QueueEntry("b", 1)


def test_the_record_of_an_earlier_agent_is_read() -> None:
    data = b'{"waiting":[{"run":"b","attempt":2}],"running":["a"]}'
    record = msgspec.json.decode(data, type=QueueRecord)
    for devices in (Devices(), gpus(4)):
        queue = RunQueue(devices, record)
        assert (queue.running(), queue.position("b")) == (("a",), 1)
        assert queue.next_to_start() is None, "nobody knows which devices it uses"
        queue.ended("a")
        assert queue.next_to_start() == QueueEntry("b", 2, 1)


# --- Whatever happens -------------------------------------------------------------------------------------------------

STEP = st.tuples(st.sampled_from("aecnm"), st.sampled_from("uvwxyz"), st.integers(1, 4))


@given(st.lists(STEP, max_size=60), st.integers(1, 4), st.booleans())
def test_no_device_is_given_twice_and_the_order_is_kept(
    steps: list[tuple[str, str, int]], count: int, with_gpus: bool
) -> None:
    devices = gpus(count) if with_gpus else Devices(places=count)
    queue, running = RunQueue(devices), dict[str, int]()
    for what, run, number in steps:
        if what == "a":
            queue.add(QueueEntry(run, 1, min(number, count)))
        elif what == "e":
            assert queue.ended(run) is (run in running)
            running.pop(run, None)
        elif what == "c":
            queue.cancel(run)
        elif what == "m":
            queue.move(run, number)
        else:
            first = next((entry for entry in queue.record.waiting if entry.run not in running), None)
            entry = queue.next_to_start()
            assert entry in (first, None), "only the first may begin"
            if entry is not None:
                running[entry.run] = entry.devices
        queue = RunQueue(devices, queue.record)  # a new agent may take over at any time
        assert set(queue.running()) == set(running)
        assert sum(running.values()) <= count if with_gpus else len(running) <= count
        held = [one for run in running for one in queue.held(run)]
        assert len(held) == len(set(held)) == sum(running.values()) if with_gpus else True


@given(st.lists(st.tuples(st.sampled_from("uvwxyz"), st.integers(1, 3)), max_size=20), st.data())
def test_everybody_has_a_turn(asked: list[tuple[str, int]], data: st.DataObject) -> None:
    """However runs end, as long as they do: whoever waits begins, in the order of the queue."""
    queue, began = RunQueue(gpus(3)), list[str]()
    for run, count in asked:
        queue.add(QueueEntry(run, 1, count))
    order = [entry.run for entry in queue.record.waiting]
    for _ in range(2 * len(order)):
        while (entry := queue.next_to_start()) is not None:
            began.append(entry.run)
        if queue.running():
            queue.ended(data.draw(st.sampled_from(queue.running())))
    assert began == order
