"""The trainer's writer thread: order, a bounded queue, and a disk that refuses for a while or for good."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_agent.engine.blocks import TrainedBlock
from clew_agent.trainer import recorder as recorder_module
from clew_agent.trainer.loop import split
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_shared.base.disk_full import disk_full
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Event, Log, Points, State
from clew_shared.journal.files import JournalWriter, Record, read_journal
from clew_shared.journal.lifecycle import RunState

BOUND_S = 20.0


class Disk:
    """Real journal, faulty disk: while ``full()`` holds, every append fails as on a full file system."""

    def __init__(self, path: Path) -> None:
        self.writer = JournalWriter.create(path)
        self.path = path
        self.full: Callable[[], bool] = lambda: False
        append = self.writer.append

        def refuse_or_append(event: Event) -> int:
            if self.full():
                raise OSError(errno.ENOSPC, "No space left on device")
            return append(event)

        self.writer.append = refuse_or_append  # type: ignore[method-assign]

    def events(self) -> list[Event]:
        return [item.event for item in read_journal(self.path) if isinstance(item, Record) and item.event]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "journal.0001")


def start(disk: Disk, patience: float = BOUND_S) -> Recorder:
    recorder = Recorder(disk.writer, Reserve(disk.path.parent / ".reserve"), patience=patience, retry=0.01)
    recorder.start()
    return recorder


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def texts(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Log)]


def said(disk: Disk) -> list[object]:
    return [event.state if isinstance(event, State) else getattr(event, "text", "") for event in disk.events()]


def test_events_are_written_in_order_with_their_time(disk: Disk) -> None:
    recorder = start(disk)
    before = time.time()
    for number in range(500):
        recorder.put(Log(text=str(number)))
    recorder.flush()
    assert texts(disk.events()) == [str(number) for number in range(500)]
    assert all(before <= event.time <= time.time() for event in disk.events())
    recorder.close().close()


def test_close_writes_what_waits_and_removes_the_reserve(disk: Disk) -> None:
    recorder = start(disk)
    wait_until((disk.path.parent / ".reserve").exists)
    recorder.put(Log(text="last"))
    recorder.close().close()
    assert texts(disk.events()) == ["last"]
    assert not (disk.path.parent / ".reserve").exists()
    assert recorder.failure is None


def test_a_full_disk_holds_up_training_and_nothing_is_lost(disk: Disk) -> None:
    recorder = start(disk)
    recorder.put(State(state=RunState.RUNNING))
    recorder.flush()
    blocked = threading.Event()
    blocked.set()
    disk.full = blocked.is_set
    recorder.put(Log(text="held up"))
    waiter = threading.Thread(target=recorder.wait_for_disk, args=(lambda: False,))
    wait_until(lambda: recorder.held_up)
    waiter.start()
    time.sleep(0.3)
    assert waiter.is_alive(), "no step is trained while the disk refuses"
    blocked.clear()
    waiter.join(BOUND_S)
    recorder.close().close()
    found = disk.events()
    assert texts(found) == ["held up"]
    assert [event.state for event in found if isinstance(event, State)] == [
        RunState.RUNNING,
        RunState.PAUSED,
        RunState.RUNNING,
    ]


def test_the_reserve_makes_room_to_say_that_the_disk_is_full(disk: Disk) -> None:
    reserve = disk.path.parent / ".reserve"
    recorder = start(disk)
    recorder.put(State(state=RunState.RUNNING))
    recorder.flush()
    whole, said = reserve.stat().st_size, 0

    def full() -> bool:
        """The room that halving the reserve gives back is enough for one frame."""
        nonlocal said
        if reserve.exists() and reserve.stat().st_size < whole and said == 0:
            said = 1
            return False
        return True

    disk.full = full
    recorder.put(Log(text="too much"))
    wait_until(lambda: any(isinstance(event, State) and event.state is RunState.PAUSED for event in disk.events()))
    paused = disk.events()[-1]
    assert isinstance(paused, State)
    assert paused.reason == "Waiting for the disk: No space left on device"
    disk.full = lambda: False
    recorder.flush()
    assert reserve.stat().st_size == whole, "filled again for the next time"
    recorder.close().close()


def test_a_disk_that_stays_full_ends_in_a_problem(disk: Disk) -> None:
    recorder = start(disk, patience=0.1)
    disk.full = lambda: True
    recorder.put(Log(text="never written"))
    wait_until(lambda: recorder.failure is not None)
    with pytest.raises(ProblemError, match="No space left on device"):
        recorder.put(Log(text="another"))
    with pytest.raises(ProblemError):
        recorder.wait_for_disk(lambda: False)
    with pytest.raises(ProblemError):
        recorder.flush()
    recorder.close().close()


def test_whoever_stops_the_run_does_not_wait_for_the_disk(disk: Disk) -> None:
    recorder = start(disk, patience=3600)
    disk.full = lambda: True
    recorder.put(Log(text="never written"))
    wait_until(lambda: recorder.held_up)
    with pytest.raises(ProblemError):
        recorder.wait_for_disk(lambda: True)
    recorder.close().close()


def test_what_is_left_at_a_stop_goes_into_the_room_of_the_reserve(disk: Disk) -> None:
    reserve = disk.path.parent / ".reserve"
    recorder = start(disk, patience=3600)
    recorder.flush()
    disk.full = lambda: reserve.stat().st_size > 20_000  # a part of the reserve is kept for the last words
    for number in range(3):
        recorder.put(Log(text=str(number)))
    wait_until(lambda: recorder.held_up)
    recorder.wait_for_disk(lambda: True)
    recorder.flush()
    assert 0 < reserve.stat().st_size < 20_000
    recorder.close().close()
    assert recorder.failure is None
    assert texts(disk.events()) == ["0", "1", "2"]


def test_nothing_comes_after_the_last_state_of_a_process_that_is_about_to_be_ended(disk: Disk) -> None:
    """A trainer that hangs in a step may come back just then."""
    recorder = start(disk)
    recorder.put_last(State(state=RunState.FAILED, step=7))
    late = threading.Thread(target=lambda: recorder.put(Log(text="too late")))
    late.start()
    late.join(0.5)
    assert [type(event) for event in disk.events()] == [State]
    recorder._last_from = 0  # else it waits for the end of the process
    late.join(BOUND_S)
    recorder.close().close()
    assert texts(disk.events()) == ["too late"]


def test_what_could_not_be_recorded_is_told_by_its_first_step(disk: Disk) -> None:
    recorder = start(disk, patience=3600)
    block = TrainedBlock(0, 40, (np.zeros(40, np.float32),), seconds=1.0)
    for part in split(block, clock=0.0, limit=1 << 20):
        recorder.put(part)
    recorder.flush()
    disk.full = lambda: True
    for part in split(TrainedBlock(40, 10, (np.zeros(10, np.float32),), seconds=1.0), clock=1.0, limit=1 << 20):
        recorder.put(part)
    wait_until(lambda: recorder.held_up)
    with pytest.raises(ProblemError, match="Nothing from step 40 on is recorded"):
        recorder.wait_for_disk(lambda: True)
    recorder.close().close()
    assert recorder.step == 40


def test_that_training_goes_on_is_said_as_soon_as_the_disk_takes_it(disk: Disk) -> None:
    recorder = start(disk)
    recorder.put(State(state=RunState.RUNNING))
    recorder.flush()
    answers = iter([True, False, False, True, True])  # refused, PAUSED, the event, RUNNING refused twice
    disk.full = lambda: next(answers, False)
    recorder.put(Log(text="one"))
    recorder.put(Log(text="two"))
    recorder.close().close()
    assert said(disk) == [RunState.RUNNING, RunState.PAUSED, "one", "two", RunState.RUNNING]


def test_training_that_waits_for_the_disk_itself_goes_on_only_once(disk: Disk) -> None:
    """The journal meets the full disk as well, and is served before the checkpoint is."""
    recorder = start(disk)
    recorder.put(State(state=RunState.RUNNING))
    recorder.flush()
    blocked = threading.Event()
    blocked.set()
    disk.full = blocked.is_set
    recorder.put(Log(text="one"))
    wait_until(lambda: recorder.held_up)
    recorder.training_waits("no room for the checkpoint")
    blocked.clear()
    recorder.flush()
    recorder.training_waits("no room for the checkpoint, again")
    recorder.put(Log(text="two"))
    recorder.training_goes_on()
    recorder.put(Log(text="three"))
    recorder.close().close()
    first, *waits, two, goes_on, three = said(disk)  # whichever of those that waited the disk had room for first
    assert (first, {*waits}, two) == (RunState.RUNNING, {"one", RunState.PAUSED}, "two")
    assert (goes_on, three) == (RunState.RUNNING, "three")


@pytest.mark.parametrize("refusals", [1, 2])
def test_nothing_is_said_after_a_last_state_that_the_disk_refused_at_first(disk: Disk, refusals: int) -> None:
    recorder = start(disk)
    recorder.put(State(state=RunState.RUNNING))
    recorder.flush()
    answers = iter([True] * refusals)  # the second one refuses to say that the run waits
    disk.full = lambda: next(answers, False)
    recorder.put(State(state=RunState.FINISHED))
    recorder.close().close()
    assert said(disk)[-1] is RunState.FINISHED


def test_an_event_too_large_for_a_frame_is_a_failure_not_a_hang(disk: Disk) -> None:
    recorder = start(disk)
    recorder.put(Log(text="x" * (2 << 20)))
    wait_until(lambda: recorder.failure is not None)
    recorder.close().close()
    assert recorder.failure is not None
    assert recorder.failure.code == "journal.frame"


# Blocks as Points.


@given(count=st.integers(1, 5000), first=st.integers(0, 10**9), limit=st.integers(1, 5000))
def test_a_split_block_is_the_same_block(count: int, first: int, limit: int) -> None:
    loss = np.arange(count, dtype=np.float32)
    weight = np.arange(count, dtype=np.float64) * 2
    parts = list(split(TrainedBlock(first, count, (loss, weight), seconds=2.0), clock=10.0, limit=limit))
    assert [part.first for part in parts] == [first, *(first + np.cumsum([part.count for part in parts])[:-1])]
    assert sum(part.count for part in parts) == count
    assert b"".join(part.values[0] for part in parts) == loss.astype("<f4").tobytes()
    assert b"".join(part.values[1] for part in parts) == weight.astype("<f8").tobytes()
    assert sum(part.seconds for part in parts) == pytest.approx(2.0)
    assert parts[-1].clock == pytest.approx(12.0)
    for part in parts:
        assert sum(map(len, part.values)) <= max(limit, 12), "one step is the least"


def test_no_frame_of_a_large_block_is_too_large(disk: Disk) -> None:
    columns = tuple(np.zeros(400_000) for _ in range(3))
    for part in split(TrainedBlock(0, 400_000, columns, seconds=1.0), clock=0.0, limit=512 * 1024):
        disk.writer.append(part)
    assert sum(event.count for event in disk.events() if isinstance(event, Points)) == 400_000
    disk.writer.close()


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EFBIG, "File too large"), True),
        (RuntimeError("RESOURCE_EXHAUSTED: state.data; No space left on device"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (ValueError("shape"), False),
    ],
)
def test_a_full_disk_is_recognised_through_wrappers(error: Exception, full: bool) -> None:
    assert (disk_full(error) is not None) is full


def test_what_comes_from_elsewhere_waits_for_the_first_event(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_ASK_EVERY_S", 0.0)
    elsewhere = [Log(text="elsewhere")]

    def beside(last: bool) -> list[Event]:
        return [elsewhere.pop()] if elsewhere else []

    recorder = Recorder(disk.writer, Reserve(disk.path.parent / ".reserve"), beside=beside)
    recorder.start()
    recorder.put(Event())  # it looks, and there is nothing to write yet
    recorder.put(Log(text="first"))
    recorder.close().close()
    assert [event.text for event in disk.events() if isinstance(event, Log)] == ["first", "elsewhere"]
