"""The shown curves as a table in long form, one row a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from clew_gui.plotting.arrays import FloatArray
from clew_shared.base.foreign import replacing_whole
from clew_shared.base.harmless import for_csv, numbers_writer
from clew_shared.exporters.tables import SERIES_HEADER
from clew_shared.journal.events import Series
from clew_shared.journal.history import History

HEADER: Final = ("run", "step", "metric", "value", "wall_time", "name")
_BLOCK: Final = 4096


@dataclass(frozen=True, eq=False)
class Extract:
    """A copy of one curve, independent of what arrives later. ``wall`` is empty where the wall clock is unknown;
    ``name`` is the run's for people."""

    run: str
    metric: str
    steps: FloatArray
    values: npt.NDArray[np.floating[Any]]
    wall: FloatArray
    name: str = ""


@dataclass(frozen=True, eq=False)
class SeriesExtract:
    """A copy of one measured relation of a run; ``last`` has the labels and units of x and y."""

    run: str
    name: str
    x: FloatArray
    y: FloatArray
    last: Series


def extract(run: str, name: str, history: History, metrics: Iterable[str]) -> tuple[Extract, ...]:
    """Copies of the recorded values of ``metrics`` of a run, every step of them; ``name`` is the run's for people."""
    result = []
    for metric in metrics:
        column, wall = history.column(metric), history.wall(metric)
        if len(column.steps):
            known = wall if wall[-1] > 0 else np.empty(0)
            result.append(Extract(run, metric, column.steps.astype(np.float64), column.values.copy(), known, name))
    return tuple(result)


def extract_series(run: str, history: History) -> tuple[SeriesExtract, ...]:
    """Copies of everything that a run measured."""
    measured = history.series.items()
    return tuple(SeriesExtract(run, name, one.x.copy(), one.y.copy(), one.last) for name, one in measured)


def write_csv(path: Path, extracts: Iterable[Extract]) -> int:
    """Write the curves to ``path`` and return the number of rows. Raises OSError where that cannot be written.

    It is written under another name first, so there is never half a file.
    """
    return write_rows(path, HEADER, (block for item in extracts for block in _rows(item)))


def write_series_csv(path: Path, extracts: Iterable[SeriesExtract]) -> int:
    """Write measured relations to ``path``, in the columns of ``clew export``, and return the number of rows. As
    ``write_csv`` otherwise."""
    return write_rows(path, SERIES_HEADER.split(","), (_series_rows(item) for item in extracts))


def write_rows(path: Path, header: Sequence[str], blocks: Iterable[Sequence[Sequence[str]]]) -> int:
    """Write a table to ``path`` and return the number of rows. As ``write_csv`` otherwise."""
    rows = 0
    with replacing_whole(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = numbers_writer(file)
        writer.writerow(header)
        for block in blocks:
            writer.writerows(block)
            rows += len(block)
    return rows


def _series_rows(item: SeriesExtract) -> list[tuple[str, ...]]:
    texts = (item.last.x_label, item.last.x_unit, item.last.y_label, item.last.y_unit)
    run, name, *labels = (str(for_csv(text)) for text in (item.run, item.name, *texts))
    points = zip(item.x.tolist(), item.y.tolist(), strict=True)
    return [(run, name, repr(x), repr(y), *labels) for x, y in points]


def _rows(item: Extract) -> Iterator[list[tuple[str, ...]]]:
    run, metric, title = (str(for_csv(text)) for text in (item.run, item.metric, item.name))
    for start in range(0, item.steps.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        walls = [f"{w:.6f}" for w in item.wall[part]] if item.wall.size else [""] * item.steps[part].size
        yield [
            (
                run,
                f"{step:.0f}" if step == int(step) else repr(float(step)),
                metric,
                str(value),
                wall,
                title,
            )
            for step, value, wall in zip(item.steps[part], item.values[part], walls, strict=True)
        ]
