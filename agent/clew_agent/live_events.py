"""TensorBoard's event files beside journals that still grow: what is new in a journal is added to the run's file.

Of a long run every step is written up to 131,072, then every second, from twice that every fourth, and so on:
TensorBoard itself draws a thousand points of a curve. Event files are only appended. Where an attempt begins again at
an earlier step, TensorBoard is told to forget what lay behind it, as TensorFlow does after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clew_shared.curves import Floats, Layout
from clew_shared.events import Attempt, Evaluation, Points, Schema
from clew_shared.exporters.rows import Rows
from clew_shared.exporters.tensorboard import first_record, records, restart_record
from clew_shared.journal import Damage, FrameReader, attempts, journal_path
from clew_shared.problem import ProblemError
from clew_shared.runfolder import RunFolder
from clew_shared.spec import read_spec

_CHUNK = 1 << 20
_ALL_BITS = 17
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class EventFolder:
    """Event files of all runs below ``runs``, in ``out``: a folder for each, as an export names it."""

    def __init__(self, runs: Path, out: Path) -> None:
        self._runs = runs
        self._out = out
        self._followed: dict[str, RunEvents] = {}

    def update(self) -> None:
        """Take in what was added to any journal. What cannot be read or written now is tried again the next time."""
        try:
            names = [path.name for path in self._runs.iterdir() if _NAME.fullmatch(path.name)]
        except OSError:
            return
        for name in names:
            followed = self._followed.get(name)
            if followed is None:
                followed = self._followed[name] = RunEvents(self._runs / name, self._out / _title(self._runs / name))
            try:
                followed.update()
            except OSError:
                continue


def _title(folder: Path) -> str:
    """``softmax-5f2b8c1e``, safe as a name."""
    try:
        exercise = read_spec(RunFolder(folder).spec).exercise
    except ProblemError:
        exercise = "run"
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{exercise}-{folder.name[:8]}").lstrip(".") or "run"


class RunEvents:
    """One run: its journals as far as they were read, and its event file."""

    def __init__(self, folder: Path, out: Path) -> None:
        self._folder = folder
        self._out = out
        self._path: Path | None = None
        self._attempt = 0
        self._reader = FrameReader()
        self._offset = 0
        self._layouts: dict[int, Layout] = {}

    def update(self) -> None:
        """Add what is new. Raises ``OSError``."""
        for attempt in attempts(self._folder):
            if attempt < self._attempt:
                continue
            if attempt > self._attempt:
                self._attempt, self._reader, self._offset, self._layouts = attempt, FrameReader(), 0, {}
            self._read()

    def _read(self) -> None:
        with journal_path(self._folder, self._attempt).open("rb") as file:
            file.seek(self._offset)
            while data := file.read(_CHUNK):
                self._offset += len(data)
                parts = [part for found in self._reader.feed(data) for part in self._written(found)]
                if parts and self._path is not None:
                    with self._path.open("ab") as events:
                        events.writelines(parts)

    def _written(self, found: object) -> Iterator[bytes]:
        """A record of the journal as records of the event file."""
        event = None if isinstance(found, Damage) else getattr(found, "event", None)
        match event:
            case Attempt():
                yield from self._begin(event)
            case Schema():
                self._layouts[event.id] = Layout([metric for metric in event.metrics if metric.per_step])
            case Points() if event.schema in self._layouts:
                yield from self._points(event, self._layouts[event.schema])
            case Evaluation() if event.step >= 0:
                values = {name: np.array([value]) for name, value in event.values.items()}
                yield from _records(np.array([event.step]), values, np.array([event.time]))

    def _begin(self, event: Attempt) -> Iterator[bytes]:
        if self._path is None:
            self._out.mkdir(parents=True, exist_ok=True)
            self._path = self._out / f"events.out.tfevents.{int(event.time):010d}.clew"
            yield first_record(event.time, self._folder.name)
        elif event.resumes:
            yield restart_record(event.time, max(0, event.start_step))

    def _points(self, event: Points, layout: Layout) -> Iterator[bytes]:
        values = layout.values(event)
        if not values:
            return
        steps = np.arange(event.first, event.first + event.count)
        kept = slice(None)
        if (beyond := int(steps[-1]).bit_length() - _ALL_BITS) > 0:
            stride = 1 << beyond
            kept = slice(-event.first % stride, None, stride)
        wall = layout.clock(event, event.time)
        yield from _records(steps[kept], {name: column[kept] for name, column in values.items()}, wall[kept])


def _records(steps: NDArray[np.int64], values: Mapping[str, Floats], wall: NDArray[np.float64]) -> Iterator[bytes]:
    for metric, column in values.items():
        yield from records(Rows(metric, steps, column, wall))
