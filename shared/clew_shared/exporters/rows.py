"""The parts that all exporters share: the rows of a run in chunks, the name of its files, and writing without
destroying."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clew_shared.base.foreign import replacing_whole
from clew_shared.base.problem import os_refused, problem
from clew_shared.journal.curves import Floats
from clew_shared.journal.history import History

CHUNK_ROWS = 50_000
_LOOK = 64 * 1024
"""Bytes at either end of a file in which an export names its run."""


class ExportRows(NamedTuple):
    """Consecutive points of one metric; ``wall`` in seconds since 1970, 0 where unknown."""

    metric: str
    steps: NDArray[np.int64]
    values: Floats
    wall: NDArray[np.float64]


def rows_of(history: History) -> Iterator[ExportRows]:
    """Yields all points, metric by metric, at most ``CHUNK_ROWS`` at a time. They stay as they are while the run goes
    on."""
    for metric in history.recorded():
        column, wall = history.column(metric), history.wall(metric)
        for start in range(0, len(wall), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            yield ExportRows(metric, column.steps[part].copy(), column.values[part].copy(), wall[part])


class SeriesRows(NamedTuple):
    """A measured relation: ``x`` and ``y`` of one name, as they were measured, with labels and units."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    labels: tuple[str, str, str, str]
    """Label and unit of x, then label and unit of y."""


def series_of(history: History) -> list[SeriesRows]:
    """Returns all measured relations of a run. They stay as they are while it goes on."""
    return [
        SeriesRows(name, found.x.copy(), found.y.copy(), (last.x_label, last.x_unit, last.y_label, last.y_unit))
        for name, found in history.series.items()
        for last in (found.last,)
    ]


class UpdateRows(NamedTuple):
    """A gradient that parameter servers took; ``ended`` and ``seconds`` on the training clock."""

    step: int
    worker: int
    ended: float
    seconds: float
    staleness: int
    accepted: bool


def updates_of(history: History) -> Iterator[UpdateRows]:
    """Yields all gradients that parameter servers took."""
    columns = history.updates.columns
    for start in range(0, len(columns.steps), CHUNK_ROWS):
        part = columns.take(slice(start, start + CHUNK_ROWS))
        yield from map(UpdateRows._make, zip(*(column.tolist() for column in part), strict=True))


class PulseRows(NamedTuple):
    """A column of one process's samples; NaN where it is not known."""

    process: str
    host: str
    name: str
    times: NDArray[np.float64]
    values: NDArray[np.float32]


def pulse_of(history: History) -> Iterator[PulseRows]:
    """Yields what the machines did, column by column."""
    for process, found in history.pulse.processes.items():
        for name in found.names:
            yield PulseRows(process, found.host, name, found.times, found.column(name))


def base_name(history: History) -> str:
    """``softmax-5f2b8c1e``: exercise and the beginning of the run's id, safe as a file name whatever a journal says."""
    words = f"{history.fold.exercise or 'run'}-{history.fold.run[:8] or 'unknown'}"
    return re.sub(r"[^A-Za-z0-9._-]", "_", words).lstrip(".") or "run"


@contextmanager
def replacing(path: Path, run: str) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place at the end, or vanishes when something goes wrong."""
    with os_refused("export.write", f"Cannot write {path}", "Choose a folder that you can write to.", str(path)):
        if os.path.lexists(path) and not _is_export(path, run):
            text = f"{path} exists and is not an export of this run; nothing was written."
            raise problem("export.exists", text, "Move it away, or choose another folder.", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_whole(path) as part:
            yield part


def _is_export(path: Path, run: str) -> bool:
    if not path.is_file() or path.is_symlink() or not run:
        return False
    with path.open("rb") as file:
        head = file.read(_LOOK)
        file.seek(max(0, path.stat().st_size - _LOOK))
        return run.encode() in head + file.read()
