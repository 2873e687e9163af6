"""Shows a finished run again as if it were training: its journal is written once more, event by event, at its own pace.

The result is a run folder like any other, which the agent serves and the window follows live. Its first frame names the
run that it replays, so nobody can mistake it for a real run.
"""

from __future__ import annotations

import hashlib
import os
import socket
import uuid
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from clew_gui.reports.facts import read_source
from clew_shared.base.problem import did_you_mean, problem
from clew_shared.journal.events import Attempt, Checkpoint, Digest, Event, Files, Pulse, Seal, State
from clew_shared.journal.files import JournalWriter, Record, first_attempt, read_journal
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import TERMINAL, RunState
from clew_shared.journal.run_folder import RunFolder, final_files
from clew_shared.spec import MAX_NAME, RunSpec, to_toml

LONGEST_WAIT = 5.0
"""Seconds of the recording without an event that are shown; the rest of a longer silence is left out."""
_LEFT_OUT = (Checkpoint, Files, Digest, Seal)
"""Events about files that a replay does not have, or about the bytes of the old journal."""
DEMONSTRATION = "demo:"


class Due(NamedTuple):
    """An event, of which attempt it is, and when it is to be shown, in seconds from the beginning."""

    attempt: int
    seconds: float
    event: Event


def schedule(folder: Path) -> list[Due]:
    """The events of a run in the order and at the pace in which they were written. What an attempt wrote after a later
    one had taken over is left out."""
    numbers = RunFolder(folder).attempts()
    cuts: dict[int, int] = {}
    for number in numbers:
        first = first_attempt(RunFolder(folder).journal(number))
        if first is not None and first.earlier_size:
            cuts[first.resumes] = first.earlier_size
    found, clock, last = list[Due](), 0.0, 0.0
    for number in numbers:
        for event in _events(RunFolder(folder).journal(number), cuts.get(number)):
            if event.time:
                clock += min(max(event.time - last, 0.0), LONGEST_WAIT) if last else 0.0
                last = max(event.time, last)
            found.append(Due(number, clock, event))
    return found


def _events(path: Path, cut: int | None) -> Iterator[Event]:
    for item in read_journal(path):
        if cut is not None and item.offset >= cut:
            return
        if isinstance(item, Record) and item.event is not None and not isinstance(item.event, _LEFT_OUT):
            yield item.event


class Replay:
    """Writes the events of ``source`` into a new run folder below ``runs``; ``advance`` writes those that are due.

    Its process counts as the trainer: it keeps the journal open, and the agent follows it as it follows a run.
    """

    def __init__(self, source: Path, runs: Path, name: str = "") -> None:
        read = read_source(source)
        self.of = read.history.fold.run
        self._due = schedule(source)
        title = name or f"Replay of {read.spec.name or self.of[:8]}"
        self.spec: RunSpec = msgspec.structs.replace(read.spec, run=str(uuid.uuid4()), name=title[:MAX_NAME], study="")
        self.folder = RunFolder(runs / self.spec.run)
        self.history = History()
        """What was shown so far."""
        self._next = 0
        self._last = 0
        self._writer: JournalWriter | None = None
        text = to_toml(self.spec).encode()
        try:
            self.folder.path.mkdir(parents=True)
            self.folder.spec.write_bytes(text)
        except OSError as error:
            words = f"The replay cannot be written to {self.folder.path}: {error.strerror or error}."
            raise problem("replay.folder", words, "Free some space, or check the folder.", str(runs)) from None

    @property
    def done(self) -> bool:
        """Whether all was shown."""
        return self._next >= len(self._due)

    @property
    def seconds(self) -> float:
        """Returns how long it lasts at its own pace."""
        return self._due[-1].seconds if self._due else 0.0

    def advance(self, seconds: float, now: float) -> None:
        """Write what is due ``seconds`` after the beginning; ``now`` is the wall clock."""
        while not self.done and self._due[self._next].seconds <= seconds:
            due = self._due[self._next]
            self._next, self._last = self._next + 1, due.attempt
            self._append(due.attempt, _at(due.event, now))
        if self.done:
            self.close()

    def stop(self, now: float) -> None:
        """Stops the replay early, at the present event."""
        if self._writer is not None and not self._writer.sealed:
            self._append(self._last, State(time=now, state=RunState.STOPPED, reason="The replay was stopped."))
        self._next = len(self._due)
        self.close()

    def close(self) -> None:
        """Seal what was written."""
        if self._writer is not None:
            if not self._writer.sealed:
                self._writer.seal("trainer")
            self._writer.close()
            self._writer = None

    def _append(self, attempt: int, event: Event) -> None:
        if isinstance(event, Attempt):
            event = self._first(attempt, event)
        if self._writer is None:
            return  # a damaged journal that does not begin as it should
        ends = isinstance(event, State) and event.state in TERMINAL
        for one in (*(final_files(self.folder.path, ()) if ends else ()), event):
            self._writer.append(one)
            self.history.feed(attempt, one)
        if ends:
            self._writer.seal("trainer")

    def _first(self, attempt: int, event: Attempt) -> Attempt:
        """The first frame of an attempt, which names this process and this folder, in a new journal."""
        earlier = self.folder.journal(event.resumes) if event.resumes else None
        self.close()
        self._writer = JournalWriter.create(self.folder.journal(attempt))
        content = earlier.read_bytes() if earlier is not None and earlier.exists() else b""
        text = to_toml(self.spec)
        return msgspec.structs.replace(
            event,
            run=self.spec.run,
            spec=text,
            spec_sha256=hashlib.sha256(text.encode()).hexdigest(),
            host=socket.gethostname(),
            boot="",
            pid=os.getpid(),
            job="",
            checkpoint="",
            earlier_size=len(content),
            earlier_sha256=hashlib.sha256(content).hexdigest() if content else "",
            replay_of=self.of,
        )


def _at(event: Event, now: float) -> Event:
    """The event as if it had been written ``now``, samples with their times."""
    moved = msgspec.structs.replace(event, time=now)
    if not isinstance(moved, Pulse) or not event.time or len(moved.times) % 8:
        return moved
    return msgspec.structs.replace(moved, times=(np.frombuffer(moved.times, "<f8") + (now - event.time)).tobytes())


# --- Demonstrations ---------------------------------------------------------------------------------------------------


def demonstrations() -> dict[str, Path]:
    """The recorded runs that come with Clew, by name."""
    place = Path(str(files("clew_gui").joinpath("demonstrations")))
    return {path.name: path for path in sorted(place.glob("*")) if RunFolder(path).attempts()}


def find_demonstration(name: str) -> Path:
    """The folder of a demonstration. Raises ``ProblemError`` for a name that no demonstration has."""
    known = demonstrations()
    if name not in known:
        hint = did_you_mean(name, known) or f"There are: {', '.join(known) or 'none'}."
        raise problem("replay.demo", f"There is no demonstration {name!r}.", hint, name)
    return known[name]
