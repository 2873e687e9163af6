"""The viewer's own list of runs: which number each has, which were taken out, and what a person wrote about them.
One line each, only appended.

Windows and commands append to the same file. Anyone who reads it from its beginning comes to the same numbers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_gui.base.line_file import LineFile
from clew_shared.base.foreign import json_or_none
from clew_shared.base.places import Places
from clew_shared.journal.files import MIRRORS_LIST
from clew_shared.run_settings import RunNote


class RunLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """News of a run: its number, that it was ``forgotten``, or why the agent ``refused`` it; the ``job`` whose part of
    its journals is completely here; the machine ``where`` it ran without a job of this computer's; the ``note`` that a
    person wrote."""

    run: str
    number: int = 0
    time: float = 0.0
    forgotten: bool = False
    refused: str = ""
    job: str = ""
    where: str = ""
    note: RunNote | None = None


class RunRecord:
    """Lines of JSON in ``path``. A line that is torn or damaged is passed over; nothing is ever changed or removed.

    When two writers gave the same number at once, the earlier line has it and the later run gets the next free one.
    Without ``read`` it begins empty: the file may be one that cannot be read.
    """

    def __init__(self, path: Path, read: bool = True) -> None:
        self._file = LineFile(path)
        self.numbers: dict[str, int] = {}
        self.forgotten: set[str] = set()
        self.refused: dict[str, str] = {}
        self.settled: dict[str, str] = {}
        """The latest job whose share of a run's journals is here as a whole, by run."""
        self.where: dict[str, str] = {}
        self.notes: dict[str, RunNote] = {}
        self._taken: set[int] = set()
        if read:
            self.refresh()

    def refresh(self) -> None:
        """Take in what others appended since."""
        for line in self._file.new_lines():
            if (found := json_or_none(line, RunLine)) is not None:
                self._take(found)

    def number(self, run: str, lasting: bool = True) -> int:
        """The run's number; a new run gets the next one for good. Raises ``OSError`` if the disk refuses.

        Not ``lasting``: the disk is not waited for; ``settle`` does that later.
        """
        if run not in self.numbers:
            self.refresh()
        if run not in self.numbers:
            self.add(RunLine(run=run, number=self.next_number), lasting)
        return self.numbers[run]

    @property
    def next_number(self) -> int:
        """The number that a new run would get."""
        return max(self._taken, default=0) + 1

    def number_all(self, runs: Iterable[str], keep: bool = True) -> dict[str, int]:
        """The numbers of ``runs``, which come in the order in which they began. New ones are given for good.

        With ``keep`` false, or when the disk refuses, new ones get the numbers that they would be given.
        """
        found: dict[str, int] = {}
        spare = itertools.count(self.next_number)
        before = len(self.numbers)
        for run in runs:
            try:
                known = self.number(run, lasting=False) if keep else self.numbers.get(run)
            except OSError:
                known, keep = None, False
                spare = itertools.count(self.next_number)
            found[run] = next(spare) if known is None else known
        if len(self.numbers) > before:
            with suppress(OSError):  # they are written: a power cut alone could take them
                self.settle()
        return found

    def add(self, line: RunLine, lasting: bool = True) -> None:
        """Notes something of a run, now. Raises ``OSError`` if the disk refuses."""
        data = msgspec.json.encode(msgspec.structs.replace(line, time=time.time()))
        try:
            self._file.append(data, lasting)
        finally:
            self.refresh()

    def _take(self, line: RunLine) -> None:
        if line.number and line.run not in self.numbers:
            self.numbers[line.run] = number = line.number if line.number not in self._taken else self.next_number
            self._taken.add(number)
        if line.forgotten:
            self.forgotten.add(line.run)
        if line.refused:
            self.refused[line.run] = line.refused
        if line.job:
            self.settled[line.run] = line.job
        if line.where:
            self.where[line.run] = line.where
        if line.note is not None:
            self.notes[line.run] = line.note

    def settle(self) -> None:
        """Wait until what was appended survives a power cut. Raises ``OSError`` if the disk refuses."""
        self._file.settle()


def run_record(places: Places, read: bool = True) -> RunRecord:
    """The record of this computer's viewers."""
    return RunRecord(places.mirrors / MIRRORS_LIST, read)
