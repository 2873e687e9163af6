"""``clew scaling`` as a person types it: real trainers on one and two logical devices, a table, and nothing twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from clew_gui.study.scaling import conclude, measure, overlaps, time_run
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from tests.integration.commands.test_clew_command import clew


@pytest.mark.timeout(300)
def test_one_and_two_devices_are_timed_and_told_to_share_the_cores(home: Path, tmp_path: Path) -> None:
    file, environ = tmp_path / "study.toml", {"CLEW_HOME": str(home)}
    words = ("scaling", "softmax", "--devices", "1,2", "--data", "digits", "--steps", "60", "--json", "--save", file)
    done = clew(*words, environ=environ)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["devices"] for row in found["table"]] == [1, 2]
    assert all(row["images_per_second"] > 0 and row["batch_size"] == 100 for row in found["table"])
    assert found["table"][1]["speedup"] > 0
    assert found["sentence"].startswith("Two devices share ")
    assert found["sentence"].endswith("speed-up is to be expected.")
    assert found["sentence"] in done.stderr
    folders = [Path(run["run_dir"]) for run in found["runs"]]
    specs = [read_spec(RunFolder(folder).spec) for folder in folders]
    assert [(spec.strategy, spec.devices, spec.name) for spec in specs] == [
        ("mirrored", 1, "1 device"),
        ("mirrored", 2, "2 devices"),
    ]
    histories = [read_run(folder) for folder in folders]
    schemas = [history.schema for history in histories]
    assert [schema is not None and schema.replicas for schema in schemas] == [1, 2]
    assert schemas[1] is not None
    assert schemas[1].shared_cores >= 1
    assert all(schema is not None and schema.input_seconds > 0 for schema in schemas)
    assert [schema.reduce_seconds > 0 for schema in schemas if schema is not None] == [False, True]
    table = measure((time_run(histories[0], 1, 15), time_run(histories[1], 2, 15)), warm_up=15)
    assert found["detail"] == conclude(table, cores=schemas[1].shared_cores).detail
    shares = r"On two devices a step is \d+ % input, \d+ % computing and \d+ % reduction"
    assert bool(re.search(shares, found["detail"])) is not overlaps(table), "shares that do not add up are not told"
    again = clew("study", file, "--json", environ=environ)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == found, "nothing was trained again"
    assert again.stderr.count("finished before") == 2
