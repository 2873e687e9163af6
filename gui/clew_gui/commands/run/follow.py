"""Reads a run folder's journals while they grow."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from clew_shared.journal.files import FrameReader, Record, attempts, journal_path
from clew_shared.journal.history import History

_CHUNK = 1 << 20


class Follower:
    """The history of the run in ``folder``, kept up to date by ``poll``. The folder may appear later."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.history = History()
        self._files: dict[int, tuple[BinaryIO, FrameReader]] = {}

    def poll(self) -> bool:
        """Take everything that was written since the last call; returns whether there was anything."""
        for attempt in attempts(self.folder):
            if attempt not in self._files:
                file = journal_path(self.folder, attempt).open("rb")
                self._files[attempt] = file, FrameReader()
        taken = [self._take(attempt, *opened) for attempt, opened in self._files.items()]
        return any(taken)

    def _take(self, attempt: int, file: BinaryIO, reader: FrameReader) -> bool:
        any_new = False
        file.seek(reader.rewind())
        while chunk := file.read(_CHUNK):
            for found in reader.feed(chunk):
                any_new = True
                if isinstance(found, Record):
                    self.history.feed(attempt, found.event, found.offset)
                else:
                    self.history.note(attempt, found)
        return any_new

    def close(self) -> None:
        """Close the journals."""
        for file, _ in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
