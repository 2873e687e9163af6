"""Curves folded from journals: nothing lost, each step once, cheap to feed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.base.problem import Problem, ProblemError, no_tensorflow
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import (
    Attempt,
    Checkpoint,
    Diverged,
    Evaluation,
    Histogram,
    Image,
    Live,
    Log,
    Peer,
    Points,
    Schema,
    Series,
    State,
)
from clew_shared.journal.files import JournalWriter, Record, attempts, journal_path, read_journal
from clew_shared.journal.history import Best, History
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run, summary

LOSS = MetricSpec(name="loss", label="loss", better="lower")
WEIGHT = MetricSpec(name="W", label="W", dtype="float64")
TEST = MetricSpec(name="test_accuracy", label="test", per_step=False, better="higher", format="percent")
SCHEMA = Schema(id=1, metrics=(LOSS, WEIGHT, TEST))


def attempt(number: int = 1, start_step: int = 0, time: float = 1000.0) -> Attempt:
    return Attempt(
        time=time,
        format=1,
        run="run-1",
        attempt=number,
        exercise="softmax",
        spec_sha256="",
        steps=1000,
        start_step=start_step,
        resumes=number - 1,
    )


def block(first: int, loss: Sequence[float], clock: float = 0.0, seconds: float = 1.0, time: float = 0.0) -> Points:
    """A block whose W is the step's number."""
    weights = np.arange(first, first + len(loss), dtype="<f8")
    values = (np.array(loss, "<f4").tobytes(), weights.tobytes())
    return Points(time=time, schema=1, first=first, count=len(loss), seconds=seconds, clock=clock, values=values)


def begun(number: int = 1, start_step: int = 0) -> History:
    history = History()
    history.feed(number, attempt(number, start_step))
    history.feed(number, SCHEMA)
    return history


def test_blocks_become_curves_in_the_metrics_own_precision() -> None:
    history = begun()
    history.feed(1, block(0, [3.0, 0.1]))
    history.feed(1, block(2, [1.0]))
    loss, weight = history.column("loss"), history.column("W")
    assert loss.steps.tolist() == [0, 1, 2]
    assert loss.values.tolist() == [3.0, float(np.float32(0.1)), 1.0]
    assert [str(array.dtype) for array in (loss.values, weight.values, loss.steps)] == ["float32", "float64", "int64"]
    assert history.metrics["test_accuracy"] == TEST
    assert history.recorded() == ("loss", "W")
    assert history.last("loss") == 1.0
    assert history.last("unknown") is None
    assert history.column("unknown").steps.tolist() == []
    assert history.wall("unknown").tolist() == []


def test_clock_and_wall_time_of_a_step_inside_a_block_are_interpolated() -> None:
    history = begun()
    history.feed(1, block(0, [1.0], clock=0.5, seconds=0.5, time=2000.0))
    history.feed(1, block(1, [1.0] * 4, clock=2.5, seconds=2.0, time=2010.0))
    assert history.column("loss").clock.tolist() == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert history.wall("loss").tolist() == [2000.0, 2008.5, 2009.0, 2009.5, 2010.0]


def test_an_evaluation_is_a_curve_over_the_updates_done() -> None:
    history = begun()
    history.feed(1, block(0, [1.0] * 100, clock=3.0))
    history.feed(1, Evaluation(time=2001.0, step=100, values={"test_accuracy": 0.9, "new": 2.0}, clock=3.0))
    column = history.column("test_accuracy")
    assert (column.steps.tolist(), column.values.tolist(), column.clock.tolist()) == ([100], [0.9], [3.0])
    assert history.wall("test_accuracy").tolist() == [2001.0]
    assert history.recorded() == ("loss", "W", "test_accuracy", "new")
    assert not history.metrics["new"].per_step


def test_values_that_are_not_finite_survive_and_the_first_is_remembered() -> None:
    history = begun()
    history.feed(1, block(0, [1.0, math.inf]))
    history.feed(1, block(2, [math.nan, -math.inf, 0.5]))
    assert str(history.column("loss").values.tolist()) == "[1.0, inf, nan, -inf, 0.5]"
    assert history.first_nonfinite == {"loss": 1}
    assert history.best("loss") == Best(4, 0.5)
    assert history.best("W") is None


def test_the_best_is_the_first_of_equals() -> None:
    history = begun()
    for step, accuracy in ((10, 0.5), (20, 0.9), (30, 0.9), (40, 0.7)):
        history.feed(1, Evaluation(step=step, values={"test_accuracy": accuracy}))
    assert history.best("test_accuracy") == Best(20, 0.9)


# --- Several attempts -------------------------------------------------------------------------------------------------


def resumed() -> History:
    """Attempt 1 did 6 steps, attempt 2 goes on from the checkpoint at step 4."""
    history = begun()
    history.feed(1, block(0, [10, 11, 12], clock=3.0, seconds=3.0))
    history.feed(1, block(3, [13, math.nan, 15], clock=6.0, seconds=3.0))
    for step in (2, 4, 6):
        history.feed(1, Evaluation(step=step, values={"test_accuracy": step / 10}, clock=float(step)))
        history.feed(1, Checkpoint(step=step, folder=f"checkpoints/{step}", files=()))
        history.feed(1, Live(name="learning_rate", value=step / 100, step=step))
    return history


def test_a_later_attempt_wins_from_its_start_step_and_the_rest_stays() -> None:
    history = resumed()
    history.feed(2, attempt(2, start_step=4))
    assert history.column("loss").values.tolist() == [10, 11, 12, 13]
    assert history.column("test_accuracy").steps.tolist() == [2, 4]
    assert (list(history.checkpoints), [change.step for change in history.live]) == ([2, 4], [2, 4])
    assert history.first_nonfinite == {}
    history.feed(2, SCHEMA)
    history.feed(2, block(4, [24, 25, 26]))
    history.feed(2, Evaluation(step=6, values={"test_accuracy": 0.66}))
    assert history.column("loss").values.tolist() == [10, 11, 12, 13, 24, 25, 26]
    assert history.column("W").steps.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert history.column("test_accuracy").values.tolist() == [0.2, 0.4, 0.66]
    assert str(history.column("loss", attempt=1).values.tolist()) == "[10.0, 11.0, 12.0, 13.0, nan, 15.0]"
    assert history.column("loss", attempt=1).clock.tolist() == [1, 2, 3, 4, 5, 6]
    assert history.column("loss", attempt=2).steps.tolist() == [4, 5, 6]
    assert history.column("test_accuracy", attempt=1).values.tolist() == [0.2, 0.4, 0.6]


@pytest.mark.parametrize("carried", [0.0, 4.0])
def test_the_clock_runs_on_whether_the_later_attempt_carried_it_over_or_not(carried: float) -> None:
    history = resumed()
    history.feed(2, attempt(2, start_step=4))
    history.feed(2, SCHEMA)
    history.feed(2, block(4, [24, 25], clock=carried + 2.0, seconds=2.0))
    history.feed(2, Evaluation(step=6, values={"test_accuracy": 0.6}, clock=carried + 2.0))
    assert history.column("loss").clock.tolist() == [1, 2, 3, 4, 5, 6]
    assert history.column("test_accuracy").clock.tolist() == [2, 4, 6]


def test_a_process_on_a_cut_node_changes_no_curve() -> None:
    history = resumed()
    history.feed(2, attempt(2, start_step=4))
    history.feed(2, SCHEMA)
    history.feed(2, block(4, [24]))
    before = history.column("loss").values.tolist()
    history.feed(1, block(6, [16, 17]))
    history.feed(1, Evaluation(step=8, values={"test_accuracy": 0.8}))
    history.feed(1, State(state=RunState.FINISHED))
    assert history.column("loss").values.tolist() == before
    assert history.column("test_accuracy").steps.tolist() == [2, 4]
    assert not history.fold.done
    assert history.column("loss", attempt=1).steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def chain() -> list[tuple[int, list[object]]]:
    """Three attempts, each in its own order: 0..9, then from 6, then from 3."""
    spans = {1: (0, 10), 2: (6, 12), 3: (3, 9)}
    result: list[tuple[int, list[object]]] = []
    for number, (start, end) in spans.items():
        events: list[object] = [attempt(number, start), SCHEMA]
        events += [block(step, [100.0 * number + step], clock=float(step)) for step in range(start, end)]
        events += [Evaluation(step=end, values={"test_accuracy": float(number)})]
        result.append((number, events))
    return result


@given(st.data())
def test_the_clean_curve_does_not_depend_on_how_attempts_arrive(data: st.DataObject) -> None:
    queues = dict(chain())
    history = History()
    while queues:
        number = data.draw(st.sampled_from(sorted(queues)))
        history.feed(number, queues[number].pop(0))  # type: ignore[arg-type]
        if not queues[number]:
            del queues[number]
    assert history.column("loss").steps.tolist() == list(range(9))
    assert history.column("loss").values.tolist() == [100, 101, 102, 303, 304, 305, 306, 307, 308]
    assert history.column("W").values.tolist() == list(range(9))
    assert len(history.wall("loss")) == 9
    assert history.column("loss", attempt=1).values.tolist() == [100 + step for step in range(10)]
    assert history.column("loss", attempt=2).values.tolist() == [200 + step for step in range(6, 12)]
    assert history.column("test_accuracy").values.tolist() == [3.0]
    assert history.fold.attempt == 3


def test_steps_that_one_attempt_writes_again_replace_the_first_ones() -> None:
    history = begun()
    history.feed(1, block(0, [1, 2, 3]))
    history.feed(1, block(1, [9]))
    assert history.column("loss").values.tolist() == [1, 9]


def test_a_metric_may_stand_in_two_schemas() -> None:
    history = begun()
    history.feed(1, block(0, [1, 2], time=5.0))
    history.feed(1, Schema(id=2, metrics=(LOSS,)))
    history.feed(
        1,
        Points(time=6.0, schema=2, first=2, count=1, seconds=1, clock=1, values=(np.array([3], "<f4").tobytes(),)),
    )
    assert history.column("loss").values.tolist() == [1, 2, 3]
    assert history.wall("loss").tolist() == [4.5, 5.0, 6.0]
    assert history.column("W").steps.tolist() == [0, 1]


# --- What else a journal says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        Points(schema=1, first=0, count=2, seconds=1, clock=1, values=(bytes(8), bytes(8))),
        Points(schema=1, first=0, count=1, seconds=1, clock=1, values=(bytes(4),)),
        Points(schema=1, first=-1, count=1, seconds=1, clock=1, values=(bytes(4), bytes(8))),
        Points(schema=1, first=0, count=0, seconds=1, clock=1, values=(b"", b"")),
        Points(schema=7, first=0, count=1, seconds=1, clock=1, values=(bytes(4), bytes(8))),
    ],
)
def test_points_that_fit_no_schema_are_noted_and_left_out(broken: Points) -> None:
    history = begun()
    history.feed(1, broken)
    assert len(history.damages) == 1
    assert history.column("loss").steps.tolist() == []


def test_the_processes_of_the_latest_attempt_are_known_and_a_lost_one_is_said() -> None:
    history = begun()
    peer = Peer(role="worker", index=1, host="node2", address="10.0.0.2", port=7, status="joined")
    for status in ("joined", "lost"):
        history.feed(1, msgspec.structs.replace(peer, status=status))
    assert [one.status for one in history.peers.values()] == ["lost"]
    assert [log.text for log in history.logs] == ["Lost process 1 on node2 (10.0.0.2, port 7)."]
    assert summary(history, Path("/nowhere"))["peers"] == [
        {"role": "worker", "index": 1, "host": "node2", "address": "10.0.0.2", "status": "lost"}
    ]
    history.feed(2, attempt(2))
    assert not history.peers


def test_measurements_pictures_and_sentences_are_kept_by_name() -> None:
    history = begun()
    for x in (1.0, 2.0):
        history.feed(1, Series(name="dot", x=np.array([x]).tobytes(), y=np.array([x * x]).tobytes(), x_label="size"))
        history.feed(1, Image(name="digit", step=int(x), width=1, height=1, channels=1, data=b"\0"))
    history.feed(1, Log(text="compiled", stage="compile", seconds=0.4))
    dot = history.series["dot"]
    assert (dot.x.tolist(), dot.y.tolist(), dot.last.x_label) == ([1.0, 2.0], [1.0, 4.0], "size")
    assert [one.step for one in history.figures["digit"]] == [1, 2]
    assert [log.stage for log in history.logs] == ["compile"]


def test_speed_counts_training_blocks_only() -> None:
    history = begun()
    assert (history.steps_per_second(), history.first_point_seconds) == (None, None)
    history.feed(1, block(0, [1.0] * 100, seconds=0.5, clock=0.5, time=1003.0))
    history.feed(1, Evaluation(time=1009.0, step=100, values={"test_accuracy": 0.5}, seconds=6.0))
    history.feed(1, block(100, [1.0] * 300, seconds=0.5, clock=1.0, time=1010.0))
    assert history.steps_per_second() == 400.0
    assert history.first_point_seconds == 3.0
    assert history.fold.seconds == 10.0
    history.feed(1, State(time=1012.0, state=RunState.FINISHED))
    assert history.fold.seconds == 12.0


def test_a_million_steps_fill_arrays_that_grow_by_doubling_and_keep_no_copies() -> None:
    history = begun()
    for first in range(0, 1_000_000, 1000):
        history.feed(1, block(first, [1.0] * 1000, clock=first / 1000))
    column = history.column("loss")
    assert len(column.values) == 1_000_000
    assert np.shares_memory(column.values, history.column("loss").values)
    assert (np.diff(column.steps) == 1).all()


# --- Run folders ------------------------------------------------------------------------------------------------------


def test_a_run_folder_is_read_up_to_where_the_next_attempt_says(tmp_path: Path) -> None:
    with JournalWriter.create(journal_path(tmp_path, 1)) as first:
        for event in (attempt(1), SCHEMA, block(0, [1, 2, 3])):
            size = first.append(event)
        with JournalWriter.create(journal_path(tmp_path, 2)) as second:
            start = attempt(2, start_step=2)
            values = {name: getattr(start, name) for name in start.__struct_fields__}
            second.append(Attempt(**values | {"earlier_size": size, "earlier_sha256": first.sha256}))
            second.append(SCHEMA)
            second.append(block(2, [30]))
        first.append(block(3, [4]))
    history = read_run(tmp_path)
    assert history.column("loss").values.tolist() == [1, 2, 30]
    assert history.column("loss", attempt=1).steps.tolist() == [0, 1, 2]


def test_a_torn_tail_is_damage_only_once_the_run_has_ended(tmp_path: Path) -> None:
    path = journal_path(tmp_path, 1)
    with JournalWriter.create(path) as writer:
        writer.append(attempt(1))
        writer.append(State(state=RunState.RUNNING))
    path.write_bytes(path.read_bytes() + b"\xc1CLW\x10")
    assert read_run(tmp_path).damages == []
    with JournalWriter.open_to_seal(path) as guard:
        guard.append(State(state=RunState.FAILED))
        guard.seal("guard")
    assert [note.attempt for note in read_run(tmp_path).damages] == [1]


def test_a_folder_without_a_journal_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="not a run folder"):
        read_run(tmp_path)
    (tmp_path / "journal.0001").mkdir()
    with pytest.raises(ProblemError, match="Cannot read"):
        read_run(tmp_path)


def test_the_summary_holds_what_programs_ask_for(tmp_path: Path) -> None:
    with JournalWriter.create(journal_path(tmp_path, 1)) as writer:
        for event in (
            attempt(1),
            SCHEMA,
            State(state=RunState.RUNNING),
            block(0, [3.0, math.nan], seconds=0.5, time=1002.0),
            Evaluation(step=2, values={"test_accuracy": 0.9079}),
            State(time=1004.0, state=RunState.FAILED, step=2, problem=Problem("run.nan", "The loss is NaN.")),
        ):
            writer.append(event)
    assert summary(read_run(tmp_path), tmp_path) == {
        "run": "run-1",
        "exercise": "softmax",
        "state": "FAILED",
        "steps": 2,
        "metrics": {"loss": None, "W": 1.0, "test_accuracy": 0.9079},
        "best": {"loss": {"step": 0, "value": 3.0}, "test_accuracy": {"step": 2, "value": 0.9079}},
        "steps_per_second": 4.0,
        "first_point_seconds": 2.0,
        "seconds": 4.0,
        "run_dir": str(tmp_path),
        "journal": str(tmp_path / "journal.0001"),
        "diverged": {"loss": 1},
        "problem": {"code": "run.nan", "text": "The loss is NaN.", "hint": "", "where": "", "remedies": ()},
    }


# --- Processes that were thought dead -------------------------------------------------------------------------------


def zombie(folder: Path) -> None:
    """Attempt 1 of two goes on writing of all kinds behind the length at which attempt 2 found it."""
    with JournalWriter.create(journal_path(folder, 1)) as first:
        for event in (attempt(1), SCHEMA, Log(text="of the first"), block(0, [1, 2, 3, 4]), figure(2), relation(1.0)):
            size = first.append(event)
        with JournalWriter.create(journal_path(folder, 2)) as second:
            start = msgspec.structs.replace(attempt(2, start_step=4), earlier_size=size, earlier_sha256=first.sha256)
            for new in (start, SCHEMA, block(4, [50]), Evaluation(step=5, values={"test_accuracy": 0.5})):
                second.append(new)
            for late in (
                block(4, [40, math.nan]),
                Evaluation(step=6, values={"test_accuracy": 0.9}),
                Checkpoint(step=6, folder="checkpoints/6", files=()),
                Live(name="learning_rate", value=9.0, step=5),
                Log(text="of a zombie"),
                Diverged(metric="loss", step=5, value="NaN"),
                figure(6),
                relation(2.0),
                State(state=RunState.FAILED, reason="zombie"),
            ):
                first.append(late)
            second.append(block(5, [60]))


def figure(step: int) -> Image:
    return Image(name="digit", step=step, width=1, height=1, channels=1, data=bytes([step]))


def relation(x: float) -> Series:
    return Series(name="dot", x=np.array([x]).tobytes(), y=np.array([x]).tobytes())


def whole(folder: Path) -> History:
    return read_run(folder)


def file_after_file(folder: Path) -> History:
    """As the window reads its mirror, and an export that of a run that still goes on."""
    history = History()
    for number in attempts(folder):
        for item in read_journal(journal_path(folder, number)):
            assert isinstance(item, Record)
            history.feed(number, item.event, item.offset)
    return history


@pytest.mark.parametrize("read", [whole, file_after_file])
def test_what_a_zombie_writes_changes_nothing_for_any_reader(read: Callable[[Path], History], tmp_path: Path) -> None:
    zombie(tmp_path)
    history = read(tmp_path)
    assert history.column("loss").values.tolist() == [1, 2, 3, 4, 50, 60]
    assert history.column("test_accuracy").steps.tolist() == [5]
    assert history.first_nonfinite == {}
    assert (history.live, list(history.checkpoints), [one.step for one in history.figures["digit"]]) == ([], [], [2])
    assert history.series["dot"].x.tolist() == [1.0]
    assert [log.text for log in history.logs] == ["of the first"]
    assert (history.fold.state, history.fold.step, history.fold.reason) == (RunState.STARTING, 6, "")


def test_an_attempt_that_a_guard_began_for_a_dead_trainer_cuts_nothing() -> None:
    history = begun()
    history.feed(1, block(0, [1, 2, 3]))
    dead = msgspec.structs.replace(attempt(2), resumes=0)
    history.feed(2, dead)
    assert history.fold.attempt == 2
    assert history.column("loss").values.tolist() == [1, 2, 3]
    history.feed(3, msgspec.structs.replace(attempt(3, start_step=2), resumes=1))
    assert history.column("loss").values.tolist() == [1, 2]


@pytest.mark.parametrize(("start", "left"), [(0, []), (1, [1.0]), (2, [1.0, 2.0])])
def test_a_relation_is_measured_once(start: int, left: list[float]) -> None:
    history = begun()
    for step in (0, 1, 2):
        history.feed(1, block(step, [1.0]))
        history.feed(1, relation(float(step + 1)))
    history.feed(2, attempt(2, start_step=start))
    assert (history.series["dot"].x.tolist() if left else list(history.series)) == left
    history.feed(1, relation(9.0))
    history.feed(2, SCHEMA)
    history.feed(2, relation(7.0))
    assert history.series["dot"].x.tolist() == [*left, 7.0]


def test_an_evaluation_that_is_not_finite_and_counts_is_known_after_a_resume() -> None:
    history = begun()
    history.feed(1, block(0, [1, 2]))
    history.feed(1, Evaluation(step=2, values={"test_accuracy": math.nan}))
    history.feed(2, attempt(2, start_step=2))
    assert history.first_nonfinite == {"test_accuracy": 2}


def test_a_lost_schema_is_one_damage_and_said_among_the_sentences() -> None:
    history = History()
    history.feed(1, attempt(1))
    for step in range(50):
        history.feed(1, block(step, [1.0]))
    assert len(history.damages) == 1
    assert ["damaged" in log.text for log in history.logs] == [True]


def test_a_run_whose_first_frame_is_damaged_is_cut_by_a_later_attempt_all_the_same() -> None:
    history = History()
    for event in (SCHEMA, block(0, [1, 2, 3]), Evaluation(step=3, values={"test_accuracy": 0.3})):
        history.feed(1, event)
    history.feed(2, attempt(2, start_step=2))
    assert history.column("loss").values.tolist() == [1, 2]
    assert history.column("test_accuracy").steps.tolist() == []


def test_the_latest_of_several_changes_at_one_step_stands() -> None:
    history = begun()
    for value in (0.1, 0.05, 0.1, 0.1):
        history.feed(1, Live(name="learning_rate", value=value, step=4))
    assert [change.value for change in history.live] == [0.1, 0.05, 0.1]


def test_an_evaluation_of_many_names_costs_what_it_holds() -> None:
    """Each name is looked at some times, and not once for each other name."""
    hashed = 0

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal hashed
            hashed += 1
            return super().__hash__()

    names = [Name(f"metric {number}") for number in range(300)]
    history = History()
    for step in (1, 2):
        history.feed(1, Evaluation(step=step, values=dict.fromkeys(names, 1.0)))
    assert hashed < 30 * len(names)


@pytest.mark.parametrize("edges", [[0, np.nan, 2], [-np.inf, 0, np.inf], [1, 1, 1], [3, 2, 1], [-1e308, 0, 1e308]])
def test_a_histogram_that_no_axis_can_show_is_damage(edges: list[float]) -> None:
    history = History()
    counts = np.array([1, 2], "<i8").tobytes()
    history.feed(1, Histogram(name="weights", step=1, edges=np.array(edges, "<f8").tobytes(), counts=counts))
    assert (history.figures, len(history.damages)) == ({}, 1)


def test_a_tensorflow_that_windows_cannot_load_names_the_libraries_that_it_lacks() -> None:
    why = "DLL load failed while importing _pywrap_tensorflow_internal: The specified module could not be found."
    assert "pip install msvc-runtime" in no_tensorflow("laptop", why, on_node=False).hint
