"""The layout of a run folder, and records of its files. No NumPy here."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import zlib
from collections import deque
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

import msgspec

from clew_shared.base.foreign import readable
from clew_shared.base.number_words import counted, in_bytes
from clew_shared.journal.events import Checkpoint, FileRecord, Files, Log
from clew_shared.journal.files import Damage, attempts, journal_path, read_journal

_BLOCK = 4096
_MAX_BLOCKS = 1 << 15
"""Block checksums of one file: 128 KiB at most, so that several records fit into a frame."""
_FILES_BYTES = 512 * 1024
_CHUNK = 1 << 20
_MOST_FILES = 100_000
"""Files that are recorded at the end of a run: it takes some ten seconds and 20 MB of the journal."""
_LARGEST = 1 << 38
"""Bytes of a file that is recorded: reading them takes minutes, and a file of holes may have any length."""
_NAMED = 3
"""Files that are not recorded and named, with so many characters of the end of each path."""
_NAME_LENGTH = 60


class RunFolder(msgspec.Struct, frozen=True):
    """The paths of one run: ``spec.toml``, ``journal.NNNN``, ``log.txt``, ``checkpoints/``, ``artifacts/``,
    and ``peers/`` with the output of each further process of a run that has several."""

    path: Path

    @property
    def spec(self) -> Path:
        """The run spec; never changed once the run exists."""
        return self.path / "spec.toml"

    def changed_spec(self, attempt: int) -> Path:
        """The spec from ``attempt`` on, where it continued on other devices; there is none as a rule."""
        return self.path / f"spec.{attempt:04d}.toml"

    def spec_of(self, attempt: int) -> Path:
        """The file with the spec that ``attempt`` runs: the latest that was written for it or an earlier one."""
        changed = (self.changed_spec(number) for number in range(attempt, 1, -1))
        return next((path for path in changed if path.exists()), self.spec)

    @property
    def latest_spec(self) -> Path:
        """The file with the spec of the last attempt."""
        return self.spec_of(max(self.attempts(), default=1))

    def undo(self, attempt: int, log_size: int) -> None:
        """Remove a first attempt with its folder; of a later one take back its journal and what it printed."""
        if len(self.attempts()) == 1:
            shutil.rmtree(self.path)
            return
        self.journal(attempt).unlink()
        self.changed_spec(attempt).unlink(missing_ok=True)
        os.truncate(self.log, log_size)

    def private_name(self, attempt: int) -> str:
        """A name for what an attempt keeps in a private folder: run folders of the same name have one each."""
        known = hashlib.sha256(os.fsencode(self.path.absolute())).hexdigest()[:16]
        return f"{known}-{attempt:04d}"

    @property
    def log(self) -> Path:
        """Output of the run's processes."""
        return self.path / "log.txt"

    @property
    def artifacts(self) -> Path:
        """Files that the exercise leaves."""
        return self.path / "artifacts"

    @property
    def checkpoints(self) -> Path:
        """Folder of all checkpoints."""
        return self.path / "checkpoints"

    def checkpoint(self, step: int) -> Path:
        """Folder of the checkpoint after ``step`` updates; names sort like steps."""
        return self.checkpoints / f"{step:08d}"

    def journal(self, attempt: int) -> Path:
        """The journal file of an attempt (from 1)."""
        return journal_path(self.path, attempt)

    def attempts(self) -> tuple[int, ...]:
        """The attempts whose journal files exist, ascending."""
        return attempts(self.path)


def record_file(folder: Path, path: Path) -> FileRecord:
    """Length, SHA-256 and block checksums of the file ``path`` in the run folder ``folder``, read in pieces.

    The block size doubles from 4096 bytes until ``_MAX_BLOCKS`` blocks are enough. Raises ``OSError`` as it comes and
    ``ValueError`` for a file outside the folder.
    """
    name = recorded_name(folder, path)
    digest, sums, size, block_size = hashlib.sha256(), bytearray(), 0, block_size_for(path.stat().st_size)
    for block in read_blocks(path, block_size):
        digest.update(block)
        sums += struct.pack("<I", zlib.crc32(block))
        size += len(block)
    return FileRecord(path=name, size=size, sha256=digest.hexdigest(), blocks=bytes(sums), block_size=block_size)


def recorded_name(folder: Path, path: Path) -> str:
    """The path of a file in the run folder as records have it: with ``/``, and ``%FF`` for a byte that is no UTF-8."""
    return readable(path.relative_to(folder).as_posix())


def block_size_for(size: int) -> int:
    """The block size for a file of ``size`` bytes."""
    block_size = _BLOCK
    while size > block_size * _MAX_BLOCKS:
        block_size *= 2
    return block_size


def read_blocks(path: Path, block_size: int) -> Iterator[bytes]:
    """The file's content in blocks; the last one may be shorter."""
    chunk_size = max(block_size, _CHUNK // block_size * block_size)
    with path.open("rb") as file:
        while chunk := file.read(chunk_size):
            for start in range(0, len(chunk), block_size):
                yield chunk[start : start + block_size]


def other_files(folder: Path) -> list[Path]:
    """Returns every file in the run folder except its journals, and every folder there that cannot be read, sorted by
    path."""
    return sorted(_found_in(folder))


def _found_in(folder: Path) -> Iterator[Path]:
    """Yields the same in any order, the outer ones first. A script may nest folders deeper than Python calls, and than
    any path leads."""
    journals = {journal_path(folder, attempt) for attempt in attempts(folder)}
    folders = deque([folder])
    while folders:
        here = folders.popleft()
        try:
            entries = list(os.scandir(here))
        except FileNotFoundError:
            continue
        except OSError:
            yield here
            continue
        for entry in entries:
            path = here / entry.name
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif path not in journals:
                yield path


def recorded_files(folder: Path) -> dict[str, FileRecord]:
    """The latest record of each file by path, over all attempts in order."""
    found: dict[str, FileRecord] = {}
    for attempt in attempts(folder):
        for item in read_journal(journal_path(folder, attempt)):
            if not isinstance(item, Damage) and isinstance(item.event, Checkpoint | Files):
                found |= {record.path: record for record in item.event.files}
    return found


def final_files(folder: Path, recorded: Collection[str] | None = None) -> tuple[Files | Log, ...]:
    """The events to write before a run's last state: every file that has no record yet, and again those that grow; and
    a sentence about what is there and cannot be recorded.

    ``recorded`` names the paths that are in ``Checkpoint`` events already; read from the journals when not given.
    Call it when nothing writes to those files any more. Several events when one would not fit into a frame.
    """
    known = recorded_files(folder) if recorded is None else recorded
    found = _found_in(folder)
    paths, records, failed = sorted(islice(found, _MOST_FILES)), list[FileRecord](), list[str]()
    for path in paths:
        name = recorded_name(folder, path)
        try:
            if name not in known or grows(name):
                records.extend(_record(folder, path))
        except OSError as error:
            failed.append(f"{name[-_NAME_LENGTH:]} ({error.strerror or error})")
    more = len(failed[_NAMED:]) + sum(1 for _ in found)
    words = ", ".join([*failed[:_NAMED], *([counted(more, "more file")] if more else [])])
    said = (Log(text=f"Not recorded of the files that the run leaves: {words}.", level="warning"),) if words else ()
    return (*(Files(files=tuple(group)) for group in _groups(records)), *said)


def _record(folder: Path, path: Path) -> Iterator[FileRecord]:
    """Yields the record of what was found in a run folder; of a link to a folder there is none. Raises ``OSError``."""
    if path.is_file():
        if path.stat().st_size > _LARGEST:
            raise OSError(f"more than {in_bytes(_LARGEST)}")
        yield record_file(folder, path)
    elif not path.is_dir():
        raise OSError("no regular file")
    elif not path.is_symlink():
        raise OSError("a folder that cannot be read")


def grows(name: str) -> bool:
    """Whether a later attempt of the run adds to this file: what its processes print."""
    return name == "log.txt" or (name.startswith("peers/") and name.endswith(".log"))


def _groups(records: list[FileRecord]) -> Iterator[list[FileRecord]]:
    group: list[FileRecord] = []
    room = _FILES_BYTES
    for record in records:
        needed = len(record.blocks) + len(record.path.encode()) + 128
        if group and needed > room:
            yield group
            group, room = [], _FILES_BYTES
        group.append(record)
        room -= needed
    if group:
        yield group
