"""Parquet, when the extra ``parquet`` is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np

from clew_shared.base.installation import how_to_install
from clew_shared.base.problem import problem
from clew_shared.exporters.rows import base_name, replacing, rows_of, series_of
from clew_shared.journal.history import History


def export_parquet(history: History, out: Path) -> Path:
    """``<exercise>-<run>.parquet`` in ``out``: columns run, step (int64), metric, value and wall_time (float64, seconds
    since 1970, null where unknown). Raises ``ProblemError`` when pyarrow is not installed."""
    arrow, parquet = _import("pyarrow"), _import("pyarrow.parquet")
    run, words = history.fold.run, arrow.dictionary(arrow.int32(), arrow.string())
    fields = [("run", words), ("step", arrow.int64()), ("metric", words)]
    schema = arrow.schema([*fields, ("value", arrow.float64()), ("wall_time", arrow.float64())], {"clew.run": run})
    path = out / f"{base_name(history)}.parquet"
    with replacing(path, run) as part, parquet.ParquetWriter(str(part), schema) as writer:
        for rows in rows_of(history):
            size, nothing = len(rows.steps), np.zeros(len(rows.steps), np.int32)
            columns = [
                arrow.DictionaryArray.from_arrays(nothing, [run]),
                arrow.array(rows.steps),
                arrow.DictionaryArray.from_arrays(nothing, [rows.metric]),
                arrow.array(rows.values.astype(np.float64)),
                arrow.array(rows.wall, mask=rows.wall == 0),
            ]
            writer.write_table(arrow.Table.from_arrays(columns, schema=schema), row_group_size=size)
    return path


def export_series_parquet(history: History, out: Path) -> Path | None:
    """``<exercise>-<run>-series.parquet`` in ``out``: the columns of ``export_series_csv``; None when nothing was
    measured. Raises ``ProblemError`` when pyarrow is not installed."""
    if not history.series:
        return None
    arrow, parquet = _import("pyarrow"), _import("pyarrow.parquet")
    run, path = history.fold.run, out / f"{base_name(history)}-series.parquet"
    rows = [(one, x, y) for one in series_of(history) for x, y in zip(one.x.tolist(), one.y.tolist(), strict=True)]
    columns: dict[str, list[object]] = {"run": [run] * len(rows), "series": [one.name for one, _, _ in rows]}
    columns |= {"x": [x for _, x, _ in rows], "y": [y for _, _, y in rows]}
    for place, name in enumerate(("x_label", "x_unit", "y_label", "y_unit")):
        columns[name] = [one.labels[place] for one, _, _ in rows]
    with replacing(path, run) as part:
        parquet.write_table(arrow.table(columns, metadata={"clew.run": run}), str(part))
    return path


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        text = "Writing Parquet needs the package pyarrow, which is not installed."
        raise problem("export.parquet", text, how_to_install("pyarrow")) from None
