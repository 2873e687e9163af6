"""CSV and JSON Lines: one row a point, in long form."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import TextIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from clew_shared.base.foreign import replacing_whole
from clew_shared.base.harmless import csv_cell
from clew_shared.exporters.rows import (
    ExportRows,
    SeriesRows,
    UpdateRows,
    base_name,
    pulse_of,
    replacing,
    rows_of,
    series_of,
    updates_of,
)
from clew_shared.journal.history import History

CSV_HEADER = "run,step,metric,value,wall_time"
SERIES_HEADER = "run,series,x,y,x_label,x_unit,y_label,y_unit"
PULSE_HEADER = "run,time,process,host,name,value"
UPDATES_HEADER = f"run,{','.join(UpdateRows._fields)}"

_NEAR, _FAR = 1e9, 9e9
"""Seconds since 1970 between which a time has ten digits, and a float has its microseconds."""
_JSON_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_ENCODER = msgspec.json.Encoder()

_PulseRow = tuple[float, str, str, str, float]
_SeriesFormat = Callable[[str, SeriesRows], Iterator[str]]


def export_csv(history: History, out: Path) -> Path:
    """``<exercise>-<run>.csv`` in ``out``: values with all their digits (``nan``, ``inf``, ``-inf`` as they are),
    ``wall_time`` in seconds since 1970, empty where unknown."""
    return _export(history, out, ".csv", CSV_HEADER, (_csv_lines(history.fold.run, rows) for rows in rows_of(history)))


def write_curves(path: Path, curves: Iterable[tuple[str, str, ExportRows]]) -> None:
    """Writes curves of any runs as one table, each with its run's id and name for people: the columns of ``export_csv``
    and the name. Raises OSError; there is never half a file."""
    with replacing_whole(path) as part, part.open("wb") as file:
        file.write(f"{CSV_HEADER},name\n".encode())
        file.writelines(_csv_lines(run, rows, f",{csv_cell(name) if name else ''}") for run, name, rows in curves)


def write_series(path: Path, series: Iterable[tuple[str, SeriesRows]]) -> None:
    """Writes measured relations of any runs as one table, each with its run's id. As ``write_curves`` otherwise."""
    with replacing_whole(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{SERIES_HEADER}\n")
        for run, rows in series:
            file.writelines(_series_csv(run, rows))


def export_jsonl(history: History, out: Path) -> Path:
    """``<exercise>-<run>.jsonl`` in ``out``: an object a line with the same five names. JSON has no NaN, so values that
    are not finite are the strings "NaN", "Infinity" and "-Infinity"; an unknown ``wall_time`` is null."""
    return _export(history, out, ".jsonl", "", (_json_lines(history.fold.run, rows) for rows in rows_of(history)))


def export_wandb(history: History, out: Path) -> Path:
    """``<exercise>-<run>-wandb.csv`` in ``out``: a row for each step with a column for each metric, as Weights & Biases
    writes the history of a run: ``_step``, ``_runtime`` in seconds, ``_timestamp`` in seconds since 1970. What a step
    does not have is empty."""
    names = history.recorded()
    columns = {name: history.column(name) for name in names}
    steps = np.unique(np.concatenate([column.steps for column in columns.values()])) if names else np.empty(0, np.int64)
    wall, cells = np.zeros(len(steps)), list[list[str]]()
    for name, column in columns.items():
        places, texts = np.searchsorted(steps, column.steps), [""] * len(steps)
        wall[places] = np.where(wall[places] > 0, wall[places], history.wall(name))
        for place, value in zip(places.tolist(), column.values.tolist(), strict=True):
            texts[place] = repr(value) if not math.isnan(value) else "NaN"
        cells.append(texts)
    path = out / f"{base_name(history)}-wandb.csv"
    start = history.fold.first_started
    with replacing(path, history.fold.run) as part, part.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(map(csv_cell, ("_step", "_runtime", "_timestamp", "run", *names))) + "\n")
        run = csv_cell(history.fold.run)
        for place, (step, when) in enumerate(zip(steps.tolist(), wall.tolist(), strict=True)):
            times = f"{when - start:.6f},{when:.6f}" if when else ","
            file.write(f"{step},{times},{run},{','.join(texts[place] for texts in cells)}\n")
    return path


def export_series_csv(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-series.csv`` in ``out``: every point of the measured relations; None when there are none."""
    return _export_series(history, out, ".csv", SERIES_HEADER, _series_csv)


def export_series_jsonl(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-series.jsonl`` in ``out``: an object a point with the same names; None when there are none."""
    return _export_series(history, out, ".jsonl", "", _series_json)


def export_updates_csv(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-updates.csv`` in ``out``: every gradient that parameter servers took; None when there are
    none."""
    return (
        _export(history, out, "-updates.csv", UPDATES_HEADER, _updates_csv(history)) if len(history.updates) else None
    )


def write_updates_csv(history: History, file: TextIO) -> None:
    """Writes the same into a file that is open."""
    file.write(f"{UPDATES_HEADER}\n")
    file.writelines(_updates_csv(history))


def _updates_csv(history: History) -> Iterator[str]:
    run = csv_cell(history.fold.run)
    for row in updates_of(history):
        times = f"{row.ended!r},{row.seconds!r}"
        yield f"{run},{row.step},{row.worker},{times},{row.staleness},{int(row.accepted)}\n"


def export_updates_jsonl(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-updates.jsonl`` in ``out``: an object a gradient with the same names; None when there are
    none."""
    lines = (_json_line({"run": history.fold.run, **row._asdict()}) for row in updates_of(history))
    return _export(history, out, "-updates.jsonl", "", lines) if len(history.updates) else None


def export_pulse_csv(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-pulse.csv`` in ``out``: everything that was sampled of the run's machines, what is not known
    left out, ``time`` in seconds since 1970; None when nothing was."""

    def line(run: str, row: _PulseRow) -> str:
        time, *words, value = row
        return f"{csv_cell(run)},{time:.3f},{','.join(map(csv_cell, words))},{value!r}\n"

    return _export_pulse(history, out, ".csv", PULSE_HEADER, line)


def export_pulse_jsonl(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-pulse.jsonl`` in ``out``: an object a value with the same names; None when nothing was
    sampled."""

    def line(run: str, row: _PulseRow) -> str:
        return _json_line(dict(zip(PULSE_HEADER.split(","), (run, *row), strict=True)))

    return _export_pulse(history, out, ".jsonl", "", line)


def _export_pulse(
    history: History, out: Path, suffix: str, header: str, line: Callable[[str, _PulseRow], str]
) -> Path | None:
    lines = (
        line(history.fold.run, (time, rows.process, rows.host, rows.name, value))
        for rows in pulse_of(history)
        for time, value in zip(rows.times.tolist(), rows.values.tolist(), strict=True)
        if math.isfinite(value)
    )
    return _export(history, out, f"-pulse{suffix}", header, lines) if len(history.pulse) else None


def _export_series(history: History, out: Path, suffix: str, header: str, lines: _SeriesFormat) -> Path | None:
    found = (line for rows in series_of(history) for line in lines(history.fold.run, rows))
    return _export(history, out, f"-series{suffix}", header, found) if history.series else None


def _export(history: History, out: Path, ending: str, header: str, pieces: Iterable[str | bytes]) -> Path:
    path = out / f"{base_name(history)}{ending}"
    with replacing(path, history.fold.run) as part, part.open("wb") as file:
        file.write(f"{header}\n".encode() if header else b"")
        file.writelines(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)
    return path


def _json_line(row: dict[str, object]) -> str:
    return json.dumps(row, separators=(",", ":")) + "\n"


# Runs have millions of points: msgspec writes a number in a tenth of the time that Python takes.


def _values(rows: ExportRows, words: Mapping[str, str]) -> list[float | str]:
    """The values, with ``words`` for those that are not finite."""
    values: list[float | str] = rows.values.tolist()
    for place in np.flatnonzero(~np.isfinite(rows.values)).tolist():
        values[place] = words[repr(values[place])]
    return values


def _microseconds(rows: ExportRows) -> tuple[NDArray[np.int64], dict[int, float | None]]:
    """The times in whole microseconds since 1970; and by their places those that have other than sixteen digits, in
    seconds, or None where they are unknown."""
    usual = (rows.wall >= _NEAR) & (rows.wall < _FAR)
    wall = np.where(usual, rows.wall, _NEAR)
    seconds = np.floor(wall)
    micro = (seconds * 1e6 + np.rint((wall - seconds) * 1e6)).astype(np.int64)
    odd = {place: float(rows.wall[place]) for place in np.flatnonzero(~usual).tolist()}
    return micro, {place: when if when and math.isfinite(when) else None for place, when in odd.items()}


def _decimals(micro: NDArray[np.int64]) -> list[str]:
    """The numbers of sixteen digits with a point before the last six."""
    codes = np.full((len(micro), 17), ord("."), np.uint32)
    for column in (*range(16, 10, -1), *range(9, -1, -1)):
        micro, digits = np.divmod(micro, 10)
        codes[:, column] = digits + ord("0")
    words: list[str] = codes.view("U17")[:, 0].tolist()
    return words


def _csv_lines(run: str, rows: ExportRows, last: str = "") -> bytes:
    micro, odd = _microseconds(rows)
    times = _decimals(micro)
    for place, when in odd.items():
        times[place] = f"{when:.6f}" if when is not None else ""
    values = _values(rows, {one: one for one in _JSON_WORDS})
    table = list(zip(rows.steps.tolist(), repeat(True), values, times, strict=False))
    text = msgspec.json.encode(table)[2:-2].decode().replace('"', "").replace("],[", "\0")
    text = text.replace("true", csv_cell(rows.metric))
    text = text.replace("\0", f"{last}\n{csv_cell(run)},")  # a cell has no null character
    return f"{csv_cell(run)},{text}{last}\n".encode()


def _json_lines(run: str, rows: ExportRows) -> bytes:
    micro, odd = _microseconds(rows)
    times: list[float | None] = (micro / 1e6).tolist()
    for place, when in odd.items():
        times[place] = when
    return _ENCODER.encode_lines(
        {"run": run, "step": step, "metric": rows.metric, "value": value, "wall_time": wall}
        for step, value, wall in zip(rows.steps.tolist(), _values(rows, _JSON_WORDS), times, strict=True)
    )


def _series_csv(run: str, rows: SeriesRows) -> Iterator[str]:
    head, labels = f"{csv_cell(run)},{csv_cell(rows.name)}", ",".join(map(csv_cell, rows.labels))
    for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
        yield f"{head},{x!r},{y!r},{labels}\n"


def _series_json(run: str, rows: SeriesRows) -> Iterator[str]:
    names = dict(zip(("x_label", "x_unit", "y_label", "y_unit"), rows.labels, strict=True))
    for x, y in zip(rows.x.tolist(), rows.y.tolist(), strict=True):
        numbers = {key: value if math.isfinite(value) else json.dumps(value) for key, value in (("x", x), ("y", y))}
        yield _json_line({"run": run, "series": rows.name, **numbers, **names})
