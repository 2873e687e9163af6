"""A reader written from PROTOCOL.md alone finds in a journal what ours finds: the page is enough and true."""

from __future__ import annotations

import ast
import random
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.journal.events import AnyEvent, Attempt, Evaluation, Event, Live, Points, Schema, Seal, State
from clew_shared.journal.files import JournalWriter, Record, attempts, encode_frame, journal_path, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import read_run
from tests.contract import independent_reader
from tests.unit.anything import any_of
from tests.unit.runs import METRICS, begin_run, describe, points, small_run

OTHERS = [kind for kind in get_args(AnyEvent) if kind not in (Attempt, Schema, Points, Evaluation, State, Seal, Live)]
ANY_VALUE = st.floats(width=32)


def assert_read_alike(folder: Path) -> dict[str, Any]:
    """Both readers agree about curves, events, damage and state; returns what the independent one found."""
    theirs, ours = independent_reader.read_run(folder), read_run(folder)
    assert theirs["state"] == ours.fold.state.value
    curves: dict[str, dict[int, tuple[float, float]]] = {}
    for kind in ("points", "evaluations"):
        for name, curve in theirs[kind].items():
            curves.setdefault(name, {}).update(curve)
    assert {name for name, curve in curves.items() if curve} == set(ours.recorded())
    for name in ours.recorded():
        column, expected = ours.column(name), sorted(curves[name].items())
        assert column.steps.tolist() == [step for step, _ in expected]
        np.testing.assert_array_equal(column.values, np.array([value for _, (value, _) in expected]))
        np.testing.assert_allclose(column.clock, [clock for _, (_, clock) in expected], rtol=1e-9, atol=1e-9)
    for attempt in attempts(folder):
        assert_same_frames(folder, attempt, theirs)
    return theirs


def assert_same_frames(folder: Path, attempt: int, theirs: dict[str, Any]) -> None:
    found = list(read_journal(journal_path(folder, attempt)))
    events = theirs["events"][attempt]
    known = [
        msgspec.msgpack.encode(item.event) for item in found if isinstance(item, Record) and item.event is not None
    ]
    told = [msgspec.msgpack.encode(msgspec.convert(event, AnyEvent)) for event in events if event["t"] != "future"]
    assert told == known[: len(told)], "an event was read differently"
    damage = [
        (item.offset, item.offset + item.size) for item in found if not isinstance(item, Record) and not item.tail
    ]
    assert theirs["damage"][attempt] == damage[: len(theirs["damage"][attempt])]
    if attempt == attempts(folder)[-1] and not any(event["t"] == "seal" for event in events):
        assert len(told) == len(known), "only a cut or a seal hides an event"
        assert len(damage) == len(theirs["damage"][attempt]), "only a cut or a seal hides damage"


def write(
    folder: Path, number: int, events: Iterable[Event], first: Mapping[str, int] | None = None, *, seal: bool = True
) -> Path:
    """One attempt's journal, with its first frame and its schema."""
    run = begin_run(folder)
    with JournalWriter.create(run.journal(number)) as writer:
        writer.append(describe(run, number, **(first or {})))
        writer.append(Schema(id=1, metrics=METRICS))
        for event in events:
            writer.append(event)
        if seal:
            writer.seal("trainer")
    return run.journal(number)


def body(start: int, lengths: Iterable[int], evaluate: bool = True) -> Iterable[Event]:
    """Blocks of these lengths from step ``start`` on, each followed by an evaluation."""
    for length in lengths:
        yield points(start, range(length))
        start += length
        if evaluate:
            yield Evaluation(step=start, values={"test_accuracy": 1.0 / (start + 1)}, clock=float(start))


def test_it_is_short_and_knows_nothing_of_ours() -> None:
    source = Path(independent_reader.__file__).read_text(encoding="utf-8")
    assert len(source.splitlines()) < 80
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports}
    assert not [name for name in names if str(name).startswith(("clew", "tests"))]


def test_a_finished_run(tmp_path: Path) -> None:
    found = assert_read_alike(small_run(tmp_path / "run").path)
    assert found["state"] == "FINISHED"
    assert [value for value, _ in found["points"]["W"].values()] == [0, 10, 20, 30]


@given(st.lists(st.one_of([any_of(kind) for kind in OTHERS]), max_size=12), st.lists(ANY_VALUE, min_size=1, max_size=9))
def test_every_kind_of_event_and_every_value(others: list[Event], values: list[float]) -> None:
    with TemporaryDirectory() as folder:
        write(
            Path(folder), 1, [*others, points(0, values), Evaluation(step=1, values={"test_loss": values[0]}), *others]
        )
        assert_read_alike(Path(folder))


@given(st.data())
def test_a_chain_of_attempts_shows_each_step_once(data: st.DataObject) -> None:
    lengths = st.lists(st.integers(1, 6), min_size=1, max_size=5)
    with TemporaryDirectory() as name:
        folder, start = Path(name), 0
        first: dict[str, int] = {}
        for number in range(1, data.draw(st.integers(2, 4)) + 1):
            blocks = data.draw(lengths)
            path = write(folder, number, [*body(start, blocks, data.draw(st.booleans())), *end()], first)
            start = data.draw(st.integers(start, start + sum(blocks)))
            first = {"start_step": start, "resumes": number, "earlier_size": path.stat().st_size}
        found = assert_read_alike(folder)
    steps = sorted(found["points"]["loss"])
    assert steps == list(range(len(steps))), "a step is missing or stands twice"


def end() -> list[Event]:
    return [State(state=RunState.RUNNING), State(state=RunState.STOPPED), State(state=RunState.FINISHED)]


def test_what_a_cut_off_writer_adds_does_not_count(tmp_path: Path) -> None:
    path = write(tmp_path, 1, body(0, [3, 3]), seal=False)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(encode_frame(points(6, [1, 1, 1])))
    write(tmp_path, 2, body(6, [1]), {"start_step": 6, "resumes": 1, "earlier_size": size})
    found = assert_read_alike(tmp_path)
    assert sorted(found["points"]["loss"]) == list(range(7))


def test_an_attempt_that_died_at_once_cuts_nothing(tmp_path: Path) -> None:
    write(tmp_path, 1, [*body(0, [4]), State(state=RunState.STOPPED)])
    write(tmp_path, 2, [State(state=RunState.FAILED)])
    found = assert_read_alike(tmp_path)
    assert (sorted(found["points"]["loss"]), found["state"]) == ([0, 1, 2, 3], "FAILED")


def test_nothing_behind_the_seal_counts(tmp_path: Path) -> None:
    path = write(tmp_path, 1, [*body(0, [3]), State(state=RunState.FAILED)])
    with path.open("ab") as file:
        file.write(encode_frame(points(3, [9, 9])))
    assert sorted(assert_read_alike(tmp_path)["points"]["loss"]) == [0, 1, 2]


@given(st.randoms(use_true_random=False), st.integers(1, 4), st.booleans())
def test_flipped_bits_and_a_torn_tail_hide_the_same(random: random.Random, flips: int, torn: bool) -> None:
    with TemporaryDirectory() as name:
        path = write(Path(name), 1, [*body(0, [5, 40, 1, 7, 90]), State(state=RunState.RUNNING)], seal=not torn)
        whole = bytearray(path.read_bytes())
        begin = (
            int.from_bytes(whole[4:8], "little") + 12
        )  # the first frame says what the file is, the second the columns
        begin += int.from_bytes(whole[begin + 4 : begin + 8], "little") + 12
        for _ in range(flips):
            whole[random.randrange(begin, len(whole))] ^= 1 << random.randrange(8)
        path.write_bytes(whole[: random.randrange(begin, len(whole))] if torn else whole)
        assert_read_alike(Path(name))


def test_unknown_kinds_and_fields_are_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, 1, body(0, [2]), seal=False)
    with path.open("ab") as file:
        file.write(_frame({"t": "future", "time": 1.0, "what": [1, 2]}))
        file.write(_frame({"t": "log", "text": "known", "mood": "unknown"}))
    assert [event["t"] for event in assert_read_alike(tmp_path)["events"][1]][-2:] == ["future", "log"]


def _frame(event: dict[str, object]) -> bytes:
    payload = msgspec.msgpack.encode(event)
    length = struct.pack("<I", len(payload))
    return b"\xc1CLW" + length + struct.pack("<I", zlib.crc32(length + payload)) + payload
