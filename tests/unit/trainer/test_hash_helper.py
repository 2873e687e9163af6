"""A journal that is hashed by a process of its own is the same journal, whatever becomes of that process."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from clew_agent.trainer import hash_helper
from clew_agent.trainer.hash_helper import HashHelper, serve
from clew_agent.trainer.recorder import Recorder, Reserve
from clew_shared.journal.events import Digest, Points, Seal
from clew_shared.journal.files import DIGEST_EVERY, JournalWriter, Record, read_journal
from clew_shared.journal.prefix_hash import PrefixHash

if os.name != "posix":
    pytest.skip("helpers are for POSIX", allow_module_level=True)

BOUND_S = 20.0
SILENT = (sys.executable, "-c", "import sys\nfor line in sys.stdin: pass")


def points(number: int) -> Points:
    return Points(
        schema=1, first=number * 25_000, count=25_000, seconds=1.0, clock=1.0, values=(os.urandom(100_000),) * 3
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.0001"


@pytest.fixture
def writer(path: Path) -> Iterator[JournalWriter]:
    with JournalWriter.create(path) as found:
        yield found


def helped(writer: JournalWriter, command: tuple[str, ...] = hash_helper.COMMAND) -> HashHelper:
    """A helper that knows all that is in the journal and is asked from now on."""
    helper = HashHelper(writer.path, writer.size, command)
    assert writer.hash_with(helper)
    return helper


def check(path: Path) -> int:
    """All digests are those of the bytes before them; returns how many there are, with the seal."""
    data, found = path.read_bytes(), 0
    for item in read_journal(path):
        assert isinstance(item, Record)
        if isinstance(item.event, Digest | Seal):
            found += 1
            assert item.event.size == item.offset
            assert item.event.sha256 == hashlib.sha256(data[: item.offset]).hexdigest()
    return found


def grow(writer: JournalWriter) -> None:
    for number in range(8):
        writer.append(points(number))


def test_digests_and_seal_are_the_same(writer: JournalWriter, path: Path) -> None:
    grow(writer)
    helped(writer)
    grow(writer)
    writer.seal("trainer")
    assert check(path) == 1 + path.stat().st_size // (DIGEST_EVERY + 300_000)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_helper_that_is_killed_is_done_without(writer: JournalWriter, path: Path, number: int) -> None:
    grow(writer)
    helper = helped(writer)
    os.kill(helper.pid, number)
    grow(writer)
    writer.seal("trainer")
    assert check(path) >= 2


def test_a_helper_that_hangs_is_done_without(
    writer: JournalWriter, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(writer)
    helper = helped(writer)
    monkeypatch.setattr(hash_helper, "_PATIENCE_MS", 50)
    os.kill(helper.pid, signal.SIGSTOP)
    grow(writer)
    writer.seal("trainer")
    assert check(path) >= 2


def test_a_helper_that_never_worked_costs_a_look_at_the_file(writer: JournalWriter, path: Path) -> None:
    grow(writer)
    helped(writer, (sys.executable, "-c", "raise SystemExit(1)"))
    grow(writer)
    writer.seal("trainer")
    assert check(path) >= 2


def test_a_file_that_does_not_hold_what_was_written_gets_no_helper(writer: JournalWriter, path: Path) -> None:
    grow(writer)
    before = writer.sha256
    with path.open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    helper = HashHelper(path, writer.size)
    assert not writer.hash_with(helper)
    helper.close()
    assert writer.sha256 == before, "the writer knows what it wrote"


def test_a_file_that_became_shorter_is_an_error_and_no_wrong_digest(writer: JournalWriter, path: Path) -> None:
    grow(writer)
    helped(writer)
    os.truncate(path, 1000)
    with pytest.raises(OSError, match="shorter"):
        grow(writer)


def test_the_helper_ends_with_the_writer(writer: JournalWriter) -> None:
    grow(writer)
    helper = helped(writer)
    process = psutil.Process(helper.pid)
    writer.close()
    assert not process.is_running()


def test_the_helper_ends_when_nobody_can_ask_any_more(path: Path) -> None:
    """As when a trainer is killed: its end of the pipe is closed."""
    path.write_bytes(b"x" * 1000)
    helper = HashHelper(path, 1000)
    helper.hexdigest()
    helper._requests.close()
    assert helper._process.wait(BOUND_S) == 0
    helper._answers.close()


def test_only_what_is_asked_is_answered_and_nothing_for_a_short_file(path: Path) -> None:
    path.write_bytes(b"abcdef")
    answers = io.BytesIO()
    serve(path, io.BytesIO(b"2\n3?\n3?\n6?\n7?\n"), answers)
    three, six = (hashlib.sha256(data).hexdigest().encode() for data in (b"abc", b"abcdef"))
    assert answers.getvalue().split(b"\n") == [three, three, six, b"", b""]


def test_a_prefix_is_read_once_and_grows_with_its_file(path: Path) -> None:
    path.write_bytes(b"abc")
    with PrefixHash(path) as prefix, path.open("ab") as file:
        assert prefix.sha256(5) == hashlib.sha256(b"abc").hexdigest()
        assert prefix.size == 3
        file.write(b"def")
        file.flush()
        assert prefix.sha256(5) == hashlib.sha256(b"abcde").hexdigest()


@pytest.mark.parametrize(("fast", "helpers"), [(1e9, 1), (0.0, 0)])
def test_a_journal_that_grows_fast_gets_a_helper_and_another_none(
    path: Path, monkeypatch: pytest.MonkeyPatch, fast: float, helpers: int
) -> None:
    started: list[int] = []

    class Noted(HashHelper):
        def __init__(self, path: Path, size: int) -> None:
            super().__init__(path, size)
            started.append(size)

    monkeypatch.setattr("clew_agent.trainer.recorder.HashHelper", Noted)
    recorder = Recorder(JournalWriter.create(path), Reserve(path.parent / "reserve"), fast=fast)
    recorder.start()
    for number in range(40):
        recorder.put(points(number))
    with recorder.close() as writer:
        writer.seal("trainer")
    assert len(started) == helpers
    assert all(size >= 4 << 20 for size in started), "a short journal is not worth a process"
    assert check(path) > 5
