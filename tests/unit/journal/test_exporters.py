"""Exports are read back by the programs they are meant for, and destroy nothing."""

from __future__ import annotations

import csv
import importlib
import json
import math
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clew_shared.base.problem import ProblemError
from clew_shared.cards import MetricSpec
from clew_shared.exporters.mlflow import export_mlflow
from clew_shared.exporters.parquet import export_parquet, export_series_parquet
from clew_shared.exporters.rows import CHUNK_ROWS, rows_of
from clew_shared.exporters.tables import (
    export_csv,
    export_jsonl,
    export_series_csv,
    export_series_jsonl,
    export_updates_csv,
    export_updates_jsonl,
    export_wandb,
    write_curves,
)
from clew_shared.exporters.tensorboard import export_tensorboard, figure_record
from clew_shared.journal.events import Attempt, Evaluation, Histogram, Image, Points, Schema, Series, State
from clew_shared.journal.files import JournalWriter
from clew_shared.journal.history import History
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.params import Value
from clew_shared.reading import read_run
from clew_shared.spec import RunSpec, to_toml
from tests.recording import record
from tests.simulated_cluster import SimulatedCluster
from tests.unit.runs import METRICS, RUN, describe, end_run, points, small_run

Export = Callable[[History, Path], Path]
ALL: list[Export] = [export_csv, export_jsonl, export_parquet, export_tensorboard]

WALL = [1_700_000_001.5, 1_700_000_002.0, 1_700_000_002.5, 1_700_000_003.0]
EXPECTED = [
    *[(step, "loss", value, WALL[step]) for step, value in enumerate([4.0, 3.0, 2.0, math.nan])],
    *[(step, "W", 10.0 * step, WALL[step]) for step in range(4)],
    (4, "test_accuracy", 0.9, 1_700_000_003.5),
]


def history_of(steps: int, metric: str = "loss", run: str = RUN, first: int = 0) -> History:
    """A run of one block without wall-clock times; the value is a third of the step."""
    values = np.arange(first, first + steps, dtype="<f8") / 3
    history = History()
    history.feed(1, Attempt(format=1, run=run, attempt=1, exercise="softmax", spec_sha256=""))
    history.feed(1, Schema(id=1, metrics=(MetricSpec(name=metric, label=metric, dtype="float64"),)))
    history.feed(1, Points(schema=1, first=first, count=steps, seconds=1, clock=1, values=(values.tobytes(),)))
    return history


# --- CSV and JSONL ----------------------------------------------------------------------------------------------------


def test_csv_holds_every_point_in_long_form(tmp_path: Path) -> None:
    path = export_csv(read_run(small_run(tmp_path / "run").path), tmp_path / "out")
    assert path == tmp_path / "out" / "softmax-5f2b8c1e.csv"
    text = path.read_text()
    assert text.splitlines()[0] == "run,step,metric,value,wall_time"
    assert text.splitlines()[1] == f"{RUN},0,loss,4.0,1700000001.500000"
    rows = [
        (int(r["step"]), r["metric"], float(r["value"]), float(r["wall_time"]))
        for r in csv.DictReader(text.splitlines())
    ]
    assert str(rows) == str(EXPECTED)
    assert {row["run"] for row in csv.DictReader(text.splitlines())} == {RUN}


def test_jsonl_holds_the_same_and_is_strict_json(tmp_path: Path) -> None:
    path = export_jsonl(read_run(small_run(tmp_path / "run").path), tmp_path)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert all(list(row) == ["run", "step", "metric", "value", "wall_time"] and row["run"] == RUN for row in rows)
    found = [(row["step"], row["metric"], float(row["value"]), row["wall_time"]) for row in rows]
    assert str(found) == str(EXPECTED)
    assert rows[3]["value"] == "NaN"


def test_numbers_keep_all_their_digits_and_unknown_times_stay_empty(tmp_path: Path) -> None:
    history = history_of(CHUNK_ROWS + 7)
    rows = list(csv.DictReader(export_csv(history, tmp_path).read_text().splitlines()))
    assert [float(row["value"]) for row in rows] == history.column("loss").values.tolist()
    assert {row["wall_time"] for row in rows} == {""}
    lines = export_jsonl(history, tmp_path).read_text().splitlines()
    assert [json.loads(line)["value"] for line in lines] == history.column("loss").values.tolist()
    assert json.loads(lines[0])["wall_time"] is None


def test_names_with_commas_quotes_and_line_ends_survive(tmp_path: Path) -> None:
    name = 'a "b", c\nd'
    history = history_of(2, name)
    with export_csv(history, tmp_path).open(newline="") as file:
        assert [row["metric"] for row in csv.DictReader(file)] == [name, name]
    lines = export_jsonl(history, tmp_path).read_text().splitlines()
    assert [json.loads(line)["metric"] for line in lines] == [name, name]


NAMES = ["train/loss", "val/mAP@50-95", "lr-Adam/pg.0", "_private", "val/mAP_50-95"]


def named_history() -> tuple[History, dict[str, float]]:
    """A run of one step with these metrics, and their values, which have more than 32 bits."""
    value, history = 16_777_217.0, History()
    history.feed(1, Attempt(format=1, run=RUN, attempt=1, exercise="own", spec_sha256=""))
    history.feed(1, Schema(id=1, metrics=tuple(MetricSpec(name=name, label=name, dtype="float64") for name in NAMES)))
    columns = tuple(np.array([value + place], "<f8").tobytes() for place in range(len(NAMES)))
    history.feed(1, Points(schema=1, first=0, count=1, seconds=1, clock=1, values=columns))
    return history, {name: value + place for place, name in enumerate(NAMES)}


def test_names_of_other_loggers_and_64_bits_come_through_every_export(tmp_path: Path) -> None:
    """A slash is no folder, and names that differ stay different."""
    history, expected = named_history()
    rows = list(csv.DictReader(export_csv(history, tmp_path).read_text().splitlines()))
    assert {row["metric"]: float(row["value"]) for row in rows} == expected
    lines = map(json.loads, export_jsonl(history, tmp_path).read_text().splitlines())
    assert {row["metric"]: row["value"] for row in lines} == expected
    (row,) = csv.DictReader(export_wandb(history, tmp_path).read_text().splitlines())
    assert {name: float(row[name]) for name in NAMES} == expected
    table = importlib.import_module("pyarrow.parquet").read_table(export_parquet(history, tmp_path)).to_pylist()
    assert {row["metric"]: row["value"] for row in table} == expected
    assert scalars(export_tensorboard(history, tmp_path).parent).keys() == set(NAMES)
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(("loss", "mAP", "train", "val"))]


@pytest.mark.filterwarnings("ignore:The ``noload``")  # what MLflow itself does with SQLAlchemy
def test_mlflow_gets_names_that_it_takes(tmp_path: Path) -> None:
    history, expected = named_history()
    client = importlib.import_module("mlflow.tracking").MlflowClient(f"sqlite:///{export_mlflow(history, tmp_path)}")
    (found,) = client.search_runs([client.get_experiment_by_name("own").experiment_id])
    assert found.data.metrics == {name.replace("@", " at "): one for name, one in expected.items()}


# --- TensorBoard ------------------------------------------------------------------------------------------------------


def scalars(folder: Path) -> dict[str, list[Any]]:
    """What TensorBoard itself reads from a folder, keeping every point."""
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    accumulator = reader.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: accumulator.Scalars(tag) for tag in accumulator.Tags()["scalars"]}


def test_tensorboard_reads_every_point(tmp_path: Path) -> None:
    path = export_tensorboard(read_run(small_run(tmp_path / "run").path), tmp_path / "out")
    assert path == tmp_path / "out" / "softmax-5f2b8c1e" / "events.out.tfevents.1700000000.clew"
    found = scalars(path.parent)
    assert list(found) == ["loss", "W", "test_accuracy"]
    rows = [(e.step, tag, e.value, e.wall_time) for tag, events in found.items() for e in events]
    single = [(step, tag, float(np.float32(value)), wall) for step, tag, value, wall in EXPECTED]
    assert str(rows) == str(single)


def test_tensorboard_reads_steps_of_any_length_and_huge_values(tmp_path: Path) -> None:
    history = history_of(20_000, first=2_090_000)  # across 2**21, where a step begins to take four bytes
    edges = [0, 1, 127, 128, 16383, 16384, 2**35, 2**53]
    for step in edges:
        values = (np.array([1e300], "<f8").tobytes(),)
        if step < 2_090_000:
            history.feed(1, Schema(id=2, metrics=(MetricSpec(name="edge", label="edge", dtype="float64"),)))
        history.feed(1, Points(time=5.0, schema=2, first=step, count=1, seconds=0, clock=1, values=values))
    found = scalars(export_tensorboard(history, tmp_path).parent)
    assert [event.step for event in found["loss"]] == list(range(2_090_000, 2_110_000))
    assert np.allclose([event.value for event in found["loss"]], history.column("loss").values)
    assert [(event.step, event.value, event.wall_time) for event in found["edge"]] == [
        (s, math.inf, 5.0) for s in edges
    ]


def test_tensorboard_reads_names_of_any_length_and_script(tmp_path: Path) -> None:
    name = "Verlust/größe " + "x" * 20_000
    assert list(scalars(export_tensorboard(history_of(2, name), tmp_path).parent)) == [name]


def test_a_flipped_byte_is_noticed_by_tensorboard_so_the_checksums_are_real(tmp_path: Path) -> None:
    path = export_tensorboard(history_of(3), tmp_path)
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    assert len(scalars(path.parent)["loss"]) == 2


# --- Parquet ----------------------------------------------------------------------------------------------------------


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    path = export_parquet(read_run(small_run(tmp_path / "run").path), tmp_path)
    rows = importlib.import_module("pyarrow.parquet").read_table(path).to_pylist()
    assert {row["run"] for row in rows} == {RUN}
    assert str([(r["step"], r["metric"], r["value"], r["wall_time"]) for r in rows]) == str(EXPECTED)


def test_parquet_takes_many_chunks_and_unknown_times(tmp_path: Path) -> None:
    table = importlib.import_module("pyarrow.parquet").read_table(
        export_parquet(history_of(2 * CHUNK_ROWS + 1), tmp_path)
    )
    assert (table.num_rows, table["wall_time"].null_count) == (2 * CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 1)


def test_parquet_without_its_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ProblemError, match="pip install"):
        export_parquet(history_of(1), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- Nothing is destroyed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("export", ALL)
def test_an_export_of_the_same_run_is_replaced_and_nothing_else(tmp_path: Path, export: Export) -> None:
    path = export(history_of(1), tmp_path)
    first = path.read_bytes()
    assert export(history_of(9), tmp_path) == path
    assert path.read_bytes() != first
    path.write_text("notes of a student")
    with pytest.raises(ProblemError, match="not an export of this run"):
        export(history_of(9), tmp_path)
    assert path.read_text() == "notes of a student"
    assert [entry for entry in path.parent.iterdir() if entry.name.endswith(".part")] == []


@pytest.mark.unix("links for everybody")
@pytest.mark.parametrize("export", ALL)
def test_a_link_in_place_of_an_export_is_not_replaced(tmp_path: Path, export: Export) -> None:
    path = export(history_of(1), tmp_path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProblemError, match="not an export of this run"):
        export(history_of(9), tmp_path)


@pytest.mark.parametrize("export", ALL)
def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path, export: Export) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProblemError, match="Cannot write"):
        export(history_of(1), tmp_path / "file")


@pytest.mark.parametrize("export", ALL)
def test_an_export_that_fails_leaves_nothing_behind(
    tmp_path: Path, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(ProblemError, match="No space left"):
        export(history_of(1), tmp_path / "out")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("export", ALL)
def test_a_run_id_that_is_a_path_stays_inside_the_folder(tmp_path: Path, export: Export) -> None:
    path = export(history_of(1, run="../../etc"), tmp_path / "out")
    assert (tmp_path / "out") in path.resolve().parents


@pytest.mark.parametrize("export", ALL)
def test_a_run_without_points_exports_to_an_empty_file_of_its_kind(tmp_path: Path, export: Export) -> None:
    history = History()
    history.feed(1, Attempt(format=1, run=RUN, attempt=1, exercise="softmax", spec_sha256=""))
    path = export(history, tmp_path)
    assert path.is_file()
    if export is export_tensorboard:
        assert scalars(path.parent) == {}


# --- Measured relations -----------------------------------------------------------------------------------------------

PIECES = (("NumPy", [10, 1000], [1e-6, 3e-6]), ("NumPy", [100], [2e-6]), ("loss, by rate", [0.1], [math.inf]))
POINTS = [(name, x, y) for name, xs, ys in PIECES for x, y in zip(xs, ys, strict=True)]


def measured() -> History:
    """A run with two relations: one over whole numbers that came in two pieces, one over others."""
    history = history_of(2)
    for name, *values in PIECES:
        x, y = (np.array(one, "<f8").tobytes() for one in values)
        history.feed(1, Series(name=name, x=x, y=y, x_label="Size", y_label="Time", y_unit="s"))
    return history


def test_measured_relations_are_a_csv_of_their_own(tmp_path: Path) -> None:
    path = export_series_csv(measured(), tmp_path)
    assert path == tmp_path / "softmax-5f2b8c1e-series.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["run", "series", "x", "y", "x_label", "x_unit", "y_label", "y_unit"]
    assert [(row["series"], float(row["x"]), float(row["y"])) for row in rows] == POINTS
    assert {(row["run"], row["x_label"], row["x_unit"], row["y_unit"]) for row in rows} == {(RUN, "Size", "", "s")}


def test_measured_relations_are_strict_json(tmp_path: Path) -> None:
    path = export_series_jsonl(measured(), tmp_path)
    assert path is not None
    rows = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert [(row["series"], float(row["x"]), float(row["y"])) for row in rows] == POINTS


def test_measured_relations_are_a_parquet_file_of_their_own(tmp_path: Path) -> None:
    rows = (
        importlib.import_module("pyarrow.parquet").read_table(export_series_parquet(measured(), tmp_path)).to_pylist()
    )
    assert [(row["series"], row["x"], row["y"]) for row in rows] == POINTS


def test_tensorboard_has_what_was_measured_over_whole_numbers(tmp_path: Path) -> None:
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    board = reader.EventAccumulator(str(export_tensorboard(measured(), tmp_path)))
    board.Reload()
    assert sorted(board.Tags()["scalars"]) == ["NumPy", "loss"]
    assert [(one.step, one.value) for one in board.Scalars("NumPy")] == [
        (step, pytest.approx(1e-6 * value)) for step, value in ((10, 1), (100, 2), (1000, 3))
    ]


def test_tensorboard_has_images_and_histograms(tmp_path: Path) -> None:
    """As TensorBoard reads them: the PNG of all images in rows, and the bins."""
    history = history_of(3)
    data = bytes(range(6)) * 3
    history.feed(
        1, Image(time=5.0, name="samples", step=200, width=1, height=2, channels=3, count=3, columns=2, data=data)
    )
    edges, counts = np.array([0, 1, 2], "<f8").tobytes(), np.array([5, 7], "<i8").tobytes()
    history.feed(1, Histogram(time=6.0, name="error", step=300, edges=edges, counts=counts))
    folder = export_tensorboard(history, tmp_path).parent
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    accumulator = reader.EventAccumulator(str(folder))
    accumulator.Reload()
    (image,), (histogram,) = accumulator.Images("samples"), accumulator.Histograms("error")
    assert (image.step, image.wall_time, image.width, image.height) == (200, 5.0, 3, 5)
    grid = np.asarray(importlib.import_module("PIL.Image").open(BytesIO(image.encoded_image_string)))
    assert grid.shape == (5, 3, 3), "two beside each other and one below, a pixel between them"
    assert grid[0, 0].tolist() == grid[0, 2].tolist() == grid[3, 0].tolist() == [0, 1, 2]
    assert grid[2, 0].tolist() == grid[4, 2].tolist() == [128] * 3
    bins = histogram.histogram_value
    assert (histogram.step, bins.min, bins.max, bins.num, bins.sum) == (300, 0, 2, 12, 5 * 0.5 + 7 * 1.5)
    assert (list(bins.bucket_limit), list(bins.bucket)) == ([1, 2], [5, 7])


@pytest.mark.parametrize("export", [export_series_csv, export_series_jsonl, export_series_parquet])
def test_where_nothing_was_measured_there_is_no_such_file(
    tmp_path: Path, export: Callable[[History | Path, Path], Path | None]
) -> None:
    assert export(history_of(2), tmp_path) is None
    assert not list(tmp_path.glob("*series*"))


# --- Parameter servers ------------------------------------------------------------------------------------------------


def test_gradients_of_parameter_servers_are_files_of_their_own(tmp_path: Path) -> None:
    assert export_updates_csv(history_of(2), tmp_path) is export_updates_jsonl(history_of(2), tmp_path) is None
    history, cluster = history_of(2), SimulatedCluster(workers=2, bound=0)
    history.feed(1, next(cluster.train(1)))
    path = export_updates_csv(history, tmp_path)
    assert path == tmp_path / "softmax-5f2b8c1e-updates.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert list(rows[0]) == ["run", "step", "worker", "ended", "seconds", "staleness", "accepted"]
    columns = history.updates.columns
    assert [float(row["ended"]) for row in rows] == columns.ended.tolist()
    assert [row["accepted"] == "1" for row in rows] == columns.accepted.tolist()
    assert {row["accepted"] for row in rows} == {"0", "1"}
    lines = export_updates_jsonl(history, tmp_path)
    assert lines is not None
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines.read_text().splitlines()]
    assert [row["staleness"] for row in found] == columns.staleness.tolist()
    assert found[0]["run"] == RUN


# --- Settings, MLflow and Weights & Biases ----------------------------------------------------------------------------


def settled_run(path: Path) -> Path:
    """A run whose journal holds its spec: three settings, 4 steps and an evaluation."""
    folder = RunFolder(path)
    path.mkdir()
    params: dict[str, Value] = {"learning_rate": 0.5, "optimizer": "sgd", "shuffle": True, "decay": None}
    text = to_toml(RunSpec(exercise="softmax", run=RUN, name="mine", seed=3, params=params))
    folder.spec.write_text(text)
    with JournalWriter.create(folder.journal(1)) as writer:
        writer.append(describe(folder, spec=text))
        writer.append(Schema(id=1, metrics=METRICS))
        writer.append(State(time=1_700_000_001.0, state=RunState.RUNNING))
        writer.append(points(0, [4, 3], time=1_700_000_002.0))
        writer.append(points(2, [2, math.nan], time=1_700_000_003.0))
        writer.append(Evaluation(time=1_700_000_003.5, step=4, values={"test_accuracy": 0.9}, clock=4.0))
        end_run(folder, writer, time=1_700_000_004.0)
    return path


def test_the_settings_are_on_the_page_hparams_of_tensorboard(tmp_path: Path) -> None:
    loader = importlib.import_module("tensorboard.backend.event_processing.event_file_loader")
    event = importlib.import_module("tensorboard.compat.proto.event_pb2").Event
    metadata = importlib.import_module("tensorboard.plugins.hparams.metadata")
    path = export_tensorboard(read_run(settled_run(tmp_path / "run")), tmp_path / "out")
    events = [event.FromString(raw) for raw in loader.RawEventFileLoader(str(path)).Load()]
    values = {value.tag: value for one in events for value in one.summary.value}
    start, end = (values[f"_hparams_/session_{name}_info"].metadata.plugin_data.content for name in ("start", "end"))
    begun = metadata.parse_session_start_info_plugin_data(start)
    found = {name: value.WhichOneof("kind") for name, value in begun.hparams.items()}
    assert found == {
        "learning_rate": "number_value",
        "optimizer": "string_value",
        "shuffle": "bool_value",
        "decay": "string_value",
        "seed": "number_value",
        "data": "string_value",
        "strategy": "string_value",
    }
    assert begun.hparams["learning_rate"].number_value == 0.5
    assert begun.hparams["shuffle"].bool_value is True
    assert begun.start_time_secs == 1_700_000_000.0
    assert metadata.parse_session_end_info_plugin_data(end).end_time_secs == 1_700_000_004.0


@pytest.mark.filterwarnings("ignore")  # of mlflow's own imports
@pytest.mark.filterwarnings("ignore:The ``noload``")  # what MLflow itself does with SQLAlchemy
def test_mlflow_reads_every_point_and_setting(tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    run = settled_run(tmp_path / "run")
    for _ in range(2):  # the second replaces the first
        path = export_mlflow(read_run(run), tmp_path / "out")
    client = MlflowClient(f"sqlite:///{path}")
    experiment = client.get_experiment_by_name("softmax")
    assert experiment is not None
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status) == ("mine", "FINISHED")
    assert (found.data.params["learning_rate"], found.data.params["seed"]) == ("0.5", "3")
    assert found.data.tags["clew.run"] == RUN
    read = [
        (point.step, name, point.value, point.timestamp / 1000)
        for name in ("loss", "W", "test_accuracy")
        for point in client.get_metric_history(found.info.run_id, name)
    ]
    assert str(read) == str(EXPECTED)


def test_without_mlflow_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(ProblemError, match=r"pip install 'mlflow-skinny>="):
        export_mlflow(history_of(3), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_table_for_weights_and_biases_has_a_row_for_each_step(tmp_path: Path) -> None:
    path = export_wandb(read_run(settled_run(tmp_path / "run")), tmp_path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    read = [
        (int(row["_step"]), name, float(row[name]), float(row["_timestamp"]))
        for name in ("loss", "W", "test_accuracy")
        for row in rows
        if row[name]
    ]
    assert str(read) == str(EXPECTED)
    assert [row["_runtime"] for row in rows] == ["1.500000", "2.000000", "2.500000", "3.000000", "3.500000"]


@pytest.mark.parametrize("count", [0, 2])
def test_images_in_rows_of_less_than_none_are_in_as_many_as_fit(count: int) -> None:
    """A run of somebody else may say so."""
    fit, odd = (
        Image(
            time=1.0, name="a", step=1, width=1, height=1, channels=1, count=count, columns=columns, data=bytes(count)
        )
        for columns in (0, -3)
    )
    assert figure_record(fit) == figure_record(odd)


def going_on() -> History:
    history, curve = History(), np.linspace(2, 1, 200)
    record(history, "loss", 0, curve[:100], clock=(2.0, 2.0), wall=1002.0)
    record(history, "loss", 100, curve[100:], clock=(3.0, 1.0), wall=1013.0)
    return history


def test_curves_of_several_runs_are_one_table_with_their_names(tmp_path: Path) -> None:
    other, path = History(), tmp_path / "curves.csv"
    record(other, "loss", 0, [np.nan, 0.5])
    found = [("a", "7  Warm, start", going_on()), ("b", "", other)]
    write_curves(path, ((run, name, rows) for run, name, history in found for rows in rows_of(history)))
    lines = path.read_text().splitlines()
    assert len(lines) == 203
    assert lines[0] == "run,step,metric,value,wall_time,name"
    assert lines[1] == 'a,0,loss,2.0,1000.020000,"7  Warm, start"'
    assert lines[-2:] == ["b,0,loss,nan,,", "b,1,loss,0.5,,"]


def test_rows_stay_as_they_are_while_the_run_goes_on() -> None:
    history = going_on()
    (before,) = rows_of(history)
    record(history, "loss", 200, np.zeros(2000))
    assert (len(before.steps), before.values[-1], len(before.wall)) == (200, 1.0, 200)


def test_a_table_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(OSError, match=r"folder\.csv"):
        write_curves(tmp_path / "folder.csv", [])
    assert [path.name for path in tmp_path.iterdir() if path.name != "clew-home"] == ["folder.csv"]
