"""The journal's byte layer: frames survive any cutting into pieces, and damage never hides what is intact."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew_shared.base.problem import ProblemError
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import AnyEvent, Attempt, Digest, Evaluation, Event, Image, Log, Points, Seal, State
from clew_shared.journal.files import (
    DIGEST_EVERY,
    HEADER_SIZE,
    MAGIC,
    MAX_FRAME,
    Damage,
    FrameReader,
    JournalWriter,
    PrefixHash,
    Record,
    attempts,
    began,
    check_size,
    encode_frame,
    first_attempt,
    journal_bytes,
    journal_path,
    made,
    read_journal,
)
from clew_shared.journal.frames import frame_parts
from clew_shared.journal.lifecycle import RunState
from tests.unit.anything import any_of
from tests.unit.runs import describe, small_run

ATTEMPT = Attempt(format=1, run="r", attempt=1, exercise="softmax", spec_sha256="0" * 64)


def points(first: int, count: int) -> Points:
    return Points(schema=1, first=first, count=count, seconds=0.1, clock=1.0, values=(bytes(4 * count),))


def events_in(path: Path) -> list[AnyEvent | None]:
    """The events of a journal that must be free of damage."""
    items = list(read_journal(path))
    assert not [item for item in items if isinstance(item, Damage)]
    return [item.event for item in items if isinstance(item, Record)]


def test_a_folder_that_another_program_removed_is_none_with_a_beginning(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert (attempts(gone), began(gone), made(gone)) == ((), 0.0, 0.0)


# --- Writing and reading ----------------------------------------------------------------------------------------------


def test_what_was_appended_is_read_back_with_its_place(tmp_path: Path) -> None:
    path = journal_path(tmp_path, 1)
    written = [ATTEMPT, State(state=RunState.STARTING), points(0, 100)]
    with JournalWriter.create(path) as writer:
        ends = [writer.append(event) for event in written]
        assert path.stat().st_size == writer.size == ends[-1]
    records = list(read_journal(path))
    assert [record.event for record in records if isinstance(record, Record)] == written
    assert [record.offset + record.size for record in records] == ends


@pytest.mark.parametrize("columns", [0, 1, 3, 15, 16, 200])
@pytest.mark.parametrize("size", [0, 255, 256, 4000, 65_535, 65_536, 300_000])
def test_columns_that_are_written_as_they_lie_make_the_same_frame(columns: int, size: int) -> None:
    column = memoryview(bytearray(os.urandom(size)))
    values = cast("tuple[bytes, ...]", (column,) * columns)
    event = Points(schema=1, first=7, count=3, seconds=0.5, clock=2.0, time=1.5, values=values)
    payload = msgspec.msgpack.encode(event)
    if len(payload) + HEADER_SIZE > MAX_FRAME:
        with pytest.raises(ProblemError, match=f"{len(payload)} bytes"):
            encode_frame(event)
        return
    length = struct.pack("<I", len(payload))
    assert encode_frame(event) == MAGIC + length + struct.pack("<I", zlib.crc32(length + payload)) + payload
    assert len(frame_parts(event)) == (1 if columns * size <= 1 << 16 or columns > 100 else 1 + 2 * columns)


def test_an_attempt_is_never_written_twice(tmp_path: Path) -> None:
    JournalWriter.create(tmp_path / "journal.0001").close()
    with pytest.raises(FileExistsError):
        JournalWriter.create(tmp_path / "journal.0001")


def test_attempts_are_found_by_their_file_names(tmp_path: Path) -> None:
    for name in ("journal.0002", "journal.0001", "journal.12345"):
        (tmp_path / name).touch()
    for name in ("journal.txt", "journal.1", "journal.00003", "journal.0000", "journal.٠٠٠٤", "spec.toml"):
        (tmp_path / name).touch()
    assert attempts(tmp_path) == (1, 2, 12345)
    assert attempts(tmp_path / "absent") == ()


def test_a_folder_that_is_made_while_it_is_looked_for_has_no_attempts_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent makes the folder of a run, and that of a refused run again, while a command looks there."""
    folder, look = tmp_path / "run", os.scandir

    def look_before_it_is_made(path: Path) -> object:
        try:
            return look(path)
        finally:
            folder.mkdir()

    monkeypatch.setattr(os, "scandir", look_before_it_is_made)
    assert attempts(folder) == ()


@pytest.mark.unix("a FIFO")
def test_a_fifo_or_device_is_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal.0001")
    os.mkfifo(tmp_path / "journal.0002")
    (tmp_path / "journal.0003").symlink_to("/dev/zero")
    (tmp_path / "journal.0004").touch()
    (tmp_path / "journal.0005").symlink_to(tmp_path / "journal.0004")
    assert attempts(tmp_path) == (4, 5)


def test_a_digest_stands_every_mebibyte_and_the_seal_covers_all(tmp_path: Path) -> None:
    path = tmp_path / "journal.0001"
    with JournalWriter.create(path) as writer:
        for block in range(30):
            writer.append(points(block * 25_000, 25_000))
        size = writer.seal("trainer")
        assert writer.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    data = path.read_bytes()
    marks = [r for r in read_journal(path) if isinstance(r, Record) and isinstance(r.event, Digest | Seal)]
    assert len(marks) == 1 + len(data) // (DIGEST_EVERY + 100_000)
    for mark in marks:
        assert isinstance(mark.event, Digest | Seal)
        assert mark.event.size == mark.offset
        assert mark.event.sha256 == hashlib.sha256(data[: mark.offset]).hexdigest()
    assert isinstance(marks[-1].event, Seal)
    assert marks[-1].offset + marks[-1].size == size == len(data)


def test_nothing_follows_a_seal(tmp_path: Path) -> None:
    with JournalWriter.create(tmp_path / "journal.0001") as writer:
        writer.seal("trainer")
        with pytest.raises(ProblemError, match="sealed"):
            writer.append(ATTEMPT)
        with pytest.raises(ProblemError, match="sealed"):
            writer.seal("guard")


def test_an_event_that_is_too_large_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    fits = (
        MAX_FRAME - HEADER_SIZE - len(encode_frame(Log(text=""))) + HEADER_SIZE - 4
    )  # a long text's length takes 4 more
    assert len(encode_frame(Log(text="x" * fits))) == MAX_FRAME
    with JournalWriter.create(tmp_path / "journal.0001") as writer:
        with pytest.raises(ProblemError, match="1048576 bytes"):
            writer.append(Log(text="x" * (fits + 1)))
        assert writer.size == 0


def test_the_byte_layer_and_all_that_the_supervisor_needs_import_no_numpy() -> None:
    names = [
        "clew_shared.cards",
        "clew_shared.journal.events",
        "clew_shared.journal.files",
        "clew_shared.journal.lifecycle",
        "clew_shared.wire.messages",
        "clew_shared.params",
        "clew_shared.base.places",
        "clew_shared.base.problem",
        "clew_shared.journal.run_folder",
        "clew_shared.spec",
        "clew_shared.journal.events",
        "clew_shared.journal.verify",
    ]
    lines = [*(f"import {name}" for name in names), "import sys; print('numpy' in sys.modules)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# --- Reading in pieces, damaged, torn ---------------------------------------------------------------------------------

TINY: list[Event] = [ATTEMPT, Log(text="one"), points(0, 3), Log(text="zwei"), State(state=RunState.FINISHED)]


def read_in_pieces(data: bytes, cuts: list[int]) -> list[Record | Damage]:
    reader, found, start = FrameReader(), [], 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        found += reader.feed(data[start:cut])
        start = cut
    return found + reader.finish()


@given(st.data())
def test_pieces_do_not_matter_whatever_the_bytes_are(data: st.DataObject) -> None:
    parts = st.one_of(
        st.sampled_from([encode_frame(event) for event in TINY]),
        st.binary(max_size=40),
        st.binary(max_size=8).map(lambda tail: MAGIC + tail),
        st.sampled_from([encode_frame(event)[:-3] for event in TINY]),
    )
    stream = b"".join(data.draw(st.lists(parts, max_size=8)))
    whole = read_in_pieces(stream, [])
    assert read_in_pieces(stream, data.draw(st.lists(st.integers(0, len(stream)), max_size=20))) == whole
    assert read_in_pieces(stream, list(range(len(stream)))) == whole
    covered = 0
    for item in whole:  # every byte is accounted for exactly once
        assert item.offset == covered
        covered += item.size
    assert covered == len(stream)


def test_any_flipped_byte_costs_its_own_frame_and_no_other() -> None:
    frames = [encode_frame(event) for event in TINY]
    stream = b"".join(frames)
    starts = [sum(map(len, frames[:i])) for i in range(len(frames) + 1)]
    for place in range(len(stream)):
        hurt = bytearray(stream)
        hurt[place] ^= 0x41
        found = read_in_pieces(bytes(hurt), [])
        index = max(i for i in range(len(frames)) if starts[i] <= place)
        damages = [item for item in found if isinstance(item, Damage)]
        assert [(d.offset, d.size) for d in damages] == [(starts[index], len(frames[index]))]
        assert [r.event for r in found if isinstance(r, Record)] == TINY[:index] + TINY[index + 1 :]
        assert f"bytes {starts[index]}–{starts[index + 1] - 1}" in damages[0].text


def test_a_frame_inside_a_payload_fools_nobody() -> None:
    inner = encode_frame(State(state=RunState.FINISHED))
    outer = Image(name="trap", step=1, width=1, height=len(inner), channels=1, data=inner)
    stream = encode_frame(ATTEMPT) + encode_frame(outer) + encode_frame(Log(text="end"))
    for cuts in ([], list(range(len(stream)))):
        found = read_in_pieces(stream, cuts)
        assert [item.event for item in found if isinstance(item, Record)] == [ATTEMPT, outer, Log(text="end")]


def test_a_frame_that_is_being_written_is_no_damage_until_it_stays_torn() -> None:
    first, second = encode_frame(ATTEMPT), encode_frame(Log(text="half"))
    reader = FrameReader()
    assert [item.offset for item in reader.feed(first + second[:-1])] == [0]
    assert (reader.offset, reader.missing) == (len(first), 1)
    assert reader.feed(second[-1:]) == [Record(len(first), len(second), Log(text="half"))]
    assert (reader.missing, reader.finish()) == (0, [])

    torn = FrameReader(offset=1000)
    torn.feed(second[:-1])
    assert [(d.offset, d.size, d.tail) for d in torn.finish() if isinstance(d, Damage)] == [
        (1000, len(second) - 1, True)
    ]


def test_an_unknown_kind_is_skipped_and_a_broken_known_one_is_damage() -> None:
    def frame(content: object) -> bytes:
        payload = msgspec.msgpack.encode(content)
        length = struct.pack("<I", len(payload))
        return MAGIC + length + struct.pack("<I", zlib.crc32(length + payload)) + payload

    new, broken, text, empty = frame({"t": "hologram", "x": 1}), frame({"t": "log"}), frame("hello"), frame({})
    found = read_in_pieces(new + broken + text + empty, [])
    assert found[0] == Record(0, len(new), None)
    assert [type(item) for item in found[1:]] == [Damage, Damage, Damage]
    assert "cannot be read" in str(found[1])


def test_fields_of_a_later_version_are_ignored() -> None:
    payload = msgspec.msgpack.encode({"t": "log", "text": "hello", "colour": "red"})
    length = struct.pack("<I", len(payload))
    stream = MAGIC + length + struct.pack("<I", zlib.crc32(length + payload)) + payload
    assert read_in_pieces(stream, []) == [Record(0, len(stream), Log(text="hello"))]


# --- Sealing behind a dead writer -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 3, 4, 6, 8, 11, 12, 13, 40])
def test_a_guard_seals_behind_a_torn_tail_and_cuts_nothing(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "journal.0001"
    torn = encode_frame(Log(text="x" * 300))[:kept]
    path.write_bytes(encode_frame(ATTEMPT) + torn)
    before = path.read_bytes()
    with JournalWriter.open_to_seal(path) as guard:
        assert not guard.sealed
        guard.append(State(state=RunState.FAILED, reason="killed"))
        guard.seal("guard")
    assert path.read_bytes().startswith(before)
    reader = FrameReader()
    live = reader.feed(path.read_bytes())  # a reader that waits for the torn frame goes on without being told
    kinds = [type(item.event).__name__ if isinstance(item, Record) else "damage" for item in live]
    assert kinds == ["Attempt", "damage", "State", "Seal"]
    seal = live[-1]
    assert isinstance(seal, Record)
    assert isinstance(seal.event, Seal)
    assert seal.event.sha256 == hashlib.sha256(path.read_bytes()[: seal.offset]).hexdigest()


def test_what_is_sealed_needs_no_guard(tmp_path: Path) -> None:
    path = tmp_path / "journal.0001"
    with JournalWriter.create(path) as writer:
        writer.append(ATTEMPT)
        writer.seal("trainer")
    before = path.read_bytes()
    with JournalWriter.open_to_seal(path) as guard:
        assert guard.sealed
        with pytest.raises(ProblemError, match="sealed"):
            guard.seal("guard")
    assert path.read_bytes() == before


# --- A disk that refuses ----------------------------------------------------------------------------------------------


class FullDisk:
    """Stands for ``os.write`` and ``os.writev`` on a disk with ``room`` bytes left: takes what fits, then refuses."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def gather(self, descriptor: int, parts: Sequence[bytes]) -> int:
        return self(descriptor, b"".join(parts))

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize(("event", "room"), [(Log(text="does not fit"), 17), (points(0, 50_000), 150_000)])
def test_a_full_disk_leaves_the_file_as_it_was_and_the_same_call_works_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: Event, room: int
) -> None:
    path = tmp_path / "journal.0001"
    disk = FullDisk(room)
    with JournalWriter.create(path) as writer:
        size = writer.append(ATTEMPT)
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", disk)
            patch.setattr(os, "writev", disk.gather, raising=False)  # Windows has none
            with pytest.raises(OSError, match="No space"):
                writer.append(event)
        assert (writer.size, path.read_bytes()) == (size, before)
        writer.append(Log(text="fits now"))
        writer.seal("trainer")
    assert [type(event) for event in events_in(path)] == [Attempt, Log, Seal]


def test_a_leftover_that_cannot_be_taken_back_at_once_is_taken_back_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.0001"
    with JournalWriter.create(path) as writer:
        writer.append(ATTEMPT)

        def refuse(descriptor: int, size: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", FullDisk(room=17))
            patch.setattr(os, "ftruncate", refuse)
            with pytest.raises(OSError, match="No space"):
                writer.append(Log(text="does not fit"))
        assert path.stat().st_size == writer.size + 17
        writer.append(Log(text="fits now"))
    assert events_in(path) == [ATTEMPT, Log(text="fits now")]


# --- Size -------------------------------------------------------------------------------------------------------------


def test_the_forecast_is_near_what_a_run_writes(tmp_path: Path) -> None:
    metrics = (MetricSpec(name="loss", label="loss"), MetricSpec(name="test", label="test", per_step=False))
    with JournalWriter.create(tmp_path / "journal.0001") as writer:
        for first in range(0, 10_000, 100):
            writer.append(points(first, 100))
        assert 0.9 < journal_bytes(10_000, metrics) / writer.size < 1.1


def test_a_run_whose_journal_would_exceed_two_gibibytes_is_refused_with_what_fits() -> None:
    metrics = [MetricSpec(name=name, label=name, dtype="float64") for name in ("loss", "W", "b")]
    check_size(1_000_000, metrics)
    with pytest.raises(ProblemError, match="limit is 2 GiB") as refused:
        check_size(1_000_000_000, metrics)
    words = refused.value.problems[0].hint
    most = int("".join(filter(str.isdigit, words)))
    check_size(most, metrics)
    with pytest.raises(ProblemError):
        check_size(most + 1_000, metrics)


def test_the_beginning_of_a_long_journal_is_found_in_its_first_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_run(tmp_path, [Log(text="x" * 1000) for _ in range(200)])
    assert folder.journal(1).stat().st_size > 150_000
    taken: list[int] = []

    def feed(self: FrameReader, data: bytes, real: Any = FrameReader.feed) -> list[Record | Damage]:
        taken.append(len(data))
        found: list[Record | Damage] = real(self, data)
        return found

    monkeypatch.setattr(FrameReader, "feed", feed)
    first = first_attempt(folder.journal(1))
    assert first is not None
    assert first.exercise == describe(folder).exercise
    assert sum(taken) <= 64 * 1024
    assert first_attempt(folder.journal(2)) is None


# --- Every kind of event comes back from its bytes as it was, whatever it holds ---------------------------------------

KINDS: tuple[type[Event], ...] = get_args(AnyEvent)
RESERVED = {
    "attempt", "schema", "points", "evaluation", "series", "image", "histogram", "matrix", "updates", "peer", "state",
    "live", "checkpoint", "files", "log", "digest", "diverged", "seal",
    "predicted", "pulse", "trace",
}  # fmt: skip


def test_the_reserved_kinds_are_all_there_and_each_has_its_own_name() -> None:
    assert {kind.__struct_config__.tag for kind in KINDS} == RESERVED
    assert len(KINDS) == len(RESERVED)


@given(st.one_of([any_of(kind) for kind in KINDS]))
def test_every_event_comes_back_from_its_frame(event: Event) -> None:
    frame = encode_frame(event)
    assert [(item.event, item.size) for item in FrameReader().feed(frame) if isinstance(item, Record)] == [
        (event, len(frame))
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_values_that_are_not_finite_survive(value: float) -> None:
    event = Evaluation(step=1, values={"loss": value})
    (record,) = FrameReader().feed(encode_frame(event))
    assert isinstance(record, Record)
    assert isinstance(record.event, Evaluation)
    assert str(record.event.values["loss"]) == str(value)


def test_defaults_cost_no_bytes() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Log(text="x"))) == {"t": "log", "text": "x"}
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(State(state=RunState.RUNNING))) == {
        "t": "state",
        "state": "RUNNING",
    }


def test_events_cannot_be_changed() -> None:
    event = Points(schema=1, first=0, count=1, seconds=1.0, clock=1.0, values=(b"",))
    with pytest.raises(AttributeError):
        event.count = 2  # type: ignore[misc]


# --- The hash of the beginning of a file that may still grow ----------------------------------------------------------


def test_a_prefix_is_read_once_and_grows_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.0001"
    path.write_bytes(b"abc")
    with PrefixHash(path) as prefix, path.open("ab") as file:
        assert prefix.sha256(5) == hashlib.sha256(b"abc").hexdigest()
        assert prefix.size == 3
        file.write(b"def")
        file.flush()
        assert prefix.sha256(5) == hashlib.sha256(b"abcde").hexdigest()
