"""``clew scaling`` as a person types it: real trainers on one and two logical devices, a table, and nothing twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

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
    schemas = [read_run(folder).schema for folder in folders]
    assert [schema is not None and schema.replicas for schema in schemas] == [1, 2]
    assert schemas[1] is not None
    assert schemas[1].shared_cores >= 1
    assert all(schema is not None and schema.input_seconds > 0 for schema in schemas)
    assert [schema.reduce_seconds > 0 for schema in schemas if schema is not None] == [False, True]
    assert re.search(r"On two devices a step is \d+ % input, \d+ % computing and \d+ % reduction", found["detail"])
    again = clew("study", file, "--json", environ=environ)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == found, "nothing was trained again"
    assert again.stderr.count("finished before") == 2
