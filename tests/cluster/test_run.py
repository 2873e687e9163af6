"""``clew run --site`` from the laptop to a node and back, through every scheduler of the mini cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clew_shared.journal.events import Attempt, Peer
from clew_shared.journal.files import Record, read_journal
from tests.cluster.commands import CALL_LIMIT_S, PROGRAM, RUN, Clew, last_line
from tests.cluster.mini import MiniCluster
from tests.integration.agents import wait_for

pytestmark = [pytest.mark.needs("cluster"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same run on this computer."""
    home = str(tmp_path_factory.mktemp("here"))
    environment = os.environ | {"CLEW_HOME": home}
    done = subprocess.run(
        [*PROGRAM, *RUN], env=environment, capture_output=True, text=True, timeout=CALL_LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return last_line(done)


def test_a_run_is_queued_trains_on_a_node_and_streams_back(clew: Clew, here: dict[str, Any]) -> None:
    done = clew(*RUN, "--site", "minicluster")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"], found["site"]) == ("FINISHED", 100, "minicluster")
    assert found["metrics"]["test_accuracy"] > 0.8
    assert (found["metrics"], found["best"]) == (here["metrics"], here["best"])
    assert clew("verify", "last").returncode == 0
    (job,) = json.loads(clew("jobs", "--json").stdout)
    assert (job["id"], job["phase"]) == (found["job_id"], "COMPLETED"), "its node was let go of at once"


def test_a_run_on_a_held_node_is_tried_there_and_nothing_of_that_stays(clew: Clew) -> None:
    assert clew("hold", "--site", "minicluster", "--detach").returncode == 0
    try:
        run = last_line(clew(*RUN, "--site", "minicluster"))["run"]
        done = clew("try", run, "--sample", "3", "--json")
        assert done.returncode == 0, done.stderr
        found = last_line(done)
        assert (found["run"], found["step"], found["sample"]) == (run, 100, 3)
        assert sum(found["probabilities"]) == pytest.approx(1, abs=1e-5)
        there = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
        assert not [words for words in there if " try " in words and run in words]
    finally:
        assert clew("let-go", "--site", "minicluster").returncode == 0
    refused = clew("try", run)
    assert refused.returncode == 2
    assert "its checkpoints are on the site" in refused.stderr


@pytest.mark.parametrize("site", ["minicluster-pbs", "minicluster-mn", "minicluster-bw", "minicluster-ssh"])
def test_every_way_to_a_node_leads_to_the_same_result(site: str, clew: Clew, here: dict[str, Any]) -> None:
    done = clew(*RUN, "--site", site)
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"], found["site"]) == ("FINISHED", 100, site)
    assert (found["metrics"], found["best"]) == (here["metrics"], here["best"])


def test_a_run_spreads_over_two_nodes_of_its_job(clew: Clew, here: dict[str, Any], home: Path) -> None:
    """One command asks the scheduler for two nodes; the processes on them meet at the nodes' own addresses."""
    done = clew(*RUN, "--strategy", "multi-worker", "--nodes", "2", "--site", "minicluster")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    assert found["metrics"] == pytest.approx(here["metrics"], rel=1e-3)
    journal = read_journal(home / "mirrors" / found["run"] / "journal.0001")
    events = [item.event for item in journal if isinstance(item, Record)]
    chief = next(event for event in events if isinstance(event, Attempt))
    joined, ended = (event for event in events if isinstance(event, Peer))
    assert (joined.status, ended.status) == ("joined", "ended")
    assert {chief.host, joined.host} <= {"node1", "node2", "node3"}
    assert chief.host != joined.host
    assert joined.address.startswith("10.77.")
    assert clew("verify", "last").returncode == 0


PROGRAMS = ("sbatch", "squeue", "sinfo", "sacct", "scancel", "scontrol", "srun", "salloc", "sacctmgr", "sprio")
PBS = ("PBS_DEFAULT", "PBS_SERVER", "PBS_DPREFIX", "PBS_JOBID", "PBS_WALLTIME", "PBS_NODEFILE", "PBSDEBUG")


@pytest.fixture
def nonsense(cluster: MiniCluster) -> Iterator[None]:
    """The student's start files export every variable that Slurm's programs have in them, but for those that say
    where the cluster is, and put a package that cannot be imported before the site's."""
    files = [Path("/usr/bin", name) for name in PROGRAMS] + [*Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")]
    form = rb"\0(S(?:ACCT|ALLOC|BATCH|CANCEL|CONTROL|INFO|LURMD?|PRIO|QUEUE|RUN)_[A-Z][A-Z0-9_]+)(?=\0)"
    names = {name.decode() for file in files for name in re.findall(form, file.read_bytes())}
    names -= {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"}
    assert {"SBATCH_PARTITION", "SQUEUE_USERS", "SLURM_CLUSTERS", "SLURM_JOB_ID", "SRUN_DEBUG"} <= names
    lines = "".join(f"export {name}=nonsense\n" for name in (*sorted(names), *PBS))
    lines += "export PYTHONPATH=$HOME/old\n"
    cluster.on("login", "mkdir -p old/zmq; echo 'raise ImportError(\"old zmq\")' >old/zmq/__init__.py")
    cluster.on("login", "cp .bashrc kept.bashrc; cat - kept.bashrc >.bashrc", input=lines)
    try:
        yield
    finally:
        cluster.on("login", "mv kept.bashrc .bashrc; rm -r old")


@pytest.mark.usefixtures("nonsense")
@pytest.mark.parametrize("site", ["minicluster", "minicluster-pbs", "minicluster-mn"])
def test_what_the_account_exports_changes_nothing(site: str, clew: Clew, cluster: MiniCluster) -> None:
    done = clew(*RUN, "--strategy", "multi-worker", "--nodes", "2", "--site", site, "--time", "10")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    shown = cluster.on("ctl", "scontrol", "--oneliner", "show", "job", found["job_id"])
    assert "Partition=debug" in shown
    assert "TimeLimit=00:10:00" in shown
    assert ("Account=nonsense" in shown) is (site != "minicluster-pbs"), "SBATCH_ACCOUNT, as the site names none"
    doctor = clew("site", "doctor", site, "--job")
    assert doctor.returncode == 0, doctor.stdout
    assert clew("hold", "--site", site, "--detach").returncode == 0
    (held,) = (job for job in json.loads(clew("jobs", "--json").stdout) if job["hold"])
    assert held["stage"] in ("QUEUED", "RUNNING")
    wait_for(lambda: json.loads(clew("jobs", "--json").stdout)[-1]["stage"] == "RUNNING", "the allocation")
    shell = clew("shell", "--site", site, "--", "hostname")
    assert shell.stdout.startswith("node"), shell.stderr
    assert clew("cancel", f"j{held['number']}").returncode == 0
    assert cluster.job_state(held["id"]) in ("CANCELLED", "COMPLETED", "COMPLETING")


def test_a_parameter_server_cluster_forms_on_three_nodes_of_a_job(clew: Clew, home: Path) -> None:
    """The coordinator, a server and two workers, which meet at the nodes' own addresses."""
    words = ("run", "ps-lab", "--data", "digits", "--steps", "100", "--nodes", "3", "--json")
    done = clew(*words, "--site", "minicluster-bw")
    assert done.returncode == 0, done.stderr
    found = last_line(done)
    assert (found["state"], found["steps"]) == ("FINISHED", 100)
    assert found["metrics"]["test_accuracy"] > 0.6, "old gradients cost something, and never the same"
    journal = read_journal(home / "mirrors" / found["run"] / "journal.0001")
    events = [item.event for item in journal if isinstance(item, Record)]
    joined = [event for event in events if isinstance(event, Peer) and event.status == "joined"]
    assert sorted((peer.role, peer.index) for peer in joined) == [("ps", 0), ("worker", 0), ("worker", 1)]
    chief = next(event for event in events if isinstance(event, Attempt))
    assert len({chief.host, *(peer.host for peer in joined if peer.role == "worker")}) == 3
    assert all(peer.address.startswith("10.77.") for peer in joined)
