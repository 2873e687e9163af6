"""The viewer's copy of a run's journals. What it has is its length: that is the only cursor there is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from clew_gui.base.kept_spec import kept_spec
from clew_shared.base import operating_system
from clew_shared.base.file_lock import exclusive
from clew_shared.base.private_files import make_private, write_private
from clew_shared.base.problem import Problem
from clew_shared.journal.events import Seal
from clew_shared.journal.files import (
    MIRROR_MARK,
    Damage,
    FrameReader,
    PrefixHash,
    Record,
    attempts,
    ends_sealed,
    first_attempt,
    journal_path,
)
from clew_shared.journal.run_folder import RunFolder
from clew_shared.spec import RunSpec, to_toml

_CHUNK = 256 * 1024
_MARK = """The journals in this folder are a copy. The run itself, with its checkpoints, is where it trained.
Clew keeps this copy up to date; nothing trains here.
"""
Items = list[Record | Damage]


class Replaced(Exception):
    """Raised if another program has set the copy of this journal aside: what was given out of it here is void."""


def stray_attempts(folder: Path) -> tuple[int, ...]:
    """Attempts in the mirror of a batch job's run that no job made: an earlier version of ``clew resume`` trained in
    the mirror itself."""
    jobs = {attempt: _job_of(journal_path(folder, attempt)) for attempt in attempts(folder)}
    first = min(jobs, default=0)
    return tuple(attempt for attempt, job in jobs.items() if attempt > first and jobs[first] and job == "")


def attempts_before(folder: Path, job: str) -> int:
    """The latest attempt in a mirror that another batch job than ``job`` made; 0 when there is none."""
    others = (attempt for attempt in attempts(folder) if (_job_of(journal_path(folder, attempt)) or job) != job)
    return max(others, default=0)


def _job_of(path: Path) -> str | None:
    """The batch job that the journal's first frame names; None when that cannot be read."""
    first = first_attempt(path)
    return first.job if first is not None else None


class Mirror:
    """One folder with ``journal.NNNN`` as on the node, and the run's spec. Belongs to one thread.

    ``length(attempt)`` is where the next fetch goes on. Frames are checked before they are given out; bytes of a frame
    that is still coming are on disk and in no answer.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sealed: set[int] = set()
        """Attempts whose seal has come and whose bytes are the node's, by SHA-256."""
        self.damaged: dict[int, Problem] = {}
        """The attempts whose sealed copy is not what the node had."""
        self._readers: dict[int, FrameReader] = {}
        self._lengths: dict[int, int] = {}

    def attempts(self) -> tuple[int, ...]:
        """The attempts that have any bytes here."""
        return attempts(self.folder)

    def length(self, attempt: int) -> int:
        """Bytes that are here of an attempt's journal."""
        if attempt not in self._lengths:
            path = journal_path(self.folder, attempt)
            self._lengths[attempt] = path.stat().st_size if path.exists() else 0
        return self._lengths[attempt]

    def unread(self, attempt: int) -> bool:
        """Whether there are bytes of an attempt that were not given out: another program keeps the same copy."""
        return self.length(attempt) > 0 and attempt not in self._readers

    def read(self, attempt: int) -> Iterator[Items]:
        """Reads the part of an attempt that is here already, piece by piece. The caller must read all of it before it
        appends anything."""
        reader, taken = FrameReader(), 0
        self._readers[attempt] = reader
        path = journal_path(self.folder, attempt)
        with suppress(FileNotFoundError), path.open("rb") as file:  # another program may have set it aside
            while data := file.read(_CHUNK):
                taken += len(data)
                yield self._checked(attempt, reader.feed(data))
        self._lengths[attempt] = taken  # another program may have added some since it was measured
        if reader.missing and ends_sealed(path, taken):
            yield self.finish(attempt)

    def finish(self, attempt: int) -> Items:
        """Returns the rest of an attempt that gets no more bytes: frames after a damaged length, a torn tail."""
        reader = self._readers.get(attempt)
        return self._checked(attempt, reader.finish()) if reader is not None else []

    def append(self, attempt: int, offset: int, data: bytes) -> Items:
        """Add bytes that begin at ``offset``; the frames that they complete. Bytes that are here change nothing.

        Another program may keep the same copy at the same time: both write the same bytes to the same places, and
        neither behind a hole.

        Raises ``OSError`` when the disk refuses; then the copy is as long as it was. Raises ``Replaced`` when another
        program has set the copy aside: nothing is written then. Bytes after a gap are dropped.
        """
        have = self.length(attempt)
        data = data[max(0, have - offset) :]
        if offset > have or not data:
            return []
        self._make_folder()
        self._write(attempt, have, data)
        self._lengths[attempt] = have + len(data)
        return self._checked(attempt, self._readers.setdefault(attempt, FrameReader()).feed(data))

    def _write(self, attempt: int, have: int, data: bytes) -> None:
        path, before = journal_path(self.folder, attempt), have
        try:
            if not have:
                path.touch()
            with path.open("r+b") as file, exclusive(file):
                before = max(have, size := os.fstat(file.fileno()).st_size)
                if size >= have:
                    file.seek(have)
                    file.write(data)
                    return
        except FileNotFoundError:
            if not have:
                raise
        except OSError:
            with suppress(OSError), path.open("r+b") as file, exclusive(file):
                file.truncate(before)
            raise
        self._forget(attempt)
        raise Replaced(path.name)

    def set_aside(self, attempt: int) -> None:
        """Keeps a copy that is not the node's under another name, so that the next fetch begins at 0."""
        path = journal_path(self.folder, attempt)
        if path.exists():
            operating_system.replace_file(path, path.with_name(f"damaged.{path.name}"))
        self._forget(attempt)

    def set_aside_stray(self, attempt: int) -> Path:
        """Sets aside an attempt that never came from the node: it trained in this folder, which is not allowed. Keeps
        all that it left in a folder of its own and returns that. Raises ``OSError`` if the disk refuses."""
        aside = self.folder / f"stray.{attempt:04d}"
        make_private(aside)
        own = {RunFolder(self.folder).spec, self.folder / MIRROR_MARK}
        for path in list(self.folder.iterdir()):
            is_journal = path.name.startswith(("journal.", "damaged.", "stray."))
            if path == journal_path(self.folder, attempt) or not (is_journal or path in own):
                path.replace(aside / path.name)
        self._forget(attempt)
        return aside

    def _forget(self, attempt: int) -> None:
        self._lengths.pop(attempt, None)
        self._readers.pop(attempt, None)
        self.sealed.discard(attempt)

    def spec(self) -> RunSpec | None:
        """Returns the run's spec, if it is here."""
        return kept_spec(self.folder)

    def keep_spec(self, spec: RunSpec, lasting: bool = True) -> None:
        """Keep the spec beside the journals. Raises ``OSError`` when the disk refuses. Not ``lasting``: it need not
        survive a power cut of the next seconds, because the agent has it as well."""
        self._make_folder()
        write_private(RunFolder(self.folder).spec, to_toml(spec).encode(), lasting)

    def _make_folder(self) -> None:
        """A folder of the user's own, marked so that nothing trains in it."""
        make_private(self.folder)
        mark = self.folder / MIRROR_MARK
        if not mark.exists():
            mark.write_text(_MARK, encoding="utf-8", newline="\n")

    def _checked(self, attempt: int, items: Items) -> Items:
        for item in items:
            if isinstance(item, Record) and isinstance(item.event, Seal):
                self._check_seal(attempt, item.event)
        return items

    def _check_seal(self, attempt: int, seal: Seal) -> None:
        path, found = journal_path(self.folder, attempt), ""
        with suppress(FileNotFoundError), PrefixHash(path) as prefix:  # another program may have set it aside
            found = prefix.sha256(seal.size)
        if found == seal.sha256:
            self.sealed.add(attempt)
            return
        text = f"The copy of {path.name} of run {self.folder.name} differs from the node's."
        self.damaged[attempt] = Problem(
            "mirror.seal", text, "The old copy is kept, and Clew fetches a new one.", str(path)
        )
