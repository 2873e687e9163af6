"""MLflow's folder of files (``mlruns``), written without MLflow: ``mlflow ui --backend-store-uri OUT`` shows it.

An exercise becomes an experiment, a run a run with its settings as parameters and every point as a metric. The files
are those of MLflow's ``FileStore`` (mlflow/store/tracking/file_store.py).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from clew_shared.base.problem import problem
from clew_shared.exporters.rows import as_history, rows_of
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import spec_of

_STATUS = {RunState.FINISHED: 3, RunState.FAILED: 4, RunState.TIMED_OUT: 4, RunState.LOST: 4, RunState.STOPPED: 5}
_RUNNING = 1
_PARAM = re.compile(r"[^\w./ :-]")


def export_mlflow(source: History | Path, out: Path) -> Path:
    """``<experiment>/<run>`` in ``out``, a folder for MLflow's ``file:`` store; returns the run's folder, which
    replaces an earlier one. Raises ``ProblemError`` where that cannot be written."""
    history = as_history(source)
    name = history.fold.exercise or "run"
    experiment = str(int(hashlib.sha256(name.encode()).hexdigest(), 16))[:18]
    run = re.sub(r"[^A-Za-z0-9]", "", history.fold.run)[:32] or "unknown"
    folder = out / experiment / run
    part = folder.with_name(f".{run}.{os.getpid()}.part")
    try:
        _write_experiment(out / experiment, experiment, name, history)
        try:
            _write_run(part, folder, experiment, run, history)
            if folder.exists():
                shutil.rmtree(folder)
            part.replace(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        text = f"Cannot write {folder}: {error.strerror or error}."
        raise problem("export.write", text, "Choose a folder that you can write to.", str(folder)) from None
    return folder


def _write_experiment(folder: Path, experiment: str, name: str, history: History) -> None:
    meta = folder / "meta.yaml"
    if meta.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    when = _milliseconds(history.fold.first_started)
    about = {
        "artifact_location": folder.absolute().as_uri(),
        "creation_time": when,
        "experiment_id": experiment,
        "last_update_time": when,
        "lifecycle_stage": "active",
        "name": name,
    }
    meta.write_text(_yaml(about), encoding="utf-8")


def _write_run(part: Path, folder: Path, experiment: str, run: str, history: History) -> None:
    fold, spec = history.fold, spec_of(history)
    for name in ("metrics", "params", "tags", "artifacts"):
        (part / name).mkdir(parents=True)
    title = (spec.name if spec is not None else "") or f"{fold.exercise}-{fold.run[:8]}"
    about: dict[str, object] = {
        "artifact_uri": (folder.absolute() / "artifacts").as_uri(),
        "end_time": _milliseconds(fold.ended) if fold.ended else None,
        "entry_point_name": "",
        "experiment_id": experiment,
        "lifecycle_stage": "active",
        "run_id": run,
        "run_name": title,
        "run_uuid": run,
        "source_name": "",
        "source_type": 4,
        "source_version": "",
        "start_time": _milliseconds(fold.first_started),
        "status": _STATUS.get(fold.state, _RUNNING),
        "tags": [],
        "user_id": spec.student if spec is not None else "",
    }
    (part / "meta.yaml").write_text(_yaml(about), encoding="utf-8")
    tags = {"mlflow.runName": title, "clew.run": fold.run, "clew.exercise": fold.exercise, "clew.host": fold.host}
    for name, text in tags.items():
        (part / "tags" / name).write_text(text, encoding="utf-8")
    settings = spec.params | spec.options | {"seed": spec.seed, "data": spec.data} if spec is not None else {}
    for name, value in settings.items():
        (part / "params" / _PARAM.sub("_", name)).write_text(str(value), encoding="utf-8")
    for rows in rows_of(history):
        with (part / "metrics" / _PARAM.sub("_", rows.metric)).open("a", encoding="utf-8") as file:
            points = zip(rows.steps.tolist(), rows.values.tolist(), rows.wall.tolist(), strict=True)
            file.writelines(f"{_milliseconds(wall)} {value!r} {step}\n" for step, value, wall in points)


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds) if math.isfinite(seconds) else 0


def _yaml(about: Mapping[str, object]) -> str:
    """A flat table; JSON's texts and numbers are YAML's as well."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in about.items())
