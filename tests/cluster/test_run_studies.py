"""Studies, races and sweeps on the mini cluster: each is one job, and nothing of it runs twice."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from clew_shared.journal.files import attempts
from clew_shared.journal.lifecycle import RunState
from clew_shared.journal.run_folder import RunFolder
from clew_shared.reading import read_run
from clew_shared.spec import read_spec
from tests.cluster.commands import PROGRAM, Clew, KilledClew, last_line
from tests.cluster.mini import FOLDER, MiniCluster
from tests.integration.agents import wait_for

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]


def has_finished(folder: Path) -> bool:
    return bool(attempts(folder)) and read_run(folder).fold.state is RunState.FINISHED


def test_a_study_is_one_job_and_nothing_of_it_runs_twice(
    clew: Clew, cluster: MiniCluster, home: Path, tmp_path: Path
) -> None:
    """Ctrl+C ends the study's job; the same study goes on in a second one with what is missing."""
    file, there = str(tmp_path / "study.toml"), ("--site", "minicluster")
    asked = ("--data", "digits", "--devices", "1,2", "--steps", "60", "--save", file)
    command = ("on", "laptop", "env", f"CLEW_HOME={home}", *PROGRAM, "scaling", "softmax", *asked, *there)
    with subprocess.Popen(
        [FOLDER / "cluster", *command],
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as first:
        assert first.stdout is not None
        said = []
        for line in first.stdout:
            said.append(line)
            if line.startswith("1 device: Finished"):
                for child in psutil.Process(first.pid).children(recursive=True):
                    child.send_signal(signal.SIGINT)
    assert first.returncode == 130, said
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert job["stage"] == "ENDED", "it was let go of, with the runs that had not begun"
    before = {run["run"] for run in json.loads(clew("runs", "--json").stdout) if run["state"] == "FINISHED"}
    assert 1 <= len(before) <= 2
    done = clew("study", file, *there, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("finished before") == len(before)
    found = last_line(done)
    assert [(row["devices"], row["repeats"]) for row in found["table"]] == [(1, 1), (2, 1)]
    runs = json.loads(clew("runs", "--json").stdout)
    finished = {run["run"] for run in runs if run["state"] == "FINISHED"}
    assert finished == {run["run"] for run in found["runs"]} >= before
    assert (len(finished), len(runs) - len(finished)) in ((2, 0), (2, 1)), "one was stopped while it trained"
    assert all((home / "mirrors" / run["run"] / "journal.0001").exists() for run in runs)
    jobs = json.loads(clew("jobs", "--json").stdout)
    assert len(jobs) == (2 if len(before) == 1 else 1)


@pytest.mark.usefixtures("light")
def test_a_race_is_one_job_and_its_table_has_every_lane(clew: Clew) -> None:
    asked = ("linear-regression", "--lanes", "adam,momentum", "--steps", "50")
    done = clew("race", *asked, "--site", "minicluster", "--json")
    assert done.returncode == 0, done.stderr
    assert [(lane["state"], lane["steps"]) for lane in last_line(done)["lanes"]] == [("FINISHED", 50)] * 2
    assert len(json.loads(clew("jobs", "--json").stdout)) == 1


@pytest.mark.usefixtures("light")
def test_a_sweep_that_is_interrupted_at_any_moment_does_every_point_once(
    clew: Clew, cluster: MiniCluster, home: Path, tmp_path: Path
) -> None:
    """The command is killed while its job waits, while the first run trains and between runs; its job is cancelled; and
    the laptop is away until the last run has ended. Each time ``clew study`` goes on with what is left."""
    killed, file, there = KilledClew(cluster, home), str(tmp_path / "sweep.toml"), ("--site", "minicluster")
    over = ("--over", "learning_rate=0.01, 0.02, 0.03", "--data", "digits", "--steps", "8000", "--save", file)
    nodes = "nodename=node[1-3]"

    def waits(line: str) -> bool:
        return line.startswith("It waits")

    cluster.on("root@login", "scontrol", "update", nodes, "state=drain", "reason=test")
    try:
        said = killed("sweep", "softmax", *over, *there, when=waits)
        assert "3 runs go to" in said
        said = killed("study", file, *there, when=waits)
        assert "3 runs are on" in said, "none has begun, and all are on their way"
    finally:
        cluster.on("root@login", "scontrol", "update", nodes, "state=resume")
    said = killed("study", file, *there, when=lambda line: "step" in line)
    assert "3 runs are on" in said
    assert "Finished" not in said, "the first run trains"

    def cancelled(line: str) -> bool:
        if ": Finished" in line:  # now: a busy machine is slow to end a command, and the other two may have ended then
            cluster.on("root@login", "scancel", "--user=student")
        return ": Finished" in line

    killed("study", file, *there, when=cancelled)
    wait_for(lambda: not cluster.on("login", "squeue", "--noheader"), "the end of the cancelled job")

    said = killed("study", file, *there, when=lambda line: "on Mini cluster" in line)
    assert 1 <= said.count("finished before") <= 2, said
    mirrors = [folder for folder in (home / "mirrors").iterdir() if folder.is_dir()]
    on_site = [cluster.run_there(folder.name).path for folder in mirrors]
    wait_for(lambda: sum(map(has_finished, on_site)) == 3, "the last run's end")
    done = clew("study", file, *there, "--json")
    assert done.returncode == 0, done.stderr
    assert "to Mini cluster" not in done.stderr
    assert len(json.loads(clew("jobs", "--json").stdout)) == 2, "nothing was left to send"
    runs = json.loads(clew("runs", "--json").stdout)
    finished = [run for run in runs if run["state"] == "FINISHED"]
    specs = [read_spec(RunFolder(home / "mirrors" / run["run"]).spec) for run in finished]
    assert sorted(str(spec.params["learning_rate"]) for spec in specs) == ["0.01", "0.02", "0.03"]
    assert len(runs) - len(finished) <= 1, "the one that trained when its job was cancelled"
