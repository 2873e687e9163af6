"""``verify`` finds every changed byte, names file and place, and never stumbles."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clew_shared.base.problem import ProblemError
from clew_shared.journal import run_folder
from clew_shared.journal.events import Attempt, Event, FileRecord, Files, Log, Seal, State
from clew_shared.journal.files import JournalWriter, Record, encode_frame, read_journal
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder, final_files, other_files, record_file, recorded_files
from clew_shared.journal.verify import Fault, verify_run
from clew_shared.reading import read_run
from tests.unit.runs import begin_run, describe, end_run, points, small_run, write_checkpoint


def found(folder: RunFolder) -> list[str]:
    return [str(finding) for finding in verify_run(folder.path).findings]


def test_an_untouched_run_is_in_order(tmp_path: Path) -> None:
    report = verify_run(small_run(tmp_path / "run").path)
    assert report.ok
    assert report.findings == ()
    assert (report.files, report.frames) == (7, 11)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert report.bytes == sum(path.stat().st_size for path in files)


def test_a_run_that_still_trains_is_checked_up_to_here(tmp_path: Path) -> None:
    """Its journal has no end, its last frame may be half there, and files have no record yet or grow on."""
    folder = small_run(tmp_path / "run")
    with JournalWriter.create(folder.journal(2)) as writer:
        writer.append(describe(folder, 2))
        folder.log.write_text("attempt 2 prints on", encoding="utf-8")
        (folder.path / ".reserve-2").write_bytes(bytes(10))
        with writer.path.open("ab") as file:
            file.write(encode_frame(points(0, [3.0]))[:-2])
        assert verify_run(folder.path, trains=True).findings == ()
        assert {one.file for one in verify_run(folder.path).findings} == {"journal.0002", "log.txt", ".reserve-2"}
        picture = folder.artifacts / "picture.bin"
        picture.write_bytes(b"changed")
        assert [one.file for one in verify_run(folder.path, trains=True).findings] == ["artifacts/picture.bin"]


@pytest.mark.needs("quick-system")
@pytest.mark.parametrize("make", [small_run, lambda path: two_attempts(path), lambda path: two_attempts(path, False)])
def test_every_flipped_byte_of_every_file_is_found_in_its_file_and_near_its_place(
    tmp_path: Path, make: Callable[[Path], RunFolder]
) -> None:
    folder = make(tmp_path / "run")
    for path in sorted(path for path in folder.path.rglob("*") if path.is_file()):
        content, name = path.read_bytes(), path.relative_to(folder.path).as_posix()
        for place in range(len(content)):
            hurt = bytearray(content)
            hurt[place] ^= 1 << place % 8
            path.write_bytes(hurt)
            report = verify_run(folder.path)
            here = [finding for finding in report.findings if finding.file == name]
            assert not report.ok, (name, place)
            assert here, (name, place)
            start, end = (int(part) for part in here[0].text.split(":")[0].removeprefix("bytes ").split("–"))
            assert here[0].offset == start <= place <= end, (name, place, str(here[0]))
        path.write_bytes(content)
    assert verify_run(folder.path).ok


@pytest.mark.needs("quick-system")
def test_every_length_that_a_file_can_be_cut_to_is_found(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    for path in sorted(path for path in folder.path.rglob("*") if path.is_file()):
        content, name = path.read_bytes(), path.relative_to(folder.path).as_posix()
        for size in range(len(content)):
            path.write_bytes(content[:size])
            assert name in {finding.file for finding in verify_run(folder.path).findings}, (name, size)
        path.write_bytes(content)


def test_the_block_of_a_change_in_a_large_file_is_named(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        writer.append(write_checkpoint(folder, 7, size=20_000))
        end_run(folder, writer)
    assert verify_run(folder.path).ok
    data = folder.checkpoint(7) / "data"
    content = bytearray(data.read_bytes())
    content[9_999] ^= 1
    data.write_bytes(content)
    assert verify_run(folder.path).findings == (
        Fault("checkpoints/00000007/data", 8192, "bytes 8192–12287: changed since they were recorded"),
    )


def append_to(name: str, data: bytes) -> Callable[[RunFolder], None]:
    def act(folder: RunFolder) -> None:
        path = folder.path / name
        path.write_bytes(path.read_bytes() + data)

    return act


def remove(name: str) -> Callable[[RunFolder], None]:
    return lambda folder: (folder.path / name).unlink()


def write(name: str, data: bytes) -> Callable[[RunFolder], None]:
    def act(folder: RunFolder) -> None:
        path = folder.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    return act


def link(name: str) -> Callable[[RunFolder], None]:
    def act(folder: RunFolder) -> None:
        path = folder.path / name
        path.rename(folder.path.parent / "elsewhere")
        path.symlink_to(folder.path.parent / "elsewhere")

    return act


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (append_to("log.txt", b"x"), ["log.txt: has 15 bytes, but 14 were recorded"]),
        (append_to("artifacts/empty.txt", b"x"), ["artifacts/empty.txt: has 1 bytes, but 0 were recorded"]),
        (remove("log.txt"), ["log.txt: is missing"]),
        (remove("spec.toml"), ["spec.toml: is missing"]),
        (remove("checkpoints/00000004/data"), ["checkpoints/00000004/data: is missing"]),
        pytest.param(
            link("log.txt"), ["log.txt: is not a plain file any more"], marks=pytest.mark.unix("links for everybody")
        ),
        (write("artifacts/new.txt", b""), ["artifacts/new.txt: is not recorded in the run's journal"]),
        (write("peers/worker.txt", b"hello"), ["peers/worker.txt: is not recorded in the run's journal"]),
    ],
    ids=["longer", "longer from nothing", "gone", "spec gone", "part gone", "link", "new", "new below"],
)
def test_lengthened_missing_replaced_and_added_files(
    tmp_path: Path, act: Callable[[RunFolder], None], expected: list[str]
) -> None:
    folder = small_run(tmp_path / "run")
    act(folder)
    assert found(folder) == expected


def test_frames_and_bytes_behind_the_seal_are_found(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    path = folder.journal(1)
    size = path.stat().st_size
    frame = encode_frame(State(state=RunState.FAILED))
    append_to("journal.0001", frame)(folder)
    assert found(folder) == [f"journal.0001: bytes {size}–{size + len(frame) - 1}: written after the seal"]


def rewrite(path: Path, change: Callable[[Event], Event | None]) -> None:
    """Write the journal again with consistent checksums but without a matching digest: what a careful hand would do."""
    events = [item.event for item in read_journal(path) if isinstance(item, Record)]
    changed = [event if event is None else change(event) for event in events]
    path.write_bytes(b"".join(encode_frame(event) for event in changed if event is not None))


def test_a_frame_that_was_replaced_with_a_right_checksum_contradicts_the_seal(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    rewrite(folder.journal(1), lambda event: Log(text="a Sentence") if isinstance(event, Log) else event)
    (text,) = found(folder)
    assert text.startswith("journal.0001: bytes 0–")
    assert "SHA-256" in text


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda event: None if isinstance(event, Seal) else event, "is not sealed"),
        (lambda event: None if isinstance(event, Attempt) else event, "does not begin with the description"),
        (
            lambda event: msgspec.structs.replace(event, attempt=3) if isinstance(event, Attempt) else event,
            "describes attempt 3, not 1",
        ),
        (
            lambda event: msgspec.structs.replace(event, resumes=1) if isinstance(event, Attempt) else event,
            "continues attempt 1, which is missing",
        ),
        (
            lambda event: msgspec.structs.replace(event, spec_sha256="0" * 64) if isinstance(event, Attempt) else event,
            "not the spec that the run was started with",
        ),
    ],
    ids=["no seal", "no attempt", "another attempt", "no earlier attempt", "another spec"],
)
def test_journals_that_contradict_themselves(
    tmp_path: Path, change: Callable[[Event], Event | None], expected: str
) -> None:
    folder = small_run(tmp_path / "run")
    rewrite(folder.journal(1), change)
    assert any(expected in text for text in found(folder))


def test_a_run_that_has_not_ended_is_unsealed_and_nothing_else(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    folder.log.write_text("so far")
    with JournalWriter.create(folder.journal(1)) as writer:
        size = writer.append(describe(folder))
        assert found(folder) == [f"journal.0001: is not sealed: it ends at byte {size} without its last frame"]


def test_digests_narrow_down_what_was_changed(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        for index in range(40):
            writer.append(Log(text=f"{index:02} " + "x" * 60_000))
        end_run(folder, writer)
    assert verify_run(folder.path).ok

    def replace(event: Event) -> Event:
        hit = isinstance(event, Log) and event.text.startswith("20")
        return Log(text="20 " + "y" * 60_000) if hit else event

    rewrite(folder.journal(1), replace)
    (finding,) = verify_run(folder.path).findings
    assert finding.offset is not None
    assert 1_000_000 < finding.offset < 1_200_000


def test_records_that_lead_elsewhere_are_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    names = ("../secret", str(tmp_path / "secret"), "", "a\0b", "a\\b", "D:x", "artifacts/NUL", "a:b")
    records = tuple(FileRecord(path=name, size=6, sha256="0" * 64) for name in names)
    folder = small_run(tmp_path / "run", extra=[Files(files=records)])
    assert [finding.file for finding in verify_run(folder.path).findings] == list(names)
    assert all("leads out of the run folder" in text for text in found(folder))


@pytest.mark.unix("Windows has no such names")
def test_a_file_that_only_another_system_would_take_for_something_else_is_compared(tmp_path: Path) -> None:
    names = ("artifacts/2026-11-26 12:30.csv", "artifacts/aux.txt", "artifacts/end.")
    empty = hashlib.sha256(b"").hexdigest()
    folder = small_run(
        tmp_path / "run", extra=[Files(files=tuple(FileRecord(path=name, size=0, sha256=empty) for name in names))]
    )
    folder.artifacts.mkdir(exist_ok=True)
    for name in names:
        (folder.path / name).touch()
    assert verify_run(folder.path).findings == ()
    (folder.path / names[0]).write_text("changed", encoding="utf-8")
    assert [finding.file for finding in verify_run(folder.path).findings] == [names[0]]


def test_a_disk_that_gives_letters_and_accents_apart_has_the_same_files(tmp_path: Path) -> None:
    name = "artifacts/Zoë.txt"
    record = FileRecord(path=name, size=0, sha256=hashlib.sha256(b"").hexdigest())
    folder = small_run(tmp_path / "run", extra=[Files(files=(record,))])
    folder.artifacts.mkdir(exist_ok=True)
    (folder.path / unicodedata.normalize("NFD", name)).touch()
    assert verify_run(folder.path).findings == ()


@pytest.mark.parametrize(("blocks", "block_size"), [(b"", 4096), (b"123", 4096), (bytes(8), 0), (bytes(8), 1 << 40)])
def test_a_record_without_usable_block_sums_still_has_its_hash(tmp_path: Path, blocks: bytes, block_size: int) -> None:
    folder = begin_run(tmp_path / "run")
    (folder.path / "a.txt").write_bytes(b"hello")
    sha256 = hashlib.sha256(b"hello").hexdigest()
    record = FileRecord(path="a.txt", size=5, sha256=sha256, blocks=blocks, block_size=block_size)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        end_run(folder, writer)
    rewrite_files = Files(files=(record,))
    folder.journal(1).unlink()
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        writer.append(rewrite_files)
        end_run(folder, writer)
    assert verify_run(folder.path).ok
    (folder.path / "a.txt").write_bytes(b"hellO")
    assert found(folder) == ["a.txt: bytes 0–4: changed since they were recorded"]


def test_a_file_that_was_removed_on_purpose_is_recorded_as_such(tmp_path: Path) -> None:
    gone = FileRecord(path="checkpoints/00000004/data", size=-1, sha256="")
    folder = small_run(tmp_path / "run", extra=[Files(files=(gone,))])
    assert found(folder) == ["checkpoints/00000004/data: was recorded as removed"]
    (folder.checkpoint(4) / "data").unlink()
    assert verify_run(folder.path).ok


def no_file(folder: Path) -> str | None:
    """What the system says of a folder that is read like a file."""
    with pytest.raises(OSError) as caught:
        folder.read_bytes()
    return caught.value.strerror


def test_what_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    folder.spec.unlink()
    folder.spec.mkdir()
    folder.journal(1).unlink()
    folder.journal(1).mkdir()
    assert f"journal.0001: cannot be read: {no_file(folder.spec)}" in found(folder)


@pytest.mark.unix("a FIFO")
def test_a_pipe_in_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    folder.log.unlink()
    os.mkfifo(folder.log)
    assert found(folder) == ["log.txt: is not a plain file any more"]


def test_a_folder_without_journal_is_a_finding_and_no_folder_a_refusal(tmp_path: Path) -> None:
    assert found(RunFolder(tmp_path / "clew-home")) == ["journal.0001: is missing"]
    with pytest.raises(ProblemError, match="not a folder"):
        verify_run(tmp_path / "absent")


def test_the_spec_is_covered_before_the_run_has_ended(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
    folder.spec.unlink()
    assert "spec.toml: is missing" in found(folder)
    folder.spec.mkdir()
    assert f"spec.toml: cannot be read: {no_file(folder.spec)}" in found(folder)


def test_a_recorded_name_that_no_file_system_takes_is_a_finding(tmp_path: Path) -> None:
    name = "n" * 300
    record = FileRecord(path=name, size=0, sha256="0" * 64)
    folder = small_run(tmp_path / "run", extra=[Files(files=(record,))])
    assert [finding.file for finding in verify_run(folder.path).findings] == [name]


def test_a_file_named_like_a_far_attempt_makes_few_findings(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    folder.journal(10**15).write_bytes(b"")
    assert "journal.0002: is missing" in found(folder)
    assert len(found(folder)) < 30
    folder.journal(10**15).unlink()
    (folder.path / "journal.00001").write_bytes(b"")
    assert found(folder) == ["journal.00001: is not recorded in the run's journal"]


# --- Several attempts -------------------------------------------------------------------------------------------------


def two_attempts(path: Path, sealed: bool = True) -> RunFolder:
    """Attempt 1 was stopped, or died unsealed; attempt 2 went on from its checkpoint at step 2."""
    folder = begin_run(path)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        size, sha256 = writer.append(write_checkpoint(folder, 2)), writer.sha256
        writer.append(points(2, [1.0]))
        folder.log.write_text("one\n")
        if sealed:
            end_run(folder, writer, RunState.STOPPED)
    changes = {"resumes": 1, "start_step": 2, "earlier_size": size, "earlier_sha256": sha256}
    with JournalWriter.create(folder.journal(2)) as writer:
        writer.append(describe(folder, 2, **changes))
        writer.append(write_checkpoint(folder, 4))
        folder.log.write_text("one\ntwo\n")
        end_run(folder, writer)
    return folder


@pytest.mark.parametrize("sealed", [True, False])
def test_a_later_attempt_vouches_for_the_earlier_one(tmp_path: Path, sealed: bool) -> None:
    folder = two_attempts(tmp_path / "run", sealed)
    assert found(folder) == []
    append_to("journal.0001", encode_frame(Log(text="from a node that was cut off")))(folder)
    assert found(folder) == []


def test_an_earlier_attempt_that_was_rebuilt_contradicts_the_later_one(tmp_path: Path) -> None:
    folder = two_attempts(tmp_path / "run")
    first = folder.journal(1)
    events = [item.event for item in read_journal(first) if isinstance(item, Record)]
    first.unlink()
    with JournalWriter.create(first) as writer:
        for event in events:
            if isinstance(event, Attempt):
                writer.append(msgspec.structs.replace(event, seed=2))
            elif event is not None and not isinstance(event, Seal):
                writer.append(event)
        writer.seal("trainer")
    assert [text for text in found(folder) if "attempt 2 found there" in text]


def test_missing_shortened_and_foreign_attempts_are_found(tmp_path: Path) -> None:
    folder = two_attempts(tmp_path / "run")
    shutil.copytree(folder.path, tmp_path / "short")
    short = RunFolder(tmp_path / "short")
    short.journal(1).write_bytes(short.journal(1).read_bytes()[:-300][:200])
    assert any("attempt 2 found" in text for text in found(short))
    shutil.copytree(folder.path, tmp_path / "foreign")
    foreign = RunFolder(tmp_path / "foreign")
    rewrite(
        foreign.journal(1),
        lambda event: msgspec.structs.replace(event, run="x") if isinstance(event, Attempt) else event,
    )
    assert any("belongs to run" in text for text in found(foreign))
    folder.journal(1).unlink()
    assert "journal.0001: is missing" in found(folder)


# --- Records of files -------------------------------------------------------------------------------------------------


def test_a_large_file_gets_larger_blocks_so_that_its_record_fits_into_a_frame(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(300 << 20)  # sparse: nothing is written
    record = record_file(tmp_path, path)
    assert (record.size, record.block_size, len(record.blocks)) == (300 << 20, 16384, 4 * 19200)


@pytest.mark.needs("quick-system")
def test_many_files_are_recorded_in_several_events_each_fitting_a_frame(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    folder.artifacts.mkdir()
    for index in range(4000):
        (folder.artifacts / f"{index:04}-{'n' * 100}").write_bytes(b"x")
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        events = final_files(folder.path)
        assert len(events) > 1
        for event in events:
            writer.append(event)
        writer.append(State(state=RunState.FINISHED))
        writer.seal("trainer")
    assert verify_run(folder.path).ok
    assert len(names_in(events)) == len(other_files(folder.path)) == 4001


def test_checkpoints_are_not_read_again_at_the_end_but_the_log_is(tmp_path: Path) -> None:
    folder = small_run(tmp_path / "run")
    assert names_in(final_files(folder.path)) == ["log.txt"]
    assert "checkpoints/00000004/data" in names_in(final_files(folder.path, recorded=()))


def names_in(events: Sequence[Files | Log]) -> list[str]:
    """The paths that these events record."""
    return [record.path for event in events if isinstance(event, Files) for record in event.files]


def said_in(events: Sequence[Files | Log]) -> str:
    return " ".join(event.text for event in events if isinstance(event, Log))


def nest(folder: Path, name: str, depth: int) -> None:
    """Folders in folders with a file in the innermost, made step by step, as a path to it may be too long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("weights", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.mark.unix("paths of any length")
@pytest.mark.parametrize(("name", "depth", "kept"), [("d", 1500, True), ("d" * 250, 17, False), ("d", 3000, False)])
def test_folders_of_any_depth_are_recorded_or_named(name: str, depth: int, kept: bool, tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    folder.artifacts.mkdir()
    (folder.artifacts / "a.txt").write_text("a")
    nest(folder.artifacts, name, depth)
    try:
        events = final_files(folder.path)
        assert "artifacts/a.txt" in names_in(events)
        assert ("weights" in "".join(names_in(events))) is kept
        assert ("File name too long" in said_in(events)) is not kept
        assert len(said_in(events)) < 300
    finally:
        subprocess.run(["rm", "-rf", folder.artifacts], check=True)  # Python's own removal goes as deep as it calls


@pytest.mark.unix("a FIFO, a socket, links")
def test_what_is_no_file_is_named_and_not_waited_for(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    folder.artifacts.mkdir()
    os.mkfifo(folder.artifacts / "fifo")
    (folder.artifacts / "loop").symlink_to("loop")
    (folder.artifacts / "gone").symlink_to("nowhere")
    (folder.artifacts / "round").symlink_to(".")
    (folder.artifacts / "kept").write_text("x")
    with (folder.artifacts / "holes").open("wb") as file:
        file.truncate(1 << 40)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(folder.artifacts / "socket"))
        events = final_files(folder.path)
    assert [name for name in names_in(events) if name.startswith("artifacts")] == ["artifacts/kept"]
    assert said_in(events) == (
        "Not recorded of the files that the run leaves: artifacts/fifo (no regular file), artifacts/gone (no regular"
        " file), artifacts/holes (more than 275 GB), 2 more files."
    )


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), FileNotFoundError(2, "No such file")])
def test_a_file_that_cannot_be_read_is_named(error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, read = begin_run(tmp_path / "run"), Path.open
    folder.artifacts.mkdir()
    (folder.artifacts / "secret").write_text("x")

    def refuse(path: Path, *how: Any) -> Any:
        if path.name == "secret":
            raise error
        return read(path, *how)

    monkeypatch.setattr(Path, "open", refuse)
    events = final_files(folder.path)
    assert "spec.toml" in names_in(events)
    assert said_in(events) == f"Not recorded of the files that the run leaves: artifacts/secret ({error.strerror})."


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, look = begin_run(tmp_path / "run"), os.scandir
    (folder.artifacts / "inner").mkdir(parents=True)

    def refuse(path: Path) -> Any:
        if path.name == "inner":
            raise PermissionError(13, "Permission denied")
        return look(path)

    monkeypatch.setattr(os, "scandir", refuse)
    words = "Not recorded of the files that the run leaves: artifacts/inner (a folder that cannot be read)."
    assert said_in(final_files(folder.path)) == words


def test_of_very_many_files_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "_MOST_FILES", 10)
    folder = begin_run(tmp_path / "run")
    folder.artifacts.mkdir()
    for number in range(30):
        (folder.artifacts / str(number)).touch()
    events = final_files(folder.path)
    assert len(names_in(events)) == 10
    assert "spec.toml" in names_in(events)
    assert said_in(events) == "Not recorded of the files that the run leaves: 21 more files."


@pytest.mark.unix("file names that are no text")
def test_a_file_whose_name_is_no_text_is_recorded_readably_and_covered(tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run")
    folder.artifacts.mkdir()
    odd = folder.artifacts / os.fsdecode(b"caf\xe9 \xff")
    odd.write_bytes(b"x" * 10_000)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder))
        writer.append(Log(text=f"wrote {odd}"))
        end_run(folder, writer)
    assert verify_run(folder.path).findings == ()
    assert "artifacts/caf%E9 %FF" in recorded_files(folder.path)
    assert "caf%E9 %FF" in read_run(folder.path).logs[0].text
    odd.write_bytes(b"x" * 9_999 + b"y")
    (fault,) = verify_run(folder.path).findings
    assert (fault.file, fault.offset) == ("artifacts/caf%E9 %FF", 8192)
    odd.unlink()
    assert str(verify_run(folder.path).findings[0]) == "artifacts/caf%E9 %FF: is missing"
