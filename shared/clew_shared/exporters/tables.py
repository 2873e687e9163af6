"""CSV and JSON Lines: one row a point, in long form."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from clew_shared.exporters.rows import ExportRows, as_history, base_name, replacing, rows_of
from clew_shared.journal.history import History

CSV_HEADER = "run,step,metric,value,wall_time"

_Format = Callable[[str, ExportRows], Iterator[str]]


def export_csv(source: History | Path, out: Path) -> Path:
    """``<exercise>-<run>.csv`` in ``out``: values with all their digits (``nan``, ``inf``, ``-inf`` as they are),
    ``wall_time`` in seconds since 1970, empty where unknown."""
    return _export(source, out, ".csv", f"{CSV_HEADER}\n", _csv_lines)


def export_jsonl(source: History | Path, out: Path) -> Path:
    """``<exercise>-<run>.jsonl`` in ``out``: an object a line with the same five names. JSON has no NaN, so values that
    are not finite are the strings "NaN", "Infinity" and "-Infinity"; an unknown ``wall_time`` is null."""
    return _export(source, out, ".jsonl", "", _json_lines)


def _export(source: History | Path, out: Path, suffix: str, header: str, lines: _Format) -> Path:
    history = as_history(source)
    path = out / (base_name(history) + suffix)
    with replacing(path, history.fold.run) as part, part.open("w", encoding="utf-8", newline="") as file:
        file.write(header)
        for rows in rows_of(history):
            file.writelines(lines(history.fold.run, rows))
    return path


def _csv_lines(run: str, rows: ExportRows) -> Iterator[str]:
    run_cell, metric_cell = _cell(run), _cell(rows.metric)
    for step, value, wall in zip(rows.steps.tolist(), rows.values.tolist(), rows.wall.tolist(), strict=True):
        yield (
            f"{run_cell},{step},{metric_cell},{value!r},{wall:.6f}\n"
            if wall and math.isfinite(wall)
            else (f"{run_cell},{step},{metric_cell},{value!r},\n")
        )


def _cell(text: str) -> str:
    """The text, quoted where CSV needs it."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow([text])  # it quotes what is in its own line end
    return buffer.getvalue().removesuffix("\r\n")


def _json_lines(run: str, rows: ExportRows) -> Iterator[str]:
    head, middle = f'{{"run":{json.dumps(run)},"step":', f',"metric":{json.dumps(rows.metric)},"value":'
    for step, value, wall in zip(rows.steps.tolist(), rows.values.tolist(), rows.wall.tolist(), strict=True):
        number = repr(value) if math.isfinite(value) else json.dumps(json.dumps(value))
        when = f"{wall:.6f}" if wall and math.isfinite(wall) else "null"
        yield f'{head}{step}{middle}{number},"wall_time":{when}}}\n'
