"""The viewer's own list of runs: which number each has, which were taken out. One line each, only appended."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from clew_shared.private import make_private


class JobLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became known of a run: its number, that it was ``forgotten``, or why the agent ``refused`` it."""

    run: str
    number: int = 0
    time: float = 0.0
    forgotten: bool = False
    refused: str = ""


class JobRecord:
    """Lines of JSON in ``path``. A line that is torn or damaged is passed over; nothing is ever changed or removed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.numbers: dict[str, int] = {}
        self.forgotten: set[str] = set()
        self.refused: dict[str, str] = {}
        self._whole = True
        for line in self._lines():
            try:
                self._take(msgspec.json.decode(line, type=JobLine))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue

    def number(self, run: str, time: float) -> int:
        """The run's number; a new run gets the next one for good. Raises ``OSError`` if the disk refuses."""
        if run not in self.numbers:
            self._append(JobLine(run=run, number=max(self.numbers.values(), default=0) + 1, time=time))
        return self.numbers[run]

    def forget(self, run: str, time: float) -> None:
        """The run is not shown any more. Raises ``OSError`` if the disk refuses."""
        self._append(JobLine(run=run, time=time, forgotten=True))

    def refuse(self, run: str, reason: str, time: float) -> None:
        """The agent did not take the run. Raises ``OSError`` if the disk refuses."""
        self._append(JobLine(run=run, time=time, refused=reason))

    def _lines(self) -> list[bytes]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return []
        self._whole = not data or data.endswith(b"\n")
        return data.splitlines()

    def _take(self, line: JobLine) -> None:
        if line.number:
            self.numbers.setdefault(line.run, line.number)
        if line.forgotten:
            self.forgotten.add(line.run)
        if line.refused:
            self.refused[line.run] = line.refused

    def _append(self, line: JobLine) -> None:
        make_private(self._path.parent)
        data = (b"" if self._whole else b"\n") + msgspec.json.encode(line) + b"\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            self._whole = os.write(handle, data) == len(data)
            os.fsync(handle)
        finally:
            os.close(handle)
        self._take(line)
