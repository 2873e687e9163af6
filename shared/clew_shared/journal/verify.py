"""Whether a run folder is what was recorded: every frame, digest and seal of its journals, every byte of its files.

This finds damage and careless changes. It is no proof against someone who rebuilds a journal from nothing.
No NumPy here.
"""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
import zlib
from itertools import islice
from pathlib import Path

import msgspec

from clew_shared.base.file_names import safe_path
from clew_shared.base.problem import problem
from clew_shared.journal.events import Attempt, Checkpoint, Digest, FileRecord, Files, Seal
from clew_shared.journal.files import Damage, PrefixHash, Record, attempts, journal_path, read_journal
from clew_shared.journal.run_folder import grows, other_files, read_blocks, recorded_name

_MAX_BLOCK_SIZE = 1 << 26
_MAX_MISSING = 20
"""Missing attempts that are named; a file called journal.99999999 must not make as many findings."""
_LATE = re.compile(r"spec(\.\d{4,})?\.toml|log\.txt|peers/.+")
"""Files that a run records at its end only."""


class Fault(msgspec.Struct, frozen=True):
    """A fault of ``file`` (path in the run folder) from byte ``offset`` on; None for the file as a whole."""

    file: str
    offset: int | None
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {self.text}"


class Report(msgspec.Struct, frozen=True):
    """The verdict on a run folder, and what it rests on: files, frames and bytes that were looked at."""

    ok: bool
    findings: tuple[Fault, ...]
    files: int = 0
    frames: int = 0
    bytes: int = 0


def verify_run(folder: Path, journals_only: bool = False, trains: bool = False) -> Report:
    """Check everything in the run folder. Raises ``ProblemError`` when it is no folder; all else becomes a finding.

    ``journals_only``: it is a viewer's copy, whose other files are where the run was made. ``trains``: its last attempt
    still writes here, so its journal has no end yet, and files grow or have no record.
    """
    if not folder.is_dir():
        raise problem("run.folder", f"{folder} is not a folder.", "Name the folder of a run.", str(folder))
    numbers = attempts(folder)
    journals = {number: _Journal(folder, number) for number in numbers}
    findings = [*_missing_attempts(numbers)]
    for number, journal in journals.items():
        journal.read()
        _check_chain(number, journals)
    for number, journal in journals.items():
        later = [other.start for other in journals.values() if other.number > number]
        journal.left_aside = all(start is not None and 0 < start.resumes != number for start in later)
    records: dict[str, FileRecord] = {}
    for number, journal in journals.items():
        findings += journal.verdict(last=number == numbers[-1], trains=trains)
        records |= journal.records if not journals_only else {}
    if trains:
        records = {name: record for name, record in records.items() if not grows(name)}
    if journals_only:
        size = sum(journal.size for journal in journals.values())
        frames = sum(journal.frames for journal in journals.values())
        return Report(not findings, tuple(findings), len(journals), frames, size)
    findings += _check_files(folder, records)
    findings += _check_spec(folder, journals, {finding.file for finding in findings})
    findings += (
        ()
        if trains
        else _unrecorded(folder, records, ended=bool(numbers) and journals[numbers[-1]].seal_end is not None)
    )
    size = sum(journal.size for journal in journals.values()) + sum(max(record.size, 0) for record in records.values())
    frames = sum(journal.frames for journal in journals.values())
    return Report(not findings, tuple(findings), len(records) + len(journals), frames, size)


def _missing_attempts(numbers: tuple[int, ...]) -> list[Fault]:
    expected = range(1, max(numbers, default=1) + 1)
    absent = (journal_path(Path(), number).name for number in expected if number not in numbers)
    return [Fault(name, None, "is missing") for name in islice(absent, _MAX_MISSING)]


class _Journal:
    """A journal file while it is checked."""

    def __init__(self, folder: Path, number: int) -> None:
        self.path = journal_path(folder, number)
        self.name = self.path.name
        self.number = number
        self.start: Attempt | None = None
        self.records: dict[str, FileRecord] = {}
        self.size = 0
        self.frames = 0
        self.seal_end: int | None = None
        self.cut: int | None = None
        """Length up to which a later attempt vouches for this one."""
        self.left_aside = False
        """Whether the later attempts go on from others."""
        self._damages: list[Damage] = []
        self._findings: list[Fault] = []
        self._good = 0

    def read(self) -> None:
        """Go through the whole file once."""
        try:
            with PrefixHash(self.path) as prefix:
                for item in read_journal(self.path):
                    self.size = item.offset + item.size
                    self._take(item, prefix)
        except OSError as error:
            self.say(None, f"cannot be read: {error.strerror}")

    def say(self, offset: int | None, text: str) -> None:
        """Add a finding about this file."""
        self._findings.append(Fault(self.name, offset, text))

    @property
    def intact(self) -> bool:
        """Whether nothing was found so far."""
        return not self._damages and not self._findings

    def _take(self, item: Record | Damage, prefix: PrefixHash) -> None:
        if self.seal_end is not None:
            return  # said once, by its length, in the verdict
        if isinstance(item, Damage):
            self._damages.append(item)
            return
        self.frames += 1
        event = item.event
        if item.offset == 0:
            self.start = event if isinstance(event, Attempt) else None
        if isinstance(event, Digest | Seal):
            self._check_digest(event, item.offset, prefix)
        if isinstance(event, Seal):
            self.seal_end = item.offset + item.size
        if isinstance(event, Checkpoint | Files):
            self.records |= {record.path: record for record in event.files}

    def _check_digest(self, event: Digest | Seal, offset: int, prefix: PrefixHash) -> None:
        agrees = event.size == offset and event.sha256 == prefix.sha256(offset)
        if not agrees and self.intact:
            text = f"bytes {self._good}–{offset - 1}: not what was written there, by the SHA-256 that follows them"
            self.say(self._good, text)
        self._good = offset

    def verdict(self, last: bool, trains: bool) -> list[Fault]:
        """Returns everything that is wrong with this file."""
        is_written = last and trains
        # What a later attempt has cut, or left aside, counts no more: its process may have written on, or never ended.
        vouched = (self.cut is not None or self.left_aside) and not last
        for damage in self._damages:
            if is_written and damage.tail:
                continue
            self.say(damage.offset, damage.text)
        if self.start is None and not any(damage.offset == 0 for damage in self._damages):
            self.say(0, "does not begin with the description of an attempt")
        if self.start is not None and self.start.attempt != self.number:
            self.say(0, f"describes attempt {self.start.attempt}, not {self.number}")
        if self.seal_end is None and not vouched and not is_written:
            self.say(self.size, f"is not sealed: it ends at byte {self.size} without its last frame")
        elif self.seal_end is not None and self.size > self.seal_end and not vouched:
            self.say(self.seal_end, f"bytes {self.seal_end}–{self.size - 1}: written after the seal")
        return self._findings


def _check_chain(number: int, journals: dict[int, _Journal]) -> None:
    """Checks what an attempt says about the attempt that it continues."""
    start = journals[number].start
    if start is None or not start.resumes:
        return
    earlier = journals.get(start.resumes)
    if earlier is None or start.resumes >= number:
        journals[number].say(0, f"continues attempt {start.resumes}, which is missing")
        return
    if earlier.start is not None and earlier.start.run != start.run:
        journals[number].say(0, f"belongs to run {start.run}, but attempt {start.resumes} to run {earlier.start.run}")
    if not start.earlier_size:
        return
    if earlier.size < start.earlier_size:
        earlier.say(earlier.size, f"ends at byte {earlier.size}; attempt {number} found {start.earlier_size} bytes")
        return
    earlier.cut = start.earlier_size
    if earlier.intact:  # damage that was found explains another hash
        with PrefixHash(earlier.path) as prefix:
            if prefix.sha256(start.earlier_size) != start.earlier_sha256:
                earlier.say(0, f"bytes 0–{start.earlier_size - 1}: not what attempt {number} found there")


# --- Recorded files ---------------------------------------------------------------------------------------------------


def _check_files(folder: Path, records: dict[str, FileRecord]) -> list[Fault]:
    there = {recorded_name(folder, path): path for path in other_files(folder)}
    composed = {_composed(name): path for name, path in there.items()}
    found = (
        _check_file(folder, there.get(name) or composed.get(_composed(name)), record)
        for name, record in records.items()
    )
    return [finding for finding in found if finding is not None]


def _composed(name: str) -> str:
    """A name with its letters and accents in one: disks of macOS may give them apart."""
    return unicodedata.normalize("NFC", name)


def _check_file(folder: Path, found: Path | None, record: FileRecord) -> Fault | None:
    """Compares a file with its record. ``found`` is the file if it was met in the folder: its name leads nowhere else
    then, whatever it means on another system."""
    if found is None and not safe_path(record.path):
        words = "is recorded with a path that leads out of the run folder, here or on another system"
        return Fault(record.path, None, words)
    path = found or folder / record.path
    removed = record.size < 0
    try:
        if not path.is_file() or path.is_symlink():
            there = path.exists() or path.is_symlink()
            return None if removed and not there else Fault(record.path, None, _absent(there))
        return Fault(record.path, 0, "was recorded as removed") if removed else _compare(path, record)
    except OSError as error:
        return Fault(record.path, None, f"cannot be read: {error.strerror}")


def _absent(there: bool) -> str:
    return "is not a plain file any more" if there else "is missing"


def _compare(path: Path, record: FileRecord) -> Fault | None:
    """The first block that differs, else a wrong length, else a wrong hash."""
    sums, block_size = _block_sums(record)
    digest, place = hashlib.sha256(), 0
    for index, block in enumerate(read_blocks(path, block_size)):
        digest.update(block)
        end = min(place + len(block), record.size)
        whole = place + len(block) == min(place + block_size, record.size)
        if whole and index < len(sums) and zlib.crc32(block) != sums[index]:
            return Fault(record.path, place, f"bytes {place}–{end - 1}: changed since they were recorded")
        place += len(block)
    if place != record.size:
        words = f"has {place} bytes, but {record.size} were recorded"
        return Fault(record.path, min(place, record.size), words)
    if digest.hexdigest() != record.sha256:
        return Fault(record.path, 0, f"bytes 0–{place - 1}: changed since they were recorded")
    return None


def _block_sums(record: FileRecord) -> tuple[tuple[int, ...], int]:
    """The recorded checksums and block size; no checksums when the record contradicts itself."""
    size = record.block_size
    if not 1 <= size <= _MAX_BLOCK_SIZE or len(record.blocks) != 4 * -(-record.size // size):
        return (), 4096
    return struct.unpack(f"<{len(record.blocks) // 4}I", record.blocks), size


def _check_spec(folder: Path, journals: dict[int, _Journal], reported: set[str]) -> list[Fault]:
    """Checks the spec's hash. It is in every attempt's first frame as well, so it is covered before a run has ended."""
    name = "spec.toml"
    expected = {journal.start.spec_sha256 for journal in journals.values() if journal.start is not None} - {""}
    if name in reported or not expected:
        return []
    try:
        content = (folder / name).read_bytes()
    except FileNotFoundError:
        return [Fault(name, None, "is missing")]
    except OSError as error:
        return [Fault(name, None, f"cannot be read: {error.strerror}")]
    if expected == {hashlib.sha256(content).hexdigest()}:
        return []
    return [Fault(name, 0, f"bytes 0–{len(content) - 1}: not the spec that the run was started with")]


def _unrecorded(folder: Path, records: dict[str, FileRecord], ended: bool) -> list[Fault]:
    names = (recorded_name(folder, path) for path in other_files(folder))
    known = set(map(_composed, records))
    unknown = (name for name in names if _composed(name) not in known and (ended or not _LATE.fullmatch(name)))
    return [Fault(name, None, "is not recorded in the run's journal") for name in unknown]
