"""Gradients that parameter servers took: each once, and still counted when they are no longer kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.journal.events import Attempt, Peer, Updates
from clew_shared.journal.history import History
from clew_shared.journal.updates import UpdateColumns, UpdateTable, count
from clew_shared.reading import summary
from tests.simulated_cluster import as_updates


def updates(
    steps: Sequence[int],
    workers: Sequence[int] | None = None,
    staleness: Sequence[int] | None = None,
    dropped: Sequence[int] = (),
    begin: float = 0.0,
    time: float = 0.0,
) -> Updates:
    """Gradients that took 0.1 s each, one after the other from ``begin`` on; ``dropped`` are places in ``steps``."""
    size = len(steps)
    columns = {
        "steps": np.array(steps),
        "workers": np.array(workers if workers is not None else [0] * size),
        "ended": begin + 0.1 * np.arange(1, size + 1),
        "seconds": np.full(size, 0.1),
        "staleness": np.array(staleness if staleness is not None else [0] * size),
        "accepted": ~np.isin(np.arange(size), list(dropped)),
    }
    return as_updates(columns, time)


def attempt(number: int, start_step: int = 0) -> Attempt:
    return Attempt(
        format=1,
        run="r",
        attempt=number,
        exercise="ps-lab",
        spec_sha256="",
        steps=100,
        start_step=start_step,
        resumes=number - 1,
    )


def begun() -> History:
    history = History()
    history.feed(1, attempt(1))
    return history


def test_gradients_are_counted_by_staleness_and_worker() -> None:
    history = begun()
    history.feed(1, updates([0, 1, 2, 2], [0, 1, 0, 1], [0, 1, 3, 7], dropped=[2]))
    found = summary(history, Path("/nowhere"))["updates"]
    assert found == {
        "gradients": 4,
        "applied": 3,
        "dropped": 1,
        "bytes_each": 62_800,
        "staleness": {
            "mean": pytest.approx(8 / 3),
            "median": 1,
            "max": 7,
            "histogram": [1, 1, 0, 0, 0, 0, 0, 1],
            "dropped": [0, 0, 0, 1, 0, 0, 0, 0],
        },
        "workers": [
            {"index": 0, "applied": 1, "dropped": 1, "share": pytest.approx(1 / 3)},
            {"index": 1, "applied": 2, "dropped": 0, "share": pytest.approx(2 / 3)},
        ],
    }
    assert "updates" not in summary(begun(), Path("/nowhere"))


def test_a_later_attempt_wins_from_its_start_step_on_and_its_clock_goes_on() -> None:
    history = begun()
    history.feed(1, updates([0, 1, 2, 3], [0, 1, 0, 1]))
    history.feed(2, attempt(2, start_step=2))
    history.feed(2, updates([2, 3], [2, 2], begin=7.0))
    history.feed(1, updates([1, 4], [5, 5], begin=0.4))  # of a process that was thought dead: step 1 still counts
    history.feed(2, updates([4], [2], begin=7.2))
    columns = history.updates.columns
    assert columns.steps.tolist() == [0, 1, 2, 3, 1, 4]
    assert columns.workers.tolist() == [0, 1, 2, 2, 5, 2]
    assert history.updates.counts.workers[1].tolist() == [1, 1, 3, 0, 0, 1]
    assert columns.ended[-1] == pytest.approx(0.3), "no points were recorded, so the clock begins again at 0"


def test_servers_that_are_set_back_to_a_checkpoint_replace_what_they_forgot() -> None:
    history = begun()
    history.feed(1, updates([0, 1, 2, 2, 3], staleness=[9, 9, 9, 9, 9]))
    history.feed(1, updates([3, 3, 4]))  # the other gradients of a synchronous step come in a frame of their own
    assert history.updates.columns.steps.tolist() == [0, 1, 2, 2, 3, 3, 3, 4]
    history.feed(1, updates([2, 3]))
    assert history.updates.columns.steps.tolist() == [0, 1, 2, 3]
    assert history.updates.counts.staleness[1].tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 0, 2]


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=9), max_size=30), st.integers(0, 99))
def test_what_is_no_longer_kept_one_by_one_stays_counted(frames: list[list[tuple[int, bool]]], start: int) -> None:
    whole, few, step = UpdateTable(kept=None), UpdateTable(kept=4), 0
    for frame in frames:
        size = len(frame)
        steps = np.arange(step, step + size)
        step += size
        values = np.array([stale for stale, _ in frame], np.int32)
        columns = UpdateColumns(
            steps,
            values.astype(np.uint16),
            steps.astype(float),
            np.zeros(size, np.float32),
            values,
            np.array([ok for _, ok in frame], bool),
        )
        whole.append(columns)
        few.append(columns)
    assert len(few) <= 2 * 4 + 9
    for one, two in zip(whole.counts, few.counts, strict=True):
        assert one.tolist() == two.tolist()
    kept = few.columns.steps
    whole.cut(start)
    few.cut(start)
    assert whole.counts.applied == count(whole.columns).applied
    assert few.counts.applied <= whole.counts.applied
    if not len(kept) or start > kept[0]:
        assert few.counts.applied == whole.counts.applied


def test_the_time_of_an_event_is_found_on_the_training_clock() -> None:
    table = begun()
    assert table.updates.clock_at(1000.0) == 0.0
    table.feed(1, updates([0, 1], time=1000.2))
    table.feed(1, updates([2, 3], begin=0.2, time=1010.4))  # an evaluation came between them
    clocks = [table.updates.clock_at(wall) for wall in (1000.1, 1000.2, 1005.3, 1010.4, 1011.4)]
    assert clocks == pytest.approx([0.1, 0.2, 0.3, 0.4, 1.4])
    assert table.updates.clock_at(0.0) == 0.0


@pytest.mark.parametrize(
    "change",
    [{"workers": b"\0"}, {"steps": b""}, {"staleness": np.array([-1], "<i4").tobytes()}, {"ended": b"\xff" * 8}],
)
def test_arrays_that_do_not_fit_are_left_out_and_said(change: dict[str, bytes]) -> None:
    history = begun()
    history.feed(1, msgspec.structs.replace(updates([0]), **change))
    assert len(history.updates) == 0
    assert [note.text for note in history.damages] == ["the values of some updates do not fit together"]


def test_what_happens_to_a_process_is_a_sentence_of_the_log() -> None:
    history = begun()
    worker = Peer(role="worker", index=1, host="node2")
    for change in (
        {"status": "joined"},
        {"status": "slowed", "factor": 5.0},
        {"status": "slowed"},
        {"status": "ended"},
    ):
        history.feed(1, msgspec.structs.replace(worker, **change))
    for status in ("killed", "replaced"):
        history.feed(1, Peer(role="ps", index=0, host="node1", status=status))
    assert [log.text for log in history.logs] == [
        "Slowed worker 1 on node2: ×5.",
        "Worker 1 on node2: full speed again.",
        "Killed parameter server 0 on node1.",
        "Started parameter server 0 on node1 again.",
    ]
    assert [peer.status for peer in history.peer_news] == ["joined", "slowed", "slowed", "ended", "killed", "replaced"]
