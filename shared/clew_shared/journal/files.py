"""The journal's byte layer: append frames, read them from any offset, skip damaged stretches, seal.

Frames are made in ``frames`` and found in ``frames``. PROTOCOL.md is the authority.
No NumPy here: the supervisor imports this.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from clew_shared.base import operating_system
from clew_shared.base.problem import Problem, ProblemError, problem
from clew_shared.base.remedies import continue_run
from clew_shared.cards import MetricSpec
from clew_shared.journal.events import Attempt, Digest, Event, Seal
from clew_shared.journal.frames import (
    HEADER_SIZE,
    MAGIC,
    MAX_FRAME,
    Damage,
    FrameReader,
    Record,
    encode_frame,
    frame_parts,
    total,
)

__all__ = ["HEADER_SIZE", "MAGIC", "MAX_FRAME", "Damage", "FrameReader", "Record", "encode_frame"]
"""The names of ``frames`` that belong to a journal as well."""

JOURNAL_FORMAT = 1
_END_BYTES = 64 * 1024
"""Number of bytes at a file's end in which its seal is looked for; a seal has some hundred bytes."""
DIGEST_EVERY = 1 << 20
"""Bytes after which a journal's digest so far is written into it: a changed byte is found to a mebibyte."""
MAX_JOURNAL = 2 << 30

MIRROR_MARK = "mirror.txt"
"""A file in a run's folder that says: these journals are a copy."""
MIRRORS_LIST = "runs.jsonl"
"""The file beside the mirrors of a viewer: its record of runs."""

_CHUNK = 1 << 20
_HEAD_BYTES = 64 * 1024
"""The most that the first frame of a journal has."""
_NAME = re.compile(r"journal\.(0\d{3}|[1-9]\d{3,17})", re.ASCII)


# --- Names ------------------------------------------------------------------------------------------------------------


def journal_path(folder: Path, attempt: int) -> Path:
    """The journal file of attempt ``attempt`` (from 1) in a run folder or mirror."""
    return folder / f"journal.{attempt:04d}"


def attempts(folder: Path) -> tuple[int, ...]:
    """The attempts whose journal files are in ``folder``, ascending; empty when there are none or no folder."""
    try:
        entries = os.scandir(folder)
    except FileNotFoundError:  # even if it is made at this moment
        return ()
    except OSError:
        if folder.is_dir():
            raise
        return ()
    with entries:  # a FIFO of that name would be waited for; a folder cannot be read, which is said
        found = [(int(name[1]), entry) for entry in entries if (name := _NAME.fullmatch(entry.name))]
        return tuple(sorted(number for number, entry in found if number and (entry.is_file() or entry.is_dir())))


def is_mirror(folder: Path) -> bool:
    """Whether ``folder`` holds a viewer's copy of a run's journals, which nothing may train in: the run's checkpoints
    are where it trained. Mirrors of earlier versions have no mark, but lie beside their viewer's record."""
    return (folder / MIRROR_MARK).exists() or (
        folder.parent.name == "mirrors" and (folder.parent / MIRRORS_LIST).exists()
    )


# --- Reading ----------------------------------------------------------------------------------------------------------


def ends_sealed(path: Path, read: int) -> bool:
    """Whether the first ``read`` bytes are the whole file and end with an intact seal: nothing comes after it,
    whatever a damaged length before it promises."""
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) != read:
                return False
            start = file.seek(max(0, read - _END_BYTES))
            tail = file.read(read - start)
    except OSError:
        return False
    reader = FrameReader(start)
    found = [item for item in (*reader.feed(tail), *reader.finish()) if isinstance(item, Record)]
    return bool(found) and isinstance(found[-1].event, Seal) and found[-1].offset + found[-1].size == read


def read_journal(path: Path) -> Iterator[Record | Damage]:
    """Everything in the journal file to its present end.

    A frame that is cut at the end comes last, as ``Damage`` with ``tail``. Raises ``OSError`` as it comes.
    """
    reader = FrameReader()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield from reader.feed(chunk)
    yield from reader.finish()


def first_attempt(journal: Path) -> Attempt | None:
    """Returns the event with which a journal begins; None if there is none that can be read."""
    try:
        with journal.open("rb", buffering=0) as file:  # no further frames: lists of runs ask this of thousands
            reader = FrameReader()
            reader.feed(file.read(HEADER_SIZE))
            found = reader.feed(file.read(min(reader.missing, _HEAD_BYTES)))
    except OSError:
        return None
    first = found[0] if found else None
    return first.event if isinstance(first, Record) and isinstance(first.event, Attempt) else None


def began(folder: Path) -> float:
    """Returns when the first attempt of a run began, as wall-clock seconds since 1970; 0 if its journal does not say,
    or another program has removed it."""
    first = next((first_attempt(journal_path(folder, number)) for number in attempts(folder)), None)
    return first.time if first is not None else 0.0


def made(folder: Path) -> float:
    """Returns when a folder was made, to sort by; 0 if another program has removed it."""
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


# --- Writing ----------------------------------------------------------------------------------------------------------


class JournalWriter:
    """Appends frames to one journal file; used by one thread of one process at a time.

    Each frame is one unbuffered write, so the file is always as long as ``size`` says and another process sees a frame
    as soon as ``append`` returns. ``sync`` makes it last through a power cut; when to call it is the caller's choice.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use ``create`` or ``open_to_seal``."""
        self.path = path
        self.size = 0
        self.sealed = False
        self._descriptor = descriptor
        self._hash = hashlib.sha256()
        self._digested = 0
        self._torn = 0  # bytes of an unfinished frame after ``size`` that could not be taken back yet

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new, empty journal file. Raises ``FileExistsError`` when there is one: no attempt is written twice. Raises
        ``ProblemError`` in a mirror: only the copy of what was written elsewhere belongs there."""
        _refuse_mirror(path.parent)
        writer = cls(path, _open(path, os.O_CREAT | os.O_EXCL))
        operating_system.sync_folder(path.parent)
        return writer

    @classmethod
    def open_to_seal(cls, path: Path) -> Self:
        """An existing journal file whose writer has died, to append its end after whatever is there.

        Nothing is cut: a torn last frame is filled up with zeros to the length it announces, so that readers which wait
        for the rest of it see that it is damaged and go on. ``sealed`` says that nothing is left to do. Raises
        ``ProblemError`` in a mirror.
        """
        _refuse_mirror(path.parent)
        writer = cls(path, _open(path, 0))
        try:
            writer._take_over()
        except BaseException:
            writer.close()
            raise
        return writer

    def _take_over(self) -> None:
        reader = FrameReader()
        with self.path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                self._hash.update(chunk)
                self.size += len(chunk)
                found = reader.feed(chunk)
                self.sealed |= any(isinstance(item, Record) and isinstance(item.event, Seal) for item in found)
        while missing := reader.missing:
            reader.feed(bytes(missing))
            self._write((bytes(missing),))

    @property
    def sha256(self) -> str:
        """SHA-256 of everything in the file so far, as hexadecimal digits."""
        return self._hash.hexdigest()

    def append(self, event: Event) -> int:
        """Write one event; returns the file's length after it. A ``Digest`` goes before it when one is due.

        When the disk refuses, the ``OSError`` comes as it is, the file is as it was before, and the same call may be
        made again. Raises ``ProblemError`` for an event that is too large and for a sealed journal.
        """
        self._refuse_if_sealed()
        frame = frame_parts(event)
        if self.size - self._digested >= DIGEST_EVERY:
            self._write(frame_parts(Digest(size=self.size, sha256=self.sha256)))
            self._digested = self.size
        self._write(frame)
        return self.size

    def seal(self, writer: str) -> int:
        """Write the last frame (``writer``: trainer, guard or supervisor) and sync; returns the file's final length."""
        self._refuse_if_sealed()
        self._write(frame_parts(Seal(size=self.size, sha256=self.sha256, writer=writer)))
        self.sealed = True
        self.sync()
        return self.size

    def sync(self) -> None:
        """Return when everything appended so far is on the disk."""
        operating_system.sync(self._descriptor)

    def close(self) -> None:
        """Close the file; doing it twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_if_sealed(self) -> None:
        if self.sealed:
            raise problem("journal.sealed", f"{self.path} is sealed; nothing can be written after its end.")

    def _write(self, frame: Sequence[bytes]) -> None:
        self._take_back()
        size = total(frame)
        try:
            while self._torn < size:
                self._torn += _write_from(self._descriptor, frame, self._torn)
        except OSError:
            with contextlib.suppress(OSError):  # the next write tries again
                self._take_back()
            raise
        self._torn = 0
        self.size += size
        for part in frame:
            self._hash.update(part)

    def _take_back(self) -> None:
        """Remove what a refused write left of its frame, unless someone has already written after it."""
        if self._torn and os.fstat(self._descriptor).st_size == self.size + self._torn:
            os.ftruncate(self._descriptor, self.size)
        self._torn = 0


def _refuse_mirror(folder: Path) -> None:
    if is_mirror(folder):
        raise ProblemError(mirror_problem(folder))


def mirror_problem(folder: Path) -> Problem:
    """Says why nothing may train in a mirror, and what to do instead."""
    text = f"{folder} holds a copy of the journals of a run; its checkpoints are where it trained."
    return Problem("run.mirror", text, "Continue it there.", str(folder), (continue_run(folder.name),))


def _write_from(descriptor: int, frame: Sequence[bytes], start: int) -> int:
    """Write the frame's bytes from ``start`` on in one call; returns how many the disk has taken."""
    if len(frame) > 1 and not start:
        return operating_system.write_parts(descriptor, frame)
    data = frame[0] if len(frame) == 1 else b"".join(frame)
    return os.write(descriptor, memoryview(data)[start:])


def _open(path: Path, flags: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | operating_system.OPEN_FLAGS | flags, 0o644)


# --- Size -------------------------------------------------------------------------------------------------------------


def journal_bytes(steps: int, metrics: Sequence[MetricSpec]) -> int:
    """About how long the journal of ``steps`` steps will be: 4 or 8 bytes for each step and per-step metric, and frames
    of a hundred steps (about 120 bytes each beside their values)."""
    width = sum(8 if metric.dtype == "float64" else 4 for metric in metrics if metric.per_step)
    return steps * width + 120 * (steps // 100 + 1)


def check_size(steps: int, metrics: Sequence[MetricSpec]) -> None:
    """Raise ``ProblemError`` when a run of ``steps`` steps would need a journal of more than 2 GiB."""
    size = journal_bytes(steps, metrics)
    if size > MAX_JOURNAL:
        most = steps * MAX_JOURNAL // size // 1000 * 1000
        limit = MAX_JOURNAL / 2**30
        text = f"{steps} steps would need a journal of {size / 2**30:.1f} GiB; the limit is {limit:.0f} GiB."
        raise problem("spec.size", text, f"Choose at most {most} steps, or split the work into several runs.", "steps")


class PrefixHash:
    """SHA-256 of the first n bytes of a file, for growing n, each byte read once. Raises ``OSError`` as it comes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes that are hashed."""

    def __enter__(self) -> PrefixHash:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def sha256(self, size: int) -> str:
        """Returns the digest of the first ``size`` bytes, or of all when there are fewer."""
        while self.size < size and (data := self._file.read(min(size - self.size, _CHUNK))):
            self._hash.update(data)
            self.size += len(data)
        return self._hash.hexdigest()
