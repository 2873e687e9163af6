"""``clew race`` as a person types it: real trainers one after the other, a table, a study that can be raced again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from clew_shared.study.study import read_study
from tests.integration.commands.test_clew_command import clew

LANES = ["Momentum 0.01", "Nesterov 0.012", "Adam 0.2"]


@pytest.mark.timeout(300)
def test_three_lanes_start_alike_and_one_wins(home: Path, tmp_path: Path) -> None:
    study = tmp_path / "race.toml"
    words = ("race", "linear-regression", "--preset", "tiny", "--lanes", "adam,momentum,nesterov", "--json")
    done = clew(*words, "--rate", "nesterov=0.012", "--save", study, environ={"CLEW_HOME": str(home)})
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    found = json.loads(line)
    assert (found["exercise"], found["steps"], found["metric"], found["target"]) == (
        "linear-regression",
        100,
        "loss",
        0.001,
    )
    assert sorted(lane["lane"] for lane in found["lanes"]) == sorted(LANES)
    assert [lane["place"] for lane in found["lanes"]] == [1, 2, 3]
    reached = [lane["reached"] for lane in found["lanes"]]
    assert reached == sorted(reached), "fewest steps first"
    assert "steps to loss 0.001" in done.stderr
    for lane in found["lanes"]:
        assert lane["lane"] in done.stderr
    folders = [Path(lane["run_dir"]) for lane in found["lanes"]]
    histories = [read_run(folder) for folder in folders]
    assert [history.fold.state for history in histories] == [RunState.FINISHED] * 3
    assert [history.fold.step for history in histories] == [100] * 3
    for metric in ("loss", "W", "b"):
        assert len({history.column(metric).values[:1].tobytes() for history in histories}) == 1
    specs = [read_spec(RunFolder(folder).spec) for folder in folders]
    assert {spec.study for spec in specs} == {found["study"]}
    kept = read_study(study)
    assert (kept.study, kept.steps, len(kept.lanes)) == (found["study"], 100, 3)
