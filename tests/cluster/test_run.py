"""``clew run --site`` from the laptop to a node and back, through every scheduler of the mini cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.mini import MiniCluster

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(300)]

LIMIT_S = 200.0
"""Bringing the agent there, a job's start, TensorFlow's import on a cold disk."""

Clew = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def clew(cluster: MiniCluster, home: Path) -> Clew:
    """A command on the laptop, with runs of its own."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        program = ("env", f"CLEW_HOME={home}", sys.executable, "-P", "-m", "clew_gui")
        return cluster.call("on", "laptop", *program, *words, limit_s=LIMIT_S)

    return call


def last_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_run_is_queued_trains_on_a_node_and_streams_back(clew: Clew) -> None:
    done = clew("run", "softmax", "--preset", "tiny", "--data", "digits", "--site", "minicluster", "--json")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"], found["site"]) == ("FINISHED", 100, "minicluster")
    assert found["metrics"]["test_accuracy"] > 0.8
    assert clew("verify", "last").returncode == 0
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert (job["id"], job["phase"]) == (found["job_id"], "COMPLETED"), "its node was let go of at once"


@pytest.mark.parametrize("site", ["minicluster-pbs", "minicluster-mn", "minicluster-bw", "minicluster-ssh"])
def test_every_way_to_a_node_leads_to_the_same_result(site: str, clew: Clew) -> None:
    done = clew("run", "linear-regression", "--preset", "tiny", "--site", site, "--json")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    assert found["metrics"]["W"] == pytest.approx(-0.838869, abs=1e-6)


def test_the_script_that_is_shown_is_the_one_that_is_sent(clew: Clew, cluster: MiniCluster) -> None:
    words = ("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", "--time", "5", "--name", "twin")
    shown = clew(*words, "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr
    found = last_line(clew(*words, "--json"))
    sent = cluster.on("login", "cat", f".local/share/clew/jobs/{found['job']}/job.sh")
    script = last_line(shown)["script"].rstrip("\n")
    shown_job = next(line for line in script.splitlines() if line.startswith("clew_job=")).removeprefix("clew_job=")
    assert script.replace(shown_job, found["job"]) == sent
    assert "#SBATCH --time=00:05:00" in sent


def test_a_job_that_cannot_start_says_why_and_is_cancelled(clew: Clew, cluster: MiniCluster) -> None:
    words = ("--partition", "short", "--time", "5", "--detach")
    done = clew("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", *words)
    assert done.returncode == 0, done.stderr
    assert "Come back with: clew attach 1" in done.stdout
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert job["stage"] == "QUEUED"
    ended = clew("cancel", "j1")
    assert ended.returncode == 0, ended.stderr
    assert "cancelled" in ended.stdout
    assert cluster.job_state(job["id"]) == "CANCELLED"
    assert clew("attach", "1").returncode == 130


def test_a_run_is_left_alone_and_fetched_after_its_job_is_over(clew: Clew, cluster: MiniCluster) -> None:
    assert clew("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", "--detach").returncode == 0
    done = clew("attach", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert last_line(done)["steps"] == 100
    assert last_line(clew("show", "1", "--json"))["metrics"]["W"] == pytest.approx(-0.838869, abs=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--partition", "huge"), "partition"),
        (("--gpus", "9"), "GPU"),
        (("--time", "soon"), "time limit"),
    ],
)
def test_what_cannot_be_had_is_said_and_nothing_is_left(words: tuple[str, ...], said: str, clew: Clew) -> None:
    done = clew("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(clew("jobs", "--json").stdout) == []
    assert json.loads(clew("runs", "--json").stdout) == []


BATCH = """#!/bin/bash -l
module load python_ML
software=$HOME/.local/share/clew/software
export PYTHONPATH=$(echo $software/agent-* | tr ' ' :):$(echo $software/packages-* | tr ' ' :):$PYTHONPATH
cd batch && python3 -m clew_agent run spec.toml --out run
"""


def test_a_plain_batch_run_without_any_viewer_is_brought_home(clew: Clew, cluster: MiniCluster) -> None:
    words = ("run", "linear-regression", "--preset", "tiny", "--site", "minicluster", "--json")
    sent = last_line(clew(*words))  # so that the agent is there
    cluster.on("login", "mkdir -p batch && cat > batch/spec.toml", input='exercise = "linear-regression"\nseed = 3\n')
    cluster.on("login", "cat > batch.sh && sbatch --wait batch.sh", input=BATCH, limit_s=LIMIT_S)
    done = clew("fetch", "--site", "minicluster", "batch/run", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout.splitlines()[-1])
    assert (found["state"], found["steps"]) == ("FINISHED", 1000)
    assert clew("verify", found["run"]).returncode == 0
    listed = {run["run"]: run["number"] for run in json.loads(clew("runs", "--json").stdout)}
    assert listed == {sent["run"]: 1, found["run"]: 2}
    again = clew("fetch", "--site", "minicluster", sent["run"])
    assert again.returncode == 0, again.stderr
