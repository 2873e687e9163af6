"""The samples on their way from the guard, which takes them, to the trainer, which alone writes the journal.

They lie in files on the node's own disk, so each survives the end of both. The guard adds lines to the last file, and
begins a new one now and then; the trainer removes a file that it has read once there is a later one. When the trainer
has died, its guard puts into the journal what it had not taken.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import msgspec

from clew_agent.node.pulse.batches import TRAINER, PulseBatch
from clew_agent.node.pulse.sampler import Sample
from clew_shared.base import operating_system
from clew_shared.base.places import find_places
from clew_shared.base.private_files import make_private
from clew_shared.base.problem import ProblemError
from clew_shared.journal.events import Event
from clew_shared.journal.run_folder import RunFolder

_PER_FILE = 1000
"""Samples in one file: what was read is soon removed from a disk that may be memory."""
_decoder = msgspec.json.Decoder(Sample)


def spool_folder(folder: RunFolder, attempt: int) -> Path:
    """The folder with the samples of an attempt."""
    return find_places().private / "pulse" / folder.private_name(attempt)


def remove_spool(folder: RunFolder, attempt: int) -> None:
    """Remove all samples of an attempt: what counts is in its journal."""
    shutil.rmtree(spool_folder(folder, attempt), ignore_errors=True)


class SpoolWriter:
    """The guard's end: adds samples. A disk that refuses costs the sample."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._made = False

    def add(self, sample: Sample) -> None:
        """Add one. It is whole there, or it is not there for a reader."""
        with suppress(OSError, ProblemError):
            if not self._made:
                make_private(self._folder.parent.parent)
                make_private(self._folder.parent)
                make_private(self._folder)
                self._made = True
            with _file(self._folder, 1 + self._count // _PER_FILE).open("ab") as file:
                file.write(msgspec.json.encode(sample) + b"\n")
            self._count += 1


class SpoolReader:
    """The trainer's end, and that of who writes the end of its journal: takes the samples in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._offset = 0

    def take(self) -> list[Sample]:
        """What was added since the last time."""
        found: list[Sample] = []
        with suppress(OSError):
            self._number = self._number or min((int(path.stem) for path in self._folder.glob("*.jsonl")), default=0)
            while self._number:
                later = _file(self._folder, self._number + 1).exists()  # asked first: then this one grows no more
                found += self._read(_file(self._folder, self._number))
                if not later:
                    break
                _file(self._folder, self._number).unlink()
                self._number, self._offset = self._number + 1, 0
        return found

    def _read(self, path: Path) -> list[Sample]:
        with path.open("rb") as file:
            file.seek(self._offset)
            whole = file.read().rpartition(b"\n")[0]
        self._offset += len(whole) + bool(whole)
        found = []
        for line in whole.splitlines():
            with suppress(msgspec.DecodeError):
                found.append(_decoder.decode(line))
        return found


class GuardSamples:
    """The trainer's end: what its guard has sampled, as events."""

    def __init__(self, folder: RunFolder, attempt: int) -> None:
        self._reader = SpoolReader(spool_folder(folder, attempt))
        self._batch = PulseBatch(TRAINER, operating_system.host_name())

    def skip(self, event: Event | None) -> None:
        """Leave out what an event of the journal has already."""
        self._batch.skip(event)

    def events(self, last: bool) -> list[Event]:
        """Returns the events that are due; all that are left the ``last`` time."""
        found = [event for sample in self._reader.take() for event in self._batch.add(sample)]
        return [*found, *self._batch.rest()] if last else found


def _file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.jsonl"
