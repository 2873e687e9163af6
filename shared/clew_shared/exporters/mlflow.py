"""MLflow's database, written by MLflow's own client when the extra ``mlflow`` is installed.

An exercise becomes an experiment, a run a run with its settings as parameters and every point as a metric. MLflow 3.13
and newer refuse its older folder of files, and only MLflow knows the tables of its versions.
"""

from __future__ import annotations

import importlib
import logging
import math
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from clew_shared.base.installation import MLFLOW, how_to_install
from clew_shared.base.problem import problem
from clew_shared.exporters.rows import rows_of
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.reading import spec_of

DATABASE = "mlflow.db"
_STATUS = {
    RunState.FINISHED: "FINISHED",
    RunState.FAILED: "FAILED",
    RunState.TIMED_OUT: "FAILED",
    RunState.LOST: "FAILED",
    RunState.STOPPED: "KILLED",
}
_NAME = re.compile(r"[^\w./ :-]")
_BATCH = 1000
"""Points that MLflow takes in one call."""
_RUN = "clew.run"
_LONGEST = 6000
"""Characters of a parameter that MLflow keeps."""


def export_mlflow(history: History, out: Path) -> Path:
    """``mlflow.db`` in ``out``, to which each export adds its run; an earlier export of the run goes to MLflow's trash.

    ``mlflow ui --backend-store-uri sqlite:///OUT/mlflow.db`` shows it. Raises ``ProblemError`` when MLflow is not
    installed, or the database cannot be written.
    """
    tracking, entities = _import("mlflow.tracking"), _import("mlflow.entities")
    path = out.absolute() / DATABASE
    logging.getLogger("mlflow").setLevel(logging.ERROR)  # it reports each table that it makes
    try:
        out.mkdir(parents=True, exist_ok=True)
        client = tracking.MlflowClient(f"sqlite:///{path}")
        run = _begin(client, history, path.parent)
        points = _points(history, entities.Metric)
        while batch := list(islice(points, _BATCH)):
            client.log_batch(run, metrics=batch)
        status = _STATUS.get(history.fold.state)
        if status is not None:
            client.set_terminated(run, status, end_time=_milliseconds(history.fold.ended))
    except (OSError, _import("mlflow.exceptions").MlflowException) as error:
        text = f"MLflow cannot write {path}: {str(error).splitlines()[0][:300]}."
        raise problem("export.write", text, "Choose a folder that you can write to.", str(path)) from None
    return path


def _begin(client: Any, history: History, out: Path) -> str:
    """A new run of the experiment with settings and tags, in the place of an earlier export."""
    fold, spec = history.fold, spec_of(history)
    name = fold.exercise or "run"
    known = client.get_experiment_by_name(name)
    experiment = known.experiment_id if known is not None else client.create_experiment(name, (out / "files").as_uri())
    for earlier in client.search_runs([experiment], f"tags.`{_RUN}` = '{_NAME.sub('_', fold.run)}'"):
        client.delete_run(earlier.info.run_id)
    title = (spec.name if spec is not None else "") or f"{fold.exercise}-{fold.run[:8]}"
    tags = {_RUN: _NAME.sub("_", fold.run), "clew.exercise": fold.exercise, "clew.host": fold.host}
    tags |= {"mlflow.user": spec.student} if spec is not None and spec.student else {}
    made = client.create_run(experiment, _milliseconds(fold.first_started), tags, title)
    settings = spec.params | spec.options | {"seed": spec.seed, "data": spec.data} if spec is not None else {}
    for key, value in settings.items():
        client.log_param(made.info.run_id, _NAME.sub("_", key), str(value)[:_LONGEST])
    identity: str = made.info.run_id
    return identity


def _points(history: History, metric: Any) -> Iterator[Any]:
    for rows in rows_of(history):
        name = _NAME.sub("_", rows.metric.replace("@", " at "))
        for step, value, wall in zip(rows.steps.tolist(), rows.values.tolist(), rows.wall.tolist(), strict=True):
            yield metric(name, value, _milliseconds(wall), step)


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds) if math.isfinite(seconds) else 0


def _import(name: str) -> Any:
    try:
        importlib.import_module("alembic")  # MLflow's database needs it; MLflow says so late and at length
        return importlib.import_module(name)
    except ImportError:
        hint = f"{how_to_install(*MLFLOW)}. Or export TensorBoard, CSV or Parquet."
        raise problem("export.mlflow", "MLflow, which writes its own database, is not installed.", hint) from None
